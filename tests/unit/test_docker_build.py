"""docker/build: every Dockerfile is read, and carried out in the same way with and without a
registry. Real builds: tests/docker.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import submit_tf_job

DOCKER = Path(__file__).parents[2] / "docker"


def _load() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("docker_build", str(DOCKER / "build"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode  # no `buildc` beside the script
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


build = _load()
NAMES = build.names()


@pytest.mark.parametrize("name", NAMES)
def test_dockerfile_of_each_image(name: str) -> None:
    image = build.load(name)
    users = [rest for word, rest in image.instructions if word == "USER"]
    assert users == (["10001:10001"] if name == "gateway" else []), (
        "YARN says who runs a job's image; a service is not root"
    )
    for word, rest in image.instructions:
        if word == "COPY":
            source, destination = rest.split()
            assert (
                image.directory / source
            ).is_file() or source == f"submit_tf_job-{submit_tf_job.__version__}-py3-none-any.whl"
            assert destination.startswith("/")
        if word in ("ENTRYPOINT", "CMD"):
            assert isinstance(json.loads(rest), list)
    for path in image.directory.glob("*requirements.txt"):
        lines = path.read_text().splitlines()
        assert all(re.fullmatch(r"[\w.\[\]-]+==[\w.]+", line) for line in lines)
    debian = "debian:bookworm-20250520-slim"
    assert image.start == (build.load("base").tag if name != "base" else debian)
    env = [change for change in build.metadata(image) if change.startswith("ENV")]
    assert "PATH=/opt/python/bin:" in env[0]
    assert "HOME=/tmp" in env[0]
    assert "NVIDIA_VISIBLE_DEVICES=" not in " ".join(env)


def test_dockerfiles_agree_on_package_versions() -> None:
    pinned: dict[str, set[str]] = {}
    for path in [
        *DOCKER.glob("*/requirements.txt"),
        DOCKER.parent / "specs/requirements-tensorflow.txt",
    ]:
        for line in path.read_text().splitlines():
            name, _, version = line.partition("==")
            if version:
                pinned.setdefault(name.partition("[")[0], set()).add(version)
    assert {name: versions for name, versions in pinned.items() if len(versions) > 1} == {}
