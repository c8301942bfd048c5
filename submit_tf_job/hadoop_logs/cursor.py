"""Read forward through a part of a remote file, with few small requests: bytes, numbers, texts."""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable
from io import BytesIO
from typing import NamedTuple

from submit_tf_job.hadoop_logs.interfaces import STEP, Damaged, RangeSource

TAIL = 64 * 1024  # the index of a TFile of 42 blocks is 2 kB; 64 KiB nearly always hold all of it
SMALL_REGION = 1024 * 1024  # read with one request and kept
FIRST_WINDOW = 256  # after a jump: a chunk header is 5 bytes, a log file's header 40
LARGEST_WINDOW = 4 * 1024 * 1024
# larger steps make zlib slow (measured: 50 instead of 140 MB/s at 4 MiB)
DEFLATED_STEP = 256 * 1024
MAX_ENTRIES = 1_000_000  # blocks, or log files, of one node file
MAX_KEY = 64 * 1024
DECOMPRESSOR = 44 * 1024  # memory of zlib's window and tables


class Piece(NamedTuple):
    """The bytes of a zlib stream that were inflated last, and how to continue after them.

    Attributes:
        start: Position in the file where the stream begins.
        position: Position in the inflated stream of the first byte of `data`.
        data: The bytes.
        offset: How many compressed bytes of the stream were read from the file.
        inflate: The state of the decompressor after `data`, including compressed bytes that it has
            not inflated yet.
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
        where: The file's name in messages.
        size: Number of bytes; while a further upload is being appended, only the number of valid
            bytes.
    """

    def __init__(
        self, reader: RangeSource, where: str, memory: Memory, size: int | None = None
    ) -> None:
        self.where = where
        self.size = reader.size if size is None else min(size, reader.size)
        self._reader = reader
        self._memory = memory
        self._tail = b""
        self._kept = (0, b"")
        self.piece: Piece | None = None

    def read(self, start: int, length: int) -> bytes:
        """Read exactly `length` bytes.

        Raises:
            Damaged: The file ends before that.
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
        """Read and keep a region of at most `SMALL_REGION` bytes; do nothing for a larger one."""
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

    def fields(self, data: bytes) -> Fields:
        """Return a reader of the fields in some bytes of this file."""
        return Fields(BytesIO(data).read, self.damaged)


class PlainCursor:
    """Cursor over stored bytes; skipping needs no request.

    Attributes:
        position: Bytes passed so far; a cursor only moves forward.
    """

    def __init__(self, source: Source, start: int, length: int) -> None:
        self.position = 0
        self._source = source
        self._start = start
        self._length = length
        self._buffer = b""  # the bytes from `position` on that were requested
        self._window = FIRST_WINDOW

    def read(self, length: int) -> bytes:
        """Read up to `length` bytes; fewer, down to none, only at the end."""
        length = min(length, self._length - self.position)
        if length > len(self._buffer):
            begin = self.position + len(self._buffer)
            size = min(max(self._window, self.position + length - begin), self._length - begin)
            self._buffer += self._source.read(self._start + begin, size)
            self._window = min(self._window * 4, LARGEST_WINDOW)
        data = self._buffer[:length]
        self.skip(length)
        return data

    def skip(self, length: int) -> int:
        """Skip up to `length` bytes; return the number skipped."""
        length = min(length, self._length - self.position)
        if length > len(self._buffer):
            self._window = FIRST_WINDOW
        self._buffer = self._buffer[length:]
        self.position += length
        return length


class InflatingCursor:
    """Cursor over an inflated zlib stream, which Hadoop calls `gz` (Compression.Algorithm.GZ).

    A stream can only be inflated from its start. The source keeps the last inflated piece, so that
    a tail that is read twice, or small log files one after another, are inflated once.
    """

    def __init__(self, source: Source, start: int, length: int) -> None:
        self.position = 0
        self._source = source
        self._start = start
        self._stored = PlainCursor(source, start, length)
        self._buffer = b""
        self._inflate = zlib.decompressobj()

    def read(self, length: int) -> bytes:
        """Read up to `length` bytes; fewer, down to none, only at the end.

        Raises:
            Damaged: The stream is incomplete, or cannot be inflated.
        """
        parts: list[bytes] = []
        while length > 0 and (self._buffer or self._fill_buffer()):
            part = self._buffer[:length]
            self._buffer = self._buffer[len(part) :]
            self.position += len(part)
            length -= len(part)
            parts.append(part)
        return b"".join(parts)

    def skip(self, length: int) -> int:
        """Skip up to `length` bytes, by inflating them; return the number skipped."""
        begun, target = self.position, self.position + length
        if target > self.position + len(self._buffer):
            self._go_to_piece(target)
        while self.position < target and self.read(min(target - self.position, STEP)):
            pass
        return self.position - begun

    def _go_to_piece(self, target: int) -> None:
        """Continue at the last inflated piece if it lies between here and `target`."""
        piece = self._source.piece
        if piece and piece.start == self._start and self.position < piece.position <= target:
            self.position, self._buffer = piece.position, piece.data
            self._inflate = piece.inflate.copy()
            self._stored.skip(piece.offset - self._stored.position)

    def _fill_buffer(self) -> bool:
        """Fill the buffer with the next inflated bytes; return False at the end."""
        while not self._buffer:
            if self._inflate.eof:
                return False
            deflated = self._inflate.unconsumed_tail or self._stored.read(DEFLATED_STEP)
            if not deflated:
                raise self._source.damaged("a compressed part ends too early")
            try:
                self._buffer = self._inflate.decompress(deflated, STEP)
            except zlib.error as error:
                raise self._source.damaged(f"a compressed part cannot be read ({error})") from None
        self._source.piece = Piece(
            self._start, self.position, self._buffer, self._stored.position, self._inflate.copy()
        )
        self._source.note()
        return True


Cursor = PlainCursor | InflatingCursor


class Region(NamedTuple):
    """A part of a file that is compressed as a whole.

    Attributes:
        source: The file.
        compression: `none`, or `gz` (one zlib stream).
        start: Offset in the file.
        stored: Size in the file, which is the compressed size.
    """

    source: Source
    compression: str
    start: int
    stored: int

    def cursor(self) -> Cursor:
        """Return a cursor at the beginning of the region.

        Raises:
            Damaged: The compression is not supported, or the file ends before the region does.
        """
        self.source.keep(self.start, self.stored)
        if self.compression == "gz":
            return InflatingCursor(self.source, self.start, self.stored)
        if self.compression == "none":
            return PlainCursor(self.source, self.start, self.stored)
        raise self.source.damaged(
            f"its compression {self.compression!r} is not supported (none and gz are)"
        )

    def fields(self) -> Fields:
        """Return a reader of the region's fields, from its beginning."""
        return Fields(self.cursor().read, self.source.damaged)


# --- numbers and texts ----------------------------------------------------------------------------


class Fields:
    """Reader of consecutive fields. Each method raises `Damaged` if the field is incomplete or not
    valid.

    Args:
        read: Returns up to N bytes.
        damaged: Returns the error with a message.
    """

    def __init__(self, read: Callable[[int], bytes], damaged: Callable[[str], Damaged]) -> None:
        self._read = read
        self.damaged = damaged

    def exactly(self, length: int, *, limit: int = MAX_KEY) -> bytes:
        """Read exactly `length` bytes.

        Raises:
            Damaged: `length` is greater than `limit`, or fewer bytes are left.
        """
        if not 0 <= length <= limit:
            raise self.damaged(f"a length of {length} where at most {limit} can be")
        data = self._read(length)
        if len(data) != length:
            raise self.damaged(f"it ends after {len(data)} of {length} bytes")
        return data

    def integer(self, size: int) -> int:
        """Read a signed big-endian number."""
        return int.from_bytes(self.exactly(size), "big", signed=True)

    def unsigned(self, size: int) -> int:
        """Read an unsigned big-endian number."""
        return int.from_bytes(self.exactly(size), "big")

    def vint(self) -> int:
        """Read a TFile integer (org.apache.hadoop.io.file.tfile.Utils.readVLong), which has another
        format than WritableUtils' integers.
        """
        first = self.integer(1)
        if first >= -32:
            return first
        for bottom, base, more in ((-72, 52, 1), (-104, 88, 2), (-120, 112, 3)):
            if first >= bottom:
                return (first + base) << (8 * more) | self.unsigned(more)
        return self.integer(first + 129)

    def count(self, limit: int) -> int:
        """Read a TFile integer from 0 to `limit`; raise `Damaged` for any other."""
        number = self.vint()
        if not 0 <= number <= limit:
            raise self.damaged(f"a count of {number} where at most {limit} can be")
        return number

    def string(self) -> str:
        """Read a TFile text (Utils.readString): length and UTF-8. The length -1 means null, which
        is returned as "".
        """
        length = self.vint()
        return "" if length == -1 else self.exactly(length).decode("utf-8", "replace")

    def utf(self) -> str:
        """Read a text of `DataOutput.writeUTF`."""
        return self.decode(self.exactly(self.unsigned(2)))

    def decode(self, data: bytes) -> str:
        """Decode modified UTF-8: NUL as two bytes, characters beyond 0xFFFF as two surrogates of
        three bytes each.
        """
        surrogates = "surrogatepass" if b"\xed" in data else "replace"
        try:
            text = data.replace(b"\xc0\x80", b"\0").decode("utf-8", surrogates)
            return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        except UnicodeError:
            raise self.damaged("a text is not modified UTF-8") from None
