"""`retries.memory`: a job that ran out of memory is submitted again, once, with more of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import submit_tf_job
from tests.builders.command_line import Done
from tests.world import RM, TASKS, World

SPEC = "mnist.yaml"
RULE = {"max": 2, "memory": 1.5}


@pytest.fixture
def ranker(world: World) -> World:
    """Write the job spec; nothing is submitted yet."""
    world.spec(retries=RULE)
    return world


def runs_out(world: World, task: str = "worker-1", used: str = "1.5 GB") -> None:
    """End the live application, of which YARN has killed a container for its memory."""
    world.of_the_live_one()
    containers = world.runs(*TASKS)
    killed = containers[task]
    world.am_says(
        f"2026-01-01 00:00:00,001 [Component  dispatcher] INFO  x - [COMPINSTANCE {task} : "
        f"{killed}]: failed without retry, exitStatus=ContainerStatus: [ContainerId: {killed}, "
        f"State: COMPLETE, Capability: <memory:1024, vCores:1>, Diagnostics: is running beyond "
        f"memory limits. Current usage: {used} of 1 GB physical memory used; killed.\n"
        f", ExitStatus: -104, IP: null, Host: null]\n"
    )
    failure = {"task": task, "status": 137, "reason": "killed", "message": f"{task} was killed"}
    failure |= {"container": killed, "host": "node1"}
    chief = containers["chief-0"]
    world.reports(chief, "failed", first_failure=failure, outcome={"status": 1})
    world.ends("FAILED")


def succeeds(world: World) -> None:
    world.of_the_live_one()
    chief = world.runs(*TASKS)["chief-0"]
    world.reports(chief, "succeeded", outcome={"status": 0})
    world.ends()


def after_each_start(world: World, *ends: Callable[[], None]) -> None:
    """Let the first application that lives end so, and the next ones."""
    left = list(ends)

    def look() -> None:
        if any(app.came_up and not app.over for app in world.yarn.apps.values()):
            left.pop(0)()
        if left:
            world.cluster.clock.after(12, look)

    world.cluster.clock.after(12, look)


def memory(world: World) -> dict[str, str]:
    spec = world.service
    parts = {part["name"]: part["resource"]["memory"] for part in spec["components"]}
    return {role: parts[role] for role in ("chief", "worker")}


def followed(world: World, *ends: Callable[[], None], command: str = "submit") -> Done:
    after_each_start(world, *ends)
    return world("submit", SPEC) if command == "submit" else world("wait", "mnist")


def test_submit_follows_a_job_through_its_runs(ranker: World) -> None:
    """The role that ran out gets 1.5 times the larger of what it had and used; others keep it."""
    grown: list[dict[str, str]] = []

    def second() -> None:
        grown.append(memory(ranker))
        runs_out(ranker, "chief-0", used="1.0 GB")

    def third() -> None:
        grown.append(memory(ranker))
        [row] = ranker("list", "-o", "json").json["jobs"]
        assert row["application_id"] == list(ranker.yarn.apps)[-1]
        again = ranker("submit", SPEC, "-d", "-o", "json").json
        assert (again["adopted"], again["application_id"]) == (True, row["application_id"])
        succeeds(ranker)

    done = followed(ranker, lambda: runs_out(ranker), second, third)
    assert (done.status, len(ranker.yarn.apps)) == (0, 3), done
    assert grown == [{"chief": "1024", "worker": "2304"}, {"chief": "1536", "worker": "2304"}]
    assert "2304Mi for worker" in done.out


def test_the_number_of_runs_is_bounded(ranker: World) -> None:
    done = followed(ranker, *[lambda: runs_out(ranker)] * 3)
    assert (done.status, len(ranker.yarn.apps)) == (1, 3)
    assert "submitting it again with 2304Mi for worker (`retries.memory`, 1 of 2)" in done.err
    assert "not submitted again: it was, 2 times (`retries.max`)" in done.err


@pytest.mark.parametrize("rule", [{"max": 2}, None])
def test_a_job_that_does_not_ask_for_it_is_not_submitted_again(
    world: World, rule: dict[str, int] | None
) -> None:
    changes: dict[str, Any] = {"retries": rule} if rule else {}
    world.spec(**changes)
    done = followed(world, lambda: runs_out(world))
    assert (done.status, len(world.yarn.apps)) == (1, 1)
    assert "again" not in done.err


def test_another_failure_is_not_submitted_again(ranker: World) -> None:
    def fails() -> None:
        ranker.of_the_live_one()
        chief = ranker.runs(*TASKS)["chief-0"]
        failure = {"task": "chief-0", "status": 3, "message": "chief-0 exited with status 3"}
        ranker.reports(chief, "failed", first_failure=failure, outcome={"status": 3})
        ranker.ends("FAILED")

    done = followed(ranker, fails)
    assert (done.status, len(ranker.yarn.apps)) == (1, 1)


def test_a_next_run_that_is_refused_leaves_the_one_that_failed(ranker: World) -> None:
    def too_large() -> None:
        runs_out(ranker)
        ranker.yarn.site.max_mb = 2048

    done = followed(ranker, too_large)
    assert (done.status, len(ranker.yarn.apps)) == (1, 1), done
    assert "not submitted again" in done.err
    assert ranker("status", "mnist", "-o", "json").json["state"] == "FAILED"


def test_another_job_of_the_name_is_left_alone(ranker: World) -> None:
    def replaced() -> None:
        runs_out(ranker)
        ranker.spec(command=["python", "other.py"])
        assert ranker("submit", SPEC, "-d").status == 0

    done = followed(ranker, replaced)
    assert (done.status, len(ranker.yarn.apps)) == (1, 2), done
    assert len([app for app in ranker.yarn.apps.values() if not app.over]) == 1


def test_wait_by_name_follows_to_the_last_run(ranker: World) -> None:
    """Somebody else, who has the job spec, submits it again."""
    ranker.submitted(retries=RULE)
    ranker.hdfs()
    job = submit_tf_job.Client(resource_managers=[RM])
    submitter = job.submit(str(ranker.home / SPEC))

    def resubmitted() -> None:
        runs_out(ranker)
        after_each_start(ranker, stored)
        ranker.cluster.clock.after(1, lambda: results.append(submitter.wait()))

    def stored() -> None:
        ranker.of_the_live_one()
        ranker.hdfs()
        succeeds(ranker)

    results: list[submit_tf_job.Status] = []
    done = followed(ranker, resubmitted, command="wait")
    last = list(ranker.yarn.apps)[-1]
    assert (done.status, len(ranker.yarn.apps)) == (0, 2), done
    assert f"submitted again as {last}" in done.err
    assert ([seen.error for seen in results], submitter.application_id) == ([None], last)


def test_wait_gives_up_where_nothing_submits_the_next_run(ranker: World) -> None:
    ranker("submit", SPEC, "-d")
    begun = ranker.cluster.clock()
    done = followed(ranker, lambda: runs_out(ranker), command="wait")
    assert done.status == 1
    assert 60 < ranker.cluster.clock() - begun < 120
    assert done.err.splitlines()[-2:] == [
        "     waiting up to 60 s for its next run, with more memory",
        "     not submitted again: nothing that has its job spec follows it",
    ]
    begun = ranker.cluster.clock()
    assert ranker("wait", ranker.application).status == 1
    assert ranker.cluster.clock() - begun < 30, "an application ends with itself"


def test_an_id_finds_the_run_with_more_memory(ranker: World) -> None:
    """It has other settings than were submitted, and is the same submission."""
    words = ("submit", SPEC, "--submission-id", "7", "-o", "json")
    after_each_start(ranker, lambda: runs_out(ranker))
    for _ in range(2):  # the second command finds both runs
        assert ranker(*words, "--timeout", "200s").status == 8
        assert len(ranker.yarn.apps) == 2
