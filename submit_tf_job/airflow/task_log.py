"""The lines about a running job in the task's log: each state, and that all tasks start again, at
once; progress every 30 s.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.report.restarts import Restarts

__all__ = ["PROGRESS_S", "ProgressLog"]

PROGRESS_S = 30.0


class ProgressLog:
    """Returns the lines of a log for successive statuses.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._state, self._text, self._written_at = "", "", float("-inf")
        self._restarts: Restarts | None = None

    def lines(self, status: JobStatus) -> list[str]:
        """Return the lines for a status; none if nothing changed or progress came too soon."""
        from submit_tf_job.report.job_text import change_text
        from submit_tf_job.report.restarts import Restarts
        from submit_tf_job.report.untrusted import clean

        self._restarts = self._restarts or Restarts()
        found = [clean(text) for text in self._restarts.lines(status)]
        state, text, now = status.state.value, clean(change_text(status)), self._clock()
        if text == self._text or (state == self._state and now - self._written_at < PROGRESS_S):
            return found
        self._state, self._text, self._written_at = state, text, now
        return [*found, text]
