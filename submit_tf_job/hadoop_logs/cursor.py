"""Read forward through a part of a remote file, in few and small requests."""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from typing import NamedTuple, Protocol

from submit_tf_job.hadoop_logs.interfaces import Damaged, RangeSource

TAIL = 64 * 1024  # the index of a TFile of 42 blocks is 2 kB; 64 KiB nearly always hold all of it
SMALL_REGION = 1024 * 1024  # read with one request and kept
FIRST_WINDOW = 256  # after a jump: a chunk header is 5 bytes, a log file's header 40
LARGEST_WINDOW = 4 * 1024 * 1024
# larger steps make zlib slow (measured: 50 instead of 140 MB/s at 4 MiB)
DEFLATED_STEP = 256 * 1024
INFLATED_STEP = 1024 * 1024
DECOMPRESSOR = 44 * 1024  # memory of zlib's window and tables


class Piece(NamedTuple):
    """The last inflated bytes of the stream at `start`, and how to continue after them.

    Attributes:
        start: Where the stream begins in the file.
        position: Position of the first of these bytes.
        data: The bytes.
        offset: Where the next byte to inflate is in the file.
        inflate: The state of the decompressor there.
    """

    start: int
    position: int
    data: bytes
    offset: int
    inflate: zlib._Decompress


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

    def note(self) -> None:
        """Record how many bytes are kept."""
        size = len(self._tail) + len(self._kept[1])
        if self.piece:
            size += len(self.piece.data) + DECOMPRESSOR
        self._memory.note(self, size)

    def forget(self) -> None:
        """Drop all cached bytes; later reads request them again."""
        self._tail, self._kept, self.piece = b"", (0, b""), None

    def damaged(self, what: str) -> Damaged:
        """Return the error for damage in this file."""
        return Damaged(f"{self.where}: the log file is damaged: {what}")


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

    A stream can only be inflated from its start. The source keeps the last inflated piece, so that
    a tail that is read twice, or small log files one after another, are inflated once.

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
        self._buffer = b""
        self._inflate = zlib.decompressobj()
        self._at = start  # of the next byte to inflate
        self._fetched, self._fetched_at = b"", start
        self._fetch = DEFLATED_STEP

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
        """Skip up to `length` bytes, by inflating them."""
        begun, target = self.position, self.position + length
        if target > self.position + len(self._buffer):
            self._go_to_piece(target)
        while self.position < target and self.read(min(target - self.position, INFLATED_STEP)):
            pass
        return self.position - begun

    def _go_to_piece(self, target: int) -> None:
        """Continue in the last inflated piece if it is ahead and not behind `target`."""
        piece = self._source.piece
        if piece and piece.start == self._start and self.position < piece.position <= target:
            self.position, self._buffer = piece.position, piece.data
            self._inflate, self._at = piece.inflate.copy(), piece.offset
            self._fetched, self._fetched_at = b"", piece.offset

    def _more(self) -> bool:
        """Fill the buffer with the next inflated bytes; return False at the end."""
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
        self._source.piece = Piece(
            self._start, self.position, self._buffer, self._at, self._inflate.copy()
        )
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
