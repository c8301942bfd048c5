"""`stop` with time to save, and containers that outlive their application."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import World
from tests.world.transport import Answer

DUMP, TERM = "OUTPUT_THREAD_DUMP", "GRACEFUL_SHUTDOWN"


def chief_of(world: World, **changes: Any) -> str:
    """Let a job run; return the container of its chief."""
    return world.running(**changes)["chief-0"]


def sent(world: World) -> list[str]:
    return [command for _container, command in world.yarn.signals]


def took_s(world: World, *words: str) -> tuple[Any, float]:
    begun = world.cluster.clock()
    return world("stop", "mnist", *words), world.cluster.clock() - begun


@pytest.mark.parametrize(("grace", "options"), [(None, ("--grace", "60s")), ("60s", ())])
def test_stop_ends_the_job_when_all_tasks_have_saved(
    world: World, grace: str | None, options: tuple[str, ...]
) -> None:
    chief = chief_of(world, **({"stop_grace": grace} if grace else {}))
    world.cluster.clock.after(1, lambda: world.reports(chief, "stopped", saving=["chief-0"]))
    ended = {"saving": [], "ended_at": 1.0}
    world.cluster.clock.after(7, lambda: world.reports(chief, "stopped", **ended))
    done, seconds = took_s(world, *options)
    assert (done.status, done.err) == (0, "mnist: its tasks have 60 s to save and end\n")
    assert 7 <= seconds < 20
    assert world.yarn.signals == [(chief, DUMP), (chief, TERM), (chief, DUMP)]


@pytest.mark.parametrize("name", ["", " ", "../records/mnist", "MNIST"])
@pytest.mark.parametrize("command", ["status", "stop", "delete", "wait"])
def test_what_cannot_be_a_name_selects_no_job(
    world: World, monkeypatch: pytest.MonkeyPatch, command: str, name: str
) -> None:
    """`stop "$JOB"` of a shell without that variable must not find some job by its record."""
    monkeypatch.setenv("SUBMIT_TF_JOB_STAGING", (world.home / "staging").as_uri())
    world.running()
    world.asked()
    done = world(command, name)
    assert (done.status, done.out) == (2, "")
    assert f"{name!r} is neither the name of a job or run nor an application id" in done.err
    assert {method for method, _path in world.asked()} <= {"GET"}


def test_stop_names_who_has_not_ended_in_time(world: World) -> None:
    chief = chief_of(world)
    names = [f"worker-{index}" for index in range(7)]
    world.reports(chief, "stopped", saving=names)
    done, seconds = took_s(world, "--grace", "12s")
    assert (done.status, 12 <= seconds < 25) == (0, True)
    assert done.err.splitlines()[1] == (
        "mnist: worker-0, worker-1, worker-2, worker-3, worker-4 and 2 more had not ended after "
        "12 s; YARN stops the job now"
    )


def test_stop_sends_the_signals_again_where_the_resource_manager_was_away(world: World) -> None:
    chief_of(world)
    world.fails(1, "POST", "/signal/", Answer.text("no", 503))
    took_s(world, "--grace", "8s")
    assert sent(world)[:2] == [DUMP, TERM]


@pytest.mark.parametrize("state", ["waiting", "preparing"])
def test_stop_asks_nothing_of_a_job_whose_commands_do_not_run(world: World, state: str) -> None:
    chief = chief_of(world)
    world.reports(chief, state)
    done, seconds = took_s(world, "--grace", "60s")
    assert (done.status, sent(world), seconds < 20) == (0, [], True)


def test_stop_with_time_to_save_on_hadoop_that_cannot(world: World) -> None:
    chief = chief_of(world)
    world.yarn.site.version = (3, 1, 3)
    done = world("stop", "mnist", "--grace", "60s")
    assert (done.status, "This Hadoop cannot signal a container" in done.err) == (9, True)
    assert f"yarn container -signal {chief} {TERM}" in done.err
    assert world("stop", "mnist", "--grace", "0s").status == 0


# --- containers that outlive their application: the nodes end them --------------------------------


def lingering(world: World, state: str = "RUNNING") -> list[str]:
    """Let a job's containers live on after its application."""
    containers = list(world.running().values())
    world.yarn.on_end = lambda _app: end(world, *containers, state=state)
    other = "container_1699999999999_0001_01_000002"
    world.cluster.node.containers[other] = "RUNNING"
    return containers


def end(world: World, *containers: str, state: str = "DONE") -> None:
    world.cluster.node.containers.update(dict.fromkeys(containers, state))


def test_stop_returns_when_the_nodes_have_ended_the_containers(world: World) -> None:
    containers = lingering(world)
    world.cluster.clock.after(30, lambda: end(world, *containers))
    done, seconds = took_s(world)
    assert (done.status, 30 <= seconds < 40) == (0, True)
    waits = "mnist is over for YARN; waiting until its nodes have ended 3 of its containers\n"
    assert done.err == waits


def test_stop_fails_where_containers_stay_alive_and_names_them(world: World) -> None:
    first, killing, last = lingering(world, "KILLING")
    world.cluster.clock.after(5, lambda: end(world, first, last))
    done = world("stop", "mnist", "-o", "json")
    assert (done.status, done.out) == (8, "")
    assert (
        f"mnist is over for YARN ({world.application}), but 1 container of it is still alive 60 s "
        f"later: {killing} on node1:8042 (KILLING)"
    ) in done.err
    again = world("stop", "mnist")
    assert (again.status, "1 container of it is still alive" in again.err) == (8, True)
    end(world, killing)
    assert world("stop", "mnist").status == 0


def test_stop_without_waiting_asks_no_node(world: World) -> None:
    lingering(world)
    world.asked()
    assert world("stop", "mnist", "--no-wait").err == ""
    assert not [path for _, path in world.asked() if path == "/ws/v1/node/containers"]


def test_stop_believes_yarn_where_the_node_does_not_answer(world: World) -> None:
    lingering(world)
    world.cluster.node.up = False
    assert world("stop", "mnist").status == 0
