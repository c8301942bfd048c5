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


def shipped(program: str) -> dict[str, str]:
    """Return the item of `files` for an example program."""
    return {"src": str(PROGRAMS / program), "dst": program}


def submit(tool: Tool, frameworks: Path, name: str, **content: Any) -> tuple[Result, str]:
    """Submit a job whose commands find the frameworks first; return its end and its output."""
    env = {"PATH": f"{frameworks / 'bin'}:/usr/bin:/bin", **content.pop("env", {})}
    spec = tool.spec(name, **{"roles": {"worker": TWO}, **content, "env": env})
    done = tool("submit", spec, "-o", "json", timeout=TIMEOUT_S)
    return done, tool("logs", name, "--raw").stdout


TWO = {"memory": "2Gi", "instances": 2}
THREE = {
    "chief": {"memory": "2Gi"},
    "worker": TWO,
    "board": {"memory": "256Mi", "command": "sleep 600", "kind": "sidecar"},
}
TORCH = {"strategy": "torch", "command": "torchrun torch_train.py"}
JAX = {"strategy": "jax", "roles": {"trainer": {**TWO, "instances": 3}}}
# Job -> program, keys of the job spec, what its tasks print.
RANKS, PROCESSES = ("rank 0 of 2", "rank 1 of 2"), ("process 0 of 3", "process 2 of 3")
EACH_TWO = {"env": {"PET_NPROC_PER_NODE": "2"}, "roles": THREE}
TRAINS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "torch-static": ("torch_train.py", TORCH, RANKS),
    "torch-c10d": ("torch_train.py", {**TORCH, "env": {"PET_RDZV_BACKEND": "c10d"}}, RANKS),
    "torch-bare": ("torch_train.py", {**TORCH, "command": "python torch_train.py"}, RANKS),
    "torch-three": ("torch_train.py", {**TORCH, **EACH_TWO}, ("rank 0 of 6", "rank 5 of 6")),
    "jax": ("jax_train.py", {**JAX, "command": "python jax_train.py"}, PROCESSES),
    "keras-jax": ("keras_jax.py", {**JAX, "command": "python keras_jax.py"}, PROCESSES),
}


@pytest.mark.parametrize("name", TRAINS)
def test_torch_and_jax_train(tool: Tool, frameworks: Path, name: str) -> None:
    program, keys, lines = TRAINS[name]
    done, said = submit(tool, frameworks, name, files=[shipped(program)], **keys)
    assert (done.status, done.json["state"]) == (0, "SUCCEEDED"), done.stderr + said
    for line in (*lines, "loss 0.0"):
        assert line in said, said
    gone(name)


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
print("trained")
"""


@pytest.mark.parametrize("keras", ["legacy", "installed"])
def test_multi_worker_with_the_newest_tensorflow(tool: Tool, frameworks: Path, keras: str) -> None:
    (tool.cwd / "mwms.py").write_text(TRAIN)
    keys = {"strategy": "multi-worker", "keras": keras, "command": "python mwms.py"}
    done, said = submit(tool, frameworks, f"mwms-{keras}", files=["mwms.py"], **keys)
    if keras == "legacy":
        assert (done.status, "trained" in said) == (0, True), done.stderr + said
        return
    assert done.status == 1, done
    assert done.json["root_cause"]["code"] == "keras-3"
    assert "whose model.fit does not work under MultiWorkerMirroredStrategy" in said


SPEC_RUNS = {
    "data-service": ("loss 0.0",),
    "ray": ("sum 55 of ",),
    "xgboost": ("rank 0 of 2", "rank 1 of 2", "loss 0.0"),
    "keras-tuner": ("4 trials, the best with loss 0.0",),
}


@pytest.mark.parametrize("name", SPEC_RUNS)
def test_specs_of_other_frameworks_run_to_their_end(
    tool: Tool, frameworks: Path, tensorflow: Path, name: str
) -> None:
    """As they are, where the image is this machine's."""
    content = yaml.safe_load((SPECS / f"{name}.yaml").read_text("utf-8"))
    del content["name"]
    content["env"] = {**content.get("env", {}), "HOME": str(tool.cwd)}
    content["files"] = [shipped(Path(item["src"]).name) for item in content["files"]]
    environment = tensorflow if name == "data-service" else frameworks
    done, said = submit(tool, environment, name, **content)
    assert (done.status, done.json["confirmed"]) == (0, True), done.stderr + said
    for line in SPEC_RUNS[name]:
        assert line in said, said
    gone(name)
