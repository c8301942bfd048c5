"""A node of the sandbox with Docker that is set up badly, or breaks while a job runs: each is the
root cause that is named.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.calls import until
from tests.cluster.conftest import (
    DockerCluster,
)
from tests.tool import (
    Tool,
)

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a Docker Engine"),
]

SMALL = {"memory": "256Mi"}
IMMORTAL = "local/immortal:1"


@pytest.fixture
def tool(
    docker_cluster: DockerCluster, session_environ: dict[str, str], tmp_path: Path
) -> Iterator[Tool]:
    """The tool, with jobs on a bridge."""
    made = Tool(session_environ, docker_cluster.profiles["bridge"], tmp_path)
    yield made
    made.tidy()


def single(tool: Tool, name: str, **content: Any) -> Path:
    """Write a job spec of one small task."""
    return tool.spec(
        name, strategy="single", **{"command": "true", "roles": {"worker": SMALL}, **content}
    )


def test_a_published_port_is_linked_where_it_is_reached(tool: Tool) -> None:
    board = {
        "command": "exec python3 -m http.server 6006",
        "ports": {"http": 6006, "other": 6007},
        "docker": {"publish": ["28086:6006"]},
    }
    roles = {"chief": {**SMALL, "command": "sleep 600"}, "board": {**SMALL, **board}}
    assert (
        tool("submit", tool.spec("served", strategy="single", roles=roles), "--detach").status == 0
    )
    tool.until("served", lambda seen: seen["state"] == "RUNNING")
    links = until(lambda: tool("describe", "served", "-o", "json").json["links"])
    by_name = {link["name"]: link for link in links}
    assert (by_name["http"]["url"], by_name["http"]["via"]) == ("http://localhost:28086", None)
    assert (by_name["other"]["url"].startswith("http://172.30."), by_name["other"]["via"]) == (
        True,
        "localhost",
    )
    until(lambda: tool("open", "served", "board", "--port", "http", "-o", "json").json["reachable"])
    assert tool("stop", "served").status == 0


@pytest.mark.long
def test_stop_names_a_container_that_ignores_its_stop_signal(
    tool: Tool, docker_cluster: DockerCluster
) -> None:
    spec = single(tool, "stubborn", image=IMMORTAL, command="sleep 900")
    assert tool("submit", spec, "--detach").status == 0
    tool.until("stubborn", lambda seen: seen["state"] == "RUNNING")
    stopped = tool("stop", "stubborn", "-o", "json")
    assert stopped.status == 8, stopped
    error = json.loads(stopped.stderr[stopped.stderr.index("{") :])
    assert (error["code"], [one["state"] for one in error["details"]["containers"]]) == (
        "deadline-passed",
        ["KILLING"],
    )
    assert error["details"]["containers"][0]["id"] in error["message"]
    left = docker_cluster.docker("ps", "-q", "--filter", "name=container_").split()
    assert left
    docker_cluster.docker("kill", *left)
    assert tool("stop", "stubborn").status == 0
