"""Update and draw the live view of one job, for a terminal or a notebook."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from submit_tf_job import operations
from submit_tf_job.errors import ClusterUnavailable
from submit_tf_job.report.live import live_lines

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.observation import JobStatus

__all__ = ["DETAILS_EVERY_S", "JobView"]

DETAILS_EVERY_S = 15.0  # the services API repeats the whole service in each answer
_EXPLAIN_EVERY_S = 15.0
_LINES_EVERY_S = 3.0
_LINES_OF = 8  # tasks whose last line is shown


class JobView:
    """Keeps the last status of a job, and draws it after each update.

    Args:
        cluster: The job's cluster.
        show: Draws the lines; called after each update.
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
        self._last_look: JobStatus | None = None
        self._trouble, self._explained_at, self._read_at = "", float("-inf"), float("-inf")
        self._pending: tuple[Cause, ...] = ()
        self._lines: Mapping[str, str] = {}

    def update(self, status: JobStatus) -> None:
        """Store a status, determine its causes, and draw."""
        self._last_look, self._trouble, now = status, "", self._cluster.clock()
        if now - self._explained_at >= _EXPLAIN_EVERY_S:
            self._explained_at = now
            self._pending = operations.diagnose(self._cluster, status).pending
        if self._with_lines and now - self._read_at >= _LINES_EVERY_S:
            self._read_at = now
            self._lines = operations.last_lines(self._cluster, status, most=_LINES_OF)
        self._show(self)

    def trouble(self, error: ClusterUnavailable) -> None:
        """Store the error because of which the status is outdated, and draw."""
        self._trouble = f"the cluster does not answer; still trying: {error.message}"
        self._show(self)

    def draw(self, width: int, height: int) -> Iterator[str]:
        """Return the lines of the view; they may contain any text of logs and servers."""
        if self._last_look is None:
            yield self._trouble or "looking …"
            return
        yield from live_lines(
            self._last_look,
            now_ms=int(time.time() * 1000),
            width=width,
            height=height,
            pending=self._pending,
            trouble=self._trouble,
            last=self._lines,
            leave=self._leave,
        )
