"""`stacks`: where the Python processes of a running job stand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import World

FILE = "job-stacks.json"
FROZEN = "process 7 is stopped by a signal such as SIGSTOP; it cannot answer"
STANDS = 'process 9 (python3 train.py):\n  File "train.py", line 3 in step'
TASKS = [
    {"task": "worker-1", "host": "node2", "where": FROZEN, "text": ""},
    {"task": "chief-0", "host": "node1", "where": "step (train.py:3)", "text": STANDS},
]


def answers(world: World, **changes: Any) -> str:
    """Let a job run whose deciding task answers after 4 s; return its container."""
    chief = world.running(**changes)["chief-0"]
    world.writes(chief, FILE, {"version": 1, "at": 1.5, "differs": None, "tasks": []})
    found = {"version": 1, "at": 1795256400.5, "differs": "worker-1", "tasks": TASKS}
    world.cluster.clock.after(4, lambda: world.writes(chief, FILE, found))
    return chief


def test_stacks_prints_the_task_that_differs_first(world: World) -> None:
    chief = answers(world)
    done = world("stacks", "mnist")
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        "worker-1 stands elsewhere than the other tasks",
        f"worker-1 on node2: {FROZEN}",
        "chief-0 on node1: step (train.py:3)",
        "",
        "--- chief-0",
        *STANDS.splitlines(),
    ]
    assert world.yarn.signals == [(chief, "OUTPUT_THREAD_DUMP")]


def test_stacks_of_one_task(world: World) -> None:
    answers(world)
    done = world("stacks", "mnist", "worker-1")
    assert done.out.splitlines()[-1] == f"worker-1 on node2: {FROZEN}"
    answers(world, name="other")
    done = world("stacks", "other", "worker-9")
    assert (done.status, "other has no task 'worker-9' that runs" in done.err) == (2, True)
    assert "it has worker-1, chief-0" in done.err


def test_stacks_says_where_the_deciding_task_does_not_answer(world: World) -> None:
    world.running()
    done = world("stacks", "mnist")
    assert (done.status, "has not written the stacks of its tasks" in done.err) == (8, True)


@pytest.mark.parametrize("over", [False, True])
def test_stacks_of_a_job_whose_commands_do_not_run(world: World, over: bool) -> None:
    world.reports(world.running()["chief-0"], "waiting")
    if over:
        world.ends("SUCCEEDED")
    done = world("stacks", "mnist")
    assert (done.status, world.yarn.signals) == (9, [])
    assert "the commands of mnist do not run" in done.err


def test_stacks_on_hadoop_that_passes_no_signal(world: World) -> None:
    chief = answers(world)
    world.yarn.site.version = (3, 1, 3)
    done = world("stacks", "mnist")
    assert (done.status, "This Hadoop cannot signal a container" in done.err) == (9, True)
    assert f"yarn container -signal {chief} OUTPUT_THREAD_DUMP" in done.err
    assert "submit_tf_job logs mnist --file stacks.txt" in done.err
