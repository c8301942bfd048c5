"""YARN accepts two POSTs of one name where the second one's server stands still between its check
and its first write (docs/internals/hadoop-facts.md#two-posts-of-one-name): one application stays,
and each client tells how it ended.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests import clusters
from tests.clusters import Cluster
from tests.tool import Tool, runs_of

pytestmark = [pytest.mark.cluster, pytest.mark.long]
ENDS_S = 300.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with clusters.own("overtaken") as made:
        clusters.overtake_posts(made)
        yield made


@pytest.fixture
def tool(cluster: Cluster, tmp_path: Path) -> Iterator[Tool]:
    made = Tool(clusters.environment(), cluster.profile, tmp_path)
    yield made
    made.tidy()


@pytest.mark.parametrize("later", ["stored-0", "posted-0", "posted-1000", "posted-6000"])
def test_one_application_stays_of_two_posts(cluster: Cluster, tool: Tool, later: str) -> None:
    """`later`: how long the second POST's server stands still: until the first one has stored the
    service, where YARN often refuses one of them; or until its POST has ended, and milliseconds
    longer. The first ApplicationMaster cannot start any more, or runs already.
    """
    name = f"overtaken-{later}-{secrets.token_hex(2)}"
    path = tool.spec(
        name, strategy="single", command="sleep 5", roles={"worker": {"memory": "128Mi"}}
    )
    clients = [tool.start("submit", path, "-o", "json") for _ in range(2)]
    ends = [(client.communicate(timeout=ENDS_S), client.returncode) for client in clients]
    assert [status for _, status in ends] == [0, 0], ends
    told = [json.loads(out) for (out, _), _ in ends]
    assert [end["state"] for end in told] == ["SUCCEEDED"] * 2, told
    assert len({end["application_id"] for end in told}) == 1, told
    found = requests.get(f"{cluster.rm_url}/ws/v1/cluster/apps", timeout=30).json()["apps"]["app"]
    apps = {app["id"]: app for app in runs_of(name, found)}
    stayed = apps.pop(told[0]["application_id"])
    assert (stayed["state"], stayed["finalStatus"]) == ("FINISHED", "SUCCEEDED"), stayed
    assert later == "stored-0" or len(apps) == 1, apps
    for app in apps.values():
        assert app["state"] in ("KILLED", "FAILED"), app
        assert re.search("withdrawn|due to AM Container", app["diagnostics"]), app
    again = tool("submit", path, "--once", "--detach", "-o", "json")
    assert again.json["application_id"] == stayed["id"], again
    assert tool("status", name, "-o", "json").json["state"] == "SUCCEEDED"
    tool("delete", name)
