"""A node's clock that is set while a job runs: what its bootstrap measures goes by another one."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

import pytest

from submit_tf_job.container import contract
from tests.bootstrap.harness import Cluster, role

HOUR_S, DAY_S = 3600, 86400
JUMP = """
    #!{python} -S
    # a Python whose wall clock is set once, a second after its first use
    import runpy, sys, time
    wall, began = time.time, time.monotonic()
    time.time = lambda: wall() + ({jump_s} if time.monotonic() > began + 1 else 0)
    sys.argv = sys.argv[2:]
    sys.path.insert(0, sys.argv[0])
    runpy.run_path(sys.argv[0], run_name="__main__")
    """
PROGRAM = """
import json, time
for step in range(1, 8):
    print("TFJOB_PROGRESS", json.dumps({"step": step, "metrics": {"loss": 1 / step}}), flush=True)
    time.sleep(0.5)
"""


@pytest.mark.parametrize("jump_s", [-DAY_S, -HOUR_S, HOUR_S, DAY_S])
def test_usage_and_curves_of_a_node_whose_clock_is_set(
    job: Cluster, tmp_path: Path, jump_s: int
) -> None:
    python = tmp_path / "python"
    python.write_text(textwrap.dedent(JUMP).lstrip().format(python=sys.executable, jump_s=jump_s))
    python.chmod(0o755)
    job.python = str(python)
    job.job({"worker": role(1, "trains", [sys.executable, "-c", PROGRAM])})
    job.start()
    assert job.wait("worker-0") == 0, job.stderr("worker-0")
    logs = job.places["worker-0"][1]
    usage = json.loads((logs / contract.USAGE_FILE).read_bytes())
    report = json.loads((logs / contract.REPORT_FILE).read_bytes())
    assert 3 < usage["updated_at"] - usage["started_at"] < 60
    assert 3 < report["ended_at"] - report["started_at"] < 60
    assert 3 < report["outcome"]["duration_s"] < 60
    [use] = usage["tasks"]
    assert 3 < use["for_s"] < 60
    assert 0 <= use["cpu_cores"]["mean"] < 2
    assert use["memory_bytes"]["mean"] > 0
    curves = {series["name"]: series["points"] for series in usage["series"]}
    steps = [step for _, step, _ in curves["loss"]]  # at most one a second
    assert (steps, steps[-1]) == (sorted(steps), 7)
    assert all(0 <= at < 60 for at, _, _ in curves["loss"])


@pytest.mark.parametrize("written_at", ["-1 day", "now", "+1 day"])
@pytest.mark.parametrize("how", [">", ">> shipped.log; cat shipped.log >"])
def test_own_logs_of_a_node_whose_clock_is_set(job: Cluster, written_at: str, how: str) -> None:
    """The times of files are compared with each other, and never with the clock."""
    command = f"echo 'ValueError: own' {how} train.log; touch -d '{written_at}' train.log; exit 3"
    job.job({"worker": role(1, "trains", ["sh", "-c", command])})
    job.start(shell="echo shipped > shipped.log; echo other > other.log; touch -d '+2 days' *.log")
    job.wait("worker-0")
    shown = job.report()["first_failure"]["last_lines"]
    assert "ValueError: own" in shown
    assert "other" not in shown
