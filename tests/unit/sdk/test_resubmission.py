"""The handle of a job that is submitted again with more memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from submit_tf_job import operations
from submit_tf_job.errors import NameTaken
from submit_tf_job.observation import JobState, JobStatus, Verdict
from submit_tf_job.sdk.client import JobHandle, Status
from tests.fakes.short_of_memory import OOM, Story


class Succeeded(JobStatus):
    @property
    def verdict(self) -> Verdict:
        return Verdict(JobState.SUCCEEDED)


def handle_of(story: Story, monkeypatch: pytest.MonkeyPatch, *ends: Status) -> JobHandle:
    """Return a handle whose job ends so, one run after the other."""
    following = iter(ends)
    monkeypatch.setattr(JobHandle, "_follow", lambda *_given, **_named: next(following))
    return JobHandle(
        SimpleNamespace(cluster=story.cluster),  # type: ignore[arg-type]
        "ranker",
        story.done.ref.application_id,
        submission=story.done,
        planned=story.planned,
    )


def test_wait_goes_on_with_the_next_run(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    failed = story.fails()
    handle = handle_of(
        story, monkeypatch, Status(failed, OOM), Status(Succeeded("ranker", None, None))
    )
    assert handle.wait().error is None
    assert handle.application_id == story.applications[-1] != failed.application_id


def test_wait_of_a_handle_that_did_not_submit_ends_with_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    failed = story.fails()
    handle = handle_of(story, monkeypatch, Status(failed, OOM))
    handle.planned = None
    assert handle.wait().error is not None
    assert len(story.applications) == 1


def test_wait_of_an_attached_handle_follows_the_next_run_of_the_submitter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    failed = story.fails()
    story.submit(story.step(failed))
    submitter = handle_of(
        story, monkeypatch, Status(failed, OOM), Status(Succeeded("ranker", None, None))
    )
    handle = JobHandle(submitter.client, "ranker", failed.application_id, by_name=True)
    assert handle.wait().error is None
    assert handle.application_id == story.applications[-1] != failed.application_id


def test_wait_ends_with_the_run_when_the_next_is_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    story = Story()
    handle = handle_of(story, monkeypatch, Status(story.fails(), OOM))

    def refuse(*_given: Any, **_named: Any) -> None:
        raise NameTaken("ranker is taken")

    monkeypatch.setattr(operations, "submit", refuse)
    assert handle.wait().error is not None
    assert "not submitted again: ranker is taken" in caplog.text
