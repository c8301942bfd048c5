"""What tasks wrote, as lines: times, runs, filters, the end of a file, the order of many files, and
which task a container was.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest

from submit_tf_job.logs import lines
from submit_tf_job.logs.archive import from_report, name_of
from submit_tf_job.logs.entries import (
    MACHINE_AND_BOOTSTRAP_LINES,
    MACHINE_LINES,
    Origin,
    Run,
    TaskContainer,
)
from submit_tf_job.logs.lines import Dates, node_time
from submit_tf_job.logs.read import in_order
from submit_tf_job.logs.sources import log_server_of
from tests.builders.statuses import report

NOW = datetime(2026, 5, 12, 12, 30, tzinfo=timezone.utc)
NOON = datetime(2026, 5, 12, 12, 0, tzinfo=timezone.utc).timestamp()
DATES = Dates(NOW.timestamp, timezone.utc)
WORKER = TaskContainer("worker-0", "container_1_0001_01_000002")
OUT = Origin(WORKER, "stdout.txt")


def runs(*pieces: bytes, dates: Dates | None = DATES, origin: Origin = OUT) -> Iterator[Run]:
    return lines.RunCutter(origin, dates).cut(pieces)


def time_of(line: bytes, dates: Dates = DATES) -> float | None:
    return next((at for _place, at in dates.find(line)), None)


def text(found: Iterator[Run]) -> bytes:
    return b"".join(run.data for run in found)


# --- times ----------------------------------------------------------------------------------------


DATED = """\
1.5 | I0512 12:00:01.500000  7 session.cc:42] hello
1.5 | E0512 12:00:01.5 x
1.500123 | 2026-05-12 12:00:01.500123: I tensorflow/core/platform/cpu_feature_guard.cc:210] x
1.25 | 2026-05-12 12:00:01,250 INFO root - python logging
1 | 2026-05-12T12:00:01Z iso
1.5 | 2026-05-12T14:00:01.5+02:00 iso
1 | 2026-05-12 07:00:01-0500 iso
1 | [2026-05-12 12:00:01] bracket
1 | INFO 2026-05-12 12:00:01 word
nan | step 7: 2026-05-12 12:00:01 is about something else
nan | no time at all
nan | 2026-13-45 12:00:01 no date
nan | 2026-05-12 99:00:01 no time
nan | I0230 12:00:00.1 no day of any year
nan | 9999-12-31 23:59:59.999999 no end
nan | 9999-12-31 23:59:59 -1200 no moment of any year
nan | 0001-01-01 00:00:00 +0100 before all years
nan | 2027-01-01 00:00:00 forecast
nan | """


@pytest.mark.parametrize("row", DATED.splitlines())
def test_dates_of_lines(row: str) -> None:
    after_noon_s, _, line = row.partition(" | ")
    found = time_of(line.encode())
    wanted = NOON + float(after_noon_s)
    assert pytest.approx(wanted, abs=1e-6, nan_ok=True) == (found or float("nan"))


@pytest.mark.parametrize(
    ("now", "line", "then"),
    [
        ("2026-01-01T00:10", "I1231 23:59:00.0 x", "2025-12-31T23:59"),
        ("2025-12-31T23:50", "I0101 00:10:00.0 x", "2026-01-01T00:10"),  # a node further east
        ("2026-05-12T12:30", "I0229 12:00:00.0 x", "2024-02-29T12:00"),
    ],
)
def test_dates_without_a_year_take_the_last_that_fits(now: str, line: str, then: str) -> None:
    at = datetime.fromisoformat(f"{then}+00:00").timestamp()
    wall = datetime.fromisoformat(f"{now}+00:00").timestamp
    assert time_of(line.encode(), Dates(wall, timezone.utc)) == at


def test_times_have_the_zone_of_the_node() -> None:
    east = Dates(NOW.timestamp, timezone(timedelta(hours=2)))
    assert time_of(b"2026-05-12 14:00:01 x", east) == NOON + 1
    assert time_of(b"2026-05-12T12:00:01Z x", east) == NOON + 1
    read = datetime(2026, 11, 21, 9, 23, 21, tzinfo=timezone.utc)
    assert node_time("Sat Nov 21 10:53:21 +0130 2026") == read
    for odd in (None, "", "yesterday", "Sat Nov 31 10:53:21 +0000 2026", "Sat Nov 21 10:53 2026"):
        assert node_time(odd) is None


def test_times_of_a_job_that_is_followed_for_days() -> None:
    now = NOW
    dates = Dates(lambda: now.timestamp(), timezone.utc)
    assert time_of(b"I0512 12:00:01.0 x", dates) == NOON + 1
    now += timedelta(days=9)
    assert time_of(b"I0521 12:00:01.0 x", dates) == NOON + 9 * 86400 + 1


def test_times_without_a_zone_follow_the_daylight_saving_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        here = Dates(NOW.timestamp, None)
        summer, winter = (time_of(b"2026-%s-12 12:00:00 x" % m, here) for m in (b"05", b"01"))
    time.tzset()
    assert summer == NOON - 2 * 3600
    assert winter == datetime(2026, 1, 12, 11, tzinfo=timezone.utc).timestamp()


# --- lines for machines ---------------------------------------------------------------------------
MIXED = (
    b"bash: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8): No such file "
    b"or directory\n"
    b"/bin/bash: line 0: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8)\n"
    b'TFJOB_PROGRESS {"step": 1}\nTFJOB_PROGRESS is mentioned\n[submit_tf_job] starting: x\n'
    b'I0512 12:00:01.0 timed\nrest\nsubmit_tf_job-outcome {"status": 0}\n'
)


def test_without_leaves_out_lines_for_machines() -> None:
    assert text(lines.without(runs(MIXED), MACHINE_LINES)) == (
        b"TFJOB_PROGRESS is mentioned\n[submit_tf_job] starting: x\nI0512 12:00:01.0 timed\nrest\n"
    )
    kept = list(lines.without(runs(MIXED), MACHINE_AND_BOOTSTRAP_LINES))
    assert [(run.at, run.data) for run in kept] == [
        (None, b"TFJOB_PROGRESS is mentioned\n"),
        (NOON + 1, b"I0512 12:00:01.0 timed\nrest\n"),
    ]


def test_begins_at_counts_only_the_lines_that_are_shown() -> None:
    data = b"cut\n1\n2\n" + b"TFJOB_PROGRESS {}\n" * 5 + b"3\n"
    assert data[lines.begins_at(2, DATES, MACHINE_LINES)(data) or 0 :].startswith(b"2\n")
    assert lines.begins_at(2, DATES)(data) == len(data) - len(b"TFJOB_PROGRESS {}\n3\n")


# --- runs -----------------------------------------------------------------------------------------


def test_dated_begins_a_run_at_each_line_with_a_time() -> None:
    found = list(
        runs(b"head\n2026-05-12 12:00:01 a\n  more of a\n2026-05-12 12:0", b"0:02 b\nlast")
    )
    assert [(run.at and run.at - NOON, run.data) for run in found] == [
        (None, b"head\n"),
        (1, b"2026-05-12 12:00:01 a\n  more of a\n"),
        (2, b"2026-05-12 12:00:02 b\n"),
        (None, b"last\n"),
    ]
    assert [run.order - NOON for run in found] == [float("-inf"), 1, 2, 2]


def test_dated_keeps_the_order_of_a_file_when_its_clock_goes_back() -> None:
    found = list(runs(b"2026-05-12 12:00:09 a\n2026-05-12 12:00:01 b\n"))
    assert [(run.at and run.at - NOON, run.order - NOON) for run in found] == [(9, 9), (1, 9)]


def test_cutter_limits_a_line_without_end() -> None:
    found = list(runs(*[b"x" * 50_000] * 4))
    assert [len(run.data) for run in found] == [100_001, 100_001]


def test_cutter_divides_no_character_and_no_state_of_a_bar() -> None:
    data = "\u4e2d\U0001f600\xfc".encode() * 20_000
    for size in (9_999, 10_000, 10_001, 10_003):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        found = text(runs(*pieces))
        assert found.count(b"\n") > 1
        assert found.decode().replace("\n", "") == data.decode()
    states = b"".join(b"\r%6d/9999 it" % at for at in range(9_999))
    pieces = [states[at : at + 10_000] for at in range(0, len(states), 10_000)]
    shown = [lines.as_left(line) for line in text(runs(*pieces)).decode().split("\n")[:-1]]
    assert [len(line) for line in shown] == [14] * len(shown)
    assert shown[-1] == "  9998/9999 it"
    assert len(next(runs(b"\xbf" * 70_000)).data) == 70_001


# --- filters --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 3, 9])
@pytest.mark.parametrize("dates", [None, DATES])
def test_last_lines(count: int, dates: Dates | None) -> None:
    data = b"one\n2026-05-12 12:00:01 two\nthree\nfour"
    kept = text(lines.last_lines(runs(data, dates=dates), count))
    assert kept == b"".join((data + b"\n").splitlines(keepends=True)[-count:] if count else [])


def test_after_keeps_lines_of_unknown_age() -> None:
    said: list[int] = []
    many = [b"%d\n" % number for number in range(40)]
    assert text(lines.after(runs(*many), NOON, lambda: said.append(1))) == b"".join(many)
    assert text(lines.after(runs(b"a\n"), NOON, lambda: said.append(2))) == b"a\n"
    assert said == [1, 2]


# --- from the end ---------------------------------------------------------------------------------


def tail(data: bytes, enough: object) -> tuple[bytes, int]:
    asked = []

    def read(size: int) -> list[bytes]:
        asked.append(size)
        return [data[-size:]]

    wanted = lines.start_of_tail(read, len(data), enough)  # type: ignore[arg-type]
    return data[len(data) - wanted :], sum(asked)


def test_start_of_tail_finds_the_last_lines() -> None:
    data = b"".join(b"line %d\n" % number for number in range(100_000))
    found, read = tail(data, lines.begins_at(10, DATES))
    assert found == b"".join(b"line %d\n" % number for number in range(99_990, 100_000))
    assert read <= 8192
    found, read = tail(data, lines.begins_at(3000, DATES))
    assert found.count(b"\n") == 3000
    assert read < 100_000
    assert tail(data[:50], lines.begins_at(3000, DATES)) == (data[:50], 0)


def test_start_of_tail_holds_no_line_without_an_end_in_memory() -> None:
    asked: list[int] = []

    def read(tail: int) -> list[bytes]:
        asked.append(tail)
        return [b"x"]

    assert lines.start_of_tail(read, 10**12, lambda _data: None) == 10**12
    assert max(asked) <= 64 * 1024**2


def test_start_of_tail_includes_the_last_line_with_a_time() -> None:
    data = b"x\n" * 10_000 + b"2026-05-12 12:00:05 a\n" + b"more\n" * 20
    assert tail(data, lines.begins_at(3, DATES))[0].startswith(b"2026-05-12 12:00:05 a\n")


def test_start_of_tail_finds_the_recent_part() -> None:
    data = b"".join(
        f"{datetime.fromtimestamp(NOON + number, timezone.utc):%Y-%m-%d %H:%M:%S} x\n".encode()
        for number in range(20_000)
    )
    found, read = tail(data, lines.begins_before(NOON + 19_990, DATES))
    assert text(lines.after(runs(found), NOON + 19_990, pytest.fail)).count(b"\n") == 10
    assert read <= 8192


# --- many files -----------------------------------------------------------------------------------


def test_in_order_spools_many_files() -> None:
    reading: list[int] = []

    def one(number: int) -> Iterator[Run]:
        reading.append(number)
        for second in range(60):
            yield Run(
                Origin(TaskContainer(f"worker-{number}", "c"), "f"),
                NOON + second,
                NOON + second,
                b"%d\n" % number * 500,
            )
        assert reading[-1] == number, "another file was opened before this one was read"

    order = [
        (run.order, run.origin.container.task)
        for run in in_order([one(number) for number in range(50)])
    ]
    assert len(order) == 50 * 60
    assert [when for when, _task in order] == sorted(when for when, _task in order)


# --- which task -----------------------------------------------------------------------------------


def named(files: dict[str, bytes], known: dict[str, TaskContainer] | None = None) -> str:
    return name_of(WORKER.id, files, lambda name, most: files[name][-most:], known or {})


DOCKER = b"export YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_HOSTNAME="
SCRIPT, ERR = "launch_container.sh", "stderr.txt"


@pytest.mark.parametrize(
    ("files", "task"),
    [
        ({"serviceam.log": b"", SCRIPT: b""}, "am"),
        ({SCRIPT: b'#!\nexport TFJOB_INSTANCE="worker-3"\n'}, "worker-3"),
        ({SCRIPT: b'export TFJOB_INSTANCE=${TFJOB_INSTANCE:-"worker-3"}\n'}, "worker-3"),
        ({SCRIPT: DOCKER + b'"ps-1.mnist.alice.example.com"\n'}, "ps-1"),
        ({ERR: b'x\nsubmit_tf_job-outcome {"task":"chief-0"}\n'}, "chief-0"),
        ({ERR: b"submit_tf_job-outcome {broken\n"}, WORKER.id),
        ({ERR: b"nothing", SCRIPT: b'export TFJOB_INSTANCE="\x1b[31m-1"\n'}, WORKER.id),
        ({}, WORKER.id),
    ],
)
def test_name_of_container(files: dict[str, bytes], task: str) -> None:
    assert named(files) == task


def test_name_of_prefers_the_report() -> None:
    task = {"task": "worker-5", "container": WORKER.id, "host": "node7"}
    placeless = {"task": "worker-6", "container": "", "host": ""}
    known = from_report(report(tasks=[task, placeless, {"task": "../x", "container": "c"}, 1]))
    assert known == {WORKER.id: TaskContainer("worker-5", WORKER.id, "node7")}
    assert named({SCRIPT: b'export TFJOB_INSTANCE="worker-3"\n'}, known) == "worker-5"
    assert from_report(None) == {}


# --- a log server ---------------------------------------------------------------------------------

SERVERS = """\
yarn.log.server.web-service.url http://ahs:8188/ws/v1/applicationhistory/ http://ahs:8188/ws/v1/applicationhistory
yarn.log.server.url http://jhs:19888/jobhistory/logs http://jhs:19888/ws/v1/history
yarn.log.server.url https://jhs:19890/jobhistory/logs/ https://jhs:19890/ws/v1/history
yarn.log.server.url http://ahs:8188/applicationhistory/logs/ http://ahs:8188/ws/v1/applicationhistory
yarn.log.server.url ftp://x/jobhistory -
yarn.log.server.url http://[x/jobhistory -
yarn.log.server.web-service.url http://[x]/ws/v1/history -
another http://x/jobhistory -
"""


@pytest.mark.parametrize("row", SERVERS.splitlines())
def test_log_server_of_yarn_site(row: str) -> None:
    name, value, address = row.split()
    assert (log_server_of({name: value}) or "-") == address
