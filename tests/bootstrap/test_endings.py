"""The end of a job: who leaves last, what is not run again; one process for each container."""

from __future__ import annotations

import re
import signal

from tests.bootstrap.harness import HOLD, WITNESS, Cluster, generations, pair, role

ONCE = "echo trained; exit 0"
RETRIES = {"max": 3, "on": ["lost"]}


def test_deciding_task_lost_after_its_success_does_not_train_again(job: Cluster) -> None:
    roles = pair(ONCE, HOLD)
    job.job({**roles, "witness": WITNESS}, retries=RETRIES, grace_s=300)
    job.start()
    job.printed("worker-0", "generation 0")
    job.until(lambda: job.report().get("state") == "finishing")
    job.replace("chief-0")
    job.until(lambda: "after its command had ended with 0" in job.stderr("chief-0"))
    job.go()
    assert job.wait_all() == {"chief-0": 0, "worker-0": 0, "witness-0": 0}
    assert (job.stdout("chief-0"), job.stdout("worker-0").count("generation")) == ("", 1)
    assert (job.report()["state"], generations(job)) == ("succeeded", [])


def test_task_suspended_while_others_succeed_does_not_have_them_train_again(job: Cluster) -> None:
    roles = pair(ONCE, HOLD, workers=2)
    job.job({**roles, "witness": WITNESS}, retries=RETRIES, grace_s=3, ping_s=0.5)
    job.start()
    for name in ("worker-0", "worker-1"):
        job.printed(name, "generation 0")
    job.kill("worker-1", signal.SIGSTOP)
    job.go()
    assert job.wait("witness-0") == 93
    job.kill("worker-1", signal.SIGCONT)
    assert job.wait("chief-0") == 0
    report = job.report()
    assert (report["state"], report["first_failure"]["task"]) == ("failed", "worker-1")
    assert (report["generations"], "had ended with 0" in report["retries"]["refusal"]) == ([], True)


def test_witness_leaves_last_and_without_the_tasks_that_never_came(job: Cluster) -> None:
    """YARN would wait for worker-2, which has no room, and ends with the witness instead."""
    job.job({"worker": role(3, "trains", HOLD), "witness": WITNESS}, start_timeout_s=4)
    job.start("worker-0", "worker-1", "witness-0")
    job.until(lambda: job.runs["witness-0"].poll() is not None)
    assert (job.wait("witness-0"), job.wait("worker-1")) == (93, 93)
    assert job.wait("worker-0") == 92
    report = job.report()
    told = report["first_failure"]["message"]  # on a busy machine a second later, or two missing
    assert re.match(r"[12] of 3 tasks had not arrived after \d+ s: ", told), told
    assert report["ended_at"] is not None


def test_witness_ends_a_job_without_deciding_task(job: Cluster) -> None:
    job.job({"worker": role(2, "trains", HOLD), "witness": WITNESS}, start_timeout_s=2)
    job.start("witness-0")
    assert job.wait("witness-0") == 92


def test_role_that_waits_for_a_sidecar_which_never_runs_fails_the_job(job: Cluster) -> None:
    roles = {"chief": role(1, "trains", ONCE, after=["web"]), "web": role(1, "sidecar", HOLD)}
    job.job(roles, start_timeout_s=3)
    job.start("chief-0")
    assert job.wait("chief-0") == 92
    assert job.report()["first_failure"]["message"].startswith("chief waits for web-0 (`after`)")
