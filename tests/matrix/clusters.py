"""What a job must do on every Hadoop version: tests of the promises and of tests/cluster, on a
sandbox of that version.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.clusters import KEEP, ROOT, SANDBOX
from tests.matrix.page import Cell

__all__ = ["CLUSTERS", "ROWS", "Cluster", "run_cluster"]

COLUMN_S = 3600


@dataclass(frozen=True)
class Cluster:
    """One column: a Hadoop version, how its containers find names, and whether it runs only where
    `--only` names it.
    """

    hadoop: str
    resolver: str
    on_request: bool = False

    @property
    def title(self) -> str:
        """What the column is called."""
        return f"{self.hadoop} {self.resolver}"


# Both ways to find names are tried on the newest.
CLUSTERS = (
    Cluster("3.4.2", "system"),
    Cluster("3.4.2", "direct"),
    # with the services API of 3.4.2, as its own was not published (docs/sandbox.md)
    Cluster("3.5.0", "auto", on_request=True),
    Cluster("3.3.5", "auto"),
    Cluster("3.2.1", "auto"),
    Cluster("3.1.3", "auto"),
)


@dataclass(frozen=True)
class Row:
    """A row of the page: what it says, and the tests that prove it, as far as their names go."""

    about: str
    file: str
    test: str


# Name, and how the names of its tests begin; then what the page says of it.
_ROWS = """
custom promises/test_detached test_detached_job_survives_its_application_master
    roles of one's own, one decides
multi_worker promises/test_verdicts test_verdict_of_job_that_ends[succeeds-
    chief and workers: SUCCEEDED, everything is gone
worker_fails promises/test_verdicts test_verdict_of_job_that_ends[exits-7-
    a worker fails: exit status 1, and the worker and its status are named
parameter_server promises/test_training test_parameter_servers_train_and_are_ended
    ps and workers never end by themselves: SUCCEEDED when the chief is done
stopped promises/test_verdicts test_stopped_job_is_stopped
    `stop`: STOPPED, `wait` returns 3, everything is gone
detached promises/test_detached test_detached_job_survives_its_application_master
    without a follower: another process gets the verdict later
survives promises/test_survives test_training_continues_after_losing_a_worker_and_its_chief
    `retries: 3`: the containers of a worker and of the chief are killed: SUCCEEDED from the
    checkpoint, with two restarts
own_fault promises/test_survives test_fault_of_the_program_itself_is_tried_once
    `retries: 3`: an error of the program's own is tried once
elastic cluster/test_elastic test_a_training_shrinks_and_grows
    `instances: {min: 1, max: 3}`: loses workers, gets others, is scaled; ranks leave no gap
fewer cluster/test_elastic test_a_training_starts_with_fewer
    `instances: {min: 1, max: 3}`: starts with one worker where there is no room for more
saves cluster/test_saving test_tasks_save_before_the_job_is_stopped
    `stop --grace 2m`: all tasks save first (3.1 and 3.2 have no signals, and say so)
too_large promises/test_verdicts test_refused_job_leaves_its_name_free[too-large
    more memory than a container may have: exit status 9, and the name stays free
files promises/test_data test_files_and_packages_reach_every_task
    `files:` and `python:`: files and a wheel are staged and reach each task
trains promises/test_training test_digits_on_hdfs_are_trained_by_three_tasks
    `specs/multi-worker.yaml`: MultiWorkerMirroredStrategy, data and model on HDFS, accuracy
    above 0.8
"""
ROWS: Mapping[str, Row] = {
    name: Row(" ".join(about.split()), f"tests/{file}.py", test)
    for name, file, test, about in re.findall(
        r"^(\w+) (\S+) (\S+)\n((?:    .*\n)+)", _ROWS, re.MULTILINE
    )
}


def run_cluster(cluster: Cluster, say: Callable[[str], None]) -> dict[str, Cell]:
    """Run the tests of every row on one cluster, which they start and take down."""
    options = f"--hadoop {cluster.hadoop} --resolver {cluster.resolver}"
    tests = sorted({f"{row.file}::{row.test.partition('[')[0]}" for row in ROWS.values()})
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.xml"
        words = ["-m", "cluster", "-n", "2", "--dist", "loadfile", "-q", "--tb=short"]
        subprocess.run(
            [sys.executable, "-m", "pytest", *words, f"--junitxml={report}", *tests],
            cwd=ROOT,
            env={**os.environ, SANDBOX: options, KEEP: ""},
            timeout=COLUMN_S,
            check=False,
        )
        cases = list(ET.parse(report).iter("testcase"))
    cells = {name: _cell(row, cases) for name, row in ROWS.items()}
    for name, cell in cells.items():
        say(f"{cluster.title}: {name}: {'ok' if cell.ok else 'FAILED: ' + cell.note}")
    return cells


def _cell(row: Row, cases: list[ET.Element]) -> Cell:
    module = row.file.removesuffix(".py").replace("/", ".")
    of_module = [case for case in cases if case.get("classname") == module]
    own = [case for case in of_module if case.get("name", "").startswith(row.test)]
    wrong = [one for case in own for one in case if one.tag in ("failure", "error", "skipped")]
    seconds = sum(float(case.get("time", 0)) for case in own)
    notes = " ".join(child.get("message", "")[:800] for child in wrong)
    return Cell(bool(own) and not wrong, notes if own else "it was not run", seconds)
