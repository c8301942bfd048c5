"""Elastic roles on a real cluster: fewer tasks than wanted, lost ones, and `scale`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.cluster.conftest import SPECS
from tests.clusters import Cluster
from tests.tool import SUBMIT_S, Tool, gone, kill, processes_of

pytestmark = pytest.mark.cluster

SMALL = {"memory": "256Mi"}
# Every task writes what it was told, and trains until it may end.
PROGRAM = """
import json, os, sys, time
names = "TFJOB_GENERATION", "TFJOB_ROLE", "TFJOB_INDEX", "TFJOB_COUNT", "TFJOB_RANK"
told = {name: os.environ.get(name) for name in (*names, "TFJOB_WORLD_SIZE")}
config = json.loads(os.environ["TF_CONFIG"])
told["workers"], told["index"] = config["cluster"]["worker"], config["task"]["index"]
with open(os.path.join(sys.argv[1], "told"), "a") as out:
    out.write(json.dumps(told) + chr(10))
while not os.path.exists(os.path.join(sys.argv[1], "end")):
    time.sleep(0.1)
"""


def training(tool: Tool, name: str, worker: dict[str, Any], **keys: Any) -> None:
    program = tool.cwd / "train.py"
    program.write_text(PROGRAM)
    spec = tool.spec(
        name,
        strategy="multi-worker",
        files=[str(program)],
        command=f"python3 train.py {tool.cwd}",
        retries=3,
        lifetime="1h",  # required on Hadoop 3.1 and 3.2
        stop_grace="2s",
        grace="10s",
        roles={"chief": SMALL, "worker": {**SMALL, **worker}},
        **keys,
    )
    done = tool("submit", spec, "--detach")
    assert done.status == 0, done.stderr


def told(directory: Path, generation: int, size: int, timeout_s: float = SUBMIT_S) -> list[int]:
    """Wait until all tasks of a generation have written; check what they were told.

    Returns:
        The ranks of its workers.
    """
    found: list[dict[str, Any]] = []
    end = time.monotonic() + timeout_s
    while len(found) < size + 1:
        assert time.monotonic() < end, (generation, size, found)
        time.sleep(0.2)
        path = directory / "told"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [entry for line in lines if (entry := json.loads(line))]
        found = [entry for entry in found if entry["TFJOB_GENERATION"] == str(generation)]
    assert {entry["TFJOB_WORLD_SIZE"] for entry in found} == {str(size + 1)}
    assert len({str(entry["workers"]) for entry in found}) == 1
    assert len(set(found[0]["workers"])) == size
    workers = [entry for entry in found if entry["TFJOB_ROLE"] == "worker"]
    assert sorted(entry["index"] for entry in workers) == list(range(size))
    for entry in workers:
        assert entry["TFJOB_COUNT"] == str(size)
        assert entry["TFJOB_INDEX"] == str(entry["index"])
    return sorted(int(entry["TFJOB_RANK"]) for entry in workers)


def ends_well(tool: Tool, name: str) -> dict[str, Any]:
    (tool.cwd / "end").touch()
    done = tool("wait", name, "-o", "json")
    assert done.status == 0, done.stdout + done.stderr
    assert (done.json["state"], done.json["confirmed"]) == ("SUCCEEDED", True)
    gone(name)
    assert not processes_of(name)
    return dict(done.json["retries"])


def test_a_training_shrinks_and_grows(tool: Tool) -> None:
    size = {"instances": {"min": 1, "max": 3, "grow_after": "3s"}}
    training(tool, "grows", size, start_timeout="3m")
    assert told(tool.cwd, 0, 3) == [1, 2, 3]
    refused = tool("scale", "grows", "worker=4")
    assert refused.status == 2
    assert "worker=4: the role is elastic, with 1 to 3 tasks" in refused.stderr

    scaled = tool("scale", "grows", "worker=2")
    assert scaled.status == 0, scaled.stderr
    assert told(tool.cwd, 1, 2) == [1, 2]
    tool("scale", "grows", "worker=3")
    assert told(tool.cwd, 2, 3) == [1, 2, 3]

    kill("grows", "worker-0")
    assert told(tool.cwd, 3, 3) == [1, 2, 3]
    retried = ends_well(tool, "grows")
    assert [entry["kind"] for entry in retried["generations"]] == ["shrunk", "grown", "lost"]
    assert (retried["used"], retried["max"]) == (1, 3)


@pytest.mark.long
def test_a_training_starts_with_fewer(tool: Tool, real_cluster: Cluster) -> None:
    """There is room for one worker."""
    answer = requests.get(f"{real_cluster.rm_url}/ws/v1/cluster/metrics", timeout=30)
    most = answer.json()["clusterMetrics"]["totalMB"]
    few = {"instances": {"min": 1, "max": 3}, "memory": f"{most // 2}Mi"}
    training(tool, "fewer", few, start_timeout="20s")
    assert told(tool.cwd, 0, 1) == [1]
    seen = tool.until("fewer", lambda seen: seen["roles"]["worker"]["running"] == 1)
    assert seen["roles"]["worker"]["wanted"] == 1
    assert "1/1 running (elastic, at most 3)" in tool("status", "fewer").stdout
    events = [line for line in tool("events", "fewer").stdout.splitlines() if "joined" in line]
    assert len(events) == 2, events
    ends_well(tool, "fewer")


def program(name: str) -> list[dict[str, str]]:
    return [{"src": str(SPECS / "programs" / name), "dst": name}]


def finishes(tool: Tool, name: str) -> dict[str, Any]:
    """Wait for the end of a training that ends by itself; return its retries."""
    done = tool("wait", name, "-o", "json", timeout=500)
    assert done.status == 0, done.stdout + done.stderr
    assert (done.json["state"], done.json["confirmed"]) == ("SUCCEEDED", True)
    gone(name)
    return dict(done.json["retries"])


@pytest.mark.long
def test_keras_goes_on_with_fewer_workers_and_with_more(tool: Tool) -> None:
    spec = tool.spec(
        "keras-elastic",
        strategy="multi-worker",
        command=["python", "keras_restore.py", str(tool.cwd / "backup"), "150"],
        files=program("keras_restore.py"),
        env={"TF_CPP_MIN_LOG_LEVEL": "1"},
        retries=3,
        roles={
            "chief": {"memory": "1Gi"},
            "worker": {"memory": "1Gi", "instances": {"min": 1, "max": 2, "grow_after": "5s"}},
        },
    )
    assert tool("submit", spec, "--detach").status == 0
    for number, count in enumerate((1, 2)):
        tool.printed("keras-elastic", "worker-0", f"of generation {number}")
        scaled = tool("scale", "keras-elastic", f"worker={count}")
        assert scaled.status == 0, scaled.stderr
    tool.printed("keras-elastic", "worker-1", "of generation 2")
    retried = finishes(tool, "keras-elastic")
    assert [entry["kind"] for entry in retried["generations"]] == ["shrunk", "grown"]
    said = tool.output("keras-elastic", "worker-0")
    epochs = [line.split()[1] for line in said.splitlines() if line.startswith("epoch ")]
    assert epochs[-1] == "149"
    # at most the epoch that was not saved is done again
    assert len(epochs) - len(set(epochs)) <= 2, epochs
