"""`prepare`: one command before the commands of all tasks."""

from __future__ import annotations

from tests.bootstrap.harness import UNTIL_GO, Cluster, pair, role

SHOW = "cat ../prepared"


def test_all_commands_start_after_prepare_which_runs_once(any_job: Cluster) -> None:
    job = any_job
    roles = pair(SHOW, workers=2)
    job.job(roles, prepare=f"echo $TFJOB_ROLE-$TFJOB_INDEX >> ../prepared; {UNTIL_GO}")
    job.start()
    job.until(lambda: job.report().get("state") == "preparing")
    assert all(job.stdout(name) == "" for name in job.names())
    job.succeeds()
    assert {job.stdout(name) for name in job.names()} == {"chief-0\n"}
    assert job.report()["state"] == "succeeded"


def test_failure_of_prepare_is_the_job_s_and_no_command_starts(job: Cluster) -> None:
    roles = pair(SHOW)
    job.job(roles, prepare="echo no such bucket >&2; exit 7")
    job.start()
    assert job.wait_all() == {"chief-0": 7, "worker-0": 93}
    first = job.report()["first_failure"]
    assert (first["task"], first["status"], first["reason"]) == ("chief-0", 7, "prepare-failed")
    assert first["message"] == "prepare of the job failed: chief-0 exited with status 7"
    assert "no such bucket" in first["last_lines"]
    assert "starting: " not in job.stderr("chief-0") + job.stderr("worker-0")


def test_prepare_that_cannot_be_started_fails_the_job(job: Cluster) -> None:
    job.job({"chief": role(1, "trains", SHOW)}, prepare=["/no/such/program"])
    job.start()
    assert job.wait_all() == {"chief-0": 127}
    assert job.report()["first_failure"]["message"].startswith("prepare of the job failed: ")


def test_task_that_is_lost_while_the_job_is_prepared_fails_it(job: Cluster) -> None:
    roles = pair(SHOW)
    job.job(roles, prepare="sleep 600", grace_s=1)
    job.start()
    job.until(lambda: job.report().get("state") == "preparing")
    job.kill("worker-0")
    assert job.wait("chief-0") == 93
    assert job.report()["first_failure"]["task"] == "worker-0"


def test_prepare_that_failed_is_not_run_again_by_retries(job: Cluster) -> None:
    roles = {"chief": role(1, "trains", SHOW), "witness": role(1, "sidecar", ["sleep", "600"])}
    prepare = "echo began >> ../prepared; exit 7"
    job.job(roles, prepare=prepare, retries={"max": 2, "on": ["any"]}, grace_s=20)
    job.start()
    assert job.wait_all() == {"chief-0": 0, "witness-0": 93}
    assert (job.root / "app" / "prepared").read_text() == "began\n"
    report = job.report()
    assert report["first_failure"]["reason"] == "prepare-failed"
    assert report["retries"]["refusal"] == "not retried: `prepare` failed, which runs once"


def test_prepare_that_was_lost_is_run_again_by_retries(job: Cluster) -> None:
    roles = {
        "chief": role(1, "trains", SHOW),
        "worker": role(1, "trains", SHOW),
        "witness": role(1, "sidecar", ["sleep", "600"]),
    }
    job.job(
        roles,
        prepare=f"echo began >> ../prepared; {UNTIL_GO}",
        retries={"max": 2, "on": ["lost"]},
        grace_s=20,
    )
    prepared = job.root / "app" / "prepared"
    job.start()
    job.until(lambda: prepared.exists() and prepared.read_text() == "began\n")
    job.replace("chief-0")
    job.until(lambda: prepared.read_text() == "began\nbegan\n")
    job.succeeds()
    assert job.stdout("worker-0") == "began\nbegan\n"
