"""The variables of tasks, as their commands see them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.container import contract
from tests.bootstrap.harness import FOREVER, Cluster, role

SHOW = 'env -0 >"../$TFJOB_ROLE-$TFJOB_INDEX.env"'
# the end of the job ends those that do not train
OTHERS_DID = "until [ -s ../a-board-0.env ] && [ -s ../ps-0.env ]; do sleep 0.05; done"
ROLES = {
    "chief": role(1, "trains", f"{SHOW}; {OTHERS_DID}"),
    "worker": role(2, "trains", SHOW, gpus=4),
    "reader": role(1, "trains", SHOW, env={"PET_NPROC_PER_NODE": "2"}),
    "ps": role(1, "serves", f"{SHOW}; sleep 600"),
    "evaluator": role(1, "evaluates", SHOW),
    "a-board": role(1, "sidecar", f"{SHOW}; sleep 600"),
}
TRAIN = ["chief-0", "worker-0", "worker-1", "reader-0"]  # by rank


def shown(job: Cluster, name: str) -> dict[str, str]:
    text = (job.root / "app" / f"{name}.env").read_text()
    return dict(line.split("=", 1) for line in text.split("\0") if line)


def of(found: dict[str, str], *starts: str) -> dict[str, str]:
    """Return the variables that begin so, without that."""
    pairs = [(name, value, start) for name, value in found.items() for start in starts]
    return {name[len(start) :]: value for name, value, start in pairs if name.startswith(start)}


def run(job: Cluster, **extra: Any) -> dict[str, dict[str, str]]:
    job.job(ROLES, **extra)
    job.start()
    assert {job.wait(name) for name in job.names() if name != "a-board-0"} == {0}
    return {name: shown(job, name) for name in job.names()}


def test_ranks_hosts_and_the_variables_of_torch(job: Cluster) -> None:
    tasks = run(job, framework="torch")
    at = {name: f"127.0.0.1:{port}" for name, port in job.ports().items()}
    for name, env in tasks.items():
        role_name, _, index = name.rpartition("-")
        facts = of(env, "TFJOB_")
        assert (facts["ROLE"], facts["INDEX"], facts["NAME"]) == (role_name, index, "mnist")
        assert facts["COUNT"] == str(ROLES[role_name]["count"])
        if role_name == "a-board":  # it starts before the others have addresses
            continue
        assert (facts["WORLD_SIZE"], facts["ADDRESS"]) == ("4", at["chief-0"])
        assert facts["PORT"] == str(job.ports()[name])
        assert facts["RUN"] == job.task["run"]
        assert facts["HOSTS_WORKER"] == f"{at['worker-0']},{at['worker-1']}"
        assert "HOSTS_A_BOARD" not in facts
        assert env["PYTHONUNBUFFERED"] == "1"
        if name not in TRAIN:
            assert "RANK" not in facts
            assert not of(env, "PET_", "MASTER_"), "it does not train"
            continue
        rank = str(TRAIN.index(name))
        assert (facts["RANK"], facts["LOCAL_RANK"]) == (rank, "0")
        assert (env["RANK"], env["GROUP_RANK"], env["WORLD_SIZE"]) == (rank, rank, "4")
        assert f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}" == at["chief-0"]
        assert of(env, "PET_") == {
            "NNODES": "4", "NODE_RANK": rank, "RDZV_CONF": f"is_host={int(rank == '0')}",
            "RDZV_ID": job.task["run"], "RDZV_ENDPOINT": at["chief-0"],
            "MASTER_ADDR": env["MASTER_ADDR"], "MASTER_PORT": env["MASTER_PORT"],
            "LOCAL_ADDR": "127.0.0.1",
            "NPROC_PER_NODE": {"chief": "1", "worker": "4", "reader": "2"}[role_name],
        }  # fmt: skip


def test_variables_of_jax(job: Cluster) -> None:
    tasks = run(job, framework="jax")
    first, port = f"127.0.0.1:{job.ports()['chief-0']}", job.ports()["chief-0"]
    for rank, name in enumerate(TRAIN):
        assert of(tasks[name], "JAX_", "KERAS_DIS", "KERAS_B") == {
            "COORDINATOR_ADDRESS": first, "COORDINATOR_BIND_ADDRESS": f"[::]:{port}",
            "NUM_PROCESSES": "4", "PROCESS_ID": str(rank), "ACKEND": "jax",
            "TRIBUTION_JOB_ADDRESSES": first, "TRIBUTION_NUM_PROCESSES": "4",
            "TRIBUTION_PROCESS_ID": str(rank),
        }  # fmt: skip
    assert not of(tasks["evaluator-0"], "JAX_", "KERAS_DIS", "KERAS_B")


def test_variables_of_other_systems(job: Cluster) -> None:
    tasks = run(job, variables=["tony", "submarine", "hbox", "horovod"])
    at = {name: f"127.0.0.1:{port}" for name, port in job.ports().items()}
    cluster = {
        "chief": [at["chief-0"]],
        "worker": [at["worker-0"], at["worker-1"]],
        "ps": [at["ps-0"]],
    }
    chief, worker, ps = tasks["chief-0"], tasks["worker-1"], tasks["ps-0"]
    for env in (chief, worker, ps):
        own = env["TFJOB_ROLE"], env["TFJOB_INDEX"]
        assert (env["JOB_NAME"], env["TASK_INDEX"]) == (env["TF_ROLE"], env["TF_INDEX"]) == own
        assert json.loads(env["TF_CLUSTER_DEF"]) == cluster
        spec = json.loads(env["CLUSTER_SPEC"])
        assert {name: spec[name] for name in cluster} == cluster
        assert set(spec) == set(ROLES)
        assert (env["TASK_NUM"], env["DISTRIBUTED_MODE"]) == ("5", "GANG"), "not ps and a-board"
        application = job.application.replace("container", "application")
        assert env["JOB_ID"] == env["APPID"] == application
        assert (env["SESSION_ID"], env["ATTEMPT_NUMBER"], env["NUM_AM_RETRIES"]) == ("0", "0", "0")
        assert json.loads(env["TF_CONFIG"])["environment"] == "cloud"
        assert (env["INDEX"], env["LOCAL_ADDRESS"]) == (own[1], "127.0.0.1")
        assert (env["_TASK_TYPE"], env["_TASK_INDEX"]) == (
            own[0].replace("chief", "master"),
            own[1],
        )
    assert (chief["IS_CHIEF"], 0 < int(chief["TB_PORT"]) < 65536) == ("true", True)
    assert not {"IS_CHIEF", "TB_PORT"} & {*worker, *ps}
    host, _, port = at["chief-0"].partition(":")
    assert of(worker, "HOROVOD_") == {
        "CONTROLLER": "gloo", "CPU_OPERATIONS": "gloo", "HOSTNAME": "worker-1",
        "GLOO_RENDEZVOUS_ADDR": host, "GLOO_RENDEZVOUS_PORT": port, "GLOO_TIMEOUT_SECONDS": "2000",
        "RANK": "2", "SIZE": "4", "LOCAL_RANK": "0", "LOCAL_SIZE": "1",
        "CROSS_RANK": "2", "CROSS_SIZE": "4",
    }  # fmt: skip
    assert not of(ps, "HOROVOD_")


def test_variables_of_a_task_that_is_alone(job: Cluster) -> None:
    board = role(1, "sidecar", f"{SHOW}; sleep 600", ports={"http": 0})
    words = ["tony", "submarine", "hbox", "horovod"]
    waits = f"{SHOW}; until [ -s ../tensorboard-0.env ]; do sleep 0.05; done"
    chief_role = role(1, "trains", waits)
    job.job({"chief": chief_role, "tensorboard": board}, variables=words)
    job.start()
    assert job.wait("chief-0") == 0
    chief, shows = shown(job, "chief-0"), shown(job, "tensorboard-0")
    assert not of(chief, "HOROVOD_", "TB_PORT", "TF_CONFIG", "TF_CLUSTER_DEF", "LOCAL_ADDRESS")
    assert shows["TB_PORT"] == shows["TFJOB_PORT_HTTP"]


@pytest.mark.parametrize(
    ("strategy", "found", "legacy", "words"),
    [
        ("multi-worker", "tensorflow 2.21.0, keras 3.15.1", "", "has TensorFlow 2.21.0 with Keras 3.15.1, whose model.fit does not work"),
        ("parameter-server", "tensorflow_cpu 2.21.0, keras 3.15.1, tf_keras 2.21.0", "", "has TensorFlow 2.21.0 with Keras 3.15.1, whose model.fit does not work under ParameterServerStrategy; say `keras: legacy` (with tf_keras 2.21 in the image)"),
        ("multi-worker", "tensorflow 2.21.0, keras 3.15.1", "1", "has TensorFlow 2.21.0 without tf_keras, and TF_USE_LEGACY_KERAS is set; install tf_keras 2.21 in the image"),
        ("multi-worker", "tensorflow 2.21.0, keras 3.15.1, tf_keras 2.21.0", "true", ""),
        ("multi-worker", "tensorflow 2.15.1, keras 2.15.0", "", ""),
        ("multi-worker", "keras 3.15.1", "", ""),
        ("estimator", "tensorflow 2.16.0rc0, keras 3.0.5", "", "has TensorFlow 2.16.0rc0, and tf.estimator ended with 2.15"),
        ("custom", "tensorflow 2.21.0, keras 3.15.1", "", ""),
    ],
)  # fmt: skip
def test_tensorflow_that_does_not_fit_the_strategy_is_a_warning(
    job: Cluster, tmp_path: Path, strategy: str, found: str, legacy: str, words: str
) -> None:
    for package in found.split(", "):
        name, version = package.split()
        about = tmp_path / "site" / f"{name}-{version}.dist-info"
        about.mkdir(parents=True)
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (about / "METADATA").write_text(text)
    # an image's own code may end Python with another status
    ends = "import atexit, os, sys; atexit.register(lambda: (sys.stdout.flush(), os._exit(3)))"
    (tmp_path / "site" / "sitecustomize.py").write_text(ends)
    job.job(
        {"worker": role(1, "trains", [job.python, "-S", "-c", "1"])},
        strategy=strategy,
        framework="tensorflow",
    )
    job.start(env={"PYTHONPATH": str(tmp_path / "site"), "TF_USE_LEGACY_KERAS": legacy})
    assert job.wait("worker-0") == 0
    warnings = job.report()["warnings"]
    assert len(warnings) == bool(words), warnings
    assert not words or f"worker-0: {job.python} {words}" in warnings[0]


def test_a_text_command_needs_bash_only_for_what_sh_cannot_tell(job: Cluster) -> None:
    job.job({"worker": role(1, "trains", "true && false || echo went on", env={"PATH": "/none"})})
    job.start()
    assert job.wait("worker-0") == 0
    assert job.stdout("worker-0") == "went on\n"


LARGE = {"chief": role(1, "trains", "true"), "ps": role(3000, "sidecar", FOREVER)}  # never come


def test_tf_config_of_thousands_is_read_from_a_file(job: Cluster) -> None:
    """Linux takes 128 KiB for one variable."""
    program = "import json, os; print(len(json.loads(os.environ['TF_CONFIG'])['cluster']['ps']))"
    own = job.root / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("print('own')")
    chief = role(1, "trains", f'{job.python} -c "{program}"')
    job.job({**LARGE, "chief": chief})
    job.start("chief-0", env={"PYTHONPATH": str(own)})
    assert job.wait("chief-0") == 0
    assert job.stdout("chief-0") == "own\n3000\n"


def test_variable_that_is_too_long_fails_the_job_with_its_name(job: Cluster) -> None:
    job.job(LARGE, variables=["tony"])
    job.start("chief-0")
    assert job.wait("chief-0") == contract.EXIT_BOOTSTRAP_ERROR
    said = job.outcome("chief-0")["message"]
    assert re.search(r"CLUSTER_SPEC has \d+ bytes, and a variable at most \d+", said)
