"""`logs` as a process, from servers on sockets that answer as Hadoop's of several versions do.

`tests/data/log_servers.json` has the answers of real servers, of which containers and rows were
left out (hadoop-facts.md#lists-of-logs).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.world.logged_job import ONE, Job
from tests.world.served import Served, served_cluster, submit_tf_job
from tests.world.transport import Answer, Asked

RECORDED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "log_servers.json").read_text()
)
FILES = {
    "launch_container.sh": b'#!/bin/bash\nexport TFJOB_INSTANCE="worker-0"\n',
    "stderr.txt": b"",
    "stdout.txt": b"one\ntwo\xff\n",
}


class LogServer:
    """A log server of a version, with the logs of one task."""

    def __init__(self, recorded: dict[str, Any]) -> None:
        self._recorded, self.process = recorded, "log server"
        self.files = {ONE: FILES}
        self.denied = False

    def serve(self, asked: Asked) -> Answer:
        path = asked.path.removeprefix(self._recorded["path"])
        if self.denied:
            words = 'Permission denied: user=rm, inode="/tmp/logs/alice"'
            return Answer.json({"RemoteException": {"message": words}}, 500)
        if match := re.fullmatch(r"/containers/([^/]+)/logs", path):
            if match[1] not in self.files:
                return Answer.json(self._recorded["unknown"], 503)
            listed = json.dumps(self._recorded["list"]).replace("CONTAINER", match[1])
            return Answer.json(json.loads(listed))
        match = re.fullmatch(r"/containerlogs/([^/]+)/([^/]+)", path)
        if match is None:  # the JobHistoryServer has no other path for contents
            return Answer(404, b"<title>Sorry, got error 404</title>", "text/html;charset=utf-8")
        data = self.files[match[1]].get(unquote(match[2]))
        if data is None:
            return Answer.text(f"Can not find logs for container:{match[1]}")
        size = asked.query.get("size")
        part = data if size is None else data[int(size) :]
        frame = b"LogLength:%d\nLogContents:\n%s\nEnd of LogType:x\n" % (len(data), part)
        return Answer(200, b"Container: x\nLogType:x\n" + frame, "text/plain")


@pytest.fixture
def served() -> Iterator[Served]:
    with served_cluster(speed=500.0) as made:
        yield made


def configure(home: Path, served: Served, path: str) -> None:
    """Write a configuration with a log server, and with collected logs that are not there."""
    properties = {
        "yarn.nodemanager.remote-app-log-dir": (home / "nothing").as_uri(),
        "yarn.log.server.web-service.url": served.url + path,
    }
    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in properties.items()
    )
    (home / "yarn-site.xml").write_text(f"<configuration>{rows}</configuration>")
    (home / "core-site.xml").write_text("<configuration/>")


@pytest.mark.parametrize("version", RECORDED)
def test_logs_from_a_log_server(tmp_path: Path, served: Served, version: str) -> None:
    path = RECORDED[version]["path"]
    served.servers[path] = server = LogServer(RECORDED[version])
    configure(tmp_path, served, path)
    job = Job(served.cluster)
    job.start()
    job.ends(0)
    served.cluster.yarn.aggregation = "SUCCEEDED"
    job.clock.sleep(600)

    done = submit_tf_job(tmp_path, served, "logs", "mnist")
    assert (done.returncode, done.stdout) == (0, "one\ntwo\\xff\n"), done
    listed = submit_tf_job(tmp_path, served, "logs", "mnist", "--list")
    assert re.search(r"stdout\.txt +191 B", listed.stdout), listed

    server.denied = True
    refused = submit_tf_job(tmp_path, served, "logs", "mnist")
    assert refused.returncode != 0
    assert "its logs were collected, but are not in" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("listed", ["object", "array", "wrapped"])
@pytest.mark.parametrize("bare", [False, True], ids=["3.4.3", "3.5.0"])
def test_logs_of_a_nodemanager(tmp_path: Path, served: Served, listed: str, bare: bool) -> None:
    node = served.cluster.node
    node.listed, node.wordless = listed, bare
    configure(tmp_path, served, "/ws/v1/history")
    job = Job(served.cluster)
    job.start(("worker-0", ONE))
    job.writes(ONE, b"one\n")
    found = submit_tf_job(tmp_path, served, "logs", "mnist", "worker-0")
    assert (found.returncode, found.stdout) == (0, "one\n"), found
    files = submit_tf_job(tmp_path, served, "logs", "mnist", "worker-0", "--list")
    assert "stdout.txt" in files.stdout, files
    missing = submit_tf_job(tmp_path, served, "logs", "mnist", "worker-0", "--file", "nosuch")
    assert "no log file nosuch" in missing.stderr, missing
    assert "There are stdout.txt" in missing.stderr, missing
    if not bare:
        node.containers[ONE] = "SCHEDULED"  # not even one that YARN prepares fails
        waits = submit_tf_job(tmp_path, served, "logs", "mnist", "worker-0", "--list")
        assert (waits.returncode, waits.stderr) == (0, ""), waits
