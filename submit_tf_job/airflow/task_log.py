"""The lines of a task's log: each state at once, progress every 30 s, the program's output, why the
job waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.sdk.events import Event

__all__ = ["PROGRESS_S", "TaskLog"]

PROGRESS_S = 30.0


class TaskLog:
    """Returns the lines of a log for successive events.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._state, self._text, self._written_at = "", "", float("-inf")

    def all_lines(self, events: Iterable[Event]) -> list[str]:
        """Return the lines for some events."""
        return [line for event in events for line in self.lines(event)]

    def lines(self, event: Event) -> Iterator[str]:
        """Yield the lines for an event; none if nothing changed or progress came too soon."""
        from submit_tf_job.sdk.events import Notice, Pause, PrintedLine, Waits

        if isinstance(event, (Notice, PrintedLine)):
            yield event.text
        elif isinstance(event, Waits):
            yield f"waits because: {event.cause.sentence}"
            if event.cause.hint:
                yield f"next: {event.cause.hint}"
        elif not isinstance(event, Pause):
            yield from self._status(event)

    def _status(self, status: JobStatus) -> Iterator[str]:
        from submit_tf_job.report.job_text import change_text
        from submit_tf_job.report.untrusted import clean

        state, text, now = status.state.value, clean(change_text(status)), self._clock()
        if text == self._text or (state == self._state and now - self._written_at < PROGRESS_S):
            return
        self._state, self._text, self._written_at = state, text, now
        yield text
