"""What is said while a job is followed: changes, and why it waits, politely."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from submit_tf_job.cli import follow
from submit_tf_job.cli.door import Context
from submit_tf_job.diagnose.model import Cause
from submit_tf_job.observation import JobState, Observation, Verdict
from submit_tf_job.watch import Look
from submit_tf_job.yarn.observed import AppReport

FULL, USER = Cause("queue-full", "the queue is full", "wait"), Cause("user-limit", "the user has enough")
Tick = Callable[[float], None]


def look(waiting_s: float, state: JobState = JobState.PENDING) -> Look:
    app = AppReport.from_json({"id": "application_1_1", "state": "ACCEPTED", "elapsedTime": int(waiting_s * 1000)})
    return Look(Observation("mnist", "application_1_1", app), Verdict(state))


@pytest.fixture
def tick(monkeypatch: pytest.MonkeyPatch) -> Tick:
    now = [100.0]
    monkeypatch.setattr("submit_tf_job.cli.follow.time.monotonic", lambda: now[0])

    def advance(seconds: float) -> None:
        now[0] += seconds

    return advance


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.strip() for line in capsys.readouterr().err.splitlines() if "PENDING" not in line]


def test_a_cause_is_told_once_and_asked_for_rarely(tick: Tick, capsys: pytest.CaptureFixture[str]) -> None:
    answers = [(FULL,), (FULL,), (USER,)]
    talk = follow.Talk(Context(), lambda _look: answers.pop(0))
    for _ in range(14):
        talk.look(look(6))
        tick(1)
    assert (said(capsys), len(answers)) == (["waits because: the queue is full", "next: wait"], 2)
    tick(1)
    talk.look(look(21))
    assert (said(capsys), len(answers)) == ([], 1)
    tick(15)
    talk.look(look(36))
    assert said(capsys) == ["waits because: the user has enough"]


def test_nothing_is_asked_of_a_job_that_is_young_or_runs(tick: Tick) -> None:
    def never(_look: Look) -> tuple[Cause, ...]:
        raise AssertionError("asked")

    talk = follow.Talk(Context(), never)
    talk.look(look(4.9))
    talk.look(look(60, JobState.RUNNING))


def test_what_every_job_waits_for_is_told_only_when_it_takes_long(tick: Tick, capsys: pytest.CaptureFixture[str]) -> None:
    talk = follow.Talk(Context(), lambda _look: (Cause("am-starting", "its ApplicationMaster has a container"),))
    talk.look(look(10))
    assert said(capsys) == []
    tick(16)
    talk.look(look(31))
    assert said(capsys) == ["waits because: its ApplicationMaster has a container"]
