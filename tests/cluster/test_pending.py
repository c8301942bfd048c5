"""Why a job waits: on a real ResourceManager whose queues are made too small, stopped, and left
without nodes.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.conftest import Refresh, scheduler_of
from tests.clusters import Cluster
from tests.tool import Tool

pytestmark = pytest.mark.cluster

SLEEP = ["sleep", "600"]
SMALL = {
    "strategy": "custom",
    "deciding_role": "main",
    "queue": "ml",
    "roles": {"main": {"memory": "256Mi", "command": SLEEP}},
}
PREFIX = "yarn.scheduler.capacity.root.ml."


@pytest.fixture
def queues(real_cluster: Cluster) -> Iterator[Refresh]:
    """Change queue ml of the running ResourceManager, as an administrator does; it is as before at
    the end.
    """
    with scheduler_of(real_cluster) as refresh:
        yield lambda changes: refresh({PREFIX + name: text for name, text in changes.items()})


def causes_of(tool: Tool, job: str, code: str) -> dict[str, Any]:
    """Ask until a cause is there, and return all of them by code."""

    def codes(seen: dict[str, Any]) -> dict[str, Any]:
        return {cause["code"]: cause for cause in seen["pending"]}

    return codes(tool.until(job, lambda seen: code in codes(seen)))


def submitted(tool: Tool, name: str, **content: Any) -> None:
    done = tool("submit", tool.spec(name, **{**SMALL, **content}), "--detach")
    assert done.status == 0, done.stderr


@pytest.mark.alone
@pytest.mark.long
def test_queues_that_keep_a_job_waiting(tool: Tool, queues: Refresh, real_cluster: Cluster) -> None:
    queues({"maximum-capacity": "50"})
    submitted(
        tool,
        "pending-a",
        roles={
            "main": {"memory": "8Gi", "command": SLEEP},
            "worker": {"memory": "8Gi", "instances": 3, "command": SLEEP},
        },
    )
    full = causes_of(tool, "pending-a", "queue-full")["queue-full"]
    assert full["facts"]["limit"]["memory-mb"] == 24576
    assert full["facts"]["asked"]["memory-mb"] == 8192
    assert re.search("containers of (main and )?worker ask for 8 GiB each", full["sentence"])
    assert "`queue`: default has room now" in full["hint"]

    submitted(tool, "pending-b")
    ahead = causes_of(tool, "pending-b", "others-ahead")
    assert "pending-a" in ahead["others-ahead"]["sentence"]
    followed = tool("wait", "pending-b", "--timeout", "30s")
    assert followed.status == 8
    assert (
        "waits because: 1 job of queue ml that waits for containers too is before it"
        in followed.stderr
    )
    tool("delete", "pending-b", "--force")

    queues({"user-limit-factor": "0.3"})
    limit = causes_of(tool, "pending-a", "user-limit")["user-limit"]
    assert limit["facts"]["used"]["memory-mb"] > limit["facts"]["limit"]["memory-mb"]

    queues({"maximum-am-resource-percent": "0.01", "max-parallel-apps": "1"})
    submitted(tool, "pending-c")
    parallel = causes_of(tool, "pending-c", "parallel-limit")["parallel-limit"]
    assert (parallel["facts"]["limit"], parallel["facts"]["running"]) == (1, 1)
    tool("delete", "pending-c", "--force")

    queues({"maximum-am-resource-percent": "0.01"})
    submitted(tool, "pending-d")
    masters = causes_of(tool, "pending-d", "am-limit-queue")["am-limit-queue"]
    assert masters["facts"]["asked"]["memory-mb"] == 512
    assert "pending-a" in masters["sentence"]

    queues({"maximum-am-resource-percent": "0.01", "state": "STOPPED"})
    assert {"am-limit-queue", "queue-stopped"} <= set(causes_of(tool, "pending-d", "queue-stopped"))
    tool("delete", "pending-a", "--force")
    tool("delete", "pending-d", "--force")
    queues({})
    _without_nodes(tool, real_cluster)


def _without_nodes(tool: Tool, real_cluster: Cluster) -> None:
    real_cluster.kill("nodemanager", signal.SIGTERM)
    try:
        submitted(tool, "pending-e")
        nowhere = causes_of(tool, "pending-e", "no-nodes")["no-nodes"]
        assert nowhere["facts"]["nodes"] == {"SHUTDOWN": 1}
        examined = tool("doctor", "-o", "json")
        assert {f["id"] for f in examined.json["findings"] if f["status"] == "failure"} == {"nodes"}
    finally:
        tool("delete", "pending-e", "--force")
        real_cluster.heal()
