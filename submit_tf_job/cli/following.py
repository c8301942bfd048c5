"""Follow a job, and print a line for each change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from submit_tf_job import operations
from submit_tf_job.cli.context import Context
from submit_tf_job.report.follow_text import ChangePrinter
from submit_tf_job.report.job_text import job_lines, job_object

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.observation import JobStatus

__all__ = ["finish", "follow_printing", "seconds"]


def follow_printing(
    context: Context,
    ref: operations.JobRef,
    watch: Callable[[ChangePrinter], JobStatus],
    *,
    why: Callable[[JobStatus], Sequence[Cause]] = lambda _status: (),
    progress_every_s: float = 0.0,
) -> JobStatus:
    """Call a function that follows a job, and report on interrupts that the job continues.

    Args:
        context: The command's output.
        ref: The job.
        watch: Follows the job, and passes each status to the printer.
        why: Returns the causes for which the job waits.
        progress_every_s: Least time between two lines that differ in progress only.

    Raises:
        DeadlinePassed: The time to follow has passed; the message states that the job continues.
    """
    printer = ChangePrinter(context.say, why, progress_every_s=progress_every_s)
    try:
        return watch(printer)
    except BaseException:
        context.interrupted = printer.still(ref.name)
        raise


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
