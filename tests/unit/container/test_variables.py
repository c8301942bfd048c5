"""Variables of other systems, from the addresses of TF_CONFIG."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from submit_tf_job.container import contract
from submit_tf_job.container.info import BootstrapProblem, Info
from submit_tf_job.container.systems import horovod, variables

TASK: dict[str, Any] = {
    "version": 1,
    "job": "mnist",
    "submission": "abc",
    "host_suffix": None,
    "ports": {"mode": "own-address"},
    "deciding": "chief",
    "cluster_roles": ["chief", "worker", "ps"],
    "roles": {
        "chief": {"count": 1, "kind": "trains"},
        "worker": {"count": 2, "kind": "trains"},
        "ps": {"count": 1, "kind": "serves"},
        "my-board": {"count": 1, "kind": "sidecar"},
    },
}
END = "mnist.alice.sandbox.test:2222"
CLUSTER = {
    "chief": [f"chief-0.{END}"],
    "worker": [f"worker-0.{END}", f"worker-1.{END}"],
    "ps": [f"ps-0.{END}"],
}


def of(task: str, *words: str, roles: dict[str, Any] | None = None) -> Info:
    description = {**TASK, "variables": list(words)}
    if roles is not None:
        description["roles"] = roles
    env = {
        contract.ENV_INSTANCE: task,
        contract.ENV_HOSTNAME: f"{task}.mnist.alice.sandbox.test",
        "CONTAINER_ID": "container_e17_1700000000000_0042_01_000003",
    }
    return Info(description, env, "/cwd")


def test_tony_counts_the_tasks_that_it_waits_for() -> None:
    found = variables.other_variables(of("worker-1", "tony"))
    assert json.loads(found.pop("CLUSTER_SPEC")) == {**CLUSTER, "my-board": [f"my-board-0.{END}"]}
    assert found == {
        "JOB_NAME": "worker",
        "TASK_INDEX": "1",
        "TASK_NUM": "3",
        "DISTRIBUTED_MODE": "GANG",
        "JOB_ID": "application_1700000000000_0042",
        "APPID": "application_1700000000000_0042",
        "SESSION_ID": "0",
        "ATTEMPT_NUMBER": "0",
        "NUM_AM_RETRIES": "0",
    }


def test_tony_s_chief_has_a_port_for_tensorboard_unless_a_role_is_called_so() -> None:
    found = variables.other_variables(of("chief-0", "tony"))
    assert found["IS_CHIEF"] == "true"
    assert 0 < int(found["TB_PORT"]) < 65536
    roles = {**TASK["roles"], "tensorboard": {"count": 1, "kind": "sidecar"}}
    assert "TB_PORT" not in variables.other_variables(of("chief-0", "tony", roles=roles))
    board = of("tensorboard-0", "tony", roles=roles)
    board.served = {"http": 6006}
    assert variables.other_variables(board)["TB_PORT"] == "6006"


def test_submarine_calls_the_chief_master() -> None:
    assert variables.other_variables(of("chief-0", "submarine")) == {
        "_TASK_TYPE": "master",
        "_TASK_INDEX": "0",
    }


def test_hbox_has_the_cluster_of_tf_config_unless_the_task_is_alone() -> None:
    found = variables.other_variables(of("ps-0", "hbox"))
    assert json.loads(found.pop("TF_CLUSTER_DEF")) == CLUSTER
    assert found == {
        "TF_ROLE": "ps",
        "TF_INDEX": "0",
        "INDEX": "0",
        "LOCAL_ADDRESS": "ps-0.mnist.alice.sandbox.test",
    }
    alone = of("chief-0", "hbox", roles={"chief": {"count": 1, "kind": "trains"}})
    assert set(variables.other_variables(alone)) == {"TF_ROLE", "TF_INDEX", "INDEX"}


@pytest.mark.parametrize(("word", "has"), [("cloud", True), ("submarine", True), ("tony", False)])
def test_environment_is_added_to_tf_config(word: str, has: bool) -> None:
    made = variables.with_environment(of("ps-0", word), '{"task":{}}')
    assert json.loads(made) == {"task": {}, **({"environment": "cloud"} if has else {})}
    assert variables.with_environment(of("ps-0", word), "") == ""


def test_value_that_is_too_long_for_a_variable_fails_with_its_name() -> None:
    roles = {**TASK["roles"], "worker": {"count": 5000, "kind": "trains"}}
    with pytest.raises(BootstrapProblem, match=r"CLUSTER_SPEC has \d+ bytes"):
        variables.other_variables(of("ps-0", "tony", roles=roles))


def test_horovod_has_ranks_and_the_store_of_the_deciding_task() -> None:
    found = variables.other_variables(of("worker-1", "horovod"))
    assert found == {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_HOSTNAME": "worker-1",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "chief-0.mnist.alice.sandbox.test",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "2222",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "2000",
        "HOROVOD_RANK": "2",
        "HOROVOD_SIZE": "3",
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "1",
        "HOROVOD_CROSS_RANK": "2",
        "HOROVOD_CROSS_SIZE": "3",
    }


@pytest.mark.parametrize("task", ["ps-0", "my-board-0"])
def test_horovod_has_no_rank_for_tasks_that_do_not_train(task: str) -> None:
    assert variables.other_variables(of(task, "horovod")) == {}


def test_horovod_alone_needs_no_store() -> None:
    roles = {"chief": {"count": 1, "kind": "trains"}}
    info = of("chief-0", "horovod", roles=roles)
    assert variables.other_variables(info) == {}
    variables.serve(info)  # no server, so the unit tests' guard of sockets is content


def test_the_store_forgets_a_scope_when_all_processes_have_finished() -> None:
    store = object.__new__(horovod.Store)
    store.size, store.lock, store.done = 2, threading.Lock(), {}
    store.values = {
        "global_": {"0": b"a", "1": b"b"},
        "local_worker-0": {"0": b"a"},
        "own": {"k": b"v", "l": b"w"},
    }
    store.finish("global_", "0")
    assert store.values["global_"] == {"0": b"a", "1": b"b"}
    store.finish("global_", "0")  # a request that is repeated counts once
    assert "global_" in store.values
    store.finish("global_", "1")
    store.finish("local_worker-0", "0")
    store.finish("own", "k")
    assert store.values == {"own": {"l": b"w"}}
