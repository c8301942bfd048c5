"""Format a list of jobs as a JSON object and as a table, and a changed job as one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from submit_tf_job.diagnose.amounts import clause
from submit_tf_job.report.format import FORMAT_VERSION, instant
from submit_tf_job.report.table import columns, duration, number

if TYPE_CHECKING:
    from submit_tf_job.operations.listing import ListedJob

__all__ = [
    "listed_job_line",
    "listed_job_object",
    "listing_lines",
    "listing_object",
    "listing_rows",
]


def listing_object(jobs: Sequence[ListedJob]) -> dict[str, Any]:
    """Return the object that `list -o json` prints."""
    return {
        "kind": "JobList",
        "format": FORMAT_VERSION,
        "jobs": [listed_job_object(job) for job in jobs],
    }


def listed_job_object(job: ListedJob) -> dict[str, Any]:
    """Return the object of one row."""
    return {
        "kind": "ListedJob",
        "format": FORMAT_VERSION,
        "name": job.name,
        "application_id": job.application_id,
        "state": job.state.value,
        "user": job.user,
        "queue": job.queue,
        "submitted_at": instant(job.submitted_ms),
        "finished_at": instant(job.finished_ms),
        "elapsed_s": job.elapsed_s,
        "containers": job.containers,
        "memory_mib": job.memory_mib,
        "runs": job.runs,
    }


def listing_lines(
    jobs: Sequence[ListedJob], *, width: int | None = None, with_user: bool = False
) -> Iterator[str]:
    """Return the lines of the table."""
    if not jobs:
        yield "no jobs"
        return
    rows = listing_rows(jobs, with_user=with_user)
    last = len(rows[0]) - 1
    yield from columns(rows, width, optional=(last - 2, last - 1), ids=(last,))


def listing_rows(jobs: Sequence[ListedJob], *, with_user: bool = False) -> list[list[str]]:
    """Return the cells of the table, the heading first."""
    heading = ["NAME", "STATE", "USER", "QUEUE", "FOR", "CONTAINERS", "MEMORY", "APPLICATION"]
    rows = [heading, *(_row(job) for job in jobs)]
    if not with_user:
        for row in rows:
            del row[2]
    return rows


def _row(job: ListedJob) -> list[str]:
    return [
        job.name,
        job.state.value + (f", run {job.runs}" if job.runs > 1 else ""),
        job.user or "-",
        job.queue or "-",
        duration(job.elapsed_s),
        number(job.containers),
        number(job.memory_mib and job.memory_mib / 1024, "{:.1f}Gi"),
        job.application_id,
    ]


def listed_job_line(job: ListedJob) -> str:
    """Return the line for a job that has changed."""
    held = clause("  {} containers", job.containers)
    return f"{job.name}  {job.state.value}{held}  {job.application_id}"
