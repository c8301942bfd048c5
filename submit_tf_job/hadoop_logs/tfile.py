"""Read TFile, the default format of aggregated logs, inside its container BCFile.

    BCFile   magic · data blocks from offset 16 on · meta blocks · meta index · trailer (28)
    block    records, compressed as a whole (`none`, or `gz`: one zlib stream)
    record   key length · key (a container id) · value in chunks
    value    for each log file: name · length in decimal digits · bytes

Source: org.apache.hadoop.io.file.tfile.{BCFile,TFile,Chunk,Utils},
org.apache.hadoop.yarn.logaggregation.AggregatedLogFormat.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO

from submit_tf_job.hadoop_logs.cursor import (
    INFLATED_STEP,
    Cursor,
    InflatingCursor,
    PlainCursor,
    Source,
)
from submit_tf_job.hadoop_logs.interfaces import Damaged
from submit_tf_job.hadoop_logs.javaobject import MAX_KEY, Fields

MAGIC = bytes.fromhex("d111d36891b5d7b639df414092bae150")
TRAILER = 28
MAX_INDEX = 64 * 1024 * 1024
MAX_ENTRIES = 1_000_000
# Keys that are not container ids (AggregatedLogFormat)
RESERVED = frozenset({"VERSION", "APPLICATION_ACL", "APPLICATION_OWNER"})
Extent = tuple[int, int]


@dataclass(frozen=True)
class Block:
    """One data block.

    Attributes:
        start: Offset in the file.
        stored: Its size in the file.
        records: Number of records; None to read until it ends.
        chained: Whether it has several compressed streams.
    """

    start: int
    stored: int
    records: int | None
    chained: bool = False


@dataclass(frozen=True)
class Index:
    """The positions of the records."""

    compression: str
    blocks: tuple[Block, ...]

    def cursor(self, source: Source, block: Block) -> Cursor:
        """Return a cursor at the beginning of a block."""
        source.keep(block.start, block.stored)
        if self.compression == "gz":
            return InflatingCursor(source, block.start, block.stored, chained=block.chained)
        return PlainCursor(source, block.start, block.stored)


@dataclass(frozen=True)
class TFileContent:
    """The bytes of one log file: parts of an inflated block, between chunk headers."""

    source: Source
    index: Index
    block: Block
    extents: tuple[Extent, ...]

    def stream(self, start: int) -> Iterator[bytes]:
        """Read from `start` to the end."""
        cursor = self.index.cursor(self.source, self.block)
        for position, length in self.extents:
            passed = min(start, length)
            start -= passed
            left = length - passed
            if not left:
                continue
            cursor.skip(position + passed - cursor.position)
            while left:
                data = cursor.read(min(left, INFLATED_STEP))
                if not data:
                    raise self.source.damaged("it ends too early")
                left -= len(data)
                yield data


@dataclass(frozen=True)
class StoredLog:
    """One log file of one record."""

    container_id: str
    name: str
    size: int
    declared_size: int
    content: TFileContent


# --- the index ---


def read_index(source: Source) -> Index:
    """Read the index at the end of the file, nearly always with one request.

    Raises:
        Damaged: It is not a complete TFile.
    """
    tail = source.tail()
    if source.size < TRAILER + len(MAGIC) or not tail.endswith(MAGIC):
        raise source.damaged("it does not end as a TFile does")
    trailer = Fields(BytesIO(tail[-TRAILER:]).read, source.damaged)
    offset, major = trailer.integer(8), trailer.integer(2)
    if major != 1:
        raise source.damaged(f"its format has version {major}, only 1 is known")
    meta = _meta_index(source, offset)
    compression, blocks = _bc_index(source, meta)
    records = _record_counts(source, meta, len(blocks))
    return Index(
        compression,
        tuple(
            Block(start, stored, count)
            for (start, stored), count in zip(blocks, records, strict=True)
        ),
    )


def _part(source: Source, start: int, length: int, compression: str) -> Fields:
    """Read one part of the index, which is compressed like the blocks."""
    if not 0 <= length <= MAX_INDEX:
        raise source.damaged(f"an index of {length} bytes")
    if compression == "none":
        return Fields(BytesIO(source.read(start, length)).read, source.damaged)
    if compression == "gz":
        return Fields(
            BytesIO(InflatingCursor(source, start, length).read(MAX_INDEX)).read, source.damaged
        )
    raise source.damaged(f"its compression {compression!r} is not supported (none and gz are)")


def _meta_index(source: Source, offset: int) -> dict[str, tuple[str, int, int]]:
    fields = _part(source, offset, source.size - TRAILER - offset, "none")
    found = {}
    for _ in range(fields.count(100)):
        name, compression = fields.string(), fields.string()
        start, stored, _raw = fields.vint(), fields.vint(), fields.vint()
        found[name.removeprefix("data:")] = (compression, start, stored)
    return found


def _named_part(source: Source, meta: dict[str, tuple[str, int, int]], name: str) -> Fields:
    if name not in meta:
        raise source.damaged(f"it has no {name}")
    compression, start, stored = meta[name]
    return _part(source, start, stored, compression)


def _bc_index(source: Source, meta: dict[str, tuple[str, int, int]]) -> tuple[str, list[Extent]]:
    fields = _named_part(source, meta, "BCFile.index")
    compression = fields.string()
    blocks = []
    for _ in range(fields.count(MAX_ENTRIES)):
        start, stored, _raw = fields.vint(), fields.vint(), fields.vint()
        if start < 0 or stored < 0 or start + stored > source.size:
            raise source.damaged("a block lies outside of it")
        blocks.append((start, stored))
    return compression, blocks


def _record_counts(source: Source, meta: dict[str, tuple[str, int, int]], blocks: int) -> list[int]:
    fields = _named_part(source, meta, "TFile.index")
    first_key = fields.count(MAX_KEY)
    fields.exactly(first_key)
    counts = []
    for _ in range(blocks):
        entry = Fields(
            BytesIO(fields.exactly(fields.count(MAX_KEY), limit=MAX_KEY)).read, source.damaged
        )
        entry.exactly(entry.count(MAX_KEY))  # the block's last key
        counts.append(entry.count(source.size * 1032))  # zlib's best ratio
    return counts


def salvage_index(source: Source) -> Index:
    """Return an index for a file without its end: blocks follow one another without gaps.

    Raises:
        Damaged: It does not begin as a TFile does.
    """
    head = source.read(0, min(source.size, len(MAGIC) + 1))
    if not head.startswith(MAGIC) or len(head) <= len(MAGIC):
        raise source.damaged("it does not begin as a TFile does")
    # 0x78 begins a zlib stream; a NodeManager's first key has another length
    compression = "gz" if head[len(MAGIC)] == 0x78 else "none"
    return Index(compression, (Block(len(MAGIC), source.size - len(MAGIC), None, chained=True),))


# --- records ---


class _Value:
    """The value of one record without its chunk headers (Chunk.ChunkDecoder)."""

    def __init__(self, cursor: Cursor, fields: Fields) -> None:
        self._cursor = cursor
        self._fields = fields
        self._left = 0
        self._last = False

    def _in_chunk(self) -> bool:
        while not self._left and not self._last:
            length = self._fields.vint()
            self._left, self._last = abs(length), length >= 0
        return bool(self._left)

    def read(self, length: int) -> bytes:
        data = b""
        while len(data) < length and self._in_chunk():
            part = self._cursor.read(min(length - len(data), self._left))
            if not part:
                break
            self._left -= len(part)
            data += part
        return data

    def skip(self, length: int) -> list[Extent]:
        """Skip bytes; return their positions."""
        extents: list[Extent] = []
        while length and self._in_chunk():
            position = self._cursor.position
            passed = self._cursor.skip(min(length, self._left))
            if not passed:
                break
            self._left -= passed
            length -= passed
            extents.append((position, passed))
        return extents

    def skip_rest(self) -> None:
        while self._in_chunk() and self._cursor.skip(self._left) == self._left:
            self._left = 0


def scan(source: Source, index: Index, problems: list[str]) -> Iterator[StoredLog | None]:
    """Yield every log file in the order of the file, without reading contents; None ends a record,
    the files of one container.

    Args:
        source: The file.
        index: The positions of its blocks.
        problems: Receives a sentence for each part that could not be read.
    """
    left = MAX_ENTRIES
    for block in index.blocks:
        for log in _until_damage(_scan_block(source, index, block, problems), problems):
            left -= log is not None
            if not left:
                problems.append(
                    f"{source.where}: more than {MAX_ENTRIES} log files; the rest is left out"
                )
                return
            yield log


def _until_damage(
    found: Iterator[StoredLog | None], problems: list[str]
) -> Iterator[StoredLog | None]:
    try:
        yield from found
    except Damaged as error:
        problems.append(str(error))


def _scan_block(
    source: Source, index: Index, block: Block, problems: list[str]
) -> Iterator[StoredLog | None]:
    cursor = index.cursor(source, block)
    fields = Fields(cursor.read, source.damaged)
    done = 0
    while block.records is None or done < block.records:
        first = cursor.read(1)
        if not first:
            if block.records is not None:
                raise source.damaged(f"a block holds {done} of {block.records} records")
            return
        done += 1
        key = fields.exactly(_with_first(first, cursor, source).count(MAX_KEY))
        container_id = Fields(BytesIO(key).read, source.damaged).utf()
        value = _Value(cursor, fields)
        if container_id not in RESERVED:
            yield from _logs_of(
                container_id, value, TFileContent(source, index, block, ()), problems
            )
            yield None
        value.skip_rest()


def _with_first(first: bytes, cursor: Cursor, source: Source) -> Fields:
    """Return a reader of fields that begin with `first`."""
    begun = BytesIO(first)

    def read(length: int) -> bytes:
        data = begun.read(length)
        return data if len(data) == length else data + cursor.read(length - len(data))

    return Fields(read, source.damaged)


def _logs_of(
    container_id: str, value: _Value, where: TFileContent, problems: list[str]
) -> Iterator[StoredLog]:
    """Yield the log files of a value (AggregatedLogFormat.LogValue)."""
    fields = Fields(value.read, where.source.damaged)
    while True:
        first = value.read(2)
        if not first:
            return
        try:
            name = fields.decode(_rest(fields, first))
            digits = fields.utf()
            if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
                raise where.source.damaged(f"{digits[:20]!r} is not a length")
        except Damaged as error:
            problems.append(f"{error} (in {container_id})")
            return
        declared = int(digits)
        extents = value.skip(declared)
        size = sum(length for _, length in extents)
        if size < declared:
            problems.append(
                f"{where.source.where}: {name} of {container_id} was cut while it was "
                f"uploaded: {size} of {declared} bytes are there, "
                "and the container's later files are among them"
            )
        yield StoredLog(
            container_id,
            name,
            size,
            declared,
            TFileContent(where.source, where.index, where.block, tuple(extents)),
        )


def _rest(fields: Fields, first: bytes) -> bytes:
    if len(first) < 2:
        raise fields.damaged("it ends within a name")
    return fields.exactly(int.from_bytes(first, "big"))
