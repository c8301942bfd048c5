"""A node of the sandbox with Docker that is set up badly, or breaks while a job runs: each is the
root cause that is named.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.calls import call, until
from tests.cluster.conftest import (
    DockerCluster,
)
from tests.tool import (
    Tool,
)

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a Docker Engine"),
]

SMALL = {"memory": "256Mi"}
IMMORTAL = "local/immortal:1"
DEFAULT_RUNTIME = (
    "<name>yarn.nodemanager.runtime.linux.allowed-runtimes</name><value>default</value>"
)
BOTH_RUNTIMES = DEFAULT_RUNTIME.replace("default<", "default,docker<")


@pytest.fixture
def tool(
    docker_cluster: DockerCluster, session_environ: dict[str, str], tmp_path: Path
) -> Iterator[Tool]:
    """The tool, with jobs on a bridge."""
    made = Tool(session_environ, docker_cluster.profiles["bridge"], tmp_path)
    yield made
    made.tidy()


@contextlib.contextmanager
def changed(file: Path, old: str, new: str) -> Iterator[None]:
    """Have another text in a file of the node's configuration for a while."""
    before = file.read_text()
    assert before.count(old) == 1, before
    try:
        file.write_text(before.replace(old, new))
        yield
    finally:
        file.write_text(before)


def single(tool: Tool, name: str, **content: Any) -> Path:
    """Write a job spec of one small task."""
    return tool.spec(
        name, strategy="single", **{"command": "true", "roles": {"worker": SMALL}, **content}
    )


def test_a_published_port_is_linked_where_it_is_reached(tool: Tool) -> None:
    board = {
        "command": "exec python3 -m http.server 6006",
        "ports": {"http": 6006, "other": 6007},
        "docker": {"publish": ["28086:6006"]},
    }
    roles = {"chief": {**SMALL, "command": "sleep 600"}, "board": {**SMALL, **board}}
    assert (
        tool("submit", tool.spec("served", strategy="single", roles=roles), "--detach").status == 0
    )
    tool.until("served", lambda seen: seen["state"] == "RUNNING")
    links = until(lambda: tool("describe", "served", "-o", "json").json["links"])
    by_name = {link["name"]: link for link in links}
    assert (by_name["http"]["url"], by_name["http"]["via"]) == ("http://localhost:28086", None)
    assert (by_name["other"]["url"].startswith("http://172.30."), by_name["other"]["via"]) == (
        True,
        "localhost",
    )
    until(lambda: tool("open", "served", "board", "--port", "http", "-o", "json").json["reachable"])
    assert tool("stop", "served").status == 0


@pytest.mark.long
def test_containers_that_cannot_reach_one_another_are_the_root_cause(
    tool: Tool, docker_cluster: DockerCluster
) -> None:
    named = '{{index .Options "com.docker.network.bridge.name"}}'
    bridge = docker_cluster.docker("network", "inspect", "bridge", "--format", named).strip()
    rule = ["FORWARD", "-i", bridge, "-o", bridge, "-j", "DROP"]
    subprocess.run(["iptables", "-I", *rule], check=True)
    try:
        said = tool("sandbox", "up", "--name", docker_cluster.name).stderr.splitlines()
        roles = {"chief": SMALL, "worker": SMALL}
        spec = tool.spec(
            "cut-off", strategy="multi-worker", command="true", roles=roles, start_timeout="75s"
        )
        done = tool("submit", spec, "-o", "json", timeout=400)
    finally:
        subprocess.run(["iptables", "-D", *rule], check=True)
    assert any("containers on a bridge cannot reach one another" in line for line in said), said
    cause = done.json["root_cause"]
    assert (done.status, cause["code"]) == (1, "tasks-unreachable"), cause


def test_a_path_that_the_node_allows_and_lacks_is_the_root_cause(
    tool: Tool, docker_cluster: DockerCluster
) -> None:
    file = docker_cluster.home / "conf" / "container-executor.cfg"
    with changed(file, "docker.allowed.ro-mounts=", "docker.allowed.ro-mounts=/site/gone,"):
        done = tool("submit", single(tool, "site-mount"), "-o", "json")
    cause = done.json["root_cause"]
    assert (done.status, cause["code"], cause["status"]) == (1, "allowed-mount-missing", 29), cause
    assert cause["sentence"].endswith(
        "allows mounts of a path that does not exist there: /site/gone"
    )


def test_a_failure_that_the_node_reports_as_success_is_the_root_cause(
    tool: Tool, docker_cluster: DockerCluster
) -> None:
    file = docker_cluster.home / "conf" / "container-executor.cfg"
    with changed(file, "docker.inspect.max.retries=1", "docker.inspect.max.retries=0"):
        done = tool(
            "submit",
            single(tool, "no-retries", python="/opt/none/python3"),
            "-o",
            "json",
            timeout=400,
        )
    cause = done.json["root_cause"]
    assert done.status == 1, done.stdout
    assert (cause["code"], cause["facts"]["code"]) == ("exit-status-false", "python-missing"), cause
    assert "docker.inspect.max.retries" in cause["hint"]


@pytest.mark.long
def test_a_container_whose_stop_signal_yarn_refuses_outlives_its_job(
    tool: Tool, docker_cluster: DockerCluster
) -> None:
    """As with Hadoop's container-executor: nothing but Docker ends it."""
    spec = single(tool, "immortal", image=IMMORTAL, command="sleep 600")
    assert tool("submit", spec, "--detach").status == 0
    tool.until("immortal", lambda seen: seen["state"] == "RUNNING")
    (task,) = tool("describe", "immortal", "-o", "json").json["task_list"]
    tool("stop", "immortal")
    time.sleep(5)
    assert task["container_id"] in docker_cluster.docker("ps", "--format", "{{.Names}}")
    docker_cluster.docker("rm", "--force", task["container_id"])


@pytest.mark.long
def test_docker_that_stops_under_a_running_task_is_the_root_cause(
    tool: Tool, docker_cluster: DockerCluster
) -> None:
    assert (
        tool("submit", single(tool, "dockerd-stops", command="sleep 600"), "--detach").status == 0
    )
    tool.until("dockerd-stops", lambda seen: seen["state"] == "RUNNING")
    (task,) = tool("describe", "dockerd-stops", "-o", "json").json["task_list"]
    pid = int(docker_cluster.docker("inspect", "--format", "{{.State.Pid}}", task["container_id"]))
    os.kill(docker_cluster.pid_of("dockerd"), signal.SIGTERM)
    try:
        until(lambda: docker_cluster.status()["state"] == "degraded")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # where dockerd ended without its containers
        done = tool("wait", "dockerd-stops", "-o", "json", timeout=400)
    finally:
        healed = docker_cluster.heal()
    assert healed == ["dockerd"]
    cause = done.json["root_cause"]
    assert (done.status, cause["host"]) == (1, "localhost"), cause
    # Whether dockerd told its end depends on what was first: its own or the container's.
    assert cause["code"] in ("docker-stopped", "stopped-from-outside"), cause
    assert "Docker" in cause["sentence"], cause


@pytest.mark.long
def test_a_program_that_ends_with_24_ends_its_node_and_up_heals_it(
    tool: Tool, docker_cluster: DockerCluster
) -> None:
    bare: dict[str, Any] = {"bootstrap": False, "tf_config": "none"}
    assert tool("submit", single(tool, "poison", command="exit 24", **bare), "--detach").status == 0
    node = f"{docker_cluster.nm_url}/ws/v1/node/info"
    until(lambda: not call("GET", node)[1]["nodeInfo"]["nodeHealthy"], 120)
    assert docker_cluster.status()["state"] == "degraded"
    assert tool("submit", single(tool, "no-node"), "--detach").status == 0
    waits = tool.until(
        "no-node", lambda seen: any(cause["code"] == "nodes-unhealthy" for cause in seen["pending"])
    )
    (cause,) = (cause for cause in waits["pending"] if cause["code"] == "nodes-unhealthy")
    assert "restart the NodeManager" in cause["hint"]
    # Its next ApplicationMaster would run it once more.
    assert tool("delete", "poison", "--force").status == 0
    assert docker_cluster.heal() == ["nodemanager"]
    assert docker_cluster.status()["state"] == "up"
    assert tool("wait", "no-node", timeout=400).status == 0


@pytest.mark.long
def test_a_node_that_does_not_allow_docker_is_named(
    tool: Tool, docker_cluster: DockerCluster
) -> None:
    """Hadoop 3.4.2 refuses, and writes why into the NodeManager's log alone."""
    file = docker_cluster.home / "conf" / "yarn-site.xml"
    try:
        with changed(file, BOTH_RUNTIMES, DEFAULT_RUNTIME):
            os.kill(docker_cluster.pid_of("nodemanager"), signal.SIGKILL)
            assert docker_cluster.heal() == ["nodemanager"]
            done = tool("submit", single(tool, "no-docker"), "-o", "json", timeout=400)
    finally:
        os.kill(docker_cluster.pid_of("nodemanager"), signal.SIGKILL)
        docker_cluster.heal()
    cause = done.json["root_cause"]
    assert (done.status, cause["code"], cause["status"]) == (1, "container-failed", -1000), cause
    assert "yarn.nodemanager.runtime.linux.allowed-runtimes" in cause["hint"]


@pytest.mark.long
def test_stop_names_a_container_that_ignores_its_stop_signal(
    tool: Tool, docker_cluster: DockerCluster
) -> None:
    spec = single(tool, "stubborn", image=IMMORTAL, command="sleep 900")
    assert tool("submit", spec, "--detach").status == 0
    tool.until("stubborn", lambda seen: seen["state"] == "RUNNING")
    stopped = tool("stop", "stubborn", "-o", "json")
    assert stopped.status == 8, stopped
    error = json.loads(stopped.stderr[stopped.stderr.index("{") :])
    assert (error["code"], [one["state"] for one in error["details"]["containers"]]) == (
        "deadline-passed",
        ["KILLING"],
    )
    assert error["details"]["containers"][0]["id"] in error["message"]
    left = docker_cluster.docker("ps", "-q", "--filter", "name=container_").split()
    assert left
    docker_cluster.docker("kill", *left)
    assert tool("stop", "stubborn").status == 0
