"""Ranks and addresses for programs of any framework."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.container import contract, facts
from submit_tf_job.container.info import Info

END = "mnist.alice.sandbox.test:2222"


def of(task: str, cwd: str = "/cwd", suffix: bool = True, **roles: tuple[int, str]) -> Info:
    described: dict[str, Any] = {
        name.replace("_", "-"): {"count": count, "kind": kind}
        for name, (count, kind) in (roles or ROLES).items()
    }
    description = {
        "version": 1,
        "job": "mnist",
        "submission": "abc",
        "deciding": next(iter(described)),
        "ports": {"mode": "own-address"},
        "cluster_roles": [],
        "roles": described,
    }
    env = {contract.ENV_INSTANCE: task}
    if suffix:
        env[contract.ENV_HOSTNAME] = f"{task}.mnist.alice.sandbox.test"
    return Info(description, env, cwd)


ROLES = {
    "main": (2, "trains"),
    "chief": (1, "trains"),
    "ps": (1, "serves"),
    "evaluator": (1, "evaluates"),
    "a_reader": (2, "serves"),
    "tensorboard": (1, "sidecar"),
}


@pytest.mark.parametrize(("task", "rank"), [("main-0", "0"), ("main-1", "1"), ("chief-0", "2")])
def test_variables_of_tasks_that_train(task: str, rank: str) -> None:
    assert facts.variables(of(task)) == {
        "TFJOB_RANK": rank,
        "TFJOB_WORLD_SIZE": "3",
        "TFJOB_LOCAL_RANK": "0",
        "TFJOB_ADDRESS": f"main-0.{END}",
    }


@pytest.mark.parametrize("task", ["ps-0", "evaluator-0", "a-reader-1", "tensorboard-0"])
def test_variables_of_other_tasks_have_no_rank(task: str) -> None:
    assert facts.variables(of(task)) == {
        "TFJOB_WORLD_SIZE": "3",
        "TFJOB_ADDRESS": f"main-0.{END}",
    }


def test_host_variables_are_lists_of_each_role_but_sidecars() -> None:
    found, files = facts.host_variables(of("ps-0"))
    assert found == {
        "TFJOB_HOSTS_MAIN": f"main-0.{END},main-1.{END}",
        "TFJOB_HOSTS_CHIEF": f"chief-0.{END}",
        "TFJOB_HOSTS_PS": f"ps-0.{END}",
        "TFJOB_HOSTS_EVALUATOR": f"evaluator-0.{END}",
        "TFJOB_HOSTS_A_READER": f"a-reader-0.{END},a-reader-1.{END}",
    }
    assert files == {}


def test_addresses_replace_names_that_do_not_resolve() -> None:
    info = of("worker-1", worker=(2, "trains"))
    info.hosts = {"worker-0": "10.0.0.1", "worker-1": "10.0.0.2"}
    assert facts.variables(info)["TFJOB_ADDRESS"] == "10.0.0.1:2222"
    assert facts.host_variables(info)[0] == {"TFJOB_HOSTS_WORKER": "10.0.0.1:2222,10.0.0.2:2222"}


def test_job_without_names_gets_ranks_alone() -> None:
    info = of("chief-0", suffix=False, chief=(1, "trains"))
    assert facts.variables(info) == {
        "TFJOB_RANK": "0", "TFJOB_WORLD_SIZE": "1", "TFJOB_LOCAL_RANK": "0",
    }  # fmt: skip
    assert facts.host_variables(info) == ({}, {})


def test_install_writes_long_lists_to_files(tmp_path: Path) -> None:
    info = of("chief-0", str(tmp_path), chief=(1, "trains"), my_worker=(5000, "trains"))
    env: dict[str, str] = {}
    facts.install(env, info)
    assert "TFJOB_HOSTS_MY_WORKER" not in env
    lines = Path(env["TFJOB_HOSTFILE_MY_WORKER"]).read_text().splitlines()
    assert (len(lines), lines[4999]) == (5000, f"my-worker-4999.{END}")
    assert env["TFJOB_HOSTS_CHIEF"] == f"chief-0.{END}"
    assert max(map(len, env.values())) < facts.MOST_IN_VARIABLES
