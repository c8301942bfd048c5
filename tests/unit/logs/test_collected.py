"""Aggregated logs as an application's whole: recorded directories, layouts, what is missing and
why, and damaged files.

The recordings in tests/data/logs were made by Hadoop 3.4.2: `java.json` in each lists what Hadoop's
own LogsCLI printed for the application (container, node file, name, length, SHA-256).
`indexed-acls` was written by Hadoop's IndexedLogsMeta with access lists, which no sandbox sets.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from submit_tf_job.errors import AuthError, BadAnswer, SubmitTFJobError
from submit_tf_job.hadoop_logs.node_files import LogSettings
from submit_tf_job.logs.collected import AggregatedLogs, NoLogs, WhatYarnSays
from tests.builders.log_files import log, record, write_tfile
from tests.builders.recorded_logs import DATA, Counting, container, reader, recorded, recording
from tests.examples import examples

RECORDED = ("tfile-gz", "tfile-none-rolled", "indexed-gz", "indexed-gz-rolled")
APP, ROWS = recording("tfile-gz")
INDEXED_APP = recording("indexed-gz")[0]
TFILE = next((DATA / "tfile-gz").rglob("localhost_*")).read_bytes()
INDEXED = next((DATA / "indexed-gz").rglob("localhost_*")).read_bytes()
HERE = f"alice/bucket-logs-tfile/0009/{APP}"
INDEXED_HERE = f"alice/bucket-logs-indexedfile/0010/{INDEXED_APP}"


# --- recordings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECORDED)
def test_containers_equal_the_output_of_java(name: str) -> None:
    logs = recorded(name)
    ours = sorted(
        (one.container_id, one.name, one.size, hashlib.sha256(one.read()).hexdigest())
        for found in logs.containers()
        for file in found.files
        for one in file.snapshots
    )
    assert ours == sorted((id_, file, *more) for id_, _, file, *more in recording(name)[1])
    assert logs.warnings == ()
    assert {found.node for found in logs.containers()} == {"localhost:17971"}


@pytest.mark.parametrize("name", RECORDED)
def test_read_returns_the_end_of_a_file(name: str) -> None:
    logs, second = recorded(name), container(recording(name)[0], 2)
    whole = b"tick 1\ntick 2\ntick 3\ntick 4\n"
    assert logs.read_file(second, "app.log") == whole
    for tail in (0, 9, 10_000):
        assert logs.read_file(second, "app.log", tail=tail) == whole[len(whole) - min(tail, 28) :]
    assert logs.read_file(second, "empty") == b""
    assert logs.read_file(second, "Über ein 😀.log") == b"umlaut"


@pytest.mark.parametrize("name", RECORDED)
def test_find_returns_containers_with_a_file_the_newest_upload_first(name: str) -> None:
    logs, app_id = recorded(name), recording(name)[0]
    found = list(logs.find("job-report.json"))
    assert {item.container_id for item in found} == {container(app_id, n) for n in (2, 3)}
    assert {item.read() for item in found} == {b'{"ok":true}\n'}
    assert list(logs.find("nowhere")) == []
    uploads = [item.uploaded_ms for item in logs.find("app.log")]
    assert uploads == sorted(uploads, reverse=True)
    assert ("rolled" in name) is (len(uploads) > 2)


def test_read_indexed_with_access_lists() -> None:
    [found] = recorded("indexed-acls", app_id="application_1_0001").containers()
    assert (found.container_id, found.node) == ("container_e17_1_0001_01_000002", "h_1:8041")
    [file] = found.files
    assert (file.name, file.snapshots[0].modified_ms) == ("a\0ü😀.log", 1699999999000)
    assert file.snapshots[0].read() == b"hello\n"


def test_read_of_an_unknown_container_or_file() -> None:
    logs = recorded("tfile-gz")
    with pytest.raises(NoLogs, match="there are no logs of container_1_1_01_000009"):
        logs.read_file("container_1_1_01_000009", "stdout.txt")
    with pytest.raises(NoLogs, match="has no log file stdout") as caught:
        logs.read_file(container(APP, 2), "stdout")
    assert "stdout.txt" in caught.value.hint


@pytest.mark.parametrize("name", ["tfile-gz", "indexed-gz"])
def test_reading_sends_few_requests(name: str) -> None:
    store = Counting()
    logs = recorded(name, store=store)
    for found in logs.containers():
        for file in found.files:
            logs.read_file(found.container_id, file.name)
    assert (store.listings, store.requests) <= (3, 1)


# --- layouts --------------------------------------------------------------------------------------


def number_of_files(logs: AggregatedLogs) -> int:
    return sum(len(found.files) for found in logs.containers())


@pytest.mark.parametrize(
    ("directory", "app_id"),
    [
        ("bucket-logs-tfile/0009", APP),
        ("bucket-mine-anything/0009", APP),
        ("logs-tfile", APP),
        ("logs", APP),
        ("vendor", APP),
        ("bucket-logs-tfile/2345", "application_1_12345"),
    ],
)
def test_find_directories_of_every_layout(tmp_path: Path, directory: str, app_id: str) -> None:
    file = {f"alice/{directory}/{app_id}/localhost_17971": TFILE}
    assert number_of_files(reader(tmp_path, file, app_id)) == len(ROWS)


def test_two_formats_are_distinguished_by_content(tmp_path: Path) -> None:
    files = {
        f"alice/bucket-logs-x/0010/{INDEXED_APP}/h1_8041": INDEXED,
        f"alice/bucket-logs-y/0010/{INDEXED_APP}/h2_8041": TFILE,
    }
    found = reader(tmp_path, files, INDEXED_APP).containers()
    assert {one.node for one in found} == {"localhost:17971", "h2:8041"}


def test_log_settings_with_a_root_per_format(tmp_path: Path) -> None:
    found = LogSettings.from_properties(
        {
            "yarn.nodemanager.remote-app-log-dir": "hdfs://other/logs",
            "yarn.log-aggregation.IFile.remote-app-log-dir": "/ifile",
            "yarn.log-aggregation.IFile.remote-app-log-dir-suffix": "logs",
            "yarn.log-aggregation-enable": "TRUE",
            "yarn.log-aggregation.retain-seconds": "604800",
        }
    )
    wanted = LogSettings(
        "hdfs://other/logs", other_roots=("/ifile",), enabled=True, retain_s=604800
    )
    assert found == wanted
    odd = {"retain-seconds": "-1", "enable": "perhaps"}
    for values in ({}, {f"yarn.log-aggregation.{name}": value for name, value in odd.items()}):
        assert LogSettings.from_properties(values) == LogSettings(root="/tmp/logs")
    own = tmp_path / "ifile"
    file = {f"alice/bucket-logs-ifile/0010/{INDEXED_APP}/h_1": INDEXED}
    logs = reader(own, file, INDEXED_APP, others=(str(own),))
    assert number_of_files(logs) > 0


# --- while it is written --------------------------------------------------------------------------

UNFINISHED = "h1:8041 has not finished its upload"


@pytest.mark.parametrize(
    ("files", "least", "warning"),
    [
        ({"h1_8041.tmp": b"", "h2_8041": TFILE}, len(ROWS), UNFINISHED),
        ({"h1_8041": TFILE, "h1_8041.tmp": TFILE[:5000]}, len(ROWS), ""),
    ],
    ids=["begun", "finished"],
)
def test_containers_during_an_upload(
    tmp_path: Path, files: dict[str, bytes], least: int, warning: str
) -> None:
    logs = reader(tmp_path, {f"{HERE}/{name}": content for name, content in files.items()}, APP)
    assert least <= number_of_files(logs) <= len(ROWS)
    assert logs.read_file(container(APP, 2), "short") == b"no final newline"
    assert warning in " ".join(logs.warnings)
    assert bool(warning) is bool(logs.warnings)


@pytest.mark.parametrize(
    ("size", "content", "is_there"),
    [
        (len(INDEXED).to_bytes(8, "big"), INDEXED + b"\nhalf an upload", True),
        (b"", INDEXED, True),  # the file of checksums is incomplete itself
        (bytes(8), b"half", False),
    ],
)
def test_indexed_file_is_read_up_to_its_safe_end(
    tmp_path: Path, size: bytes, content: bytes, is_there: bool
) -> None:
    name = "h1_8041_1700000000000"  # the checksum is called by the node alone
    said = b"\0\0\0\x15" + name.encode() + size
    files = {f"{INDEXED_HERE}/{name}": content, f"{INDEXED_HERE}/h1_8041-checksum": said}
    logs = reader(tmp_path, files, INDEXED_APP)
    if is_there:
        assert logs.read_file(container(INDEXED_APP, 2), "short") == b"no final newline"
    else:
        with pytest.raises(NoLogs, match="just being uploaded"):
            logs.containers()


def test_containers_are_listed_again_when_none_were_found(tmp_path: Path) -> None:
    logs = reader(tmp_path, {f"{HERE}/h2_8041.tmp": b""}, APP)
    with pytest.raises(NoLogs, match="just being uploaded"):
        logs.containers()
    (tmp_path / HERE / "h1_8041").write_bytes(TFILE)
    assert number_of_files(logs) == len(ROWS)


def test_containers_when_a_file_is_deleted_meanwhile(tmp_path: Path) -> None:
    files = {f"{HERE}/h1_8041": TFILE, f"{HERE}/h2_8041": TFILE}
    logs = reader(tmp_path, files, APP, store=Counting(vanished="h2_8041"))
    assert number_of_files(logs) == len(ROWS)
    assert logs.warnings == (f"{tmp_path}/{HERE}/h2_8041: was deleted during the reading",)


# --- why there is nothing; the sentences that end a command are in tests/scenarios/test_logs.py ---

DAY = 86400
RUNS = WhatYarnSays(status="NOT_START", running=True)
NOT_HERE = "there are no logs in ROOT/alice"


def ended(status: str | None, seconds: int = 3600) -> WhatYarnSays:
    at = 1_700_000_000_000
    return WhatYarnSays(status=status, finished_ms=at, now_ms=at + seconds * 1000)


@pytest.mark.parametrize(
    ("said", "known", "reason", "words"),
    [
        (WhatYarnSays(), {"enabled": False}, "off", "the cluster does not collect logs"),
        (RUNS, {}, "not-yet", "still running"),
        (RUNS, {"enabled": False}, "not-yet", "still running"),
        (ended("NOT_START", 20), {}, "not-yet", "are not collected yet, 20 s after its end"),
        (WhatYarnSays(status="RUNNING"), {}, "not-yet", "its logs are not collected yet"),
        (ended("SUCCEEDED", 9 * DAY), {"retain_s": 7 * DAY}, "deleted", "keeps them for 7 d"),
        (ended(None, 9 * DAY), {"retain_s": 7 * DAY}, "deleted", "its logs are deleted"),
        (ended("SUCCEEDED", 100), {"retain_s": 90}, "deleted", "it ended 100 s ago, and the clus"),
        (ended("TIME_OUT"), {}, "failed", "no node could upload its logs (log aggregation: TIME"),
        (ended("NOT_START"), {}, "nothing", NOT_HERE),
        (WhatYarnSays(), {}, "nothing", NOT_HERE),
        (WhatYarnSays(status="NEW_IN_HADOOP_9"), {}, "nothing", NOT_HERE),
    ],
)
def test_no_logs_gives_the_reason(
    tmp_path: Path, said: WhatYarnSays, known: dict[str, Any], reason: str, words: str
) -> None:
    with pytest.raises(NoLogs) as caught:
        reader(tmp_path, {}, APP, said=said, **known).containers()
    message = caught.value.message.replace(str(tmp_path), "ROOT")
    assert message.startswith(f"{APP}: ")
    assert words in message
    assert caught.value.hint
    assert caught.value.exit_status == 5
    assert caught.value.details == {"reason": reason}


def test_containers_of_another_user(tmp_path: Path) -> None:
    logs = reader(tmp_path, {f"{HERE}/h1_8041": TFILE}, APP, store=Counting(forbidden="/alice"))
    for call in (logs.containers, lambda: next(logs.find("x")), lambda: logs.read_file("c", "x")):
        with pytest.raises(AuthError, match="not allowed to read the logs of alice: ") as caught:
            call()
        assert "account of alice" in caught.value.hint


# --- rolled logs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uploads", "whole"),
    [
        ((b"1 2 ", b"1 2 3 ", b"1 2 3 4 "), b"1 2 3 4 "),  # each holds the one before
        # the NodeManager deleted what it had uploaded
        ((b"1 2 ", b"1 2 3 4 5 ", b"6 7 ", b"8 "), b"1 2 3 4 5 6 7 8 "),
        ((b"1 ", b"1 ", b"1 "), b"1 "),  # unchanged
        ((b"", b"", b"1 "), b"1 "),
        ((b"1 2 3 ", b"9 "), b"1 2 3 9 "),
        ((b"x" * 3_000_000, b"x" * 2_999_999 + b"yz"), b"x" * 5_999_999 + b"yz"),
    ],
)
def test_read_joins_uploads(tmp_path: Path, uploads: tuple[bytes, ...], whole: bytes) -> None:
    task = "container_1_0009_01_000002"
    files = {
        f"{HERE}/h1_8041_{1_795_259_223_013 + number}": write_tfile(
            [[record(task, log("app.log", content))]]
        )
        for number, content in enumerate(uploads)
    }
    logs = reader(tmp_path, files, APP)
    assert logs.read_file(task, "app.log") == whole
    for tail in (0, 1, 3, 5, len(whole), len(whole) + 9):
        end = whole[len(whole) - min(tail, len(whole)) :]
        assert logs.read_file(task, "app.log", tail=tail) == end
    [found] = logs.containers()
    assert [one.size for one in found.files[0].snapshots] == [len(upload) for upload in uploads]
    assert found.files[0].size == len(uploads[-1])


# --- damaged files --------------------------------------------------------------------------------


def test_containers_of_one_damaged_node_file(tmp_path: Path) -> None:
    files = {"h1_8041": TFILE, "h2_8041": b"rubbish", "h3_8041": TFILE[:-1]}
    logs = reader(tmp_path, {f"{HERE}/{name}": content for name, content in files.items()}, APP)
    assert number_of_files(logs) == len(ROWS)
    assert len(logs.warnings) == 2
    assert all("neither a TFile nor an IndexedFile" in warning for warning in logs.warnings)


@pytest.mark.parametrize("content", [b"rubbish", INDEXED], ids=["rubbish", "of another job"])
def test_containers_of_damaged_files_only(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(BadAnswer, match=r"/h2_8041: the log file is damaged.*neither") as caught:
        reader(tmp_path, {f"{HERE}/h2_8041": content}, APP).containers()
    assert caught.value.exit_status == 7


SMALL = min((DATA / "tfile-none-rolled").rglob("localhost_*"), key=lambda path: path.stat().st_size)
SAMPLES = {
    "tfile-gz": (APP, TFILE),
    "tfile-none": (recording("tfile-none-rolled")[0], SMALL.read_bytes()),
    "indexed": (INDEXED_APP, INDEXED),
    "acls": ("application_1_0001", next((DATA / "indexed-acls").rglob("h_*")).read_bytes()),
}
fuzzed = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def read_everything(root: Path, app_id: str, data: bytes, *names: str) -> None:
    """Read all there is in damaged files; only this package's errors may come out."""
    for name in names or ("h1_8041",):
        logs = reader(root / name, {f"alice/logs/{app_id}/{name}": data}, app_id)
        with suppress(SubmitTFJobError):
            logs.containers()
            list(logs.find("job-report.json"))
            for item in logs.containers():
                for file in item.files:
                    with suppress(SubmitTFJobError):
                        logs.read_file(item.container_id, file.name)


@pytest.mark.slow
@pytest.mark.parametrize("sample", SAMPLES)
@fuzzed
@given(data=st.data())
def test_damaged_file_is_refused(tmp_path: Path, sample: str, data: st.DataObject) -> None:
    """Cut off, with other bytes (most of them near its end), or with a piece taken out."""
    app_id, whole = SAMPLES[sample]
    anywhere = st.integers(0, len(whole) - 1)
    begin, *_ = places = data.draw(st.lists(anywhere, min_size=1, max_size=6))
    how = data.draw(st.sampled_from(["cut", "changed", "spliced"]))
    changed = bytearray(whole)
    if how == "changed":
        near_the_end = st.integers(max(0, len(whole) - 2500), len(whole) - 1)
        for place in [*places, data.draw(near_the_end)]:
            changed[place] = data.draw(st.integers(0, 255))
    else:
        until = len(whole) if how == "cut" else data.draw(st.integers(begin, len(whole)))
        changed[begin:until] = data.draw(st.binary(max_size=40)) if how == "spliced" else b""
    read_everything(tmp_path, app_id, bytes(changed), "h1_8041", "h1_8041.tmp")


@pytest.mark.slow
@fuzzed
@given(value=st.binary(max_size=600))
def test_any_records_and_any_index_are_read_or_refused(tmp_path: Path, value: bytes) -> None:
    records = [record("container_1_0009_01_000002", value, chunk=9), value]
    for compression in ("none", "gz"):
        read_everything(tmp_path, APP, write_tfile([records], compression=compression))
    for begin in ("", "aced0005", "aced0005737200136a6176612e7574696c2e41727261794c697374"):
        read_everything(tmp_path, INDEXED_APP, indexed(bytes.fromhex(begin) + value))


def indexed(index: bytes) -> bytes:
    uuid = INDEXED[-32:]
    return uuid + index + len(index).to_bytes(4, "big") + uuid


@pytest.mark.parametrize(
    "bomb",
    [
        # an array in an array in an array …
        b"\x75\x72\x00\x02[[" + bytes(8) + b"\x02\x00\x00\x78\x70\x00\x00\x00\x01"
        b"\x75\x71\x00\x7e\x00\x00\x00\x00\x00\x01" * 5000,
        # four thousand million nothings
        b"\x75\x72\x00\x02[Z" + bytes(8) + b"\x02\x00\x00\x78\x70\xff\xff\xff\xff" + bytes(1000),
    ],
    ids=["of depth", "of size"],
)
def test_read_indexed_of_a_bomb(tmp_path: Path, bomb: bytes) -> None:
    file = {f"{INDEXED_HERE}/h1_8041": indexed(b"\xac\xed\0\5" + bomb)}
    with pytest.raises(BadAnswer, match=r"^(?!.*neither)"):
        reader(tmp_path, file, INDEXED_APP).containers()
