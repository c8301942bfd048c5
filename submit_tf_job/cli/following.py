"""Follow a job, and print a line for each change."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from submit_tf_job import operations
from submit_tf_job.cli.context import Context
from submit_tf_job.errors import ClusterUnavailable, DeadlinePassed
from submit_tf_job.operations.detail import links_of
from submit_tf_job.report.cause_text import cause_lines
from submit_tf_job.report.job_text import change_line, job_lines, job_object, link_lines
from submit_tf_job.report.restarts import Restarts

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.observation import JobStatus

__all__ = ["ChangePrinter", "finish", "follow_printing", "seconds"]


EXPLAIN_EVERY_S = 15.0


class ChangePrinter:
    """Prints the changes of a job's status."""

    def __init__(
        self,
        context: Context,
        why: Callable[[JobStatus], Sequence[Cause]] = lambda _status: (),
        *,
        progress_every_s: float = 0.0,
    ) -> None:
        """Start the clock.

        Args:
            context: The command's output.
            why: Returns the causes for which a job waits.
            progress_every_s: Least time between two lines that differ in progress only.
        """
        self._context, self._start, self._last = context, time.monotonic(), ""
        self._failing = False
        self._progress_every_s, self._printed_at = progress_every_s, float("-inf")
        self._state: tuple[object, ...] = ()
        self._why, self._explained_at, self._cause = why, float("-inf"), ""
        self._attempt: int | None = None
        self._restarts = Restarts()
        self._links: dict[tuple[str, str], str] = {}

    def update(self, status: JobStatus) -> None:
        """Print what has changed in a status."""
        if self._failing:
            self._context.say("the cluster answers again")
            self._failing = False
        if not status.state.is_final:
            self._context.interrupted = _still(status.name, status.state.value.lower())
        line = change_line(status, time.monotonic() - self._start)
        self._print_attempt(status)
        for text in self._restarts.lines(status):
            self._context.say(f"     {text}")
        said = line.split("  ", 1)[1]
        state = (status.state, status.report and status.report.state)
        is_due = time.monotonic() - self._printed_at >= self._progress_every_s
        if said != self._last and (is_due or state != self._state):
            self._context.say(line)
            self._last, self._state, self._printed_at = said, state, time.monotonic()
        self._print_links(status)
        if operations.is_waiting(status):
            self._explain(status)

    def _print_links(self, status: JobStatus) -> None:
        """Print each address once, when a task has reported it."""
        links = links_of(status)
        new = [link for link in links if self._links.get((link.task, link.name)) != link.url]
        self._links.update({(link.task, link.name): link.url for link in links})
        for text in link_lines(new):
            self._context.say(f"       {text}")

    def _print_attempt(self, status: JobStatus) -> None:
        attempt = status.app.attempt if status.app else None
        if attempt is not None and self._attempt is not None and attempt > self._attempt:
            self._context.say(
                f"     YARN started the ApplicationMaster again (attempt {attempt}); the "
                f"tasks live on"
            )
        self._attempt = attempt or self._attempt

    def _explain(self, status: JobStatus) -> None:
        """Print why the job waits, if the cause is new; at intervals, because it takes requests."""
        now = time.monotonic()
        if now - self._explained_at < EXPLAIN_EVERY_S:
            return
        from submit_tf_job.diagnose.pending import is_normal

        waiting_s = (status.app.elapsed_ms or 0) / 1000 if status.app else 0.0
        causes = [cause for cause in self._why(status) if not is_normal(cause, waiting_s)]
        self._explained_at = time.monotonic()
        if causes and causes[0].code != self._cause:
            self._cause = causes[0].code
            for line in cause_lines(causes[:1]):
                self._context.say(f"     {line}")

    def failure(self, error: ClusterUnavailable) -> None:
        """Print that a request failed."""
        if not self._failing:
            self._context.say(f"the cluster does not answer; still trying: {error.message}")
            self._failing = True


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
        watch: Follows the job, and passes each status to the `Talk`.
        why: Returns the causes for which the job waits.
        progress_every_s: Least time between two lines that differ in progress only.

    Raises:
        DeadlinePassed: The time to follow has passed; the message states that the job continues.
    """
    context.interrupted = _still(ref.name, "running")
    try:
        return watch(ChangePrinter(context, why, progress_every_s=progress_every_s))
    except DeadlinePassed as error:
        if error.hint:  # the job is over, and its logs are awaited
            raise
        raise DeadlinePassed(
            f"{error.message}; {ref.name} may still be running",
            hint=f"submit_tf_job wait {ref.name}, or submit_tf_job stop {ref.name}",
        ) from None


def _still(name: str, doing: str) -> str:
    return (
        f"Job {name} is still {doing}. Reattach: submit_tf_job wait {name}    Stop: "
        f"submit_tf_job stop {name}"
    )


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
    from submit_tf_job.settings import duration_s

    try:
        return duration_s(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
