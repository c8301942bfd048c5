"""Format jobs and runs as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from submit_tf_job.diagnose.amounts import clause
from submit_tf_job.host.units import duration_text
from submit_tf_job.json_values import instant
from submit_tf_job.observation import JobState
from submit_tf_job.report.table import columns, number, value_text

if TYPE_CHECKING:
    from submit_tf_job.operations.history import RecordedRun
    from submit_tf_job.operations.listing import ListedJob


def listing_lines(
    jobs: Sequence[ListedJob],
    *,
    width: int | None = None,
    with_user: bool = False,
    runs: bool = False,
) -> Iterator[str]:
    """Return the lines of the table; with `runs`, the first column has the names of runs instead of
    jobs.
    """
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
    rows = [heading, *(_row_of_job(job, job.run if runs else job.name) for job in jobs)]
    if not with_user:
        for row in rows:
            del row[2]
    return rows


def _row_of_job(job: ListedJob, name: str) -> list[str]:
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


def history_lines(runs: Sequence[RecordedRun], *, width: int | None = None) -> Iterator[str]:
    """Return the table of recorded runs. A run that succeeded and has stored outputs is shown with
    these, any other run with the reason for its state.
    """
    if not runs:
        yield "no run has a record"
        return
    rows = [["RUN", "STATE", "SUBMITTED", "FOR", "STEP", "METRICS", "REASON OR OUTPUTS"]]
    for run in runs:
        end = run.record.get("end") or {}
        reason = (end.get("root_cause") or {}).get("sentence") or end.get("reason") or ""
        stored = ", ".join(output.uri for output in run.outputs)
        rows.append(
            [
                run.run,
                run.state.value,
                instant(run.submitted_ms) or "-",
                duration_text(run.duration_s),
                number((end.get("progress") or {}).get("step")),
                "  ".join(metrics_text(run.metrics)) or "-",
                reason if run.state is not JobState.SUCCEEDED or not stored else stored,
            ]
        )
    yield from columns(rows, width, optional=(2, 4))


def metrics_text(metrics: Mapping[str, float]) -> Iterator[str]:
    """Yield each metric with its value, in a form for people."""
    for name, value in metrics.items():
        yield f"{name} {value_text(value)}"


def listed_job_line(job: ListedJob) -> str:
    """Return the line for a job that has changed."""
    held = clause("  {} containers", job.containers)
    return f"{job.name}  {job.state.value}{held}  {job.application_id}"
