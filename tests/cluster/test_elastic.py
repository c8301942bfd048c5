"""Elastic roles on a real cluster: fewer tasks than wanted, lost ones, and `scale`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster.conftest import (
    DockerCluster,
)
from tests.cluster.elastic import (
    SMALL,
    finishes,
    program,
    shrinks_and_grows,
)
from tests.tool import (
    Tool,
)

pytestmark = pytest.mark.cluster


def test_a_training_shrinks_and_grows(tool: Tool) -> None:
    shrinks_and_grows(tool)


@pytest.mark.long
def test_keras_goes_on_with_fewer_workers_and_with_more(tool: Tool) -> None:
    spec = tool.spec(
        "keras-elastic",
        strategy="multi-worker",
        command=["python", "keras_restore.py", str(tool.cwd / "backup"), "150"],
        files=program("keras_restore.py"),
        env={"TF_CPP_MIN_LOG_LEVEL": "1"},
        retries=3,
        roles={
            "chief": {"memory": "1Gi"},
            "worker": {"memory": "1Gi", "instances": {"min": 1, "max": 2, "grow_after": "5s"}},
        },
    )
    assert tool("submit", spec, "--detach").status == 0
    for number, count in enumerate((1, 2)):
        tool.printed("keras-elastic", "worker-0", f"of generation {number}")
        scaled = tool("scale", "keras-elastic", f"worker={count}")
        assert scaled.status == 0, scaled.stderr
    tool.printed("keras-elastic", "worker-1", "of generation 2")
    retried = finishes(tool, "keras-elastic")
    assert [entry["kind"] for entry in retried["generations"]] == ["shrunk", "grown"]
    said = tool.output("keras-elastic", "worker-0")
    epochs = [line.split()[1] for line in said.splitlines() if line.startswith("epoch ")]
    assert epochs[-1] == "149"
    # at most the epoch that was not saved is done again
    assert len(epochs) - len(set(epochs)) <= 2, epochs


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a Docker Engine")
@pytest.mark.parametrize("network", ["bridge", "host"])
def test_a_training_shrinks_and_grows_in_docker(
    docker_cluster: DockerCluster, session_environ: dict[str, str], tmp_path: Path, network: str
) -> None:
    tool = Tool(session_environ, docker_cluster.profiles[network], tmp_path)
    worker = {"instances": {"min": 1, "max": 2, "grow_after": "3s"}}
    spec = tool.spec(
        "docked-elastic",
        image="submit_tf_job/base:1",
        strategy="multi-worker",
        command='echo "$TFJOB_RANK of $TFJOB_WORLD_SIZE in $TFJOB_GENERATION"; sleep 40',
        retries=3,
        stop_grace="2s",
        roles={"chief": SMALL, "worker": {**SMALL, **worker}},
    )
    try:
        assert tool("submit", spec, "--detach").status == 0
        tool.printed("docked-elastic", "worker-0", "1 of 3 in 0")
        assert tool("scale", "docked-elastic", "worker=1").status == 0
        tool.printed("docked-elastic", "worker-0", "1 of 2 in 1")
        assert tool("scale", "docked-elastic", "worker=2").status == 0
        tool.printed("docked-elastic", "worker-1", "2 of 3 in 2")
        retried = finishes(tool, "docked-elastic")
        assert [entry["kind"] for entry in retried["generations"]] == ["shrunk", "grown"]
    finally:
        tool.tidy()
