"""A storage that counts what is read of it."""

from __future__ import annotations

from dataclasses import dataclass

from submit_tf_job.storage import RangeReader, Stat, Storage


@dataclass
class Counting:
    """A storage that counts what is read."""

    storage: Storage
    listings: int = 0
    requests: int = 0
    asked: int = 0

    def list_dir(self, path: str) -> list[Stat]:
        self.listings += 1
        return self.storage.list_dir(path)

    def open(self, path: str) -> RangeReader:
        return _Counted(self, self.storage.open(path))


@dataclass
class _Counted:
    counting: Counting
    reader: RangeReader

    @property
    def size(self) -> int:
        return self.reader.size

    def read_range(self, start: int, length: int) -> bytes:
        self.counting.requests += 1
        self.counting.asked += length
        return self.reader.read_range(start, length)
