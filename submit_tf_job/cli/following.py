"""Follow a job, and print a line for each change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from submit_tf_job import operations
from submit_tf_job.cli.context import Context
from submit_tf_job.jsonview import job_object
from submit_tf_job.report.follow_text import EventLines
from submit_tf_job.report.job_text import job_lines

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.observation import JobStatus

__all__ = ["finish", "print_events", "seconds"]


def print_events(
    context: Context,
    name: str,
    events: Iterable[operations.Event],
    sleep: Callable[[float], None],
    *,
    progress_every_s: float = 0.0,
) -> int:
    """Print the lines of a job's events and its end, and return its exit status; report on
    interrupts that the job continues.

    Args:
        context: The command's output.
        name: The job.
        events: Those of `operations.follow`.
        sleep: Waits for a number of seconds.
        progress_every_s: Least time between two lines that differ in progress only.

    Raises:
        DeadlinePassed: The time to follow has passed; the message states that the job continues.
    """
    lines = EventLines(progress_every_s=progress_every_s)

    def show(event: operations.Event) -> None:
        for line in lines.lines(event):
            context.say(line)

    try:
        end = operations.until_end(events, sleep, show)
    except BaseException:
        context.interrupted = lines.still(name)
        raise
    return finish(context, end.status, end.cause)


def finish(context: Context, status: JobStatus, cause: Cause | None = None) -> int:
    """Print a job's status and the cause of its failure, and return its exit status."""
    context.result(job_lines(status, cause=cause), lambda: job_object(status, cause=cause))
    error = operations.error_of(status)
    return error.exit_status if error else 0


def seconds(text: str | None, option: str = "--timeout") -> float | None:
    """Parse a duration option: 90s, 15m, 2h.

    Raises:
        UsageError: The text is not a duration.
    """
    if text is None:
        return None
    from submit_tf_job.errors import UsageError
    from submit_tf_job.host.units import duration_s

    try:
        return duration_s(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
