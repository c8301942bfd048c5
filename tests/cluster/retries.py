"""Trainings with `retries` on a real cluster: what tests and the matrix share."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

from tests.clusters import Cluster
from tests.tool import (
    Tool,
    bootstrap_of,
    gone,
    kill,
    processes_of,
)

STEPS = 40
SMALL = {"memory": "256Mi"}
SEED = 11
# Every task does step after step; the chief writes each to its checkpoint, and continues from it.
# With the last step done they wait until they may end: a busy machine sees each generation run.
PROGRAM = """
import os, sys, time
checkpoint, role = sys.argv[1], os.environ["TFJOB_ROLE"]
step = int(open(checkpoint).read()) if os.path.exists(checkpoint) else 0
print("generation", os.environ["TFJOB_GENERATION"], "from step", step, flush=True)
while step < STEPS:
    time.sleep(0.25)
    step += 1
    print('TFJOB_PROGRESS {"step": %d, "total": STEPS}' % step, flush=True)
    if role == "chief":
        with open(checkpoint + ".new", "w") as out:
            out.write(str(step))
        os.rename(checkpoint + ".new", checkpoint)
while not os.path.exists(checkpoint + ".end"):
    time.sleep(0.1)
"""


def reaches(tool: Tool, job: str, wanted: int, timeout_s: float = 120) -> dict[str, Any]:
    """Wait until the commands of a generation run."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        seen: dict[str, Any] = tool("status", job, "-o", "json").json
        if seen["state"] == "RUNNING" and (seen["retries"] or {}).get("used") == wanted:
            return seen
        time.sleep(0.3)
    raise AssertionError(f"no generation {wanted}: {seen}")


def training(
    tool: Tool, name: str, retries: object, roles: dict[str, Any], steps: int = STEPS
) -> Path:
    """Submit a job that runs `PROGRAM`; return the path of its checkpoint."""
    program, checkpoint = tool.cwd / "train.py", tool.cwd / "checkpoint"
    program.write_text(PROGRAM.replace("STEPS", str(steps)))
    spec = tool.spec(
        name,
        strategy="multi-worker",
        files=[str(program)],
        command=f"python3 train.py {checkpoint}",
        prepare=f"echo once >> {tool.cwd / 'prepared'}",
        stop_grace="2s",
        retries=retries,
        lifetime="1h",  # required on Hadoop 3.1 and 3.2
        roles=roles,
    )
    assert tool("submit", spec, "--detach").status == 0
    reaches(tool, name, 0)
    return checkpoint


def may_end(checkpoint: Path) -> None:
    """Let the job that `training` submitted end after its last step."""
    checkpoint.with_name("checkpoint.end").touch()


def survives_worker_and_chief(tool: Tool) -> None:
    roles = {"chief": SMALL, "worker": {**SMALL, "instances": 2}}
    checkpoint = training(tool, "survives", 3, roles)
    kill("survives", "worker-1")
    reaches(tool, "survives", 1)
    kill("survives", "chief-0")
    reaches(tool, "survives", 2)
    may_end(checkpoint)
    done = tool("wait", "survives", "-o", "json")
    assert done.status == 0, done.stdout + done.stderr
    assert (done.json["state"], done.json["confirmed"]) == ("SUCCEEDED", True)
    assert checkpoint.read_text() == str(STEPS)
    lost = [entry["task"] for entry in done.json["retries"]["generations"]]
    assert lost == ["worker-1", "chief-0"]
    assert (tool.cwd / "prepared").read_text() == "once\n"
    gone("survives")
    assert not processes_of("survives")


def is_tried_once(tool: Tool) -> None:
    small = {"memory": "256Mi"}
    spec = tool.spec(
        "own-fault",
        strategy="multi-worker",
        retries=3,
        roles={
            "chief": {**small, "command": "sleep 600"},
            "worker": {**small, "command": "echo wrong shape >&2; exit 1"},
        },
    )
    done = tool("submit", spec, "-o", "json")
    assert done.status == 1, done.stderr
    assert (done.json["state"], done.json["confirmed"]) == ("FAILED", True)
    assert (done.json["failure"]["task"], done.json["failure"]["status"]) == ("worker-0", 1)
    assert done.json["retries"]["generations"] == []
    gone("own-fault")


def survives_a_node(cluster: Cluster, tool: Tool) -> None:
    spread = {"memory": "256Mi", "placement": {"spread": "node"}}
    roles = {"chief": {"memory": "256Mi"}, "worker": {**spread, "instances": 2}}
    checkpoint = training(tool, "node-lost", 5, roles)
    pid = bootstrap_of("node-lost", "worker-1")
    environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    local = next(item for item in environ if item.startswith(b"LOCAL_DIRS="))
    node = re.search(rb"/nm-local(\d?)", local)
    assert node
    os.kill(cluster.pid_of("nodemanager" + node.group(1).decode()), signal.SIGKILL)
    for entry in Path("/proc").glob("[0-9]*"):  # its containers outlive it
        with contextlib.suppress(OSError):
            if local in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
    may_end(checkpoint)
    done = tool("wait", "node-lost", "-o", "json", timeout=500)
    assert done.status == 0, done.stdout + done.stderr
    assert checkpoint.read_text() == str(STEPS)
    assert done.json["retries"]["used"] >= 1
