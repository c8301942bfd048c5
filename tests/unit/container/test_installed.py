"""Which TensorFlow and Keras a task has, and what does not fit its strategy."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.container import contract
from submit_tf_job.container.frameworks import installed
from submit_tf_job.container.info import Info

NEW = {"tensorflow": "2.21.0", "keras": "3.15.1"}
WITH_LEGACY = {**NEW, "tf_keras": "2.21.0"}
OLD = {"tensorflow": "2.15.1", "keras": "2.15.0"}


@pytest.mark.parametrize("strategy", ["multi-worker", "parameter-server"])
@pytest.mark.parametrize(
    ("found", "legacy", "words"),
    [
        (NEW, False, "TensorFlow 2.21.0 with Keras 3.15.1, whose model.fit does not work"),
        (WITH_LEGACY, False, "say `keras: legacy` (with tf_keras 2.21 in the image)"),
        (NEW, True, "TensorFlow 2.21.0 without tf_keras, and TF_USE_LEGACY_KERAS is set"),
        (WITH_LEGACY, True, ""),
        (OLD, False, ""),
        ({"keras": "3.15.1"}, False, ""),
        ({"tensorflow": "2.16.0-rc0", "keras": "3.0.5"}, False, "TensorFlow 2.16.0-rc0"),
        ({}, False, ""),
    ],
)
def test_misfit_of_keras(strategy: str, found: dict[str, str], legacy: bool, words: str) -> None:
    why = installed.misfit(strategy, found, legacy)
    assert words in why
    assert bool(why) is bool(words)


@pytest.mark.parametrize(("found", "expected"), [(NEW, True), (OLD, False), ({}, False)])
def test_misfit_of_estimators(found: dict[str, str], expected: bool) -> None:
    assert ("tf.estimator ended with 2.15" in installed.misfit("estimator", found, False)) is (
        expected
    )


@pytest.mark.parametrize("strategy", ["single", "custom"])
def test_misfit_elsewhere_is_none(strategy: str) -> None:
    assert installed.misfit(strategy, NEW, False) == ""


@pytest.mark.parametrize(
    ("value", "expected"), [("1", True), ("true", True), ("True", True), ("0", False), ("", False)]
)
def test_uses_legacy_as_tensorflow_reads_it(value: str, expected: bool) -> None:
    assert installed.uses_legacy({installed.LEGACY_KERAS: value}) is expected


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["python3.11", "train.py"], "python3.11"),
        ("cd code && python train.py", "python"),
        (["./train.sh"], "python"),
        ("python9 train.py", None),
    ],
)
def test_interpreter_of_a_command(
    tmp_path: Path, command: str | list[str], expected: str | None
) -> None:
    for name in ("python", "python3", "python3.11"):
        program(tmp_path / name)
    found = installed.interpreter(command, str(tmp_path))
    assert found == (str(tmp_path / expected) if expected else None)


def packages(directory: Path, **found: str) -> dict[str, str]:
    """Make packages of these versions, and the environment in which Python finds them."""
    for name, version in found.items():
        about = directory / f"{name}-{version}.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
    return {**os.environ, "PYTHONPATH": str(directory)}


def test_versions_reads_the_metadata_of_the_interpreter(tmp_path: Path) -> None:
    env = packages(tmp_path, tensorflow_cpu="2.21.0", keras="3.15.1", tf_keras="2.21.0")
    assert installed.versions(sys.executable, env) == WITH_LEGACY


@pytest.mark.parametrize("python", ["/no/such/python", "/bin/false", "/bin/echo"])
def test_versions_of_an_interpreter_that_does_not_answer(python: str) -> None:
    assert installed.versions(python, {}) == {}


def test_check_names_the_task_and_the_interpreter(tmp_path: Path) -> None:
    env = packages(tmp_path, tensorflow="2.21.0", keras="3.15.1")
    role: dict[str, Any] = {"count": 2, "kind": "trains", "command": [sys.executable, "train.py"]}
    task = {
        "version": contract.TASK_VERSION,
        "submission": "abc",
        "strategy": "multi-worker",
        "deciding": "worker",
        "roles": {"worker": role},
    }
    info = Info(task, {contract.ENV_INSTANCE: "worker-1"}, str(tmp_path))
    (warning,) = installed.check(info, env)
    assert warning.startswith(f"worker-1: {sys.executable} has TensorFlow 2.21.0 with Keras 3.15.1")
    assert installed.check(info, {**env, installed.LEGACY_KERAS: "1"})[0].endswith(
        "install tf_keras 2.21 in the image"
    )
