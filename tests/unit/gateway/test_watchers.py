"""Watches of jobs that are submitted again with more memory."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from submit_tf_job import operations
from submit_tf_job.gateway.causes import Causes
from submit_tf_job.gateway.watchers import JobChange, Listener, Watches
from submit_tf_job.observation import JobState, JobStatus, Verdict
from tests.fakes.short_of_memory import OOM, SPEC, Story


class Succeeded(JobStatus):
    @property
    def verdict(self) -> Verdict:
        return Verdict(JobState.SUCCEEDED)


class Told(Listener):
    """Somebody who listens, without an event loop."""

    def __init__(self) -> None:
        self.changes: list[JobChange] = []
        self.over = threading.Event()

    def tell(self, change: JobChange | None) -> None:
        assert change is not None
        self.changes.append(change)
        if change.final:
            self.over.set()


def last_of(story: Story, monkeypatch: pytest.MonkeyPatch, failed: JobStatus) -> JobChange:
    """Watch the job from its first run to the end; every later run succeeds."""

    def follow(_cluster: Any, ref: operations.JobRef, **_named: Any) -> JobStatus:
        if ref.application_id == failed.application_id:
            return failed
        return Succeeded("ranker", ref.application_id, None)

    monkeypatch.setattr(operations, "follow", follow)
    monkeypatch.setattr(operations, "why_failed", lambda _cluster, _status: OOM)
    ref = operations.JobRef("ranker", failed.application_id)
    told = Told()
    Watches(9, Causes()).listen(story.cluster, ref, told)
    assert told.over.wait(60), "it waited for the last change"
    return told.changes[-1]


def test_watch_follows_the_next_run(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    failed = story.fails()
    story.submit(story.step(failed))
    last = last_of(story, monkeypatch, failed)
    assert (last.job["state"], last.final) == ("SUCCEEDED", True)
    assert last.job["application_id"] == story.applications[-1]


def test_watch_ends_with_a_job_that_does_not_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(SPEC.replace(", memory: 1.5", ""))
    failed = story.fails()
    last = last_of(story, monkeypatch, failed)
    assert (last.job["state"], last.job["application_id"]) == ("FAILED", failed.application_id)
