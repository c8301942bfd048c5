"""With `retries` a training goes on after the loss of containers, its deciding task included, with
no client running.
"""

from __future__ import annotations

import pytest

from tests.promises.conftest import SMALL
from tests.tool import Tool, gone, kill

pytestmark = pytest.mark.cluster

# The chief writes each step to its checkpoint and continues from it; they end when they may.
PROGRAM = """
import os, sys, time
checkpoint, role = sys.argv[1], os.environ["TFJOB_ROLE"]
step = int(open(checkpoint).read()) if os.path.exists(checkpoint) else 0
print("generation", os.environ["TFJOB_GENERATION"], "from step", step, flush=True)
while step < 40:
    time.sleep(0.1)
    step += 1
    if role == "chief":
        with open(checkpoint + ".new", "w") as out:
            out.write(str(step))
        os.rename(checkpoint + ".new", checkpoint)
while not os.path.exists(checkpoint + ".end"):
    time.sleep(0.1)
"""


def test_training_continues_after_losing_a_worker_and_its_chief(tool: Tool, unique: str) -> None:
    name = f"survives-{unique}"
    (tool.cwd / "survives.py").write_text(PROGRAM)
    checkpoint = tool.cwd / "checkpoint"
    spec = tool.spec(
        name,
        strategy="multi-worker",
        files=["survives.py"],
        command=f"python3 survives.py {checkpoint}",
        retries=3,
        lifetime="1h",  # required on Hadoop 3.1 and 3.2
        roles={"chief": SMALL, "worker": {**SMALL, "instances": 2}},
    )
    assert tool("submit", spec, "--detach", "-q").status == 0
    for used, victim in enumerate(["worker-1", "chief-0"]):
        _generation(tool, name, used)
        kill(name, victim)
    _generation(tool, name, 2)
    (tool.cwd / "checkpoint.end").touch()
    done = tool("wait", name, "-o", "json")
    assert (done.status, done.json["state"], done.json["confirmed"]) == (0, "SUCCEEDED", True)
    lost = [entry["task"] for entry in done.json["retries"]["generations"]]
    assert lost == ["worker-1", "chief-0"]
    assert checkpoint.read_text() == "40"
    tool.collected(name)
    assert "generation 2 from step " in tool.output(name, "chief-0")
    gone(name)


def _generation(tool: Tool, name: str, used: int) -> None:
    tool.until(
        name,
        lambda seen: seen["state"] == "RUNNING" and (seen["retries"] or {}).get("used") == used,
    )


def test_fault_of_the_program_itself_is_tried_once(tool: Tool, unique: str) -> None:
    name = f"own-fault-{unique}"
    roles = {
        "chief": {**SMALL, "command": "sleep 3600"},
        "worker": {**SMALL, "command": "echo wrong shape >&2; exit 1"},
    }
    keys = {"retries": 3, "lifetime": "1h", "roles": roles}  # Hadoop 3.1 and 3.2 require it
    done = tool("submit", tool.spec(name, strategy="multi-worker", **keys), "-o", "json")
    assert (done.status, done.json["state"], done.json["failure"]["task"]) == (
        1,
        "FAILED",
        "worker-0",
    )
    assert done.json["retries"]["generations"] == []
    gone(name)
