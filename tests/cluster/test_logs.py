"""Aggregated logs of real applications, compared byte for byte with what Hadoop's own LogsCLI
prints.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.errors import AuthError
from submit_tf_job.logs.collected import Absence, AggregatedLogs, NoLogs, Snapshot, WhatYarnSays
from submit_tf_job.sandbox import Sandbox, SandboxInfo, SandboxOptions
from submit_tf_job.sandbox.saved_state import Layout, SandboxState, load_state
from submit_tf_job.storage import Storage, open_storage
from tests.cluster.counting import Counting
from tests.fakes.sandbox import sandbox_dirs

pytestmark = pytest.mark.cluster

CONTROLLER = (
    "org.apache.hadoop.yarn.logaggregation.filecontroller.ifile.LogAggregationIndexedFileController"
)
AGGREGATION = "yarn.nodemanager.log-aggregation"
ODD_NAME = "Über ein 😀.log"

ODD_FILES = r"""
: > "$D/empty"
printf 'no final newline' > "$D/short"
printf 'crlf\r\n\033[31mred\033[0m\0nul \xff\xfe\xc0\x80 tail\n' > "$D/bytes.bin"
head -c 300000 /dev/urandom > "$D/random.bin"
printf 'umlaut' > "$D/Über ein 😀.log"
mkdir "$D/sub"; echo dropped > "$D/sub/file"
echo out; echo err >&2
"""
BIG_FILE = r"""
awk 'BEGIN { for (i = 0; i < 1100000; i++) printf "%010d step loss=%d the quick brown fox\n", i, (i * 7919) % 1000003 }' > "$D/big.log"
"""
TICKS = r"""for i in 1 2 3 4 5 6 7 8 9; do echo "tick $i" >> "$D/app.log"; echo "out $i"; sleep 3; done
"""


@dataclass
class LogCluster:
    """A sandbox whose NodeManager is told how to collect logs, and Hadoop's own reader."""

    sandbox: Sandbox
    info: SandboxInfo
    scripts: Path
    applications: dict[str, str] = field(default_factory=dict)

    def collect_as(self, file_format: str, compression: str, *, roll_every_s: int = 0) -> None:
        """Restart the NodeManager with other settings."""
        self._write(
            {
                "yarn.log-aggregation.file-formats": file_format,
                "yarn.log-aggregation.file-controller.IndexedFile.class": CONTROLLER,
                f"{AGGREGATION}.compression-type": compression,
                f"{AGGREGATION}.roll-monitoring-interval-seconds": str(roll_every_s)
                if roll_every_s
                else "-1",
                f"{AGGREGATION}.debug-enabled": "true",
            }
        )
        process = self._state().daemons["nodemanager"]
        os.kill(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + 60
        while next(row for row in self.sandbox.status().daemons if row.name == "nodemanager").alive:
            assert time.monotonic() < deadline, "the NodeManager does not end"
            time.sleep(0.2)
        self.sandbox.up(SandboxOptions(), os.environ)

    def _state(self) -> SandboxState:
        state = load_state(Layout(self.info.home))
        assert state is not None
        return state

    def _write(self, properties: dict[str, str]) -> None:
        file = Layout(self.info.home).conf / "yarn-site.xml"
        text = file.read_text()
        for name, value in properties.items():
            text = re.sub(rf"  <property><name>{re.escape(name)}</name>.*?</property>\n", "", text)
            row = f"  <property><name>{name}</name><value>{value}</value></property>\n"
            text = text.replace("</configuration>", f"{row}</configuration>")
        file.write_text(text)

    def run(self, name: str, scripts: Sequence[str], *, rolled: str = "") -> str:
        """Run a service of one container per script, and wait until its logs are collected."""
        components = []
        for number, script in enumerate(scripts):
            path = self.scripts / f"{name}-{number}.sh"
            path.write_text(f"D=${{LOG_DIR:-${{LOG_DIRS%%,*}}}}\n{script}")
            components.append(
                {
                    "name": f"c{number}",
                    "number_of_containers": 1,
                    "launch_command": f"exec bash {path}",
                    "restart_policy": "NEVER",
                    "resource": {"cpus": 1, "memory": "128"},
                }
            )
        service: dict[str, Any] = {
            "name": name,
            "version": "1",
            "lifetime": "900",
            "components": components,
        }
        if rolled:
            service["configuration"] = {
                "properties": {"yarn.service.rolling-log.include-pattern": rolled}
            }
        self._ask("app/v1/services?user.name=alice", service)
        return self._collected(name)

    def _ask(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.info.rm_url}/{path}", data=data, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def application(self, name: str) -> dict[str, Any] | None:
        found = (self._ask("ws/v1/cluster/apps?user.name=alice")["apps"] or {}).get("app", [])
        return next((app for app in found if app["name"] == name), None)

    def _collected(self, name: str) -> str:
        deadline = time.monotonic() + 240
        while True:
            app = self.application(name)
            if (
                app is not None
                and app["state"] == "FINISHED"
                and app["logAggregationStatus"] == "SUCCEEDED"
            ):
                assert app["finalStatus"] == "SUCCEEDED"
                self.applications[name] = app["id"]
                return str(app["id"])
            assert time.monotonic() < deadline, f"{name} was not collected: {app}"
            time.sleep(0.5)

    def storage(self, user: str = "alice", *, web: bool = False) -> Storage:
        uri = (
            self.info.namenode_url.replace("http://", "webhdfs://").rstrip("/")
            if web
            else self.info.hdfs_uri
        )
        return open_storage(uri, hadoop_conf=self.info.client_conf, user=user, timeout_s=60)

    def logs_cli(self, app_id: str) -> bytes:
        """Return what Hadoop's own reader prints."""
        java = ["java", "-Dfile.encoding=UTF-8", "-Dsun.jnu.encoding=UTF-8", "-Duser.timezone=UTC"]
        command = [
            *java,
            "-cp",
            f"{Layout(self.info.home).conf}:{self._state().jars}/*",
            "org.apache.hadoop.yarn.client.cli.LogsCLI",
        ]
        environment = {"PATH": os.environ["PATH"], "HADOOP_USER_NAME": "alice", "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            [*command, "-applicationId", app_id, "-appOwner", "alice"],
            capture_output=True,
            timeout=240,
            env=environment,
            check=True,
        )
        return done.stdout


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogCluster]:
    """A sandbox of its own: its NodeManager is restarted with every format."""
    sandbox = Sandbox(f"logs{os.getpid()}", sandbox_dirs(os.environ))
    try:
        info = sandbox.up(SandboxOptions(), os.environ)
        scripts = tmp_path_factory.mktemp("scripts")
        yield LogCluster(sandbox, info, scripts)
    finally:
        sandbox.down()


def as_java_prints(logs: AggregatedLogs, storage: Storage) -> list[bytes]:
    """Write all snapshots as LogToolUtils does; the order of containers is Java's hash order and
    comes from the other side.
    """
    logs.containers()
    parts = []
    for node in logs._nodes():
        uploaded = storage.stat(node.path).modified_ms
        parts += [
            _as_java_prints(found, node.path.rpartition("/")[2], uploaded)
            for found in node.snapshots()
        ]
    return parts


def _as_java_prints(found: Snapshot, node_file: str, uploaded_ms: int) -> bytes:
    when = datetime.fromtimestamp((found.modified_ms or uploaded_ms) // 1000, timezone.utc)
    header = f"Container: {found.container_id} on {node_file}"
    head = (
        f"{header}\nLogAggregationType: AGGREGATED\n{'=' * len(header)}\nLogType:{found.name}\n"
        f"LogLastModifiedTime:{when:%a %b %d %H:%M:%S +0000 %Y}\nLogLength:{found.declared_size}\nLogContents:\n"
    )
    end = f"End of LogType:{found.name}"
    stars = "*" * (len(end.encode("utf-16-le")) // 2 + 50)
    return head.encode() + found.read() + f"\n{end}\n{stars}\n\n".encode()


def assert_identical(cluster: LogCluster, app_id: str, *, web: bool = False) -> AggregatedLogs:
    storage = cluster.storage(web=web)
    logs = AggregatedLogs(storage, app_id, user="alice")
    java = cluster.logs_cli(app_id)
    parts = as_java_prints(logs, storage)
    at = 0
    while at < len(java):
        part = next((part for part in parts if java.startswith(part, at)), None)
        assert part is not None, f"only Java prints {java[at : at + 300]!r}"
        parts.remove(part)
        at += len(part)
    assert parts == []
    assert logs.warnings == ()
    return logs


@pytest.mark.parametrize(
    ("file_format", "compression"),
    [
        ("TFile", "gz"),
        pytest.param("IndexedFile", "none", marks=pytest.mark.long),
        pytest.param("TFile", "none", marks=pytest.mark.long),
        pytest.param("IndexedFile", "gz", marks=pytest.mark.long),
    ],
)
def test_what_java_prints(cluster: LogCluster, file_format: str, compression: str) -> None:
    cluster.collect_as(file_format, compression)
    report = """echo '{"ok": true}' > "$D/job-report.json"\n"""
    app_id = cluster.run(
        f"odd-{file_format}-{compression}".lower(), [ODD_FILES + report, ODD_FILES, BIG_FILE]
    )
    logs = assert_identical(cluster, app_id)
    assert len(logs.containers()) == 4

    [report_of] = logs.find("job-report.json")
    assert report_of.read() == b'{"ok": true}\n'
    assert logs.read(report_of.container_id, ODD_NAME) == b"umlaut"
    assert logs.read(report_of.container_id, "empty") == b""
    assert logs.read(report_of.container_id, "bytes.bin").endswith(b"\0nul \xff\xfe\xc0\x80 tail\n")
    assert {found.node for found in logs.containers()} == {f"localhost:{cluster.info.ports['nm']}"}

    assert_identical(cluster, app_id, web=True)


@pytest.mark.parametrize(
    "file_format", [pytest.param("TFile", marks=pytest.mark.long), "IndexedFile"]
)
def test_rolled_logs(cluster: LogCluster, file_format: str) -> None:
    cluster.collect_as(file_format, "gz", roll_every_s=6)
    app_id = cluster.run(f"rolled-{file_format}".lower(), [TICKS, TICKS], rolled="app.log")
    logs = assert_identical(cluster, app_id)
    written = [found for found in logs.containers() if found.file("app.log")]
    assert len(written) == 2
    for found in written:
        assert logs.read(found.container_id, "app.log") == b"".join(
            b"tick %d\n" % number for number in range(1, 10)
        )
    assert max(len(file.snapshots) for found in written for file in found.files) > 1


@pytest.mark.long
def test_the_tail_of_a_large_log_is_cheap(cluster: LogCluster) -> None:
    cluster.collect_as("TFile", "none")
    app_id = cluster.run("large", [BIG_FILE])
    counting = Counting(cluster.storage())
    logs = AggregatedLogs(counting, app_id, user="alice")
    wrote = next(logs.find("big.log"))
    assert wrote.size > 50_000_000
    tail = logs.read(wrote.container_id, "big.log", tail=2000)
    assert len(tail) == 2000
    assert tail.endswith(b"the quick brown fox\n")
    assert b"0001099999 step" in tail
    assert counting.asked < 100_000  # once over the block's headers
    assert counting.requests < 80


def test_containers_of_another_user(cluster: LogCluster) -> None:
    app_id = next(iter(cluster.applications.values()), "") or cluster.run(
        "private", ["echo some words"]
    )
    with pytest.raises(AuthError, match="not allowed to read the logs of alice"):
        AggregatedLogs(cluster.storage("bob"), app_id, user="alice").containers()


def test_before_and_after(cluster: LogCluster) -> None:
    """An application that runs has no logs yet, one whose directory is gone has none any more."""
    cluster.collect_as("TFile", "none")
    app_id = cluster.run("short-lived", ["echo some words"])
    app = cluster.application("short-lived")
    assert app is not None
    said = WhatYarnSays(
        status=app["logAggregationStatus"],
        finished_ms=app["finishedTime"],
        now_ms=app["finishedTime"] + 60_000,
    )
    storage = cluster.storage(cluster.info.user)
    path = f"/tmp/logs/alice/bucket-logs-tfile/{int(app_id[-4:]):04}/{app_id}"
    storage.stat(path)
    storage.remove(path, recursive=True)
    with pytest.raises(
        NoLogs, match=r"its logs were collected, but are not in /tmp/logs/alice"
    ) as caught:
        AggregatedLogs(cluster.storage(), app_id, user="alice", said=said).containers()
    assert caught.value.reason is Absence.DELETED
    with pytest.raises(NoLogs) as caught:
        AggregatedLogs(
            cluster.storage(),
            app_id,
            user="alice",
            said=WhatYarnSays(status="NOT_START", running=True),
        ).containers()
    assert caught.value.reason is Absence.NOT_YET
