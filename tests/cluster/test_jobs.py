"""Whole jobs on the real cluster that tests/promises does not have."""

from __future__ import annotations

import pytest
import requests

from tests.cluster.conftest import (
    SPECS,
)
from tests.clusters import Cluster
from tests.tool import (
    Tool,
    gone,
)

pytestmark = pytest.mark.cluster

SMALL = {"memory": "256Mi"}


def test_an_estimator_trains_and_ends(tool: Tool) -> None:
    tool.jobs.append("test-estimator")
    spec = SPECS / "estimator.yaml"
    done = tool("submit", spec, "--name", "test-estimator", "-o", "json")
    assert done.status == 0, done.stderr
    assert (done.json["state"], done.json["confirmed"], done.json["tasks"]["missing"]) == (
        "SUCCEEDED",
        True,
        [],
    )
    gone("test-estimator")


def test_the_environment_and_command_arrive_exactly(tool: Tool) -> None:
    odd = "a\"b'c\\d$HOME `id` ${COMPONENT_NAME} {{y}} }} <CPS> <LOG_DIR> ü\nsecond line"
    check = (
        "import json, os, sys; c = json.loads(os.environ['TF_CONFIG']); assert "
        "c['task']['type'] == 'worker', c;"
        " assert c['task']['index'] in (0, 1), c; assert len(c['cluster']['worker']) == 2;"
        " assert os.environ['ODD'] == sys.argv[1], (os.environ['ODD'], sys.argv[1])"
    )
    spec = tool.spec(
        "bare",
        strategy="multi-worker",
        command=["python3", "-c", check, odd],
        env={"ODD": odd},
        roles={"worker": {"memory": "256Mi", "instances": 2}},
    )
    done = tool("submit", spec, "-o", "json")
    assert done.status == 0, done.stderr + done.stdout


@pytest.mark.parametrize("status", [22, 24])
def test_a_node_is_healthy_after_statuses_that_hadoop_takes_for_its_own(
    tool: Tool, real_cluster: Cluster, status: int
) -> None:
    name = f"ends-with-{status}"
    command = f"exit {status}"
    spec = tool.spec(name, strategy="single", command=command, roles={"worker": SMALL})
    done = tool("submit", spec, "-o", "json")
    assert (done.status, done.json["failure"]["status"]) == (1, status), done
    node = requests.get(f"{real_cluster.nm_url}/ws/v1/node/info", timeout=30).json()["nodeInfo"]
    assert node["nodeHealthy"], node


def test_another_user_has_jobs_of_their_own(tool: Tool) -> None:
    """Of the same name, one after the other."""
    spec = tool.spec(
        "of-alice", strategy="single", command="echo hello $USER", roles={"worker": SMALL}
    )
    theirs = tool("submit", spec, "--user", "alice", "-o", "json")
    assert theirs.status == 0, theirs.stderr
    assert theirs.json["user"] == "alice"
    assert tool("status", "of-alice").status == 5, "names are per user"
    bobs = tool("submit", spec, "--user", "bob", "-o", "json")
    assert (bobs.status, bobs.json["user"]) == (0, "bob"), bobs
    for user in ("alice", "bob"):
        assert tool("delete", "of-alice", "--user", user).status == 0
