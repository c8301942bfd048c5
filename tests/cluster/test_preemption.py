"""A training whose worker the capacity scheduler preempts for another queue goes on later, or is
told so; queues that are stopped and removed under a job.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import clusters
from tests.cluster.conftest import administer, scheduler_of
from tests.clusters import Cluster, add_properties
from tests.tool import Tool, gone, held, kill, processes_of, release

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


@pytest.fixture(scope="module")
def cluster(clusters_of_session: None) -> Iterator[Cluster]:
    """A cluster that preempts: the ResourceManager reads that when it starts."""
    with clusters.own("preempts") as cluster:
        cores = {"yarn.nodemanager.resource.cpu-vcores": "96"}  # for many small tasks
        add_properties(cluster.home / "conf/yarn-site.xml", {**PREEMPTION, **cores})
        for daemon in ("resourcemanager", "nodemanager"):
            cluster.kill(daemon)
        assert set(cluster.heal()) == {"resourcemanager", "nodemanager"}
        yield cluster


@pytest.fixture
def tool(cluster: Cluster, tmp_path: Path) -> Iterator[Tool]:
    made = Tool(clusters.environment(), cluster.profile, tmp_path)
    yield made
    made.tidy()


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


def test_a_preempted_job_without_retries_is_told_so(tool: Tool) -> None:
    roles = {"chief": {"memory": "256Mi"}, "worker": {"memory": "3Gi", "instances": 3}}
    spec = tool.spec("robbed", strategy="multi-worker", command=held("robbed"), roles=roles)
    assert tool("submit", spec, "--detach").status == 0
    until(tool, "robbed", "RUNNING", 0)
    taker = tool.spec(
        "taker",
        strategy="single",
        queue="ml",
        command=held("taker"),
        roles={"chief": {"memory": "4Gi"}},
    )
    assert tool("submit", taker, "--detach").status == 0
    done = tool("wait", "robbed", "-o", "json")
    release("taker")
    print(done.json["reason"], done.json["root_cause"])
    assert (done.status, done.json["state"]) == (1, "FAILED"), done
    cause = done.json["root_cause"]
    assert (cause["code"], cause["task"][:7]) == ("preempted", "worker-"), cause
    assert tool("wait", "taker").status == 0
    gone("robbed")


def test_a_queue_is_stopped_and_removed_under_a_job(tool: Tool, cluster: Cluster) -> None:
    """What runs in it goes on; YARN refuses to remove a queue that is not empty."""
    roles = {"chief": {"memory": "256Mi"}, "worker": {"memory": "256Mi"}}
    spec = tool.spec(
        "queued",
        strategy="multi-worker",
        queue="ml",
        command=held("queued"),
        retries=1,
        roles=roles,
    )
    assert tool("submit", spec, "--detach").status == 0
    until(tool, "queued", "RUNNING", 0)
    prefix = "yarn.scheduler.capacity.root."
    with scheduler_of(cluster) as refresh:
        refresh({f"{prefix}ml.state": "STOPPED"})
        late = tool.spec(
            "queued-late",
            strategy="single",
            queue="ml",
            command="true",
            roles={"chief": {"memory": "256Mi"}},
        )
        refused = tool("submit", late)
        print(refused.stderr)
        assert refused.status not in (0, 70), refused
        kill("queued", "worker-0")  # a container in place of one is no new application
        until(tool, "queued", "RUNNING", 1)
        without = {f"{prefix}queues": "default", f"{prefix}default.capacity": "100"}
        try:
            refresh(without)
            print("the queue was removed")
        except AssertionError as error:
            print("YARN refuses to remove it:", str(error)[-300:])
        assert tool.status("queued")["state"] == "RUNNING"
        release("queued", tasks=2)
        done = tool("wait", "queued", "-o", "json")
        assert (done.status, done.json["state"], done.json["confirmed"]) == (0, "SUCCEEDED", True)
        gone("queued")
        administer(cluster, "-refreshQueues")


def test_sixty_four_tasks(tool: Tool) -> None:
    """They meet, train, and end, on one node."""
    small = {"memory": "128Mi"}
    spec = tool.spec(
        "many",
        strategy="multi-worker",
        command="sleep 5",
        roles={"chief": small, "worker": {**small, "instances": 63}},
    )
    begun = time.monotonic()
    done = tool("submit", spec, "-o", "json")
    print(f"64 tasks: {done.json['state']} after {time.monotonic() - begun:.0f} s")
    assert (done.status, done.json["state"], done.json["confirmed"]) == (0, "SUCCEEDED", True), done
    gone("many")
