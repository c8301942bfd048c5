"""TF_CONFIG that is too long for an environment variable."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from submit_tf_job.container import contract
from submit_tf_job.container.environment import ONE_VARIABLE, set_tf_config
from submit_tf_job.container.tfconfig import tf_config

PROGRAM = (
    "import json, os; print(len(json.loads(os.environ['TF_CONFIG'])['cluster']['worker']), "
    "os.environ.get('OTHER'))"
)


def value(workers: int) -> str:
    counts = {"chief": 1, "worker": workers}
    return tf_config(
        counts,
        ["chief", "worker"],
        "worker",
        0,
        lambda role, index: f"{role}-{index}.my-long-job.user.example.com:8000",
    )


def run(env: dict[str, str]) -> str:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, check=True, capture_output=True, text=True
    ).stdout


def test_set_tf_config_sets_a_variable(tmp_path: Path) -> None:
    env: dict[str, str] = {}
    set_tf_config(env, value(1000), str(tmp_path))
    assert set(env) == {contract.ENV_TF_CONFIG}
    assert run(env) == "1000 None\n"


def test_set_tf_config_writes_a_long_value_to_a_file(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import os; os.environ['OTHER'] = 'kept'")
    env = {"PYTHONPATH": str(own)}
    long = value(10_000)
    assert len(long) > ONE_VARIABLE
    set_tf_config(env, long, str(tmp_path))
    assert contract.ENV_TF_CONFIG not in env
    assert json.loads(Path(env[contract.ENV_TF_CONFIG_FILE]).read_text())["task"] == {
        "type": "worker",
        "index": 0,
    }
    assert run(env) == "10000 kept\n"
    del env["PYTHONPATH"]
    set_tf_config(env, long, str(tmp_path))
    assert env["PYTHONPATH"] == str(Path(env[contract.ENV_TF_CONFIG_FILE]).parent)
    assert run(env) == "10000 None\n"
