"""Follow a job and talk about it while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from submit_tf_job import api
from submit_tf_job.cli.door import Context
from submit_tf_job.diagnose.model import Cause, RootCause
from submit_tf_job.errors import ClusterUnavailable, DeadlinePassed
from submit_tf_job.report.causes import cause_lines
from submit_tf_job.report.job import change_line, job_lines, job_object
from submit_tf_job.watch import Look

__all__ = ["Talk", "finish", "seconds", "talking"]


EXPLAIN_EVERY_S = 15.0


class Talk:
    """Says what changed, and only what changed."""

    def __init__(self, context: Context, why: Callable[[Look], Sequence[Cause]] = lambda _look: ()) -> None:
        """Start the clock; `why` says what a job waits for."""
        self._context, self._start, self._last, self._troubled = context, time.monotonic(), "", False
        self._why, self._asked_at, self._cause = why, float("-inf"), ""
        self._attempt: int | None = None

    def look(self, look: Look) -> None:
        """Tell of a look."""
        if self._troubled:
            self._context.say("the cluster answers again")
            self._troubled = False
        line = change_line(look, time.monotonic() - self._start)
        self._tell_attempt(look)
        said = line.split("  ", 1)[1]
        if said != self._last:
            self._context.say(line)
            self._last = said
        if api.is_waiting(look):
            self._explain(look)

    def _tell_attempt(self, look: Look) -> None:
        attempt = look.seen.app.attempt if look.seen.app else None
        if attempt is not None and self._attempt is not None and attempt > self._attempt:
            self._context.say(f"     YARN started the ApplicationMaster again (attempt {attempt}); the tasks live on")
        self._attempt = attempt or self._attempt

    def _explain(self, look: Look) -> None:
        """Say why it waits, when that is another cause than before; the questions cost the cluster something."""
        now = time.monotonic()
        if now - self._asked_at < EXPLAIN_EVERY_S:
            return
        from submit_tf_job.diagnose.pending import is_normal

        waiting_s = (look.seen.app.elapsed_ms or 0) / 1000 if look.seen.app else 0.0
        causes = [cause for cause in self._why(look) if not is_normal(cause, waiting_s)]
        self._asked_at = time.monotonic()
        if causes and causes[0].code != self._cause:
            self._cause = causes[0].code
            for line in cause_lines(causes[:1]):
                self._context.say(f"     {line}")

    def trouble(self, error: ClusterUnavailable) -> None:
        """Tell of a look that failed."""
        if not self._troubled:
            self._context.say(f"the cluster does not answer; still trying: {error.message}")
            self._troubled = True


def talking(
    context: Context, ref: api.JobRef, watch: Callable[[Talk], Look], *, why: Callable[[Look], Sequence[Cause]] = lambda _look: ()
) -> Look:
    """Call a watch that talks, and say on every way out that the job goes on.

    Args:
        context: Where to talk.
        ref: The job.
        watch: Watches it, and tells the talk.
        why: Says what the job waits for.

    Raises:
        DeadlinePassed: The time to follow is over; the message says that the job goes on.
    """
    context.interrupted = f"{ref.name} goes on. Follow it again: submit_tf_job wait {ref.name}    Stop it: submit_tf_job stop {ref.name}"
    try:
        return watch(Talk(context, why))
    except DeadlinePassed as error:
        raise DeadlinePassed(
            f"{error.message}; {ref.name} may still be running", hint=f"submit_tf_job wait {ref.name}, or submit_tf_job stop {ref.name}"
        ) from None


def finish(context: Context, look: Look, cause: RootCause | None = None) -> int:
    """Print how a job stands, and why it failed, and return the exit status that it means."""
    context.result(job_lines(look, cause=cause), lambda: job_object(look, cause=cause))
    error = api.error_of(look)
    return error.exit_status if error else 0


def seconds(text: str | None, option: str = "--timeout") -> float | None:
    """Read a duration option: 90s, 15m, 2h.

    Raises:
        UsageError: It is none.
    """
    if text is None:
        return None
    from submit_tf_job.errors import UsageError
    from submit_tf_job.settings import duration_s

    try:
        return duration_s(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
