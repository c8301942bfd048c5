"""The variables by which the processes of PyTorch and JAX find one another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.container import contract
from submit_tf_job.container.frameworks import peers
from submit_tf_job.container.info import Info

SUFFIX = "mnist.alice.sandbox.test"


def role(count: int, kind: str = "trains", **values: Any) -> dict[str, Any]:
    return {"count": count, "kind": kind, "command": ["x"], "gpus": 0, **values}


ROLES = {
    "worker": role(2, gpus=4),
    "chief": role(1),
    "reader": role(1),
    "evaluator": role(1, "evaluates"),
    "tensorboard": role(1, "sidecar"),
}


def variables(
    task: str,
    framework: str = "torch",
    roles: dict[str, Any] | None = None,
    hosts: dict[str, str] | None = None,
) -> dict[str, str]:
    description = {
        "version": contract.TASK_VERSION,
        "submission": "abc",
        "deciding": "chief",
        "framework": framework,
        "cluster_roles": ["chief", "worker"],
        "ports": {"mode": "own-address"},
        "roles": roles or ROLES,
    }
    env = {contract.ENV_INSTANCE: task, contract.ENV_HOSTNAME: f"{task}.{SUFFIX}"}
    info = Info(description, env, str(Path("/")))
    info.hosts = hosts or {}
    return peers.variables(info)


@pytest.mark.parametrize(
    ("task", "rank"), [("chief-0", "0"), ("worker-0", "1"), ("worker-1", "2"), ("reader-0", "3")]
)
def test_variables_rank_the_tasks_that_train_from_the_deciding_one(task: str, rank: str) -> None:
    torch, jax = variables(task), variables(task, "jax")
    assert (torch["RANK"], torch["PET_NODE_RANK"], torch["GROUP_RANK"]) == (rank, rank, rank)
    assert (torch["WORLD_SIZE"], torch["PET_NNODES"]) == ("4", "4")
    assert torch["PET_RDZV_CONF"] == f"is_host={int(rank == '0')}"
    assert (jax["JAX_PROCESS_ID"], jax["KERAS_DISTRIBUTION_PROCESS_ID"]) == (rank, rank)
    assert (jax["JAX_NUM_PROCESSES"], jax["KERAS_DISTRIBUTION_NUM_PROCESSES"]) == ("4", "4")


def test_variables_of_torch_name_the_first_task_and_this_one() -> None:
    found = variables("worker-1")
    assert found["MASTER_ADDR"] == found["PET_MASTER_ADDR"] == f"chief-0.{SUFFIX}"
    assert found["MASTER_PORT"] == found["PET_MASTER_PORT"] == "2222"
    assert found["PET_RDZV_ENDPOINT"] == f"chief-0.{SUFFIX}:2222"
    assert found["PET_LOCAL_ADDR"] == f"worker-1.{SUFFIX}"
    assert found["PET_RDZV_ID"] == "abc"


@pytest.mark.parametrize(("task", "processes"), [("chief-0", "1"), ("worker-0", "4")])
def test_variables_of_torch_start_a_process_for_each_gpu(task: str, processes: str) -> None:
    assert variables(task)["PET_NPROC_PER_NODE"] == processes


def test_variables_that_the_job_spec_states_are_kept() -> None:
    roles = {**ROLES, "worker": role(2, gpus=4, env={"PET_NPROC_PER_NODE": "2"})}
    assert "PET_NPROC_PER_NODE" not in variables("worker-0", roles=roles)


@pytest.mark.parametrize("framework", ["torch", "jax"])
@pytest.mark.parametrize("task", ["evaluator-0", "tensorboard-0"])
def test_variables_of_a_task_that_does_not_train(task: str, framework: str) -> None:
    assert variables(task, framework) == {}


def test_variables_of_jax() -> None:
    found = variables("chief-0", "jax")
    assert found["JAX_COORDINATOR_ADDRESS"] == f"chief-0.{SUFFIX}:2222"
    assert found["JAX_COORDINATOR_BIND_ADDRESS"] == "0.0.0.0:2222"
    assert found["KERAS_DISTRIBUTION_JOB_ADDRESSES"] == f"chief-0.{SUFFIX}:2222"
    assert found["KERAS_BACKEND"] == "jax"


def test_variables_have_addresses_where_names_do_not_resolve() -> None:
    hosts = {"chief-0": "10.0.0.1", "worker-0": "10.0.0.2", "worker-1": "10.0.0.3"}
    found = variables("worker-1", hosts=hosts)
    assert (found["MASTER_ADDR"], found["PET_LOCAL_ADDR"]) == ("10.0.0.1", "10.0.0.3")
