"""The operator in a real Airflow on a real YARN, with a connection by address: `airflow dags test`.

Its scheduler and triggerer as daemons are in tests/cluster/test_airflow.py.
"""

from __future__ import annotations

import getpass
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import requests

from tests import clusters
from tests.airflow.harness import Airflow, environment, install, run_inside
from tests.clusters import Cluster
from tests.tool import SUBMIT_S

pytestmark = pytest.mark.cluster

DAG = """
from datetime import datetime, timedelta, timezone
from airflow.sdk import DAG
from submit_tf_job.airflow.operator import SubmitTFJobOperator

def job(command):
    roles = {{"worker": {{"memory": "128Mi"}}}}
    return {{"image": "none", "strategy": "single", "command": command, "roles": roles}}

retries = {{"retries": 2, "retry_delay": timedelta(seconds=1)}}
with DAG("promised", start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), schedule=None):
    SubmitTFJobOperator(task_id="good{unique}", job=job("echo trained"), deferrable=False)
with DAG("in_vain", start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), schedule=None):
    SubmitTFJobOperator(
        task_id="vain{unique}", job=job("no-such-program"), deferrable=False, **retries
    )
"""


@pytest.fixture(scope="module")
def airflow(simple: Cluster, unique: str, tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    """An Airflow in a home of its own, of which nothing runs."""
    base, venv = tmp_path_factory.mktemp("airflow"), environment()
    connection = {"host": simple.info["rm_url"], "login": getpass.getuser()}
    made = Airflow(
        venv,
        install(venv, base / "site"),
        base / "airflow",
        clusters.environment(),
        connection,
    )
    for path in (base / "airflow/dags").iterdir():
        path.unlink()
    (base / "airflow/dags/promised.py").write_text(DAG.format(unique=unique))
    return made


def run_dag(airflow: Airflow, dag: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [airflow.venv / "bin/airflow", "dags", "test", dag],
        env=airflow.environ,
        cwd=airflow.home,
        capture_output=True,
        text=True,
        timeout=SUBMIT_S,
    )


def applications(cluster: Cluster, begins: str) -> list[dict[str, Any]]:
    found = requests.get(f"{cluster.info['rm_url']}/ws/v1/cluster/apps", timeout=SUBMIT_S).json()
    apps = (found["apps"] or {"app": []})["app"]
    return [app for app in apps if app["name"].startswith(begins)]


def test_operator_runs_a_job_and_shows_its_log(
    airflow: Airflow, simple: Cluster, unique: str
) -> None:
    done = run_dag(airflow, "promised")
    assert done.returncode == 0, done.stdout + done.stderr
    [app] = applications(simple, f"good{unique}")
    assert app["finalStatus"] == "SUCCEEDED"
    said = done.stdout + done.stderr
    assert "worker-0 | trained" in said
    assert not re.search(r"<submit_tf_job\.| object at 0x|Post\(", said)


def test_operator_tries_no_second_time_in_vain(
    airflow: Airflow, simple: Cluster, unique: str
) -> None:
    done = run_dag(airflow, "in_vain")
    assert "AirflowFailException" in done.stdout + done.stderr, done.stdout[-3000:]
    assert len(applications(simple, f"vain{unique}")) == 1


def test_provider_in_airflow(airflow: Airflow, tmp_path: Path) -> None:
    assert os.access(airflow.venv / "bin/airflow", os.X_OK)
    site = Path(airflow.environ["PYTHONPATH"])
    assert " passed" in run_inside(airflow.venv, site, tmp_path)
