"""What the import of the Airflow operator costs beyond what Airflow itself costs."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from tests.airflow.harness import install
from tests.bench.measure import Row

__all__ = ["import_rows"]

GOAL_S = 0.05
_SCRIPT = """
import json, time
start = time.process_time()
from airflow import DAG
from airflow.sdk import BaseOperator, BaseOperatorLink
DAG("any")
own = time.process_time()
import submit_tf_job.airflow.operator
print(json.dumps([own - start, time.process_time() - own]))
"""


def import_rows(venv: Path, rounds: int) -> list[Row]:
    """Compare the least CPU seconds of several runs with the goal, for this checkout."""
    taken = []
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        site = str(install(venv, Path(home) / "site"))
        environ = {"PATH": os.environ["PATH"], "PYTHONPATH": site, "AIRFLOW_HOME": home}
        argv = [str(venv / "bin/python"), "-c", _SCRIPT]
        for _ in range(rounds + 1):
            done = subprocess.run(
                argv, env={**environ, "HOME": home}, capture_output=True, text=True, timeout=120
            )
            assert done.returncode == 0, done.stderr
            taken.append(json.loads(done.stdout.splitlines()[-1]))
    own, ours = (min(series) for series in zip(*taken[1:], strict=True))  # the first one compiles
    what = "import of the Airflow operator, beyond Airflow's own"
    details = f"CPU: {ours * 1000:.0f} ms after {own:.1f} s of Airflow's own"
    return [Row(what, f"{GOAL_S * 1000:.0f} ms", ours / GOAL_S, 1.0, details)]
