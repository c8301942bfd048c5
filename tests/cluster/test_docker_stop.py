"""A container that does not end at its image's STOPSIGNAL: `stop` names it, with a status that a
script can see.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cluster.conftest import (
    DockerCluster,
)
from tests.tool import (
    Tool,
)

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a Docker Engine"),
]


@pytest.mark.long
def test_stop_names_a_container_that_ignores_its_stop_signal(
    docker_cluster: DockerCluster, session_environ: dict[str, str], tmp_path: Path
) -> None:
    docker_cluster.docker(
        "build",
        "-t",
        "local/stubborn:1",
        "-",
        stdin=b"FROM submit_tf_job/base:1\nSTOPSIGNAL SIGUSR1\n",
    )
    tool = Tool(session_environ, docker_cluster.profiles["bridge"], tmp_path)
    spec = tool.spec(
        "stubborn",
        image="local/stubborn:1",
        strategy="single",
        command="sleep 900",
        roles={"chief": {"memory": "256Mi"}},
    )
    try:
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
    finally:
        tool.tidy()
