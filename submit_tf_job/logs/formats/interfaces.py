"""What a reader of aggregated logs sees, and what it needs from a storage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from submit_tf_job.errors import BadAnswer

__all__ = ["ContainerLogs", "Content", "Damaged", "Entry", "LogFile", "LogStore", "RangeReader", "Snapshot"]


class Damaged(BadAnswer):
    """An aggregated log file is not what Hadoop writes."""


class RangeReader(Protocol):
    """An open file that is read at any place."""

    @property
    def size(self) -> int:
        """Bytes."""

    def read_range(self, start: int, length: int) -> bytes:
        """Read at most `length` bytes from `start`; fewer only where the file ends."""


class Entry(Protocol):
    """One file or directory of a listing."""

    @property
    def name(self) -> str:
        """Last component of the path."""

    @property
    def size(self) -> int:
        """Bytes."""

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""

    @property
    def modified_ms(self) -> int:
        """Milliseconds since the epoch."""


class LogStore(Protocol):
    """Where the logs are: any object of `submit_tf_job.storage` is one.

    What is missing raises FileNotFoundError, what is not allowed AuthError.
    """

    def list_dir(self, path: str) -> Sequence[Entry]:
        """List a directory."""

    def open(self, path: str) -> RangeReader:
        """Open a file for reading at any place."""


class Content(Protocol):
    """The bytes of one uploaded log file."""

    def stream(self, start: int) -> Iterator[bytes]:
        """Read from `start` to the end in pieces of at most about a megabyte.

        Raises:
            Damaged: The file that holds them is not what Hadoop writes.
        """


@dataclass(frozen=True)
class Snapshot:
    """One log file as one NodeManager uploaded it once.

    Attributes:
        container_id: The container that wrote it.
        node: NodeId, `host:port`.
        name: File name in the container's log directory, as text; not safe as a path.
        size: Bytes that are there.
        declared_size: Bytes that the upload promised; more than `size` if the file shrank meanwhile, and what came after it is lost then.
        uploaded_ms: When, in milliseconds since the epoch.
        modified_ms: When the log file itself was last changed; None where the format does not say.
        content: Its bytes.
    """

    container_id: str
    node: str
    name: str
    size: int
    declared_size: int
    uploaded_ms: int
    modified_ms: int | None
    content: Content = field(repr=False, compare=False)

    @property
    def damaged(self) -> bool:
        """Whether bytes are missing."""
        return self.size < self.declared_size

    def stream(self, *, tail: int | None = None) -> Iterator[bytes]:
        """Read it, or its last `tail` bytes, in pieces."""
        return self.content.stream(0 if tail is None else max(0, self.size - tail))

    def read(self, *, tail: int | None = None) -> bytes:
        """Read it, or its last `tail` bytes, at once."""
        return b"".join(self.stream(tail=tail))


@dataclass(frozen=True)
class LogFile:
    """One log file of a container.

    Attributes:
        name: File name.
        snapshots: Its uploads, oldest first; several only under rolling aggregation (or with several log directories of one node).
    """

    name: str
    snapshots: tuple[Snapshot, ...]

    @property
    def size(self) -> int:
        """Bytes of the newest snapshot; what is read is more if older ones hold what it has not."""
        return self.snapshots[-1].size

    @property
    def damaged(self) -> bool:
        """Whether bytes are missing."""
        return self.snapshots[-1].damaged

    def stream(self, *, tail: int | None = None) -> Iterator[bytes]:
        """Read it, or its last `tail` bytes, in pieces.

        Uploads of a rolled log are joined: one that continues the one before replaces it, any other follows it.
        """
        segments = _joined(self.snapshots)
        if tail is not None:
            segments, tail = _last(segments, tail)
        for number, snapshot in enumerate(segments):
            yield from snapshot.stream(tail=tail if number == 0 else None)


@dataclass(frozen=True)
class ContainerLogs:
    """The log files of one container, sorted by name."""

    container_id: str
    node: str
    files: tuple[LogFile, ...]

    def file(self, name: str) -> LogFile | None:
        """Return the file of a name, if there is one."""
        return next((file for file in self.files if file.name == name), None)


# --- rolled logs ---


def _joined(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    segments: list[Snapshot] = []
    for snapshot in snapshots:
        if segments and _continues(segments[-1], snapshot):
            segments[-1] = snapshot
        else:
            segments.append(snapshot)
    return segments


def _continues(old: Snapshot, new: Snapshot) -> bool:
    """Tell whether the new snapshot begins with all of the old one."""
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


def _last(segments: list[Snapshot], tail: int) -> tuple[list[Snapshot], int]:
    """Return the segments that the last `tail` bytes lie in, and how many of them are of the first of those."""
    for number in range(len(segments) - 1, 0, -1):
        if segments[number].size >= tail:
            return segments[number:], tail
        tail -= segments[number].size
    return segments, tail
