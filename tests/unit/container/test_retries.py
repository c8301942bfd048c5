"""All tasks start again (`retries`) and elastic roles: the rules in words, and a world that loses
containers.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.container import contract
from submit_tf_job.container.child import oom_kills
from submit_tf_job.container.rendezvous import states
from tests.unit.container.descriptions import role
from tests.unit.container.ending_world import LossyWorld, play_losses
from tests.unit.container.played import Played, happen


def retrying(workers: int = 1, **extra: Any) -> Played:
    roles = {"chief": role(1, "trains"), "worker": role(workers, "trains")}
    roles["witness"] = role(1, "sidecar")
    return Played(roles, **{"retries": {"max": 3, "on": ["lost"]}, **extra})


@pytest.mark.parametrize(
    ("on", "event", "covered"),
    [
        (["lost"], "closed", True),
        (["lost"], "killed", True),
        (["lost"], "exited 42", False),
        (["lost"], "out of memory", False),
        (["out-of-memory"], "out of memory", True),
        (["out-of-memory"], "closed", False),
        ([42], "exited 42", True),
        ([43], "exited 42", False),
        ([137], "out of memory", True),
        (["any"], "exited 42", True),
        (["lost"], "crashed by 11", False),
        (["out-of-memory"], "crashed by 11", False),
        ([139], "crashed by 11", True),
        (["any"], "crashed by 11", True),
    ],
)
def test_rule_names_failures_to_retry(on: list[str | int], event: str, covered: bool) -> None:
    played = retrying(retries={"max": 1, "on": on})
    happen(played, f"start; worker-0 {event}; +0; +10; +10; generation: {int(covered)}")
    assert covered or played.job.refusal.endswith(f"({on[0]})")


HISTORIES: dict[str, tuple[int, str]] = {
    "the start waits for the witness, whose end is the application's": (1, "come: worker-0; +865 waiting; +35 ending; failed: witness-0 None peers-missing; why: 1 of 3 tasks had not arrived after 900 s: witness-0"),
    # Hadoop 3.1 and 3.2 do not end the application with it
    "the start goes on without a witness that was lost": (1, "come: worker-0 witness-0; witness-0 gone; named; +5 waiting; +60 running"),
    "a deciding task that YARN ends alone does not send the witness away": (1, "start; YARN stops; phase: ending stopped; worker-0 comes as r1 running -> busy; witness-0 comes as r1 running -> busy"),
    "a witness that was cut off for longer than grace is taken back": (1, "start; witness-0 gone; +60 running; witness-0 is failed; witness-0 comes as r1 running -> welcome; witness-0 is running; told: witness-0 is back"),
    "a witness whose command has ended, or that YARN has replaced, is over": (1, "start; witness-0 exited 1; witness-0 gone; witness-0 comes as r2 -> finished"),
    # the others wait until the cause is named; the node is not to blame
    "a command that was ended while the deciding task was suspended is a loss": (2, "start; worker-0 gone; worker-1 gone; worker-0 comes having given up 0 -> busy; worker-1 comes having given up 0 -> busy; +10 waiting; ended by: worker-0 lost; nodes left out: ; worker-0 comes having given up 0 -> welcome; worker-1 comes having given up 0 -> welcome; chief-0 ready; named; +1 running"),
    "what a task gave up may be of an earlier generation": (1, "start; worker-0 closed; +10; +3; generation: 1; come: worker-0/r2; ready; +2 running; worker-0 gone; worker-0 comes as r2 running having given up 0 -> welcome; +60 running; generation: 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", HISTORIES)
def test_history_of_retries(name: str) -> None:
    workers, events = HISTORIES[name]
    happen(retrying(workers), events)


ALL = "come: witness-0 worker-0 worker-1 worker-2 worker-3; +815 running"
TWO = "come: witness-0 worker-0 worker-3; +815 running"
AGAIN = "worker-0 closed; +10; +3"
# how often worker-0 was lost, and is back
THRICE = "; ".join(
    f"{AGAIN}; used: {n}; ready; come: worker-0/r{n + 1}; +2 running" for n in (1, 2, 3)
)

# at least two of four workers; it grows after 300 s
ELASTIC: dict[str, tuple[str, str]] = {
    "fewer start when the time to start is nearly over": ("trains", "come: witness-0 worker-0 worker-3; +800 waiting; +15 running; present: 0 3; told: worker trains with 2 of 4 tasks (at least 2)"),
    "too few do not": ("trains", "come: witness-0 worker-1; +890 waiting; +15 ending; failed: worker-0 None peers-missing; told: worker has 1 tasks, and needs at least 2"),
    # a deciding task that was cut off and replaced must not train on with what it has
    "none are done without where the witness is silent": ("trains", "come: witness-0; witness-0 gone; come: worker-0 worker-3; +890 waiting; +20 ending"),
    "none are done without where the witness never came": ("trains", "come: worker-0 worker-3; +890 waiting; +20 ending"),
    "others are done without where the witness has ended": ("trains", "come: witness-0; witness-0 closed; come: worker-0 worker-3; +890 running"),
    "fewer go on when nothing replaces a lost one": ("trains", f"{ALL}; worker-1 closed; +10; +3 waiting; generation: 1; ready; +55 waiting; +10 running; present: 0 2 3"),
    "all go on at once when the replacement has come": ("trains", f"{ALL}; worker-1 closed; +10; +3; ready; come: worker-1/r2; +2 running; present: 0 1 2 3"),
    "those that never came are not waited for again": ("trains", "come: witness-0 worker-0 worker-2 worker-3; +815 running; worker-3 closed; +10; +3; ready; come: worker-3/r2; +2 running; present: 0 2 3"),
    "a task that YARN took on purpose is not waited for, and uses no retry": ("trains", f"{ALL}; worker-3 stopping; worker-3 closed; +35; +10; generation: 1; ended by: worker-3 shrunk; used: 0; ready; +2 running; present: 0 1 2"),
    "nor if the deciding task's command has failed of that already": ("trains", f"{ALL}; worker-3 stopping; worker-3 closed; chief-0 exited 1; +35; +10; generation: 1; ended by: worker-3 shrunk; used: 0"),
    "a task that YARN takes where too few are left is a retry": ("trains", "come: witness-0 worker-0 worker-1; +815 running; worker-1 stopping; worker-1 closed; +35; +10; generation: 1; used: 1"),
    "a command that still ends is waited for": ("trains", f"{ALL}; worker-1 closed; +10; +3; chief-0 ready; +90 waiting; ready; +2 running"),
    "it grows when the training has gone on for a while": ("trains", f"{TWO}; come: worker-1; worker-1 is left-out; present: 0 3; +295; generation: 0; +10 waiting; generation: 1; ready; +2 running; present: 0 1 3; used: 0"),
    "it does not grow when a task has finished": ("trains", f"{TWO}; come: worker-1; worker-0 exited 0; +1000; generation: 0"),
    "a waiting task that leaves is not missed": ("trains", f"{TWO}; come: worker-1; worker-1 closed; +1000 running; generation: 0"),
    "growth uses no retry": ("trains", f"{TWO}; come: worker-1; +400; ready; +2 running; {THRICE}; {AGAIN}; refused: not retried: no retries are left (`retries.max` is 3)"),
    "the job ends without those that are left out": ("trains", f"{TWO}; worker-0 exited 0; worker-3 exited 0; chief-0 exited 0; +1; +1; succeeded: ; awaits latecomers: False"),
    "a task that serves is lost and taken back without a new generation": ("serves", f"{ALL}; worker-1 closed; +10; +3 running; worker-1 is left-out; present: 0 1 2 3; come: worker-1/r2; worker-1 is arrived attempt 1; generation: 0"),
    "a task that serves and ended its command while it was alone starts it again": ("serves", f"{ALL}; worker-1 gone; worker-1 comes as r1 running having given up 0 -> welcome; worker-1 is left-out; +0 running; worker-1 ready at 4711; worker-1 is arrived at 4711; generation: 0"),
    "a task that serves and whose command has ended before it is back": ("serves", f"{ALL}; worker-1 gone; worker-1 comes having given up 0 -> welcome; worker-1 is arrived; generation: 0"),
    "too few tasks that serve start again": ("serves", "come: witness-0 worker-0 worker-1; +815 running; worker-1 closed; +10; +3 waiting; generation: 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", ELASTIC)
def test_history_of_an_elastic_role(name: str) -> None:
    kind, events = ELASTIC[name]
    roles = {"chief": role(1, "trains"), "worker": role(4, kind), "witness": role(1, "sidecar")}
    rule = {"worker": {"min": 2, "grow_after_s": 300}}
    played = Played(roles, retries={"max": 3, "on": ["lost"]}, elastic=rule)
    happen(played, events)
    now = len(played.present()) if kind == "trains" else 4
    assert played.report()["elastic"]["worker"] == {"min": 2, "max": 4, "now": now}


def test_kernel_counts_processes_killed_for_memory(tmp_path: Path) -> None:
    events = tmp_path / "memory.events"
    events.write_text("low 0\noom 4\noom_kill 3\noom_group_kill 0\n")
    assert oom_kills([str(tmp_path / "absent"), str(events)]) == 3
    assert oom_kills([]) == 0


def test_a_node_on_which_a_role_was_lost_too_often_is_said_to_be_left_out() -> None:
    played = retrying(4, retries={"max": 9, "on": ["lost"], "node_losses": 2})
    happen(played, "start")
    for turn, host in enumerate(["n1", "n2", "n1", "n1"]):
        name = f"worker-{turn}"
        played.member(name).host = host
        happen(played, f"{name} closed; +10; +10; come: {name}/r{turn + 2}; ready; +60 running")
        said = "worker was lost on n1 2 times: YARN starts no more of its containers there"
        assert sum(said in text for text in played.told) == (turn >= 2), "it is said once"


def test_report_tells_the_lost_task_from_those_that_end_their_commands() -> None:
    played = retrying(2)
    happen(played, "start; worker-0 gone; +40; +10")
    found = {entry["task"]: entry["state"] for entry in played.report()["tasks"]}
    assert found == {
        "chief-0": "restarting",
        "worker-0": "absent",
        "worker-1": "restarting",
        "witness-0": "running",
    }


def test_older_container_of_a_task_ends_also_while_the_later_one_is_away() -> None:
    played = retrying(2)
    first, later = "container_e1_17_0001_01_000005", "container_e1_17_0001_02_000003"
    assert played.hello("worker-0", "r2", container=later) == "welcome"
    assert played.hello("worker-0", "r1", container=first) == "finished"
    played.gone("worker-0")
    assert played.hello("worker-0", "r1", container=first) == "finished"
    assert played.hello("worker-0", "r3", container="") == "welcome"


def check(world: LossyWorld) -> str:
    """Look at the end of a history."""
    job = world.ended
    assert job.generation <= world.task["retries"]["max"] or job.refusal
    assert [entry["generation"] for entry in job.generations.past] == list(range(job.generation))
    if job.verdict == states.SUCCEEDED:
        last = {t.name: t for t in world.tasks.values() if t.generation == job.generation}
        for m in job.members.values():
            if m.role_kind == contract.KIND_TRAINS:
                assert m.state == states.SUCCEEDED
                # a container that was lost after its success is not needed any more
                if m.name in last and last[m.name].container == m.process:
                    assert last[m.name].status == 0
        assert job.first is None
    else:
        assert job.first is not None
        # a task may be lost so often that it is not there in time
        assert job.refusal or job.first["reason"] == "peers-missing", job.first
        assert job.first["reason"] != "not-finished"
    for m in job.members.values():
        if job.stays(m):
            assert job.leave_status(m) == 0  # YARN would start it again
    return str(job.verdict)


MANY = pytest.param(10_000, marks=pytest.mark.long)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [150, MANY])
def test_histories_of_lost_containers_end_with_one_verdict(seeds: int) -> None:
    verdicts = [check(play_losses(seed)) for seed in range(seeds)]
    assert set(verdicts) == {states.SUCCEEDED, states.FAILED}


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [200, MANY])
def test_histories_of_elastic_jobs_end_with_one_verdict(seeds: int) -> None:
    worlds = [play_losses(seed, elastic=True) for seed in range(seeds)]
    assert {world.ended.verdict for world in worlds} == {states.SUCCEEDED, states.FAILED}
    changes = [b - a for world in worlds for a, b in pairwise(world.sizes)]
    assert min(changes) < 0 < max(changes), "none shrank, or none grew"
