"""doctor: judgements from values, checks that cannot stop each other, what is printed, the
probe.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job import cli
from submit_tf_job.container.frameworks import installed
from submit_tf_job.container.programs import probe
from submit_tf_job.diagnose.cause import Cause
from submit_tf_job.doctor import checks as doctoring
from submit_tf_job.doctor import findings
from submit_tf_job.doctor.deep import _findings, _job_spec, _worst
from submit_tf_job.doctor.findings import Check, Examination
from submit_tf_job.errors import SettingsError
from submit_tf_job.observation import JobState, JobStatus, Verdict
from submit_tf_job.report.check_text import finding_lines, summary_line
from submit_tf_job.settings import Settings, load_settings
from submit_tf_job.yarn.observed import ClusterInfo, Node
from submit_tf_job.yarn.queues import Scheduler

PAGE = (Path(__file__).parents[3] / "docs" / "doctor.md").read_text("utf-8")
ACTIVE = ClusterInfo.from_json({"haState": "ACTIVE", "hadoopVersion": "3.4.2"})
STANDBY = ClusterInfo.from_json({"haState": "STANDBY", "hadoopVersion": "3.4.2"})


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    environ = {
        "HOME": str(tmp_path),
        "SUBMIT_TF_JOB_RESOURCE_MANAGERS": "http://rm.invalid:8088",
        "SUBMIT_TF_JOB_USER": "alice",
    }
    return load_settings(environ=environ, cwd=tmp_path, system_file=tmp_path / "none")


# --- judgements -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ({"http://rm1:8088": ACTIVE}, "ok"),
        ({"http://rm1:8088": STANDBY, "http://rm2:8088": ACTIVE}, "ok"),
        ({"http://rm1:8088": "connection refused", "http://rm2:8088": ACTIVE}, "warning"),
        ({"http://rm1:8088": STANDBY}, "failure"),
        ({"http://rm1:8088": "connection refused"}, "failure"),
        ({}, "failure"),
    ],
)
def test_resource_managers(answers: dict[str, Any], status: str) -> None:
    assert findings.resource_managers(answers).status == status


@pytest.mark.parametrize(
    ("offset", "status"), [(0, "ok"), (-29, "ok"), (31, "warning"), (-301, "failure")]
)
def test_clock_by_offset(offset: float, status: str) -> None:
    assert findings.clock(offset).status == status


def test_clock_that_is_behind() -> None:
    assert (
        findings.clock(-600).checked
        == "this machine's clock is 10 min behind the ResourceManager's"
    )


def queue_of(state: str = "RUNNING") -> Scheduler:
    ml = {"queueName": "ml", "queuePath": "root.ml", "state": state}
    return Scheduler.from_json(
        {
            "type": "capacityScheduler",
            "queueName": "root",
            "queuePath": "root",
            "queues": {"queue": [ml, {"queueName": "b"}]},
        }
    )


def test_queues() -> None:
    judge = findings.queue
    assert judge("ml", queue_of(), allowed=True, said="", user="alice").status == "ok"
    assert (
        judge("no", queue_of(), allowed=None, said="", user="alice").checked
        == "there is no queue no; there are ml and b"
    )
    assert (
        judge("ml", queue_of(), allowed=False, said="no ACL", user="alice").checked
        == "user alice may not submit to queue ml: no ACL"
    )
    assert judge("ml", queue_of("STOPPED"), allowed=True, said="", user="alice").status == "failure"
    assert judge("ml", None, allowed=None, said="", user="alice").status == "warning"


def node(state: str = "RUNNING", gpus: int = 0, **more: Any) -> Node:
    amount = {
        "resourceInformations": {"resourceInformation": [{"name": "yarn.io/gpu", "value": gpus}]}
    }
    return Node.from_json(
        {
            "id": "n:1",
            "nodeHostName": "node1",
            "state": state,
            "availMemoryMB": 1,
            "availableResource": amount,
            **more,
        }
    )


def test_nodes() -> None:
    assert findings.nodes_in_service((node(), node("SHUTDOWN"))).status == "ok"
    ill = findings.nodes_in_service((node(), node("UNHEALTHY", healthReport="disk\nfull")))
    assert (ill.status, ill.checked) == (
        "warning",
        "NodeManagers: 1 RUNNING and 1 UNHEALTHY; node1 says: disk full",
    )
    assert findings.nodes_in_service((node("LOST"),)).status == "failure"
    assert findings.nodes_in_service(()).status == "failure"


def test_gpus() -> None:
    assert findings.gpus(
        (node(gpus=2), node(gpus=4), node("LOST", gpus=8)), "yarn.io/gpu"
    ).checked == ("6 yarn.io/gpu on 2 nodes, at most 4 on one")
    assert findings.gpus((node(),), "yarn.io/gpu").status == "warning"


LINUX = "org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor"
DEFAULT = "org.apache.hadoop.yarn.server.nodemanager.DefaultContainerExecutor"


@pytest.mark.parametrize(
    ("executor", "runtimes", "sandbox", "status"),
    [
        (LINUX, "default,docker", False, "ok"),
        (LINUX, "default", False, "failure"),
        (DEFAULT, "docker", False, "failure"),
        (DEFAULT, "default", True, "ok"),
    ],
)
def test_docker(executor: str, runtimes: str, sandbox: bool, status: str) -> None:
    conf = {
        "yarn.nodemanager.container-executor.class": executor,
        "yarn.nodemanager.runtime.linux.allowed-runtimes": runtimes,
        "yarn.nodemanager.runtime.linux.docker.allowed-container-networks": "host,bridge",
    }
    found = findings.runtime({"node1": conf}, sandbox=sandbox)
    assert (found.status, found.facts["networks"]) == (status, ["bridge", "host"])
    assert findings.runtime({}, sandbox=False).status == "warning"


def test_configuration() -> None:
    assert findings.log_aggregation({"yarn.log-aggregation-enable": "true"}).status == "ok"
    assert findings.log_aggregation({"yarn.log-aggregation-enable": "false"}).breaks.startswith(
        "logs of ended jobs"
    )
    assert (
        findings.placement(
            {"yarn.resourcemanager.placement-constraints.handler": "disabled"}
        ).status
        == "warning"
    )
    assert (
        findings.placement(
            {"yarn.resourcemanager.placement-constraints.handler": "scheduler"}
        ).status
        == "ok"
    )
    theirs = {"hadoop.registry.dns.domain-name": "a.test"}
    assert [findings.domain(theirs, ours).status for ours in ("a.test", "b.test", None)] == [
        "ok",
        "failure",
        "warning",
    ]


# --- checks ---------------------------------------------------------------------------------------


def test_doctor_continues_after_a_check_that_raises_or_hangs(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect(_patient: object) -> Any:
        raise RuntimeError("boom")

    def refused(_patient: object) -> Any:
        yield Check("before", "ok", "seen before it broke")
        raise SettingsError("it is wrong", hint="mend it")

    def hangs(_patient: object) -> Any:
        import threading

        threading.Event().wait(30)
        yield Check("never", "ok", "")

    checks = (
        ("a", defect, False),
        ("b", refused, False),
        ("c", hangs, False),
        ("d", defect, True),
        ("e", lambda _p: iter(()), False),
    )
    monkeypatch.setattr(doctoring, "_CHECKS", checks)
    monkeypatch.setattr(doctoring, "CHECK_S", 0.2)
    found = doctoring.doctor(settings)
    assert [(finding.id, finding.status) for finding in found.findings] == [
        ("a", "warning"),
        ("before", "ok"),
        ("b", "failure"),
        ("c", "failure"),
    ]
    assert found.findings[0].checked == "could not be checked: RuntimeError: boom"
    assert (found.findings[2].checked, found.findings[2].fix) == ("it is wrong", "mend it")
    assert found.skipped == ("d",)
    assert found.failed


def test_doctor_without_a_cluster_checks_this_machine(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from submit_tf_job.yarn import http
    from submit_tf_job.yarn.transport_errors import TransportError

    monkeypatch.setattr(
        http.HttpClient, "fetch", lambda *_a, **_k: TransportError("connection refused", sent=False)
    )
    monkeypatch.setattr("submit_tf_job.yarn.ha.addresses_of", lambda _host: frozenset())
    found = doctoring.doctor(settings)
    assert {finding.id: finding.status for finding in found.findings} == {
        "settings": "ok",
        "hadoop-conf": "warning",
        "dns": "failure",
        "resource-manager": "failure",
        "registry-dns": "warning",
    }
    assert found.skipped == (
        "services-api",
        "authentication",
        "queue",
        "nodes",
        "limits",
        "docker",
        "configuration",
    )


def nameless(settings: Settings, names: str, tmp_path: Path) -> Settings:
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name><value>hdfs://nn:8020</value>"
        "</property></configuration>"
    )
    return replace(settings, names=names, hadoop_conf=tmp_path)


@pytest.mark.parametrize(
    ("names", "open_", "found"),
    [
        ("rendezvous", True, {"meeting": "ok"}),
        ("rendezvous", False, {"meeting": "failure"}),
        ("auto", True, {"meeting": "ok", "registry-dns": "warning"}),
    ],
)
def test_doctor_looks_where_tasks_meet_without_registry_dns(
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    names: str,
    open_: bool,
    found: dict[str, str],
) -> None:
    asked: list[str] = []

    def accepts(address: str) -> bool:
        asked.append(address)
        return open_

    monkeypatch.setattr(doctoring, "_accepts", accepts)
    done = doctoring.doctor(nameless(settings, names, tmp_path), only=["registry-dns"]).findings
    assert {finding.id: finding.status for finding in done} == found
    assert asked == ["nn:9870"]
    assert "nn:9870" in done[0].checked


def test_doctor_says_that_rendezvous_needs_hdfs(settings: Settings) -> None:
    done = doctoring.doctor(replace(settings, names="rendezvous"), only=["registry-dns"]).findings
    assert [(finding.id, finding.status) for finding in done] == [("meeting", "failure")]
    assert "names: rendezvous needs HDFS for staging" in done[0].checked


def test_doctor_names_the_way_out_where_nothing_mentions_registry_dns(settings: Settings) -> None:
    [found] = doctoring.doctor(settings, only=["registry-dns"]).findings
    assert (found.status, found.checked) == ("warning", "nothing here mentions Registry DNS")
    assert "set names: rendezvous" in found.fix


@pytest.mark.parametrize(("by_name", "status"), [(True, "failure"), (False, "warning")])
def test_names_that_do_not_resolve_inside_matter_only_with_names(
    by_name: bool, status: str
) -> None:
    answers = {"peer-name": {"status": "failure", "said": "it does not resolve"}}
    done = {finding.id: finding for finding in findings.inside(answers, by_name=by_name)}
    assert done["inside-peer-name"].status == status


def test_doctor_page_lists_every_check() -> None:
    documented = set(
        re.findall(
            r"`([a-z-]+)`",
            "".join(line.split(" | ")[0] for line in PAGE.splitlines() if line.startswith("| `")),
        )
    )
    sources = Path(doctoring.__file__).read_text("utf-8") + Path(findings.__file__).read_text(
        "utf-8"
    )
    made = set(re.findall(r'Subject\(\s*"([a-z-]+)"', sources)) | {
        name for name, _check, _needs in doctoring._CHECKS
    }
    assert documented == made | {f"inside-{name}" for name in probe.CHECKS} | {"job", "inside"}


# --- what is shown --------------------------------------------------------------------------------

BAD = Check("queue", "failure", "there is no queue no", "jobs for it", "correct it")
GOOD = Check("dns", "ok", "addresses are known", "not shown", "not shown")


def test_lines() -> None:
    assert [*finding_lines(BAD), *finding_lines(GOOD)] == [
        "FAILURE  queue             there is no queue no",
        "                           Affects: jobs for it",
        "                           Fix: correct it",
        "ok       dns               addresses are known",
    ]
    assert (
        summary_line(Examination((BAD, GOOD), ("nodes",)))
        == "2 checks: 1 passed, 1 failed; skipped: nodes"
    )


@pytest.mark.parametrize(
    ("findings_", "status"),
    [((GOOD,), 0), ((BAD, GOOD), 1), ((replace(BAD, status="warning"),), 0)],
)
def test_exit_status(
    findings_: tuple[Check, ...],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SUBMIT_TF_JOB_RESOURCE_MANAGERS", "http://rm.invalid:8088")
    monkeypatch.setattr(doctoring, "doctor", lambda *_a, **_k: Examination(findings_))
    assert cli.main(["doctor", "-o", "json"]) == status
    assert json.loads(capsys.readouterr().out)["ok"] is (status == 0)


def test_doctor_image_option_requires_deep(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--image", "x:1"]) == 2
    assert "add --deep" in capsys.readouterr().err


# --- the tiny job ---------------------------------------------------------------------------------


def test_deep_job_spec_is_valid(settings: Settings) -> None:
    from submit_tf_job.operations.submit import load_job, make_plan

    job = load_job(
        Path("doctor.json"), settings, text=_job_spec(settings, "doctor-1", "x/y:1", "ml")
    )
    assert (job.queue, job.roles["probe"].image, job.counts, job.lifetime_s) == (
        "ml",
        "x/y:1",
        {"probe": 2, "witness": 1},
        900,
    )
    assert {file.name: file.content for file in job.roles["probe"].files} == {
        "probe.py": Path(probe.__file__).read_bytes(),
        "installed.py": Path(installed.__file__).read_bytes(),
    }
    assert make_plan(job, settings).body


def test_deep_reports_the_worst_answer_of_all_tasks() -> None:
    said: list[dict[str, Any]] = [
        {"disk": {"status": "ok", "said": "a"}},
        {"disk": {"status": "failure", "said": "b"}, "x": 3},
        {"disk": {"status": "warning"}},
    ]
    assert _worst(tuple(said)) == {"disk": {"status": "failure", "said": "b"}}


def test_deep_reads_the_answers_of_the_tasks() -> None:
    succeeded = Verdict(JobState.SUCCEEDED)
    done = JobStatus("doctor-1", "application_1_1", None, given_verdict=succeeded)
    found = {
        finding.id: finding
        for finding in _findings(done, (probe.run_checks({"python": probe.python}),), None)
    }
    assert (found["job"].status, found["inside-python"].status, found["inside-disk"].status) == (
        "ok",
        "ok",
        "warning",
    )
    lost = replace(done, given_verdict=Verdict(JobState.FAILED, "no bash", hint="install it"))
    failed = _findings(lost, (), None)
    assert [(finding.id, finding.status) for finding in failed] == [
        ("job", "failure"),
        ("inside", "warning"),
    ]
    assert (failed[0].checked.endswith("FAILED: no bash"), failed[0].fix) == (True, "install it")
    cause = Cause(
        "tasks-unreachable", "probe-1 cannot reach probe-0", "a firewall lies between them"
    )
    why = _findings(lost, (), cause)[0]
    assert why.checked.endswith("FAILED: probe-1 cannot reach probe-0")
    assert (why.fix, why.facts["cause"]) == ("a firewall lies between them", "tasks-unreachable")


def test_probe_continues_after_a_question_that_raises() -> None:
    def broken() -> Any:
        raise OSError("no such file")

    assert probe.run_checks({"disk": broken, "python": probe.python})["disk"] == {
        "status": "warning",
        "said": "OSError: no such file",
    }


@pytest.mark.parametrize(
    ("found", "status", "words"),
    [
        ({"tensorflow": "2.21.0", "keras": "3.15.1"}, "warning", "say `keras: legacy`"),
        ({"tensorflow": "2.15.1", "keras": "2.15.0"}, "ok", "keras 2.15.0"),
        ({}, "ok", "none"),
    ],
)
def test_probe_judges_keras(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, str], status: str, words: str
) -> None:
    monkeypatch.setattr(installed, "versions", lambda _python, _env: found)
    monkeypatch.setitem(sys.modules, "installed", installed)
    said = probe.run_checks({"keras": probe.keras})["keras"]
    assert said["status"] == status
    assert words in said["said"]


def test_probe_resolves_the_name_of_its_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(probe, "resolves", asked.append)
    for name in ("probe-0.doctor.alice.test", "probe-1.doctor.alice.test"):
        monkeypatch.setenv(probe.ENV_HOSTNAME, name)
        probe.peer_name()
    assert asked == ["probe-1.doctor.alice.test", "probe-0.doctor.alice.test"]
