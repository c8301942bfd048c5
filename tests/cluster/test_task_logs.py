"""The end of a large log on a real cluster is read from its end."""

from __future__ import annotations

import pytest
import requests

from tests.clusters import Cluster
from tests.tool import Tool, until

pytestmark = pytest.mark.cluster


def bytes_read(cluster: Cluster) -> int:
    """Ask the DataNode how much has been read of it."""
    url = f"http://localhost:{cluster.info['ports']['datanode_http']}/jmx"
    query = {"qry": "Hadoop:service=DataNode,name=DataNodeActivity-*"}
    [found] = requests.get(url, params=query, timeout=30).json()["beans"]
    return int(found["BytesRead"])


@pytest.mark.alone
def test_a_large_log(tool: Tool, real_cluster: Cluster) -> None:
    program = (
        "for i in range(1100000): print('%010d step loss=%d the quick brown fox' % (i, (i * "
        "7919) % 1000003))"
    )
    spec = tool.spec(
        "much",
        strategy="single",
        command=["python3", "-c", program],
        roles={"worker": {"memory": "256Mi"}},
    )
    assert tool("submit", spec).status == 0
    url = f"{real_cluster.rm_url}/ws/v1/cluster/apps/{tool.status('much')['application_id']}"
    collected = "SUCCEEDED"
    until(lambda: requests.get(url, timeout=30).json()["app"]["logAggregationStatus"] == collected)
    before = bytes_read(real_cluster)
    tail = tool("logs", "much", "worker-0", "--tail", "10", "--file", "stdout.txt", "--raw")
    read = bytes_read(real_cluster) - before
    assert [line.split()[-7] for line in tail.stdout.splitlines()] == [
        f"{number:010d}" for number in range(1_099_990, 1_100_000)
    ]
    print(f"the end of 50 MB: {read} bytes read of HDFS")
    assert read < 1_000_000
