"""`python -m tests.matrix [--list] [--only NAME]...`: run the matrix, write docs/internals/matrix.md; the exit
status is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from tests.matrix.clusters import CLUSTERS, ROWS, run_cluster
from tests.matrix.page import Cell, Column, load, page, save
from tests.matrix.pythons import pythons, run_python

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/internals/matrix.md"
KEPT = (
    ROOT / "docs/internals/matrix.json"
)  # so that a run of a part replaces only that part of the page


def revision() -> str:
    """Name the sources that were run."""
    done = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    )
    return done.stdout.strip() or "unknown"


def names(kind: str, title: str) -> set[str]:
    """Return what a column may be called: its kind, its title, both, and its version alone."""
    return {kind, title, f"{kind} {title}", title.split()[0].rstrip(",")}


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.matrix", description="Every Hadoop version and every Python version."
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="'hadoop', 'python', '3.1.3', '3.4.2 direct', 'python 3.12'; repeatable",
    )
    parser.add_argument("--list", action="store_true", help="print the names, and run nothing")
    arguments = parser.parse_args()
    only: list[str] | None = arguments.only
    if arguments.list:
        print(*(f"hadoop {cluster.title}" for cluster in CLUSTERS), sep="\n")
        print(*(f"python {python.title}" for python in pythons()), sep="\n")
        return 0
    tensorflow = os.environ.get("SUBMIT_TF_JOB_TEST_TENSORFLOW")
    if not tensorflow:
        parser.error(
            "SUBMIT_TF_JOB_TEST_TENSORFLOW names no virtual environment with TensorFlow; "
            "run `make matrix`"
        )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that sandboxes are taken down

    jobs: dict[str, tuple[str, Callable[[], dict[str, Cell]]]] = {}
    for cluster in CLUSTERS:
        jobs[cluster.title] = ("hadoop", partial(run_cluster, cluster, say))
    for python in pythons():
        # Tests look for interpreters below the home directory.
        jobs[python.title] = ("python", partial(run_python, python, dict(os.environ), say))
    for wanted in only or ():
        if not any(wanted in names(kind, title) for title, (kind, _) in jobs.items()):
            parser.error(f"--only {wanted!r} is none of {', '.join(jobs)}")
    kept = {title: column for title, column in load(KEPT).items() if title in jobs}
    on_request = {cluster.title for cluster in CLUSTERS if cluster.on_request}
    failed = False
    for title, (kind, run) in jobs.items():
        if not names(kind, title).isdisjoint(only or jobs.keys() - on_request):
            today = f"{datetime.now(timezone.utc):%Y-%m-%d}"
            column = Column(kind, title, today, revision(), run())
            kept[title], failed = column, failed or not column.ok
            save(KEPT, kept)
    rows = {name: row.about for name, row in ROWS.items()}
    PAGE.write_text(page([kept[title] for title in jobs if title in kept], rows))
    say(f"{PAGE.relative_to(ROOT)} is written; {'something FAILED' if failed else 'all passed'}")
    return 1 if failed else 0


def say(line: str) -> None:
    """Tell of progress."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
