"""The job's state machine: arrivals, first failure, end of the job; no sockets, no clock."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from submit_tf_job.container import contract
from submit_tf_job.container.job_report import snapshot
from submit_tf_job.container.meeting import members as states
from tests.examples import examples
from tests.unit.container.descriptions import role
from tests.unit.container.played import T0, Played, happen


def chief_workers(workers: int = 2, **extra: Any) -> Played:
    return Played({"chief": role(1, "trains"), "worker": role(workers, "trains", **extra)})


# --- what happens, and what becomes of the job (the words: tests/unit/container/played.py) ---------
SIMPLE = {"chief": role(1, "trains"), "worker": role(2, "trains")}


def workers(count: int = 1, kind: str = "trains", **extra: Any) -> dict[str, Any]:
    return {"chief": role(1, "trains"), "worker": role(count, kind, **extra)}


BOARD = {"chief": role(1, "trains"), "board": role(1, "sidecar")}
PS = {
    "chief": role(1, "trains"),
    "worker": role(2, "serves"),
    "ps": role(1, "serves"),
    "evaluator": role(1, "evaluates"),
}
OWN = {"a": role(1, "trains"), "b": role(2, "trains")}
NOT_AGAIN = "why: worker-0 failed, and YARN did not start it again in time"

HISTORIES: dict[str, tuple[dict[str, Any], str]] = {
    # hellos
    "sidecars are not awaited": (BOARD, "+0 running"),
    "an evaluator is awaited": (PS, "worker-0 comes -> welcome; worker-1 comes -> welcome; ps-0 comes -> welcome; +800 waiting"),
    "a task that leaves before the start is awaited again": (workers(), "worker-0 comes -> welcome; worker-0 gone; +2 waiting; worker-0 comes as r2 -> welcome; worker-0 is arrived attempt 1"),
    "a connection that is back within grace": (SIMPLE, "start; worker-0 gone; +29; worker-0 comes as r1 running -> welcome; +100 running; worker-0 is running"),
    "a task that has finished": (SIMPLE, "start; worker-0 exited 0; worker-0 gone; worker-0 comes as r2 -> finished; worker-0 leaves with 0"),
    "a task that missed the answer to its end": (SIMPLE, "start; worker-0 exited 0; worker-0 gone; worker-0 comes as r1 done -> welcome"),
    "a sidecar that comes after the end": (BOARD, "+0; chief-0 exited 0; +0; board-0 comes -> end; board-0 leaves with 0"),
    "a failure before the start": (SIMPLE, "worker-1 comes -> welcome; worker-0 comes as r1 done -> welcome; +0 waiting; worker-0 exited 91; +2; failed: worker-0 91 exited"),
    "added sidecars": ({**workers(), "board": role(1, "sidecar")}, "start; board-3 comes -> welcome; worker-1 comes -> bad; board-100000 comes -> bad; board-3 exited 1; +0 running; worker-0 exited 0; chief-0 exited 0; +0 ending; succeeded: "),
    # the first cause
    "a failure is the cause after the settle time": (SIMPLE, "start; worker-1 exited 3; +1.9 running; +0.2 ending; failed: worker-1 3 exited; exit: 93; worker-0 leaves with 93"),
    "a kill is the cause once every task has answered": (SIMPLE, "start; worker-1 killed; +0.1 running; all answered; +0 ending; failed: worker-1 137 killed"),
    "answers do not shorten the wait for a program that still ends": (SIMPLE, "start; chief-0 exited 1; all answered; +1 running; worker-1 exited 1 1.5 s ago; +1; failed: worker-1 1 exited"),
    "answers do not shorten the wait for a task that YARN stops": (SIMPLE, "start; worker-1 stopping; worker-1 killed; all answered; +4.9 running; +0.2 ending"),
    "answers do not shorten the wait for a task that is away": (workers(2, max_restarts=1), "start; worker-0 exited 3; worker-0 is restarting; chief-0 killed; all answered; +0.1 running"),
    "the first failure by time is the cause": (SIMPLE, "start; chief-0 exited 1; +1; worker-1 exited 3 1.5 s ago; +2; failed: worker-1 3 exited; later: chief-0; exit: 93"),
    "the deciding task's own failure keeps its status": (SIMPLE, "start; chief-0 exited 22; +2; exit: 22; failed: chief-0 22 exited"),
    "a task lost before a failure is the cause": (SIMPLE, "start; worker-1 gone; +0.2 running; chief-0 exited 1; +0 ending; failed: worker-1 None lost; later: chief-0"),
    "a task lost after a failure is the cause": (SIMPLE, "start; chief-0 exited 1; +0.2 running; worker-1 gone; +0 ending; failed: worker-1 None lost; later: chief-0"),
    "a loss alone fails the job after grace": (SIMPLE, "start; worker-0 gone; +29.9 running; +0.2; +2 ending; failed: worker-0 None lost"),
    "a loss whose connection the kernel closed, after 3 s": (SIMPLE, "start; worker-0 closed; +2.9 running; +0.3; +2; failed: worker-0 None lost"),
    "a closed connection that is back": (SIMPLE, "start; worker-0 closed; +2; worker-0 comes as r1 running -> welcome; +60 running"),
    "a closed connection of a task that YARN stops": (SIMPLE, "start; worker-0 stopping; worker-0 closed; +29 running"),
    "a task that was stopped": (SIMPLE, "start; worker-0 stopping; worker-0 gone; chief-0 exited 1; +2; failed: worker-0 None killed"),
    "the job is stopped after tasks of it": (SIMPLE, "start; worker-0 stopping; worker-1 stopping; worker-0 terminated; worker-1 gone; +4 running; YARN stops; phase: ending stopped"),
    "a sidecar that YARN stops with the job": (BOARD, "start; board-0 comes -> welcome; YARN stops; board-0 terminated; board-0 is ended; later: "),
    "failures after the cause are kept apart": (workers(3), "start; worker-0 exited 1; +2; worker-1 exited 1; worker-2 ended 143; later: worker-1; worker-1 is failed; worker-2 is ended"),
    # restarts, and what is tolerated
    "one failure more than restarts": (workers(1, max_restarts=2), "start; worker-0 exited 3; worker-0 gone; +10; worker-0 comes as r2 -> welcome; worker-0 is arrived attempt 1; worker-0 exited 3; worker-0 gone; worker-0 comes as r3 -> welcome; worker-0 exited 3; +2; failed: worker-0 3 exited; worker-0 leaves with 3"),
    "a restart that never comes": (workers(1, max_restarts=5), f"start; worker-0 exited 3; +899 running; +1; +2; {NOT_AGAIN}"),
    "a lost task comes back as a new process": (workers(1, max_restarts=1), "start; worker-0 gone; worker-0 comes as r2 -> welcome; worker-0 gone; worker-0 comes as r3 -> end"),
    "a failure that is reported twice uses one restart": (workers(1, max_restarts=1), "start; worker-0 exited 3; worker-0 gone; worker-0 comes as r1 done -> welcome; worker-0 exited 3; worker-0 is restarting; worker-0 gone; worker-0 comes as r2 -> welcome; +5 running; worker-0 exited 3; +2; failed: worker-0 3 exited"),
    "a lost process that comes back and fails uses one restart": (workers(1, max_restarts=1), f"start; worker-0 gone; +30; worker-0 comes as r1 running -> welcome; worker-0 exited 3; +899 running; +1; +2; {NOT_AGAIN}"),
    "a task that YARN may start again leaves with 0": (workers(1, "serves", max_restarts=3), "start; chief-0 exited 1; +2; worker-0 leaves with 0"),
    "tolerated failures": (workers(3, "serves", tolerate=2), "start; worker-0 exited 1; worker-1 gone; +30; +5 running; worker-2 exited 7; +2; failed: worker-2 7 exited"),
    "a failed sidecar is a warning": ({**workers(1), "board": role(1, "sidecar", max_restarts=1)}, "start; board-0 exited 1; board-0 gone; board-0 comes as r2 -> welcome; board-0 exited 1; +10 running; warned: board-0 exited with status 1"),
    "a deciding task with restarts left ends only itself": ({"chief": role(1, "trains", max_restarts=1), "worker": role(1, "serves")}, "start; chief-0 exited 5; +2; exit: 5; again: True"),
    # the end
    "trainers and evaluators are awaited": (PS, "start; chief-0 exited 0; +100 finishing; evaluator-0 exited 0; +0 ending; succeeded: ; warned: ; ps-0 leaves with 0"),
    "a server that fails after the deciding task": (PS, "start; chief-0 exited 0; +0; ps-0 exited 1; evaluator-0 exited 0; +0; succeeded: ; warned: ps-0 exited with status 1"),
    "a server that vanishes after the deciding task": (PS, "start; chief-0 exited 0; ps-0 gone; +1; evaluator-0 exited 3; +2; failed: evaluator-0 3 exited; later: "),
    "a trainer that fails while the job finishes": (SIMPLE, "start; chief-0 exited 0; worker-0 exited 0; worker-1 exited 1; +2; failed: worker-1 1 exited; exit: 93"),
    "a trainer that does not finish": (SIMPLE, "start; chief-0 exited 0; worker-0 exited 0; +0 finishing; +600; failed: worker-1 None not-finished"),
    "an evaluator that does not finish": (PS, "start; chief-0 exited 0; +600; succeeded: ; warned: not finished 600 s after chief-0 was done, and ended: evaluator-0"),
    "a deciding role of several tasks": ({"worker": role(3, "trains")}, "start; worker-0 exited 0; worker-1 exited 0; +0 finishing; worker-2 exited 0; +0 ending; succeeded: "),
    "a server that ends by itself does not matter": (workers(2, "serves"), "start; worker-0 exited 0; +1000 running; chief-0 exited 0; +1; succeeded: "),
}  # fmt: skip


@pytest.mark.parametrize("name", HISTORIES)
def test_history(name: str) -> None:
    roles, events = HISTORIES[name]
    played = Played(roles)
    happen(played, events)


ENDS: dict[str, tuple[str, dict[str, Any], str]] = {
    "a program that its own task ended has not succeeded": ("all-that-train", workers(), "start; worker-0 ended 0; chief-0 exited 0; +2; failed: worker-0 94 ended"),
    "the slowest of all that train": ("all-that-train", {**OWN, "v": role(1, "evaluates")}, "start; a-0 exited 0; b-1 exited 0; +10000 running; b-0 exited 0; +0 finishing; +600; succeeded: ; warned: not finished 600 s after all tasks that train were done, and ended: v-0"),
    "the last of all that train fails": ("all-that-train", OWN, "start; a-0 exited 0; +10000; b-0 exited 3; +5; failed: b-0 3 exited"),
    "the deciding role alone": ("deciding-role", {"a": role(3, "trains", tolerate=1), "b": role(1, "trains")}, "start; a-0 exited 0; a-1 exited 0; +10000 running; a-2 exited 1; +0 finishing; +600; failed: b-0 None not-finished"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_ends_with(name: str) -> None:
    ends_with, roles, events = ENDS[name]
    played = Played(roles, ends_with=ends_with)
    happen(played, events)


@pytest.mark.parametrize(
    ("kind", "before", "failure", "after"),
    [
        ("trains", "waiting", "failed", "failed"),
        ("serves", "waiting", "failed", "succeeded"),
        ("evaluates", "waiting", "failed", "succeeded"),
        ("sidecar", "running", "succeeded", "succeeded"),
    ],
)
def test_kind_decides_what_an_own_role_means_to_the_job(
    kind: str, before: str, failure: str, after: str
) -> None:
    roles = {"head": role(1, "trains"), "member": role(2, kind)}
    assert Played(roles).after(0) == before
    for happens, verdict in (("member-1 exited 3; +5", failure), ("+0", after)):
        played = Played(roles)
        happen(played, f"start; {happens}; head-0 exited 0; +1; +600")
        assert played.job.verdict == verdict


@pytest.mark.parametrize(
    ("events", "waits"),
    [
        ("worker-0 comes -> welcome; chief-0 exited 99; +5 ending", True),
        ("worker-0 comes -> welcome; chief-0 exited 99; +5 ending; worker-1 comes -> end", False),
        ("worker-0 comes -> welcome; +60; chief-0 exited 1; +5 ending", False),
        ("worker-0 comes -> welcome; +901 ending", False),
    ],
    ids=["failed at once", "and the last has come", "long after the start", "it was the cause"],
)
def test_the_end_awaits_tasks_that_yarn_has_just_started(events: str, waits: bool) -> None:
    played = chief_workers()
    happen(played, events)
    assert played.job.awaits_latecomers(played.now) is waits


def test_time_in_which_a_task_was_silent_is_part_of_grace() -> None:
    played = chief_workers()
    played.start()
    played.job.gone(played.now, played.member("worker-0"), silent_s=9.0)
    happen(played, "+20.9 running; +0.2; +2; failed: worker-0 None lost")


# --- names, addresses and ports -------------------------------------------------------------------
def test_start_waits_for_every_task_and_for_no_name() -> None:
    played = chief_workers()
    played.hello("worker-0", at="10.0.0.2")
    assert played.after(100) == states.WAITING
    assert played.job.missing() == ["worker-1"]
    played.hello("worker-1", at="10.0.0.3")
    assert played.job.missing() == []
    assert played.after(0) == states.RUNNING
    assert played.told[-1] == "all 3 tasks started"
    assert played.job.hosts({}) == {
        "chief-0": "10.0.0.1",
        "worker-0": "10.0.0.2",
        "worker-1": "10.0.0.3",
    }


def test_address_that_the_connection_does_not_come_from_needs_a_name() -> None:
    played = chief_workers()
    played.hello("worker-0", at="10.0.0.2")
    played.hello("worker-1", at="10.0.0.3", origin="10.0.0.250")
    assert played.after(800) == states.WAITING
    assert played.after(90) == states.WAITING
    assert played.job.unnamed(played.now) == ["worker-1"]
    report = snapshot(played.job, played.now, over=False)
    assert (report["missing"], report["unnamed"]) == ([], ["worker-1"])
    assert played.after(10) == states.ENDING
    assert played.first() == ("worker-1", None, "peers-missing")
    assert played.job.first
    assert played.job.first["message"] == (
        "1 of 3 tasks cannot be reached after 900 s, because DNS has not registered them and "
        "their connections come from addresses that are not theirs: worker-1"
    )


def test_loopback_is_an_address_only_where_all_tasks_have_it() -> None:
    played = chief_workers()
    played.hello("worker-0", at="127.0.0.1", here="127.0.0.1")
    played.hello("worker-1", at="127.0.0.1", here="127.0.0.1")
    assert played.after(0) == states.RUNNING
    assert set(played.job.hosts({}).values()) == {"127.0.0.1"}

    mixed = chief_workers()
    mixed.hello("worker-0", at="127.0.0.1", here="127.0.0.1")
    mixed.hello("worker-1", at="10.0.0.3")
    assert mixed.after(5) == states.WAITING
    assert mixed.job.unnamed(mixed.now) == ["worker-0"]
    assert mixed.job.me.address == "10.0.0.1"


def test_start_waits_longer_for_the_name_of_a_task_that_may_move() -> None:
    played = chief_workers(max_restarts=1)
    played.hello("worker-0", at="10.0.0.2")
    played.hello("worker-1", at="10.0.0.3")
    played.after(0)
    assert played.after(29) == states.WAITING
    assert played.job.unnamed(played.now) == ["worker-0", "worker-1"]
    assert played.after(1) == states.RUNNING
    assert played.job.warnings == [
        "DNS has not registered worker-0, worker-1 within 30 s: the programs get addresses, and a "
        "task that YARN starts again on another node will not be found"
    ]
    played.job.info.hosts = played.job.hosts({})
    played.done("worker-0", 1)
    played.gone("worker-0")
    played.hello("worker-0", process="r2", at="10.0.0.7")
    assert played.job.warnings[1:] == [
        "worker-0 came back at 10.0.0.7; the programs were given its former address 10.0.0.2"
    ]


def test_name_of_a_task_that_was_started_again_before_the_start_is_looked_up_again() -> None:
    played = chief_workers(1, max_restarts=1)
    played.hello("worker-0", at="10.0.0.2")
    played.job.unresolved.clear()
    played.done("worker-0", 1)
    played.gone("worker-0")
    # YARN has removed the name of the former container
    played.hello("worker-0", "r2", at="10.0.0.3")
    assert played.job.unresolved == {"worker-0"}
    assert played.after(5) == states.WAITING
    played.job.unresolved.discard("worker-0")
    assert played.after(0) == states.RUNNING


def test_missing_tasks_at_the_deadline() -> None:
    played = chief_workers(30)
    played.hello("worker-3")
    assert played.after(899) == states.WAITING
    assert played.after(1) == states.ENDING
    assert (played.job.verdict, played.job.exit) == ("failed", contract.EXIT_PEERS_MISSING)
    assert played.first() == ("worker-0", None, "peers-missing")
    names = ", ".join(f"worker-{i}" for i in range(30) if i != 3)
    first_twenty = ", ".join(names.split(", ")[:20])
    assert (
        played.job.why == f"29 of 31 tasks had not arrived after 900 s: {first_twenty} and 9 more"
    )


def test_lost_message_mentions_a_suspended_deciding_task() -> None:
    played = Played({"chief": role(1, "trains"), "worker": role(1, "trains")})
    played.hello("worker-0")
    played.job.unresolved.clear()
    played.job.tick(played.now)
    played.job.record_suspension(played.now, 75.0)
    assert played.job.warnings == [
        "chief-0 stood still for 75 s: it was suspended (SIGSTOP, a paused container or machine)"
    ]
    played.job.gone(played.now, played.member("worker-0"))
    played.job.tick(played.now + 31)
    played.job.tick(played.now + 35)
    assert played.job.first
    assert played.job.first["message"].endswith(
        "; chief-0 had stood still for 75 s, and a longer `grace` outlasts that"
    )


def test_connections_that_were_closed_while_the_deciding_task_stood_still_have_all_of_grace() -> (
    None
):
    played = chief_workers()
    played.start()
    played.job.gone(played.now, played.member("worker-0"), closed=True)
    played.job.record_suspension(played.now, 40)
    played.job.gone(played.now, played.member("worker-1"), closed=True)
    assert played.after(29) == states.RUNNING
    assert played.hello("worker-0", state="running") == "welcome"
    assert played.hello("worker-1", state="running") == "welcome"
    played.now += 2
    played.job.gone(played.now, played.member("worker-1"), closed=True)
    played.after(3.1)
    played.after(2)
    assert played.first()[0] == "worker-1"


def test_graceful_stop_waits_for_tasks_that_train_also_while_their_connection_flaps() -> None:
    played = Played(
        {"chief": role(1, "trains"), "worker": role(2, "trains"), "ps": role(1, "serves")},
        grace_s=30,
    )
    played.start()
    played.job.stop(played.now, graceful=True)
    assert (played.job.phase, played.job.verdict) == (states.ENDING, "stopped")
    assert played.job.saving(played.now) == ["worker-0", "worker-1"]
    played.done("worker-0", 0, reason="ended")
    played.gone("worker-0")
    played.gone("worker-1")
    assert played.job.saving(played.now) == ["worker-1"]
    assert played.hello("worker-1", state="running") == "welcome"
    assert played.job.saving(played.now) == ["worker-1"]
    played.gone("worker-1")
    played.after(31)
    assert played.job.saving(played.now) == []


# --- the report -----------------------------------------------------------------------------------
def test_report_of_a_failed_job() -> None:
    played = chief_workers()
    played.start()
    metrics = {"loss": float("nan"), "acc": 0.5}
    progress = {"step": 1, "metrics": metrics}
    played.job.record_progress(played.now, played.member("worker-0"), progress)
    happen(played, "worker-1 exited 3; +2")
    report = snapshot(played.job, played.now, over=True)
    json.dumps(report, allow_nan=False)
    assert set(report) == {
        "version", "job", "run", "deciding", "container", "attempt", "state", "started_at", "updated_at", "ended_at", "wanted",
        "arrived", "missing", "unnamed", "start", "roles", "outcome", "first_failure", "later_failures", "warnings", "progress", "events", "tasks",
    }  # fmt: skip
    found = (report["state"], report["wanted"], report["arrived"], report["missing"])
    assert found == ("failed", 3, 3, [])
    assert report["ended_at"] - report["started_at"] == pytest.approx(2)
    failure = "task status signal reason message host container at last_lines"
    assert set(report["first_failure"]) == set(failure.split())
    assert report["progress"]["metrics"] == {"loss": None, "acc": 0.5}
    counts = dict.fromkeys(("succeeded", "ended", "lost", "restarts", "max_restarts"), 0)
    assert report["roles"]["worker"] == {
        "wanted": 2,
        "arrived": 2,
        "running": 1,
        "failed": 1,
        **counts,
    }


def test_report_of_a_large_job_lists_no_tasks() -> None:
    assert "tasks" in snapshot(chief_workers(199).job, T0, over=False)
    report = snapshot(chief_workers(200).job, T0, over=False)
    assert "tasks" not in report
    assert len(report["missing"]) == 20


def test_progress_tells_how_long_the_rest_takes() -> None:
    played = chief_workers()
    found: list[Any] = []
    for value, seconds in (
        ({"step": 1, "total": 10}, 0),
        ({"step": 2, "total": 10}, 5),
        ({"step": 3, "total": 10}, 15),
        ({"part": 0.1}, 5),
    ):
        played.now += seconds
        played.job.record_progress(played.now, played.job.me, value)
        found.append((played.job.progress or {}).get("left_s"))
    # too early to tell; 2 tenths in 20 s; a program that began again
    assert found == [None, None, 70.0, None]


def test_lists_are_bounded() -> None:
    played = chief_workers()
    for i in range(300):
        played.job.warn(T0, f"{i} " + "x" * 1000)
    assert len(played.job.warnings) == 20
    assert len(played.job.events) == 100
    assert max(len(event["text"]) for event in played.job.events) == 500


# --- anything may happen --------------------------------------------------------------------------
NAMES = ["chief-0", "worker-0", "worker-1", "ps-0", "evaluator-0", "board-0"]
STEPS = st.one_of(
    st.tuples(
        st.just("hello"),
        st.sampled_from(NAMES),
        st.sampled_from(["r1", "r2"]),
        st.sampled_from(["waiting", "running", "done"]),
    ),
    st.tuples(st.just("gone"), st.sampled_from(NAMES)),
    st.tuples(
        st.just("done"),
        st.sampled_from(NAMES),
        st.sampled_from([0, 1, 143, None]),
        st.sampled_from(["exited", "ended"]),
    ),
    st.tuples(st.just("after"), st.sampled_from([0.1, 2.0, 31.0, 601.0, 901.0])),
    st.tuples(st.just("resolve")),
    st.tuples(st.just("stopping"), st.sampled_from(NAMES)),
    st.tuples(st.just("settled")),
)
ORDER = [states.WAITING, states.RUNNING, states.FINISHING, states.ENDING]


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(STEPS, max_size=40), st.integers(0, 2), st.integers(0, 1))
def test_any_history_ends_with_consistent_counts(
    steps: list[tuple[Any, ...]], restarts: int, tolerate: int
) -> None:
    played = Played(
        {
            "chief": role(1, "trains"),
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
        elif step[0] == "done" and (
            played.member(step[1]).peer or (step[1] == "chief-0" and job.phase != states.WAITING)
        ):
            played.done(*step[1:3], reason=step[3])
        elif step[0] == "resolve":
            job.unresolved.clear()
        elif step[0] == "stopping":
            played.member(step[1]).stopping = True
        elif step[0] == "settled":
            job.settled()
        played.after(step[1] if step[0] == "after" else 0)
        assert ORDER.index(job.phase) >= phase
        phase = ORDER.index(job.phase)
        assert all(
            sum(job.counts[name].values()) == count for name, count in job.info.counts.items()
        )
        assert all(number >= 0 for counts in job.counts.values() for number in counts.values())
        assert job.absent == sum(
            m.role_kind != "sidecar" and m.state in states.AWAITED for m in job.members.values()
        )
        assert set(job.away) == {m.name for m in job.members.values() if m.state in states.AWAY}
        assert (job.first is not None) == (job.verdict == "failed")
        json.dumps(snapshot(job, played.now, over=False), allow_nan=False)
    played.done("chief-0")
    for _ in range(4):
        played.after(1000)
    assert job.phase == states.ENDING
    assert job.verdict in ("succeeded", "failed")
    assert (job.exit == 0) == (job.verdict == "succeeded")
