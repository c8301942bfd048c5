"""The commands that call a cluster: one operation each, output and exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job import operations
from submit_tf_job.errors import ClusterUnavailable, DeadlinePassed, SubmitTFJobError
from submit_tf_job.logs.entries import Origin, Run, TaskContainer
from submit_tf_job.observation import Evidence, JobState, JobStatus
from submit_tf_job.plan import Plan
from submit_tf_job.storage.staging import Sent
from tests.fakes.command_line import Cli, Done, planned
from tests.fakes.statuses import FAILURE_JSON, app, report
from tests.unit.cli.conftest import Stage

ID = "application_1_0001"


def look(record: Any, evidence: Evidence = Evidence.READ, **said: Any) -> JobStatus:
    return JobStatus(
        "mnist", ID, record, report=report(**said) if said else None, evidence=evidence
    )


RUNNING = look(
    app("RUNNING", "UNDEFINED"), state="running", roles={"worker": {"wanted": 2, "running": 2}}
)
WAITING = look(
    app("RUNNING", "UNDEFINED"), state="waiting", wanted=2, arrived=1, missing=["worker-1"]
)
SUCCEEDED = look(app(), state="succeeded")
FAILED = look(app(final="FAILED"), state="failed", first_failure=FAILURE_JSON)
STOPPED = look(app("KILLED", "KILLED", "killed by alice"))
GONE = look(None)
ENDS = [(SUCCEEDED, 0), (FAILED, 1), (STOPPED, 3), (GONE, 5), (RUNNING, 0)]


def first_line(done: Done) -> str:
    return done.out.splitlines()[0]


# --- status, stop, delete -------------------------------------------------------------------------


@pytest.mark.parametrize(("found", "_status"), ENDS)
def test_status_exits_with_zero(cli: Cli, stage: Stage, found: JobStatus, _status: int) -> None:
    stage.on("status", lambda _cluster, _job: found)
    done = cli("status", "mnist")
    assert (done.status, done.err, first_line(done)) == (
        0,
        "",
        f"mnist  {found.verdict.state.value}",
    )
    assert stage.calls[-1] == ("status", "mnist")
    assert cli("status", ID, "-o", "json").json["state"] == found.verdict.state.value


def test_stop(cli: Cli, stage: Stage) -> None:
    given: list[tuple[bool, float | None]] = []

    def stop(
        _cluster: object,
        _job: str,
        *,
        wait: bool,
        grace_s: float | None,
        on_wait: Callable[[str], None],
    ) -> JobStatus:
        assert callable(on_wait)
        given.append((wait, grace_s))
        return STOPPED

    stage.on("stop", stop)
    done = cli("stop", "mnist")
    assert (done.status, done.err, first_line(done)) == (0, "", "mnist  STOPPED")
    assert cli("stop", "mnist", "--no-wait", "-o", "json").json["state"] == "STOPPED"
    assert cli("stop", "mnist", "--grace", "2m").status == 0
    assert given == [(True, None), (False, None), (True, 120.0)]
    done = cli("stop", "mnist", "--grace", "soon")
    assert (done.status, len(given)) == (2, 3)
    assert done.err.startswith("error: --grace: ")


@pytest.mark.parametrize(
    ("deleted", "text"),
    [(True, "mnist is deleted"), (False, "there is no job mnist; nothing to delete")],
)
def test_delete(cli: Cli, stage: Stage, deleted: bool, text: str) -> None:
    forces: list[bool] = []

    def delete(
        _cluster: object,
        _job: str,
        *,
        force: bool,
        on_trouble: Callable[[SubmitTFJobError], None],
        on_wait: Callable[[str], None],
    ) -> bool:
        assert callable(on_trouble)
        forces.append(force)
        return deleted

    stage.on("delete", delete)
    assert cli("delete", "mnist") == Done(0, f"{text}\n", "")
    assert cli("delete", "mnist", "--force", "-o", "json").json == {
        "kind": "Deletion",
        "format": 1,
        "job": "mnist",
        "deleted": deleted,
    }
    assert forces == [False, True]


# --- wait -----------------------------------------------------------------------------------------


def follows(stage: Stage, *looks: JobStatus) -> dict[str, Any]:
    """Let `operations.follow` return the first of these that ends the wait."""
    given: dict[str, Any] = {}

    def follow(
        _cluster: object,
        ref: operations.JobRef,
        *,
        until: Any,
        own: bool,
        timeout_s: Any,
        on_status: Any,
        on_trouble: Any,
    ) -> JobStatus:
        assert own, "`wait` ends a job that can only wait in vain"
        given.update(ref=ref, timeout_s=timeout_s, on_trouble=on_trouble)
        for found in looks:
            on_status(found)
            if until(found) or found.verdict.state.is_final:
                return found
        raise AssertionError("none of these ends the wait")

    stage.on("find", lambda _cluster, job: operations.JobRef(job))
    stage.on("follow", follow)
    return given


@pytest.mark.parametrize(("found", "status"), ENDS[:4])
def test_wait_exits_with_the_jobs_status(
    cli: Cli, stage: Stage, found: JobStatus, status: int
) -> None:
    given = follows(stage, WAITING, RUNNING, found)
    done = cli("wait", "mnist", "--timeout", "2h")
    assert (done.status, first_line(done)) == (status, f"mnist  {found.verdict.state.value}")
    assert given["timeout_s"] == 7200
    assert [line.split("  ")[1].strip() for line in done.err.splitlines()] == [
        "STARTING",
        "RUNNING",
        found.verdict.state.value,
    ]
    assert cli("wait", "mnist", "-q").err == ""


def test_wait_for_ready(cli: Cli, stage: Stage) -> None:
    follows(stage, WAITING, RUNNING, FAILED)
    done = cli("wait", "mnist", "--for", "ready", "-o", "json")
    assert (done.status, done.json["state"]) == (0, "RUNNING")
    follows(stage, WAITING, FAILED, RUNNING)
    assert cli("wait", "mnist", "--for", "ready").status == 1, "it will never be ready"


def test_wait_prints_only_changes(cli: Cli, stage: Stage) -> None:
    follows(stage, WAITING, WAITING, WAITING, RUNNING, RUNNING, SUCCEEDED)
    assert len(cli("wait", "mnist").err.splitlines()) == 3


def test_wait_timeout(cli: Cli, stage: Stage) -> None:
    def follow(*_args: object, **_named: object) -> JobStatus:
        raise DeadlinePassed("the deadline of 5 s passed")

    stage.on("find", lambda _cluster, job: operations.JobRef(job))
    stage.on("follow", follow)
    assert cli("wait", "mnist", "--timeout", "5s") == Done(
        8,
        "",
        "error: the deadline of 5 s passed; mnist may still be running\n  hint: "
        "submit_tf_job wait mnist, or submit_tf_job stop mnist\n",
    )


def test_wait_reports_an_outage_once(cli: Cli, stage: Stage) -> None:
    def follow(
        _cluster: object, _ref: object, *, on_status: Any, on_trouble: Any, **_named: object
    ) -> JobStatus:
        on_status(RUNNING)
        for _ in range(3):
            on_trouble(ClusterUnavailable("No ResourceManager could be reached"))
        on_status(RUNNING)
        on_status(SUCCEEDED)
        return SUCCEEDED

    stage.on("find", lambda _cluster, job: operations.JobRef(job))
    stage.on("follow", follow)
    lines = cli("wait", "mnist").err.splitlines()
    assert lines[1:3] == [
        "the cluster does not answer; still trying: No ResourceManager could be reached",
        "the cluster answers again",
    ]
    assert len(lines) == 4


def test_wait_interrupted_reports_that_the_job_continues(cli: Cli, stage: Stage) -> None:
    def follow(*_args: object, **_named: object) -> JobStatus:
        raise KeyboardInterrupt

    stage.on("find", lambda _cluster, job: operations.JobRef(job))
    stage.on("follow", follow)
    done = cli("wait", "mnist")
    assert (done.status, done.out) == (130, "")
    assert (
        done.err == "\nJob mnist is still running. Reattach: submit_tf_job wait mnist    Stop: "
        "submit_tf_job stop mnist\n"
    )


# --- submit ---------------------------------------------------------------------------------------


def submits(
    stage: Stage, *, adopted: bool = False, ends: JobStatus = SUCCEEDED
) -> list[dict[str, Any]]:
    """Let `api.submit` take the plan and `operations.follow` show the end."""
    given: list[dict[str, Any]] = []

    def submit(
        plan: Plan,
        _cluster: object,
        *,
        replace: bool,
        on_upload: Callable[[Sent], None],
        on_wait: Callable[[str], None],
    ) -> operations.Submission:
        on_upload(Sent(2_000, 2_000))  # too little to be told of
        given.append({"body": plan.body, "replace": replace})
        return operations.Submission(operations.JobRef(plan.job.name, ID), adopted, plan)

    def follow(
        _cluster: object,
        _ref: operations.JobRef,
        *,
        own: bool,
        bootstrap: bool,
        timeout_s: Any,
        on_status: Any,
        on_trouble: Any,
    ) -> JobStatus:
        assert own
        assert bootstrap
        given[-1]["timeout_s"] = timeout_s
        on_status(ends)
        return ends

    stage.on("submit", submit)
    stage.on("follow", follow)
    return given


@pytest.mark.parametrize(("found", "status"), ENDS[:4])
def test_submit_posts_the_rendered_body_and_exits_with_the_jobs_status(
    cli: Cli, stage: Stage, spec: Path, found: JobStatus, status: int
) -> None:
    given = submits(stage, ends=found)
    done = cli("submit", "train.yaml", "--timeout", "15m")
    assert (done.status, first_line(done)) == (status, f"mnist  {found.verdict.state.value}")
    assert given == [{"body": planned(), "replace": False, "timeout_s": 900.0}]
    assert done.err.splitlines()[:3] == [
        f"Submitted mnist ({ID})",
        "  submit_tf_job watch mnist    submit_tf_job logs mnist -f",
        f"  http://rm1:8088/cluster/app/{ID}",
    ]
    assert "to run it once more" not in done.err
    assert given[0]["body"] == cli("render", "train.yaml").out


def test_submit_prints_why_the_job_waits(cli: Cli, stage: Stage, spec: Path) -> None:
    submits(stage)
    submit = vars(operations)["submit"]

    def waits(
        *arguments: Any, on_wait: Callable[[str], None], **options: Any
    ) -> operations.Submission:
        on_wait("waiting for the ApplicationMaster of application_1_0000 to exit")
        done: operations.Submission = submit(*arguments, on_wait=on_wait, **options)
        return done

    stage.on("submit", waits)
    assert (
        cli("submit", "train.yaml").err.splitlines()[0]
        == "waiting for the ApplicationMaster of application_1_0000 to exit"
    )


def test_submit_verbose_prints_the_submission_id(cli: Cli, stage: Stage, spec: Path) -> None:
    submits(stage)
    submission = json.loads(planned())["version"]
    assert (
        cli("submit", "train.yaml", "-v").err.splitlines()[0]
        == f"Submitted mnist ({ID}), submission {submission}"
    )


def test_submit_with_logs_shows_the_output(
    cli: Cli, stage: Stage, spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []

    class Printed:
        def __init__(self, _cluster: object, show: Any, _say: object, **options: Any) -> None:
            made.append(options)
            self._show = show

        def sleep(self, seconds: float) -> None:
            raise AssertionError(seconds)

        def update(self, _status: JobStatus) -> None:
            origin = Origin(TaskContainer("chief-0", "c1"), "stdout.txt")
            self._show(
                [
                    Run(
                        origin,
                        None,
                        0.0,
                        b"Epoch 1/3\n1/2 [=>]\r2/2 [==] FAILED \x1b[1mtests\x1b[0m\n",
                    )
                ]
            )

    monkeypatch.setattr(operations, "OutputFollower", Printed)
    monkeypatch.setattr(
        "submit_tf_job.report.following.replace", lambda cluster, **_values: cluster
    )
    submits(stage, adopted=True)
    lines = cli("submit", "train.yaml", "--logs").err.splitlines()
    assert lines[3:5] == ["chief-0 | Epoch 1/3", "chief-0 | 2/2 [==] FAILED tests"]
    # the last: stderr of a test is no terminal
    for options in (["--no-logs"], ["--logs", "-q"], []):
        assert "chief-0 |" not in cli("submit", "train.yaml", *options).err
    assert made == [{"tail": 20}]


def test_submit_again_adopts_the_job(cli: Cli, stage: Stage, spec: Path) -> None:
    submits(stage, adopted=True)
    lines = cli("submit", "train.yaml").err.splitlines()
    assert lines[0] == f"mnist was submitted before ({ID})"
    assert lines[-1] == "to run it once more: submit_tf_job submit train.yaml --replace"


def test_submit_detached(cli: Cli, stage: Stage, spec: Path) -> None:
    given = submits(stage)
    done = cli("submit", "train.yaml", "--detach", "--replace", "--submission-id", "run-7")
    assert (done.status, done.out) == (0, f"{ID}\n")
    assert (given[0]["replace"], json.loads(given[0]["body"])["version"]) == (True, "run-7")
    assert [call[0] for call in stage.calls] == ["connect", "submit"]
    assert cli(
        "submit", "train.yaml", "-d", "-q", "--submission-id", "run-7", "-o", "json"
    ).json == {
        "kind": "Submission",
        "format": 1,
        "name": "mnist",
        "application_id": ID,
        "submission": "run-7",
        "adopted": False,
        "warnings": [],
        "remarks": [],
    }


def test_submit_invalid_job_spec_sends_no_request(cli: Cli, stage: Stage, spec: Path) -> None:
    spec.write_text(spec.read_text().replace("library/tf", "Library/TF"))
    done = cli("submit", "train.yaml")
    assert (done.status, done.out, stage.calls) == (2, "", [])
    assert done.err.startswith("train.yaml:2:1: image: 'Library/TF:2' is not an image name")


def test_submit_interrupted_reports_that_the_job_may_exist(
    cli: Cli, stage: Stage, spec: Path
) -> None:
    def submit(*_args: object, **_named: object) -> None:
        raise KeyboardInterrupt

    stage.on("submit", submit)
    done = cli("submit", "train.yaml")
    assert (done.status, done.out) == (130, "")
    assert done.err == "\nmnist may have been submitted. Run the same command again to find out.\n"


def test_messages_of_servers_are_escaped(cli: Cli, stage: Stage) -> None:
    stage.on(
        "status",
        lambda _cluster, _job: look(
            replace(app("FAILED", "FAILED"), diagnostics="\x1b]0;evil\x07"), Evidence.UNREADABLE
        ),
    )
    assert (
        cli("status", "mnist").out.splitlines()[1] == "  the application failed: \\x1b]0;evil\\x07"
    )
    assert JobState(cli("status", "mnist", "-o", "json").json["state"]) is JobState.FAILED


def test_wait_reports_a_new_application_master(cli: Cli, stage: Stage) -> None:
    def started(attempt: int) -> JobStatus:
        logs = (
            f"http://node1:8042/node/containerlogs/container_e17_1_0001_{attempt:02}_000001/alice"
        )
        return look(
            replace(app("RUNNING", "UNDEFINED"), am_container_logs=logs),
            state="running",
            roles={"worker": {"wanted": 2, "running": 2}},
        )

    def follow(_cluster: object, _ref: object, *, on_status: Any, **_named: Any) -> JobStatus:
        for attempt in (1, 1, 2, 2):
            on_status(started(attempt))
        return SUCCEEDED

    stage.on("find", lambda _cluster, job: operations.JobRef(job))
    stage.on("follow", follow)
    done = cli("wait", "mnist")
    assert done.status == 0
    assert (
        done.err.count("YARN started the ApplicationMaster again (attempt 2); the tasks live on")
        == 1
    )
