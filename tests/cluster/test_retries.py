"""`retries`: a training goes on after the loss of containers, with nobody at the keyboard."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import Tool, bootstrap_of, gone, processes_of

pytestmark = pytest.mark.cluster

STEPS = 40
# Every task does step after step; the chief writes each to its checkpoint, and continues from it.
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
""".replace("STEPS", str(STEPS))


def reaches(tool: Tool, job: str, wanted: int, timeout_s: float = 120) -> dict[str, Any]:
    """Wait until the commands of a generation run."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        seen: dict[str, Any] = tool("status", job, "-o", "json").json
        if seen["state"] == "RUNNING" and (seen["retries"] or {}).get("used") == wanted:
            return seen
        time.sleep(0.3)
    raise AssertionError(f"no generation {wanted}: {seen}")


def test_a_training_survives_its_worker_and_its_chief(tool: Tool, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    checkpoint = tmp_path / "checkpoint"
    small = {"memory": "256Mi"}
    spec = tool.spec(
        "survives",
        strategy="multi-worker",
        files=[str(program)],
        command=f"python3 train.py {checkpoint}",
        retries=3,
        roles={"chief": small, "worker": {**small, "instances": 2}},
    )
    assert tool("submit", spec, "--detach").status == 0
    reaches(tool, "survives", 0)
    os.kill(bootstrap_of("survives", "worker-1"), signal.SIGKILL)
    reaches(tool, "survives", 1)
    os.kill(bootstrap_of("survives", "chief-0"), signal.SIGKILL)
    reaches(tool, "survives", 2)
    done = tool("wait", "survives", "-o", "json")
    assert done.status == 0, done.stdout + done.stderr
    assert (done.json["state"], done.json["confirmed"]) == ("SUCCEEDED", True)
    assert checkpoint.read_text() == str(STEPS)
    lost = [entry["task"] for entry in done.json["retries"]["generations"]]
    assert lost == ["worker-1", "chief-0"]
    gone("survives")
    assert not processes_of("survives")


def test_a_failure_of_the_program_s_own_is_tried_once(tool: Tool) -> None:
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
