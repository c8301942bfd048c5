"""Aggregated logs of real applications, compared byte for byte with what Hadoop's own LogsCLI
prints.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import requests

from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.hadoop_logs.interfaces import Snapshot
from submit_tf_job.logs.collected import AggregatedLogs
from submit_tf_job.storage import Storage, open_storage
from tests import clusters
from tests.clusters import Cluster
from tests.hdfs import Hdfs
from tests.tool import SUBMIT_S, Tool, until

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
# what is written before something is collected, and after
TICKS = r"""tick() { for i in "$@"; do echo "tick $i" >> "$D/app.log"; echo "out $i"; done; }
tick 1 2 3 4
until [ -e COLLECTED ]; do sleep 0.1; done
tick 5 6 7 8 9
"""


@dataclass
class LogCluster:
    """A sandbox whose NodeManager is told how to collect logs, and Hadoop's own reader."""

    info: Cluster
    scripts: Path

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
        self.info.kill("nodemanager", signal.SIGTERM)
        assert self.info.heal() == ["nodemanager"]

    def _write(self, properties: dict[str, str]) -> None:
        file = self.info.home / "conf" / "yarn-site.xml"
        text = file.read_text()
        for name, value in properties.items():
            text = re.sub(rf"  <property><name>{re.escape(name)}</name>.*?</property>\n", "", text)
            row = f"  <property><name>{name}</name><value>{value}</value></property>\n"
            text = text.replace("</configuration>", f"{row}</configuration>")
        file.write_text(text)

    def run(self, name: str, scripts: Sequence[str]) -> str:
        """Run a service of one container per script, and wait until its logs are collected."""
        self.submit(name, scripts)
        return self.collected(name)

    def submit(self, name: str, scripts: Sequence[str], *, rolled: str = "") -> str:
        """Submit a service of one container per script; return its application."""
        components = []
        for number, script in enumerate(scripts):
            path = self.scripts / f"{name}-{number}.sh"
            path.write_text(f"D=${{LOG_DIR:-${{LOG_DIRS%%,*}}}}\n{script}")
            component = {"name": f"c{number}", "number_of_containers": 1}
            component |= {"launch_command": f"exec bash {path}", "restart_policy": "NEVER"}
            components.append({**component, "resource": {"cpus": 1, "memory": "128"}})
        service = {"name": name, "version": "1", "lifetime": "900", "components": components}
        pattern = {"yarn.service.rolling-log.include-pattern": rolled}
        configuration = {"configuration": {"properties": pattern}} if rolled else {}
        self._ask("app/v1/services", {**service, **configuration})
        return str(until(lambda: self.application(name), f"an application {name}")["id"])

    def _ask(self, path: str, body: object = None) -> Any:
        url, user = f"{self.info.rm_url}/{path}", {"user.name": "alice"}
        method = "GET" if body is None else "POST"
        answer = requests.request(method, url, params=user, json=body, timeout=60)
        assert answer.ok, answer.text
        return answer.json()

    def application(self, name: str) -> dict[str, Any] | None:
        found = (self._ask("ws/v1/cluster/apps")["apps"] or {}).get("app", [])
        return next((app for app in found if app["name"] == name), None)

    def collected(self, name: str) -> str:
        """Wait until the logs of a service are collected; return its application."""

        def collected() -> dict[str, Any] | None:
            app = self.application(name) or {}
            states = app.get("state"), app.get("logAggregationStatus")
            return app if states == ("FINISHED", "SUCCEEDED") else None

        app = until(collected, within_s=SUBMIT_S, pause_s=0.5)
        assert app["finalStatus"] == "SUCCEEDED"
        return str(app["id"])

    def storage(self, user: str = "alice", *, web: bool = False) -> Storage:
        by_http = self.info.namenode_url.replace("http://", "webhdfs://").rstrip("/")
        uri = by_http if web else self.info.hdfs_uri
        return open_storage(uri, hadoop_conf=self.info.client_conf, user=user, timeout_s=60)

    def logs_cli(self, app_id: str) -> bytes:
        """Return what Hadoop's own reader prints."""
        cli = "org.apache.hadoop.yarn.client.cli.LogsCLI"
        words = ("-applicationId", app_id, "-appOwner", "alice")
        environ = {"HADOOP_USER_NAME": "alice", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        return self.info.java(self.info.home / "conf", cli, *words, **environ)


@pytest.fixture(scope="module")
def cluster(
    clusters_of_session: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LogCluster]:
    """A sandbox of its own: its NodeManager is restarted with every format."""
    with clusters.own("logs") as made:
        yield LogCluster(made, tmp_path_factory.mktemp("scripts"))


def as_java_prints(logs: AggregatedLogs, storage: Storage) -> list[bytes]:
    """Write all snapshots as LogToolUtils does; the order of containers is Java's hash order and
    comes from the other side.
    """
    logs.containers()
    parts = []
    for node in logs._node_files():
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
        f"LogLastModifiedTime:{when:%a %b %d %H:%M:%S +0000 %Y}\nLogLength:{found.size}\nLogContents:\n"
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
    assert logs.read_file(report_of.container_id, ODD_NAME) == b"umlaut"
    assert logs.read_file(report_of.container_id, "empty") == b""
    assert logs.read_file(report_of.container_id, "bytes.bin").endswith(
        b"\0nul \xff\xfe\xc0\x80 tail\n"
    )
    assert {found.node for found in logs.containers()} == {
        f"localhost:{cluster.info.info['ports']['nm']}"
    }

    assert_identical(cluster, app_id, web=True)


@pytest.mark.parametrize(
    "file_format", [pytest.param("TFile", marks=pytest.mark.long), "IndexedFile"]
)
def test_rolled_logs(cluster: LogCluster, file_format: str) -> None:
    cluster.collect_as(file_format, "gz", roll_every_s=6)
    name, go = f"rolled-{file_format}".lower(), cluster.scripts / f"{file_format}-collected"
    ticks = TICKS.replace("COLLECTED", str(go))
    app_id = cluster.submit(name, [ticks, ticks], rolled="app.log")

    def rolled() -> bool:
        with suppress(SubmitTFJobError):  # it is being written
            found = AggregatedLogs(cluster.storage(), app_id, user="alice").containers()
            return any(container.file("app.log") for container in found)
        return False

    until(rolled, "something is collected", within_s=SUBMIT_S, pause_s=0.5)
    go.touch()
    cluster.collected(name)
    logs = assert_identical(cluster, app_id)
    written = [found for found in logs.containers() if found.file("app.log")]
    assert len(written) == 2
    for found in written:
        assert logs.read_file(found.container_id, "app.log") == b"".join(
            b"tick %d\n" % number for number in range(1, 10)
        )
    assert max(len(file.snapshots) for found in written for file in found.files) > 1


def test_logs_that_somebody_has_removed(cluster: LogCluster, tmp_path: Path) -> None:
    cluster.collect_as("TFile", "none")
    app_id = cluster.run("short-lived", ["echo some words"])
    tool = Tool(clusters.environment(), cluster.info.profile, tmp_path)
    assert "some words" in tool("logs", app_id, "--user", "alice").stdout
    hdfs = Hdfs(cluster.info)
    path = f"/tmp/logs/alice/bucket-logs-tfile/{int(app_id[-4:]):04}/{app_id}"
    assert hdfs.exists(path)
    hdfs.remove(path)
    gone = tool("logs", app_id, "--user", "alice")
    assert gone.status != 0
    assert "its logs were collected, but are not in /tmp/logs/alice" in gone.stderr
