"""The lines and JSON objects of a job and of the settings."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from submit_tf_job.jsonview import job_object
from submit_tf_job.observation import Evidence, JobStatus
from submit_tf_job.report.job_text import change_line, job_lines
from tests.builders.statuses import FAILURE_JSON, app, observations, report

ROLES = {
    "chief": {"wanted": 1, "running": 1},
    "worker": {"wanted": 4, "running": 2, "failed": 1, "lost": 1},
    "ps": {"wanted": 2},
}
RUNNING = app("RUNNING", "UNDEFINED")


def look(
    record: Any = RUNNING, trouble: str = "", evidence: Evidence = Evidence.READ, **said: Any
) -> JobStatus:
    known: dict[str, Any] = {"run": "mnist-4k3f7qa2", "evidence": evidence, "trouble": trouble}
    known["report"] = report(**said) if said else None
    return JobStatus("mnist", "application_1_0001", record, **known)


# --- one line while it runs -----------------------------------------------------------------------

PROGRESS = {"step": 30, "total": 100, "metrics": {"loss": 0.123456, "epoch": 3, "lr": None}}
NO_STEP: dict[str, Any] = {"step": None, "metrics": {}}
SEVEN = [f"worker-{n}" for n in range(7)]
OVER = {"chief": {"wanted": 1, "succeeded": 1}, "ps": {"wanted": 1, "ended": 1}}
LOST = {"worker": {"wanted": 2, "failed": 1}}
RUNS = {"state": "running"}
OF_ROLES = "RUNNING    chief 1/1 running  worker 2/4 running, 1 failed, 1 lost  ps 0/2"
FIVE = "worker-0, worker-1, worker-2, worker-3, worker-4"
LINES: list[tuple[dict[str, Any], str]] = [
    ({}, "STARTING   waiting for the first containers"),
    ({"state": "waiting", "wanted": 3, "arrived": 1}, "STARTING   1 of 3 tasks started"),
    (
        {"state": "waiting", "wanted": 9, "arrived": 2, "missing": SEVEN},
        f"STARTING   2 of 9 tasks started; waiting for {FIVE} and 2 more",
    ),
    (
        {"state": "waiting", "wanted": 2, "arrived": 2, "unnamed": ["worker-0"]},
        "STARTING   Both tasks started; waiting for DNS to register worker-0",
    ),
    ({"roles": ROLES} | RUNS, OF_ROLES),
    ({"progress": PROGRESS} | RUNS, "RUNNING    step 30/100  loss 0.1235  epoch 3  lr -"),
    ({"state": "running", "progress": {"step": 3, "total": None}}, "RUNNING    step 3"),
    ({"state": "running", "progress": NO_STEP, "roles": ROLES}, OF_ROLES),
    ({"state": "finishing", "roles": OVER}, "FINISHING  chief 1 succeeded  ps 1 stopped"),
    (
        {"state": "failed", "wanted": 2, "roles": LOST, "first_failure": FAILURE_JSON},
        f"FINISHING  {FAILURE_JSON['message']}; stopping the other tasks",
    ),
    (
        {"record": app("ACCEPTED", "UNDEFINED")},
        "PENDING    accepted; waiting for YARN to start its ApplicationMaster",
    ),
    ({"record": app("FAILED", "FAILED"), "evidence": Evidence.UNREADABLE}, "FAILED"),
]


@pytest.mark.parametrize(("known", "line"), LINES)
def test_change_text_by_state(known: dict[str, Any], line: str) -> None:
    assert change_line(look(**known), 0) == f"00:00  {line}"


# --- some lines -----------------------------------------------------------------------------------


def test_job_lines_of_a_failure() -> None:
    found = look(
        replace(app(final="FAILED"), started_ms=1_700_000_000_000, finished_ms=1_700_000_125_000),
        state="failed",
        first_failure=FAILURE_JSON,
        roles={"worker": {"wanted": 2, "failed": 1, "ended": 1}},
        warnings=["worker-0 was slow"],
    )
    assert list(job_lines(found)) == [
        "mnist  FAILED after 2 min 5 s",
        "  worker-1 ended with exit status 3",
        "  first cause  worker-1 on node1, exit status 3",
        "  last lines of worker-1's stderr:",
        "    Traceback",
        "  worker       1 failed, 1 stopped",
        "  warning      worker-0 was slow",
        "  application  application_1_0001  run mnist-4k3f7qa2  queue default  user alice",
    ]


def test_job_lines_of_a_waiting_job() -> None:
    found = look(
        trouble="The services API answers 500",
        state="waiting",
        wanted=9,
        arrived=1,
        missing=list("abcdefg"),
        progress={"step": 1},
    )
    assert list(job_lines(found)) == [
        "mnist  STARTING",
        "  worker       0/2",
        "  waiting for  a, b, c, d, e …",
        "  progress     step 1",
        "  application  application_1_0001  run mnist-4k3f7qa2  queue default  user alice",
        "  not known at this moment: The services API answers 500",
    ]


# --- JSON -----------------------------------------------------------------------------------------

KEYS_OF_A_JOB = """\
kind format name run application_id user queue state reason confirmed hint failure root_cause
pending tasks roles progress standstill awaited checkpoint held retries warnings resubmission
evidence yarn links outputs started_at finished_at"""


def test_job_lines_contain_the_links() -> None:
    served = [
        {"task": f"board-{index}", "host": "node1", "ports": {"http": 24001 + index}}
        for index in range(12)
    ]
    found = look(app("RUNNING", "UNDEFINED"), state="running", served=served)
    urls = [link["url"] for link in job_object(found)["links"]]
    assert urls[:2] == ["http://node1:24001", "http://node1:24002"]
    lines = list(job_lines(found))
    assert "  board-0 http  http://node1:24001" in lines
    assert "  and 2 more links: submit_tf_job describe JOB -o json" in lines


@pytest.mark.slow
@given(observations)
def test_job_object_has_the_same_keys_for_any_status(seen: JobStatus) -> None:
    found = job_object(seen)
    assert list(found) == KEYS_OF_A_JOB.split()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert all(isinstance(line, str) for line in (*job_lines(seen), change_line(seen, 1)))


@pytest.mark.parametrize("milliseconds", [None, 0, -1, 10**17, 10**40])
def test_job_object_of_times_out_of_range(milliseconds: int | None) -> None:
    assert job_object(look(replace(app(), started_ms=milliseconds)))["started_at"] is None
