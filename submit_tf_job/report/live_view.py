"""A live view of a followed job, for a terminal or a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from submit_tf_job.diagnose.amounts import clause
from submit_tf_job.host.units import duration_text
from submit_tf_job.observation import JobStatus
from submit_tf_job.operations.cluster import Cluster
from submit_tf_job.operations.description import TaskDetail, limits_of, tasks_of
from submit_tf_job.operations.follow import Event, Waits
from submit_tf_job.operations.last_lines import last_lines
from submit_tf_job.operations.series import UsageReader
from submit_tf_job.operations.task_links import links_of
from submit_tf_job.operations.watch_run import End, Trouble
from submit_tf_job.operations.why import is_waiting
from submit_tf_job.report.curves import curve_lines
from submit_tf_job.report.detail_text import task_rows
from submit_tf_job.report.job_text import (
    awaited_words,
    cause_lines,
    left_words,
    progress_words,
    root_cause_lines,
    standstill_words,
)
from submit_tf_job.report.table import columns, cut

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.job_report import JobReport, ReportedProgress
    from submit_tf_job.usage_report import UsageReport

DETAILS_EVERY_S = 15.0  # the services API repeats the whole service in each answer
_LINES_EVERY_S = 3.0
_LINES_OF = 8  # tasks whose last line is shown
_BAR = 30


class JobView:
    """Keeps the last status of a job, and draws it after each event.

    Args:
        cluster: The job's cluster.
        show: Draws the lines; called after each event that changes the view.
        with_lines: Whether to show the last log line of each task.
        leave: The text that tells how to leave the view.
        with_cause: Whether the last picture shows why the job failed, because nothing is printed
            after it.
        plain: Whether bars and curves use only ASCII characters.

    Attributes:
        usage: What the tasks use, and the curves, as they were read last.
    """

    def __init__(
        self,
        cluster: Cluster,
        show: Callable[[JobView], None],
        *,
        with_lines: bool,
        leave: str,
        with_cause: bool = False,
        plain: bool = False,
    ) -> None:
        self._cluster, self._show, self._with_lines, self._leave = cluster, show, with_lines, leave
        self._with_cause = with_cause
        self._plain, self._usage_looks = plain, UsageReader(cluster)
        self.usage: UsageReport | None = None
        self._last: JobStatus | None = None
        self._trouble, self._read_at = "", float("-inf")
        self._pending: tuple[Cause, ...] = ()
        self._cause: Cause | None = None
        self._lines: Mapping[str, str] = {}

    def take(self, event: Event) -> None:
        """Record an event, read what the view shows besides (use, log lines) if that is due, and
        draw. Events that the view does not show are ignored.
        """
        if isinstance(event, JobStatus):
            self._last, self._trouble = event, ""
            if not is_waiting(event):
                self._pending = ()
            self.usage = self._usage_looks.of(event)
            if self._with_lines and self._cluster.clock() - self._read_at >= _LINES_EVERY_S:
                self._read_at = self._cluster.clock()
                self._lines = last_lines(self._cluster, event, most=_LINES_OF)
        elif isinstance(event, Waits):
            self._pending = event.causes
        elif isinstance(event, Trouble):
            self._trouble = f"the cluster does not answer; still trying: {event.error.message}"
        elif isinstance(event, End) and self._with_cause:
            self._last, self._cause = event.status, event.cause
        else:
            return
        self._show(self)

    def draw(self, width: int, height: int) -> Iterator[str]:
        """Return the lines of the view; the control characters of logs and servers are not escaped
        in them.
        """
        if self._last is None:
            yield self._trouble or "looking …"
            return
        status, now_ms = self._last, self._cluster.now_ms()
        lines = [
            *_head_lines(status, now_ms, self._plain),
            *(curve_lines(self.usage, width, plain=self._plain) if self.usage else ()),
            *(f"  {line.strip()}" for line in cause_lines(self._pending)),
            *(root_cause_lines(self._cause, short=True) if self._cause else ()),
            *(_role_lines(status.report) if status.report else ()),
        ]
        tail = _limit_words(status)
        if self._trouble:
            tail.append(f"  ! {self._trouble}")
        if not status.state.is_final:
            tail.append(f"  {self._leave}; the job keeps running")
        room = max(3, height - len(lines) - len(tail) - 3)  # tasks without problems are left out
        lines += _task_lines(tasks_of(status), now_ms, width, room, self._lines)
        for line in (*lines, *tail):
            yield cut(line, width)


def _head_lines(status: JobStatus, now_ms: int, plain: bool) -> Iterator[str]:
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
        bar = _drawn_bar(report.arrived, report.wanted, plain)
        yield f"  {bar} {report.arrived} of {report.wanted} tasks started"
    if report is not None and report.progress:
        yield f"  {_progress_bar(report.progress, plain)}{progress_words(report.progress)}"
        left = left_words(report)
        if left:
            yield f"  {left}"
    if report is not None:
        words = (awaited_words(report), standstill_words(report))
        yield from (f"  {text}" for text in words if text)


def _progress_bar(progress: ReportedProgress, plain: bool) -> str:
    if progress.part is not None:
        return f"{_drawn_bar(progress.part, 1, plain)} "
    if progress.step is not None and progress.total is not None and progress.total > 0:
        return f"{_drawn_bar(progress.step, progress.total, plain)} "
    return ""


def _drawn_bar(done: float, total: float, plain: bool) -> str:
    full = int(_BAR * max(0.0, min(1.0, done / (total or float("inf")))))
    whole, rest = "#." if plain else "█░"
    return whole * full + rest * (_BAR - full)


def _role_lines(report: JobReport) -> list[str]:
    heading = ["ROLE", "DESIRED", "READY", "RUNNING", "DONE", "FAILED", "RESTARTS"]
    rows = [heading]
    for name, c in report.shown_roles.items():
        done, failed = c.succeeded + c.ended, c.failed + c.lost
        rows.append([name, *map(str, (c.wanted, c.arrived, c.running, done, failed, c.restarts))])
    return ["", *columns(rows, indent="  ")]


def _task_lines(
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


def _limit_words(status: JobStatus) -> list[str]:
    lines = [""]
    if status.report:
        lines += [f"  warning: {text}" for text in status.report.warnings[-2:]]
    for limit in limits_of(status):
        lines.append(f"  {limit.name} ends in {duration_text(limit.remaining_s)}")
    for link in links_of(status):
        lines.append(f"  {link.task} {link.name}: {link.url}{clause(' (from {})', link.via)}")
    return lines
