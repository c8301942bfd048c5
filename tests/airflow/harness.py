"""An Airflow of the test's own: its scheduler, triggerer, DAG processor and API server as
processes, on loopback, in a home of its own.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.gateways import unused_port
from tests.tool import SUBMIT_S

DAGS = Path(__file__).with_name("dags")
ROOT = Path(__file__).parents[2]
VARIABLE = "SUBMIT_TF_JOB_TEST_AIRFLOW"
PARTS = ("api-server", "scheduler", "dag-processor", "triggerer")
KEY = b"the key of this test alone, 32 b"
ENDED = ("success", "failed", "upstream_failed", "skipped", "removed")


def environment() -> Path:
    """Return the virtual environment with an Airflow that the variable names."""
    found = os.environ.get(VARIABLE)
    if not found:
        pytest.fail(f"{VARIABLE} names no virtual environment with Airflow; run `make test`")
    return Path(found)


def install(venv: Path, target: Path) -> Path:
    """Install this checkout as a package of its own, without what it depends on, beside an Airflow
    that others use, too.
    """
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps")
    pip = [venv / "bin/pip", "install", *quiet, "--no-build-isolation", "--no-compile"]
    subprocess.run(
        [*map(str, pip), "--target", str(target), str(ROOT)], check=True, timeout=SUBMIT_S
    )
    return target


def run_inside(venv: Path, site: Path, home: Path) -> str:
    """Run the tests of `inside` in an environment; return what they say in the end."""
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(site),
        "HOME": str(home),
        "AIRFLOW_HOME": str(home),
    }
    words = ("-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-c", "/dev/null")
    argv = [str(venv / "bin/python"), "-m", "pytest", *words]
    argv += [f"--rootdir={ROOT}", str(ROOT / "tests/airflow/inside")]
    done = subprocess.run(
        argv, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=SUBMIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Airflow:
    """One Airflow.

    Args:
        venv: Where Airflow is installed.
        site: Where this package is installed.
        home: Its directory; anything in it may be looked at.
        environ: What its processes get beside their own settings.
        connection: The connection `submit_tf_job_default`.
    """

    def __init__(
        self,
        venv: Path,
        site: Path,
        home: Path,
        environ: Mapping[str, str],
        connection: Mapping[str, Any],
    ) -> None:
        self.venv, self.home, self.database = venv, home, home / "airflow.db"
        self.marks = home / "marks"
        self.marks.mkdir(parents=True)
        shutil.copy(venv / "empty.db", self.database)
        shutil.copytree(DAGS, home / "dags")
        shutil.copy(site / "submit_tf_job/airflow/example_dags/digits.py", home / "dags")
        self.port = unused_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        own = ("PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV")
        self.environ = {name: value for name, value in environ.items() if name not in own} | {
            "PATH": f"{venv / 'bin'}:{environ.get('PATH', '/usr/bin:/bin')}",
            "PYTHONPATH": str(site),
            "SUBMIT_TF_JOB_TEST_MARKS": str(self.marks),
            "AIRFLOW_HOME": str(home),
        }
        connection = {"conn_type": "submit_tf_job", **connection}
        self.environ["AIRFLOW_CONN_SUBMIT_TF_JOB_DEFAULT"] = json.dumps(connection)
        for name, value in self._settings().items():
            self.environ[f"AIRFLOW__{name.upper().replace('.', '__')}"] = str(value)

    def _settings(self) -> dict[str, object]:
        return {
            "core.dags_folder": self.home / "dags",
            "core.dagbag_import_timeout": 600,  # on a busy machine 30 s are too few
            "dag_processor.dag_file_processor_timeout": 600,
            "core.load_examples": False,
            "core.fernet_key": base64.urlsafe_b64encode(KEY).decode(),
            "core.executor": "LocalExecutor",
            "core.parallelism": 6,
            "core.test_connection": "Enabled",
            "core.simple_auth_manager_all_admins": True,
            "core.execution_api_server_url": f"{self.url}/execution/",
            "database.sql_alchemy_conn": f"sqlite:///{self.database}",
            "api.base_url": self.url,
            "api.host": "127.0.0.1",
            "api.port": self.port,
            "api.workers": 1,
            "api_auth.jwt_secret": "a-secret-of-this-test-alone-and-long-enough-for-the-signature-of-a-token",
            "scheduler.job_heartbeat_sec": 1,
            "scheduler.scheduler_heartbeat_sec": 1,
            "scheduler.orphaned_tasks_check_interval": 10,
            "triggerer.job_heartbeat_sec": 1,
            "triggerer.triggerer_health_check_threshold": 5,
            "workers.execution_api_timeout": 60,  # on a busy machine 5 s are too few
            "workers.min_heartbeat_interval": 1,
            "logging.colored_console_log": False,
            "usage_data_collection.enabled": False,
        }

    def start(self, *parts: str) -> None:
        """Start processes; all where none is named."""
        for part in parts or PARTS:
            with (self.home / f"{part}.log").open("ab") as log:
                self.processes[part] = subprocess.Popen(
                    [self.venv / "bin/airflow", part],
                    env=self.environ,
                    cwd=self.home,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )

    def kill(self, part: str) -> None:
        """Kill a process and its children, as a power failure would."""
        process = self.processes.pop(part)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)

    def end(self) -> None:
        """End what runs."""
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(15)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)

    # --- asking it --------------------------------------------------------------------------------

    def ask(self, method: str, path: str, *, tries_s: float = 60, **options: Any) -> Any:
        """Call its REST API, again after an error: SQLite may be locked for longer than Airflow
        waits.
        """
        give_up_at = time.monotonic() + tries_s
        while True:
            try:
                answer = requests.request(
                    method,
                    f"{self.url}/api/v2{path}",
                    timeout=60,
                    headers=self._headers(),
                    **options,
                )
                if answer.status_code < 400:
                    return answer.json() if answer.content else None
                said = answer.text
            except (requests.ConnectionError, requests.Timeout) as error:
                said = str(error)
            assert time.monotonic() < give_up_at, (method, path, said, self.tails())
            time.sleep(0.5)

    def _headers(self) -> dict[str, str]:
        token = requests.get(f"{self.url}/auth/token", timeout=60).json()["access_token"]
        return {"Authorization": f"Bearer {token}"}

    def run(self, dag: str, run: str) -> None:
        """Begin a run of a DAG, as soon as the DAG is known."""
        self.ask("PATCH", f"/dags/{dag}", tries_s=300, json={"is_paused": False})
        self.ask("POST", f"/dags/{dag}/dagRuns", json={"dag_run_id": run, "logical_date": None})

    def tasks(self, dag: str, run: str) -> dict[str, tuple[str | None, int]]:
        """Return state and number of tries of each task."""
        with contextlib.closing(
            sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=30)
        ) as database:
            rows = database.execute(
                "select task_id, state, try_number from task_instance where dag_id = ? "
                "and run_id = ?",
                (dag, run),
            )
            return {task: (state, tries) for task, state, tries in rows}

    def until(
        self,
        dag: str,
        run: str,
        holds: Callable[[dict[str, tuple[str | None, int]]], bool],
        within_s: float = 600,
    ) -> Any:
        """Wait until something holds of the tasks of a run."""
        give_up_at = time.monotonic() + within_s
        while not holds(seen := self.tasks(dag, run)):
            assert time.monotonic() < give_up_at, (seen, self.tails())
            time.sleep(0.3)
        return seen

    def mark_failed(self, dag: str, run: str, task: str) -> None:
        """Mark a task as failed, as a person does in the UI."""
        self.ask("PATCH", self.instance(dag, run, task), json={"new_state": "failed"})

    def instance(self, dag: str, run: str, task: str) -> str:
        """Return the path of a task instance in the API."""
        return f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}"

    def xcom(self, dag: str, run: str, task: str, key: str = "return_value") -> Any:
        """Return what a task has told others."""
        path = f"{self.instance(dag, run, task)}/xcomEntries/{key}?deserialize=true"
        return self.ask("GET", path)["value"]

    def links(self, dag: str, run: str, task: str) -> dict[str, str]:
        """Return the links of a task in the UI."""
        found = self.ask("GET", f"{self.instance(dag, run, task)}/links")
        return dict(found["extra_links"])

    def log_of(self, dag: str, run: str, task: str) -> str:
        """Return the task logs of all tries."""
        place = self.home / "logs" / f"dag_id={dag}" / f"run_id={run}" / f"task_id={task}"
        files = sorted(place.rglob("*.log*"))
        return "\n".join(file.read_text(errors="replace") for file in files)

    def tails(self) -> str:
        """Return the last words of every process."""
        return "\n".join(
            f"--- {file.name}\n{file.read_text(errors='replace')[-1500:]}"
            for file in sorted(self.home.glob("*.log"))
        )
