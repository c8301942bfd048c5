"""Aggregated logs as an application's whole: recorded directories, layouts, what is missing and
why, and damaged files.

The recordings in tests/data/logs were made by Hadoop 3.4.2: `java.json` in each lists what Hadoop's
own LogsCLI printed for the application (container, node file, name, length, SHA-256).
`indexed-acls` was written by Hadoop's IndexedLogsMeta with access lists, which no sandbox sets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from submit_tf_job.errors import AuthError, BadAnswer, SubmitTFJobError
from submit_tf_job.hadoop_logs.indexedfile import application_uuid
from submit_tf_job.logs.collected import (
    Absence,
    AggregatedLogs,
    LogSettings,
    NoLogs,
    WhatYarnSays,
)
from submit_tf_job.storage import NoSuchPath
from submit_tf_job.storage.local_files import LocalStorage
from tests.builders.recorded_logs import DATA, container, recorded, recording
from tests.examples import examples

RECORDED = ("tfile-gz", "tfile-none-rolled", "indexed-gz", "indexed-gz-rolled")
ODD_NAME = "Über ein 😀.log"


# --- recordings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECORDED)
def test_containers_equal_the_output_of_java(name: str) -> None:
    logs = recorded(name)
    ours = sorted(
        (
            snapshot.container_id,
            snapshot.name,
            snapshot.size,
            hashlib.sha256(snapshot.read()).hexdigest(),
        )
        for found in logs.containers()
        for file in found.files
        for snapshot in file.snapshots
    )
    assert ours == sorted(
        (container_id, file, size, digest)
        for container_id, _, file, size, digest in recording(name)[1]
    )
    assert logs.warnings == ()
    assert {found.node for found in logs.containers()} == {"localhost:17971"}


@pytest.mark.parametrize("name", RECORDED)
def test_read_returns_the_contents(name: str) -> None:
    app_id, logs = recording(name)[0], recorded(name)
    assert [found.container_id for found in logs.containers()] == [
        container(app_id, number) for number in (1, 2, 3)
    ]
    second = container(app_id, 2)
    assert (
        logs.read(second, "bytes.bin") == b"crlf\r\n\x1b[31mred\x1b[0m\0nul \xff\xfe\xc0\x80 tail\n"
    )
    assert logs.read(second, "empty") == b""
    assert logs.read(second, "short") == b"no final newline"
    assert logs.read(second, ODD_NAME) == b"umlaut"
    assert logs.read(second, "app.log") == b"tick 1\ntick 2\ntick 3\ntick 4\n"
    assert logs.read(second, "app.log", tail=9) == b"3\ntick 4\n"
    assert logs.read(second, "app.log", tail=10_000) == b"tick 1\ntick 2\ntick 3\ntick 4\n"
    assert logs.read(second, "app.log", tail=0) == b""


@pytest.mark.parametrize("name", RECORDED)
def test_find_returns_containers_with_a_file(name: str) -> None:
    logs = recorded(name)
    found = list(logs.find("job-report.json"))
    assert {item.container_id for item in found} == {
        container(recording(name)[0], number) for number in (2, 3)
    }
    assert all(item.read() == b'{"ok":true}\n' for item in found)
    assert list(logs.find("nowhere")) == []
    logs.containers()
    assert len(list(logs.find("job-report.json"))) == len(found)


def test_find_returns_the_newest_upload_first() -> None:
    for name in ("tfile-none-rolled", "indexed-gz-rolled"):
        app_id = recording(name)[0]
        of_slow = [
            item
            for item in recorded(name).find("app.log")
            if item.container_id == container(app_id, slow(name))
        ]
        assert len(of_slow) > 2
        assert [item.uploaded_ms for item in of_slow] == sorted(
            (item.uploaded_ms for item in of_slow), reverse=True
        )
        assert of_slow[0].read() == b"tick 1\ntick 2\ntick 3\ntick 4\n"


def slow(name: str) -> int:
    """Return the number of the container that was uploaded several times."""
    app_id, rows = recording(name)
    return next(
        number
        for number in (2, 3)
        if sum(row[0] == container(app_id, number) and row[2] == "app.log" for row in rows) > 2
    )


def test_read_indexed_with_access_lists() -> None:
    logs = AggregatedLogs(
        LocalStorage(),
        "application_1_0001",
        user="alice",
        settings=LogSettings(root=str(DATA / "indexed-acls")),
    )
    [found] = logs.containers()
    assert (found.container_id, found.node) == ("container_e17_1_0001_01_000002", "h_1:8041")
    [file] = found.files
    assert file.name == "a\0ü😀.log"
    assert file.snapshots[0].modified_ms == 1699999999000
    assert file.snapshots[0].read() == b"hello\n"


def test_read_of_an_unknown_container_or_file() -> None:
    logs = recorded("tfile-gz")
    with pytest.raises(NoLogs, match="there are no logs of container_1_1_01_000009"):
        logs.read("container_1_1_01_000009", "stdout.txt")
    with pytest.raises(NoLogs, match="has no log file stdout") as caught:
        logs.read(container(recording("tfile-gz")[0], 2), "stdout")
    assert "stdout.txt" in caught.value.hint


def test_reading_sends_few_requests() -> None:
    for name in ("tfile-gz", "indexed-gz"):
        store = Store.of(DATA / name)
        logs = AggregatedLogs(
            store, recording(name)[0], user="alice", settings=LogSettings(root="/")
        )
        for found in logs.containers():
            for file in found.files:
                logs.read(found.container_id, file.name)
        assert store.listings <= 3
        assert store.requests == 1  # all of it fits into the one read of its end


# --- a storage in memory --------------------------------------------------------------------------


@dataclass
class Item:
    name: str
    size: int
    is_dir: bool
    modified_ms: int = 1_700_000_000_000


@dataclass
class Store:
    """Files by path; counts, and fails as asked."""

    files: dict[str, bytes] = field(default_factory=dict)
    forbidden: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    listings: int = 0
    requests: int = 0

    @classmethod
    def of(cls, directory: Path) -> Store:
        return cls(
            {
                f"/{path.relative_to(directory)}": path.read_bytes()
                for path in sorted(directory.rglob("*"))
                if path.is_file()
            }
        )

    def list_dir(self, path: str) -> list[Item]:
        self.listings += 1
        path = path.rstrip("/").replace("//", "/")
        if any(path.startswith(item) for item in self.forbidden):
            raise AuthError(f"{path}: Permission denied: user=bob")
        below = {
            name.removeprefix(f"{path}/"): data
            for name, data in self.files.items()
            if name.startswith(f"{path}/")
        }
        if not below:
            raise NoSuchPath(f"{path}: no such file or directory")
        found = {
            name.split("/")[0]: Item(
                name.split("/")[0], 0 if "/" in name else len(data), "/" in name
            )
            for name, data in below.items()
        }
        return list(found.values())

    def open(self, path: str) -> Opened:
        path = path.replace("//", "/")
        if path in self.vanished:
            raise NoSuchPath(f"{path}: no such file or directory")
        return Opened(self, self.files[path])


@dataclass
class Opened:
    store: Store
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def read_range(self, start: int, length: int) -> bytes:
        self.store.requests += 1
        return self.data[start : start + length]


APP, ROWS = recording("tfile-gz")
INDEXED_APP = recording("indexed-gz")[0]
TFILE = next((DATA / "tfile-gz").rglob("localhost_*")).read_bytes()
INDEXED = next((DATA / "indexed-gz").rglob("localhost_*")).read_bytes()


def reader(
    store: Store, app_id: str = APP, *, said: WhatYarnSays | None = None, **known: Any
) -> AggregatedLogs:
    return AggregatedLogs(
        store, app_id, user="alice", settings=replace(LogSettings(), **known), said=said
    )


def number_of_files(logs: AggregatedLogs) -> int:
    return sum(len(found.files) for found in logs.containers())


# --- layouts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "directory",
    [
        "/tmp/logs/alice/bucket-logs-tfile/0009",
        "/tmp/logs/alice/bucket-mine-anything/0009",
        "/tmp/logs/alice/logs-tfile",
        "/tmp/logs/alice/logs",
        "/tmp/logs/alice/vendor",
    ],
)
def test_find_directories_of_every_layout(directory: str) -> None:
    assert number_of_files(reader(Store({f"{directory}/{APP}/localhost_17971": TFILE}))) == len(
        ROWS
    )


def test_find_directories_computes_the_bucket() -> None:
    store = Store({"/tmp/logs/alice/bucket-logs-tfile/2345/application_1_12345/h_1": TFILE})
    assert number_of_files(reader(store, "application_1_12345")) == len(ROWS)


def test_two_formats_are_distinguished_by_content() -> None:
    store = Store(
        {
            f"/tmp/logs/alice/bucket-logs-x/0010/{INDEXED_APP}/h1_8041": INDEXED,
            f"/tmp/logs/alice/bucket-logs-y/0010/{INDEXED_APP}/h2_8041": TFILE,
        }
    )
    assert {found.node for found in reader(store, INDEXED_APP).containers()} == {
        "localhost:17971",
        "h2:8041",
    }


def test_log_settings_with_a_root_per_format() -> None:
    found = LogSettings.from_properties(
        {
            "yarn.nodemanager.remote-app-log-dir": "hdfs://other/logs",
            "yarn.log-aggregation.IFile.remote-app-log-dir": "/ifile",
            "yarn.log-aggregation.IFile.remote-app-log-dir-suffix": "logs",
            "yarn.log-aggregation-enable": "TRUE",
            "yarn.log-aggregation.retain-seconds": "604800",
        }
    )
    assert found == LogSettings(
        root="hdfs://other/logs", other_roots=("/ifile",), enabled=True, retain_s=604800
    )
    store = Store({f"/ifile/alice/bucket-logs-ifile/0010/{INDEXED_APP}/h_1": INDEXED})
    assert number_of_files(reader(store, INDEXED_APP, other_roots=("/ifile",))) > 0


@pytest.mark.parametrize(
    "values",
    [{}, {"yarn.log-aggregation.retain-seconds": "-1", "yarn.log-aggregation-enable": "perhaps"}],
)
def test_log_settings_of_missing_values(values: dict[str, str]) -> None:
    assert LogSettings.from_properties(values) == LogSettings(
        root="/tmp/logs", enabled=None, retain_s=None
    )


# --- while it is written --------------------------------------------------------------------------

HERE = f"/tmp/logs/alice/bucket-logs-tfile/0009/{APP}"
INDEXED_HERE = f"/tmp/logs/alice/bucket-logs-indexedfile/0010/{INDEXED_APP}"


def test_warnings_name_an_upload_under_way() -> None:
    logs = reader(Store({f"{HERE}/h1_8041": TFILE, f"{HERE}/h2_8041.tmp": b""}))
    assert number_of_files(logs) == len(ROWS)
    assert logs.warnings == ("h2:8041 has not finished its upload",)


def test_containers_while_the_only_upload_is_under_way() -> None:
    with pytest.raises(NoLogs, match="just being uploaded") as caught:
        reader(Store({f"{HERE}/h2_8041.tmp": b""})).containers()
    assert caught.value.reason is Absence.NOT_YET


def test_containers_of_an_interrupted_upload() -> None:
    cut = TFILE[: TFILE.rindex(b"data:BCFile.index") - 400]
    logs = reader(Store({f"{HERE}/h1_8041.tmp": cut}))
    assert number_of_files(logs) > len(ROWS) / 2
    assert logs.read(container(APP, 2), "short") == b"no final newline"
    assert "h1:8041 has not finished its upload" in logs.warnings


def test_survey_prefers_a_finished_file() -> None:
    logs = reader(Store({f"{HERE}/h1_8041": TFILE, f"{HERE}/h1_8041.tmp": TFILE[:5000]}))
    assert number_of_files(logs) == len(ROWS)
    assert logs.warnings == ()


def test_indexed_file_is_read_up_to_its_safe_end() -> None:
    said = len(b"h1_8041").to_bytes(4, "big") + b"h1_8041" + len(INDEXED).to_bytes(8, "big")
    logs = reader(
        Store(
            {
                f"{INDEXED_HERE}/h1_8041": INDEXED + b"\nhalf an upload",
                f"{INDEXED_HERE}/h1_8041-checksum": said,
            }
        ),
        INDEXED_APP,
    )
    assert logs.read(container(INDEXED_APP, 2), "short") == b"no final newline"


def test_indexed_file_during_its_first_upload() -> None:
    said = len(b"h1_8041").to_bytes(4, "big") + b"h1_8041" + bytes(8)
    store = Store({f"{INDEXED_HERE}/h1_8041": b"half", f"{INDEXED_HERE}/h1_8041-checksum": said})
    with pytest.raises(NoLogs, match="just being uploaded"):
        reader(store, INDEXED_APP).containers()


@pytest.mark.parametrize("said", [b"", b"\0\0", b"\0\0\0\7h1", b"\xff\xff\xff\xff"])
def test_survey_with_an_incomplete_checksum_file(said: bytes) -> None:
    store = Store({f"{INDEXED_HERE}/h1_8041": INDEXED, f"{INDEXED_HERE}/h1_8041-checksum": said})
    assert number_of_files(reader(store, INDEXED_APP)) > 0


def test_containers_are_listed_again_when_none_were_found() -> None:
    store = Store()
    logs = reader(store)
    with pytest.raises(NoLogs):
        logs.containers()
    store.files[f"{HERE}/h1_8041"] = TFILE
    assert number_of_files(logs) == len(ROWS)


def test_containers_when_a_file_is_deleted_meanwhile() -> None:
    files = {f"{HERE}/h1_8041": TFILE, f"{HERE}/h2_8041": TFILE}
    logs = reader(Store(files, vanished=(f"{HERE}/h2_8041",)))
    assert number_of_files(logs) == len(ROWS)
    assert logs.warnings == (f"{HERE}/h2_8041: was deleted during the reading",)


# --- why there is nothing -------------------------------------------------------------------------

DAY = 86400
ENDED = 1_700_000_000_000


def later(seconds: int, status: str | None) -> WhatYarnSays:
    return WhatYarnSays(status=status, finished_ms=ENDED, now_ms=ENDED + seconds * 1000)


@pytest.mark.parametrize(
    ("said", "known", "reason", "words"),
    [
        (WhatYarnSays(status="DISABLED"), {}, Absence.OFF, "the cluster does not collect logs"),
        (WhatYarnSays(), {"enabled": False}, Absence.OFF, "the cluster does not collect logs"),
        (WhatYarnSays(status="NOT_START", running=True), {}, Absence.NOT_YET, "still running"),
        (
            WhatYarnSays(status="NOT_START", running=True),
            {"enabled": False},
            Absence.NOT_YET,
            "still running",
        ),
        (
            later(20, "NOT_START"),
            {},
            Absence.NOT_YET,
            "its logs are not collected yet, 20 s after its end",
        ),
        (WhatYarnSays(status="RUNNING"), {}, Absence.NOT_YET, "its logs are not collected yet"),
        (
            later(9 * DAY, "SUCCEEDED"),
            {"retain_s": 7 * DAY},
            Absence.DELETED,
            "it ended 9 d ago, and the cluster keeps them for 7 d",
        ),
        (later(9 * DAY, None), {"retain_s": 7 * DAY}, Absence.DELETED, "its logs are deleted"),
        (
            later(100, "SUCCEEDED"),
            {"retain_s": 90},
            Absence.DELETED,
            "it ended 100 s ago, and the cluster keeps them for 90 s",
        ),
        (
            later(3600, "SUCCEEDED"),
            {},
            Absence.DELETED,
            "its logs were collected, but are not in /tmp/logs/alice",
        ),
        (
            later(3600, "FAILED"),
            {},
            Absence.FAILED,
            "no node could upload its logs (log aggregation: FAILED)",
        ),
        (
            later(3600, "TIME_OUT"),
            {},
            Absence.FAILED,
            "no node could upload its logs (log aggregation: TIME_OUT)",
        ),
        (later(3600, "NOT_START"), {}, Absence.NOTHING, "there are no logs in /tmp/logs/alice"),
        (WhatYarnSays(), {}, Absence.NOTHING, "there are no logs in /tmp/logs/alice"),
        (
            WhatYarnSays(status="NEW_IN_HADOOP_9"),
            {},
            Absence.NOTHING,
            "there are no logs in /tmp/logs/alice",
        ),
    ],
)
def test_no_logs_gives_the_reason(
    said: WhatYarnSays, known: dict[str, Any], reason: Absence, words: str
) -> None:
    with pytest.raises(NoLogs) as caught:
        reader(Store(), said=said, **known).containers()
    assert caught.value.reason is reason
    assert caught.value.message.startswith(f"{APP}: ")
    assert words in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_status == 5
    assert caught.value.details == {"reason": reason.value}


def test_containers_of_another_user() -> None:
    store = Store({f"{HERE}/h1_8041": TFILE}, forbidden=("/tmp/logs/alice",))
    for call in (
        reader(store).containers,
        lambda: next(reader(store).find("x")),
        lambda: reader(store).read("c", "x"),
    ):
        with pytest.raises(
            AuthError, match=r"^/tmp/logs/alice: not allowed to read the logs of alice: "
        ) as caught:
            call()
        assert "account of alice" in caught.value.hint


def test_no_logs_names_a_hadoop_archive() -> None:
    store = Store({f"{HERE}/{APP}.har/part-0": b"x", f"{HERE}/{APP}.har/_index": b"x"})
    with pytest.raises(
        NoLogs, match=r"are in the Hadoop archive .*\.har, which is not supported"
    ) as caught:
        reader(store).containers()
    assert caught.value.reason is Absence.ARCHIVED
    assert f"yarn logs -applicationId {APP}" in caught.value.hint


# --- rolled logs ----------------------------------------------------------------------------------


def rolled(*uploads: bytes) -> AggregatedLogs:
    from tests.builders.log_files import log, record, write_tfile

    stamp = 1_795_259_223_013
    files = {
        f"{HERE}/h1_8041_{stamp + number}": write_tfile(
            [[record("container_1_0009_01_000002", log("app.log", content))]]
        )
        for number, content in enumerate(uploads)
    }
    return reader(Store(dict(reversed(files.items()))))


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
def test_stream_joins_rolled_uploads(uploads: tuple[bytes, ...], whole: bytes) -> None:
    logs = rolled(*uploads)
    assert logs.read("container_1_0009_01_000002", "app.log") == whole
    for tail in (0, 1, 3, 5, len(whole), len(whole) + 9):
        assert (
            logs.read("container_1_0009_01_000002", "app.log", tail=tail)
            == whole[len(whole) - min(tail, len(whole)) :]
        )
    [found] = logs.containers()
    assert [snapshot.size for snapshot in found.files[0].snapshots] == [
        len(upload) for upload in uploads
    ]
    assert found.files[0].size == len(uploads[-1])


# --- damaged files --------------------------------------------------------------------------------


def test_containers_of_one_damaged_node_file() -> None:
    logs = reader(
        Store(
            {f"{HERE}/h1_8041": TFILE, f"{HERE}/h2_8041": b"rubbish", f"{HERE}/h3_8041": TFILE[:-1]}
        )
    )
    assert number_of_files(logs) == len(ROWS)
    assert len(logs.warnings) == 2
    assert all("neither a TFile nor an IndexedFile" in warning for warning in logs.warnings)


def test_containers_of_damaged_files_only() -> None:
    with pytest.raises(BadAnswer, match="/h2_8041: the log file is damaged") as caught:
        reader(Store({f"{HERE}/h2_8041": b"rubbish"})).containers()
    assert caught.value.exit_status == 7


def test_indexed_file_of_another_application() -> None:
    with pytest.raises(BadAnswer, match="neither"):
        reader(Store({f"{HERE}/h2_8041": INDEXED})).containers()


def read_everything(logs: AggregatedLogs) -> None:
    """Read all there is; only this package's errors may come out."""
    try:
        found = logs.containers()
    except SubmitTFJobError:
        return
    list(logs.find("job-report.json"))
    for item in found:
        for file in item.files:
            with suppress(SubmitTFJobError):
                logs.read(item.container_id, file.name)


ROLLED_APP = recording("tfile-none-rolled")[0]
ROLLED = max(
    (path.read_bytes() for path in (DATA / "tfile-none-rolled").rglob("localhost_*")), key=len
)
SMALL = next(
    path.read_bytes()
    for path in (DATA / "tfile-none-rolled").rglob("localhost_*")
    if path.stat().st_size < 500
)
ACLS = next((DATA / "indexed-acls").rglob("h_*")).read_bytes()
SAMPLES = {
    "tfile-gz": (APP, TFILE),
    "tfile-none": (ROLLED_APP, SMALL),
    "indexed": (INDEXED_APP, INDEXED),
    "acls": ("application_1_0001", ACLS),
}
fuzzed = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def damaged_store(app_id: str, data: bytes, name: str = "h1_8041") -> AggregatedLogs:
    return reader(Store({f"/tmp/logs/alice/logs/{app_id}/{name}": data}), app_id)


@pytest.mark.parametrize("sample", SAMPLES)
@fuzzed
@given(st.data())
def test_truncated_file_raises_damaged(sample: str, data: st.DataObject) -> None:
    app_id, whole = SAMPLES[sample]
    cut = data.draw(st.integers(min_value=0, max_value=len(whole)))
    for name in ("h1_8041", "h1_8041.tmp"):
        read_everything(damaged_store(app_id, whole[:cut], name))


@pytest.mark.parametrize("sample", SAMPLES)
@fuzzed
@given(st.data())
def test_changed_file_raises_damaged(sample: str, data: st.DataObject) -> None:
    app_id, whole = SAMPLES[sample]
    changed = bytearray(whole)
    near_the_end = st.integers(min_value=max(0, len(whole) - 2500), max_value=len(whole) - 1)
    places = st.lists(
        st.tuples(near_the_end | st.integers(0, len(whole) - 1), st.integers(0, 255)),
        min_size=1,
        max_size=6,
    )
    for place, value in data.draw(places):
        changed[place] = value
    for name in ("h1_8041", "h1_8041.tmp"):
        read_everything(damaged_store(app_id, bytes(changed), name))


@pytest.mark.parametrize("sample", SAMPLES)
@fuzzed
@given(st.data())
def test_spliced_file_raises_damaged(sample: str, data: st.DataObject) -> None:
    app_id, whole = SAMPLES[sample]
    at = data.draw(st.integers(0, len(whole)))
    until = data.draw(st.integers(at, len(whole)))
    read_everything(
        damaged_store(app_id, whole[:at] + data.draw(st.binary(max_size=40)) + whole[until:])
    )


@fuzzed
@given(st.binary(max_size=600))
def test_scan_of_any_records(value: bytes) -> None:
    from tests.builders.log_files import record, write_tfile

    for compression in ("none", "gz"):
        read_everything(
            damaged_store(
                APP,
                write_tfile(
                    [[record("container_1_0009_01_000002", value, chunk=9), value]],
                    compression=compression,
                ),
            )
        )


@fuzzed
@given(st.binary(max_size=600))
def test_read_indexed_of_any_index(index: bytes) -> None:
    uuid = application_uuid(APP)
    for begin in (
        b"",
        bytes.fromhex("aced0005"),
        bytes.fromhex("aced0005737200136a6176612e7574696c2e41727261794c697374"),
    ):
        data = begin + index
        read_everything(damaged_store(APP, uuid + data + len(data).to_bytes(4, "big") + uuid))


def bomb_of_depth() -> bytes:
    """An array in an array in an array …"""
    return (
        bytes.fromhex("aced0005")
        + b"\x75\x72\x00\x02[["
        + bytes(8)
        + b"\x02\x00\x00\x78\x70\x00\x00\x00\x01"
        + b"\x75\x71\x00\x7e\x00\x00\x00\x00\x00\x01" * 5000
    )


def bomb_of_size() -> bytes:
    """Four thousand million nothings."""
    return (
        bytes.fromhex("aced0005")
        + b"\x75\x72\x00\x02[Z"
        + bytes(8)
        + b"\x02\x00\x00\x78\x70\xff\xff\xff\xff"
        + bytes(1000)
    )


@pytest.mark.parametrize("bomb", [bomb_of_depth, bomb_of_size])
def test_read_indexed_of_a_bomb(bomb: Callable[[], bytes]) -> None:
    uuid, index = application_uuid(APP), bomb()
    with pytest.raises(BadAnswer):
        damaged_store(APP, uuid + index + len(index).to_bytes(4, "big") + uuid).containers()
