"""A job whose deciding task gets no container within `start_timeout`: said by every look, ended by
the one who follows it.
"""

from __future__ import annotations

import pytest

from tests.tool import (
    Tool,
    gone,
)

pytestmark = pytest.mark.cluster

WAITS = {
    "strategy": "single",
    "command": "true",
    "start_timeout": "10s",
    "roles": {"chief": {"memory": "4Gi"}},
}
OVERDUE = "chief-0 has had no container for longer than start_timeout (10 s)"


@pytest.mark.alone
def test_a_job_whose_deciding_task_gets_no_container_is_told_and_ended_by_its_follower(
    tool: Tool,
) -> None:
    filler = tool.spec(
        "filler", strategy="single", command="sleep 600", roles={"chief": {"memory": "9Gi"}}
    )
    assert tool("submit", filler, "--detach").status == 0
    tool.until("filler", lambda seen: seen["state"] == "RUNNING")

    followed = tool("submit", tool.spec("followed", **WAITS), "-o", "json")

    assert (followed.status, followed.json["state"]) == (1, "FAILED"), followed
    assert followed.json["reason"] == f"{OVERDUE}, so the job was stopped"
    assert followed.stderr.count(OVERDUE) == 1, "said once, not in every look"
    gone("followed")

    # One after the other: while one waits for room, YARN starts no ApplicationMaster behind it, and
    # PENDING does not count.
    assert tool("submit", tool.spec("left", **WAITS), "--detach").status == 0
    tool.until("left", lambda seen: bool(seen["reason"]))
    left = tool.status("left")
    assert (left["state"], left["reason"]) == ("STARTING", OVERDUE), left
    assert OVERDUE in tool("describe", "left").stdout
    assert tool("stop", "filler").status == 0
    # nobody who followed it has ended it, and now there is room
    assert tool("wait", "left").status == 0
