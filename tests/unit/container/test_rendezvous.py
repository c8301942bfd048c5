"""The job's state machine: arrivals, first failure, end of the job; no sockets, no clock."""

from __future__ import annotations

import json
from typing import Any

import pytest

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

FIRST_TWENTY = ", ".join(f"worker-{i}" for i in range(21) if i != 3)

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
    "the first failure by time is the cause": (SIMPLE, "start; chief-0 exited 1; +1; worker-1 exited 3 1.5 s ago; +2; failed: worker-1 3 exited; later: chief-0; exit: 93"),
    "the deciding task's own failure keeps its status": (SIMPLE, "start; chief-0 exited 22; +2; exit: 22; failed: chief-0 22 exited"),
    "a task lost before a failure is the cause": (SIMPLE, "start; worker-1 gone; +0.2 running; chief-0 exited 1; +0 ending; failed: worker-1 None lost; later: chief-0"),
    "a task lost after a failure is the cause": (SIMPLE, "start; chief-0 exited 1; +0.2 running; worker-1 gone; +0 ending; failed: worker-1 None lost; later: chief-0"),
    "a loss alone fails the job after grace": (SIMPLE, "start; worker-0 gone; +29.9 running; +0.2; +2 ending; failed: worker-0 None lost"),
    "a loss whose connection the kernel closed, after 3 s": (SIMPLE, "start; worker-0 closed; +2.9 running; +0.3; +2; failed: worker-0 None lost"),
    "a closed connection that is back": (SIMPLE, "start; worker-0 closed; +2; worker-0 comes as r1 running -> welcome; +60 running"),
    "a closed connection of a task that YARN stops": (SIMPLE, "start; worker-0 stopping; worker-0 closed; +29 running"),
    "a task that was stopped": (SIMPLE, "start; worker-0 stopping; worker-0 gone; chief-0 exited 1; +2; failed: worker-0 None killed"),
    "the job is stopped after tasks of it": (SIMPLE, "start; worker-0 stopping; worker-1 stopping; worker-0 killed by 15; worker-1 gone; +4 running; YARN stops; phase: ending stopped"),
    "a sidecar that YARN stops with the job": (BOARD, "start; board-0 comes -> welcome; YARN stops; board-0 killed by 15; board-0 is ended; later: "),
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
    # the end
    "trainers and evaluators are awaited": (PS, "start; chief-0 exited 0; +100 finishing; evaluator-0 exited 0; +0 ending; succeeded: ; warned: ; ps-0 leaves with 0"),
    "a server that fails after the deciding task": (PS, "start; chief-0 exited 0; +0; ps-0 exited 1; evaluator-0 exited 0; +0; succeeded: ; warned: ps-0 exited with status 1"),
    "a server that vanishes after the deciding task": (PS, "start; chief-0 exited 0; ps-0 gone; +1; evaluator-0 exited 3; +2; failed: evaluator-0 3 exited; later: "),
    "a trainer that fails while the job finishes": (SIMPLE, "start; chief-0 exited 0; worker-0 exited 0; worker-1 exited 1; +2; failed: worker-1 1 exited; exit: 93"),
    "a trainer that does not finish": (SIMPLE, "start; chief-0 exited 0; worker-0 exited 0; +0 finishing; +600; failed: worker-1 None not-finished"),
    "an evaluator that does not finish": (PS, "start; chief-0 exited 0; +600; succeeded: ; warned: not finished 600 s after chief-0 was done, and ended: evaluator-0"),
    "a deciding role of several tasks": ({"worker": role(3, "trains")}, "start; worker-0 exited 0; worker-1 exited 0; +0 finishing; worker-2 exited 0; +0 ending; succeeded: "),
    "a server that ends by itself does not matter": (workers(2, "serves"), "start; worker-0 exited 0; +1000 running; chief-0 exited 0; +1; succeeded: "),
    # who is waited for at the end
    "the end awaits tasks that YARN has just started": (SIMPLE, "worker-0 comes -> welcome; chief-0 exited 99; +5 ending; awaits latecomers: True; worker-1 comes -> end; awaits latecomers: False"),
    "the end long after the start awaits nobody": (SIMPLE, "worker-0 comes -> welcome; +60; chief-0 exited 1; +5 ending; awaits latecomers: False"),
    "the end awaits none that was its cause": (SIMPLE, "worker-0 comes -> welcome; +901 ending; awaits latecomers: False"),
    "a graceful stop waits for tasks that train also while their connection flaps": (
        {**workers(2), "ps": role(1, "serves")},
        "start; YARN stops gracefully; phase: ending stopped; saving: worker-0, worker-1; worker-0 ended 0; worker-0 gone; worker-1 gone; saving: worker-1; worker-1 comes as r1 running -> welcome; saving: worker-1; worker-1 gone; +31; saving: "),
    # time in which a task, or the deciding one, was silent
    "silence is part of grace": (SIMPLE, "start; worker-0 silent for 9 s; +20.9 running; +0.2; +2; failed: worker-0 None lost"),
    "connections closed while the deciding task stood still have all of grace": (SIMPLE, "start; worker-0 closed; suspended for 40 s; worker-1 closed; +29 running; worker-0 comes as r1 running -> welcome; worker-1 comes as r1 running -> welcome; +2 running; worker-1 closed; +3.1; +2; failed: worker-1 None lost"),
    # names and addresses
    "the start waits for every task and for no name": (SIMPLE, "worker-0 comes at 10.0.0.2 -> welcome; +100 waiting; missing: worker-1; worker-1 comes at 10.0.0.3 -> welcome; missing: ; +0 running; told: all 3 tasks started; hosts: chief-0 10.0.0.1, worker-0 10.0.0.2, worker-1 10.0.0.3"),
    "an address that the connection does not come from needs a name": (SIMPLE, "worker-0 comes at 10.0.0.2 -> welcome; worker-1 comes at 10.0.0.3 from 10.0.0.250 -> welcome; +890 waiting; missing: ; unnamed: worker-1; +10 ending; failed: worker-1 None peers-missing; cause: 1 of 3 tasks cannot be reached after 900 s, because DNS has not registered them and their connections come from addresses that are not theirs: worker-1"),
    "loopback is an address where all tasks have it": (SIMPLE, "worker-0 comes at 127.0.0.1 -> welcome; worker-1 comes at 127.0.0.1 -> welcome; +0 running; hosts: chief-0 127.0.0.1, worker-0 127.0.0.1, worker-1 127.0.0.1"),
    "loopback is none where one task has another": (SIMPLE, "worker-0 comes at 127.0.0.1 -> welcome; worker-1 comes at 10.0.0.3 -> welcome; +5 waiting; unnamed: worker-0; hosts: chief-0 10.0.0.1, worker-1 10.0.0.3"),
    "the name of a task that was started again before the start is looked up again": (workers(1, max_restarts=1), "worker-0 comes at 10.0.0.2 -> welcome; named; worker-0 exited 1; worker-0 gone; worker-0 comes as r2 at 10.0.0.3 -> welcome; +5 waiting; named; +0 running"),
    "missing tasks at the deadline": (workers(30), f"worker-3 comes -> welcome; +899 waiting; +1 ending; exit: 92; failed: worker-0 None peers-missing; why: 29 of 31 tasks had not arrived after 900 s: {FIRST_TWENTY} and 9 more"),
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


def test_start_waits_longer_for_the_name_of_a_task_that_may_move() -> None:
    played = chief_workers(max_restarts=1)
    happen(played, "worker-0 comes at 10.0.0.2 -> welcome; worker-1 comes at 10.0.0.3 -> welcome")
    happen(played, "+0; +29 waiting; unnamed: worker-0, worker-1; +1 running")
    assert played.job.warnings == [
        "DNS has not registered worker-0, worker-1 within 30 s: the programs get addresses, and a "
        "task that YARN starts again on another node will not be found"
    ]
    played.job.info.hosts = played.job.hosts({})
    happen(played, "worker-0 exited 1; worker-0 gone; worker-0 comes as r2 at 10.0.0.7 -> welcome")
    assert played.job.warnings[1:] == [
        "worker-0 came back at 10.0.0.7; the programs were given its former address 10.0.0.2"
    ]


def test_tick_looks_at_no_single_task_while_others_still_end() -> None:
    """Ten thousand tasks end in as many turns of the loop."""
    played = chief_workers()
    happen(played, "start; chief-0 exited 0; worker-0 exited 0")
    cluster, played.job.cluster = played.job.cluster, ()
    happen(played, "+0 finishing; +599 finishing")
    played.job.cluster = cluster
    happen(played, "+1; failed: worker-1 None not-finished")


def test_lost_message_mentions_a_suspended_deciding_task() -> None:
    played = chief_workers(1)
    happen(played, "come: worker-0; +0; suspended for 75 s")
    assert played.job.warnings == [
        "chief-0 stood still for 75 s: it was suspended (SIGSTOP, a paused container or machine)"
    ]
    happen(played, "worker-0 gone; +31; +4")
    assert played.job.first
    assert played.job.first["message"].endswith(
        "; chief-0 had stood still for 75 s, and a longer `grace` outlasts that"
    )


# --- the report -----------------------------------------------------------------------------------
def test_report_of_a_failed_job() -> None:
    played = chief_workers()
    played.start()
    metrics = {"loss": float("nan"), "acc": 0.5}
    progress = {"step": 1, "metrics": metrics}
    played.job.record_progress(played.now, played.member("worker-0"), progress)
    happen(played, "worker-1 exited 3; +2")
    report = played.report(over=True)
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
    assert report["progress"]["metrics"] == {"loss": "NaN", "acc": 0.5}
    counts = dict.fromkeys(("succeeded", "ended", "lost", "restarts", "max_restarts"), 0)
    assert report["roles"]["worker"] == {
        "wanted": 2,
        "arrived": 2,
        "running": 1,
        "failed": 1,
        **counts,
    }


def test_report_of_a_large_job_lists_no_tasks() -> None:
    assert "tasks" in chief_workers(199).report()
    report = chief_workers(200).report()
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
