"""Followers without the job spec wait for the next run of a job that ran out of memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from submit_tf_job import operations
from submit_tf_job.operations import next_run
from tests.fakes.short_of_memory import OOM, SPEC, Story


class Submitter:
    """A story whose submitter needs seconds for the next run, while another one waits."""

    def __init__(self, story: Story, after_s: float) -> None:
        self.story, self.status = story, story.fails()
        self.step, self.said = story.step(self.status), list[str]()
        self.at = story.cluster.clock() + after_s
        self.cluster = replace(story.cluster, sleep=self.sleep)
        self.done: operations.Submission | None = None

    def sleep(self, seconds: float) -> None:
        self.story.stage.fake.clock.sleep(seconds)
        if self.done is None and self.story.cluster.clock() >= self.at:
            self.done = self.story.submit(self.step)

    def wait(self) -> operations.JobRef | None:
        return next_run(self.cluster, self.status, OOM, on_wait=self.said.append)


def test_next_run_waits_for_the_submitter() -> None:
    follower = Submitter(Story(), after_s=20)
    assert follower.wait() == operations.JobRef("ranker", follower.story.applications[-1])
    assert follower.said == ["waiting up to 60 s for its next run, with more memory"]
    assert len(follower.story.applications) == 2


def test_next_run_gives_up_where_nothing_submits_it() -> None:
    follower = Submitter(Story(), after_s=10_000)
    begun = follower.cluster.clock()
    assert follower.wait() is None
    assert follower.cluster.clock() - begun == pytest.approx(60, abs=1)
    assert follower.said[1:] == [
        "not submitted again: nothing that has its job spec follows it",
    ]
    assert len(follower.story.applications) == 1


def test_next_run_does_not_wait_for_a_job_that_asks_for_none() -> None:
    story = Story(SPEC.replace(", memory: 1.5", ""))
    status, begun = story.fails(), story.cluster.clock()
    assert next_run(story.cluster, status, OOM) is None
    assert story.cluster.clock() == begun


def test_next_run_does_not_wait_after_the_last_run_or_another_failure() -> None:
    story = Story(SPEC.replace("max: 2", "max: 1"))
    story.submit(story.step(story.fails()))
    status, begun = story.fails(), story.cluster.clock()
    assert next_run(story.cluster, status, OOM) is None
    assert next_run(story.cluster, status, replace(OOM, code="killed")) is None
    assert next_run(story.cluster, status, None) is None
    assert story.cluster.clock() == begun


def test_next_run_of_a_late_follower_is_the_newest() -> None:
    story = Story()
    status = story.fails()
    story.submit(story.step(status))
    story.submit(story.step(story.fails()))
    found = next_run(story.cluster, status, OOM)
    assert found == operations.JobRef("ranker", story.applications[2])


def test_next_run_leaves_another_job_of_that_name() -> None:
    story = Story()
    status = story.fails()
    operations.submit(story.planned, story.cluster, replace=True)
    assert next_run(story.cluster, status, OOM) is None
