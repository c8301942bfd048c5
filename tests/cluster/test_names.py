"""The DNS names of tasks on a real cluster: what is said when they vanish, and that a start does not
wait for the last ones (that no run loses its names to another: test_runs.py).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.clusters import Cluster
from tests.tool import Tool, processes_of

pytestmark = pytest.mark.cluster

RESTART = {"restart": {"policy": "on-failure", "max": 1}}
LOOK_UP = """
import json, os, socket, sys, time
members = json.loads(os.environ["TF_CONFIG"])["cluster"].values()
hosts = {address.rpartition(":")[0] for addresses in members for address in addresses}
end = time.time() + float(sys.argv[1])
while time.time() < end:
    for host in hosts:
        socket.getaddrinfo(host, 1)
    time.sleep(1)
"""


def two_tasks(tool: Tool, name: str, seconds: int) -> Any:
    """Write the spec of a job whose tasks look up one another's names each second, and fail when
    one is gone.

    The start waits for the name of a task that YARN may start again, so the programs get names.
    """
    (tool.cwd / "look_up.py").write_text(LOOK_UP)
    task = {"memory": "256Mi", "command": f"python look_up.py {seconds}"}
    return tool.spec(
        name,
        strategy="parameter-server",
        files=["look_up.py"],
        roles={"chief": task, "worker": {**task, "instances": 1, **RESTART}, "ps": task},
    )


def remove_names(cluster: Cluster, run: str) -> None:
    """Remove the registry's entries of a run, as the ResourceManager's cleanup does."""
    path = f"/registry/users/{cluster.user}/services/yarn-service/{run}"
    server = f"localhost:{cluster.info['ports']['zookeeper']}"
    zookeeper = "org.apache.zookeeper.ZooKeeperMain"
    cluster.java(cluster.client_conf, zookeeper, "-server", server, "deleteall", path)


@pytest.mark.long
def test_a_young_job_whose_names_vanish_fails_with_this_cause(
    tool: Tool, real_cluster: Cluster
) -> None:
    sleeps = {"memory": "256Mi", "command": "sleep 600"}
    spec = tool.spec(
        "vanish",
        strategy="parameter-server",
        roles={"chief": sleeps, "worker": {**sleeps, "instances": 1, **RESTART}, "ps": sleeps},
    )
    assert tool("submit", spec, "--detach").status == 0
    tool.until("vanish", lambda seen: seen["state"] == "RUNNING")
    remove_names(real_cluster, tool.status("vanish")["run"])

    ended = tool("wait", "vanish", "-o", "json")

    assert ended.status == 1, ended
    assert (ended.json["failure"]["reason"], ended.json["root_cause"]["code"]) == (
        "names-vanished",
        "names-vanished",
    )
    assert "YARN has removed this run's names" in ended.json["reason"]


def test_a_program_that_finds_no_names_any_more_fails_with_this_cause(
    tool: Tool, real_cluster: Cluster
) -> None:
    assert tool("submit", two_tasks(tool, "unknown", 600), "--detach").status == 0
    tool.until("unknown", lambda seen: seen["state"] == "RUNNING")
    remove_names(real_cluster, tool.status("unknown")["run"])

    ended = tool("wait", "unknown", "-o", "json")

    assert ended.status == 1, ended
    assert ended.json["root_cause"]["code"] == "names-vanished", ended


@pytest.mark.alone
def test_many_tasks_start_a_second_after_the_last_one_has_connected(tool: Tool) -> None:
    workers = 14  # with chief and ApplicationMaster the 16 cores of the cluster
    task = {"memory": "128Mi", "command": "sleep 3"}
    spec = tool.spec(
        "many",
        strategy="multi-worker",
        roles={"chief": task, "worker": {**task, "instances": workers}},
    )
    assert tool("submit", spec).status == 0
    described = tool("describe", "many", "-o", "json").json
    assert described["tasks"] == {
        "wanted": workers + 1,
        "arrived": workers + 1,
        "missing": [],
        "unnamed": [],
    }
    assert described["start"]["barrier_s"] < 1.5, described["start"]  # the event loop's pause
    assert described["start"]["yarn_s"] > 0


def test_stop_returns_when_no_task_runs_any_more(patient_tool: Tool) -> None:
    tool = patient_tool
    sleeps = {"memory": "256Mi", "command": "sleep 600"}
    spec = tool.spec(
        "halted",
        strategy="multi-worker",
        roles={"chief": sleeps, "worker": {**sleeps, "instances": 1}},
    )
    assert tool("submit", spec, "--detach").status == 0
    tool.until("halted", lambda seen: seen["state"] == "RUNNING")

    stopped = tool("stop", "halted")

    assert processes_of("halted") == {}
    assert (stopped.status, stopped.stdout.splitlines()[0].split()[:2]) == (
        0,
        ["halted", "STOPPED"],
    ), stopped
    assert "waiting until its nodes have ended" in stopped.stderr
