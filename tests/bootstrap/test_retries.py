"""All tasks start again in place (`retries`): real bootstraps, one process for each container."""

from __future__ import annotations

import signal
import time
from typing import Any

from tests.bootstrap.harness import HOLD, UNTIL_GO, WITNESS, Cluster, generations, role


def retrying(job: Cluster, roles: dict[str, Any], *on: object, most: int = 3) -> None:
    job.job(
        {**roles, "witness": WITNESS}, retries={"max": most, "on": list(on) or ["lost"]}, grace_s=20
    )
    job.start()


def test_lost_worker_starts_all_commands_again_in_their_containers(any_job: Cluster) -> None:
    job = any_job
    retrying(job, {"chief": role(1, "trains", HOLD), "worker": role(2, "trains", HOLD)})
    for name in ("chief-0", "worker-0", "worker-1"):
        job.printed(name, "generation 0")
    processes = {name: job.runs[name].pid for name in ("chief-0", "worker-0", "witness-0")}
    job.kill("worker-1")
    job.runs["worker-1"].wait()
    job.start("worker-1")  # as YARN would
    for name in ("chief-0", "worker-0", "worker-1"):
        job.printed(name, "generation 1")
    job.go()
    assert set(job.wait_all().values()) == {0}
    assert {name: job.runs[name].pid for name in processes} == processes
    assert generations(job) == [(0, "worker-1", "lost")]
    assert job.report()["state"] == "succeeded"
    assert job.outcome("worker-0")["status"] == 0


def test_lost_deciding_task_is_replaced_and_remembered_by_the_others(any_job: Cluster) -> None:
    job = any_job
    retrying(job, {"chief": role(1, "trains", HOLD), "worker": role(1, "trains", HOLD)})
    for generation in range(3):
        job.printed("worker-0", f"generation {generation}")
        job.printed("chief-0", f"generation {generation}")
        if generation < 2:
            job.kill("chief-0")
            job.runs["chief-0"].wait()
            job.start("chief-0")
    job.go()
    assert set(job.wait_all().values()) == {0}
    assert generations(job) == [(0, "chief-0", "lost"), (1, "chief-0", "lost")]
    assert job.report()["state"] == "succeeded"


def test_job_of_one_task_continues_after_the_loss_of_its_container(job: Cluster) -> None:
    retrying(job, {"chief": role(1, "trains", HOLD)})
    job.printed("chief-0", "generation 0")
    job.until(lambda: "witness-0 joined" in str(job.report().get("events")))
    job.kill("chief-0")
    job.runs["chief-0"].wait()
    job.start("chief-0")
    job.printed("chief-0", "generation 1")
    job.go()
    assert job.wait_all() == {"chief-0": 0, "witness-0": 0}


def test_program_s_own_failure_is_not_retried_and_yarn_hears_of_it_from_the_witness(
    job: Cluster,
) -> None:
    retrying(job, {"chief": role(1, "trains", HOLD), "worker": role(1, "trains", "exit 3")})
    assert job.wait_all() == {"chief-0": 0, "worker-0": 0, "witness-0": 93}
    report = job.report()
    assert report["first_failure"]["task"] == "worker-0"
    assert report["first_failure"]["status"] == 3
    assert report["generations"] == []
    assert report["retries"]["refusal"].startswith("not retried: `retries.on` does not name")


def test_statuses_on_request_are_retried_until_the_limit(job: Cluster) -> None:
    command = "echo generation $TFJOB_GENERATION; exit 42"
    roles = {"chief": role(1, "trains", HOLD), "worker": role(1, "trains", command)}
    retrying(job, roles, 42, most=2)
    assert job.wait_all() == {"chief-0": 0, "worker-0": 0, "witness-0": 93}
    assert job.stdout("worker-0") == "generation 0\ngeneration 1\ngeneration 2\n"
    assert [entry[0] for entry in generations(job)] == [0, 1]
    assert (
        job.report()["retries"]["refusal"]
        == "not retried: no retries are left (`retries.max` is 2)"
    )


def test_same_failure_at_the_same_step_twice_in_a_row_is_the_program_s_own(job: Cluster) -> None:
    command = """echo 'TFJOB_PROGRESS {"step": 5, "total": 9}'; sleep 0.5; exit 42"""
    roles = {"chief": role(1, "trains", HOLD), "worker": role(1, "trains", command)}
    retrying(job, roles, "any")
    assert job.wait_all()["witness-0"] == 93
    assert [entry[0] for entry in generations(job)] == [0]
    assert "the same failure at the same step (5) twice" in job.report()["retries"]["refusal"]


def test_finished_tasks_run_again_with_the_others(job: Cluster) -> None:
    roles = {
        "chief": role(1, "trains", HOLD),
        "worker": role(2, "trains", "echo generation $TFJOB_GENERATION"),
    }
    retrying(job, roles)
    job.until(lambda: job.report().get("roles", {}).get("worker", {}).get("succeeded") == 2)
    job.kill("chief-0")
    job.runs["chief-0"].wait()
    job.start("chief-0")
    job.printed("chief-0", "generation 1")
    job.go()
    assert set(job.wait_all().values()) == {0}
    assert job.stdout("worker-0") == job.stdout("worker-1") == "generation 0\ngeneration 1\n"


def test_command_gets_the_signal_before_it_starts_again(job: Cluster) -> None:
    save = "trap 'echo saved; exit 0' TERM; echo generation $TFJOB_GENERATION; " + UNTIL_GO
    retrying(job, {"chief": role(1, "trains", save), "worker": role(1, "trains", HOLD)})
    job.printed("worker-0", "generation 0")
    job.kill("worker-0")
    job.runs["worker-0"].wait()
    job.start("worker-0")
    job.printed("chief-0", "saved")
    job.printed("chief-0", "generation 1")
    job.go()
    assert set(job.wait_all().values()) == {0}


def test_killed_process_is_retried_without_a_new_container(job: Cluster) -> None:
    command = "[ $TFJOB_GENERATION = 1 ] || kill -9 $$; " + HOLD
    roles = {"chief": role(1, "trains", HOLD), "worker": role(1, "trains", command)}
    retrying(job, roles)
    job.printed("worker-0", "generation 1")
    job.go()
    assert set(job.wait_all().values()) == {0}
    assert generations(job) == [(0, "worker-0", "lost")]


def test_older_deciding_task_leaves_when_a_later_one_is_known(job: Cluster) -> None:
    retrying(job, {"chief": role(1, "trains", HOLD), "worker": role(1, "trains", HOLD)})
    job.printed("worker-0", "generation 0")
    former = job.runs["chief-0"]
    job.kill("chief-0", signal.SIGSTOP)
    job.task["grace_s"] = 20
    # the node's ports belong to the suspended one; a later container is elsewhere
    job.start("chief-0")
    assert "chief-0" in job.runs
    former.send_signal(signal.SIGCONT)
    assert former.pid != job.runs["chief-0"].pid
    former.kill()
    former.wait()
    job.printed("chief-0", "generation 1")
    job.go()
    assert set(job.wait_all().values()) == {0}


def suspended(job: Cluster, roles: dict[str, Any]) -> None:
    """Start a job whose tasks soon notice that the deciding one stands still."""
    retries = {"max": 3, "on": ["lost"]}
    job.job({**roles, "witness": WITNESS}, retries=retries, grace_s=4, ping_s=1)
    job.start()


def test_end_of_a_command_is_told_after_a_suspension_that_outlasts_grace(job: Cluster) -> None:
    ends = f"{UNTIL_GO.replace('go', 'end')}; echo done"
    suspended(job, {"chief": role(1, "trains", HOLD), "worker": role(1, "trains", ends)})
    job.printed("chief-0", "generation 0")
    job.kill("chief-0", signal.SIGSTOP)
    try:
        (job.root / "app" / "end").touch()
        job.until(lambda: "went away" in job.stderr("worker-0"))
        time.sleep(6)  # longer than `grace`
    finally:
        job.kill("chief-0", signal.SIGCONT)
    job.until(lambda: job.report()["roles"]["worker"]["succeeded"] == 1)
    job.go()
    assert set(job.wait_all().values()) == {0}
    assert generations(job) == []
    assert job.stdout("worker-0") == "done\n"


def test_suspension_of_the_deciding_task_that_outlasts_grace_starts_all_tasks_again(
    job: Cluster,
) -> None:
    """The others end their commands after `grace`: one at once, one while it is asked again."""
    start = "echo generation $TFJOB_GENERATION; "
    slow = "trap 'sleep 6; exit 0' TERM; " + start + UNTIL_GO
    roles = {
        "chief": role(1, "trains", HOLD),
        "worker": role(1, "trains", HOLD),
        "slow": role(1, "trains", slow),
    }
    suspended(job, roles)
    for name in ("chief-0", "worker-0", "slow-0"):
        job.printed(name, "generation 0")
    job.kill("chief-0", signal.SIGSTOP)
    try:
        job.until(lambda: "ending the command" in job.stderr("worker-0"))
        job.until(lambda: "ending the command" in job.stderr("slow-0"))
    finally:
        job.kill("chief-0", signal.SIGCONT)
    for name in ("chief-0", "worker-0", "slow-0"):
        job.printed(name, "generation 1")
    job.go()
    assert set(job.wait_all().values()) == {0}
    ((number, _, kind),) = generations(job)
    assert (number, kind) == (0, "lost")
    (ended,) = job.report()["generations"]
    assert "ended its program: it had lost the connection to chief-0" in ended["message"]
    for name in ("worker-0", "slow-0"):
        assert job.stdout(name).split("generation ")[1:] == ["0\n", "1\n"]


def test_older_container_of_a_worker_leaves_at_once(job: Cluster) -> None:
    retrying(job, {"chief": role(1, "trains", HOLD), "worker": role(1, "trains", HOLD)})
    job.printed("worker-0", "generation 0")
    former = job.runs["worker-0"]
    job.kill("worker-0", signal.SIGSTOP)
    job.until(lambda: "all tasks start again" in job.stderr("chief-0"))
    job.start("worker-0")
    job.printed("worker-0", "generation 1")
    former.send_signal(signal.SIGCONT)
    # `grace` is 20 s, and `start_timeout` 40 s
    assert former.wait(15) == 0
    job.go()
    assert set(job.wait_all().values()) == {0}
    assert generations(job) == [(0, "worker-0", "lost")]


def test_witness_alone_remembers_the_generations_and_that_the_job_is_prepared(
    job: Cluster,
) -> None:
    command = "[ $TFJOB_GENERATION = 1 ] || [ $TFJOB_GENERATION = 2 ] || kill -9 $$; " + HOLD
    job.job(
        {"chief": role(1, "trains", command), "witness": WITNESS},
        retries={"max": 3, "on": ["lost"]},
        grace_s=20,
        prepare="echo once >> ../prepared",
    )
    job.start()
    job.printed("chief-0", "generation 1")
    job.kill("chief-0")
    job.runs["chief-0"].wait()
    job.start("chief-0")
    job.printed("chief-0", "generation 2")
    job.go()
    assert job.wait_all() == {"chief-0": 0, "witness-0": 0}
    assert generations(job) == [(0, "chief-0", "lost"), (1, "chief-0", "lost")]
    assert (job.root / "app" / "prepared").read_text() == "once\n"
