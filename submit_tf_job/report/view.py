"""What a live view shows of one job, whoever draws it: a terminal, or a notebook."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from submit_tf_job import api
from submit_tf_job.errors import ClusterUnavailable
from submit_tf_job.report.live import live_lines

if TYPE_CHECKING:
    from submit_tf_job.diagnose.model import Cause
    from submit_tf_job.watch import Look

__all__ = ["DETAILS_EVERY_S", "JobPicture"]

DETAILS_EVERY_S = 15.0  # the services API repeats the whole service in each answer
_EXPLAIN_EVERY_S = 15.0
_LINES_EVERY_S = 3.0
_LINES_OF = 8  # tasks whose last line is shown


class JobPicture:
    """Keeps what was seen of a job, and has it drawn at each look.

    Args:
        cluster: Where the job is.
        show: Draws; told whenever there is something new.
        with_lines: Whether the last log line of each task is shown.
        leave: How the one who looks gets away.
    """

    def __init__(self, cluster: api.Cluster, show: Callable[[JobPicture], None], *, with_lines: bool, leave: str) -> None:
        self._cluster, self._show, self._with_lines, self._leave = cluster, show, with_lines, leave
        self._last_look: Look | None = None
        self._trouble, self._explained_at, self._read_at = "", float("-inf"), float("-inf")
        self._pending: tuple[Cause, ...] = ()
        self._lines: Mapping[str, str] = {}

    def look(self, look: Look) -> None:
        """Take a look in."""
        self._last_look, self._trouble, now = look, "", self._cluster.clock()
        if now - self._explained_at >= _EXPLAIN_EVERY_S:
            self._explained_at, self._pending = now, api.diagnose(self._cluster, look).pending
        if self._with_lines and now - self._read_at >= _LINES_EVERY_S:
            self._read_at, self._lines = now, api.last_lines(self._cluster, look, most=_LINES_OF)
        self._show(self)

    def trouble(self, error: ClusterUnavailable) -> None:
        """Say that the picture is old."""
        self._trouble = f"the cluster does not answer; still trying: {error.message}"
        self._show(self)

    def draw(self, width: int, height: int) -> Iterator[str]:
        """Draw it, in lines that may hold whatever a log or a server wrote."""
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
