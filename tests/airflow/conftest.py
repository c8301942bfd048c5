"""An installed Airflow, this package beside it, and the real cluster of `tests/cluster`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from submit_tf_job.sandbox import SandboxInfo
from tests.airflow.airflow import Airflow, Airflow2, install
from tests.cluster.conftest import cluster_settings, real_cluster, sandbox, session_environ, tensorflow, tool

__all__ = ["cluster_settings", "real_cluster", "sandbox", "session_environ", "tensorflow", "tool"]

collect_ignore = ["inside", "dags"]  # they run where Airflow is


@pytest.fixture(scope="session")
def airflow3() -> Path:
    """Virtual environment with Airflow 3."""
    return _environment("SUBMIT_TF_JOB_TEST_AIRFLOW")


@pytest.fixture(scope="session")
def airflow2() -> Path:
    """Virtual environment with the last Airflow 2."""
    return _environment("SUBMIT_TF_JOB_TEST_AIRFLOW2")


def _environment(variable: str) -> Path:
    found = os.environ.get(variable)
    if not found:
        pytest.fail(f"{variable} names no virtual environment with Airflow; run `make test`, or `make matrix`")
    return Path(found)


@pytest.fixture(scope="session")
def site3(airflow3: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This package, installed for Airflow 3."""
    return install(airflow3, tmp_path_factory.mktemp("site"))


@pytest.fixture
def airflow(airflow3: Path, site3: Path, real_cluster: SandboxInfo, session_environ: dict[str, str], tmp_path: Path) -> Iterator[Airflow]:
    """Airflow 3 in a home of its own, running."""
    made = Airflow(airflow3, site3, tmp_path / "airflow", session_environ, {"extra": {"profile": real_cluster.profile}})
    try:
        made.start()
        yield made
    finally:
        made.end()


@pytest.fixture
def airflow_2(airflow2: Path, real_cluster: SandboxInfo, session_environ: dict[str, str], tmp_path: Path) -> Iterator[Airflow]:
    """Airflow 2 in a home of its own, running."""
    site = install(airflow2, tmp_path / "site")
    made = Airflow2(airflow2, site, tmp_path / "airflow", session_environ, {"extra": {"profile": real_cluster.profile}})
    try:
        made.start()
        yield made
    finally:
        made.end()
