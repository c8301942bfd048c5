"""Node labels (partitions) on a real cluster of two nodes, one of them labelled."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests

from tests.cluster.conftest import administer, another
from tests.clusters import Cluster, add_properties
from tests.tool import SUBMIT_S, Tool

pytestmark = pytest.mark.cluster

SMALL = {"memory": "128Mi"}
QUEUES = {
    "root.accessible-node-labels": "fast",
    "root.accessible-node-labels.fast.capacity": "100",
    "root.default.accessible-node-labels": "fast",
    "root.default.accessible-node-labels.fast.capacity": "100",
}


def label(cluster: Cluster) -> None:
    """Let the second node have the label `fast`, as an administrator does."""
    conf = cluster.home / "conf"
    add_properties(conf / "yarn-site.xml", {"yarn.node-labels.enabled": "true"})
    cluster.kill("resourcemanager")
    assert "resourcemanager" in cluster.heal()
    administer(cluster, "-addToClusterNodeLabels", "fast(exclusive=true)")
    port = cluster.info["ports"]["nm"]
    administer(cluster, "-replaceLabelsOnNode", f"127.0.0.2:{port}=fast")
    queues = {f"yarn.scheduler.capacity.{name}": text for name, text in QUEUES.items()}
    add_properties(conf / "capacity-scheduler.xml", queues)
    administer(cluster, "-refreshQueues")


def applications(info: Cluster) -> list[str]:
    answer = requests.get(f"{info.rm_url}/ws/v1/cluster/apps", timeout=30).json()
    return [app["name"] for app in (answer["apps"] or {"app": []})["app"]]


def test_node_label(clusters_of_session: None, tmp_path: Path) -> None:
    """A task is on the node that has its label; a label of no node is refused before the POST."""
    with another(tmp_path, "--nodes", "2") as (cluster, tool):
        label(cluster)
        _a_label_that_no_node_has(tool)
        assert applications(cluster) == [], "nothing was posted"
        _a_label_that_a_node_has(tool)


def _a_label_that_a_node_has(tool: Tool) -> None:
    there, elsewhere = (f"echo $NM_HOST; test $NM_HOST {how} 127.0.0.2" for how in ("=", "!="))
    roles = {
        "chief": {**SMALL, "placement": {"node_label": "fast"}, "command": there},
        "worker": {**SMALL, "instances": 2, "command": elsewhere},
    }
    done = tool(
        "submit", tool.spec("label-fast", strategy="multi-worker", roles=roles), timeout=SUBMIT_S
    )
    assert done.status == 0, done.stderr


def _a_label_that_no_node_has(tool: Tool) -> None:
    role = {**SMALL, "placement": {"node_label": "slow"}}
    spec = tool.spec("label-none", strategy="single", command="true", roles={"worker": role})
    refused = tool("submit", spec)
    assert (refused.status, refused.stdout) == (9, ""), refused
    problem, hint = refused.stderr.splitlines()
    assert "roles.worker.placement.node_label: no node is labelled slow" in problem
    assert problem.endswith("the labels of nodes are fast")
    assert hint.startswith("  hint: correct node_label, or have an administrator label nodes; if ")
