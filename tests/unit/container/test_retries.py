"""Retries of the whole training: the rule, and the state machine in a world that loses containers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.container import contract
from submit_tf_job.container.job_report import snapshot
from submit_tf_job.container.meeting import members as states
from submit_tf_job.container.memory import oom_kills
from tests.unit.container.descriptions import role
from tests.unit.container.lossy_world import play
from tests.unit.container.played import Played, happen

WITNESS_S = 60.0  # how long a start waits for the witness


def retrying(workers: int = 1, **extra: Any) -> Played:
    roles = {
        "chief": role(1, "trains"),
        "worker": role(workers, "trains"),
        "witness": role(1, "sidecar"),
    }
    return Played(roles, **{"retries": {"max": 3, "on": ["lost"]}, **extra})


def started(played: Played) -> None:
    for name in [name for name in played.job.members if name != "chief-0"]:
        assert played.hello(name, peer=name) == "welcome"
    played.job.unresolved.clear()
    played.job.tick(played.now + 2)
    assert played.job.phase == states.RUNNING


@pytest.mark.parametrize(
    ("on", "event", "covered"),
    [
        (["lost"], "worker-0 closed", True),
        (["lost"], "worker-0 killed", True),
        (["lost"], "worker-0 exited 42", False),
        (["lost"], "out of memory", False),
        (["out-of-memory"], "out of memory", True),
        (["out-of-memory"], "worker-0 closed", False),
        ([42], "worker-0 exited 42", True),
        ([43], "worker-0 exited 42", False),
        ([137], "out of memory", True),
        (["any"], "worker-0 exited 42", True),
    ],
)
def test_rule_names_the_failures_that_are_retried(
    on: list[str | int], event: str, covered: bool
) -> None:
    played = retrying(retries={"max": 1, "on": on})
    started(played)
    if event == "out of memory":
        played.done("worker-0", 137, signal=9, reason=contract.REASON_OOM)
        event = "+0"
    happen(played, f"{event}; +10; +10")
    assert played.job.more()["generation"] == covered
    assert covered or played.job.refusal.endswith(f"({on[0]})")


def test_kernel_counts_processes_killed_for_memory(tmp_path: Path) -> None:
    events = tmp_path / "memory.events"
    events.write_text("low 0\noom 4\noom_kill 3\noom_group_kill 0\n")
    assert oom_kills([str(tmp_path / "absent"), str(events)]) == 3
    assert oom_kills([]) == 0


def test_a_node_on_which_a_role_was_lost_too_often_is_said_to_be_left_out() -> None:
    played = retrying(4, retries={"max": 9, "on": ["lost"], "node_losses": 2})
    started(played)
    for turn, (name, host) in enumerate(
        [("worker-0", "n1"), ("worker-1", "n2"), ("worker-2", "n1"), ("worker-3", "n1")]
    ):
        played.member(name).host = host
        happen(played, f"{name} closed; +10; +10")
        assert played.hello(name, f"r{turn + 2}", peer=object()) == "welcome"
        for m in played.job.members.values():
            played.job.ready(m, 0)
        played.job.unresolved.clear()
        assert played.after(60) == states.RUNNING
        said = "worker was lost on n1 2 times: YARN starts no more of its containers there"
        assert sum(said in text for text in played.told) == (turn >= 2), "it is said once"


def test_report_tells_the_lost_task_from_those_that_end_their_commands() -> None:
    played = retrying(2)
    started(played)
    played.job.gone(T, played.job.members["worker-0"])
    played.job.tick(T + 40)
    played.job.tick(T + 50)
    entries = snapshot(played.job, T + 50, over=False)["tasks"][:3]
    assert {entry["task"]: entry["state"] for entry in entries} == {
        "chief-0": "restarting",
        "worker-0": "absent",
        "worker-1": "restarting",
    }


def test_older_container_of_a_task_ends_also_while_the_later_one_is_away() -> None:
    played = retrying(2)
    first, later = "container_e1_17_0001_01_000005", "container_e1_17_0001_02_000003"
    assert played.hello("worker-0", "r2", peer="later", container=later) == "welcome"
    assert played.hello("worker-0", "r1", peer="first", container=first) == "finished"
    played.job.gone(T, played.job.members["worker-0"])
    assert played.hello("worker-0", "r1", peer="first", container=first) == "finished"
    assert played.hello("worker-0", "r3", peer="other", container="") == "welcome"


def test_start_waits_for_the_witness_whose_end_is_the_application_s() -> None:
    played = retrying(start_timeout_s=80)
    played.hello("worker-0", peer="w")
    played.job.unresolved.clear()
    assert played.after(WITNESS_S + 5) == states.WAITING
    assert played.after(20) == states.ENDING
    assert played.first() == ("witness-0", None, "peers-missing")
    assert "1 of 3 tasks had not arrived after 85 s: witness-0" in played.job.why


def test_start_goes_on_without_a_witness_that_was_lost() -> None:
    """Hadoop 3.1 and 3.2 do not end the application with it."""
    played = retrying()
    for name in ("worker-0", "witness-0"):
        played.hello(name, peer=name)
    played.gone("witness-0")
    played.job.unresolved.clear()
    assert played.after(5) == states.WAITING
    assert played.after(WITNESS_S) == states.RUNNING


def test_the_deciding_task_that_yarn_ends_alone_does_not_send_the_witness_away() -> None:
    played = retrying()
    started(played)
    played.job.stop(T)
    assert played.job.phase == states.ENDING
    for name in ("worker-0", "witness-0"):
        assert played.hello(name, peer="again", state="running") == "busy"


def test_a_witness_that_was_cut_off_for_longer_than_grace_is_taken_back() -> None:
    played = retrying()
    started(played)
    played.gone("witness-0")
    assert played.after(60) == states.RUNNING
    assert played.member("witness-0").state == states.FAILED
    assert played.hello("witness-0", peer="again", state="running") == "welcome"
    assert played.member("witness-0").state == states.ALIVE
    assert "witness-0 is back" in played.told
    # one whose own command has ended, or that YARN has replaced, is over
    played.done("witness-0", 1)
    played.gone("witness-0")
    assert played.hello("witness-0", "r2", peer="other") == "finished"


def test_a_command_that_was_ended_while_the_deciding_task_was_suspended_is_a_loss() -> None:
    played = retrying(2)
    started(played)
    for name in ("worker-0", "worker-1"):
        played.gone(name)
    assert played.hello("worker-0", peer="again", gave_up=0) == "busy"
    # the others wait until the cause is named
    assert played.hello("worker-1", peer="again", gave_up=0) == "busy"
    assert played.after(10) == states.WAITING
    (entry,) = played.job.generations.past
    assert (entry["task"], entry["kind"]) == ("worker-0", "lost")
    assert "worker-0 ended its program: it had lost the connection" in entry["message"]
    # the node is not to blame
    assert not played.job.generations.left_out()
    for name in ("worker-0", "worker-1"):
        assert played.hello(name, peer="again", gave_up=0) == "welcome"
    played.job.ready(played.job.me, 0)
    played.job.unresolved.clear()
    assert played.after(1) == states.RUNNING
    # what it gave up is of an earlier generation
    played.gone("worker-1")
    assert played.hello("worker-1", peer="later", state="running", gave_up=0) == "welcome"
    assert played.after(60) == states.RUNNING


T = 1010.0


def check(seed: int) -> str:
    verdict, world = play(seed)
    assert world.decider is not None
    job = world.decider.job
    assert job.generation <= world.most or job.refusal
    assert [entry["generation"] for entry in job.generations.past] == list(range(job.generation))
    if verdict == states.SUCCEEDED:
        trained = [t for t in [*world.tasks.values(), world.decider.own] if t.role != "witness"]
        last = {t.name: t for t in trained if t.generation == job.generation}
        for m in job.members.values():
            if m.role_kind == contract.KIND_TRAINS:
                assert m.state == states.SUCCEEDED
                # a container that was lost after its success is not needed any more
                if m.name in last and last[m.name].process == m.process:
                    assert last[m.name].status == 0
        assert job.first is None
    else:
        assert job.first is not None
        # a task may be lost so often that it is not there in time
        assert job.refusal or job.first["reason"] == "peers-missing", seed
        assert job.first["reason"] != "not-finished", seed
    for m in job.members.values():
        if job.stays(m):
            assert job.leave_status(m) == 0  # YARN would start it again
    return verdict


@pytest.mark.slow
def test_histories_of_lost_containers_end_with_one_verdict() -> None:
    verdicts = [check(seed) for seed in range(150)]
    assert set(verdicts) == {states.SUCCEEDED, states.FAILED}


@pytest.mark.long
def test_ten_thousand_histories_of_lost_containers() -> None:
    for seed in range(10_000):
        check(seed)
