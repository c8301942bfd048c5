"""What a cluster as people have it refuses, cuts or rejects is told with its reason: queues with
limits of their own, a scheduler that rejects, and an HDFS that this host cannot reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import clusters
from tests.clusters import Cluster, add_properties
from tests.tool import Tool

pytestmark = [pytest.mark.cluster, pytest.mark.long]

PREFIX = "yarn.scheduler.capacity.root.ml."
SLEEP = {"command": "sleep 300", "strategy": "single", "roles": {"worker": {"memory": "256Mi"}}}
FAIR = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.FairScheduler"
RULES = """<?xml version="1.0"?>
<allocations>
  <queue name="research"/>
  <queuePlacementPolicy><rule name="specified" create="false"/><rule name="reject"/></queuePlacementPolicy>
</allocations>
"""


@pytest.fixture(scope="module")
def limited(clusters_of_session: None) -> Iterator[Cluster]:
    """A cluster whose queue ml has limits; a running one does not take a smaller container."""
    limits = {"maximum-allocation-mb": "1024", "maximum-application-lifetime": "50"}
    limits["default-application-lifetime"] = "40"
    with clusters.own("limits") as cluster:
        path = cluster.home / "conf/capacity-scheduler.xml"
        add_properties(path, {PREFIX + name: text for name, text in limits.items()})
        cluster.kill("resourcemanager")
        assert set(cluster.heal()) == {"resourcemanager"}
        yield cluster


@pytest.fixture
def on_limited(limited: Cluster, tmp_path: Path) -> Iterator[Tool]:
    made = Tool(clusters.environment(), limited.profile, tmp_path)
    yield made
    made.tidy()


def test_task_larger_than_the_largest_container_of_its_queue_is_refused(on_limited: Tool) -> None:
    roles = {"worker": {"memory": "2Gi"}}
    spec = on_limited.spec("capped", **{**SLEEP, "queue": "ml", "roles": roles})
    refused = on_limited("submit", spec)
    assert refused.status == 9, refused
    assert "roles.worker.memory" in refused.stderr
    assert "queue root.ml" in refused.stderr


@pytest.mark.parametrize("asked", [{"lifetime": "10m"}, {}])
def test_lifetime_that_a_queue_cuts_is_told_before_and_after(
    on_limited: Tool, asked: dict[str, str]
) -> None:
    spec = on_limited.spec("short", **SLEEP, **asked, queue="ml")
    done = on_limited("submit", spec, "-o", "json")
    assert (done.status, done.json["state"]) == (3, "STOPPED"), done
    assert "warning: " in done.stderr
    assert "root.ml" in done.stderr
    assert "queue ml ended it after" in done.json["reason"]
    assert "ask for a longer `lifetime`" not in done.json["hint"]


@pytest.fixture(scope="module")
def fair(clusters_of_session: None) -> Iterator[Cluster]:
    """A cluster with the FairScheduler, whose rules take named queues alone."""
    with clusters.own("fair") as cluster:
        rules = cluster.home / "conf/fair-scheduler.xml"
        rules.write_text(RULES)
        scheduler = {
            "yarn.resourcemanager.scheduler.class": FAIR,
            "yarn.scheduler.fair.allocation.file": str(rules),
        }
        add_properties(cluster.home / "conf/yarn-site.xml", scheduler)
        cluster.kill("resourcemanager")
        assert set(cluster.heal()) == {"resourcemanager"}
        yield cluster


@pytest.mark.parametrize("queue", [None, "nosuch"])
def test_job_that_the_fair_scheduler_rejects_is_told_so(
    fair: Cluster, tmp_path: Path, queue: str | None
) -> None:
    tool = Tool(clusters.environment(), fair.profile, tmp_path)
    asked = {"queue": queue} if queue else {}
    done = tool("submit", tool.spec("rejects", **SLEEP, **asked))
    tool.tidy()
    assert done.status == 9, done
    assert "eject" in done.stderr
    assert "already" not in done.stderr
    assert "ApplicationMaster" not in done.stderr


@pytest.mark.parametrize("place", ["localhost:1", "nn.nosuch.invalid:8020"])
def test_hdfs_that_this_host_cannot_reach_ends_a_submission_with_the_reason(
    tool: Tool, real_cluster: Cluster, tmp_path: Path, place: str
) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "core-site.xml").write_text("<configuration></configuration>")
    (conf / "yarn-site.xml").write_text((real_cluster.home / "conf/yarn-site.xml").read_text())
    add_properties(conf / "core-site.xml", {"fs.defaultFS": f"hdfs://{place}"})
    seen = tool.given(SUBMIT_TF_JOB_HADOOP_CONF=str(conf), SUBMIT_TF_JOB_TIMEOUTS_SUBMIT="20s")
    done = seen("submit", tool.spec("unreached", **SLEEP), "--detach")
    assert done.status == 7, done
    assert place.partition(":")[0] in done.stderr
    assert done.seconds < 60
    assert "same command again" not in done.stderr
