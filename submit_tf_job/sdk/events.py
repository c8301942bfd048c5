"""The events of `JobHandle.events`: statuses, and what happens between them."""

from __future__ import annotations

from collections.abc import Iterable

from submit_tf_job.operations.follow import NextRun, Notice, PrintedLine, Waits
from submit_tf_job.operations.watch_run import Pause, Trouble
from submit_tf_job.report.follow_text import PROGRESS_EVERY_S, EventLines
from submit_tf_job.report.table import clean
from submit_tf_job.sdk.client import Status

__all__ = [
    "Event",
    "EventLog",
    "NextRun",
    "Notice",
    "Pause",
    "PrintedLine",
    "Status",
    "Trouble",
    "Waits",
]

Event = Status | Trouble | PrintedLine | Waits | Notice | NextRun | Pause


class EventLog:
    """Returns the lines of a log for successive events: each state at once, progress every 30 s at
    most, the program's output, why the job waits.
    """

    def __init__(self) -> None:
        """Begin with a job of which nothing was logged."""
        self._lines = EventLines(progress_every_s=PROGRESS_EVERY_S, timed=False)

    def lines(self, *events: Event) -> list[str]:
        """Return the lines for some events, without control characters."""
        return [line for event in events for line in self._of(event)]

    def _of(self, event: Event) -> Iterable[str]:
        shown = event.job if isinstance(event, Status) else event
        return (clean(line).lstrip() for line in self._lines.lines(shown))
