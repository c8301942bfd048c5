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

from submit_tf_job.hadoop_logs.cursor import MAX_ENTRIES, MAX_KEY, Cursor, Fields, Region, Source
from submit_tf_job.hadoop_logs.interfaces import Damaged, Extent, Snapshot

MAGIC = bytes.fromhex("d111d36891b5d7b639df414092bae150")
TRAILER = 28
# Keys that are not container ids (AggregatedLogFormat)
RESERVED = frozenset({"VERSION", "APPLICATION_ACL", "APPLICATION_OWNER"})


# --- the index ---


def read_index(source: Source) -> list[tuple[Region, int]]:
    """Return the data blocks with their numbers of records, nearly always by one request.

    Raises:
        Damaged: The file is not a complete TFile.
    """
    tail = source.tail()
    if source.size < TRAILER + len(MAGIC) or not tail.endswith(MAGIC):
        raise source.damaged("it does not end as a TFile does")
    trailer = source.fields(tail[-TRAILER:])
    offset, major = trailer.integer(8), trailer.integer(2)
    if major != 1:
        raise source.damaged(f"its format has version {major}, only 1 is known")
    parts = _meta_index(Region(source, "none", offset, source.size - TRAILER - offset))
    for name in ("BCFile.index", "TFile.index"):
        if name not in parts:
            raise source.damaged(f"it has no {name}")
    blocks = _read_blocks(source, parts["BCFile.index"].fields())
    counts = _record_counts(source, parts["TFile.index"].fields(), len(blocks))
    return list(zip(blocks, counts, strict=True))


def _meta_index(region: Region) -> dict[str, Region]:
    """Parse the meta index: return the meta blocks by name, such as `TFile.index`."""
    fields = region.fields()
    found = {}
    for _ in range(fields.count(100)):
        name, compression = fields.string(), fields.string()
        start, stored, _raw = fields.vint(), fields.vint(), fields.vint()
        found[name.removeprefix("data:")] = Region(region.source, compression, start, stored)
    return found


def _read_blocks(source: Source, fields: Fields) -> list[Region]:
    compression = fields.string()
    blocks = []
    for _ in range(fields.count(MAX_ENTRIES)):
        start, stored, _raw = fields.vint(), fields.vint(), fields.vint()
        if start < 0 or stored < 0 or start + stored > source.size:
            raise source.damaged("a block lies outside of it")
        blocks.append(Region(source, compression, start, stored))
    return blocks


def _record_counts(source: Source, fields: Fields, blocks: int) -> list[int]:
    fields.exactly(fields.count(MAX_KEY))  # the first key
    counts = []
    for _ in range(blocks):
        entry = source.fields(fields.exactly(fields.count(MAX_KEY)))
        entry.exactly(entry.count(MAX_KEY))  # the block's last key
        counts.append(entry.count(source.size * 1032))  # zlib's best ratio
    return counts


# --- records ---


class _Value:
    """The value of one record; the headers of its chunks are left out (Chunk.ChunkDecoder)."""

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

    def skip(self, length: int) -> tuple[Extent, ...]:
        """Skip up to `length` bytes; return their positions in the block."""
        extents: list[Extent] = []
        while length and self._in_chunk():
            position = self._cursor.position
            passed = self._cursor.skip(min(length, self._left))
            if not passed:
                break
            self._left -= passed
            length -= passed
            extents.append((position, passed))
        return tuple(extents)

    def skip_rest(self) -> None:
        while self._in_chunk() and self._cursor.skip(self._left) == self._left:
            self._left = 0


def read_tfile(
    source: Source, node: str, uploaded_ms: int, problems: list[str]
) -> Iterator[Snapshot]:
    """Yield every log file in the order of the file, without reading contents.

    Args:
        source: The file.
        node: The node that wrote it.
        uploaded_ms: When the node uploaded the file.
        problems: Receives a sentence for each part that could not be read.

    Raises:
        Damaged: The file is not a complete TFile.
    """
    for block, records in read_index(source):
        try:
            for container_id, value in _records_of_block(block, records):
                for name, extents in _logs_of(container_id, value, source, problems):
                    yield Snapshot(
                        container_id=container_id,
                        node=node,
                        name=name,
                        size=sum(length for _, length in extents),
                        uploaded_ms=uploaded_ms,
                        modified_ms=None,
                        region=block,
                        extents=extents,
                    )
        except Damaged as error:  # noqa: PERF203 - the other blocks can be read
            problems.append(str(error))


def _records_of_block(block: Region, records: int) -> Iterator[tuple[str, _Value]]:
    """Yield each container in a block, together with the value that contains its log files."""
    cursor = block.cursor()
    fields = Fields(cursor.read, block.source.damaged)
    for _ in range(records):
        container_id = block.source.fields(fields.exactly(fields.count(MAX_KEY))).utf()
        value = _Value(cursor, fields)
        if container_id not in RESERVED:
            yield container_id, value
        value.skip_rest()


def _logs_of(
    container_id: str, value: _Value, source: Source, problems: list[str]
) -> Iterator[tuple[str, tuple[Extent, ...]]]:
    """Yield the name and the places of each log file in a value (AggregatedLogFormat.LogValue)."""
    fields = Fields(value.read, source.damaged)
    while first := value.read(2):
        try:
            name = fields.decode(fields.exactly(int.from_bytes(first, "big")))
            digits = fields.utf()
            if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
                raise source.damaged(f"{digits[:20]!r} is not a length")
        except Damaged as error:
            problems.append(f"{error} (in {container_id})")
            return
        declared = int(digits)
        extents = value.skip(declared)
        size = sum(length for _, length in extents)
        if size < declared:
            problems.append(
                f"{source.where}: {name} of {container_id} was cut while it was "
                f"uploaded: {size} of {declared} bytes are there, "
                "and the container's later files are among them"
            )
        yield name, extents
