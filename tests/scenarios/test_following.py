"""The lines that a command prints while it follows a job."""

from __future__ import annotations

from typing import Any

import pytest

import submit_tf_job
from tests.world import RM, World


def lines_of(world: World, *words: str) -> list[str]:
    world.spec()
    return [line.strip() for line in world(*words).err.splitlines()]


def test_wait_says_once_why_a_job_waits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", world.cluster.clock)
    world.yarn.full = True
    world.spec()
    assert world("submit", "mnist.yaml", "-d").status == 0
    world.passes(10)
    world.of_the_live_one()
    world.cluster.clock.after(200, lambda: world.ends("KILLED", "KILLED"))
    told = lines_of(world, "wait", "mnist")
    assert len([line for line in told if line.startswith("waits because: ")]) == 1, told


def test_submit_prints_progress_and_each_retry_once(world: World) -> None:
    chief = world.running()["chief-0"]
    clock = world.cluster.clock

    def past(count: int) -> dict[str, Any]:
        ends = [{"generation": n, "task": "worker-0", "message": f"lost {n}"} for n in range(count)]
        return {"retries": {"max": 3}, "generation": count, "generations": ends}

    for at, count in ((10, 1), (20, 1), (30, 3)):
        clock.after(at, lambda count=count: world.reports(chief, "running", **past(count)))  # type: ignore[misc]
    clock.after(60, lambda: world.reports(chief, "succeeded", outcome={"status": 0}, **past(3)))
    clock.after(61, world.ends)
    told = [line for line in lines_of(world, "wait", "mnist") if "retry" in line]
    assert told == [f"lost {n}; all tasks start again (retry {n + 1} of 3)" for n in range(3)]


def test_wait_prints_progress_less_often_the_longer_a_job_runs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.monotonic", world.cluster.clock)
    chief, clock = world.running()["chief-0"], world.cluster.clock
    steps = 3600

    def step(number: int) -> None:
        world.reports(chief, "running", progress={"step": number, "total": steps})

    for number in range(1, steps + 1):
        clock.after(2 * number, lambda number=number: step(number))  # type: ignore[misc]
    clock.after(2 * steps + 2, lambda: world.reports(chief, "succeeded", outcome={"status": 0}))
    clock.after(2 * steps + 3, world.ends)
    told = [line for line in lines_of(world, "wait", "mnist") if "RUNNING    step " in line]
    assert all(f"step {number}/{steps}" in "".join(told) for number in range(1, 10))
    assert 100 < len(told) < 300, len(told)


def test_events_in_python_wait_by_themselves(world: World) -> None:
    chief = world.running()["chief-0"]
    clock = world.cluster.clock
    clock.after(600, lambda: world.reports(chief, "succeeded", outcome={"status": 0}))
    clock.after(601, world.ends)
    begun = clock()
    seen = list(submit_tf_job.Client(resource_managers=[RM]).attach("mnist").events())
    assert isinstance(seen[-1], submit_tf_job.Status)
    assert (seen[-1].state.value, len(seen) < 100) == ("SUCCEEDED", True)
    assert 600 < clock() - begun < 700


@pytest.mark.parametrize("after_s", [5.2, 5.6])  # it sleeps for 5 s before it unregisters
def test_wait_ends_soon_after_yarn_has_ended_the_application(
    world: World, monkeypatch: pytest.MonkeyPatch, after_s: float
) -> None:
    monkeypatch.setattr("random.random", lambda: 0.5)
    chief, clock = world.running()["chief-0"], world.cluster.clock
    over: list[float] = []

    def ends() -> None:
        world.asked()
        world.ends()
        over.append(clock())

    end = {"outcome": {"status": 0}, "ended_at": 1700000070.0}
    clock.after(20, lambda: world.reports(chief, "succeeded", **end))
    clock.after(20 + after_s, ends)
    assert world("wait", "mnist").status == 0
    assert clock() - over[0] <= 0.25
    assert world.asked() == [("GET", f"/ws/v1/cluster/apps/{world.application}")]
