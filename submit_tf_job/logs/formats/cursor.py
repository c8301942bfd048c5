"""Read forward through a part of a remote file, in few and small requests."""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from typing import NamedTuple, Protocol

from submit_tf_job.logs.formats.interfaces import Damaged, RangeSource

__all__ = ["INFLATED_STEP", "Cursor", "InflatingCursor", "Memory", "PlainCursor", "Source"]

TAIL = 64 * 1024  # the index of a TFile of 42 blocks is 2 kB; 64 KiB nearly always hold all of it
SMALL_REGION = 1024 * 1024  # read with one request and kept
FIRST_WINDOW = 256  # after a jump: a chunk header is 5 bytes, a log file's header 40
LARGEST_WINDOW = 4 * 1024 * 1024
# larger steps make zlib slow (measured: 50 instead of 140 MB/s at 4 MiB)
DEFLATED_STEP = 256 * 1024
INFLATED_STEP = 1024 * 1024
MARK_EVERY = 4 * 1024 * 1024
MARK_SIZE = 44 * 1024  # zlib's window and tables
MOST_MARKS = 16


class Mark(NamedTuple):
    """The state of a decompressor before byte `position`, after `offset` bytes of the file."""

    position: int
    offset: int
    inflate: zlib._Decompress


class Piece(NamedTuple):
    """Cache of the last inflated bytes, for consecutive small log files."""

    start: int
    mark: Mark
    data: bytes


class Marks:
    """Up to `MOST_MARKS` marks of one stream, at growing distances."""

    def __init__(self) -> None:
        self._marks: list[Mark] = []
        self._every = MARK_EVERY
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._marks)

    def wants(self, position: int) -> bool:
        """Return whether to add a mark at `position`."""
        last = next((mark.position for mark in reversed(self._marks)), 0)
        return position - last >= self._every

    def add(self, mark: Mark) -> None:
        """Add a mark; drop every other one if there are more than `MOST_MARKS`."""
        with self._lock:
            self._marks = sorted(
                {**{old.position: old for old in self._marks}, mark.position: mark}.values(),
                key=lambda one: one.position,
            )
            if len(self._marks) > MOST_MARKS:
                self._marks = self._marks[1::2]
                self._every *= 2

    def nearest(self, position: int) -> Mark | None:
        """Return the last mark up to `position`."""
        return next((mark for mark in reversed(self._marks) if mark.position <= position), None)


class Memory:
    """Memory limit for the caches of all sources; the least recently used cache is dropped first.

    Args:
        limit: Bytes.
    """

    def __init__(self, limit: int = 32 * 1024 * 1024) -> None:
        self._limit = limit
        self._held: OrderedDict[Source, int] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, source: Source, size: int) -> None:
        """Record how many bytes a source keeps."""
        with self._lock:
            self._held[source] = size
            self._held.move_to_end(source)
            while sum(self._held.values()) > self._limit and len(self._held) > 1:
                self._held.popitem(last=False)[0].forget()


class Source:
    """One remote file, with a cache of its end and of the last small region.

    Attributes:
        where: Its name in messages.
        size: Bytes; during a further upload only the valid ones.
    """

    def __init__(
        self,
        reader: RangeSource,
        where: str,
        *,
        memory: Memory | None = None,
        size: int | None = None,
    ) -> None:
        self.where = where
        self.size = reader.size
        if size is not None:
            self.size = min(size, reader.size)
        self._reader = reader
        self._memory = memory or Memory()
        self._tail = b""
        self._kept = (0, b"")
        self._marks: dict[int, Marks] = {}
        self.piece: Piece | None = None

    def read(self, start: int, length: int) -> bytes:
        """Read exactly `length` bytes.

        Raises:
            Damaged: The file is shorter.
        """
        if start < 0 or length < 0 or start + length > self.size:
            raise self.damaged(f"{length} bytes at {start} are outside of its {self.size}")
        for at, kept in ((self.size - len(self._tail), self._tail), self._kept):
            if at <= start and start + length <= at + len(kept):
                return kept[start - at : start - at + length]
        data = self._reader.read_range(start, length)
        if len(data) != length:
            raise self.damaged(f"only {len(data)} of {length} bytes at {start} were returned")
        return data

    def tail(self) -> bytes:
        """Return and keep the last bytes, at most `TAIL`."""
        length = min(TAIL, self.size)
        tail = self.read(self.size - length, length)
        self._tail = tail
        self.note()
        return tail

    def keep(self, start: int, length: int) -> None:
        """Read and keep a region, if it is small."""
        if length <= SMALL_REGION:
            self._kept = (start, self.read(start, length))
            self.note()

    def marks(self, start: int) -> Marks:
        """Return the marks of the compressed stream that begins at `start`."""
        return self._marks.setdefault(start, Marks())

    def note(self) -> None:
        """Record how many bytes are kept."""
        marks = sum(len(marks) for marks in list(self._marks.values()))
        size = len(self._tail) + len(self._kept[1]) + marks * MARK_SIZE
        if self.piece:
            size += len(self.piece.data)
        self._memory.note(self, size)

    def forget(self) -> None:
        """Drop all cached bytes; later reads request them again."""
        self._tail, self._kept, self._marks, self.piece = b"", (0, b""), {}, None

    def damaged(self, what: str) -> Damaged:
        """Return the error for damage in this file."""
        return Damaged(
            f"{self.where}: the log file is damaged: {what}",
            hint="Other nodes' logs may still be read.",
        )


class Cursor(Protocol):
    """A position in a run of bytes that only moves forward.

    Attributes:
        position: Bytes passed so far.
    """

    position: int

    def read(self, length: int) -> bytes:
        """Read up to `length` bytes; fewer, down to none, only at the end."""

    def skip(self, length: int) -> int:
        """Skip up to `length` bytes; return the number skipped."""


class PlainCursor:
    """Cursor over stored bytes; skipping needs no request."""

    def __init__(self, source: Source, start: int, length: int) -> None:
        self.position = 0
        self._source = source
        self._start = start
        self._length = length
        self._buffer = b""
        self._buffer_at = 0  # offset of the buffer in the region
        self._window = FIRST_WINDOW

    def read(self, length: int) -> bytes:
        """Read up to `length` bytes."""
        length = min(length, self._length - self.position)
        data = self._buffered(length)
        self.position += len(data)
        while len(data) < length:
            self._fill(length - len(data))
            more = self._buffered(length - len(data))
            self.position += len(more)
            data += more
        return data

    def skip(self, length: int) -> int:
        """Skip up to `length` bytes."""
        length = min(length, self._length - self.position)
        self.position += length
        if self.position > self._buffer_at + len(self._buffer) + self._window:
            self._window = FIRST_WINDOW
        return length

    def _buffered(self, length: int) -> bytes:
        offset = self.position - self._buffer_at
        if offset < 0:
            return b""
        return self._buffer[offset : offset + length]

    def _fill(self, wanted: int) -> None:
        size = min(max(self._window, wanted), self._length - self.position)
        self._buffer = self._source.read(self._start + self.position, size)
        self._buffer_at = self.position
        self._window = min(self._window * 4, LARGEST_WINDOW)


class InflatingCursor:
    """Cursor over an inflated zlib stream, which Hadoop calls `gz` (Compression.Algorithm.GZ).

    A stream can only be inflated from its start, so states of the decompressor are kept (`Marks`):
    a part is not inflated twice.

    Args:
        source: The file.
        start: Where the stream begins.
        length: Stored bytes.
        chained: Whether further streams follow the first one, and the last may be cut off.
    """

    def __init__(self, source: Source, start: int, length: int, *, chained: bool = False) -> None:
        self.position = 0
        self._source = source
        self._start = start
        self._end = start + length
        self._chained = chained
        self._marks = source.marks(start)
        self._buffer = b""
        self._resume(Mark(0, start, zlib.decompressobj()))

    def _resume(self, mark: Mark) -> None:
        self.position = mark.position
        self._buffer = b""
        self._inflate = mark.inflate.copy()
        self._at = mark.offset  # of the next byte to inflate
        self._fetched, self._fetched_at = b"", mark.offset
        self._fetch = DEFLATED_STEP
        self._before = mark
        self._ahead = 0  # how far `position` and the buffer's bytes are ahead of the decompressor

    def read(self, length: int) -> bytes:
        """Read up to `length` bytes."""
        parts: list[bytes] = []
        while length > 0 and (self._buffer or self._more()):
            part = self._buffer[:length]
            self._buffer = self._buffer[len(part) :]
            self.position += len(part)
            length -= len(part)
            parts.append(part)
        return b"".join(parts)

    def skip(self, length: int) -> int:
        """Skip up to `length` bytes, inflating them where no mark is nearer."""
        begun, target = self.position, self.position + length
        mark = self._marks.nearest(target)
        if (
            target > self.position + len(self._buffer)
            and not self._take_piece(target)
            and mark is not None
            and mark.position > self.position
        ):
            self._resume(mark)
        self._read_up_to(target)
        if self.position - begun >= MARK_EVERY:
            self._mark(self._before)
        return self.position - begun

    def _read_up_to(self, target: int) -> None:
        while self.position < target and self.read(min(target - self.position, INFLATED_STEP)):
            pass

    def _take_piece(self, target: int) -> bool:
        """Move to `target` if the last inflated bytes contain it; return whether they do."""
        piece = self._source.piece
        if (
            piece is None
            or piece.start != self._start
            or not piece.mark.position <= target < piece.mark.position + len(piece.data)
        ):
            return False
        self._resume(piece.mark)
        self._buffer, self._ahead = piece.data, len(piece.data)
        return True

    def _more(self) -> bool:
        """Fill the buffer with the next inflated bytes; return False at the end."""
        if self._ahead:
            target, self.position, self._ahead = self.position, self.position - self._ahead, 0
            self._read_up_to(target)
            return bool(self._buffer) or self._more()
        self._before = Mark(self.position, self._at, self._inflate.copy())
        if self._marks.wants(self.position):
            self._mark(self._before)
        while not self._buffer:
            if self._inflate.eof:
                if not self._chained or self._at >= self._end:
                    return False
                self._inflate = zlib.decompressobj()
            deflated = self._deflated()
            if not deflated:
                if self._chained:
                    return False
                raise self._source.damaged("a compressed part ends too early")
            try:
                self._buffer = self._inflate.decompress(deflated, INFLATED_STEP)
            except zlib.error as error:
                raise self._source.damaged(f"a compressed part cannot be read ({error})") from None
            self._at += len(deflated) - len(
                self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
            )
        self._source.piece = Piece(self._start, self._before, self._buffer)
        self._source.note()
        return True

    def _deflated(self) -> bytes:
        """Return the next bytes to inflate, fetched in growing parts."""
        offset = self._at - self._fetched_at
        if offset >= len(self._fetched):
            self._fetched = self._source.read(self._at, min(self._fetch, self._end - self._at))
            self._fetched_at, offset = self._at, 0
            self._fetch = min(self._fetch * 2, LARGEST_WINDOW)
        return self._fetched[offset : offset + DEFLATED_STEP]

    def _mark(self, mark: Mark) -> None:
        self._marks.add(mark)
        self._source.note()
