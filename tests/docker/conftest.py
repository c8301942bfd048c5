"""The tool, called as a process on a machine without any settings, with the session's Docker
Engine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import DockerHost

JOB = {
    "image": "submit_tf_job/base:1",
    "strategy": "single",
    "roles": {"worker": {"memory": "128Mi"}},
}


@dataclass(frozen=True)
class Done:
    """What one call printed and returned."""

    status: int
    out: str
    err: str
    seconds: float

    @property
    def json(self) -> dict[str, Any]:
        """Standard output as the one JSON object that it must be."""
        value: dict[str, Any] = json.loads(self.out)
        return value


@dataclass
class Tool:
    """submit_tf_job."""

    environ: Mapping[str, str]
    cwd: Path

    def argv(self, *words: object) -> list[str]:
        return [sys.executable, "-m", "submit_tf_job", *map(str, words)]

    def __call__(self, *words: object, timeout: float = 240, **environ: str) -> Done:
        start = time.monotonic()
        env = {**self.environ, **environ}
        done = subprocess.run(
            self.argv(*words),
            env=env,
            cwd=self.cwd,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr, time.monotonic() - start)

    def spec(self, name: str, **content: Any) -> Path:
        path = self.cwd / f"{name}.yaml"
        path.write_text(yaml.safe_dump({"name": name, **JOB, **content}, sort_keys=False))
        return path


@pytest.fixture
def tool(docker: DockerHost, tmp_path: Path) -> Tool:
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SUBMIT_TF_JOB_", "HADOOP_", "DOCKER_"))
    }
    (tmp_path / "tmp").mkdir()
    own = {
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path / "tmp"),
        "SUBMIT_TF_JOB_USER": "alice",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return Tool({**environ, **own, "SUBMIT_TF_JOB_DOCKER_HOST": docker.host}, tmp_path)
