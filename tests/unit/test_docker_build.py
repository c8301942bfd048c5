"""docker/build: every Dockerfile is read, and carried out in the same way with and without a
registry. Real builds: tests/docker.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import re
import subprocess
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


def test_docker_build_lists_the_images() -> None:
    assert NAMES == ["base", "entrypoint", "gateway", "no-exec", "tensorflow-cpu", "tensorflow-gpu"]
    done = subprocess.run(
        [sys.executable, "-B", DOCKER / "build", "--check"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [json.loads(line)["image"] for line in done.stdout.splitlines()] == [
        f"submit_tf_job/{name}:1" for name in NAMES
    ]


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
        assert all(
            re.fullmatch(r"[\w.\[\]-]+==[\w.]+", line) for line in path.read_text().splitlines()
        )
    assert image.start == (
        build.load("base").tag if name != "base" else "debian:bookworm-20250520-slim"
    )
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FROM a\nVOLUME /x\n", ":2: VOLUME is not used here"),
        ("FROM a\nADD x /x\n", ":2: ADD is not used here"),
        ("FROM a\nCOPY --chown=1 x /x\n", ":2: COPY is used as COPY SOURCE /TARGET"),
        ("FROM a\nCOPY x y /x/\n", ":2: COPY is used as COPY SOURCE /TARGET"),
        ("FROM a\nENV A 1\n", ":2: ENV is used as NAME=VALUE"),
        ("FROM a\nRUN x \\\n", ":2: the last line ends with a backslash"),
    ],
)
def test_docker_build_refuses_unsupported_instructions(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "Dockerfile"
    path.write_text(text)
    with pytest.raises(build.BuildError, match=words):
        list(build.read_dockerfile(path))


def test_docker_build_refuses_instructions_after_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"first": "FROM a\nRUN x\nUSER 1\nENV A=1\n", "late": "FROM a\nUSER 1\nCOPY x /x\n"}
    for name, text in {**texts, "below": "FROM submit_tf_job/first:1\nRUN x\n"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "Dockerfile").write_text(text)
    monkeypatch.setattr(build, "HERE", tmp_path)
    assert build.metadata(build.load("first"))[1:3] == ["USER 1", "ENV A=1"]
    for name in ("late", "below"):
        with pytest.raises(
            build.BuildError, match="behind USER, Docker does RUN and COPY as that user"
        ):
            build.load(name)


def test_image_hash_follows_the_sources_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docker/one").mkdir(parents=True)
    (tmp_path / "submit_tf_job/inner").mkdir(parents=True)
    (tmp_path / "docker/one/Dockerfile").write_text(
        "FROM a\nCOPY submit_tf_job-1.0-py3-none-any.whl /x.whl\n"
    )
    monkeypatch.setattr(build, "HERE", tmp_path / "docker")
    first = build.load("one").content
    (tmp_path / "submit_tf_job/inner/new.py").write_text("x = 1\n")
    assert build.load("one").has_project
    assert build.load("one").content != first
    assert not build.load("one").directory.joinpath("submit_tf_job-1.0-py3-none-any.whl").exists()


def test_dockerfile_with_continued_lines(tmp_path: Path) -> None:
    path = tmp_path / "Dockerfile"
    path.write_text("# about\nFROM a\n\nRUN one \\\n # between\n && two\nENV A=1 \\\n    B=2\n")
    assert list(build.read_dockerfile(path)) == [
        ("FROM", "a"),
        ("RUN", "one && two"),
        ("ENV", "A=1 B=2"),
    ]


def test_image_hash_follows_files_and_parents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, start in (("one", "debian:bookworm-slim"), ("two", "submit_tf_job/one:1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "Dockerfile").write_text(f"FROM {start}\n")
    monkeypatch.setattr(build, "HERE", tmp_path)
    first = [build.load(name).content for name in ("one", "two")]
    (tmp_path / "one/extra").write_text("x")
    second = [build.load(name).content for name in ("one", "two")]
    assert not set(first) & set(second)
    with pytest.raises(
        build.BuildError, match="there is no image 'three' here; there are one, two"
    ):
        build.load("three")
