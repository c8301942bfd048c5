"""Update and draw the live view of one job, for a terminal or a notebook."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from submit_tf_job.diagnose.amounts import clause
from submit_tf_job.host.units import duration_text
from submit_tf_job.observation import JobReport, JobStatus
from submit_tf_job.operations.cluster import Cluster
from submit_tf_job.operations.description import TaskDetail, limits_of, links_of, tasks_of
from submit_tf_job.operations.follow import Event, Waits
from submit_tf_job.operations.read_status import last_lines
from submit_tf_job.operations.watch_run import Trouble
from submit_tf_job.operations.why import is_waiting
from submit_tf_job.report.detail_text import task_rows
from submit_tf_job.report.job_text import (
    awaited_words,
    cause_lines,
    left_words,
    progress_words,
    standstill_words,
)
from submit_tf_job.report.table import columns

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause

DETAILS_EVERY_S = 15.0  # the services API repeats the whole service in each answer
_LINES_EVERY_S = 3.0
_LINES_OF = 8  # tasks whose last line is shown
_BAR = 30


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
        cluster: Cluster,
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
            if not is_waiting(event):
                self._pending = ()
            if self._with_lines and self._cluster.clock() - self._read_at >= _LINES_EVERY_S:
                self._read_at = self._cluster.clock()
                self._lines = last_lines(self._cluster, event, most=_LINES_OF)
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
        yield from _live_lines(
            self._last,
            now_ms=int(time.time() * 1000),
            width=width,
            height=height,
            pending=self._pending,
            trouble=self._trouble,
            last=self._lines,
            leave=self._leave,
        )


def _live_lines(
    status: JobStatus,
    *,
    now_ms: int,
    width: int,
    height: int,
    pending: Sequence[Cause],
    trouble: str,
    last: Mapping[str, str],
    leave: str,
) -> Iterator[str]:
    """Return the lines of a job's live view.

    Args:
        status: The job's last status.
        now_ms: The current time.
        width: Columns of the terminal.
        height: Lines of the terminal; tasks without problems are omitted first.
        pending: Why the job waits.
        trouble: Why the status is outdated, or "".
        last: The last log line of tasks, if requested.
        leave: The text about leaving the view.
    """
    lines = list(_head(status, now_ms))
    lines += [f"  {line.strip()}" for line in cause_lines(pending)]
    if status.report is not None:
        lines += _roles(status.report)
    tail = _limits(status)
    if trouble:
        tail.append(f"  ! {trouble}")
    if not status.state.is_final:
        tail.append(f"  {leave}; the job keeps running")
    room = max(3, height - len(lines) - len(tail) - 3)
    lines += _tasks(tasks_of(status), now_ms, width, room, last)
    yield from (_cut(line, width) for line in [*lines, *tail])


def _head(status: JobStatus, now_ms: int) -> Iterator[str]:
    app, report = status.app, status.report
    since = (app and app.started_ms) or now_ms
    yield f"{status.name}  {status.state.value}  {duration_text((now_ms - since) / 1000)}"
    if app is not None:
        line = f"  {app.id}  queue {app.queue}  user {app.user}"
        if app.attempt and app.attempt > 1:
            line += f"  ApplicationMaster started {app.attempt} times"
        yield line
    if status.verdict.reason:
        yield f"  {status.verdict.reason}"
    if report is not None and report.state == "waiting":
        bar = _bar(report.arrived, report.wanted)
        yield f"  {bar} {report.arrived} of {report.wanted} tasks started"
    if report is not None and report.progress:
        yield f"  {_progress_bar(report.progress)}{progress_words(report.progress)}"
        left = left_words(report)
        if left:
            yield f"  {left}"
    if report is not None:
        words = (awaited_words(report), standstill_words(report))
        yield from (f"  {text}" for text in words if text)


def _progress_bar(progress: Mapping[str, Any]) -> str:
    step, total, part = progress.get("step"), progress.get("total"), progress.get("part")
    if isinstance(part, (int, float)):
        return f"{_bar(part, 1)} "
    if isinstance(step, (int, float)) and isinstance(total, (int, float)) and total > 0:
        return f"{_bar(step, total)} "
    return ""


def _bar(done: float, total: float) -> str:
    full = int(_BAR * max(0.0, min(1.0, done / (total or float("inf")))))
    return "█" * full + "░" * (_BAR - full)


def _roles(report: JobReport) -> list[str]:
    heading = ["ROLE", "DESIRED", "READY", "RUNNING", "DONE", "FAILED", "RESTARTS"]
    rows = [heading]
    for name, c in report.shown_roles.items():
        done, failed = c.succeeded + c.ended, c.failed + c.lost
        rows.append([name, *map(str, (c.wanted, c.arrived, c.running, done, failed, c.restarts))])
    return ["", *columns(rows, indent="  ")]


def _tasks(
    tasks: Sequence[TaskDetail], now_ms: int, width: int, room: int, last: Mapping[str, str]
) -> list[str]:
    if not tasks:
        return []
    rows = [row[:5] for row in task_rows(tasks, now_ms, room)]
    heading = ["TASK", "STATE", "HOST", "AGE", "RESTARTS"]
    lines = ["", *columns([heading, *rows], width, indent="  ")]
    if last:
        lines += ["", *(f"  {name} | {line}" for name, line in last.items())]
    if len(tasks) > room:
        lines.append(f"  and {len(tasks) - room} more")
    return lines


def _limits(status: JobStatus) -> list[str]:
    lines = [""]
    if status.report:
        lines += [f"  warning: {text}" for text in status.report.warnings[-2:]]
    for limit in limits_of(status):
        lines.append(f"  {limit.name} ends in {duration_text(limit.remaining_s)}")
    for link in links_of(status):
        lines.append(f"  {link.task} {link.name}: {link.url}{clause(' (from {})', link.via)}")
    return lines


def _cut(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    return line[: width - 1] + "…"
