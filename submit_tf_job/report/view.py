"""Update and draw the live view of one job, for a terminal or a notebook."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from submit_tf_job import operations
from submit_tf_job.observation import JobStatus
from submit_tf_job.operations.follow_events import Event, Trouble, Waits
from submit_tf_job.report.live import live_lines

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause

__all__ = ["DETAILS_EVERY_S", "JobView"]

DETAILS_EVERY_S = 15.0  # the services API repeats the whole service in each answer
_LINES_EVERY_S = 3.0
_LINES_OF = 8  # tasks whose last line is shown


class JobView:
    """Keeps the last status of a job, and draws it after each event.

    Args:
        cluster: The job's cluster.
        show: Draws the lines; called after each event that changes it.
        with_lines: Whether to show the last log line of each task.
        leave: The text about leaving the view.
    """

    def __init__(
        self,
        cluster: operations.Cluster,
        show: Callable[[JobView], None],
        *,
        with_lines: bool,
        leave: str,
    ) -> None:
        self._cluster, self._show, self._with_lines, self._leave = cluster, show, with_lines, leave
        self._last: JobStatus | None = None
        self._trouble, self._read_at = "", float("-inf")
        self._pending: tuple[Cause, ...] = ()
        self._lines: Mapping[str, str] = {}

    def take(self, event: Event) -> None:
        """Take what an event tells, and draw."""
        if isinstance(event, JobStatus):
            self._last, self._trouble = event, ""
            if not operations.is_waiting(event):
                self._pending = ()
            if self._with_lines and self._cluster.clock() - self._read_at >= _LINES_EVERY_S:
                self._read_at = self._cluster.clock()
                self._lines = operations.last_lines(self._cluster, event, most=_LINES_OF)
        elif isinstance(event, Waits):
            self._pending = event.causes
        elif isinstance(event, Trouble):
            self._trouble = f"the cluster does not answer; still trying: {event.error.message}"
        else:
            return
        self._show(self)

    def draw(self, width: int, height: int) -> Iterator[str]:
        """Return the lines of the view; they may contain any text of logs and servers."""
        if self._last is None:
            yield self._trouble or "looking …"
            return
        yield from live_lines(
            self._last,
            now_ms=int(time.time() * 1000),
            width=width,
            height=height,
            pending=self._pending,
            trouble=self._trouble,
            last=self._lines,
            leave=self._leave,
        )
