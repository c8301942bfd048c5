"""One verdict for one run: by every verb, at several moments, from the evidence of that moment."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from submit_tf_job import operations
from submit_tf_job.container import contract
from submit_tf_job.observation import Evidence, JobReport, JobState, JobStatus
from submit_tf_job.operations import history, watch
from submit_tf_job.operations.listing import listed_job
from submit_tf_job.sdk.client import Client as SdkClient
from submit_tf_job.sdk.client import JobHandle
from submit_tf_job.storage.local_files import LocalStorage
from submit_tf_job.yarn.observed import AppReport, ObservedService
from submit_tf_job.yarn.states import AppState, ContainerState, FinalStatus
from tests.fakes.log_files import log, record, reserved, write_tfile
from tests.fakes.logged_job import AM, ONE, Job
from tests.fakes.resource_manager import FakeCluster

APP = "application_1700000000000_0001"
ASSIGNED = (
    f"[COMPONENT worker]: Assigned {ONE} to component instance worker-0 and launch on host "
    f"node1:8041 \n"
)
LOCAL = "<property><name>fs.defaultFS</name><value>file:///</value></property>"
EMPTY = {"stdout.txt": b"", "stderr.txt": b""}
SCRIPT = {
    "launch_container.sh": b"exec python3 conf/bootstrap.py\n",
    "prelaunch.out": b"Launching container\n",
}
PLAIN = {"launch_container.sh": b"exec true\n", "prelaunch.out": b"Launching container\n"}


def report(state: str, status: int) -> bytes:
    return json.dumps(
        {"version": 1, "submission": "s1", "state": state, "outcome": {"status": status}}
    ).encode()


GOOD = {**SCRIPT, "stderr.txt": b"done\n", contract.REPORT_FILE: report("succeeded", 0)}


class Run:
    """One job of one task on the fake cluster, with what its NodeManager and HDFS hold at each
    moment.
    """

    def __init__(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        files: Mapping[str, bytes],
        *,
        bootstrap: bool = True,
    ) -> None:
        self.root, self.home, self.files = tmp_path / "logs", tmp_path / "home", files
        rows = f"<property><name>yarn.nodemanager.remote-app-log-dir</name><value>{self.root.as_uri()}</value></property>"
        (tmp_path / "yarn-site.xml").write_text(f"<configuration>{rows}</configuration>")
        (tmp_path / "core-site.xml").write_text(f"<configuration>{LOCAL}</configuration>")
        self.job = Job(FakeCluster(), tmp_path)
        self.cluster = replace(self.job.api, wall=lambda: self.job.clock.epoch_ms() / 1000)
        monkeypatch.setattr(LocalStorage, "_home", lambda _self, _user: str(self.home))
        properties = {
            contract.PROPERTY_DECIDING: "worker-0",
            contract.PROPERTY_BOOTSTRAP: str(bootstrap).lower(),
        }
        self.job.yarn.services["alice", "mnist"].spec["configuration"] = {"properties": properties}
        stored = self.home / ".yarn/services/mnist/mnist.json"
        stored.parent.mkdir(parents=True)
        stored.write_text(
            json.dumps({"name": "mnist", "id": APP, "configuration": {"properties": properties}})
        )

    @property
    def aggregation(self) -> str | None:
        return self.job.cluster.rms[0].aggregation

    def start(self) -> None:
        self.job.start(("worker-0", ONE))
        self.job.node.logs |= {(ONE, name): data for name, data in self.files.items()}
        self.job.node.logs[AM, "serviceam.log"] = ASSIGNED.encode()

    def container_ends(self) -> None:
        self.job.yarn.containers["worker"][0]["state"] = "SUCCEEDED"

    def ends(self, state: str = "SUCCEEDED") -> None:
        """End the application; its NodeManager still has the logs."""
        self.job.cluster.rms[0].aggregation = "NOT_START"
        self.job.yarn.end(self.job.yarn.apps[APP], "FINISHED", state)

    def collected(self, status: str | None = "SUCCEEDED") -> None:
        """Upload the logs, and delete the NodeManager's own."""
        content = b"".join(log(name, data) for name, data in self.files.items())
        am = record(AM, log("serviceam.log", ASSIGNED.encode()))
        place = self.root / "alice/bucket-logs-tfile/0001" / APP / "node1_8041"
        place.parent.mkdir(parents=True)
        place.write_bytes(write_tfile([[*reserved(), record(ONE, content), am]]))
        self.job.node.logs.clear()
        self.job.cluster.rms[0].aggregation = status

    def verbs(self) -> dict[str, Callable[[], JobStatus]]:
        """Return every verb that judges the job, each called as in a process of its own."""
        ref = operations.JobRef("mnist", APP)
        sdk = JobHandle(cast(SdkClient, SimpleNamespace(cluster=self.cluster)), "mnist", APP)
        return {
            "status by id": lambda: operations.status(self.cluster, APP),
            "status by name": lambda: operations.status(self.cluster, "mnist"),
            "describe": lambda: operations.describe(self.cluster, APP),
            "wait": lambda: operations.follow(self.cluster, ref),
            "submit again": lambda: operations.follow(self.cluster, ref, own=True, bootstrap=True),
            "sdk": lambda: sdk.status().job,
        }

    def states(self, *without: str) -> set[JobState]:
        return {status().state for name, status in self.verbs().items() if name not in without}


@pytest.mark.parametrize(
    ("files", "state"),
    [(EMPTY, JobState.FAILED), (GOOD, JobState.SUCCEEDED), (SCRIPT, JobState.FAILED)],
    ids=["swallowed", "good", "killed"],
)
def test_every_verb_gives_one_verdict_at_every_moment(
    files: dict[str, bytes], state: JobState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, monkeypatch, files)
    run.start()
    run.container_ends()
    run.ends()
    assert run.states() == {state}, "before the logs are collected, its NodeManager has them"
    run.job.clock.sleep(5)
    assert run.states() == {state}
    run.collected()
    assert run.states() == {state}, "from the collected logs alone"
    run.job.clock.sleep(86400)
    assert run.states() == {state}


def test_every_verb_agrees_with_a_watch_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ENTRYPOINT ignores the command: the container succeeds, with log files of size 0."""
    run = Run(tmp_path, monkeypatch, EMPTY)
    run.start()
    run.job.clock.after(5, run.container_ends)
    run.job.clock.after(9, run.ends)
    run.job.clock.after(40, run.collected)
    look = run.verbs()["submit again"]()
    assert (look.verdict.state, look.evidence) == (JobState.FAILED, Evidence.MISSING)
    assert run.states() == {JobState.FAILED}


@pytest.mark.parametrize(("files", "state"), [(EMPTY, JobState.FAILED), (GOOD, JobState.SUCCEEDED)])
def test_every_verb_waits_for_logs_that_are_not_collected(
    files: dict[str, bytes], state: JobState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, monkeypatch, files)
    run.start()
    run.ends()
    run.job.node.logs.clear()
    look = operations.status(run.cluster, APP)
    assert (look.verdict.state, look.verdict.confirmed, look.evidence) == (
        JobState.FINISHING,
        None,
        Evidence.COLLECTED_SOON,
    )
    assert "until the cluster has collected its logs" in look.verdict.reason
    run.job.clock.after(100, run.collected)
    assert run.verbs()["wait"]().verdict.state is state, "a wait takes as long as the cluster does"
    assert run.states() == {state}


def doom(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the job's only container fail before its bootstrap runs."""
    waiting = b'{"version": 1, "submission": "s", "state": "waiting", "missing": ["worker-0"]}'
    observe = watch.__dict__["observe"]

    class Doomed:
        def __init__(self, *args: Any, **named: Any) -> None:
            self.observer = observe(*args, **named)

        def observe(self) -> JobStatus:
            status: JobStatus = self.observer.observe()
            if status.state.is_final:
                return status
            service = cast(ObservedService, status.service)
            failed = replace(status.containers[0], state=ContainerState.FAILED)
            component = replace(service.components[0], containers=(failed,))
            service = replace(service, components=(component,))
            return replace(status, service=service, report=JobReport.parse(waiting))

    monkeypatch.setattr(watch, "observe", Doomed)


def test_every_verb_says_failed_of_a_job_that_a_client_gave_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, monkeypatch, EMPTY)
    run.start()
    with monkeypatch.context() as patch:
        doom(run, patch)
        status = operations.follow(run.cluster, operations.JobRef("mnist", APP), own=True)
    assert status.state is JobState.FAILED
    reason = "the container of worker-0 failed before its bootstrap could run"
    assert reason in status.verdict.reason
    assert run.job.yarn.apps[APP].state == "KILLED"
    run.collected()
    assert run.states() == {JobState.FAILED}
    assert operations.status(run.cluster, APP).verdict == status.verdict
    [app] = run.cluster.client.apps(user="alice")
    assert listed_job(app).state is JobState.FAILED


@pytest.mark.parametrize(
    ("word", "status", "state"),
    [("succeeded", 0, JobState.SUCCEEDED), ("failed", 3, JobState.FAILED)],
)
def test_follower_ends_what_is_left_of_a_job_and_keeps_its_verdict(
    word: str, status: int, state: JobState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its report is over, and YARN still waits for a container that it cannot start."""
    data = json.loads(report(word, status)) | {"ended_at": 1.0}
    if status:
        data["first_failure"] = {"task": "worker-0", "status": 3, "message": "exit 3"}
    files = {**GOOD, contract.REPORT_FILE: json.dumps(data).encode()}
    run = Run(tmp_path, monkeypatch, files)
    run.job.yarn.services["alice", "mnist"].spec["components"][0]["number_of_containers"] = 2
    run.start()
    run.container_ends()
    for verb in ("status by id", "describe"):
        seen = run.verbs()[verb]()
        assert seen.state is JobState.FINISHING
        assert seen.verdict.reason == "it is over; YARN still wants a container for worker-1"
    began = run.job.clock()
    found = operations.follow(run.cluster, operations.JobRef("mnist", APP))
    assert (found.state, found.verdict.confirmed) == (state, True)
    assert 60 < run.job.clock() - began < 90
    app = run.job.yarn.apps[APP]
    assert (app.state, word in app.diagnostics) == ("KILLED", True)
    assert run.states() == {state}
    run.collected()
    assert run.states() == {state}
    [listed] = run.cluster.client.apps(user="alice")
    assert listed_job(listed).state is state


def test_every_verb_of_a_job_whose_logs_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, monkeypatch, GOOD)
    run.start()
    run.ends()
    run.job.node.logs.clear()
    began = run.job.clock()
    look = run.verbs()["wait"]()
    assert (look.verdict.state, look.verdict.confirmed) == (JobState.SUCCEEDED, False)
    assert 170 < run.job.clock() - began < 220
    assert run.states() == {JobState.SUCCEEDED}


def test_every_verb_without_hadoop_conf_reads_the_node_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, monkeypatch, GOOD)
    run.cluster = replace(run.cluster, settings=replace(run.cluster.settings, hadoop_conf=None))
    run.start()
    run.ends()
    assert operations.status(run.cluster, APP).verdict.confirmed is False, (
        "nobody says which task decides"
    )
    run.job.node.logs[AM, "serviceam.log"] += (
        b"INFO Dominate component worker finished, exiting Service Master...\n"
    )
    assert operations.status(run.cluster, APP).verdict.confirmed is True


def test_every_verb_while_a_node_manager_deletes_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, monkeypatch, GOOD)
    run.start()
    run.container_ends()
    run.ends()
    for name in run.files:
        del run.job.node.logs[ONE, name]
        assert operations.status(run.cluster, APP).verdict.state is not JobState.FAILED, name


# --- what collected logs show ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "bootstrap", "evidence"),
    [
        (EMPTY, True, Evidence.MISSING),
        ({}, True, Evidence.MISSING),
        (EMPTY, False, Evidence.NONE_EXPECTED),
        (EMPTY, None, Evidence.MISSING),
        ({"stdout.txt": b"x"}, True, Evidence.MISSING),
        ({"stdout.txt": b"x"}, False, Evidence.NONE_EXPECTED),
        ({"stdout.txt": b"x"}, None, Evidence.UNREADABLE),
        ({**EMPTY, "prelaunch.out": b"x"}, None, Evidence.UNREADABLE),
        (SCRIPT, None, Evidence.MISSING),
        (PLAIN, None, Evidence.NONE_EXPECTED),
        (GOOD, None, Evidence.READ),
    ],
)
def test_read_report_of_complete_logs(
    files: dict[str, bytes],
    bootstrap: bool | None,
    evidence: Evidence,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(tmp_path, monkeypatch, files, bootstrap=bool(bootstrap))
    if bootstrap is None:  # the job was deleted
        (run.home / ".yarn/services/mnist/mnist.json").unlink()
    run.collected()
    assert history.read_report(over("SUCCEEDED"), tmp_path, "alice")[0] is evidence


@pytest.mark.parametrize(
    ("status", "age_s", "evidence"),
    [
        ("SUCCEEDED", 10, Evidence.MISSING),
        ("RUNNING", 10, Evidence.COLLECTED_SOON),
        ("NOT_START", 179, Evidence.COLLECTED_SOON),
        ("NOT_START", 181, Evidence.UNREADABLE),
        ("TIME_OUT", 10, Evidence.UNREADABLE),
        ("FAILED", 10, Evidence.UNREADABLE),
        (None, 10, Evidence.COLLECTED_SOON),  # a restarted ResourceManager reports no progress
        (None, 181, Evidence.MISSING),
    ],
)
def test_read_report_of_logs_without_a_report(
    status: str | None,
    age_s: int,
    evidence: Evidence,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(tmp_path, monkeypatch, EMPTY)
    run.collected()
    assert (
        history.read_report(over(status), tmp_path, "alice", now_ms=1000 * age_s + 1)[0] is evidence
    )


def test_read_report_where_not_every_container_is_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, monkeypatch, EMPTY)
    run.collected()
    policy = "org.apache.hadoop.yarn.server.nodemanager.containermanager.logaggregation.AMOnlyLogAggregationPolicy"
    site = (tmp_path / "yarn-site.xml").read_text()
    row = f"<property><name>yarn.nodemanager.log-aggregation.policy.class</name><value>{policy}</value></property>"
    (tmp_path / "yarn-site.xml").write_text(
        site.replace("</configuration>", f"{row}</configuration>")
    )
    assert history.read_report(over("SUCCEEDED"), tmp_path, "alice")[0] is Evidence.UNREADABLE


def over(status: str | None) -> AppReport:
    end = {"finished_ms": 1, "log_aggregation_status": status}
    return AppReport(
        APP, "alice", "mnist", "default", AppState.FINISHED, FinalStatus.SUCCEEDED, **cast(Any, end)
    )
