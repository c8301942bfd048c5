"""`doctor` against a cluster on loopback, whole or with one answer changed.

Registry DNS, HDFS and containers are real in tests/cluster/test_doctor.py.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.builders.command_line import Cli, Done
from tests.builders.host import hadoop_xml
from tests.hostile.server import Asked, HostileServer, raw

ROOT = Path(__file__).parents[2]
WS = "/ws/v1/cluster"
LINUX = "org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor"
PLAIN = "org.apache.hadoop.yarn.server.nodemanager.DefaultContainerExecutor"
RUNTIMES = "yarn.nodemanager.runtime.linux.allowed-runtimes"
EXECUTOR = "yarn.nodemanager.container-executor.class"
CONF = {
    EXECUTOR: LINUX,
    RUNTIMES: "default,docker",
    "yarn.nodemanager.runtime.linux.docker.allowed-container-networks": "host,bridge",
    "yarn.log-aggregation-enable": "true",
    "yarn.resourcemanager.placement-constraints.handler": "scheduler",
}


def gpus(count: int, name: str = "yarn.io/gpu", **more: Any) -> dict[str, Any]:
    """Return a node as YARN lists it."""
    amounts = {"resourceInformation": [{"name": name, "value": count}]}
    node = {"id": "n:1", "nodeHostName": "node1", "state": "RUNNING", "availMemoryMB": 1}
    return {**node, "availableResource": {"resourceInformations": amounts}, **more}


def queues(state: str = "RUNNING") -> dict[str, Any]:
    ml = {"queueName": "ml", "queuePath": "root.ml", "state": state}
    inside = {"queue": [ml, {"queueName": "b"}]}
    root = {"queueName": "root", "queuePath": "root", "queues": inside}
    return {"scheduler": {"schedulerInfo": {"type": "capacityScheduler", **root}}}


def info(state: str = "ACTIVE", version: str = "3.4.2") -> dict[str, Any]:
    return {"clusterInfo": {"haState": state, "hadoopVersion": version}}


def nodes(*listed: dict[str, Any]) -> dict[str, Any]:
    return {"nodes": {"node": list(listed)}}


WHOLE: dict[str, Any] = {
    f"{WS}/info": info(),
    "/app/v1/services/version": {"hadoop_version": "3.4.2 from 84e8b8"},
    "/conf": CONF,
    f"{WS}/scheduler": queues(),
    f"{WS}/queues/ml/access": {"allowed": "true", "user": "alice", "diagnostics": ""},
    f"{WS}/nodes": nodes(gpus(2), gpus(4), gpus(8, state="SHUTDOWN")),
    f"{WS}/apps/new-application": {"maximum-resource-capability": {"memory": 8192, "vCores": 4}}
    | {"application-id": "application_1_1"},
}


class Doctored:
    """A cluster on loopback, whose answers by path a test changes, and `doctor` on it."""

    def __init__(self, cli: Cli, stack: ExitStack) -> None:
        self.answers, self.late_s = dict(WHOLE), 0.0
        self._cli = cli
        server = stack.enter_context(HostileServer(self._answer).listening())
        self.host, self.url = f"localhost:{server.port}", server.url()

    def _answer(self, asked: Asked, stream: socket.socket) -> None:
        found = self.answers.get(unquote(asked.path), 404)
        if isinstance(found, int):
            return stream.sendall(raw(found, b"no", "text/plain"))
        if asked.path == "/conf":
            listed = [{"key": key, "value": value} for key, value in found.items()]
            found = {"properties": listed}
        text = json.dumps(found).replace('"n:1"', f'"n:1", "nodeHTTPAddress": "{self.host}"')
        date = f"Date: {formatdate(time.time() + self.late_s, usegmt=True)}"
        return stream.sendall(raw(200, text.encode(), "application/json", date))

    def __call__(self, *words: str, rms: tuple[str, ...] = ()) -> Done:
        asked = [word for url in rms or (self.url,) for word in ("--rm", url)]
        return self._cli("doctor", "--queue", "ml", *asked, *words)

    def finds(self, *words: str, rms: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
        done = self(*words, "-o", "json", rms=rms)
        found = {finding["id"]: finding for finding in done.json["findings"]}
        failed = any(finding["status"] == "failure" for finding in found.values())
        assert (done.json["ok"], done.status) == (not failed, int(failed)), done
        return found


@pytest.fixture
def doctor(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Doctored]:
    monkeypatch.setattr("submit_tf_job.doctor.checks.CHECK_S", 600)  # a busy machine takes long
    with ExitStack() as stack:
        yield Doctored(cli, stack)


def test_doctor_of_a_whole_cluster(doctor: Doctored) -> None:
    found = doctor.finds()
    not_ok = {name for name, finding in found.items() if finding["status"] != "ok"}
    assert not_ok == {"hadoop-conf", "registry-dns"}
    said = {name: finding["checked"] for name, finding in found.items()}
    assert said["gpu"] == "6 yarn.io/gpu on 2 nodes, at most 4 on one"
    assert said["registry-dns"] == "nothing here mentions Registry DNS"
    assert "set names: rendezvous" in found["registry-dns"]["fix"]
    assert found["docker"]["facts"]["networks"] == ["bridge", "host"]


def test_doctor_prints_findings_and_a_summary(doctor: Doctored) -> None:
    done = doctor("--queue", "no")
    assert done.status == 1
    lines = done.out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("FAILURE"))
    assert lines[at : at + 3] == [
        "FAILURE  queue             there is no queue no; there are ml and b",
        "                           Affects: jobs for queue no",
        "                           Fix: correct `queue`",
    ]
    assert done.err.splitlines()[-1] == "17 checks: 14 passed, 1 failed, 2 warnings"


def changed(**conf: str) -> dict[str, str]:
    return {**CONF, **{name.replace("__", ".").replace("_", "-"): v for name, v in conf.items()}}


UNHEALTHY = gpus(0, state="UNHEALTHY", healthReport="disk\nfull")
DENIED = {"allowed": "false", "user": "alice", "diagnostics": "no ACL"}


@pytest.mark.parametrize(
    ("path", "answer", "finding", "status", "words"),
    [
        (f"{WS}/info", info("STANDBY"), "resource-manager", "failure", "STANDBY"),
        (f"{WS}/info", info(version="3.0.3"), "hadoop-version", "failure", "Hadoop 3.0.3"),
        ("/app/v1/services/version", 404, "services-api", "failure", "services"),
        (f"{WS}/scheduler", 500, "queue", "failure",
         "could not describe its queues"),
        (f"{WS}/scheduler", queues("STOPPED"), "queue", "failure", "STOPPED"),
        (f"{WS}/queues/ml/access", DENIED, "queue", "failure",
         "user alice may not submit to queue ml: no ACL"),
        (f"{WS}/nodes", nodes(gpus(1), UNHEALTHY), "nodes", "warning",
         "NodeManagers: 1 RUNNING and 1 UNHEALTHY; node1 says: disk full"),
        (f"{WS}/nodes", nodes(gpus(1, state="LOST")), "nodes", "failure", "1 LOST"),
        (f"{WS}/nodes", nodes(), "nodes", "failure", ""),
        (f"{WS}/nodes", nodes(gpus(2, "ml/a100")), "gpu", "warning",
         "set gpu_resource; nodes offer ml/a100"),
        ("/conf", {**CONF, RUNTIMES: "default"}, "docker", "failure", "cannot run images"),
        ("/conf", {**CONF, EXECUTOR: PLAIN}, "docker", "failure", "cannot run images"),
        ("/conf", {"x": "y"}, "log-aggregation", "warning", "logs of ended jobs"),
        ("/conf", 404, "docker", "warning", "no NodeManager returns its configuration"),
        ("/conf", changed(yarn__resourcemanager__placement_constraints__handler="disabled"),
         "placement", "warning", "never get a container"),
        ("/conf", changed(hadoop__security__authentication="kerberos"), "authentication",
         "warning", "the cluster uses Kerberos"),
    ],
)  # fmt: skip
def test_doctor_of_one_answer(
    doctor: Doctored, path: str, answer: Any, finding: str, status: str, words: str
) -> None:
    doctor.answers[path] = answer
    found = doctor.finds()
    assert found[finding]["status"] == status, found[finding]
    text = "; ".join(found[finding][part] for part in ("checked", "breaks", "fix"))
    assert words in text
    others = {name for name, seen in found.items() if seen["status"] == "failure"} - {finding}
    assert not others


@pytest.mark.parametrize(
    ("late_s", "status", "words"),
    [(20, "ok", "agree"), (200, "warning", "behind"), (-400, "failure", " min ahead of")],
)
def test_doctor_of_a_clock(doctor: Doctored, late_s: float, status: str, words: str) -> None:
    doctor.late_s = late_s
    found = doctor.finds()["clock"]
    assert (found["status"], words in found["checked"]) == (status, True), found


def test_doctor_of_a_domain_that_differs(doctor: Doctored, monkeypatch: pytest.MonkeyPatch) -> None:
    doctor.answers["/conf"] = changed(hadoop__registry__dns__domain_name="a.test")
    for ours, status in (("a.test", "ok"), ("b.test", "failure")):
        monkeypatch.setenv("SUBMIT_TF_JOB_DNS_DOMAIN", ours)
        assert doctor.finds()["dns-domain"]["status"] == status


def test_doctor_of_two_resource_managers(doctor: Doctored, cli: Cli) -> None:
    with ExitStack() as stack:
        other = Doctored(cli, stack)
        other.answers[f"{WS}/info"] = info("STANDBY")
        both = (other.url, doctor.url)
        assert doctor.finds(rms=both)["resource-manager"]["status"] == "ok"
        down = ("http://localhost:1", doctor.url)
        found = doctor.finds(rms=down)["resource-manager"]
        assert (found["status"], found["breaks"]) == (
            "warning",
            "a failover to the one that does not answer",
        )


def test_doctor_without_a_cluster_checks_this_machine(doctor: Doctored) -> None:
    done = doctor("-o", "json", "--deep", rms=("http://localhost:1",))
    found = {finding["id"]: finding["status"] for finding in done.json["findings"]}
    warnings = dict.fromkeys(["hadoop-conf", "registry-dns"], "warning")
    assert found == {"settings": "ok", "dns": "ok", "resource-manager": "failure", **warnings}
    skipped = "services-api authentication queue nodes limits docker log-aggregation placement"
    assert done.json["skipped"] == [*skipped.split(), "dns-domain", "job"]
    assert done.status == 1


@pytest.mark.parametrize("answers", [True, False])
def test_doctor_looks_where_tasks_meet(
    doctor: Doctored, home: Path, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    monkeypatch.setenv("SUBMIT_TF_JOB_NAMES", "rendezvous")
    found = doctor.finds()
    assert "names: rendezvous needs HDFS for staging" in found["meeting"]["checked"]
    assert not {"registry-dns", "dns-domain"} & set(found)
    web = doctor.host if answers else "localhost:1"
    hdfs = {"dfs.namenode.http-address": web}
    configured(home, monkeypatch, core={"fs.defaultFS": "hdfs://localhost:1"}, hdfs=hdfs)
    found = doctor.finds()
    assert found["meeting"]["status"] == ("ok" if answers else "failure")
    assert found["hdfs"]["status"] == "failure"
    assert web in found["meeting"]["checked"]


def test_deep_job_is_never_called_a_run(doctor: Doctored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda count: "2" * 2 * count)
    said = doctor.finds("--deep", "--image", "library/python:3.11")["job"]["checked"]
    assert "name" not in said


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--image", "x:1"), "add --deep"),
        (("--file", "train.yaml"), "add --deep"),
        (("--deep", "--set", "queue=ml"), "--set and --from need --file"),
    ],
)
def test_doctor_options_of_the_deep_job(cli: Cli, words: tuple[str, ...], hint: str) -> None:
    done = cli("doctor", *words)
    assert done.status == 2
    assert hint in done.err


def configured(home: Path, monkeypatch: pytest.MonkeyPatch, **files: dict[str, str]) -> None:
    """Write a Hadoop configuration, and let the settings name it."""
    for name, values in files.items():
        (home / f"{name}-site.xml").write_text(hadoop_xml(values))
    monkeypatch.setenv("SUBMIT_TF_JOB_HADOOP_CONF", str(home))


@pytest.mark.parametrize(
    ("versions", "status", "words"),
    [
        ({"tensorflow": "2.21.0", "keras": "3.15.1"}, "warning", "say `keras: legacy`"),
        ({"tensorflow": "2.15.1", "keras": "2.15.0"}, "ok", "keras 2.15.0"),
    ],
)
def test_deep_program(tmp_path: Path, versions: dict[str, str], status: str, words: str) -> None:
    probe = ROOT / "submit_tf_job/doctor/probe.py"
    (tmp_path / "probe.py").write_bytes(probe.read_bytes())
    for name, version in versions.items():
        found = tmp_path / f"{name}-{version}.dist-info"
        found.mkdir()
        (found / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    (tmp_path / "tensorflow.py").write_text(f"__version__ = '{versions['tensorflow']}'\n")
    done = subprocess.run(
        [sys.executable, "probe.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "DOCTOR_NAMENODE": "localhost:port"},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    answers = json.loads(done.stdout.partition("submit_tf_job-doctor ")[2])
    assert (answers["keras"]["status"], words in answers["keras"]["said"]) == (status, True)
    assert answers["tensorflow"]["said"] == versions["tensorflow"]
    # a question that raises does not stop the others
    assert answers["hdfs"]["said"].startswith("ValueError: ")


def test_doctor_page_lists_every_check() -> None:
    page = (ROOT / "docs/doctor.md").read_text("utf-8")
    rows = "".join(line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `"))
    doctor = ROOT / "submit_tf_job/doctor"
    deep = (doctor / "deep.py").read_text("utf-8")
    text = deep + "".join(path.read_text("utf-8") for path in sorted(doctor.glob("*checks.py")))
    made = set(re.findall(r'(?:Subject\(|^    \()\s*"([a-z-]+)"', text, re.MULTILINE))
    inside = {f"inside-{name}" for name in re.findall(r'^    "([a-z-]+)": \(', deep, re.MULTILINE)}
    assert set(re.findall(r"`([a-z-]+)`", rows)) == made | inside


def test_doctor_looks_where_application_masters_write(
    doctor: Doctored, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second user's services fail where the first one owns the directory of all."""
    shared = home / "tmp/.yarn/services"
    shared.mkdir(parents=True)
    core = {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(home / "tmp")}
    configured(home, monkeypatch, core=core)
    found = doctor.finds()["services-directory"]
    assert (found["status"], f"chmod 1777 {shared}" in found["fix"]) == ("warning", True)
    shared.chmod(0o1777)
    assert doctor.finds()["services-directory"]["status"] == "ok"
