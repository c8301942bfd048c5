"""Format a list of jobs as a table, and a changed job as one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from submit_tf_job.diagnose.amounts import clause
from submit_tf_job.host.units import duration_text
from submit_tf_job.jsonview import instant
from submit_tf_job.report.table import columns, number

if TYPE_CHECKING:
    from submit_tf_job.operations.listing import ListedJob


def listing_lines(
    jobs: Sequence[ListedJob],
    *,
    width: int | None = None,
    with_user: bool = False,
    runs: bool = False,
) -> Iterator[str]:
    """Return the lines of the table; with `runs` the rows are named by their runs."""
    if not jobs:
        yield "no jobs"
        return
    rows = listing_rows(jobs, with_user=with_user, runs=runs)
    last = len(rows[0]) - 1
    yield from columns(rows, width, optional=(last - 2, last - 1), ids=(last,))


def listing_rows(
    jobs: Sequence[ListedJob], *, with_user: bool = False, runs: bool = False
) -> list[list[str]]:
    """Return the cells of the table, the heading first."""
    heading = ["NAME", "STATE", "USER", "QUEUE", "FOR", "CONTAINERS", "MEMORY", "APPLICATION"]
    rows = [heading, *(_row(job, job.run if runs else job.name) for job in jobs)]
    if not with_user:
        for row in rows:
            del row[2]
    return rows


def _row(job: ListedJob, name: str) -> list[str]:
    return [
        name,
        job.state.value,
        job.user or "-",
        job.queue or "-",
        duration_text(job.elapsed_s),
        number(job.containers),
        number(job.memory_mib and job.memory_mib / 1024, "{:.1f}Gi"),
        job.application_id,
    ]


def history_lines(
    records: Sequence[Mapping[str, Any]], *, width: int | None = None
) -> Iterator[str]:
    """Return the table of runs that records tell of."""
    if not records:
        yield "no runs"
        return
    rows = [["RUN", "STATE", "SUBMITTED", "STEP", "REASON"]]
    for record in records:
        end = record.get("end") or {}
        step = (end.get("progress") or {}).get("step")
        reason = (end.get("root_cause") or {}).get("sentence") or end.get("reason") or ""
        submitted = instant(1000 * record["submission"]["at"]) or "-"
        rows.append([record["run"], end.get("state") or "-", submitted, number(step), reason])
    yield from columns(rows, width, optional=(3,))


def listed_job_line(job: ListedJob) -> str:
    """Return the line for a job that has changed."""
    held = clause("  {} containers", job.containers)
    return f"{job.name}  {job.state.value}{held}  {job.application_id}"
