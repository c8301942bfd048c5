"""`stop --grace`: the tasks save and end before YARN stops the job."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.cluster.saving import SMALL, running, saved
from tests.tool import (
    Tool,
    gone,
    processes_of,
)

pytestmark = pytest.mark.cluster


def test_tasks_save_before_the_job_is_stopped(tool: Tool) -> None:
    server = {**SMALL, "kind": "serves", "command": f"exec python3 train.py {tool.cwd}/saved 4"}
    roles = {"chief": SMALL, "worker": {**SMALL, "instances": 2}, "server": server}
    where = running(tool, "saves", 4, roles, strategy="custom")
    stopped = tool("stop", "saves", "--grace", "2m", "-o", "json")
    assert stopped.status == 0, stopped
    assert "had not ended after" not in stopped.stderr, "not the whole time"
    assert (stopped.json["state"], stopped.json["confirmed"]) == ("STOPPED", True)
    # the others may need the server to save
    assert saved(where) == ["chief-0", "worker-0", "worker-1"]
    assert "its tasks have 120 s to save and end" in stopped.stderr
    gone("saves")
    assert not processes_of("saves")


def test_a_stop_with_time_to_save_is_no_loss_that_is_retried(tool: Tool) -> None:
    """`stop_grace` of the spec holds for `stop`, too; a task that does not end is stopped then."""
    roles = {"chief": SMALL, "worker": SMALL}
    where = running(
        tool, "saves-late", 300, roles, strategy="multi-worker", retries=3, stop_grace="8s"
    )
    began = time.monotonic()
    stopped = tool("stop", "saves-late", "-o", "json")
    assert stopped.status == 0, stopped
    assert time.monotonic() - began >= 8
    assert stopped.json["state"] == "STOPPED"
    assert {path.stem for path in where.glob("*.begun")} == {"chief-0", "worker-0"}
    assert saved(where) == []
    assert "chief-0, worker-0 had not ended after 8 s; YARN stops the job now" in stopped.stderr
    assert tool("status", "saves-late", "-o", "json").json["state"] == "STOPPED"
    gone("saves-late")


@pytest.mark.long
@pytest.mark.parametrize("retries", [0, 3])
def test_a_stop_whose_client_dies_ends_the_job(tool: Tool, retries: int) -> None:
    keys = {"retries": retries} if retries else {}
    roles = {"chief": SMALL, "worker": SMALL}
    where = running(tool, "orphaned", 2, roles, strategy="multi-worker", **keys)
    client = tool.start("stop", "orphaned", "--grace", "5m")
    end = time.monotonic() + 60
    while not list(where.glob("*.begun")) and time.monotonic() < end:
        time.sleep(0.1)
    os.kill(client.pid, signal.SIGKILL)
    client.communicate()
    done = tool("wait", "orphaned", "-o", "json")
    assert (done.status, done.json["state"]) == (3, "STOPPED"), done
    assert saved(where) == ["chief-0", "worker-0"]
    gone("orphaned")
