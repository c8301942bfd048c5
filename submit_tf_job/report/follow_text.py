"""Follow a job and show it: a line for each change, and what its deciding task prints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from submit_tf_job import operations
from submit_tf_job.operations.detail import links_of
from submit_tf_job.report.cause_text import cause_lines
from submit_tf_job.report.job_text import change_line, link_lines
from submit_tf_job.report.log_text import output_lines
from submit_tf_job.report.restarts import Restarts

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.errors import ClusterUnavailable
    from submit_tf_job.logs.entries import Run
    from submit_tf_job.observation import JobStatus

__all__ = ["PROGRESS_EVERY_S", "ChangePrinter", "with_output"]

Say = Callable[[str], None]

_TAIL = 20  # lines shown of a job that was running already
PROGRESS_EVERY_S = 30.0  # the output shows the progress, too
# A long training may report a step each second. Lines of progress become rarer with time, so that
# a log file gets some hundred of them in a day, and a short job shows each step.
_PROGRESS_SHARE, _PROGRESS_AT_MOST_S = 0.02, 300.0
_EXPLAIN_EVERY_S = 15.0


class ChangePrinter:
    """Prints the changes of a job's status."""

    def __init__(
        self,
        say: Say,
        why: Callable[[JobStatus], Sequence[Cause]] = lambda _status: (),
        *,
        progress_every_s: float = 0.0,
    ) -> None:
        """Start the clock.

        Args:
            say: Prints one line.
            why: Returns the causes for which a job waits.
            progress_every_s: Least time between two lines that differ in progress only.
        """
        self._say, self._start, self._last = say, time.monotonic(), ""
        self._failing = False
        self._progress_every_s, self._printed_at = progress_every_s, float("-inf")
        self._state: tuple[object, ...] = ()
        self._why, self._explained_at, self._cause = why, float("-inf"), ""
        self._attempt: int | None = None
        self._restarts = Restarts()
        self._links: dict[tuple[str, str], str] = {}
        self._doing = "running"

    def still(self, name: str) -> str:
        """Return the message of a follower that is interrupted."""
        return (
            f"Job {name} is still {self._doing}. Reattach: submit_tf_job wait {name}    Stop: "
            f"submit_tf_job stop {name}"
        )

    def update(self, status: JobStatus) -> None:
        """Print what has changed in a status."""
        if self._failing:
            self._say("the cluster answers again")
            self._failing = False
        self._doing = status.state.value.lower()
        line = change_line(status, time.monotonic() - self._start)
        self._print_attempt(status)
        for text in self._restarts.lines(status):
            self._say(f"     {text}")
        said = line.split("  ", 1)[1]
        report = status.report
        state = (status.state, report and report.state, report and bool(report.standstill))
        now = time.monotonic()
        rarer_s = min((now - self._start) * _PROGRESS_SHARE, _PROGRESS_AT_MOST_S)
        is_due = now - self._printed_at >= max(self._progress_every_s, rarer_s)
        if said != self._last and (is_due or state != self._state):
            self._say(line)
            self._last, self._state, self._printed_at = said, state, now
        self._print_links(status)
        if operations.is_waiting(status):
            self._explain(status)

    def _print_links(self, status: JobStatus) -> None:
        """Print each address once, when a task has reported it."""
        links = links_of(status)
        new = [link for link in links if self._links.get((link.task, link.name)) != link.url]
        self._links.update({(link.task, link.name): link.url for link in links})
        for text in link_lines(new):
            self._say(f"       {text}")

    def _print_attempt(self, status: JobStatus) -> None:
        attempt = status.app.attempt if status.app else None
        if attempt is not None and self._attempt is not None and attempt > self._attempt:
            self._say(
                f"     YARN started the ApplicationMaster again (attempt {attempt}); the "
                f"tasks live on"
            )
        self._attempt = attempt or self._attempt

    def _explain(self, status: JobStatus) -> None:
        """Print why the job waits, if the cause is new; at intervals, because it takes requests."""
        now = time.monotonic()
        if now - self._explained_at < _EXPLAIN_EVERY_S:
            return
        from submit_tf_job.diagnose.pending import is_normal

        waiting_s = (status.app.elapsed_ms or 0) / 1000 if status.app else 0.0
        causes = [cause for cause in self._why(status) if not is_normal(cause, waiting_s)]
        self._explained_at = time.monotonic()
        if causes and causes[0].code != self._cause:
            self._cause = causes[0].code
            for line in cause_lines(causes[:1]):
                self._say(f"     {line}")

    def failure(self, error: ClusterUnavailable) -> None:
        """Print that a request failed."""
        if not self._failing:
            self._say(f"the cluster does not answer; still trying: {error.message}")
            self._failing = True


def with_output(
    cluster: operations.Cluster, printer: ChangePrinter, say: Say, *, adopted: bool
) -> tuple[operations.Cluster, Callable[[JobStatus], None]]:
    """Return what `operations.follow` needs to show the deciding task's output between the changes:
    a cluster whose waits read it, and the function for each status.

    Args:
        cluster: The job's cluster.
        printer: Prints the changes.
        say: Prints one line of the output.
        adopted: Whether the job existed before, and only the last lines are shown.
    """

    def show(runs: Iterable[Run]) -> None:
        for run in runs:
            for line in output_lines(run):
                say(line)

    output = operations.OutputFollower(cluster, show, say, tail=_TAIL if adopted else None)

    def on_status(status: JobStatus) -> None:
        output.update(status)
        printer.update(status)

    return replace(cluster, sleep=output.sleep), on_status
