"""PyTorch, JAX and Keras 3 train on the real cluster, and their failures are explained.

`make frameworks` installs them; `make matrix` runs these tests.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.conftest import SPECS
from tests.tool import Result, Tool, gone

pytestmark = [pytest.mark.cluster, pytest.mark.long]
PROGRAMS = SPECS / "programs"
TIMEOUT_S = 400


@pytest.fixture(scope="session")
def frameworks() -> Path:
    """Virtual environment with PyTorch, JAX, Keras 3 and the newest TensorFlow."""
    found = os.environ.get("SUBMIT_TF_JOB_TEST_FRAMEWORKS")
    if not found:
        pytest.skip(
            "SUBMIT_TF_JOB_TEST_FRAMEWORKS names no virtual environment; run `make frameworks`"
        )
    return Path(found)


def submit(tool: Tool, frameworks: Path, name: str, **content: Any) -> Result:
    """Submit a job whose commands find the frameworks first."""
    env = {"PATH": f"{frameworks / 'bin'}:/usr/bin:/bin", **content.pop("env", {})}
    roles = {"worker": {"memory": "2Gi", "instances": 2}}
    spec = tool.spec(name, **{"roles": roles, **content, "env": env})
    return tool("submit", spec, "-o", "json", timeout=TIMEOUT_S)


def shipped(program: str) -> dict[str, str]:
    """Return the item of `files` for an example program."""
    return {"src": str(PROGRAMS / program), "dst": program}


def output(tool: Tool, job: str) -> str:
    """Return what the job's tasks wrote."""
    return tool("logs", job, "--raw").stdout


def trained(tool: Tool, done: Result, job: str, *lines: str) -> None:
    """Assert that a job succeeded, and that its tasks printed these lines and a small loss."""
    assert done.status == 0, done.stderr + output(tool, job)
    assert done.json["state"] == "SUCCEEDED"
    said = output(tool, job)
    for line in (*lines, "loss 0.0"):
        assert line in said, said
    gone(job)


RENDEZVOUS = {
    "static": (["torchrun", "torch_train.py"], {}),
    "c10d": (["torchrun", "torch_train.py"], {"PET_RDZV_BACKEND": "c10d"}),
    "bare": (["python", "torch_train.py"], {}),
}


@pytest.mark.parametrize("rendezvous", RENDEZVOUS)
def test_torch_trains_with_two_tasks(tool: Tool, frameworks: Path, rendezvous: str) -> None:
    command, env = RENDEZVOUS[rendezvous]
    name = f"torch-{rendezvous}"
    files = [shipped("torch_train.py")]
    done = submit(
        tool, frameworks, name, strategy="torch", command=command, files=files, env=dict(env)
    )
    trained(tool, done, name, "rank 0 of 2", "rank 1 of 2")


def test_torchrun_starts_the_processes_that_are_said_for_three_tasks(
    tool: Tool, frameworks: Path
) -> None:
    done = submit(
        tool,
        frameworks,
        "torch-three",
        strategy="torch",
        command="torchrun torch_train.py",
        files=[shipped("torch_train.py")],
        env={"PET_NPROC_PER_NODE": "2"},
        roles={
            "chief": {"memory": "2Gi"},
            "worker": {"memory": "2Gi", "instances": 2},
            "board": {"memory": "256Mi", "command": "sleep 600", "kind": "sidecar"},
        },
    )
    trained(tool, done, "torch-three", "rank 0 of 6", "rank 5 of 6")


@pytest.mark.parametrize("program", ["jax_train.py", "keras_jax.py"])
@pytest.mark.parametrize("tasks", [2, 3])
def test_jax_trains(tool: Tool, frameworks: Path, program: str, tasks: int) -> None:
    name = f"jax-{program[0]}-{tasks}"
    done = submit(
        tool,
        frameworks,
        name,
        strategy="jax",
        command=["python", program],
        files=[shipped(program)],
        roles={"trainer": {"memory": "2Gi", "instances": tasks}},
    )
    trained(tool, done, name, f"process 0 of {tasks}", f"process {tasks - 1} of {tasks}")


TRAIN = """
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
    model.compile(optimizer="sgd", loss="mse")
x = tf.random.stateless_uniform((256, 1), (0, 1))
data = tf.data.Dataset.from_tensor_slices((x, 3 * x + 1)).repeat().batch(64)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
model.fit(data.with_options(options), epochs=2, steps_per_epoch=5, verbose=2)
print("loss 0.0 or so")
"""


@pytest.mark.parametrize("keras", ["legacy", "installed"])
def test_multi_worker_with_the_newest_tensorflow(tool: Tool, frameworks: Path, keras: str) -> None:
    (tool.cwd / "mwms.py").write_text(TRAIN)
    name = f"mwms-{keras}"
    done = submit(
        tool,
        frameworks,
        name,
        strategy="multi-worker",
        keras=keras,
        command=["python", "mwms.py"],
        files=["mwms.py"],
    )
    if keras == "legacy":
        trained(tool, done, name)
        return
    assert done.status == 1, done
    assert done.json["root_cause"]["code"] == "keras-3"
    assert "whose model.fit does not work under MultiWorkerMirroredStrategy" in output(tool, name)


SPEC_RUNS = {
    "data-service": ("loss 0.0",),
    "ray": ("sum 55 of ",),
    "xgboost": ("rank 0 of 2", "rank 1 of 2", "loss 0.0"),
    "keras-tuner": ("4 trials, the best with loss 0.0",),
}


def run_spec(tool: Tool, environment: Path, name: str, *lines: str, **env: str) -> None:
    """Submit a file of specs/ as it is, where the image is this machine's, and read its output."""
    content = yaml.safe_load((SPECS / f"{name}.yaml").read_text("utf-8"))
    content["env"] = {
        **content.get("env", {}),
        "PATH": f"{environment / 'bin'}:/usr/bin:/bin",
        "HOME": str(tool.cwd),
        **env,
    }
    del content["name"]
    content["files"] = [shipped(Path(item["src"]).name) for item in content["files"]]
    done = tool("submit", tool.spec(name, **content), "-o", "json", timeout=TIMEOUT_S)
    said = output(tool, name)
    assert done.status == 0, done.stderr + said
    assert (done.json["state"], done.json["confirmed"]) == ("SUCCEEDED", True)
    for line in lines:
        assert line in said, said
    gone(name)


@pytest.mark.parametrize("name", SPEC_RUNS)
def test_specs_of_other_frameworks_run_to_their_end(
    tool: Tool, frameworks: Path, tensorflow: Path, name: str
) -> None:
    environment = tensorflow if name == "data-service" else frameworks
    run_spec(tool, environment, name, *SPEC_RUNS[name])
