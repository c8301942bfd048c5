"""`hold_on_failure`: a job whose verdict is known while a container of it stays, and `release`."""

from __future__ import annotations

import pytest

import submit_tf_job
from tests.builders.held_job import FAILURE, HELD
from tests.world import RM, World

TERM = "GRACEFUL_SHUTDOWN"


def held(world: World) -> str:
    """Let a job fail whose container of worker-1 stays; return the deciding task's container."""
    chief = world.running(hold_on_failure="30m")["chief-0"]
    world.reports(chief, "failed", first_failure=FAILURE, held=HELD)
    return chief


def test_verdict_does_not_wait_for_the_hold(world: World) -> None:
    held(world)
    begun = world.cluster.clock()
    done = world("wait", "mnist", "-o", "json")
    assert (done.status, done.json["state"], done.json["confirmed"]) == (1, "FAILED", False)
    assert world.cluster.clock() - begun < 20
    assert done.json["held"] == HELD


def test_status_says_where_the_container_is(world: World) -> None:
    held(world)
    lines = [line.strip() for line in world("status", "mnist").out.splitlines()]
    [at] = [at for at, line in enumerate(lines) if line.startswith("held")]
    assert lines[at].startswith("held         the container of worker-1 on node7 until ")
    assert lines[at].endswith(": /yarn/container_1_3")
    assert "yarn container -shell container_1_3 " in lines[at + 1]
    assert lines[at + 2] == "submit_tf_job release mnist ends it"


def test_release_signals_the_deciding_task_and_waits_for_the_end(world: World) -> None:
    chief = held(world)
    world.cluster.clock.after(5, lambda: world.ends("FAILED"))
    done = world("release", "mnist", "-o", "json")
    assert (done.status, done.json["state"], done.json["held"]) == (0, "FAILED", None)
    assert world.yarn.signals == [(chief, TERM)]


@pytest.mark.parametrize("version", [(3, 1, 3), (3, 4, 2)])
def test_release_has_yarn_stop_a_job_that_gets_no_signal(
    world: World, version: tuple[int, int, int]
) -> None:
    held(world)
    world.yarn.site.version = version
    done = world("release", "mnist", "-o", "json")
    assert (done.status, done.json["state"], done.json["held"]) == (0, "FAILED", None)


@pytest.mark.parametrize("words", ["release mnist", "stop mnist", "stop mnist --grace 0s"])
def test_end_of_a_hold_stays_the_failure_also_in_lists(world: World, words: str) -> None:
    held(world)
    world.yarn.site.version = (3, 1, 3)  # without signals
    assert world("list", "-o", "json").json["jobs"][0]["state"] == "RUNNING"  # as YARN counts it
    done = world(*words.split(), "-o", "json")
    assert (done.status, done.json["held"]) == (0, None)
    [listed] = world("list", "-o", "json").json["jobs"]
    assert (done.json["state"], listed["state"]) == ("FAILED", "FAILED")


def test_release_of_a_job_that_holds_nothing_is_refused(world: World) -> None:
    world.running()
    done = world("release", "mnist")
    assert (done.status, "no container of mnist is held" in done.err) == (9, True)


def test_same_job_submitted_again_ends_the_hold(world: World) -> None:
    held(world)
    before, first = world.application, world.name
    again = world("submit", world.home / "mnist.yaml", "-d", "-o", "json")
    assert again.status == 0, again.err
    assert again.json["application_id"] != before
    assert world.yarn.apps[before].over
    listed = {
        job["run"]: job["state"] for job in world("list", "--runs", "-o", "json").json["jobs"]
    }
    assert listed[first] == "FAILED"


def test_delete_of_a_held_job_says_what_it_waits_for_and_force_leaves_it_failed(
    world: World,
) -> None:
    held(world)
    run = world.name
    refused = world("delete", "mnist")
    assert refused.status == 6
    assert "mnist has failed, and the container of worker-1 is held" in refused.err
    assert f"release it first: submit_tf_job release {run}; or give --force" in refused.err
    assert world("delete", "mnist", "--force").status == 0
    [listed] = world("list", "-o", "json").json["jobs"]
    assert (listed["run"], listed["state"]) == (run, "FAILED")


def test_public_names_on_a_held_job(world: World) -> None:
    chief = held(world)
    handle = submit_tf_job.Client(resource_managers=[RM]).attach("mnist")
    begun = world.cluster.clock()
    with pytest.raises(
        submit_tf_job.JobFailed, match="mnist failed: worker-1 ended with exit status 7"
    ):
        handle.result()
    assert handle.wait().state == "FAILED"
    *_, last = handle.events()
    assert isinstance(last, submit_tf_job.Status)
    assert (last.state, last.is_over) == ("FAILED", True)
    assert world.cluster.clock() - begun < 60
    assert handle.status().to_json()["held"] == HELD
    world.cluster.clock.after(5, lambda: world.ends("FAILED"))
    released = handle.release()
    assert (released.state, released.to_json()["held"]) == ("FAILED", None)
    assert world.yarn.signals == [(chief, TERM)]
    with pytest.raises(submit_tf_job.SubmitTFJobError, match="no container of mnist is held"):
        handle.release()
