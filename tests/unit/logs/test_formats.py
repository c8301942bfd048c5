"""The formats of aggregated logs: numbers, texts, TFiles of every shape. A small writer makes what
no recording holds.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cache
from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from submit_tf_job.hadoop_logs import tfile
from submit_tf_job.hadoop_logs.cursor import InflatingCursor, Memory, PlainCursor, Source
from submit_tf_job.hadoop_logs.interfaces import Damaged
from submit_tf_job.hadoop_logs.javaobject import Fields
from tests.builders.log_files import content, log, record, reserved, utf, vint, write_tfile
from tests.examples import examples

# --- a writer -------------------------------------------------------------------------------------


@dataclass
class Reader:
    """A file in memory that counts what is asked of it."""

    data: bytes
    requests: int = 0
    asked: int = 0

    @property
    def size(self) -> int:
        return len(self.data)

    def read_range(self, start: int, length: int) -> bytes:
        self.requests += 1
        self.asked += length
        return self.data[start : start + length]


def source(data: bytes, *, memory: Memory | None = None) -> Source:
    return Source(Reader(data), "/logs/node_1", memory=memory)


def scan(where: Source, index: tfile.Index, problems: list[str]) -> list[tfile.StoredLog]:
    return [log for log in tfile.scan(where, index, problems) if log is not None]


def scanned(data: bytes) -> tuple[list[tfile.StoredLog], list[str]]:
    problems: list[str] = []
    where = source(data)
    return scan(where, tfile.read_index(where), problems), problems


def damaged(text: str) -> Damaged:
    return Damaged(text)


# --- numbers and texts ----------------------------------------------------------------------------


# What Hadoop 3.4.2's own Utils.writeVLong wrote.
WRITTEN_BY_HADOOP = [
    ("878000000000000000", -9223372036854775808),
    ("85feffffffffff", -1099511627777),
    ("8380000000", -2147483648),
    ("83f7ffffff", -134217729),
    ("8fefffff", -1048577),
    ("bbff", -4097),
    ("cb38", -200),
    ("cbdf", -33),
    ("e0", -32),
    ("ff", -1),
    ("00", 0),
    ("01", 1),
    ("7f", 127),
    ("cc80", 128),
    ("dbff", 4095),
    ("dc00", 4096),
    ("a8ffff", 65535),
    ("a90000", 65536),
    ("b7ffff", 1048575),
    ("90100000", 1048576),
    ("97ffffff", 134217727),
    ("8308000000", 134217728),
    ("837fffffff", 2147483647),
    ("840080000000", 2147483648),
    ("85008000000000", 549755813888),
    ("8601000000000000", 281474976710656),
    ("867fffffffffffff", 36028797018963967),
    ("877fffffffffffffff", 9223372036854775807),
]


@pytest.mark.parametrize(("coded", "number"), WRITTEN_BY_HADOOP)
def test_vint_of_bytes_that_hadoop_wrote(coded: str, number: int) -> None:
    assert Fields(BytesIO(bytes.fromhex(coded)).read, damaged).vint() == number
    assert vint(number).hex() == coded


@settings(deadline=None)
@given(st.text())
def test_modified_utf8(text: str) -> None:
    assert Fields(BytesIO(utf(text)).read, damaged).utf() == text


# --- TFiles ---------------------------------------------------------------------------------------

CONTAINER = "container_e17_1_0001_01_000002"


@pytest.mark.parametrize("compression", ["none", "gz"])
@pytest.mark.parametrize("chunk", [1, 3, 7, 100, 1_048_579])
def test_scan_with_chunk_borders_anywhere(compression: str, chunk: int) -> None:
    files = {"a": b"first", "empty": b"", "ü😀\0.log": bytes(range(256)) * 3}
    value = b"".join(log(name, data) for name, data in files.items())
    found, problems = scanned(
        write_tfile([[*reserved(), record(CONTAINER, value, chunk=chunk)]], compression=compression)
    )
    assert problems == []
    assert {item.name: content(item) for item in found} == files
    assert [content(item, 2) for item in found] == [data[2:] for data in files.values()]
    assert {item.container_id for item in found} == {CONTAINER}


@pytest.mark.parametrize("compression", ["none", "gz"])
def test_scan_of_a_log_cut_during_its_upload(compression: str) -> None:
    """As after copytruncate: 100 bytes promised, the record ends after 40, and the next file's
    header is among them.
    """
    lost = log("big.log", b"x" * 30 + log("later.log", b"y"), declared=100)
    data = write_tfile(
        [
            [
                record(CONTAINER, log("a", b"1") + lost),
                record("container_1_0001_01_000003", log("b", b"2")),
            ]
        ],
        compression=compression,
    )
    found, problems = scanned(data)
    assert [(item.name, item.size, item.declared_size) for item in found] == [
        ("a", 1, 1),
        ("big.log", 45, 100),
        ("b", 1, 1),
    ]
    assert content(found[1]).startswith(b"x" * 30)
    assert problems == [
        f"/logs/node_1: big.log of {CONTAINER} was cut while it was uploaded: 45 of 100 "
        f"bytes are there, "
        "and the container's later files are among them"
    ]


def test_scan_skips_an_invalid_record() -> None:
    bad = [
        utf("name") + utf("12x") + b"...",
        utf("name") + utf("9" * 19),
        b"\0",
        utf("name") + b"\xff\xff12",
        b"\xff" * 9,
    ]
    for value in bad:
        data = write_tfile(
            [
                [
                    record(CONTAINER, log("a", b"1") + value),
                    record("container_1_0001_01_000003", log("b", b"2")),
                ]
            ]
        )
        found, problems = scanned(data)
        assert [item.name for item in found] == ["a", "b"]
        assert len(problems) == 1
        assert CONTAINER in problems[0]


def test_scan_skips_a_damaged_block() -> None:
    blocks = [
        [record(f"container_1_0001_01_{block:06}", log("f", bytes([block]) * 5000))]
        for block in range(3)
    ]
    data = bytearray(write_tfile(blocks, compression="gz"))
    index = tfile.read_index(source(bytes(data)))
    data[index.blocks[1].start + 2] ^= 0xFF
    found, problems = scanned(bytes(data))
    assert [item.container_id[-1] for item in found] == ["0", "2"]
    assert len(problems) == 1


def test_read_index_refuses_lzo() -> None:
    data = write_tfile([reserved()], compression="lzo")
    with pytest.raises(Damaged, match="its compression 'lzo' is not supported"):
        tfile.read_index(source(data))


def test_read_index_refuses_another_major_version() -> None:
    data = bytearray(write_tfile([reserved()]))
    data[-20:-18] = b"\0\2"
    with pytest.raises(Damaged, match="its format has version 2, only 1 is known"):
        tfile.read_index(source(bytes(data)))


@pytest.mark.parametrize("compression", ["none", "gz"])
def test_salvage_index_of_an_interrupted_upload(compression: str) -> None:
    import random

    noise = random.Random(1).randbytes(300_000)
    blocks = [
        [*reserved(), record("container_1_0001_01_000001", log("a", noise))],
        [record(CONTAINER, log("b", b"b") + log("c", noise))],
    ]
    whole = write_tfile(blocks, compression=compression, with_end=False)
    where = source(whole[:-100_000])
    problems: list[str] = []
    found = scan(where, tfile.salvage_index(where), problems)
    assert [item.name for item in found] == ["a", "b", "c"]
    assert content(found[0]) == noise
    assert content(found[1]) == b"b"
    assert noise.startswith(content(found[2]))
    assert 100_000 < found[2].size < 300_000 == found[2].declared_size
    assert len(problems) == 1
    whole_source = source(whole)
    assert [item.size for item in scan(whole_source, tfile.salvage_index(whole_source), [])] == [
        300_000,
        1,
        300_000,
    ]


# --- cost -----------------------------------------------------------------------------------------

BIG = b"".join(
    b"step %010d loss=%047d\n" % (number, number * 2654435761 % 1000003)
    for number in range(5 * 1024 * 1024 // 69)
)


def big_file(compression: str) -> Reader:
    record_of_big = record(CONTAINER, log("big.log", BIG) + log("small.log", b"small"))
    return Reader(write_tfile([reserved(), [record_of_big]], compression=compression))


def test_tail_of_a_large_file_reads_less_than_100_kilobytes() -> None:
    reader = big_file("none")
    where = Source(reader, "big")
    found = scan(where, tfile.read_index(where), [])
    assert content(found[0], found[0].size - 2000) == BIG[-2000:]
    assert content(found[1]) == b"small"
    assert reader.asked < 100_000
    assert reader.requests < 80


def test_tail_of_a_large_compressed_file_inflates_once() -> None:
    reader = big_file("gz")
    where = Source(reader, "big")
    found = scan(where, tfile.read_index(where), [])
    assert reader.asked < 1.1 * reader.size + 70_000
    before = reader.asked
    assert content(found[0], found[0].size - 2000) == BIG[-2000:]
    assert content(found[1]) == b"small"
    assert reader.asked - before < reader.size / 4
    assert content(found[0], 2_000_000) == BIG[2_000_000:]
    assert content(found[0]) == BIG


@pytest.mark.slow
def test_memory_is_bounded_for_one_file() -> None:
    import tracemalloc

    zeros = log("zeros", bytes(64 * 1024 * 1024))
    data = write_tfile([[record(CONTAINER, zeros)]], compression="gz")
    del zeros
    tracemalloc.start()
    try:
        where = source(data)
        [found] = scan(where, tfile.read_index(where), [])
        total = sum(len(piece) for piece in found.content.stream(0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == 64 * 1024 * 1024
    assert peak < 12 * 1024 * 1024


# --- cursors --------------------------------------------------------------------------------------

MIXED = bytes(number * 7919 % 251 for number in range(200_000))
MIXED_STORED = zlib.compress(MIXED)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(min_value=0, max_value=70_000)), max_size=30),
    st.booleans(),
)
def test_cursors_equal_slices(moves: list[tuple[bool, int]], compressed: bool) -> None:
    data, stored = MIXED, MIXED
    kind: type[PlainCursor | InflatingCursor] = PlainCursor
    if compressed:
        stored, kind = MIXED_STORED, InflatingCursor
    cursor = kind(source(b"??" + stored + b"??"), 2, len(stored))
    at = 0
    for skipping, length in moves:
        left = min(length, len(data) - at)
        if skipping:
            assert cursor.skip(length) == left
        else:
            assert cursor.read(length) == data[at : at + left]
        at += left
        assert cursor.position == at


def test_inflating_cursor_of_a_truncated_stream() -> None:
    stored = zlib.compress(bytes(range(256)) * 1000)
    cursor = InflatingCursor(source(stored), 0, len(stored) - 10)
    with pytest.raises(Damaged, match="ends too early"):
        cursor.read(256_000)


@cache
def long_log() -> tuple[bytes, bytes]:
    """Return 2 MB of lines, plain and as they are stored."""
    plain = b"".join(b"line %09d\n" % number for number in range(150_000))
    return plain, zlib.compress(plain)


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.booleans(),
            st.integers(0, 300_000) | st.integers(0, 1_200_000) | st.integers(0, 200),
        ),
        max_size=25,
    )
)
def test_inflating_cursors_share_the_last_piece(moves: list[tuple[int, bool, int]]) -> None:
    plain, stored = long_log()
    where = source(stored, memory=Memory(limit=400_000))
    cursors = [InflatingCursor(where, 0, len(stored)) for _ in range(3)]
    places = [0, 0, 0]
    for which, skipping, length in moves:
        at = places[which]
        left = min(length, len(plain) - at)
        if skipping:
            assert cursors[which].skip(length) == left
        else:
            assert cursors[which].read(length) == plain[at : at + left]
        places[which] = cursors[which].position
        assert places[which] == at + left
    tail = InflatingCursor(where, 0, len(stored))
    assert tail.skip(len(plain) - 100) == len(plain) - 100
    assert tail.read(1000) == plain[-100:]
