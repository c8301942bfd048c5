"""The interfaces of aggregated logs: those for callers, and those that a storage must have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from submit_tf_job.hadoop_logs.cursor import Region

# a log file's bytes are read in pieces of this size
STEP = 1024 * 1024
Extent = tuple[int, int]


class Damaged(Exception):
    """An aggregated log file is incomplete, or not in a format that can be read."""


class RangeSource(Protocol):
    """An open file with random access."""

    @property
    def size(self) -> int:
        """Size in bytes."""

    def read_range(self, start: int, length: int) -> bytes:
        """Read at most `length` bytes from `start`; fewer only where the file ends."""


class DirectoryEntry(Protocol):
    """One file or directory of a listing."""

    @property
    def name(self) -> str:
        """Last component of the path."""

    @property
    def size(self) -> int:
        """Size in bytes."""

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""

    @property
    def modified_ms(self) -> int:
        """Time of the last change, in milliseconds since the epoch."""


class LogStore(Protocol):
    """The storage of the logs; a missing file raises FileNotFoundError."""

    def list_dir(self, path: str) -> Sequence[DirectoryEntry]:
        """List a directory."""

    def open(self, path: str) -> RangeSource:
        """Open a file for random access."""


@dataclass(frozen=True)
class Snapshot:
    """One upload of one log file by a NodeManager.

    Attributes:
        container_id: The container that wrote the log file.
        node: NodeId, `host:port`.
        name: File name in the container's log directory, as text; not safe as a path.
        size: Number of bytes.
        uploaded_ms: Time of the upload, in milliseconds since the epoch.
        modified_ms: When the log file itself was last changed; None if the format does not store
            that.
        region: The part of the node file that contains the log file's bytes.
        extents: Position and length of each piece of the log file's bytes in the inflated region.
    """

    container_id: str
    node: str
    name: str
    size: int
    uploaded_ms: int
    modified_ms: int | None
    region: Region = field(repr=False, compare=False)
    extents: tuple[Extent, ...] = field(repr=False, compare=False)

    def stream(self, start: int = 0) -> Iterator[bytes]:
        """Read the log file from an offset to its end, in pieces of at most 1 MiB.

        Raises:
            Damaged: The node file is incomplete, or not in a format that can be read.
        """
        cursor = self.region.cursor()
        for position, length in self.extents:
            passed = min(start, length)
            start -= passed
            left = length - passed
            if left:
                cursor.skip(position + passed - cursor.position)
            while left:
                data = cursor.read(min(left, STEP))
                if not data:
                    raise self.region.source.damaged(f"a log file ends {left} bytes too early")
                left -= len(data)
                yield data

    def read(self) -> bytes:
        """Read the whole log file at once; raises the same errors as `stream`."""
        return b"".join(self.stream())


@dataclass(frozen=True)
class CollectedFile:
    """One log file of a container.

    Attributes:
        name: File name.
        snapshots: Its uploads, oldest first; several only under rolling aggregation (or with
            several log directories of one node).
    """

    name: str
    snapshots: tuple[Snapshot, ...]

    @property
    def size(self) -> int:
        """Bytes of the newest snapshot. `stream` reads more bytes if older snapshots have lines
        that the newest lacks.
        """
        return self.snapshots[-1].size

    def stream(self, *, tail: int | None = None) -> Iterator[bytes]:
        """Read the log file, or its last `tail` bytes, in pieces.

        The uploads of a rolled log are joined: an upload that begins with the whole previous upload
        replaces it; any other upload is appended.

        Raises:
            Damaged: As for `Snapshot.stream`.
        """
        segments = _join_segments(self.snapshots)
        start = 0
        if tail is not None:
            start = max(0, sum(snapshot.size for snapshot in segments) - tail)
        for snapshot in segments:
            if start < snapshot.size:
                yield from snapshot.stream(start)
            start = max(0, start - snapshot.size)


@dataclass(frozen=True)
class ContainerLogs:
    """The log files of one container, sorted by name."""

    container_id: str
    node: str
    files: tuple[CollectedFile, ...]

    def file(self, name: str) -> CollectedFile | None:
        """Return the file with a given name; None if there is no such file."""
        return next((file for file in self.files if file.name == name), None)


# --- rolled logs ---


def _join_segments(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    segments: list[Snapshot] = []
    for snapshot in snapshots:
        if segments and _continues_snapshot(segments[-1], snapshot):
            segments[-1] = snapshot
        else:
            segments.append(snapshot)
    return segments


def _continues_snapshot(old: Snapshot, new: Snapshot) -> bool:
    """Return whether the new snapshot begins with all of the old one."""
    if new.size < old.size:
        return False
    if new.modified_ms is not None and (new.modified_ms, new.size) == (old.modified_ms, old.size):
        return True
    theirs, pieces = b"", new.stream()
    for mine in old.stream():
        while len(theirs) < len(mine):
            theirs += next(pieces)
        if not theirs.startswith(mine):
            return False
        theirs = theirs[len(mine) :]
    return True
