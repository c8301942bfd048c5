"""`hold_on_failure` on a real YARN: the container stays, the verdict does not wait."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.tool import Tool

pytestmark = pytest.mark.cluster

PROGRAM = "echo kept > left.txt; test $TFJOB_INDEX = 0 && sleep 600; exit 7"


def test_container_of_the_first_failure_stays_until_it_is_released(tool: Tool) -> None:
    roles = {"worker": {"instances": 2, "memory": "256Mi"}}
    keys = {"strategy": "custom", "deciding_role": "worker", "hold_on_failure": "30m"}
    spec = tool.spec("held", command=PROGRAM, roles=roles, **keys)
    failed = tool("submit", spec, "-o", "json")
    assert (failed.status, failed.json["state"]) == (1, "FAILED"), failed
    held = failed.json["held"]
    assert held["task"] == "worker-1"
    assert held["until"] > time.time() + 1500
    left = Path(held["directory"], "left.txt")
    assert left.read_text() == "kept\n"
    assert failed.json["yarn"]["state"] == "RUNNING"
    released = tool("release", "held", "-o", "json")
    assert (released.status, released.json["state"], released.json["held"]) == (0, "FAILED", None)
    assert released.json["yarn"]["final_status"] == "FAILED"
    tool.collected("held")
    said = tool("logs", "held", "worker-0", "--raw").stdout
    assert "the container of worker-1 is no longer held: released" in said
