"""`python -m tests.bench [--quick]`: measure, print the ratios, write docs/performance.md; the exit
status is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

from tests.bench.again import measure_again
from tests.bench.airflow import import_rows
from tests.bench.bootstrap import measure_bootstrap
from tests.bench.cluster import LINGER_S, cluster_rows, cpu_count, measure_cluster
from tests.bench.followers import measure_followers
from tests.bench.gateway import measure_gateway
from tests.bench.logs import measure_logs
from tests.bench.operate import measure_fleet_rows, measure_status
from tests.bench.page import page, table
from tests.bench.scale import measure_scale
from tests.bench.secure import measure_secure
from tests.bench.size import measure_size
from tests.bench.staging import measure_staging
from tests.bench.startup import measure_startup, startup_rows

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/performance.md"
STARTUP_ROUNDS = 15


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
    say(f"start-up, {STARTUP_ROUNDS} rounds")
    rows = [*startup_rows(measure_startup(STARTUP_ROUNDS)), *measure_size(), *measure_fleet_rows()]
    say("the bootstrap")
    rows += measure_bootstrap(STARTUP_ROUNDS)
    say("simulated followers")
    rows += measure_followers()
    if not options.quick:
        say("import of the Airflow operator")
        rows += import_rows(Path(os.environ["SUBMIT_TF_JOB_TEST_AIRFLOW"]), options.rounds)
        say(f"jobs on a sandbox, {options.rounds} rounds")
        rows += cluster_rows(measure_cluster(options.rounds, say))
        say(f"logs against Hadoop's own client, {options.rounds} rounds")
        rows += measure_logs(options.rounds)
        say(f"status against Hadoop's own client, {options.rounds} rounds")
        rows += measure_status(options.rounds)
        say(f"lost tasks, {options.rounds} rounds")
        found = os.environ.get("SUBMIT_TF_JOB_TEST_FRAMEWORKS")
        rows += measure_again(options.rounds, Path(found) if found else None)
        say("two hundred real tasks")
        rows += measure_scale()
        say("files staged against Hadoop's own client")
        rows += measure_staging(options.rounds)
        say("Kerberos and failovers")
        rows += measure_secure(options.rounds)
        say("the gateway")
        rows += measure_gateway(options.rounds)
        PAGE.write_text(page(rows, **_facts(load_before)))
        say(f"{PAGE.relative_to(ROOT)} is written")
    print(table(rows), end="")
    return 0 if all(row.met for row in rows) else 1


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
        "startup_rounds": STARTUP_ROUNDS,
        "linger": LINGER_S,
    }


def say(line: str) -> None:
    """Tell of progress."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
