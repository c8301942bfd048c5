"""The commands that talk to a cluster: one api call each, what is printed of its answer, and the exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from submit_tf_job import api
from submit_tf_job.errors import ClusterUnavailable, DeadlinePassed, SubmitTFJobError
from submit_tf_job.observation import Evidence, JobState, Observation, verdict
from submit_tf_job.plan import Plan
from submit_tf_job.staging import Sent
from submit_tf_job.watch import Look
from tests.unit.test_cli import Cli, Done, cli, home
from tests.unit.test_cli_jobspec import planned, spec
from tests.unit.test_observation import FAILURE_JSON, app, report

__all__ = ["cli", "home", "spec"]

ID = "application_1_0001"


def look(record: Any, evidence: Evidence = Evidence.READ, **said: Any) -> Look:
    seen = Observation("mnist", ID, record, report=report(**said) if said else None, evidence=evidence)
    return Look(seen, verdict(seen))


RUNNING = look(app("RUNNING", "UNDEFINED"), state="running", roles={"worker": {"wanted": 2, "running": 2}})
WAITING = look(app("RUNNING", "UNDEFINED"), state="waiting", wanted=2, arrived=1, missing=["worker-1"])
SUCCEEDED = look(app(), state="succeeded")
FAILED = look(app(final="FAILED"), state="failed", first_failure=FAILURE_JSON)
STOPPED = look(app("KILLED", "KILLED", "killed by alice"))
GONE = look(None)
ENDS = [(SUCCEEDED, 0), (FAILED, 1), (STOPPED, 3), (GONE, 5), (RUNNING, 0)]
CLUSTER = SimpleNamespace()


class Stage:
    """Stands in for functions of the api: each that is called must have been announced, and each announced must be called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._patch = monkeypatch
        self.on("connect", lambda _settings: CLUSTER)
        for name in ("submit", "follow", "follow_own", "status", "stop", "delete", "find", "observe"):
            monkeypatch.setattr(api, name, lambda *_args, _name=name, **_named: pytest.fail(f"api.{_name} was not to be called"))

    def on(self, name: str, call: Callable[..., Any]) -> None:
        def recorded(*args: Any, **named: Any) -> Any:
            self.calls.append((name, *(arg for arg in args if arg is not CLUSTER)))
            return call(*args, **named)

        self._patch.setattr(api, name, recorded)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def first_line(done: Done) -> str:
    return done.out.splitlines()[0]


# --- status, stop, delete ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("found", "_status"), ENDS)
def test_status_is_zero_whatever_it_found(cli: Cli, stage: Stage, found: Look, _status: int) -> None:
    stage.on("status", lambda _cluster, _job: found)
    done = cli("status", "mnist")
    assert (done.status, done.err, first_line(done)) == (0, "", f"mnist  {found.verdict.state.value}")
    assert stage.calls[-1] == ("status", "mnist")
    assert cli("status", ID, "-o", "json").json["state"] == found.verdict.state.value


def test_stop(cli: Cli, stage: Stage) -> None:
    waits: list[bool] = []

    def stop(_cluster: object, _job: str, *, wait: bool) -> Look:
        waits.append(wait)
        return STOPPED

    stage.on("stop", stop)
    done = cli("stop", "mnist")
    assert (done.status, done.err, first_line(done)) == (0, "", "mnist  STOPPED")
    assert cli("stop", "mnist", "--no-wait", "-o", "json").json["state"] == "STOPPED"
    assert waits == [True, False]


@pytest.mark.parametrize(("deleted", "text"), [(True, "mnist is deleted"), (False, "there is no job mnist; nothing to delete")])
def test_delete(cli: Cli, stage: Stage, deleted: bool, text: str) -> None:
    forces: list[bool] = []

    def delete(_cluster: object, _job: str, *, force: bool, on_trouble: Callable[[SubmitTFJobError], None]) -> bool:
        assert callable(on_trouble)
        forces.append(force)
        return deleted

    stage.on("delete", delete)
    assert cli("delete", "mnist") == Done(0, f"{text}\n", "")
    assert cli("delete", "mnist", "--force", "-o", "json").json == {"kind": "Deletion", "format": 1, "job": "mnist", "deleted": deleted}
    assert forces == [False, True]


# --- wait -------------------------------------------------------------------------------------------------------------


def follows(stage: Stage, *looks: Look) -> dict[str, Any]:
    """Let `api.follow` show these looks, until one of them is what is waited for."""
    given: dict[str, Any] = {}

    def follow(_cluster: object, ref: api.JobRef, *, until: Any, timeout_s: Any, on_look: Any, on_trouble: Any) -> Look:
        given.update(ref=ref, timeout_s=timeout_s, on_trouble=on_trouble)
        for found in looks:
            on_look(found)
            if until(found) or found.verdict.state.is_final:
                return found
        raise AssertionError("none of the looks was what is waited for")

    stage.on("find", lambda _cluster, job: api.JobRef(job))
    stage.on("follow", follow)
    return given


@pytest.mark.parametrize(("found", "status"), ENDS[:4])
def test_wait_ends_with_the_jobs_own_status(cli: Cli, stage: Stage, found: Look, status: int) -> None:
    given = follows(stage, WAITING, RUNNING, found)
    done = cli("wait", "mnist", "--timeout", "2h")
    assert (done.status, first_line(done)) == (status, f"mnist  {found.verdict.state.value}")
    assert given["timeout_s"] == 7200
    assert [line.split("  ")[1].strip() for line in done.err.splitlines()] == ["STARTING", "RUNNING", found.verdict.state.value]
    assert cli("wait", "mnist", "-q").err == ""


def test_wait_until_every_task_is_there(cli: Cli, stage: Stage) -> None:
    follows(stage, WAITING, RUNNING, FAILED)
    done = cli("wait", "mnist", "--for", "ready", "-o", "json")
    assert (done.status, done.json["state"]) == (0, "RUNNING")
    follows(stage, WAITING, FAILED, RUNNING)
    assert cli("wait", "mnist", "--for", "ready").status == 1, "it will never be ready"


def test_only_what_changed_is_said(cli: Cli, stage: Stage) -> None:
    follows(stage, WAITING, WAITING, WAITING, RUNNING, RUNNING, SUCCEEDED)
    assert len(cli("wait", "mnist").err.splitlines()) == 3


def test_a_wait_that_takes_too_long(cli: Cli, stage: Stage) -> None:
    def follow(*_args: object, **_named: object) -> Look:
        raise DeadlinePassed("the deadline of 5 s passed")

    stage.on("find", lambda _cluster, job: api.JobRef(job))
    stage.on("follow", follow)
    assert cli("wait", "mnist", "--timeout", "5s") == Done(
        8,
        "",
        "error: the deadline of 5 s passed; mnist may still be running\n  hint: submit_tf_job wait mnist, or submit_tf_job stop mnist\n",
    )


def test_a_cluster_that_comes_back_is_told_once(cli: Cli, stage: Stage) -> None:
    def follow(_cluster: object, _ref: object, *, on_look: Any, on_trouble: Any, **_named: object) -> Look:
        on_look(RUNNING)
        for _ in range(3):
            on_trouble(ClusterUnavailable("No ResourceManager could be reached"))
        on_look(RUNNING)
        on_look(SUCCEEDED)
        return SUCCEEDED

    stage.on("find", lambda _cluster, job: api.JobRef(job))
    stage.on("follow", follow)
    lines = cli("wait", "mnist").err.splitlines()
    assert lines[1:3] == ["the cluster does not answer; still trying: No ResourceManager could be reached", "the cluster answers again"]
    assert len(lines) == 4


def test_an_interrupted_wait_says_that_the_job_goes_on(cli: Cli, stage: Stage) -> None:
    def follow(*_args: object, **_named: object) -> Look:
        raise KeyboardInterrupt

    stage.on("find", lambda _cluster, job: api.JobRef(job))
    stage.on("follow", follow)
    done = cli("wait", "mnist")
    assert (done.status, done.out) == (130, "")
    assert done.err == "\nmnist goes on. Follow it again: submit_tf_job wait mnist    Stop it: submit_tf_job stop mnist\n"


# --- submit -----------------------------------------------------------------------------------------------------------


def submits(stage: Stage, *, adopted: bool = False, ends: Look = SUCCEEDED) -> list[dict[str, Any]]:
    """Let `api.submit` take the plan and `api.follow_own` show the end."""
    given: list[dict[str, Any]] = []

    def submit(plan: Plan, _cluster: object, *, replace: bool, on_upload: Callable[[Sent], None]) -> api.Submission:
        on_upload(Sent(2_000, 2_000))  # too little to be told of
        given.append({"body": plan.body, "replace": replace})
        return api.Submission(api.JobRef(plan.job.name, ID), adopted, plan)

    def follow_own(_cluster: object, _done: api.Submission, *, timeout_s: Any, on_look: Any, on_trouble: Any) -> Look:
        given[-1]["timeout_s"] = timeout_s
        on_look(ends)
        return ends

    stage.on("submit", submit)
    stage.on("follow_own", follow_own)
    return given


@pytest.mark.parametrize(("found", "status"), ENDS[:4])
def test_submit_posts_what_render_prints_and_ends_with_the_jobs_status(
    cli: Cli, stage: Stage, spec: Path, found: Look, status: int
) -> None:
    given = submits(stage, ends=found)
    done = cli("submit", "train.yaml", "--timeout", "15m")
    assert (done.status, first_line(done)) == (status, f"mnist  {found.verdict.state.value}")
    assert given == [{"body": planned(), "replace": False, "timeout_s": 900.0}]
    submission = json.loads(planned())["version"]
    assert done.err.splitlines()[0] == f"mnist is submitted as {ID}  (submission {submission})"
    assert "to run it once more" not in done.err
    assert given[0]["body"] == cli("render", "train.yaml").out


def test_the_same_submission_again(cli: Cli, stage: Stage, spec: Path) -> None:
    submits(stage, adopted=True)
    lines = cli("submit", "train.yaml").err.splitlines()
    assert lines[0].startswith(f"mnist was submitted before, as {ID}  (submission ")
    assert lines[-1] == "to run it once more: submit_tf_job submit train.yaml --replace"


def test_submit_and_go(cli: Cli, stage: Stage, spec: Path) -> None:
    given = submits(stage)
    done = cli("submit", "train.yaml", "--detach", "--replace", "--submission-id", "run-7")
    assert (done.status, done.out) == (0, f"{ID}\n")
    assert (given[0]["replace"], json.loads(given[0]["body"])["version"]) == (True, "run-7")
    assert [call[0] for call in stage.calls] == ["connect", "submit"]
    assert cli("submit", "train.yaml", "-d", "-q", "--submission-id", "run-7", "-o", "json").json == {
        "kind": "Submission",
        "format": 1,
        "name": "mnist",
        "application_id": ID,
        "submission": "run-7",
        "adopted": False,
    }


def test_a_job_spec_that_is_wrong_reaches_no_cluster(cli: Cli, stage: Stage, spec: Path) -> None:
    spec.write_text(spec.read_text().replace("library/tf", "Library/TF"))
    done = cli("submit", "train.yaml")
    assert (done.status, done.out, stage.calls) == (2, "", [])
    assert done.err.startswith("train.yaml:2:1: image: 'Library/TF:2' is no image name")


def test_an_interrupted_submit_says_what_is_not_certain(cli: Cli, stage: Stage, spec: Path) -> None:
    def submit(*_args: object, **_named: object) -> None:
        raise KeyboardInterrupt

    stage.on("submit", submit)
    done = cli("submit", "train.yaml")
    assert (done.status, done.out) == (130, "")
    assert done.err == "\nIt is not certain whether mnist was submitted. The same command again finds out.\n"


def test_what_servers_say_is_cleaned(cli: Cli, stage: Stage) -> None:
    stage.on("status", lambda _cluster, _job: look(replace(app("FAILED", "FAILED"), diagnostics="\x1b]0;evil\x07"), Evidence.UNREADABLE))
    assert cli("status", "mnist").out.splitlines()[1] == "  the application failed: \\x1b]0;evil\\x07"
    assert JobState(cli("status", "mnist", "-o", "json").json["state"]) is JobState.FAILED


def test_a_new_application_master_is_told_of(cli: Cli, stage: Stage) -> None:
    def started(attempt: int) -> Look:
        logs = f"http://node1:8042/node/containerlogs/container_e17_1_0001_{attempt:02}_000001/alice"
        return look(
            replace(app("RUNNING", "UNDEFINED"), am_container_logs=logs), state="running", roles={"worker": {"wanted": 2, "running": 2}}
        )

    def follow(_cluster: object, _ref: object, *, on_look: Any, **_named: Any) -> Look:
        for attempt in (1, 1, 2, 2):
            on_look(started(attempt))
        return SUCCEEDED

    stage.on("find", lambda _cluster, job: api.JobRef(job))
    stage.on("follow", follow)
    done = cli("wait", "mnist")
    assert done.status == 0
    assert done.err.count("YARN started the ApplicationMaster again (attempt 2); the tasks live on") == 1
