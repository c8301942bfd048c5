"""Shared fixtures: the command line in this process, and a Docker Engine.

A shell without job control starts what runs in the background with SIGINT ignored, and every child
inherits that.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import clusters
from tests.builders.command_line import Cli, Done
from tests.tool import until

pytest_plugins = ["tests.red"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

with suppress(ImportError):  # Airflow's environments have no hypothesis
    from hypothesis import HealthCheck, Phase, settings

    # A busy machine takes its time for one example, or to make a hundred. `make matrix` runs all of
    # them, with each version of Python. The test command's examples are the same each time; new
    # ones are drawn by `make matrix`.
    patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("patient", patient)
    settings.load_profile("patient")
    settings.register_profile(
        "gate",
        patient,
        max_examples=20,
        phases=[p for p in Phase if p is not Phase.shrink],
        derandomize=True,
    )


@pytest.fixture(scope="session")
def clusters_of_session() -> Iterator[None]:
    """Hold the clusters of this checkout for as long as this process tests."""
    with clusters.used():
        yield


@dataclass(frozen=True)
class DockerHost:
    """A Docker Engine of the test session's own, with this project's images."""

    host: str

    def __call__(self, *words: str, stdin: bytes = b"") -> str:
        """Call the docker CLI."""
        done = subprocess.run(
            ["docker", "-H", self.host, *words], input=stdin, capture_output=True, timeout=180
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def build(self, name: str, *lines: str) -> str:
        """Build an image of the base image and some more lines."""
        text = "\n".join(["FROM submit_tf_job/base:1", *lines, ""])
        self("build", "--quiet", "--network", "none", "--tag", name, "-", stdin=text.encode())
        return name

    def is_clean(self) -> None:
        """Assert that no container, and no network but Docker's own, is left."""
        assert self("ps", "--all", "--quiet") == ""
        assert self("network", "ls", "--quiet", "--filter", "type=custom") == ""


@pytest.fixture(scope="session")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerHost]:
    """Start an engine, build the images, and take everything away at the end.

    Where a machine cannot run one, the tests are skipped with the reason; with
    SUBMIT_TF_JOB_TEST_DOCKER=required they fail.
    """
    from submit_tf_job.errors import SandboxError
    from submit_tf_job.sandbox import engine as engines

    try:
        engines.find_programs(os.environ)
    except SandboxError as error:
        if os.environ.get("SUBMIT_TF_JOB_TEST_DOCKER") == "required":
            pytest.fail(f"Docker is required here: {error}")
        pytest.skip(str(error))
    home = tmp_path_factory.mktemp("docker")
    engine = engines.make_bridge(home)
    try:
        engines.start_engine(engine, os.environ, "submit_tf_job.tests=docker", home / "dockerd.log")
        made = DockerHost(engine.host)
        ask = ["docker", "-H", engine.host, "version"]
        until(lambda: subprocess.run(ask, capture_output=True).returncode == 0)
        build = [
            sys.executable,
            str(Path(__file__).parents[1] / "docker/build"),
            "--packages",
            "base",
            "entrypoint",
            "no-exec",
        ]
        subprocess.run(build, env={**os.environ, "DOCKER_HOST": made.host}, check=True, timeout=900)
        made("tag", "submit_tf_job/base:1", "python:3.11")
        made("tag", "submit_tf_job/base:1", "tensorflow/tensorflow:2.15.0")
        yield made
    finally:
        engines.end_engine(home)
        shutil.rmtree(home)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home, which is the working directory, in an environment without settings."""
    from submit_tf_job.settings import load_settings

    for name in list(os.environ):
        if name.startswith(("SUBMIT_TF_JOB_", "HADOOP_", "XDG_")):
            monkeypatch.delenv(name)
    made = tmp_path / "home"
    made.mkdir()
    monkeypatch.setenv("HOME", str(made))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("SUBMIT_TF_JOB_USER", "alice")
    monkeypatch.chdir(made)
    monkeypatch.setattr(
        load_settings,
        "__kwdefaults__",
        {**(load_settings.__kwdefaults__ or {}), "system_file": tmp_path / "none.yaml"},
    )
    return made


@pytest.fixture
def cli(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cli]:
    """Yield a function that runs a command in this process; it must leave no signal handler."""
    from submit_tf_job.cli import main

    before = signal.getsignal(signal.SIGTERM)

    def run(*argv: str, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        status = main(list(argv))
        captured = capsys.readouterr()
        return Done(status, captured.out, captured.err)

    yield run
    assert signal.getsignal(signal.SIGTERM) is before, "a command leaves no signal handler"
