"""The job's state machine: who is waited for, who is to blame, when it is over. No sockets, no clock."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from submit_tf_job import contract
from submit_tf_job.bootstrap import job as states
from submit_tf_job.bootstrap.info import Info
from submit_tf_job.bootstrap.job import Job, Member, listed
from submit_tf_job.bootstrap.report import snapshot

T0 = 1000.0


def role(count: int, duty: str, **extra: Any) -> dict[str, Any]:
    return {"count": count, "duty": duty, "command": ["true"], "env": {}, "max_restarts": 0, "tolerate": 0, "gpus": 0, **extra}


def description(roles: dict[str, Any], **extra: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "job": "mnist",
        "submission": "abc",
        "ports": {"mode": "own-address"},
        "deciding": next(name for name, r in roles.items() if r["duty"] == "decides"),
        "cluster_roles": [name for name in ("chief", "worker", "ps") if name in roles],
        "start_timeout_s": 900,
        "finish_timeout_s": 600,
        "grace_s": 30,
        "roles": roles,
        **extra,
    }


class Played:
    """A job, and short ways to make things happen to it."""

    def __init__(self, roles: dict[str, Any], **extra: Any) -> None:
        task = description(roles, **extra)
        env = {
            contract.ENV_INSTANCE: task["deciding"] + "-0",
            contract.ENV_HOSTNAME: f"{task['deciding']}-0.mnist.alice.lan",
            "NM_HOST": "n0",
        }
        self.told: list[str] = []
        self.now = T0
        self.job = Job(Info(task, env, "/nowhere"), T0, self.told.append)

    def hello(self, name: str, run: str = "r1", state: str = "waiting", peer: object = None, **extra: Any) -> str:
        role, _, index = name.rpartition("-")
        message = {
            "submission": "abc",
            "role": role,
            "index": int(index),
            "run": run,
            "attempt": 0,
            "state": state,
            "host": "n-" + name,
            **extra,
        }
        return self.job.hello(self.now, message, peer or name + run)[1]

    def member(self, name: str) -> Member:
        return self.job.members[name]

    def done(self, name: str, status: int | None = 0, **extra: Any) -> None:
        message = {"status": status, "reason": "exited", "message": f"{name} ended with status {status}", **extra}
        self.job.done(self.now, self.member(name), message)

    def gone(self, name: str) -> None:
        self.job.gone(self.now, self.member(name))

    def after(self, seconds: float) -> str:
        self.now += seconds
        self.job.tick(self.now)
        return self.job.phase

    def start(self) -> None:
        for m in list(self.job.members.values()):
            if m is not self.job.me:
                assert self.hello(m.name) == "welcome"
        self.job.unresolved.clear()
        assert self.after(0) == states.RUNNING
        for m in self.job.members.values():
            self.job.running(m)

    def first(self) -> tuple[str, int | None, str]:
        assert self.job.first
        return self.job.first["task"], self.job.first["status"], self.job.first["reason"]


def chief_workers(workers: int = 2, **extra: Any) -> Played:
    return Played({"chief": role(1, "decides"), "worker": role(workers, "trains", **extra)})


def ps_job(**worker: Any) -> Played:
    return Played(
        {"chief": role(1, "decides"), "worker": role(2, "serves", **worker), "ps": role(1, "serves"), "evaluator": role(1, "evaluates")}
    )


# --- the start -----------------------------------------------------------------------------------------------------------
def test_single_task_starts_at_once() -> None:
    played = Played({"worker": role(1, "decides")})
    assert played.after(0) == states.RUNNING
    assert played.told == []


def test_sidecars_are_not_waited_for() -> None:
    played = Played({"chief": role(1, "decides"), "board": role(1, "sidecar")})
    assert played.after(0) == states.RUNNING


def test_sidecars_may_be_added() -> None:
    played = Played({"chief": role(1, "decides"), "worker": role(1, "trains"), "board": role(1, "sidecar")})
    played.start()
    assert played.hello("board-3") == "welcome"
    assert played.hello("worker-1") == "bad"
    assert played.hello("board-100000") == "bad"
    assert snapshot(played.job, played.now, over=False)["roles"]["board"]["wanted"] == 2
    played.done("board-3", 1)
    assert played.job.phase == states.RUNNING
    played.done("worker-0")
    played.done("chief-0")
    assert played.after(0) == states.ENDING
    assert played.job.verdict == states.SUCCEEDED


def test_not_too_many_sidecars_may_be_added() -> None:
    played = Played({"chief": role(1, "decides"), "board": role(1, "sidecar")})
    assert {played.hello(f"board-{index}") for index in range(1000)} == {"welcome"}
    assert played.hello("board-1000") == "bad"


def test_a_sidecar_that_is_added_knows_itself() -> None:
    task = description({"chief": role(1, "decides"), "board": role(1, "sidecar")})
    env = {contract.ENV_INSTANCE: "board-4", contract.ENV_HOSTNAME: "board-4.mnist.alice.lan"}
    assert Info(task, env, "/nowhere").name == "board-4"
    with pytest.raises(ValueError, match="this container is chief-1, but the job has 1 of role 'chief'"):
        Info(task, {**env, contract.ENV_INSTANCE: "chief-1"}, "/nowhere")


def test_start_needs_every_task_and_every_name() -> None:
    played = chief_workers()
    assert played.job.unresolved == {"chief-0", "worker-0", "worker-1"}
    played.hello("worker-0")
    assert played.after(1) == states.WAITING
    assert played.job.missing() == ["worker-1"]
    played.hello("worker-1")
    assert played.after(1) == states.WAITING
    assert played.job.missing() == ["chief-0", "worker-0", "worker-1"]
    played.job.unresolved.clear()
    assert played.after(0) == states.RUNNING
    assert played.told[-1] == "all 3 tasks are here"


def test_evaluator_is_waited_for_but_its_name_is_not() -> None:
    played = ps_job()
    assert "evaluator-0" not in played.job.unresolved
    assert "evaluator-0" in played.job.missing()


def test_one_task_in_the_cluster_needs_no_name() -> None:
    assert Played({"chief": role(1, "decides"), "evaluator": role(1, "evaluates")}).job.unresolved == set()


def test_task_that_goes_away_before_the_start_is_waited_for_again() -> None:
    played = chief_workers(1)
    played.hello("worker-0")
    played.gone("worker-0")
    assert played.job.missing() == ["worker-0"]
    assert played.hello("worker-0", "r2") == "welcome"
    assert played.member("worker-0").attempt == 1


def test_missing_tasks_at_the_deadline() -> None:
    played = chief_workers(30)
    played.hello("worker-3")
    assert played.after(899) == states.WAITING
    assert played.after(1) == states.ENDING
    assert (played.job.verdict, played.job.exit) == ("failed", contract.EXIT_PEERS_MISSING)
    assert played.first() == ("worker-0", None, "peers-missing")
    names = ", ".join(f"worker-{i}" for i in range(30) if i != 3)
    first_twenty = ", ".join(names.split(", ")[:20])
    assert played.job.why == f"29 of 31 tasks had not arrived after 900 s: {first_twenty} and 9 more"


def test_listed() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed([str(i) for i in range(21)]).endswith("19 and 1 more")


# --- hellos --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "wrong",
    [{"role": "nobody"}, {"index": 7}, {"index": "x"}, {"index": [1]}, {"role": None}, {"run": None}, {"attempt": None}, {"role": "chief"}],
)
def test_hello_that_makes_no_sense(wrong: dict[str, Any]) -> None:
    played = chief_workers()
    message = {"submission": "abc", "role": "worker", "index": 0, "run": "r", "attempt": 0, **wrong}
    assert played.job.hello(T0, message, "p") == (None, "bad")
    assert played.job.missing() == ["worker-0", "worker-1"]


def test_hello_of_another_job() -> None:
    assert chief_workers().hello("worker-0", submission="other") == "wrong-job"
    assert chief_workers().hello("worker-0", submission=None) == "wrong-job"


def test_second_process_of_the_same_name_has_to_wait() -> None:
    played = chief_workers()
    played.start()
    assert played.hello("worker-0", "r2") == "busy"
    assert played.member("worker-0").run == "r1"


def test_reconnecting_is_no_new_attempt() -> None:
    played = chief_workers()
    played.start()
    played.gone("worker-0")
    played.after(29)
    assert played.hello("worker-0", state="running", peer="other") == "welcome"
    assert played.after(100) == states.RUNNING
    assert (played.member("worker-0").attempt, played.member("worker-0").state) == (0, states.ALIVE)


def test_deciding_task_learns_its_attempt_from_the_others() -> None:
    played = chief_workers()
    played.hello("worker-0", seen="an earlier run", decider_attempt=1, state="running")
    assert played.job.me.attempt == 2
    played.hello("worker-1", seen=None, decider_attempt=None)
    assert played.job.me.attempt == 2


def test_finished_task_is_told_so() -> None:
    played = chief_workers()
    played.start()
    played.done("worker-0", 0)
    played.gone("worker-0")
    assert played.hello("worker-0", "r2") == "finished"
    assert played.job.leave_status(played.member("worker-0")) == 0
    assert played.hello("worker-0", "r1", "done") == "welcome"  # it missed the answer to its end


def test_hello_after_the_end() -> None:
    played = Played({"chief": role(1, "decides"), "board": role(1, "sidecar")})
    played.after(0)
    played.done("chief-0")
    played.after(0)
    assert played.hello("board-0") == "end"
    assert played.job.leave_status(played.member("board-0")) == 0


# --- failures ------------------------------------------------------------------------------------------------------------
def test_failed_worker_is_the_cause_after_the_settle_time() -> None:
    played = chief_workers()
    played.start()
    played.done("worker-1", 3, last_lines=["boom"])
    assert played.after(1.9) == states.RUNNING
    assert played.after(0.2) == states.ENDING
    assert (played.job.verdict, played.job.exit) == ("failed", contract.EXIT_JOB_FAILED)
    assert played.first() == ("worker-1", 3, "exited")
    assert played.job.first
    assert (played.job.first["host"], played.job.first["last_lines"]) == ("n-worker-1", ["boom"])
    assert played.job.leave_status(played.member("worker-0")) == contract.EXIT_JOB_FAILED


def test_what_happened_first_is_the_cause_whatever_was_heard_first() -> None:
    played = chief_workers()
    played.start()
    played.done("chief-0", 1)
    played.now += 1
    played.done("worker-1", 3, ago=1.5)
    played.after(2)
    assert played.first() == ("worker-1", 3, "exited")
    assert [later["task"] for later in played.job.later] == ["chief-0"]
    assert played.job.exit == contract.EXIT_JOB_FAILED


def test_own_failure_keeps_its_status() -> None:
    played = chief_workers()
    played.start()
    played.done("chief-0", 22)
    played.after(2)
    assert played.job.exit == 22
    assert played.first() == ("chief-0", 22, "exited")


@pytest.mark.parametrize("lost_first", [True, False])
def test_lost_task_is_the_cause_and_the_job_ends_at_once(lost_first: bool) -> None:
    played = chief_workers()
    played.start()
    if lost_first:
        played.gone("worker-1")
        assert played.after(0.2) == states.RUNNING
        played.done("chief-0", 1)
    else:
        played.done("chief-0", 1)
        assert played.after(0.2) == states.RUNNING
        played.gone("worker-1")
    assert played.after(0) == states.ENDING
    assert played.first() == ("worker-1", None, "lost")
    assert [later["task"] for later in played.job.later] == ["chief-0"]


def test_lost_alone_fails_the_job_after_the_grace() -> None:
    played = chief_workers()
    played.start()
    played.gone("worker-0")
    assert played.after(29.9) == states.RUNNING
    played.after(0.2)
    assert played.after(2) == states.ENDING
    assert played.first() == ("worker-0", None, "lost")


def test_task_that_said_it_is_stopped_is_named_so() -> None:
    played = chief_workers()
    played.start()
    played.member("worker-0").stopping = True
    played.gone("worker-0")
    played.done("chief-0", 1)
    played.after(2)
    assert played.first() == ("worker-0", None, "killed")
    assert played.job.first
    assert played.job.first["signal"] == 15


def test_stop_of_the_whole_job_is_no_failure_although_others_were_stopped_first() -> None:
    played = chief_workers()
    played.start()
    for name in ("worker-0", "worker-1"):
        played.member(name).stopping = True
    played.done("worker-0", 143, signal=15, reason="killed")
    played.gone("worker-1")
    assert played.after(4) == states.RUNNING
    played.job.stop(played.now)
    assert (played.job.phase, played.job.verdict, played.job.first) == (states.ENDING, "stopped", None)


def test_restarts_are_counted() -> None:
    played = chief_workers(1, max_restarts=2)
    played.start()
    for attempt in (1, 2):
        played.done("worker-0", 3)
        played.gone("worker-0")
        played.after(10)
        assert played.hello("worker-0", f"r{attempt + 1}") == "welcome"
        assert played.member("worker-0").attempt == attempt
    assert played.job.restarts == {"chief": 0, "worker": 2}
    played.done("worker-0", 3)
    played.after(2)
    assert played.first() == ("worker-0", 3, "exited")
    assert played.job.leave_status(played.member("worker-0")) == 3


def test_restart_that_never_comes_fails_the_job() -> None:
    played = chief_workers(1, max_restarts=5)
    played.start()
    played.done("worker-0", 3)
    assert played.after(899) == states.RUNNING
    played.after(1)
    played.after(2)
    assert played.job.why == "worker-0 failed, and YARN did not start it again in time"


def test_lost_task_with_restarts_may_come_back_as_a_new_process() -> None:
    played = chief_workers(1, max_restarts=1)
    played.start()
    played.gone("worker-0")
    assert played.hello("worker-0", "r2") == "welcome"
    assert played.job.restarts["worker"] == 1
    played.gone("worker-0")
    assert played.hello("worker-0", "r3") == "end"


def test_restartable_task_told_to_end_leaves_with_0() -> None:
    played = Played({"chief": role(1, "decides"), "worker": role(1, "serves", max_restarts=3)})
    played.start()
    played.done("chief-0", 1)
    played.after(2)
    assert played.job.leave_status(played.member("worker-0")) == 0


def test_tolerated_failures() -> None:
    played = Played({"chief": role(1, "decides"), "worker": role(3, "serves", tolerate=2)})
    played.start()
    played.done("worker-0", 1)
    played.gone("worker-1")
    played.after(30)
    assert played.after(5) == states.RUNNING
    assert len(played.job.warnings) == 2
    played.done("worker-2", 7)
    played.after(2)
    assert played.first() == ("worker-2", 7, "exited")


def test_failing_sidecar_is_a_warning_and_may_be_restarted() -> None:
    played = Played({"chief": role(1, "decides"), "board": role(1, "sidecar", max_restarts=1)})
    played.start()
    played.done("board-0", 1)
    played.gone("board-0")
    assert played.hello("board-0", "r2") == "welcome"
    played.done("board-0", 1)
    assert played.after(10) == states.RUNNING
    assert played.job.warnings == ["board-0 ended with status 1"]


def test_failed_deciding_task_with_restarts_left_ends_only_itself() -> None:
    played = Played({"chief": role(1, "decides", max_restarts=1), "worker": role(1, "serves")})
    played.start()
    played.done("chief-0", 5)
    played.after(2)
    assert (played.job.again, played.job.exit) == (True, 5)


def test_failures_after_the_first_cause_are_kept_apart() -> None:
    played = chief_workers(3)
    played.start()
    played.done("worker-0", 1)
    played.after(2)
    played.done("worker-1", 1)
    played.done("worker-2", 143, reason="ended")
    assert [later["task"] for later in played.job.later] == ["worker-1"]
    assert [played.member(f"worker-{i}").state for i in range(3)] == ["failed", "failed", "ended"]


def test_failure_before_the_start() -> None:
    played = chief_workers()
    played.job.unresolved.clear()
    assert played.hello("worker-1") == "welcome"
    assert played.hello("worker-0", state="done") == "welcome"
    assert played.after(0) == states.WAITING
    played.done("worker-0", 91, reason="port-in-use")
    played.after(2)
    assert played.first() == ("worker-0", 91, "port-in-use")


# --- the end -------------------------------------------------------------------------------------------------------------
def test_job_ends_when_trainers_and_evaluators_are_done() -> None:
    played = ps_job()
    played.start()
    played.done("chief-0")
    assert played.after(100) == states.FINISHING
    played.done("evaluator-0")
    assert played.after(0) == states.ENDING
    assert (played.job.verdict, played.job.exit, played.job.warnings) == ("succeeded", 0, [])
    assert played.job.leave_status(played.member("ps-0")) == 0


def test_server_that_fails_after_the_deciding_task_is_a_warning() -> None:
    played = ps_job()
    played.start()
    played.done("chief-0")
    played.after(0)
    played.done("ps-0", 1)
    played.gone("worker-0")
    played.after(31)
    played.done("evaluator-0")
    played.after(0)
    assert played.job.verdict == "succeeded"
    assert len(played.job.warnings) == 2


def test_trainer_that_fails_while_finishing_fails_the_job() -> None:
    played = chief_workers()
    played.start()
    played.done("chief-0")
    played.done("worker-0")
    played.done("worker-1", 1)
    played.after(2)
    assert (played.job.verdict, played.job.exit) == ("failed", contract.EXIT_JOB_FAILED)


def test_trainer_that_does_not_finish_fails_the_job() -> None:
    played = chief_workers()
    played.start()
    played.done("chief-0")
    played.done("worker-0")
    assert played.after(0) == states.FINISHING
    played.after(600)
    assert (played.job.verdict, *played.first()) == ("failed", "worker-1", None, "not-finished")


def test_evaluator_that_does_not_finish_is_a_warning() -> None:
    played = ps_job()
    played.start()
    played.done("chief-0")
    played.after(600)
    assert played.job.verdict == "succeeded"
    assert played.job.warnings == ["not finished 600 s after chief-0 was done, and ended: evaluator-0"]


def test_deciding_role_with_several_tasks() -> None:
    played = Played({"worker": role(3, "decides")})
    assert [m.duty for m in played.job.members.values()] == ["decides", "trains", "trains"]
    played.start()
    played.done("worker-0")
    played.done("worker-1")
    assert played.after(0) == states.FINISHING
    played.done("worker-2")
    assert played.after(0) == states.ENDING
    assert played.job.verdict == "succeeded"


# --- the report ----------------------------------------------------------------------------------------------------------
def test_report_of_a_failed_job() -> None:
    played = chief_workers()
    played.start()
    played.job.told_progress(played.now, played.member("worker-0"), {"step": 1, "metrics": {"loss": float("nan"), "acc": 0.5}})
    played.done("worker-1", 3)
    played.after(2)
    report = snapshot(played.job, played.now, over=True)
    json.dumps(report, allow_nan=False)
    assert set(report) == {
        "version", "job", "submission", "deciding", "container", "attempt", "state", "started_at", "updated_at", "ended_at", "wanted",
        "arrived", "missing", "roles", "outcome", "first_failure", "later_failures", "warnings", "progress", "events", "tasks",
    }  # fmt: skip
    assert (report["state"], report["wanted"], report["arrived"], report["missing"]) == ("failed", 3, 3, [])
    assert report["ended_at"] - report["started_at"] == pytest.approx(2)
    assert set(report["first_failure"]) == {"task", "status", "signal", "reason", "message", "host", "container", "at", "last_lines"}
    assert report["progress"]["metrics"] == {"loss": None, "acc": 0.5}
    assert report["roles"]["worker"] == {
        "wanted": 2,
        "arrived": 2,
        "running": 1,
        "succeeded": 0,
        "failed": 1,
        "ended": 0,
        "lost": 0,
        "restarts": 0,
        "max_restarts": 0,
    }


def test_states_of_the_report() -> None:
    played = ps_job()
    assert snapshot(played.job, T0, over=False)["state"] == "waiting"
    played.start()
    assert snapshot(played.job, T0, over=False)["state"] == "running"
    played.done("chief-0")
    assert snapshot(played.job, T0, over=False)["state"] == "finishing"
    played.done("evaluator-0")
    played.after(0)
    assert snapshot(played.job, T0, over=False)["state"] == "finishing"  # the servers have yet to be ended
    assert snapshot(played.job, T0, over=False)["ended_at"] is None
    assert snapshot(played.job, T0, over=True)["state"] == "succeeded"


def test_large_job_reports_no_single_tasks() -> None:
    assert "tasks" in snapshot(chief_workers(199).job, T0, over=False)
    report = snapshot(chief_workers(200).job, T0, over=False)
    assert "tasks" not in report
    assert len(report["missing"]) == 20


def test_own_progress_is_preferred() -> None:
    played = chief_workers()
    for name, step in (("worker-0", 1), ("chief-0", 2), ("worker-0", 3)):
        played.job.told_progress(played.now, played.member(name), {"step": step})
    assert played.job.progress
    assert (played.job.progress["task"], played.job.progress["step"]) == ("chief-0", 2)


def test_lists_are_bounded() -> None:
    played = chief_workers()
    for i in range(300):
        played.job.warn(T0, f"{i} " + "x" * 1000)
    assert len(played.job.warnings) == 20
    assert len(played.job.events) == 100
    assert max(len(event["text"]) for event in played.job.events) == 500


# --- anything may happen -------------------------------------------------------------------------------------------------
NAMES = ["chief-0", "worker-0", "worker-1", "ps-0", "evaluator-0", "board-0"]
STEPS = st.one_of(
    st.tuples(st.just("hello"), st.sampled_from(NAMES), st.sampled_from(["r1", "r2"]), st.sampled_from(["waiting", "running", "done"])),
    st.tuples(st.just("gone"), st.sampled_from(NAMES)),
    st.tuples(st.just("done"), st.sampled_from(NAMES), st.sampled_from([0, 1, 143, None]), st.sampled_from(["exited", "ended"])),
    st.tuples(st.just("after"), st.sampled_from([0.1, 2.0, 31.0, 601.0, 901.0])),
    st.tuples(st.just("resolve")),
    st.tuples(st.just("stopping"), st.sampled_from(NAMES)),
)
ORDER = [states.WAITING, states.RUNNING, states.FINISHING, states.ENDING]


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=40), st.integers(0, 2), st.integers(0, 1))
def test_every_history_keeps_the_books_and_comes_to_an_end(steps: list[tuple[Any, ...]], restarts: int, tolerate: int) -> None:
    played = Played(
        {
            "chief": role(1, "decides"),
            "worker": role(2, "trains", max_restarts=restarts, tolerate=tolerate),
            "ps": role(1, "serves"),
            "evaluator": role(1, "evaluates", max_restarts=restarts),
            "board": role(1, "sidecar"),
        }
    )
    job, phase = played.job, 0
    for step in steps:
        if step[0] == "hello" and step[1] != "chief-0":
            played.hello(*step[1:])
        elif step[0] == "gone" and played.member(step[1]).peer:
            played.gone(step[1])
        elif step[0] == "done" and (played.member(step[1]).peer or (step[1] == "chief-0" and job.phase != states.WAITING)):
            played.done(*step[1:3], reason=step[3])
        elif step[0] == "resolve":
            job.unresolved.clear()
        elif step[0] == "stopping":
            played.member(step[1]).stopping = True
        played.after(step[1] if step[0] == "after" else 0)
        assert ORDER.index(job.phase) >= phase
        phase = ORDER.index(job.phase)
        assert all(sum(job.counts[name].values()) == count for name, count in job.info.counts.items())
        assert all(number >= 0 for counts in job.counts.values() for number in counts.values())
        assert job.absent == sum(m.duty != "sidecar" and m.state in states.AWAITED for m in job.members.values())
        assert set(job.away) == {m.name for m in job.members.values() if m.state in states.AWAY}
        assert (job.first is not None) == (job.verdict == "failed")
        json.dumps(snapshot(job, played.now, over=False), allow_nan=False)
    played.done("chief-0")
    for _ in range(4):
        played.after(1000)
    assert job.phase == states.ENDING
    assert job.verdict in ("succeeded", "failed")
    assert (job.exit == 0) == (job.verdict == "succeeded")
