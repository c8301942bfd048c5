"""What users are promised, each promise once, through the doors that they use, on real clusters.

The jobs of a file are submitted together (`fleet`) and read at their ends: most of a job's time is
YARN's own. Nothing here but test_hdfs.py imports the package: docs/internals/promises.md lists
what is proven.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests import clusters
from tests.clusters import ROOT, Cluster
from tests.tool import SUBMIT_S, Result, Tool

AT_ONCE = 4  # jobs of one file; each ApplicationMaster is a Java of its own
SMALL = {"memory": "128Mi"}

Fleet = Callable[[Mapping[str, dict[str, Any]]], Mapping[str, Future[Result]]]


@pytest.fixture(autouse=True)
def turn(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold the clusters of this test, alone where it is marked so."""
    by_one = request.node.get_closest_marker("alone") is not None
    with clusters.held(request.fixturenames, by_one=by_one):
        yield


@pytest.fixture(scope="session")
def simple(clusters_of_session: None) -> Cluster:
    """A cluster without security, whose containers are processes."""
    return clusters.started("simple")


@pytest.fixture(scope="session")
def secure(clusters_of_session: None) -> Cluster:
    """A cluster with Kerberos, TLS, two ResourceManagers and Docker, all at once."""
    return clusters.started("secure")


@pytest.fixture(scope="module")
def tool(simple: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tool]:
    """The tool on the simple cluster, in a directory that the tests of a file share."""
    made = Tool(clusters.environment(), simple.profile, tmp_path_factory.mktemp("user"))
    yield made
    made.tidy()


@pytest.fixture(scope="session")
def unique() -> str:
    """What makes the job names of this process its own on a cluster that others use, too."""
    return secrets.token_hex(2)


@pytest.fixture(scope="module")
def fleet(tool: Tool, unique: str) -> Iterator[Fleet]:
    """Give a function that submits many job specs at once: name → the result of `submit`."""
    pool = ThreadPoolExecutor(AT_ONCE)

    def submit_all(specs: Mapping[str, dict[str, Any]]) -> Mapping[str, Future[Result]]:
        paths = {name: tool.spec(f"{name}-{unique}", **spec) for name, spec in specs.items()}
        return {
            name: pool.submit(tool, "submit", path, "-o", "json") for name, path in paths.items()
        }

    yield submit_all
    pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment that has the wheel, and no pip; TensorFlow and what the
    package needs come from other environments by a .pth file.
    """
    base = tmp_path_factory.mktemp("installed")
    quiet: dict[str, Any] = {"check": True, "timeout": SUBMIT_S, "capture_output": True}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", base], cwd=ROOT, **quiet
    )
    environment = base / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], **quiet)
    packages = next((environment / "lib").glob("python3.*/site-packages"))
    shutil.unpack_archive(next(base.glob("*.whl")), packages, "zip")
    others = [*(clusters.tensorflow() / "lib").glob("python3.*/site-packages")]
    others += [Path(path) for path in sys.path if path.endswith("site-packages")]
    linked = base / "linked"
    linked.mkdir()
    for path in [path for other in others for path in other.iterdir()]:
        if not path.name.startswith(("pip", "submit_tf_job")) and not (linked / path.name).exists():
            (linked / path.name).symlink_to(path)
    (packages / "others.pth").write_text(f"{linked}\n")
    return environment / "bin" / "python"


def readable(path: Path) -> Path:
    """Let containers of other users reach a path of the test."""
    for place in (path, *path.parents):
        if place.owner() == path.owner() and str(place) not in ("/", "/tmp"):
            place.chmod(place.stat().st_mode | 0o055)
    return path
