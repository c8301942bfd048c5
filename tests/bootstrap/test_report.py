"""The job's report beside a program that does odd things to files and processes, by real bootstraps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bootstrap.harness import Cluster, pair, role


def away(logs: Path) -> Path:
    return logs.with_name("away")


def test_report_is_written_again_once_it_can_be(job: Cluster) -> None:
    """As on a log disk that is full for a moment."""
    job.job({"chief": role(1, "trains", "until [ -e ../../go ]; do sleep 0.05; done")})
    job.start()
    job.until(lambda: job.report().get("state") == "running")
    logs = job.places["chief-0"][1]
    before = job.report()["updated_at"]
    logs.rename(away(logs))
    (job.root / "go").touch()
    # the command has ended, and the last report is tried again
    told = away(logs) / "stderr.txt"
    job.until(lambda: "the report cannot be written" in told.read_text())
    assert job.runs["chief-0"].poll() is None
    away(logs).rename(logs)
    assert job.wait("chief-0") == 0
    report = job.report()
    assert report["state"] == "succeeded"
    assert report["updated_at"] > before
    assert report["warnings"][0].startswith("the report cannot be written, and is tried again: ")
    assert sorted(path.name for path in logs.iterdir()) == [
        "job-report.json",
        "job-usage.json",
        "stacks.txt",
        "stderr.txt",
        "stdout.txt",
        "tfjob-times.txt",
    ]


@pytest.mark.parametrize(
    "odd",
    [
        "rm -f $TFJOB_PROGRESS_FILE; mkfifo $TFJOB_PROGRESS_FILE",
        'rm -f "$LOGS"/*-times* "$LOGS"/std*; for f in $FILES; do mkfifo "$LOGS/$f"; done',
        'mkfifo "$LOGS"/job-report.json.tmp',
        'mkdir "$LOGS"/job-report.json.tmp',
        "for i in $(seq 8); do mkfifo ../tfjob-done-$i.json; done; cd ..; mkfifo $MARKER",
    ],
)
def test_no_file_of_a_program_blocks_the_bootstrap(job: Cluster, odd: str) -> None:
    program = f"exec 3>&1; {odd}; sleep 2.5"
    job.job({"chief": role(1, "trains", program)})
    marker = f"tfjob-done-{job.task['run']}-chief-0.json"
    files = "stdout.txt stderr.txt tfjob-times.txt"
    shell = f"export LOGS=${{LOG_DIRS%%,*}} FILES='{files}' MARKER={marker}"
    job.start(shell=shell)
    assert job.wait("chief-0") == 0
    assert job.report()["state"] == "succeeded"


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("(sleep 60; exit 3) &", "sleep"),
        ("setsid sleep 60 & sleep 0.1", "sleep"),
        ("sleep 0.1 & true", ""),  # it ends by itself, as the helpers of many libraries do
        ("sleep 0.1 | cat", ""),
    ],
)
def test_work_left_in_the_background_is_told(job: Cluster, command: str, named: str) -> None:
    job.job(pair("sleep 3", command))
    job.start()
    assert job.wait_all() == {"chief-0": 0, "worker-0": 0}
    warnings = job.report()["warnings"]
    assert len(warnings) == bool(named), warnings
    for warning in warnings:
        assert warning.startswith(
            "the command of worker-0 has ended, and had left processes in the background, which "
            "are not waited for: "
        )
        assert f"{named} (process " in warning


def test_files_that_go_with_the_container_are_told_once(job: Cluster) -> None:
    """The first task of a role tells for all; what is no file of the program's does not count."""
    writes = (
        "mkdir -p logs/a __pycache__ .hidden; head -c 20000 /dev/zero > model.keras; "
        "echo x > logs/a/events; touch empty; echo x > __pycache__/m.pyc; echo x > .hidden/y; "
        "echo more >> given.txt; ln -s /etc/passwd linked"
    )
    job.job({"worker": role(2, "trains", writes)}, deciding="worker")
    job.start(shell="echo before > given.txt")
    assert [job.wait(f"worker-{n}") for n in (0, 1)] == [0, 0]
    assert job.report()["warnings"] == [
        "worker-0 left 'model.keras' (20 kB) and 'logs/a/events' (2 B) in its working directory, "
        "which is deleted with the container; `run --keep model.keras`, or `collect` of an "
        "output, stores it"
    ]


def test_files_of_a_failed_program_are_not_told(job: Cluster) -> None:
    job.job({"worker": role(1, "trains", "echo x > partial; exit 3")}, deciding="worker")
    job.start()
    job.wait("worker-0")
    assert (job.report()["state"], job.report()["warnings"]) == ("failed", [])
