"""One run, one name, on real clusters with Hadoop's default time-outs (`make matrix`: 3.1.3, too)."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import clusters
from tests.cluster.conftest import HADOOP_VERSIONS
from tests.clusters import Cluster
from tests.proxy import Judge
from tests.tool import SUBMIT_S, Tool

pytestmark = [pytest.mark.cluster, pytest.mark.long]
SMALL = {"memory": "128Mi"}


@pytest.fixture(scope="module", params=HADOOP_VERSIONS)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    options = ("--hadoop", request.param, "--default-timeouts")
    with clusters.own("runs", *options) as made:
        yield made


@pytest.fixture
def tool(cluster: Cluster, tmp_path: Path) -> Iterator[Tool]:
    made = Tool(clusters.environment(), cluster.profile, tmp_path)
    yield made
    made.tidy()


def tiny(tool: Tool, name: str, command: str = "sleep 3600") -> Path:
    return tool.spec(name, strategy="single", command=command, roles={"worker": SMALL})


def restart(cluster: Cluster) -> None:
    """Kill the ResourceManager, and start it again."""
    cluster.kill("resourcemanager")
    cluster.heal()


def name() -> str:
    return f"run-{secrets.token_hex(3)}"


def test_two_clients_and_a_resource_manager_that_is_killed_in_the_post(
    tool: Tool, cluster: Cluster
) -> None:
    for after_s in (0.2, 0.5, 0.9):
        job = name()
        path = tiny(tool, job)
        twins = [tool.start("submit", path, "--detach", "-o", "json") for _ in range(2)]
        time.sleep(0.6 + after_s)
        restart(cluster)
        ends = [(twin.communicate(timeout=SUBMIT_S), twin.returncode) for twin in twins]
        assert [status for _, status in ends] == [0, 0], ends
        found = {json.loads(out)["application_id"] for (out, _), _ in ends}
        assert len(found) == 1, ends
        live = [app for app in Judge(cluster).applications(job) if not Judge(cluster).ended(app)]
        assert live == list(found)
        assert tool("delete", job, "--force").status == 0


LOOK_UP = """
import json, os, socket, sys, time
members = json.loads(os.environ["TF_CONFIG"])["cluster"].values()
hosts = {address.rpartition(":")[0] for addresses in members for address in addresses}
while not os.path.exists(sys.argv[1]):
    for host in hosts:
        socket.getaddrinfo(host, 1)
    time.sleep(1)
"""


def test_a_training_with_retries_lives_through_two_restarts_where_its_job_ran_before(
    tool: Tool, cluster: Cluster
) -> None:
    """Each restart cleans up by name after each ended application; the one that ran before is
    deleted, and its ApplicationMaster may still be ending.
    """
    job, may_end = name(), tool.cwd / "may-end"
    (tool.cwd / "look_up.py").write_text(LOOK_UP)

    def training(command: str) -> Path:
        return tool.spec(
            job,
            strategy="multi-worker",
            files=["look_up.py"],
            retries=2,
            lifetime="1h",
            command=command,
            roles={"chief": SMALL, "worker": {**SMALL, "instances": 1}},
        )

    assert tool("submit", training("true")).status == 0
    before = tool.status(job)["run"]
    following = tool.start("submit", training(f"python3 look_up.py {may_end}"), "-o", "json")
    tool.until(job, lambda seen: seen["run"] != before and seen["state"] == "RUNNING")
    assert tool("delete", before).stdout == f"deleted: {before}\n"
    for _ in range(2):
        restart(cluster)
        time.sleep(30)  # what it cleans up is gone by then
    may_end.touch()
    out, err = following.communicate(timeout=SUBMIT_S)
    assert following.returncode == 0, err
    ended = json.loads(out)
    assert (ended["state"], ended["retries"]["used"]) == ("SUCCEEDED", 0), err
