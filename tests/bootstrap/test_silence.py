"""Nodes that vanish without a word, on real networks: partitions, paused machines, reboots."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from submit_tf_job.container import contract
from tests.bootstrap.harness import HOLD, UNTIL_GO, WITNESS, Cluster, generations, pair
from tests.bootstrap.nodes import MISSING, Nodes, nodes

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

PING_S = 0.5
LONG_S, SHORT_S = 30, 2  # `grace`, longer and shorter than what happens
BUSY_S = 10  # one that a task of a busy machine, which only comes late, does not reach
RAN = f"echo started; {UNTIL_GO}"


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Nodes]:
    """A job's containers, each on a node of its own."""
    with nodes(tmp_path) as made:
        yield made


def train(job: Cluster, grace_s: float, ping_s: float = PING_S) -> None:
    """Start a chief and two workers that run until they are told."""
    roles = pair(RAN, workers=2)
    job.job(roles, grace_s=grace_s, ping_s=ping_s)
    job.start()
    for name in job.names():
        job.printed(name, "started")


def retry(net: Nodes) -> None:
    """Start a job with `retries`."""
    roles = pair(HOLD, workers=2)
    retries = {"max": 3, "on": ["lost"]}
    net.job({**roles, "witness": WITNESS}, retries=retries, grace_s=BUSY_S, ping_s=PING_S)
    net.start()
    for name in ("chief-0", "worker-0", "worker-1"):
        net.printed(name, "generation 0")


def succeeds_as_if_nothing_had_been(job: Cluster) -> None:
    job.until(lambda: job.report().get("roles", {}).get("worker", {}).get("running") == 2)
    job.go()
    assert job.wait_all() == {"chief-0": 0, "worker-0": 0, "worker-1": 0}
    report = job.report()
    assert (report["state"], report["first_failure"]) == ("succeeded", None)
    assert report["later_failures"] == []
    assert [job.stdout(name) for name in job.names()] == ["started\n"] * 3


def loses(job: Cluster, names: str | set[str], begun: float, grace_s: float = SHORT_S) -> None:
    """Wait until a job fails because a task is out of reach, not too soon."""
    assert job.wait("chief-0", grace_s + 60) == contract.EXIT_JOB_FAILED
    assert grace_s <= time.monotonic() - begun
    first = job.report()["first_failure"]
    assert first["task"] in ({names} if isinstance(names, str) else names)
    assert first["reason"] == "lost"


def test_partition_shorter_than_grace_heals(net: Nodes) -> None:
    train(net, LONG_S)
    net.pull(net.homes["worker-1"])
    net.lost_each_other("worker-1")
    net.plug(net.homes["worker-1"])
    succeeds_as_if_nothing_had_been(net)


def test_partition_longer_than_grace_fails_the_job_and_the_task_ends_by_itself(net: Nodes) -> None:
    train(net, SHORT_S)
    begun = time.monotonic()
    net.pull(net.homes["worker-1"])
    loses(net, "worker-1", begun)
    assert net.wait("worker-0") == contract.EXIT_JOB_FAILED
    assert net.wait("worker-1") == contract.EXIT_DECIDING_LOST
    net.empty()


def test_partition_of_the_deciding_task_ends_every_side_by_itself(net: Nodes) -> None:
    train(net, SHORT_S)
    begun = time.monotonic()
    net.pull(net.homes["chief-0"])
    loses(net, {"worker-0", "worker-1"}, begun)
    assert net.wait("worker-0") == net.wait("worker-1") == contract.EXIT_DECIDING_LOST
    net.empty()


@pytest.mark.parametrize(
    ("name", "noticed_by", "status"),
    [("worker-0", "chief-0", 0), ("chief-0", "worker-0", contract.EXIT_DECIDING_LOST)],
)
def test_replaced_task_leaves_when_the_partition_heals(
    net: Nodes, name: str, noticed_by: str, status: int
) -> None:
    retry(net)
    former = net.runs[name]
    net.pull(net.homes[name])
    net.until(lambda: "all tasks start again" in net.stderr(noticed_by))
    node = net.move(name)
    net.start(name)  # as YARN would
    for task in ("chief-0", "worker-0", "worker-1"):
        net.printed(task, "generation 1")
    net.plug(node)
    assert former.wait(60) == status
    net.empty(node)
    net.succeeds()
    assert generations(net) == [(0, name, "lost")]
    assert net.stdout(name) == "generation 1\n"
    net.empty()


@pytest.mark.parametrize("task", ["chief-0", pytest.param("worker-1", marks=pytest.mark.long)])
def test_paused_machine_shorter_than_grace_goes_on(net: Nodes, task: str) -> None:
    train(net, LONG_S)
    net.pause(net.homes[task])
    waiting, away = ("chief-0", task) if task != "chief-0" else ("worker-0", task)
    net.until(lambda: f"the connection to {away} went away" in net.stderr(waiting))
    net.resume(net.homes[task])
    succeeds_as_if_nothing_had_been(net)


@pytest.mark.long
def test_paused_machine_of_the_deciding_task_longer_than_grace_ends_the_job(net: Nodes) -> None:
    train(net, SHORT_S)
    begun = time.monotonic()
    net.pause(net.homes["chief-0"])
    assert net.wait("worker-0") == net.wait("worker-1") == contract.EXIT_DECIDING_LOST
    assert time.monotonic() - begun >= SHORT_S
    net.resume(net.homes["chief-0"])
    assert net.wait("chief-0") == contract.EXIT_JOB_FAILED
    assert any("chief-0 stood still for" in text for text in net.report()["warnings"])
    net.empty()


def test_rebooted_node_of_the_deciding_task_answers_that_nobody_listens(net: Nodes) -> None:
    train(net, LONG_S)
    net.reboot(net.homes["chief-0"])
    assert net.wait("worker-0") == net.wait("worker-1") == contract.EXIT_DECIDING_LOST
    # the new kernel refuses connections
    assert "has ended, and YARN does not start it again" in net.stderr("worker-0")
    net.empty()
