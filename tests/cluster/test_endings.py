"""How jobs end on a real cluster with Hadoop's default time-outs (docs/internals/endings.md)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests import clusters
from tests.clusters import Cluster
from tests.hdfs import Hdfs
from tests.tool import SUBMIT_S, Tool, gone, script, until

pytestmark = [pytest.mark.cluster, pytest.mark.long]

SMALL = {"memory": "128Mi"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with clusters.own("endings", "--default-timeouts") as made:
        yield made


@pytest.fixture
def tool(cluster: Cluster, tmp_path: Path) -> Iterator[Tool]:
    made = Tool(clusters.environment(), cluster.profile, tmp_path)
    yield made
    made.tidy()


def said(tool: Tool, name: str) -> dict[str, Any]:
    """Wait for a job, and return its last status with the exit status of `wait`."""
    done = tool("wait", name, "-o", "json")
    return {"exit": done.status, **done.json}


# --- the program's own faults ---------------------------------------------------------------------

# a training that reports its steps and crashes in the fourth
CRASHES = """
import os, signal, sys, time
for step in range(1, 5):
    print('TFJOB_PROGRESS {"step": %d}' % step, flush=True)
    time.sleep(0.3)
if os.environ["TFJOB_ROLE"] == "worker":
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
time.sleep(600)
"""


@pytest.mark.parametrize(
    "within", ["exec python3", "echo begins; python3"], ids=["itself", "shell"]
)
def test_a_crash_is_the_program_s_own_and_is_not_repeated(tool: Tool, within: str) -> None:
    (tool.cwd / "train.py").write_text(CRASHES)
    jobs = {f"crash-{name[3:].lower()}": name for name in ("SIGSEGV", "SIGABRT")}
    for job, name in jobs.items():
        spec = tool.spec(
            job,
            strategy="multi-worker",
            files=["train.py"],
            command=f"{within} train.py {name}",
            retries=3,
            lifetime="1h",
            roles={"chief": SMALL, "worker": SMALL},
        )
        assert tool("submit", spec, "--detach").status == 0
    for job, name in jobs.items():
        seen = said(tool, job)
        assert (seen["exit"], seen["state"], seen["confirmed"]) == (1, "FAILED", True), seen
        assert (seen["retries"]["used"], seen["failure"]["task"]) == (0, "worker-0"), seen
        assert name in seen["reason"], seen["reason"]
        assert tool.root_cause(job)["code"] in ("crashed", "aborted"), seen
        gone(job)


# --- a node that does not answer ------------------------------------------------------------------


def test_status_keeps_what_was_known_of_a_node_that_does_not_answer(
    tool: Tool, cluster: Cluster
) -> None:
    """Frozen, and dead; the job goes on when the NodeManager does."""
    end = tool.cwd / "end"
    command = f"until [ -e {end} ]; do sleep 0.2; done"
    spec = tool.spec(
        "unseen",
        strategy="multi-worker",
        command=command,
        roles={"chief": SMALL, "worker": SMALL},
    )
    assert tool("submit", spec, "--detach").status == 0
    tool.until("unseen", lambda seen: seen["state"] == "RUNNING")
    pid = cluster.pid_of("nodemanager")
    os.kill(pid, signal.SIGSTOP)
    try:
        frozen = tool.status("unseen")
    finally:
        os.kill(pid, signal.SIGCONT)
    cluster.kill("nodemanager")
    try:
        dead = tool.status("unseen")
    finally:
        cluster.heal()
    for seen in (frozen, dead):
        assert seen["state"] == "RUNNING", seen
        assert "its node does not answer" in seen["reason"], seen
        assert "have not arrived" not in json.dumps(seen), seen
    end.touch()
    seen = said(tool, "unseen")
    assert (seen["exit"], seen["state"], seen["confirmed"]) == (0, "SUCCEEDED", True), seen


# --- a deciding task that nobody can find ---------------------------------------------------------


@contextlib.contextmanager
def held(ports: range, *, listens: bool) -> Iterator[None]:
    """Hold ports as a program of somebody else does, which takes connections or does not."""
    with contextlib.ExitStack() as stack:
        for port in ports:
            sock = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):  # somebody else has it, which is as good
                sock.bind(("0.0.0.0", port))
                if listens:
                    sock.listen()
        yield


def blocked(tool: Tool, name: str, **more: Any) -> Path:
    return tool.spec(
        name,
        strategy="multi-worker",
        command="sleep 600",
        roles={"worker": {**SMALL, "instances": 3}},
        **more,
    )


@pytest.mark.parametrize("listens", [False, True], ids=["closed", "silent"])
def test_a_deciding_task_whose_ports_are_held_ends_the_job(tool: Tool, listens: bool) -> None:
    """The others know it in a minute: nothing answers as a task of the job does."""
    name = f"held-{'silent' if listens else 'closed'}"
    # of no other task, server or test (`unused_port` of tests/gateways.py has those above 10,000)
    ports = range(9100 + 40 * listens, 9140 + 40 * listens)
    there = tool.given(SUBMIT_TF_JOB_PORTS_RANGE=f"{ports[0]}-{ports[-1]}")
    with held(ports, listens=listens):
        begun = time.monotonic()
        spec = blocked(tool, name, start_timeout="60s")
        assert there("submit", spec, "--detach").status == 0
        seen = said(tool, name)
        took_s = time.monotonic() - begun
    print(f"{name}: {seen['state']} after {took_s:.0f} s: {seen['reason']}")
    assert (seen["exit"], seen["state"]) == (1, "FAILED"), seen
    assert "port" in seen["reason"], seen
    gone(name)


def test_a_deciding_task_that_dies_before_its_bootstrap_ends_the_job(tool: Tool) -> None:
    """Its container is dead before DNS has its name."""
    none = script(tool.cwd, "exit 127\n")
    spec = tool.spec(
        "stillborn",
        strategy="custom",
        deciding_role="main",
        start_timeout="60s",
        roles={
            "main": {**SMALL, "instances": 2, "command": "sleep 600", "python": none},
            "web": {**SMALL, "kind": "sidecar", "command": "sleep 600"},
        },
    )
    begun = time.monotonic()
    assert tool("submit", spec, "--detach").status == 0
    seen = said(tool, "stillborn")
    print(f"stillborn: {seen['state']} after {time.monotonic() - begun:.0f} s: {seen['reason']}")
    assert (seen["exit"], seen["state"]) == (1, "FAILED"), seen
    gone("stillborn")


# --- the end of the lifetime ----------------------------------------------------------------------


def test_outputs_are_stored_before_the_lifetime_ends(tool: Tool, cluster: Cluster) -> None:
    hdfs, place = Hdfs(cluster), "/tmp/lifetime"
    saves = "trap 'sleep 4; echo whole > $TFJOB_OUTPUT_M/model; exit 0' TERM; sleep 600 & wait"
    spec = tool.spec(
        "lifetime",
        strategy="multi-worker",
        hadoop={"conf": "inline"},
        command=saves,
        roles={"worker": {**SMALL, "instances": 2}},
        outputs={
            "m": {
                "uri": f"hdfs://{place}",
                "upload": True,
                "on_failure": "upload",
                "by": "every-task",
            }
        },
        stop_grace="30s",
        lifetime="120s",
    )
    assert tool("submit", spec, "--detach").status == 0
    seen = said(tool, "lifetime")
    assert (seen["exit"], seen["state"]) == (3, "STOPPED"), seen
    assert [hdfs.read(f"{place}/worker-{task}/model") for task in (0, 1)] == [b"whole\n"] * 2
    gone("lifetime")


# --- no container at all --------------------------------------------------------------------------


def waits(tool: Tool, name: str) -> tuple[str, str]:
    """Submit a job that finds no room, detached, and return the names of the one that has the room
    and of its own application.
    """
    holds = f"{name}-holds"
    room = tool.spec(
        holds, strategy="single", command="sleep 3000", roles={"chief": {"memory": "4Gi"}}
    )
    assert tool("submit", room, "--detach").status == 0
    tool.until(holds, lambda seen: seen["state"] == "RUNNING")
    big = tool.spec(
        name,
        strategy="single",
        command="echo ran",
        start_timeout="20s",
        roles={"chief": {"memory": "10Gi"}},
    )
    sent = tool("submit", big, "--detach", "-o", "json")
    assert sent.status == 0
    tool.until(name, lambda seen: seen["state"] == "STARTING")
    return holds, sent.json["application_id"]


def test_a_detached_job_without_a_container_is_ended_by_its_application_master(
    tool: Tool, cluster: Cluster
) -> None:
    holds, application = waits(tool, "big")
    begun = time.monotonic()
    # looked at without following, which would end it, too
    address = f"{cluster.rm_url}/ws/v1/cluster/apps/{application}"
    until(
        lambda: requests.get(address, timeout=30).json()["app"]["state"] == "FAILED",
        "it ends by itself",
        within_s=2 * SUBMIT_S,
        pause_s=5,
    )
    print(f"big: FAILED after {time.monotonic() - begun:.0f} s")
    seen = said(tool, "big")
    assert (seen["exit"], seen["state"]) == (1, "FAILED"), seen
    assert tool.root_cause("big")["code"] == "never-started", seen
    assert tool.status(holds)["state"] == "RUNNING", "a job that runs is left alone"


def test_a_container_that_its_node_has_accepted_is_waited_for(tool: Tool, cluster: Cluster) -> None:
    """Its node is frozen as soon as it has the container, whose files and program it then does not
    begin for longer than the ApplicationMaster waits for one.
    """
    holds, application = waits(tool, "late")
    [usercache] = cluster.home.glob("**/nm-local/usercache")
    assert tool("delete", holds, "--force").status == 0
    until(lambda: [*usercache.glob(f"*/appcache/{application}/container_*_000002")], pause_s=0.01)
    pid = cluster.pid_of("nodemanager")
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(20 + 180 + 60)
    finally:
        os.kill(pid, signal.SIGCONT)
    seen = said(tool, "late")
    assert (seen["exit"], seen["state"], seen["confirmed"]) == (0, "SUCCEEDED", True), seen
    attempts = f"{cluster.rm_url}/ws/v1/cluster/apps/{application}/appattempts"
    found = requests.get(attempts, timeout=30).json()["appAttempts"]["appAttempt"]
    assert len(found) == 1, found
