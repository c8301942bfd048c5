"""What importing the operator costs in Airflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.airflow.harness import environment, install
from tests.bench.airflow import measure_import

pytestmark = pytest.mark.cluster
SHARE = 0.03  # of some 1.5 s: 50 ms, on a machine like those that the goal was set for


@pytest.fixture(scope="module")
def venv() -> Path:
    return environment()


@pytest.fixture(scope="module")
def site(venv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This package, installed for Airflow."""
    return install(venv, tmp_path_factory.mktemp("site"))


def test_the_import_of_the_operator_costs_next_to_nothing_beside_airflow_s_own(
    venv: Path, site: Path, tmp_path: Path
) -> None:
    own, ours = measure_import(venv, site, tmp_path, rounds=2)
    assert ours <= own * SHARE, f"{ours * 1000:.0f} ms after {own * 1000:.0f} ms"
