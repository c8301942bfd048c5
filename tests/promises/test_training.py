"""The README's job: digits on HDFS, trained by three tasks on a real YARN; and by parameter
servers.
"""

from __future__ import annotations

import pytest

from tests.clusters import Cluster
from tests.promises.training import SPECS, trained
from tests.tool import Tool, gone

pytestmark = pytest.mark.cluster


def test_digits_on_hdfs_are_trained_by_three_tasks(
    tool: Tool, simple: Cluster, unique: str
) -> None:
    trained(tool, simple, f"digits-{unique}")


def test_parameter_servers_train_and_are_ended(tool: Tool, simple: Cluster, unique: str) -> None:
    name = f"ps-{unique}"
    tool.jobs.append(name)
    done = tool("submit", SPECS / "parameter-server.yaml", "--name", name, "-o", "json")
    assert done.status == 0, done.stderr
    told = done.json
    assert (told["state"], told["confirmed"], told["tasks"]["missing"]) == ("SUCCEEDED", True, [])
    gone(name)
