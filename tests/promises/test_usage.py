"""What a job uses of what it asked for: while it runs, after its end, and once YARN has forgotten it."""

from __future__ import annotations

import json

import pytest

from tests.clusters import Cluster
from tests.tool import SUBMIT_S, Tool, until

pytestmark = pytest.mark.cluster

# One and a half cores and 350 MiB, a moment of 500 MiB in the other task, and children that have ended.
PROGRAM = """
import json, os, subprocess, sys, time
chief = os.environ["TFJOB_INDEX"] == "0"
held = bytearray((350 if chief else 500) << 20)
held[::4096] = b"1" * len(held[::4096])
if not chief:
    del held
burn = "import time\\nwhile time.process_time() < 5: sum(range(2000))"
for step in range(1, 4):
    subprocess.run([sys.executable, "-c", burn])
    print("TFJOB_PROGRESS", json.dumps({"step": step, "total": 4, "metrics": {"loss": 1 / step}}), flush=True)
with open(sys.argv[1] + os.environ["TFJOB_INDEX"], "w") as said:
    said.write(str(sum(os.times()[:4])))
while not os.path.exists(sys.argv[1]):
    time.sleep(0.2)
print("TFJOB_PROGRESS", json.dumps({"step": 4, "total": 4, "metrics": {"loss": float("nan")}}), flush=True)
time.sleep(3)
"""
MIB = 1 << 20


def test_usage_is_measured_and_advice_can_be_typed(
    tool: Tool, simple: Cluster, unique: str
) -> None:
    name, seen = f"hog-{unique}", tool.cwd / "hog-seen"
    (tool.cwd / "hog.py").write_text(PROGRAM)
    spec = tool.spec(
        name,
        strategy="multi-worker",
        command=["python3", "hog.py", str(seen)],
        files=["hog.py"],
        roles={"worker": {"memory": "1536Mi", "instances": 2}},
    )
    assert tool("submit", spec, "--detach", "-q").status == 0

    def live() -> bool:
        asked = tool("usage", name, "-o", "json")
        if asked.status:  # as while no ResourceManager answers
            return False
        found = asked.json
        metrics = [one for one in found["series"] if one["kind"] == "metric"]
        return found["roles"].get("worker", {}).get("tasks") == 2 and bool(
            metrics and metrics[0]["points"][-1][1] == 3
        )

    until(live, "both tasks tell their use", within_s=SUBMIT_S, pause_s=2)
    seen.touch()
    assert tool("wait", name).status == 0
    found = json.loads(tool("usage", name, "-o", "json").stdout)
    worker = found["roles"]["worker"]
    peak = worker["memory_bytes"]["peak"]
    assert peak["least"] == pytest.approx(380 * MIB, rel=0.1)
    assert peak["most"] == pytest.approx(530 * MIB, rel=0.1)
    assert (peak["most_task"], worker["peak_by"]) == ("worker-1", "kernel")
    # each task's seconds of CPU, against what its program counted: the two run for different times
    assert [row["task"] for row in found["tasks"]] == ["worker-0", "worker-1"]
    for row in found["tasks"]:
        counted = float((tool.cwd / f"hog-seen{row['task'][-1]}").read_text())
        assert counted > 15
        assert row["cpu_cores"]["mean"] * row["for_s"] == pytest.approx(counted, rel=0.1)
    assert found["charged"]["memory_mib_s"] > 0
    assert found["series"][0]["points"][-1][1:] == [4, "NaN"]
    assert "loss is NaN since step 4" in tool("status", name).stdout
    [memory] = [one["option"] for one in found["advice"] if one["key"] == "memory"]
    option, value = memory.split()
    assert tool("validate", spec, option, value).status == 0, "what is advised can be typed"
    told = tool("usage", name, "--tasks").stdout
    assert "worker-1" in told
    accounts = json.loads(tool("usage", "--since", "1h", "--by", "job", "-o", "json").stdout)
    assert name in [row["of"] for row in accounts["rows"]]
    # from the record, when YARN's own files of it are gone
    assert tool("delete", name).status == 0
    again = json.loads(tool("usage", name, "-o", "json").stdout)
    assert again["series"] == found["series"]
    assert again["asked"]["worker"]["memory_mib"] == 1536
