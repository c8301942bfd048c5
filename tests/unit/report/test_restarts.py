"""A line for each time that all tasks start again."""

from __future__ import annotations

from submit_tf_job.observation import JobStatus
from submit_tf_job.report.restarts import Restarts
from tests.fakes.statuses import app, report


def status(count: int, application: str = "application_1_0001") -> JobStatus:
    """A job whose tasks have started again so often."""
    past = [{"generation": n, "task": "worker-0", "message": f"lost {n}"} for n in range(count)]
    said = report("running", retries={"max": 3}, generation=count, generations=past)
    return JobStatus("mnist", application, app("RUNNING", "UNDEFINED"), report=said)


def line(number: int) -> str:
    return f"lost {number}; all tasks start again (retry {number + 1} of 3)"


def test_each_generation_has_one_line() -> None:
    restarts = Restarts()
    told = [restarts.lines(status(count)) for count in (0, 1, 1, 3)]
    assert told == [[], [line(0)], [], [line(1), line(2)]]


def test_next_application_of_a_job_counts_anew() -> None:
    restarts = Restarts()
    restarts.lines(status(2))
    assert restarts.lines(status(1, "application_1_0002")) == [line(0)]
