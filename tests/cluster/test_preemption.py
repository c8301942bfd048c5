"""A training whose worker the capacity scheduler preempts for another queue goes on later."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import another
from tests.clusters import add_properties
from tests.tool import Tool, gone, processes_of

pytestmark = [pytest.mark.cluster, pytest.mark.long]

POLICY = "yarn.resourcemanager.monitor.capacity.preemption."
PREEMPTION = {
    "yarn.resourcemanager.scheduler.monitor.enable": "true",
    POLICY + "monitoring_interval": "1000",
    POLICY + "max_wait_before_kill": "2000",
    POLICY + "total_preemption_per_round": "1.0",
    POLICY + "natural_termination_factor": "1.0",
    POLICY + "max_ignored_over_capacity": "0.0",
}
# ends once a file is there, so that both jobs last as long as the test needs
UNTIL = "until [ -e {} ]; do sleep 0.2; done"


@pytest.fixture
def tool(clusters_of_session: None, tmp_path: Path) -> Iterator[Tool]:
    """A cluster that preempts: the ResourceManager reads that when it starts."""
    with another(tmp_path) as (cluster, tool):
        add_properties(cluster.home / "conf/yarn-site.xml", PREEMPTION)
        cluster.kill("resourcemanager")
        assert "resourcemanager" in cluster.heal()
        yield tool


def until(tool: Tool, job: str, state: str, used: int) -> None:
    """Wait until a job has this state and this number of retries."""
    tool.until(
        job, lambda seen: (seen["state"], (seen["retries"] or {"used": 0})["used"]) == (state, used)
    )


def test_a_preempted_worker_is_replaced_when_the_queue_gives_back(tool: Tool) -> None:
    """Both queues have half of 12 GiB; the training takes more than its half."""
    learnt, done = tool.cwd / "learnt", tool.cwd / "done"
    train, other = UNTIL.format(learnt), UNTIL.format(done)
    roles = {"chief": {"memory": "256Mi"}, "worker": {"memory": "3Gi", "instances": 3}}
    spec = tool.spec("preempted", strategy="multi-worker", command=train, retries=3, roles=roles)
    assert tool("submit", spec, "--detach").status == 0
    until(tool, "preempted", "RUNNING", 0)
    greedy = tool.spec(
        "greedy", strategy="single", queue="ml", command=other, roles={"chief": {"memory": "4Gi"}}
    )
    assert tool("submit", greedy, "--detach").status == 0
    until(tool, "greedy", "RUNNING", 0)
    # it waits for room, and neither fails nor uses up its retries
    until(tool, "preempted", "STARTING", 1)
    time.sleep(10)
    assert tool.status("preempted")["retries"]["used"] == 1
    waiting = tool("status", "preempted").stdout
    done.touch()
    assert tool("wait", "greedy").status == 0
    until(tool, "preempted", "RUNNING", 1)
    learnt.touch()
    ended = tool("wait", "preempted", "-o", "json")
    assert (ended.status, ended.json["state"], ended.json["confirmed"]) == (0, "SUCCEEDED", True)
    (lost,) = ended.json["retries"]["generations"]
    assert lost["task"].startswith("worker-"), lost
    assert lost["task"] in waiting
    # the rest depends on whether its program ended before YARN's SIGKILL, 250 ms later
    assert (lost["kind"], "by SIGTERM" in lost["message"]) == ("lost", True), lost["message"]
    gone("preempted")
    assert not processes_of("preempted")
