"""doctor on a real cluster: whole, and with one thing broken at a time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import another
from tests.clusters import Cluster
from tests.tool import Result, Tool, until

pytestmark = pytest.mark.cluster


def statuses(done: Result) -> dict[str, str]:
    found: dict[str, Any] = done.json
    assert found["ok"] is (done.status == 0)
    return {finding["id"]: finding["status"] for finding in found["findings"]}


def broken(done: Result) -> set[str]:
    return {name for name, status in statuses(done).items() if status == "failure"}


def test_a_whole_cluster(tool: Tool) -> None:
    done = tool("doctor", "-o", "json")
    assert (done.status, broken(done), done.json["skipped"]) == (0, set(), [])
    warned = {name for name, status in statuses(done).items() if status == "warning"}
    assert warned == {"gpu", "placement"}
    assert {"services-api", "queue", "registry-dns", "hdfs", "clock", "log-aggregation"} <= set(
        statuses(done)
    )


@pytest.mark.alone
def test_hdfs_that_does_not_answer(tool: Tool, real_cluster: Cluster) -> None:
    pid = real_cluster.pid_of("namenode")
    os.kill(pid, signal.SIGSTOP)
    try:
        done = tool("doctor", "-o", "json", timeout=240)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (done.status, broken(done)) == (1, {"hdfs"})


def test_an_interrupted_doctor_leaves_no_job(tool: Tool) -> None:
    process = tool.start("doctor", "--deep", "--image", "library/python:3.11")
    try:
        jobs = until(lambda: _doctors(tool))
        process.send_signal(signal.SIGINT)
        _out, said = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "The job of the doctor is deleted." in said
    assert tool.status(jobs[0])["state"] == "STOPPED"


def _doctors(tool: Tool) -> list[str]:
    listed = tool("list", "--state", "active", "-o", "json").json
    return [job["name"] for job in listed["jobs"] if job["name"].startswith("doctor-")]


def test_from_inside_containers(tool: Tool) -> None:
    done = tool("doctor", "--deep", "--image", "library/python:3.11", "-o", "json")
    found = statuses(done)
    assert (done.status, broken(done)) == (0, set()), done.stdout
    assert found["job"] == "ok"
    inside = {name.removeprefix("inside-") for name in found if name.startswith("inside-")}
    well = {"own-name", "peer-name", "hdfs", "python", "tensorflow", "keras"}
    assert inside == well | {"resolver", "tokens", "gpu", "disk"}
    assert {found[f"inside-{name}"] for name in well} == {"ok"}
    name = next(f for f in done.json["findings"] if f["id"] == "job")["facts"]["application_id"]
    # the application is known, the service is gone
    assert tool("status", name, "-o", "json").json["state"] == "SUCCEEDED"


def test_mounts_of_a_job_on_each_node(clusters_of_session: None, tmp_path: Path) -> None:
    """A file system is mounted at one path on both nodes, and at another on one of them only."""
    paths = [tmp_path / name for name in ("everywhere", "once", "plain", "no where")]
    for path in paths[:3]:
        path.mkdir()
    with another(tmp_path, "--nodes", "2") as (cluster, tool):
        for daemon, mounted in {"nodemanager": paths[:2], "nodemanager2": paths[:1]}.items():
            for path in mounted:  # each NodeManager has a mount namespace of its own
                mount = ("mount", "-t", "tmpfs", "filer", path)
                pid = str(cluster.pid_of(daemon))
                subprocess.run(["nsenter", "-t", pid, "-m", *mount], check=True, timeout=240)
        spec = tool.spec(
            "mounts",
            strategy="single",
            command="true",
            roles={"worker": {"memory": "128Mi"}},
            mounts=[f"{path}:/m/{number}:rw" for number, path in enumerate(paths)],
        )
        done = tool("doctor", "--deep", "--file", spec, "-o", "json")
    found = {
        Path(finding["facts"]["path"]).name: (finding["status"], finding["checked"])
        for finding in done.json["findings"]
        if finding["id"] == "inside-mount"
    }
    assert done.status == 1
    both, one, none, missing = (found[path.name] for path in paths)
    assert both == ("ok", f"{paths[0]}: tmpfs of filer on 127.0.0.2 and localhost")
    local = r"a directory of the node itself \(\w+\) on 127\.0\.0\.2"
    assert one[0] == "failure"
    assert re.search(f"{local}; tmpfs of filer on localhost$", one[1])
    assert none[0] == "warning"
    assert re.search(f"{local} and localhost$", none[1])
    assert missing[0] == "failure"
    assert "No such file or directory" in missing[1]
