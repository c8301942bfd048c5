"""The job's state machine: arrivals, first failure, end of the job; no sockets, no clock."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from submit_tf_job.container import contract
from submit_tf_job.container import rendezvous as states
from submit_tf_job.container.info import Info
from submit_tf_job.container.job_report import snapshot
from submit_tf_job.container.rendezvous import listed
from tests.examples import examples
from tests.unit.container.descriptions import description, role
from tests.unit.container.played import T0, Played


def chief_workers(workers: int = 2, **extra: Any) -> Played:
    return Played({"chief": role(1, "trains"), "worker": role(workers, "trains", **extra)})


def ps_job(**worker: Any) -> Played:
    return Played(
        {
            "chief": role(1, "trains"),
            "worker": role(2, "serves", **worker),
            "ps": role(1, "serves"),
            "evaluator": role(1, "evaluates"),
        }
    )


# --- the start ------------------------------------------------------------------------------------
def test_single_task_starts_at_once() -> None:
    played = Played({"worker": role(1, "trains")})
    assert played.after(0) == states.RUNNING
    assert played.told == []


def test_report_lists_tasks_whose_image_was_ignored_and_warns_once() -> None:
    played = chief_workers(40)
    for index in range(40):
        played.hello(f"worker-{index}", ignored_image="company/tf:2.15")
    played.hello("worker-3", ignored_image="company/tf:2.15")
    report = snapshot(played.job, played.now, over=False)
    assert report["image_ignored"] == [f"worker-{index}" for index in range(20)]
    assert report["warnings"] == [
        "worker-0 on n-worker-0 runs as a plain process of its node: the NodeManager "
        "there does not run the image company/tf:2.15"
    ]
    assert "image_ignored" not in snapshot(chief_workers().job, 0.0, over=False)


def test_start_does_not_wait_for_sidecars() -> None:
    played = Played({"chief": role(1, "trains"), "board": role(1, "sidecar")})
    assert played.after(0) == states.RUNNING


def test_sidecars_may_be_added() -> None:
    played = Played(
        {"chief": role(1, "trains"), "worker": role(1, "trains"), "board": role(1, "sidecar")}
    )
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


def test_added_sidecars_are_limited() -> None:
    played = Played({"chief": role(1, "trains"), "board": role(1, "sidecar")})
    assert {played.hello(f"board-{index}") for index in range(1000)} == {"welcome"}
    assert played.hello("board-1000") == "bad"


def test_info_of_an_added_sidecar() -> None:
    task = description({"chief": role(1, "trains"), "board": role(1, "sidecar")})
    env = {contract.ENV_INSTANCE: "board-4", contract.ENV_HOSTNAME: "board-4.mnist.alice.lan"}
    assert Info(task, env, "/nowhere").name == "board-4"
    with pytest.raises(
        ValueError, match="this container is chief-1, but the job has 1 of role 'chief'"
    ):
        Info(task, {**env, contract.ENV_INSTANCE: "chief-1"}, "/nowhere")


def test_start_waits_for_every_task_and_one_second_for_names() -> None:
    played = chief_workers()
    assert played.job.unresolved == {"chief-0", "worker-0", "worker-1"}
    played.hello("worker-0", at="10.0.0.2")
    assert played.after(100) == states.WAITING
    assert played.job.missing() == ["worker-1"]
    played.hello("worker-1", at="10.0.0.3")
    assert played.job.missing() == []
    assert played.after(0) == states.WAITING
    assert played.after(0.9) == states.WAITING
    played.job.unresolved.discard("worker-1")
    assert played.after(0.1) == states.RUNNING
    assert played.told[-1] == "all 3 tasks started"
    # the name of one task was found, and the programs get the addresses of the others
    assert played.job.hosts({}) == {"chief-0": "10.0.0.1", "worker-0": "10.0.0.2"}


def test_start_waits_for_the_names_of_all_tasks_but_sidecars() -> None:
    played = Played(
        {
            "main": role(1, "trains"),
            "reader": role(1, "serves"),
            "evaluator": role(1, "evaluates"),
            "board": role(1, "sidecar"),
        }
    )
    assert played.job.unresolved == {"main-0", "reader-0", "evaluator-0"}


def test_one_task_beside_sidecars_needs_no_name() -> None:
    played = Played({"chief": role(1, "trains"), "board": role(1, "sidecar")})
    assert played.job.unresolved == set()


def test_start_follows_the_last_hello_at_once_where_every_name_is_known() -> None:
    played = chief_workers()
    played.job.unresolved.clear()
    played.hello("worker-0", at="10.0.0.2")
    played.hello("worker-1", at="10.0.0.3")
    assert played.after(0) == states.RUNNING
    assert played.job.hosts({}) == {}


def test_start_waits_for_no_name_where_programs_get_addresses() -> None:
    played = Played(
        {"chief": role(1, "trains"), "worker": role(1, "trains")}, dns_server="10.0.0.9:53"
    )
    played.hello("worker-0", at="10.0.0.2")
    assert played.after(0) == states.RUNNING
    assert played.job.hosts({}) == {"chief-0": "10.0.0.1", "worker-0": "10.0.0.2"}


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
    played.after(0)
    assert played.after(1) == states.RUNNING
    assert set(played.job.hosts({}).values()) == {"127.0.0.1"}

    mixed = chief_workers()
    mixed.hello("worker-0", at="127.0.0.1", here="127.0.0.1")
    mixed.hello("worker-1", at="10.0.0.3")
    mixed.after(0)
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
    played.hello("worker-0", run="r2", at="10.0.0.7")
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


def test_report_has_the_times_of_the_start() -> None:
    played = chief_workers()
    played.now += 10
    played.hello("worker-0", at="10.0.0.2", age_s=4.0, search_s=3.5)
    played.now += 5
    played.hello("worker-1", at="10.0.0.3", age_s=2.0, search_s=0.5)
    played.after(0)
    assert snapshot(played.job, played.now, over=False)["start"] is None
    played.after(1)
    wall = played.job.info.wall
    assert snapshot(played.job, played.now, over=False)["start"] == {
        "launched_at": wall + T0 + 13,
        "search_s": 3.5,
        "arrived_at": wall + T0 + 15,
        "at": wall + T0 + 16,
        "by_address": 3,
    }


def test_ports_that_tasks_took_instead_are_given_to_all() -> None:
    played = chief_workers()
    played.hello("worker-0", port=2222)
    played.hello("worker-1", port=2345)
    assert played.job.ports() == {"worker-1": 2345}
    played.gone("worker-1")
    played.hello("worker-1", port="x")
    assert played.job.ports() == {}


def test_ports_that_tasks_took_instead_reach_programs_that_know_names() -> None:
    played = chief_workers()
    for worker in ("worker-0", "worker-1"):
        played.hello(worker, port=2345 if worker == "worker-1" else 2222)
    played.job.unresolved.clear()  # as DNS has all names
    assert played.after(0) == states.RUNNING
    info = played.job.info
    info.hosts, info.ports = played.job.hosts({}), played.job.ports()
    assert info.hosts == {}
    assert [info.address("worker", i) for i in range(2)] == [
        f"worker-0.{info.suffix}:2222",
        f"worker-1.{info.suffix}:2345",
    ]
    assert f"worker-1.{info.suffix}:2345" in info.tf_config()


def test_start_waits_for_the_evaluator() -> None:
    assert "evaluator-0" in ps_job().job.missing()


def test_start_waits_again_for_a_task_that_disconnects() -> None:
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
    assert (
        played.job.why == f"29 of 31 tasks had not arrived after 900 s: {first_twenty} and 9 more"
    )


def test_last_task_that_arrives_just_before_the_deadline_starts_the_job_at_the_deadline() -> None:
    played = chief_workers(1)
    played.after(899.5)
    played.hello("worker-0", at="10.0.0.2")
    assert played.after(0.1) == states.WAITING
    assert played.after(0.4) == states.RUNNING


def test_listed() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed([str(i) for i in range(21)]).endswith("19 and 1 more")


# --- hellos ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "nobody"},
        {"index": 7},
        {"index": "x"},
        {"index": [1]},
        {"role": None},
        {"run": None},
        {"attempt": None},
        {"role": "chief"},
    ],
)
def test_hello_invalid(wrong: dict[str, Any]) -> None:
    played = chief_workers()
    message = {"submission": "abc", "role": "worker", "index": 0, "run": "r", "attempt": 0, **wrong}
    assert played.job.hello(T0, message, "p") == (None, "bad")
    assert played.job.missing() == ["worker-0", "worker-1"]


def test_hello_of_another_job() -> None:
    assert chief_workers().hello("worker-0", submission="other") == "wrong-job"
    assert chief_workers().hello("worker-0", submission=None) == "wrong-job"


def test_hello_of_a_second_process_is_busy() -> None:
    played = chief_workers()
    played.start()
    assert played.hello("worker-0", "r2") == "busy"
    assert played.member("worker-0").run == "r1"


def test_hello_reconnect_keeps_the_attempt() -> None:
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


def test_hello_of_a_finished_task() -> None:
    played = chief_workers()
    played.start()
    played.done("worker-0", 0)
    played.gone("worker-0")
    assert played.hello("worker-0", "r2") == "finished"
    assert played.job.leave_status(played.member("worker-0")) == 0
    assert played.hello("worker-0", "r1", "done") == "welcome"  # it missed the answer to its end


def test_hello_after_the_end() -> None:
    played = Played({"chief": role(1, "trains"), "board": role(1, "sidecar")})
    played.after(0)
    played.done("chief-0")
    played.after(0)
    assert played.hello("board-0") == "end"
    assert played.job.leave_status(played.member("board-0")) == 0


# --- failures -------------------------------------------------------------------------------------
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


def test_kill_is_named_as_the_cause_once_every_task_has_answered() -> None:
    played = chief_workers()
    played.start()
    played.done("worker-1", 137, signal=9, reason="killed")
    assert played.after(0.1) == states.RUNNING
    played.job.settled()
    assert played.after(0) == states.ENDING
    assert played.first() == ("worker-1", 137, "killed")


def test_answers_do_not_shorten_the_wait_for_a_program_that_still_ends() -> None:
    played = chief_workers()
    played.start()
    played.done("chief-0", 1)
    played.job.settled()
    assert played.after(1.0) == states.RUNNING
    played.done("worker-1", 1, ago=1.5)
    played.after(1.0)
    assert played.first()[0] == "worker-1"


def test_answers_do_not_shorten_the_wait_for_a_task_that_yarn_stops() -> None:
    played = chief_workers()
    played.start()
    played.member("worker-1").stopping = True
    played.done("worker-1", 137, signal=9)
    played.job.settled()
    assert played.after(4.9) == states.RUNNING
    assert played.after(0.2) == states.ENDING


def test_answers_do_not_shorten_the_wait_for_a_task_that_is_away() -> None:
    played = chief_workers(max_restarts=1)
    played.start()
    played.done("worker-0", 3)
    assert played.member("worker-0").state == states.RESTARTING
    played.done("chief-0", 137, signal=9)
    played.job.settled()
    assert played.after(0.1) == states.RUNNING


def test_first_failure_by_time_is_the_cause() -> None:
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


def test_stopped_task_is_reported_as_stopped() -> None:
    played = chief_workers()
    played.start()
    played.member("worker-0").stopping = True
    played.gone("worker-0")
    played.done("chief-0", 1)
    played.after(2)
    assert played.first() == ("worker-0", None, "killed")
    assert played.job.first
    assert played.job.first["signal"] == 15


def test_stop_of_the_job_after_other_tasks_stopped() -> None:
    played = chief_workers()
    played.start()
    for name in ("worker-0", "worker-1"):
        played.member(name).stopping = True
    played.done("worker-0", 143, signal=15, reason="killed")
    played.gone("worker-1")
    assert played.after(4) == states.RUNNING
    played.job.stop(played.now)
    assert (played.job.phase, played.job.verdict, played.job.first) == (
        states.ENDING,
        "stopped",
        None,
    )


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


def test_program_ended_by_its_own_task_has_not_succeeded() -> None:
    played = Played(
        {"chief": role(1, "trains"), "worker": role(1, "trains")}, ends_with="all-that-train"
    )
    played.start()
    # it could not reach the deciding task for longer than `grace`, and its program ended with 0
    played.done("worker-0", 0, reason="ended")
    played.done("chief-0")
    played.after(2)
    assert played.job.verdict == states.FAILED
    assert played.first() == ("worker-0", contract.EXIT_DECIDER_LOST, "ended")
    assert "lost the connection to chief-0" in played.job.why


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


def test_failure_reported_twice_uses_one_restart() -> None:
    played = chief_workers(1, max_restarts=1)
    played.start()
    played.done("worker-0", 3)
    played.gone("worker-0")
    # the connection went away before the answer
    assert played.hello("worker-0", state="done", peer="again") == "welcome"
    played.done("worker-0", 3)
    assert played.member("worker-0").state == states.RESTARTING
    assert played.job.restarts["worker"] == 1
    played.gone("worker-0")
    assert played.hello("worker-0", "r2") == "welcome"
    assert played.after(5) == states.RUNNING
    played.done("worker-0", 3)
    played.after(2)
    assert played.first() == ("worker-0", 3, "exited")


def test_lost_process_that_comes_back_and_fails_uses_one_restart() -> None:
    played = chief_workers(1, max_restarts=1)
    played.start()
    played.gone("worker-0")
    played.after(30)
    assert played.hello("worker-0", state="running", peer="again") == "welcome"
    played.done("worker-0", 3)
    assert played.job.restarts["worker"] == 1
    assert played.after(899) == states.RUNNING
    played.after(1)
    played.after(2)
    assert played.job.why == "worker-0 failed, and YARN did not start it again in time"


def test_leave_status_of_a_restartable_task_is_0() -> None:
    played = Played({"chief": role(1, "trains"), "worker": role(1, "serves", max_restarts=3)})
    played.start()
    played.done("chief-0", 1)
    played.after(2)
    assert played.job.leave_status(played.member("worker-0")) == 0


def test_tolerated_failures() -> None:
    played = Played({"chief": role(1, "trains"), "worker": role(3, "serves", tolerate=2)})
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
    played = Played({"chief": role(1, "trains"), "board": role(1, "sidecar", max_restarts=1)})
    played.start()
    played.done("board-0", 1)
    played.gone("board-0")
    assert played.hello("board-0", "r2") == "welcome"
    played.done("board-0", 1)
    assert played.after(10) == states.RUNNING
    assert played.job.warnings == ["board-0 exited with status 1"]


def test_failed_deciding_task_with_restarts_left_ends_only_itself() -> None:
    played = Played({"chief": role(1, "trains", max_restarts=1), "worker": role(1, "serves")})
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


# --- the end --------------------------------------------------------------------------------------
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


def test_server_that_vanishes_after_the_deciding_task_is_not_the_cause_of_a_failure() -> None:
    played = Played(
        {"chief": role(1, "trains"), "ps": role(1, "serves"), "evaluator": role(1, "evaluates")}
    )
    played.start()
    played.done("chief-0")
    played.gone("ps-0")
    played.after(1)
    played.done("evaluator-0", 3)
    played.after(2)
    assert played.first() == ("evaluator-0", 3, "exited")
    assert played.job.later == []


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
    assert played.job.warnings == [
        "not finished 600 s after chief-0 was done, and ended: evaluator-0"
    ]


def test_deciding_role_with_several_tasks() -> None:
    played = Played({"worker": role(3, "trains")})
    assert [m.role_kind for m in played.job.members.values()] == ["trains", "trains", "trains"]
    played.start()
    played.done("worker-0")
    played.done("worker-1")
    assert played.after(0) == states.FINISHING
    played.done("worker-2")
    assert played.after(0) == states.ENDING
    assert played.job.verdict == "succeeded"


@pytest.mark.parametrize(
    ("role_kind", "started", "outcome"),
    [
        ("trains", states.WAITING, states.FAILED),
        ("serves", states.WAITING, states.FAILED),
        ("evaluates", states.WAITING, states.FAILED),
        ("sidecar", states.RUNNING, states.SUCCEEDED),
    ],
)
def test_kind_decides_what_an_own_role_means_to_the_job(
    role_kind: str, started: str, outcome: str
) -> None:
    waits = Played({"head": role(1, "trains"), "member": role(2, role_kind)})
    assert waits.after(0) == started
    fails = Played({"head": role(1, "trains"), "member": role(2, role_kind)})
    fails.start()
    fails.done("member-1", 3)
    fails.after(5)
    fails.done("head-0")
    fails.after(1)
    assert fails.job.verdict == outcome
    if outcome == states.FAILED:
        assert (fails.first(), fails.job.exit) == (
            ("member-1", 3, "exited"),
            contract.EXIT_JOB_FAILED,
        )


@pytest.mark.parametrize(
    ("role_kind", "outcome"),
    [
        ("trains", states.FAILED),
        ("serves", states.SUCCEEDED),
        ("evaluates", states.SUCCEEDED),
        ("sidecar", states.SUCCEEDED),
    ],
)
def test_kind_decides_whether_an_own_role_must_end(role_kind: str, outcome: str) -> None:
    played = Played({"head": role(1, "trains"), "member": role(2, role_kind)})
    played.start()
    played.done("head-0")
    assert played.after(1) == (
        states.ENDING if role_kind in ("serves", "sidecar") else states.FINISHING
    )
    played.after(600)
    assert played.job.verdict == outcome


def test_serving_role_that_ends_by_itself_does_not_matter() -> None:
    played = Played({"head": role(1, "trains"), "reader": role(2, "serves")})
    played.start()
    played.done("reader-0")
    assert played.after(1000) == states.RUNNING
    played.done("head-0")
    played.after(1)
    assert played.job.verdict == states.SUCCEEDED


def test_ends_with_all_that_train_waits_for_the_slowest() -> None:
    roles = {"a": role(1, "trains"), "b": role(2, "trains"), "v": role(1, "evaluates")}
    played = Played({**roles, "s": role(1, "serves")}, ends_with="all-that-train")
    played.start()
    played.done("a-0")
    played.done("b-1")
    assert played.after(10_000) == states.RUNNING
    played.done("b-0")
    assert played.after(0) == states.FINISHING
    played.after(600)
    assert played.job.verdict == states.SUCCEEDED
    assert "not finished 600 s after all tasks that train were done" in played.job.warnings[0]


def test_ends_with_all_that_train_fails_with_the_last_of_them() -> None:
    played = Played({"a": role(1, "trains"), "b": role(2, "trains")}, ends_with="all-that-train")
    played.start()
    played.done("a-0")
    played.after(10_000)
    played.done("b-0", 3)
    played.after(5)
    assert (played.job.verdict, played.first()[0]) == (states.FAILED, "b-0")


def test_ends_with_the_deciding_role_waits_for_its_tasks_alone() -> None:
    roles = {"a": role(3, "trains", tolerate=1), "b": role(1, "trains")}
    played = Played(roles, ends_with="deciding-role")
    played.start()
    played.done("a-0")
    played.done("a-1")
    assert played.after(10_000) == states.RUNNING
    played.done("a-2", 1)  # tolerated, so that no task of the role is open
    assert played.after(0) == states.FINISHING
    played.after(600)
    assert (played.job.verdict, played.first()[0]) == (states.FAILED, "b-0")
    assert "not finished 600 s after all tasks of a were done: b-0" in played.job.why


# --- the report -----------------------------------------------------------------------------------
def test_report_of_a_failed_job() -> None:
    played = chief_workers()
    played.start()
    played.job.record_progress(
        played.now,
        played.member("worker-0"),
        {"step": 1, "metrics": {"loss": float("nan"), "acc": 0.5}},
    )
    played.done("worker-1", 3)
    played.after(2)
    report = snapshot(played.job, played.now, over=True)
    json.dumps(report, allow_nan=False)
    assert set(report) == {
        "version", "job", "submission", "deciding", "container", "attempt", "state", "started_at", "updated_at", "ended_at", "wanted",
        "arrived", "missing", "unnamed", "start", "roles", "outcome", "first_failure", "later_failures", "warnings", "progress", "events", "tasks",
    }  # fmt: skip
    assert (report["state"], report["wanted"], report["arrived"], report["missing"]) == (
        "failed",
        3,
        3,
        [],
    )
    assert report["ended_at"] - report["started_at"] == pytest.approx(2)
    assert set(report["first_failure"]) == {
        "task",
        "status",
        "signal",
        "reason",
        "message",
        "host",
        "container",
        "at",
        "last_lines",
    }
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
    # the servers have yet to be ended
    assert snapshot(played.job, T0, over=False)["state"] == "finishing"
    assert snapshot(played.job, T0, over=False)["ended_at"] is None
    assert snapshot(played.job, T0, over=True)["state"] == "succeeded"


def test_report_of_a_large_job_lists_no_tasks() -> None:
    assert "tasks" in snapshot(chief_workers(199).job, T0, over=False)
    report = snapshot(chief_workers(200).job, T0, over=False)
    assert "tasks" not in report
    assert len(report["missing"]) == 20


def test_report_lists_what_tasks_serve() -> None:
    played = Played(
        {"chief": role(1, "trains"), "board": role(2, "sidecar", ports={"http": 0})},
        ports={"mode": "host"},
    )
    assert "served" not in snapshot(played.job, T0, over=False)
    played.hello("board-0", ports={"http": 24001, "odd": 0, "x": "y"})
    played.hello("board-1", ports=["http"])
    served = snapshot(played.job, T0, over=False)["served"]
    assert served == [{"task": "board-0", "host": "n-board-0", "ports": {"http": 24001}}]
    played.done("board-0")
    assert "served" not in snapshot(played.job, T0, over=False)


def test_own_progress_is_preferred() -> None:
    played = chief_workers()
    for name, step in (("worker-0", 1), ("chief-0", 2), ("worker-0", 3)):
        played.job.record_progress(played.now, played.member(name), {"step": step})
    assert played.job.progress
    assert (played.job.progress["task"], played.job.progress["step"]) == ("chief-0", 2)


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


VANISHED = ["chief-0", "worker-0"]


def test_names_that_vanish_while_tasks_are_awaited_fail_the_job() -> None:
    played = Played({"chief": role(1, "trains"), "worker": role(1, "trains")})
    played.now += 3000
    played.job.names_vanished(played.now, VANISHED, by_name=False)
    assert (played.job.phase, played.job.exit) == (states.ENDING, contract.EXIT_NAMES_VANISHED)
    assert played.first() == ("chief-0", None, "names-vanished")
    assert "DNS does not know chief-0, worker-0 any more" in played.job.why


def test_names_that_vanish_early_fail_a_running_job() -> None:
    played = Played({"chief": role(1, "trains"), "worker": role(1, "trains")})
    played.start()
    played.now += 590
    played.job.names_vanished(played.now, VANISHED, by_name=True)
    assert (played.job.verdict, played.job.exit) == ("failed", contract.EXIT_NAMES_VANISHED)


@pytest.mark.parametrize(
    ("seconds", "by_name"), [(610, True), (10, False)], ids=["late", "programs have addresses"]
)
def test_names_that_vanish_late_are_a_warning(seconds: float, by_name: bool) -> None:
    played = Played({"chief": role(1, "trains"), "worker": role(1, "trains")})
    played.start()
    played.now += seconds
    played.job.names_vanished(played.now, VANISHED, by_name=by_name)
    assert played.job.phase == states.RUNNING
    assert contract.NAMES_VANISHED in played.job.warnings[0]


def test_names_that_vanish_do_not_hide_a_failure() -> None:
    played = Played({"chief": role(1, "trains"), "worker": role(1, "trains")})
    played.start()
    played.done("worker-0", 3)
    played.job.names_vanished(played.now, VANISHED, by_name=True)
    assert contract.NAMES_VANISHED in played.job.warnings[0]
    played.after(10)
    assert played.first()[0] == "worker-0"


def test_not_finished_own_role_gets_a_hint() -> None:
    played = Played({"main": role(1, "trains"), "server": role(1, "trains")}, strategy="custom")
    played.hello("server-0")
    played.job.tick(played.now)
    played.job.running(played.job.me)
    played.job.done(
        played.now,
        played.job.me,
        {"status": 0, "signal": None, "reason": "exited", "message": "main-0 exited with status 0"},
    )
    played.job.tick(played.now + 601)
    assert played.job.first
    assert played.job.first["message"] == (
        "not finished 600 s after main-0 was done: server-0 "
        "(a role whose tasks do not end by themselves needs `kind: serves`)"
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


def test_the_end_awaits_tasks_that_yarn_started_with_a_deciding_task_that_failed_at_once() -> None:
    p = chief_workers(2)
    p.hello("worker-0")
    p.job.done(p.now, p.job.me, {"status": 99, "reason": "image-ignored", "message": "no image"})
    assert p.after(5) == states.ENDING
    assert p.job.awaits_latecomers(p.now)
    assert p.hello("worker-1") == "end"
    assert not p.job.awaits_latecomers(p.now)


def test_the_end_awaits_nobody_long_after_the_start() -> None:
    p = chief_workers(2)
    p.hello("worker-0")
    p.after(60)
    p.job.done(p.now, p.job.me, {"status": 1, "reason": "exited", "message": "chief-0 failed"})
    assert p.after(5) == states.ENDING
    assert not p.job.awaits_latecomers(p.now)


def test_the_end_awaits_nobody_whose_absence_is_its_cause() -> None:
    p = Played({"chief": role(1, "trains"), "worker": role(2, "trains")}, start_timeout_s=10)
    p.hello("worker-0")
    assert p.after(11) == states.ENDING
    assert p.first()[2] == "peers-missing"
    assert not p.job.awaits_latecomers(p.now)


def test_task_whose_kernel_closed_its_connection_is_lost_after_three_seconds() -> None:
    played = chief_workers()
    played.start()
    played.job.gone(played.now, played.member("worker-0"), closed=True)
    assert played.after(2.9) == states.RUNNING
    played.after(0.3)
    played.after(2)
    assert played.first() == ("worker-0", None, "lost")


def test_task_that_is_back_after_its_connection_was_closed_is_not_lost() -> None:
    played = chief_workers()
    played.start()
    played.job.gone(played.now, played.member("worker-0"), closed=True)
    played.after(2)
    assert played.hello("worker-0", state="running") == "welcome"
    assert played.after(60) == states.RUNNING


def test_time_in_which_a_task_was_silent_is_part_of_grace() -> None:
    played = chief_workers()
    played.start()
    played.job.gone(played.now, played.member("worker-0"), silent_s=9.0)
    assert played.after(20.9) == states.RUNNING
    assert not played.job.failures
    played.after(0.2)
    played.after(2)
    assert played.first() == ("worker-0", None, "lost")


def test_closed_connection_has_all_of_grace_where_yarn_stops_its_task() -> None:
    """YARN stops a job's tasks one after the other."""
    played = chief_workers()
    played.start()
    played.member("worker-0").stopping = True
    played.job.gone(played.now, played.member("worker-0"), closed=True)
    assert played.after(29) == states.RUNNING


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


@pytest.mark.parametrize(("known", "warned"), [((), True), (("chief-0",), False)])
def test_names_that_are_found_out_say_so_where_no_task_has_one(
    known: tuple[str, ...], warned: bool
) -> None:
    """`names: auto` of the settings."""
    roles = {"chief": role(1, "trains"), "worker": role(1, "trains")}
    played = Played(roles, meeting={"dns": True})
    played.job.me.address = played.job.me.origin = "10.0.0.1"
    played.hello("worker-0", at="10.0.0.2")
    played.job.unresolved -= set(known)
    played.after(0)
    assert played.after(1.5) == states.RUNNING
    text = "Registry DNS has no task of this job: the programs get addresses (`names: auto`)"
    assert played.job.warnings == [text] * warned
