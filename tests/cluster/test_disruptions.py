"""What a cluster does to a job that runs: the verdict is right, and YARN's application ends."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import clusters
from tests.cluster.conftest import administer
from tests.clusters import Cluster, add_properties
from tests.hdfs import Hdfs
from tests.tool import SUBMIT_S, Tool, gone, held, kill, processes_of, release, until

pytestmark = [pytest.mark.cluster, pytest.mark.long]

SMALL = {"memory": "256Mi"}
EXCLUDE = "yarn.resourcemanager.nodes.exclude-path"


@pytest.fixture(scope="module")
def nodes(clusters_of_session: None) -> Iterator[Cluster]:
    """Three nodes, whose administrator can take one away."""
    with clusters.own("nodes", "--nodes", "3") as cluster:
        exclude = cluster.home / "conf/exclude"
        exclude.touch()
        add_properties(cluster.home / "conf/yarn-site.xml", {EXCLUDE: str(exclude)})
        cluster.kill("resourcemanager")
        assert "resourcemanager" in cluster.heal()
        yield cluster


@pytest.fixture
def tool(nodes: Cluster, tmp_path: Path) -> Iterator[Tool]:
    made = Tool(clusters.environment(), nodes.profile, tmp_path)
    yield made
    made.tidy()


def begins(tool: Tool, spec: Path, name: str, victim: str = "") -> dict[str, str]:
    """Submit a job, and return the host of each of its tasks once they run.

    With the witness on the node of the victim the job would end with that node, so it is submitted
    anew then.
    """
    for _ in range(9):
        assert tool("submit", spec, "--detach").status == 0
        tool.until(name, lambda seen: seen["state"] == "RUNNING")
        tasks = tool("describe", name, "-o", "json").json["task_list"]
        hosts = {task["task"]: task["host"] for task in tasks}
        if not victim or hosts[victim] != hosts.get("witness-0"):
            return hosts
        assert tool("delete", name, "--force").status == 0
        gone(name)
    raise AssertionError(hosts)


def daemon_of(host: str) -> str:
    number = "" if host == "localhost" else host.rpartition(".")[2]
    return f"nodemanager{number}"


def ended(tool: Tool, name: str) -> dict[str, Any]:
    """Wait for a job, and return its last status; nothing of it is left."""
    begun = time.monotonic()
    done = tool("wait", name, "-o", "json")
    found = {"exit": done.status, **done.json}
    print(f"{name}: {found['state']}, exit {done.status}, {time.monotonic() - begun:.0f} s later;"
          f" retries {found['retries'] and found['retries']['used']}; {found['reason']}")  # fmt: skip
    gone(name)
    assert not processes_of(name)
    return found


# --- a node is taken away -------------------------------------------------------------------------


@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize("victim", ["worker-1", "worker-0"], ids=["other", "deciding"])
def test_a_node_is_decommissioned(tool: Tool, nodes: Cluster, retries: int, victim: str) -> None:
    name = f"decommissioned-{victim[-1]}-{retries}"
    exclude = nodes.home / "conf/exclude"
    keys = {"retries": retries} if retries else {}
    roles = {"worker": {**SMALL, "instances": 2, "placement": {"spread": "node"}}}
    spec = tool.spec(
        name, strategy="multi-worker", command=held(name), roles=roles, stop_grace="2s", **keys
    )
    hosts = begins(tool, spec, name, victim)
    exclude.write_text(hosts[victim] + "\n")
    try:
        administer(nodes, "-refreshNodes")
        if retries:
            again = tool.until(
                name,
                lambda seen: seen["state"] == "RUNNING" and seen["retries"]["used"] == 1,
            )
            assert again["retries"]["generations"][0]["task"] == victim, again["retries"]
            tasks = tool("describe", name, "-o", "json").json["task_list"]
            assert hosts[victim] not in {task["host"] for task in tasks}
            release(name, tasks=2)
        seen = ended(tool, name)
    finally:
        exclude.write_text("")
        administer(nodes, "-refreshNodes")
        nodes.heal()
    if retries:
        assert (seen["exit"], seen["state"], seen["confirmed"]) == (0, "SUCCEEDED", True), seen
    else:
        assert (seen["exit"], seen["state"]) == (1, "FAILED"), seen
        cause = seen["root_cause"]
        assert (cause["code"], cause["task"]) == ("node-lost", victim), cause


# --- a node that the ResourceManager does not hear, whose containers live on ----------------------


@pytest.mark.parametrize("victim", ["worker-1", "worker-0"], ids=["other", "deciding"])
def test_a_node_is_cut_off_and_comes_back(tool: Tool, nodes: Cluster, victim: str) -> None:
    """Its tasks are lost to YARN, and live on; each output is stored by the one that counts."""
    name = f"cut-off-{victim[-1]}"
    hdfs, place = Hdfs(nodes), f"/tmp/{name}"
    # what a task of the first generation would store is not what counts
    command = f"{held(name)}; echo $TFJOB_GENERATION > $TFJOB_OUTPUT_M/model"
    apart = {**SMALL, "instances": 2, "placement": {"spread": "node"}}
    spec = tool.spec(
        name,
        strategy="multi-worker",
        hadoop={"conf": "inline"},
        command=command,
        roles={"worker": apart},
        outputs={"m": {"uri": f"hdfs://{place}", "upload": True, "by": "every-task"}},
        stop_grace="2s",
        retries=2,
    )
    hosts = begins(tool, spec, name, victim)
    pid = nodes.pid_of(daemon_of(hosts[victim]))
    os.kill(pid, signal.SIGSTOP)
    try:
        # YARN has another container for the task; one that is connected is left alone until it ends
        until(lambda: len(containers_of(name, victim)) == 2, within_s=SUBMIT_S, pause_s=0.5)
    finally:
        os.kill(pid, signal.SIGCONT)
    tool.until(name, lambda seen: seen["state"] == "RUNNING" and seen["retries"]["used"] == 1)
    until(lambda: len(_programs(name)) == 2, "two tasks are left", within_s=SUBMIT_S, pause_s=0.5)
    release(name, tasks=2)
    seen = ended(tool, name)
    assert (seen["exit"], seen["state"], seen["confirmed"]) == (0, "SUCCEEDED", True), seen
    assert seen["retries"]["generations"][0]["task"] == victim, seen["retries"]
    assert [hdfs.read(f"{place}/worker-{task}/model") for task in (0, 1)] == [b"1\n"] * 2
    hdfs.remove(place)


def containers_of(name: str, task: str) -> set[bytes]:
    """Find the containers of a task whose processes live."""
    found = set()
    for pid in processes_of(name):
        with contextlib.suppress(OSError):
            own = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if f"TFJOB_INSTANCE={task}".encode() in own:
                found |= {item for item in own if item.startswith(b"CONTAINER_ID=")}
    return found


def _programs(name: str) -> list[int]:
    held_by = {pid: line.split() for pid, line in processes_of(name).items()}
    return [
        pid
        for pid, words in held_by.items()
        if f"held-{name}" in words and words[0].endswith("python3")
    ]


# --- Registry DNS is cut off ----------------------------------------------------------------------


@pytest.mark.parametrize("loses", [False, True], ids=["goes-on", "loses-a-worker"])
def test_names_are_cut_off_while_a_job_runs(tool: Tool, nodes: Cluster, loses: bool) -> None:
    """A task that runs needs no name; one that YARN starts again waits for it to be back."""
    name = f"nameless-{'lost' if loses else 'runs'}"
    spec = tool.spec(
        name,
        strategy="multi-worker",
        command=held(name),
        roles={"worker": {**SMALL, "instances": 2}},
        stop_grace="2s",
        retries=2,
    )
    begins(tool, spec, name)
    nodes.kill("registrydns")
    try:
        if loses:
            kill(name, "worker-1")
            tool.until(name, lambda seen: seen["retries"]["used"] == 1)
            time.sleep(20)
            told = tool("status", name).stdout
            print(told)
    finally:
        nodes.heal()
    if loses:
        tool.until(name, lambda seen: seen["state"] == "RUNNING" and seen["retries"]["used"] == 1)
    release(name, tasks=2)
    seen = ended(tool, name)
    assert (seen["exit"], seen["state"], seen["confirmed"]) == (0, "SUCCEEDED", True), seen
    assert seen["retries"]["used"] == int(loses)
