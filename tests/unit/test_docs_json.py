"""docs/json.md names the fields that `-o json` produces: those, and no others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job import cli, operations
from submit_tf_job.container.rendezvous import FAILED, RUNNING, SUCCEEDED
from submit_tf_job.diagnose.cause import Cause, Consequence, Diagnosis
from submit_tf_job.doctor.findings import Check, Examination
from submit_tf_job.errors import JobSpecError, Problem, Refused
from submit_tf_job.logs.entries import FileInfo, LogInventory, LogLine, TaskContainer
from submit_tf_job.observation import (
    Evidence,
    Failure,
    Generation,
    JobReport,
    JobState,
    JobStatus,
    Retried,
    RoleCounts,
    Verdict,
)
from submit_tf_job.operations import Sweep
from submit_tf_job.operations.detail import Event, Link
from submit_tf_job.operations.listing import listed_job
from submit_tf_job.report.check_text import doctor_object
from submit_tf_job.report.detail_text import description_object, events_object
from submit_tf_job.report.job_text import job_object
from submit_tf_job.report.log_text import inventory_object, line_object
from submit_tf_job.report.staging_text import sweep_object
from submit_tf_job.sandbox import DockerInfo, KerberosInfo, SandboxInfo
from submit_tf_job.sandbox.options import DaemonStatus, SandboxStatus
from submit_tf_job.storage.staging import Leftover
from submit_tf_job.yarn.observed import AppAttempt, AppReport, ObservedService

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "json.md").read_text("utf-8")

# Objects whose keys are names that a user or a cluster chose: `*` in the page.
OPEN = {"roles", "files", "origins", "settings", "environment"}
# Objects and lists whose content is described in a sentence.
CLOSED = {
    "findings[].facts",
    "pending[].facts",
    "progress.metrics",
    "resubmission.memory_mib",
    "ports",
    "details",
    "settings.*.value",
    "root_cause.facts",
    "formats",
    "tf_config",
}


def documented(kind: str) -> set[str]:
    section = PAGE[PAGE.index(f"\n## {kind}\n") :].partition("\n\n## ")[0]
    cells = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def produced(value: object, path: str = "") -> Iterator[str]:
    """Name every field of an object as the page does: `roles.*.wanted`, `daemons[].pid`."""
    if path in CLOSED:
        return
    if isinstance(value, Mapping):
        for name, item in value.items():
            inner = f"{path}.{'*' if path in OPEN else name}" if path else str(name)
            if path not in OPEN:
                yield inner
            yield from produced(item, inner)
    elif isinstance(value, list):
        for item in value:
            yield from produced(item, f"{path}[]")


def check(kind: str, value: Mapping[str, Any]) -> None:
    assert (value["kind"], value["format"]) == (kind, 1)
    assert set(produced(value)) == documented(kind)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Run a command with `-o json` and return the object on stdout."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("SUBMIT_TF_JOB_RESOURCE_MANAGERS", "http://rm.example.com:8088")
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)

    def call(*arguments: object) -> Any:
        cli.main([*map(str, arguments), "-o", "json"])
        return json.loads(capsys.readouterr().out)

    return call


APP = AppReport.from_json(
    {
        "id": "application_1_1",
        "state": "FINISHED",
        "finalStatus": "FAILED",
        "user": "alice",
        "queue": "ml",
        "name": "mnist",
    }
)
LIVE = AppReport.from_json(
    {
        "id": "application_1_1",
        "state": "RUNNING",
        "timeouts": {
            "timeout": {"type": "LIFETIME", "remainingTimeInSeconds": 9, "expiryTime": "t"}
        },
    }
)
SERVICE = ObservedService.from_json(
    {
        "name": "mnist",
        "components": [
            {
                "name": "worker",
                "number_of_containers": 1,
                "configuration": {"properties": {"submit_tf_job.ports": "http=6006"}},
                "containers": [
                    {"component_instance_name": "worker-0", "bare_host": "n", "state": "READY"}
                ],
            }
        ],
    }
)
FAILURE = Failure("worker-1", 3, "exited", "worker-1 exited with status 3", "node1", ("Traceback",))
REPORT = JobReport(
    submission="0",
    state="running",
    wanted=1,
    arrived=1,
    missing=(),
    unnamed=(),
    roles={"worker": RoleCounts(2)},
    outcome_status=None,
    first_failure=FAILURE,
    warnings=(),
    progress={
        "step": 1,
        "total": 2,
        "metrics": {"loss": 0.1},
        "task": "chief-0",
        "at": 1.0,
        "unit": "epoch",
        "part": 0.5,
        "left_s": 3.0,
    },
    raw={
        "updated_at": 2.0,
        "standstill": {"since": 1.0, "tasks": [{"task": "worker-1"}]},
        "awaited": {"tasks": ["worker-1"], "until": 3.0},
    },
    retried=Retried(3, 1, 1, "", (Generation(0, "worker-1", "lost", "gone", "n", 5.0, 2.5),)),
)
STATUS = JobStatus(
    "mnist",
    "application_1_1",
    APP,
    report=REPORT,
    evidence=Evidence.READ,
    given_verdict=Verdict(JobState.FAILED, "why", True, FAILURE, "do that"),
)


def test_job() -> None:
    cause = Cause(
        "killed",
        "it was killed",
        consequences=(Consequence("chief-0", 93, "told to end"),),
        facts={"asked_mib": 256},
    )
    properties = {"submit_tf_job.resubmission": "1 application_1_0001 worker=512"}
    status = replace(STATUS, service=replace(SERVICE, properties=properties))
    check(
        "Job", job_object(status, (Cause("queue-full", "it is full", "wait", {"used": 1}),), cause)
    )


def test_job_with_unknown_values_is_null() -> None:
    bare = job_object(JobStatus("mnist", None, None))
    assert set(bare) == {name for name in documented("Job") if "." not in name}


START = {"launched_at": 20.0, "arrived_at": 21.0, "at": 21.5, "search_s": 0.4, "by_address": 1}


def test_description() -> None:
    task = {
        "task": "worker-0",
        "state": "running",
        "host": "n",
        "address": "a",
        "container": "c",
        "attempt": 0,
        "status": None,
    }
    found = replace(
        STATUS,
        app=replace(LIVE, started_ms=10_000),
        report=replace(REPORT, raw={"tasks": [task], "start": START}),
        service=SERVICE,
        attempts=(AppAttempt("appattempt_1_1_1", "RUNNING"),),
    )
    documented_here = documented("JobDescription") | documented("Job")
    value = description_object(found, Diagnosis())
    inner = {name for name in produced(value) if not name.startswith("links[]")}
    assert inner - documented_here == set()
    assert documented("JobDescription") - set(produced(value)) == set()
    assert set(value["links"][0]) == documented("Link") - {"kind", "format", "reachable"}


def test_lists(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "list_jobs", lambda *_arguments: (listed_job(APP),))
    found = run("list")
    check("ListedJob", found["jobs"][0])
    assert set(found) == documented("JobList")


def test_events() -> None:
    check("EventList", events_object("mnist", [Event(1, "yarn", "it happened")]))


def test_changes(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    change = operations.Change(
        "scale", operations.JobRef("mnist", "application_1_1"), True, "it has 2 now", 2
    )
    calls = [
        ("start", "start"),
        ("scale", "scale web=2"),
        ("restart", "restart web-0"),
        ("set_priority", "priority 3"),
    ]
    for name, words in [*calls, ("move", "move ml"), ("extend", "extend 1h")]:
        monkeypatch.setattr(operations, name, lambda *_arguments, **_options: change)
        verb, *rest = words.split()
        check("Change", run(verb, "mnist", *rest))


def test_links(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    link = Link("board-0", "http", "node1", 6006, "http://node1:6006")
    monkeypatch.setattr(operations, "find_link", lambda *_arguments: link)
    monkeypatch.setattr(operations, "find_links", lambda *_arguments: (link,))
    monkeypatch.setattr(operations, "is_reachable", lambda _link: False)
    check("Link", run("open", "mnist", "board"))
    check("Tunnel", run("tunnel", "mnist", "board"))


def test_log_lines_and_files() -> None:
    container = TaskContainer("worker-0", "container_1_0001_01_000002", "node1")
    check(
        "LogLine",
        line_object(
            LogLine(
                "worker-0",
                container.id,
                "stdout.txt",
                "x",
                datetime(2026, 5, 12, tzinfo=timezone.utc),
            )
        ),
    )
    files = (FileInfo("stdout.txt", 3),)
    check(
        "LogFiles",
        inventory_object(
            LogInventory("mnist", "application_1_0001", "nodes", ((container, files),))
        ),
    )


def test_doctor() -> None:
    check(
        "Doctor",
        doctor_object(Examination((Check("queue", "ok", "it is there", facts={"queue": "ml"}),))),
    )


def test_submission(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    submit = lambda planned, _cluster, **_options: operations.Submission(  # noqa: E731
        operations.JobRef("mnist", "application_1_1"), False, planned
    )
    monkeypatch.setattr(operations, "submit", submit)
    check("Submission", run("submit", ROOT / "specs" / "single.yaml", "--detach"))


def test_deletion(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "delete", lambda *_arguments, **_options: True)
    check("Deletion", run("delete", "mnist"))
    item = Leftover("mnist", ("/a/b",), 7, datetime.now(timezone.utc))
    check("Sweep", sweep_object(Sweep("hdfs://nn/staging", (item,), (item,), dry_run=True)))


def test_validation(run: Any, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: 3\n")
    check("Validation", run("validate", bad))


def test_plan(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBMIT_TF_JOB_STAGING", "hdfs://nn.example.com/staging")
    check("Plan", run("render", ROOT / "specs" / "parameter-server.yaml", "--explain"))
    check("Task", run("render", ROOT / "specs" / "parameter-server.yaml", "--task", "worker-1"))


def test_conversion(run: Any) -> None:
    golden = ROOT / "tests" / "unit" / "jobspec" / "dialects" / "golden"
    check("Conversion", run("convert", golden / "tfjob-chief-ps-worker.yaml"))


def test_formats(run: Any) -> None:
    check("Formats", run("formats", "tfjob"))


def test_example(run: Any) -> None:
    check("Example", run("init"))


def test_settings(run: Any) -> None:
    check("Settings", run("config", "show"))


def test_version(run: Any) -> None:
    check("Version", run("version"))


class FakeSandbox:
    """A sandbox that is up."""

    info = SandboxInfo(
        "default", "sandbox", Path("p"), "3.4.2", "alice", Path("h"), Path("c"), "hdfs://h:1", "http://h:2", "http://h:3", "http://h:4",
        "127.0.0.1:53", "system", {"rm": 1}, ("namenode",), 1.0, ("http://h:2",), ("kerberos",), Path("ca"),
        KerberosInfo("SANDBOX.TEST", "127.0.0.1:88", Path("k"), Path("t"), "alice@SANDBOX.TEST"),
        DockerInfo("unix:///d", "172.30.0.1", ("host",), None, 2), ("http://h:3",),
    )  # fmt: skip

    def up(self, *_arguments: object) -> SandboxInfo:
        return self.info

    def down(self, **_options: object) -> bool:
        return True

    def status(self) -> SandboxStatus:
        return SandboxStatus(
            "default", "up", (DaemonStatus("namenode", 1, True, True, "", (1,), Path("log")),), None
        )

    def logs(self, _daemon: str, _tail: int | None) -> str:
        return "one\ntwo"


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    import submit_tf_job.cli.sandbox

    monkeypatch.setattr(submit_tf_job.cli.sandbox, "_sandbox", lambda _name: FakeSandbox())


@pytest.mark.usefixtures("sandbox")
def test_sandbox(run: Any) -> None:
    check("Sandbox", run("sandbox", "up"))
    assert set(run("sandbox", "down")) == {"kind", "format", "name", "was_there"}
    check("SandboxStatus", run("sandbox", "status"))
    check("Log", run("sandbox", "logs", "namenode"))


def test_error(
    run: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise Refused("There is no queue nightly.", hint="Name another.", details={"status": 500})

    monkeypatch.setattr(operations, "delete", refuse)
    assert cli.main(["delete", "mnist", "-o", "json"]) == 9
    check("Error", json.loads(capsys.readouterr().err))
    assert "problems" in JobSpecError([Problem(1, 1, "name", "missing")]).to_json()["details"]  # type: ignore[operator]


def test_every_json_object_has_a_section() -> None:
    folders = ("cli", "report")
    sources = [
        path.read_text("utf-8")
        for folder in folders
        for path in (ROOT / "submit_tf_job" / folder).glob("*.py")
    ]
    kinds = {kind for source in sources for kind in re.findall(r'"kind": "(\w+)"', source)}
    assert kinds == set(re.findall(r"^## (\w+)$", PAGE, re.MULTILINE))


def test_states_of_the_report() -> None:
    row = next(
        line
        for line in (DOCS / "tf-config.md").read_text("utf-8").splitlines()
        if line.startswith("| `state` | `waiting`")
    )
    assert {RUNNING, SUCCEEDED, FAILED} <= set(re.findall(r"`([^`]+)`", row))
