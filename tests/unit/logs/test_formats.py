"""TFiles of every shape, read as an application's logs. A small writer makes what no recording holds."""

from __future__ import annotations

import tracemalloc
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from submit_tf_job.errors import BadAnswer
from submit_tf_job.hadoop_logs.cursor import Fields
from tests.builders.log_files import log, record, reserved, utf, vint, write_tfile
from tests.builders.recorded_logs import Counting, reader
from tests.examples import examples

APP = "application_1_0001"
ONE, TWO = (f"container_1_0001_01_{number:06}" for number in (1, 2))
FILE = f"alice/logs/{APP}/node_1"

# What Hadoop 3.4.2's own Utils.writeVLong wrote.
WRITTEN_BY_HADOOP = """\
878000000000000000 -9223372036854775808  85feffffffffff -1099511627777  8380000000 -2147483648
83f7ffffff -134217729  8fefffff -1048577  bbff -4097  cb38 -200  cbdf -33  e0 -32  ff -1  00 0  01 1
7f 127  cc80 128  dbff 4095  dc00 4096  a8ffff 65535  a90000 65536  b7ffff 1048575  90100000 1048576
97ffffff 134217727  8308000000 134217728  837fffffff 2147483647  840080000000 2147483648
85008000000000 549755813888  8601000000000000 281474976710656  867fffffffffffff 36028797018963967
877fffffffffffffff 9223372036854775807"""


def fields(data: bytes) -> Fields:
    return Fields(BytesIO(data).read, AssertionError)  # type: ignore[arg-type]


def test_vint_of_bytes_that_hadoop_wrote() -> None:
    words = WRITTEN_BY_HADOOP.split()
    for coded, number in zip(words[::2], map(int, words[1::2]), strict=True):
        assert (fields(bytes.fromhex(coded)).vint(), vint(number).hex()) == (number, coded)


@pytest.mark.slow
@given(st.text())
def test_modified_utf8(text: str) -> None:
    assert fields(utf(text)).utf() == text


def found(root: Path, data: bytes, name: str = FILE) -> tuple[dict[str, bytes], str]:
    """Return the files of a node file, and what is said of it."""
    logs = reader(root, {name: data}, APP)
    files = [s for one in logs.containers() for file in one.files for s in file.snapshots]
    assert all(len(one.read()) == one.size for one in files)
    return {one.name: one.read() for one in files}, "\n".join(logs.warnings)


@pytest.mark.parametrize("compression", ["none", "gz"])
@pytest.mark.parametrize("chunk", [1, 3, 7, 100, 1_048_579])
def test_read_with_chunk_borders_anywhere(tmp_path: Path, compression: str, chunk: int) -> None:
    files = {"a": b"first", "empty": b"", "ü😀\0.log": bytes(range(256)) * 3}
    value = b"".join(log(name, data) for name, data in files.items())
    rows = [*reserved(), record(TWO, value, chunk=chunk)]
    data = write_tfile([rows], compression=compression)
    assert found(tmp_path, data) == (files, "")


@pytest.mark.parametrize("compression", ["none", "gz"])
def test_read_a_log_cut_during_its_upload(tmp_path: Path, compression: str) -> None:
    """As after copytruncate: 100 bytes promised, the record ends after 40, and the next file's
    header is among them.
    """
    lost = log("big.log", b"x" * 30 + log("later.log", b"y"), declared=100)
    rows = [record(ONE, log("a", b"1") + lost), record(TWO, log("b", b"2"))]
    files, said = found(tmp_path, write_tfile([rows], compression=compression))
    assert {name: len(data) for name, data in files.items()} == {"a": 1, "big.log": 45, "b": 1}
    assert files["big.log"].startswith(b"x" * 30)
    assert said == (
        f"{tmp_path}/{FILE}: big.log of {ONE} was cut while it was uploaded: 45 of 100 bytes are "
        "there, and the container's later files are among them"
    )


INVALID = [utf("name") + rest for rest in (utf("12x") + b"...", utf("9" * 19), b"\xff\xff12")]


@pytest.mark.parametrize("value", [*INVALID, b"\0", b"\xff" * 9])
def test_read_skips_an_invalid_record(tmp_path: Path, value: bytes) -> None:
    rows = [record(ONE, log("a", b"1") + value), record(TWO, log("b", b"2"))]
    files, said = found(tmp_path, write_tfile([rows]))
    assert (files, said.count("\n"), ONE in said) == ({"a": b"1", "b": b"2"}, 0, True)


def test_read_skips_a_damaged_block(tmp_path: Path) -> None:
    blocks = [[record(ONE, log(name, name.encode() * 5000))] for name in "abc"]
    first, whole = (write_tfile(part, compression="gz") for part in (blocks[:1], blocks))
    at = next(n for n, (one, other) in enumerate(zip(first, whole, strict=False)) if one != other)
    files, said = found(tmp_path, whole[: at + 2] + b"\xff\xff" + whole[at + 4 :])
    assert (set(files), said.count("\n"), bool(said)) == ({"a", "c"}, 0, True)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (write_tfile([reserved()], compression="lzo"), "its compression 'lzo' is not supported"),
        (write_tfile([reserved()])[:-20] + b"\0\2" + write_tfile([reserved()])[-18:], "version 2"),
    ],
)
def test_read_refuses_what_it_does_not_know(tmp_path: Path, data: bytes, why: str) -> None:
    with pytest.raises(BadAnswer, match=why):
        found(tmp_path, data)


# --- any place of any file ------------------------------------------------------------------------

ROWS = 5 * 1024 * 1024 // 69
BIG = b"".join(b"step %010d loss=%047d\n" % (n, n * 2654435761 % 1000003) for n in range(ROWS))


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["none", "gz"])
@settings(max_examples=examples(10), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 1_700_000)), max_size=10),
)
def test_ends_of_files_equal_slices_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, compression: str, asked: list[tuple[str, int]]
) -> None:
    files = {name: BIG[at : at + 1_600_000] for at, name in enumerate("abc")}
    rows = [record(TWO, b"".join(log(name, data) for name, data in files.items()))]
    data = {FILE: write_tfile([reserved(), rows], compression=compression)}
    logs = reader(tmp_path_factory.mktemp("logs"), data, APP)
    for name, tail in asked:
        expected = files[name][len(files[name]) - min(tail, len(files[name])) :]
        assert logs.read_file(TWO, name, tail=tail) == expected


@pytest.mark.parametrize(("compression", "most"), [("none", 100_000), ("gz", None)])
def test_tail_of_a_large_file_reads_little(tmp_path: Path, compression: str, most: int) -> None:
    rows = [record(TWO, log("big.log", BIG) + log("small.log", b"small"))]
    data = write_tfile([reserved(), rows], compression=compression)
    store = Counting()
    logs = reader(tmp_path, {FILE: data}, APP, store=store)
    assert logs.read_file(TWO, "big.log", tail=2000) == BIG[-2000:]
    assert logs.read_file(TWO, "small.log") == b"small"
    assert store.bytes < (most or 1.35 * len(data) + 70_000)  # what is compressed is inflated once
    assert logs.read_file(TWO, "big.log") == BIG


@pytest.mark.slow
def test_memory_is_bounded_for_one_file(tmp_path: Path) -> None:
    zeros = log("zeros", bytes(64 * 1024 * 1024))
    data = {FILE: write_tfile([[record(TWO, zeros)]], compression="gz")}
    del zeros
    tracemalloc.start()
    try:
        [one] = reader(tmp_path, data, APP).find("zeros")
        total = sum(len(piece) for piece in one.stream())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (total, peak < 12 * 1024 * 1024) == (64 * 1024 * 1024, True)
