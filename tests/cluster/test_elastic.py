"""Elastic roles on a real cluster: fewer tasks than wanted, lost ones, and `scale`."""

from __future__ import annotations

import os
import re
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
    starts_with_fewer,
)
from tests.clusters import Cluster
from tests.tool import (
    Tool,
    kill,
)

pytestmark = pytest.mark.cluster


def test_a_training_shrinks_and_grows(tool: Tool) -> None:
    shrinks_and_grows(tool)


@pytest.mark.long
def test_a_training_starts_with_fewer_tasks(tool: Tool, real_cluster: Cluster) -> None:
    starts_with_fewer(tool, real_cluster.rm_url)


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
def test_a_worker_of_parameter_servers_comes_and_goes_without_a_new_generation(tool: Tool) -> None:
    spec = tool.spec(
        "ps-elastic",
        strategy="parameter-server",
        command=["python", "parameter_server.py"],
        files=program("parameter_server.py"),
        env={"STEPS": "6000", "TF_CPP_MIN_LOG_LEVEL": "1"},
        retries=3,
        roles={
            "chief": {"memory": "1Gi"},
            "worker": {"memory": "1Gi", "instances": {"min": 1, "max": 2}},
            "ps": {"memory": "1Gi"},
        },
    )
    assert tool("submit", spec, "--detach").status == 0
    tool.until("ps-elastic", lambda seen: ((seen["progress"] or {}).get("step") or 0) >= 100)
    kill("ps-elastic", "worker-1")
    assert finishes(tool, "ps-elastic")["generations"] == []
    assert "step 6000: loss" in tool.output("ps-elastic", "chief-0")
    assert "worker goes on with 1 tasks" in tool("events", "ps-elastic").stdout


@pytest.mark.long
def test_torch_goes_on_with_fewer_tasks(tool: Tool) -> None:
    frameworks = os.environ.get("SUBMIT_TF_JOB_TEST_FRAMEWORKS")
    if not frameworks:
        pytest.skip("SUBMIT_TF_JOB_TEST_FRAMEWORKS names no virtual environment with PyTorch")
    spec = tool.spec(
        "torch-elastic",
        strategy="torch",
        command="torchrun torch_train.py",
        files=program("torch_train.py"),
        env={
            "PATH": f"{frameworks}/bin:/usr/bin:/bin",
            "CHECKPOINT": str(tool.cwd / "saved.pt"),
            "STEPS": "30000",
        },
        retries=3,
        roles={"worker": {"memory": "2Gi", "instances": {"min": 1, "max": 3}}},
    )
    assert tool("submit", spec, "--detach").status == 0
    tool.printed("torch-elastic", "worker-0", "rank 0 of 3", 300)
    tool.until("torch-elastic", lambda _seen: (tool.cwd / "saved.pt").exists())
    scaled = tool("scale", "torch-elastic", "worker=2")
    assert scaled.status == 0, scaled.stderr
    retried = finishes(tool, "torch-elastic")
    assert [entry["kind"] for entry in retried["generations"]] == ["shrunk"]
    said = tool.output("torch-elastic", "worker-0")
    assert re.findall(r"rank 0 of (\d)", said) == ["3", "2"]
    assert int(re.findall(r"from step (\d+)", said)[-1]) > 0


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
