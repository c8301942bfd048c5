"""The tool on a machine without any settings, with the session's Docker Engine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DockerHost
from tests.tool import LocalTool


class DockedTool(LocalTool):
    """Its job specs have this project's image."""

    def spec(self, name: str, **content: Any) -> Path:
        return super().spec(name, **{"image": "submit_tf_job/base:1", **content})


@pytest.fixture
def tool(docker: DockerHost, tmp_path: Path) -> DockedTool:
    own = ("SUBMIT_TF_JOB_", "HADOOP_", "DOCKER_")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    (tmp_path / "tmp").mkdir()
    environ |= {
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path / "tmp"),
        "SUBMIT_TF_JOB_USER": "alice",
        "SUBMIT_TF_JOB_DOCKER_HOST": docker.host,
    }
    return DockedTool(environ, "", tmp_path)
