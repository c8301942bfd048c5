"""A list of jobs: its JSON object, its table, and one line for a job that has changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from submit_tf_job.report.model import FORMAT_VERSION, instant
from submit_tf_job.report.table import columns, duration

if TYPE_CHECKING:
    from submit_tf_job.fleet import ListedJob

__all__ = ["fleet_line", "listed_job_object", "listing_lines", "listing_object"]


def listing_object(jobs: Sequence[ListedJob]) -> dict[str, Any]:
    """Build the object that `list -o json` prints."""
    return {"kind": "JobList", "format": FORMAT_VERSION, "jobs": [listed_job_object(job) for job in jobs]}


def listed_job_object(job: ListedJob) -> dict[str, Any]:
    """Build the object of one row."""
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
    }


def listing_lines(jobs: Sequence[ListedJob], *, width: int | None = None, with_user: bool = False) -> Iterator[str]:
    """Write the table."""
    if not jobs:
        yield "no jobs"
        return
    heading = ["NAME", "STATE", *(["USER"] if with_user else []), "QUEUE", "FOR", "CONTAINERS", "MEMORY", "APPLICATION"]
    last = len(heading) - 1
    yield from columns([heading, *(_row(job, with_user) for job in jobs)], width, optional=(last - 2, last - 1), ids=(last,))


def _row(job: ListedJob, with_user: bool) -> list[str]:
    return [
        job.name,
        job.state.value,
        *([job.user or "-"] if with_user else []),
        job.queue or "-",
        duration(job.elapsed_s),
        "-" if job.containers is None else str(job.containers),
        "-" if job.memory_mib is None else f"{job.memory_mib / 1024:.1f}Gi",
        job.application_id,
    ]


def fleet_line(job: ListedJob) -> str:
    """Describe a job that has changed."""
    held = f"  {job.containers} containers" if job.containers else ""
    return f"{job.name}  {job.state.value}{held}  {job.application_id}"
