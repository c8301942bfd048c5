"""`retries.memory`: a job that ran out of memory is submitted again, once, with more of it."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from submit_tf_job import operations
from submit_tf_job.errors import DeadlinePassed, NameTaken, Refused
from submit_tf_job.jobspec import loads
from submit_tf_job.operations.lineage import Resubmission, next_step
from submit_tf_job.plan import Plan
from submit_tf_job.yarn.observed import AppReport
from submit_tf_job.yarn.resource_manager import ResourceManager
from tests.fakes.short_of_memory import OOM, SPEC, USED, Story


def test_job_is_submitted_again_with_more_memory_for_the_role_that_ran_out_of_it() -> None:
    story = Story()
    step = story.step(story.fails())
    assert step.said.endswith("again with 3840Mi for worker (`retries.memory`, 1 of 2)")
    done = story.submit(step)
    assert not done.adopted
    assert {name: story.memory()[name] for name in ("chief", "worker")} == {
        "chief": "1024",
        "worker": "3840",
    }
    assert len(story.applications) == 2


def test_each_role_grows_from_what_it_had_last_and_the_number_is_bounded() -> None:
    story = Story()
    story.submit(story.step(story.fails()))
    of_the_chief = replace(OOM, task="chief-0", status=1, facts={})
    second = story.step(story.fails(), of_the_chief)
    assert second.said.endswith("with 1536Mi for chief (`retries.memory`, 2 of 2)")
    story.submit(second)
    assert (story.memory()["chief"], story.memory()["worker"]) == ("1536", "3840")
    third = story.step(story.fails())
    assert (third.plan, third.said) == (
        None,
        "not submitted again: it was, 2 times (`retries.max`)",
    )


def test_command_finds_the_later_run_as_its_own() -> None:
    story = Story()
    story.submit(story.step(story.fails()))
    story.stage.fake.clock.sleep(20)
    again = operations.submit(story.planned, story.cluster)
    assert again.adopted
    assert again.ref.application_id == story.applications[-1]


def test_every_follower_submits_the_same_application() -> None:
    story = Story()
    status = story.fails()
    known_better = replace(OOM, facts={**USED, "used": "3.5 GB"})
    first = story.submit(story.step(status))
    second = story.submit(story.step(status, known_better))
    assert (first.adopted, second.adopted) == (False, True)
    assert first.ref.application_id == second.ref.application_id
    assert len(story.applications) == 2


def test_late_follower_leaves_a_run_that_has_ended_too() -> None:
    story = Story()
    status = story.fails()
    step = story.step(status)
    first = story.submit(step)
    later = story.fails()
    assert later.application_id == first.ref.application_id
    with pytest.raises(NameTaken, match="which may be another submission"):  # without HDFS
        story.submit(step)
    assert len(story.applications) == 2


def test_late_follower_does_not_repeat_a_run_that_is_deleted() -> None:
    """Who submits the run after it has deleted its service."""
    story = Story()
    step = story.step(story.fails())
    story.submit(step)
    story.fails()
    operations.delete(story.cluster, "ranker")
    with pytest.raises(DeadlinePassed, match="next run"):
        story.submit(step)
    assert len(story.applications) == 2


def test_late_follower_waits_while_a_new_leader_lists_no_application(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    step = story.step(story.fails())
    story.submit(step)
    story.fails()
    operations.delete(story.cluster, "ranker")
    apps, clock = ResourceManager.apps, story.cluster.clock
    leads_from = clock()

    def listed(*given: Any, **named: Any) -> tuple[AppReport, ...]:
        return () if clock() - leads_from < 2.0 else apps(*given, **named)

    monkeypatch.setattr(ResourceManager, "apps", listed)
    with pytest.raises(DeadlinePassed, match="next run"):
        story.submit(step)
    assert len(story.applications) == 2


def test_run_that_failed_stays_when_the_next_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    step = story.step(story.fails())

    def refuse(*_given: object) -> str:
        raise Refused("9000 MiB is more than any node has")

    module = sys.modules["submit_tf_job.operations.submit"]  # the package has the function instead
    monkeypatch.setattr(module, "check_room", refuse)
    with pytest.raises(Refused):
        story.submit(step)
    assert story.cluster.client.get_service("ranker").id == step.after


def test_other_job_of_that_name_is_left_alone() -> None:
    story = Story()
    status = story.fails()
    operations.delete(story.cluster, "ranker")
    other = SPEC.replace("train.py", "other.py")
    job = loads(other, source="t.yaml", base=None)
    operations.submit(operations.make_plan(job, story.cluster.settings), story.cluster)
    with pytest.raises(NameTaken):
        story.submit(story.step(status))
    assert len(story.applications) == 2


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"code": "killed"}, id="killed for another reason"),
        pytest.param({"task": None}, id="no task is known"),
    ],
)
def test_other_failures_are_not_submitted_again(changed: dict[str, str | None]) -> None:
    story = Story()
    status = story.fails()
    cause = replace(OOM, **changed)  # type: ignore[arg-type]
    assert next_step(story.cluster, story.planned, status, cause) is None
    assert next_step(story.cluster, story.planned, status, None) is None


def test_job_that_does_not_ask_for_it_is_not_submitted_again() -> None:
    story = Story(SPEC.replace(", memory: 1.5", ""))
    assert next_step(story.cluster, story.planned, story.fails(), OOM) is None


def test_job_whose_history_is_not_known_is_not_submitted_again() -> None:
    story = Story()
    status = replace(story.fails(), service=None)
    step = story.step(status)
    assert step.plan is None
    assert step.said.startswith("not submitted again: how often it was is not known: ")


def test_resubmission_is_read_as_it_is_written() -> None:
    written = Resubmission(2, "application_1_0007", {"worker": 1536, "my-chief": 2048})
    assert Resubmission.of({"submit_tf_job.resubmission": written.text}) == written
    assert Resubmission.of({"submit_tf_job.resubmission": "nonsense"}) == Resubmission()


@pytest.mark.parametrize("seed", range(10))
def test_two_followers_at_any_moment_make_one_application_of_each_step(seed: int) -> None:
    """Either may see the end late, and acts on what it saw: on the run that failed then."""
    random, story = Random(seed), Story()
    pending: list[tuple[Plan | None, str]] = []
    runs = 1
    for _ in range(2):
        step = story.step(story.fails())
        runs += step.plan is not None
        pending += [(step.plan, step.after)] * 2
        random.shuffle(pending)
        while pending and (random.random() < 0.7 or not story.yarn.live("alice", "ranker")):
            planned, after = pending.pop()
            assert planned is not None
            with contextlib.suppress(NameTaken):  # a later run has the name
                operations.submit(planned, story.cluster, after=after)
            story.stage.fake.clock.sleep(random.choice([0, 1, 20]))
        if not story.yarn.live("alice", "ranker"):
            break
    assert len(story.applications) <= runs
    assert len(set(story.applications)) == len(story.applications)
