"""`hold_on_failure`: a job whose verdict is known while a container of it stays, and `release`."""

from __future__ import annotations

import pytest

from tests.world import World

FAILURE = {
    "task": "worker-1",
    "status": 7,
    "reason": "exited",
    "message": "worker-1 exited with status 7",
    "host": "node7",
    "at": 1700000000.0,
}
HELD = {
    "task": "worker-1",
    "host": "node7",
    "container": "container_1_3",
    "directory": "/yarn/container_1_3",
    "until": 1700001800.0,
}
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
    before = world.application
    again = world("submit", world.home / "mnist.yaml", "-d", "-o", "json")
    assert again.status == 0, again.err
    assert again.json["application_id"] != before
    assert world.yarn.apps[before].over
