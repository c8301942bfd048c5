"""`python -m tests.bench [--quick]`: measure, print the ratios, write docs/internals/performance.md; the exit
status is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

from tests.bench.again import measure_again
from tests.bench.airflow import import_rows
from tests.bench.bootstrap import measure_bootstrap
from tests.bench.cluster import cluster_rows, cpu_count, measure_cluster
from tests.bench.gateway import measure_gateway
from tests.bench.logs import measure_logs
from tests.bench.measure import Row
from tests.bench.operate import measure_fleet_rows, measure_status
from tests.bench.other_tasks import measure_other_tasks
from tests.bench.page import page, table
from tests.bench.scale import measure_scale
from tests.bench.secure import measure_secure
from tests.bench.size import measure_size
from tests.bench.staging import measure_staging
from tests.bench.startup import measure_startup, startup_rows
from tests.bench.use import measure_use

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/internals/performance.md"
STARTUP_ROUNDS = 15
PAIRS = 9  # of submissions, at least: their medians differ by hundredths


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="only what needs no cluster; prints, and writes no page",
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds of jobs on the cluster")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the sandbox is taken down
    load_before = os.getloadavg()[0]
    parts = dict(_parts())
    if not options.quick:
        parts.update(_cluster_parts(options.rounds))
    rows, broken = [], []
    for title, measure in parts.items():
        say(title)
        try:
            rows += measure()
        except Exception:  # noqa: BLE001  (the other parts take half an hour)
            traceback.print_exc()
            broken.append(title)
    if not options.quick:
        PAGE.write_text(page(PAGE.read_text(), rows, **_facts(load_before)))
        say(f"{PAGE.relative_to(ROOT)} is written")
    print(table(rows), end="")
    for title in broken:
        print(f"not measured: {title}")
    return 0 if all(row.met for row in rows) and not broken else 1


def _parts() -> Iterator[tuple[str, Callable[[], list[Row]]]]:
    """Yield what needs no cluster."""
    yield (
        f"start-up, {STARTUP_ROUNDS} rounds",
        lambda: startup_rows(measure_startup(STARTUP_ROUNDS)),
    )
    yield "size", measure_size
    yield "many jobs", measure_fleet_rows
    yield "the bootstrap", lambda: measure_bootstrap(STARTUP_ROUNDS)
    yield "simulated other tasks", measure_other_tasks
    yield "the use of a hundred real tasks", measure_use


def _cluster_parts(rounds: int) -> Iterator[tuple[str, Callable[[], list[Row]]]]:
    """Yield what runs on sandboxes."""
    airflow = Path(os.environ["SUBMIT_TF_JOB_TEST_AIRFLOW"])
    yield "import of the Airflow operator", lambda: import_rows(airflow, rounds)
    pairs = max(rounds, PAIRS)
    yield f"jobs, {pairs} rounds", lambda: cluster_rows(measure_cluster(pairs, say))
    yield "logs against Hadoop's own client", lambda: measure_logs(rounds)
    yield "status against Hadoop's own client", lambda: measure_status(rounds)
    yield "lost tasks", lambda: measure_again(rounds)
    yield "two hundred real tasks", measure_scale
    yield "files staged against Hadoop's own client", lambda: measure_staging(rounds)
    yield "failovers", lambda: measure_secure(rounds)
    yield "the gateway", lambda: measure_gateway(rounds)


def _facts(load: float) -> dict[str, object]:
    revision = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    return {
        "date": f"{datetime.now(timezone.utc):%Y-%m-%d}",
        "revision": revision or "unknown",
        "python": platform.python_version(),
        "cores": cpu_count(),
        "busy": "" if load < 1 else f", busy with other work: load {load:.0f}",
    }


def say(line: str) -> None:
    """Tell of progress."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
