"""The lines about a running job in the task's log: each state at once, progress every 30 s."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from submit_tf_job.observation import JobStatus

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

    def line(self, status: JobStatus) -> str | None:
        """Return the line for a status, or None if nothing changed or progress came too soon."""
        from submit_tf_job.report.job_text import change_text
        from submit_tf_job.report.untrusted import clean

        state, text, now = status.state.value, clean(change_text(status)), self._clock()
        if text == self._text or (state == self._state and now - self._written_at < PROGRESS_S):
            return None
        self._state, self._text, self._written_at = state, text, now
        return text
