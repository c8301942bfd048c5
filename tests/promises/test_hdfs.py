"""HDFS does what an upload relies on."""

from __future__ import annotations

import pytest

from submit_tf_job.container.data import stores
from tests.clusters import Cluster
from tests.hdfs import environ_of
from tests.world.hdfs_rules import check_rules

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("scheme", ["webhdfs", "hdfs"])
def test_hdfs_does_what_the_one_in_memory_does(simple: Cluster, unique: str, scheme: str) -> None:
    """By both clients of a container; in memory: tests/unit/container/test_uploads.py."""
    root = {"webhdfs": simple.namenode_url.replace("http:", "webhdfs:"), "hdfs": simple.hdfs_uri}
    uri = f"{root[scheme].rstrip('/')}/tmp/rules-{scheme}-{unique}"
    env = {**environ_of(simple), "HADOOP_USER_NAME": simple.user}
    check_rules(*stores.open_store(uri, env))
