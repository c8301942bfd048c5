"""The lines printed while a job is followed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from submit_tf_job.cli.context import Context
from submit_tf_job.diagnose.cause import Cause
from submit_tf_job.observation import JobReport, JobState, JobStatus, Verdict
from submit_tf_job.report import follow_text
from submit_tf_job.yarn.observed import AppReport

FULL, USER = (
    Cause("queue-full", "the queue is full", "wait"),
    Cause("user-limit", "the user has enough"),
)
Tick = Callable[[float], None]


def look(waiting_s: float, state: JobState = JobState.PENDING) -> JobStatus:
    app = AppReport.from_json(
        {"id": "application_1_1", "state": "ACCEPTED", "elapsedTime": int(waiting_s * 1000)}
    )
    return JobStatus("mnist", "application_1_1", app, given_verdict=Verdict(state))


@pytest.fixture
def tick(monkeypatch: pytest.MonkeyPatch) -> Tick:
    now = [100.0]
    monkeypatch.setattr("submit_tf_job.report.follow_text.time.monotonic", lambda: now[0])

    def advance(seconds: float) -> None:
        now[0] += seconds

    return advance


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.strip() for line in capsys.readouterr().err.splitlines() if "PENDING" not in line]


def test_update_prints_a_cause_once(tick: Tick, capsys: pytest.CaptureFixture[str]) -> None:
    answers = [(FULL,), (FULL,), (USER,)]
    printer = follow_text.ChangePrinter(Context().say, lambda _status: answers.pop(0))
    for _ in range(14):
        printer.update(look(6))
        tick(1)
    assert (said(capsys), len(answers)) == (["waits because: the queue is full", "next: wait"], 2)
    tick(1)
    printer.update(look(21))
    assert (said(capsys), len(answers)) == ([], 1)
    tick(15)
    printer.update(look(36))
    assert said(capsys) == ["waits because: the user has enough"]


def test_update_asks_no_cause_of_a_young_or_running_job(tick: Tick) -> None:
    def never(_status: JobStatus) -> tuple[Cause, ...]:
        raise AssertionError("asked")

    printer = follow_text.ChangePrinter(Context().say, never)
    printer.update(look(4.9))
    printer.update(look(60, JobState.RUNNING))


def test_update_prints_a_normal_cause_only_after_long(
    tick: Tick, capsys: pytest.CaptureFixture[str]
) -> None:
    printer = follow_text.ChangePrinter(
        Context().say,
        lambda _status: (Cause("am-starting", "its ApplicationMaster has a container"),),
    )
    printer.update(look(10))
    assert said(capsys) == []
    tick(16)
    printer.update(look(31))
    assert said(capsys) == ["waits because: its ApplicationMaster has a container"]


def test_update_prints_progress_rarely(tick: Tick, capsys: pytest.CaptureFixture[str]) -> None:
    def at(step: int, state: JobState = JobState.RUNNING) -> JobStatus:
        progress = {"step": step, "total": 99}
        data = {"version": 1, "submission": "s", "state": "running", "progress": progress}
        return replace(look(1, state), report=JobReport.parse(json.dumps(data).encode()))

    printer = follow_text.ChangePrinter(Context().say, progress_every_s=30)
    for step in range(1, 40):
        printer.update(at(step))
        tick(1)
    printer.update(at(40, JobState.FINISHING))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[-1] for line in lines] == ["1/99", "31/99", "40/99"]


def test_each_retry_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    def ended(count: int) -> JobStatus:
        past = [{"generation": n, "task": "worker-0", "message": f"lost {n}"} for n in range(count)]
        fields = {"retries": {"max": 3}, "generation": count, "generations": past}
        report = JobReport.parse(
            json.dumps({"version": 1, "submission": "s", "state": "running", **fields}).encode()
        )
        return replace(look(60, JobState.RUNNING), report=report)

    printer = follow_text.ChangePrinter(Context().say, lambda _status: ())
    for count in (0, 1, 1, 3):
        printer.update(ended(count))
    lines = [line for line in said(capsys) if "retry" in line]
    assert lines == [f"lost {n}; all tasks start again (retry {n + 1} of 3)" for n in range(3)]
