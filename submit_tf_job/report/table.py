"""Format for a terminal: rows as aligned columns that fit it, tables of jobs and runs, and text of
others without control characters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from submit_tf_job.diagnose.amounts import clause
from submit_tf_job.host.units import duration_text
from submit_tf_job.json_values import instant
from submit_tf_job.observation import JobState

if TYPE_CHECKING:
    from submit_tf_job.operations.history import RecordedRun
    from submit_tf_job.operations.listing import ListedJob

_GAP = "  "
_LEAST = 6


def columns(
    rows: Sequence[Sequence[str]],
    width: int | None = None,
    *,
    indent: str = "",
    optional: Sequence[int] = (),
    ids: Sequence[int] = (),
) -> Iterator[str]:
    """Align rows, the first of which may be a heading.

    Args:
        rows: Rows of the same length.
        width: Columns of the terminal; None for no limit. If a line is too long, optional columns
            are omitted first, and then the widest column is cut until it fits.
        optional: Columns that may be omitted, beginning with the last one.
        ids: Columns that are cut at their beginning, such as YARN's ids.
        indent: Written before each line.
    """
    if not rows:
        return
    widths = {at: max(len(row[at]) for row in rows) for at in range(len(rows[0]))}
    for at in reversed(optional):
        if _too_long(widths, indent, width):
            del widths[at]
    while _too_long(widths, indent, width) and max(widths.values()) > _LEAST:
        widths[max(widths, key=lambda at: widths[at])] -= 1
    for row in rows:
        cells = (_cell(row[at], size, at in ids) for at, size in widths.items())
        yield indent + _GAP.join(cells).rstrip()


def _too_long(widths: Mapping[int, int], indent: str, width: int | None) -> bool:
    return (
        width is not None
        and len(indent) + sum(widths.values()) + len(_GAP) * (len(widths) - 1) > width
    )


def _cell(text: str, size: int, keep_end: bool) -> str:
    if len(text) <= size:
        return text.ljust(size)
    if keep_end:
        return "…" + text[len(text) - size + 1 :]
    return text[: size - 1] + "…"


def number(value: object, text: str = "{}") -> str:
    """Format a number; "-" for None."""
    if value is None:
        return "-"
    return text.format(value)


def clean(text: str, *, keep_lines: bool = False) -> str:
    """Return a text with its control characters escaped; tabs stay.

    Args:
        text: The text of another program.
        keep_lines: Leave newlines as they are.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == "\t" or (keep_lines and c == "\n") else f"\\x{ord(c):02x}"
        for c in text
    )


# --- tables of jobs and runs ---


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


def history_lines(runs: Sequence[RecordedRun], *, width: int | None = None) -> Iterator[str]:
    """Return the table of recorded runs; each with its reason if it has not succeeded, else with
    its outputs.
    """
    if not runs:
        yield "no runs"
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
    """Yield each metric with its value, as a person reads them."""
    for name, value in metrics.items():
        yield f"{name} {value:.4g}"


def listed_job_line(job: ListedJob) -> str:
    """Return the line for a job that has changed."""
    held = clause("  {} containers", job.containers)
    return f"{job.name}  {job.state.value}{held}  {job.application_id}"
