"""Follow a job as a sequence of events: its status, its output, why it waits, and pauses.

Who takes them from `follow_events` waits itself, in a thread or in an event loop, so one program
may follow many jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from submit_tf_job import operations
from submit_tf_job.observation import JobStatus
from submit_tf_job.report.log_text import output_lines
from submit_tf_job.report.restarts import Restarts
from submit_tf_job.report.untrusted import clean

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.errors import ClusterUnavailable
    from submit_tf_job.logs.entries import Run

__all__ = ["Event", "Notice", "Pause", "PrintedLine", "Waits", "follow_events", "waited"]

T = TypeVar("T")
_WAITED_S = 10.0  # after the submission; earlier the reason is rarely known
_ASKED_EVERY_S = 15.0


@dataclass(frozen=True)
class PrintedLine:
    """A line that the deciding task has written, such as `worker-0 | step 7`."""

    text: str


@dataclass(frozen=True)
class Waits:
    """Why the job waits; once for each cause."""

    cause: Cause


@dataclass(frozen=True)
class Notice:
    """A sentence for people: all tasks start again, the cluster does not answer."""

    text: str


@dataclass(frozen=True)
class Pause:
    """Nothing happens for a number of seconds: wait for them, then take the next event."""

    seconds: float


Event = JobStatus | PrintedLine | Waits | Notice | Pause


def follow_events(
    cluster: operations.Cluster,
    ref: operations.JobRef,
    *,
    own: bool = False,
    bootstrap: bool | None = None,
    timeout_s: float | None = None,
    output_every_s: float | None = None,
) -> Generator[Event, None, JobStatus]:
    """Follow one run to its end.

    Args:
        cluster: The cluster.
        ref: The job.
        own: Whether the caller has submitted it: then it is stopped if it can never start.
        bootstrap: Whether it runs under the bootstrap; None to read that from the service.
        timeout_s: Time limit in seconds; None for no limit.
        output_every_s: Seconds between two reads of the deciding task's output; None to read none.

    Yields:
        A `JobStatus` for each look at the job, and what it shows; a `Pause` before the next look.

    Returns:
        The last status.

    Raises:
        DeadlinePassed: `timeout_s` passed; the job may still be running.
        ClusterUnavailable: No ResourceManager answered for longer than `timeouts.unreachable`.
    """
    seen = _Seen(cluster, output=output_every_s is not None)
    steps = operations.following(
        cluster,
        ref,
        own=own,
        bootstrap=bootstrap,
        timeout_s=timeout_s,
        on_status=seen.status,
        on_trouble=seen.trouble,
    )
    while True:
        try:
            left_s = next(steps)
        except StopIteration as end:
            yield from seen.take()
            last: JobStatus = end.value
            return last
        yield from seen.take()
        while left_s > 0:
            pause_s = min(left_s, output_every_s or left_s)
            yield Pause(pause_s)
            left_s -= pause_s
            yield from seen.read()


class _Seen:
    """Collects the events between two pauses."""

    def __init__(self, cluster: operations.Cluster, *, output: bool) -> None:
        self._events: list[Event] = []
        self._cluster, self._restarts = cluster, Restarts()
        self._failing = False
        self._asked_at, self._cause = float("-inf"), ""
        self._output = None
        if output:
            self._output = operations.OutputFollower(cluster, self._lines, self._notice)

    def take(self) -> list[Event]:
        taken, self._events = self._events, []
        return taken

    def read(self) -> list[Event]:
        if self._output is not None:
            self._output.poll()
        return self.take()

    def status(self, status: JobStatus) -> None:
        self._failing = False
        for text in self._restarts.lines(status):
            self._notice(text)
        if self._output is not None:
            self._output.update(status)
        self._events.append(status)
        self._events.extend(self._why(status))

    def trouble(self, error: ClusterUnavailable) -> None:
        if not self._failing:
            self._notice(f"the cluster does not answer; still trying: {error.message}")
        self._failing = True

    def _notice(self, text: str) -> None:
        self._events.append(Notice(clean(text)))

    def _lines(self, runs: Iterable[Run]) -> None:
        for run in runs:
            self._events.extend(PrintedLine(clean(line)) for line in output_lines(run))

    def _why(self, status: JobStatus) -> Iterator[Waits]:
        """Yield why the job waits, if the cause is new; at intervals, because it takes requests."""
        from submit_tf_job.diagnose.pending import is_normal

        waiting_s = (status.app.elapsed_ms or 0) / 1000 if status.app else 0.0
        if not operations.is_waiting(status) or waiting_s < _WAITED_S:
            return
        if self._cluster.clock() - self._asked_at < _ASKED_EVERY_S:
            return
        causes = operations.why_pending(self._cluster, status)
        self._asked_at = self._cluster.clock()
        first = next((cause for cause in causes if not is_normal(cause, waiting_s)), None)
        if first is not None and first.code != self._cause:
            self._cause = first.code
            yield Waits(first)


def waited(
    events: Generator[Event, None, T], sleep: Callable[[float], None]
) -> Generator[Event, None, T]:
    """Yield events but pauses, for which this thread sleeps; return the last status.

    Args:
        events: The events.
        sleep: Waits for a number of seconds.
    """
    while True:
        try:
            event = next(events)
        except StopIteration as end:
            last: T = end.value
            return last
        if isinstance(event, Pause):
            sleep(event.seconds)
        else:
            yield event
