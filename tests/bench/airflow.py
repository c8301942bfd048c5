"""What the import of the Airflow operator costs beyond what Airflow itself costs, in one process
after the other.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from tests.airflow.harness import install
from tests.bench.measure import Row

__all__ = ["GOAL_S", "import_rows", "measure_import"]

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


def measure_import(venv: Path, site: Path, home: Path, rounds: int) -> tuple[float, float]:
    """Return the least CPU seconds of several runs: Airflow's own import, and what the operator
    adds to it.
    """
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(site),
        "AIRFLOW_HOME": str(home),
        "HOME": str(home),
    }
    taken = []
    for _ in range(rounds + 1):
        done = subprocess.run(
            [venv / "bin/python", "-c", _SCRIPT],
            env=environ,
            cwd=home,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        taken.append(json.loads(done.stdout.splitlines()[-1]))
    own, ours = zip(*taken[1:], strict=True)  # the first one compiles
    return min(own), min(ours)


def import_rows(venv: Path, rounds: int) -> list[Row]:
    """Compare with the goal, for this checkout."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        home = Path(directory)
        own, ours = measure_import(venv, install(venv, home / "site"), home, rounds)
    details = f"CPU: {ours * 1000:.0f} ms after {own:.1f} s of Airflow's own"
    return [
        Row(
            "import of the Airflow operator, beyond Airflow's own",
            f"{GOAL_S * 1000:.0f} ms",
            ours / GOAL_S,
            1.0,
            details,
        )
    ]
