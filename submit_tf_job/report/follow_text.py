"""Format a submission, a change, and a followed job: a line for each event, or a live view for a
terminal or a notebook.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from submit_tf_job.diagnose.amounts import clause
from submit_tf_job.host.units import duration_text
from submit_tf_job.job_report import JobReport, ReportedProgress
from submit_tf_job.json_values import document
from submit_tf_job.observation import JobStatus
from submit_tf_job.operations.cluster import Cluster
from submit_tf_job.operations.description import TaskDetail, limits_of, links_of, tasks_of
from submit_tf_job.operations.follow import Event, NextRun, Notice, PrintedLine, Waits
from submit_tf_job.operations.read_status import last_lines
from submit_tf_job.operations.series import UsageLooks
from submit_tf_job.operations.watch_run import End, Trouble
from submit_tf_job.operations.why import is_waiting
from submit_tf_job.report.curves import curve_lines
from submit_tf_job.report.detail_text import task_rows
from submit_tf_job.report.job_text import (
    awaited_words,
    cause_lines,
    change_line,
    change_text,
    left_words,
    link_lines,
    progress_words,
    root_cause_lines,
    standstill_words,
)
from submit_tf_job.report.table import columns
from submit_tf_job.status_changes import line_key

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.operations.change import Change
    from submit_tf_job.operations.submit import Submission
    from submit_tf_job.usage_report import UsageReport

PROGRESS_EVERY_S = 30.0  # where the output shows the progress, too
# A long training may report a step each second. Lines of progress become rarer with time, so that
# a log file gets some hundred of them in a day, and a short job shows each step.
_PROGRESS_SHARE, _PROGRESS_AT_MOST_S = 0.02, 300.0


class EventLines:
    """Returns the lines for the successive events of a job.

    Args:
        progress_every_s: Least time between two lines that differ in progress only.
        timed: Whether a status begins with the time since the first one; a log has its own times.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        progress_every_s: float = 0.0,
        timed: bool = True,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._clock, self._timed = clock or time.monotonic, timed
        self._begun, self._printed_at = self._clock(), float("-inf")
        self._progress_every_s = progress_every_s
        self._text = ""
        self._key: tuple[object, ...] = ()
        self._links: dict[tuple[str, str], str] = {}
        self._last: JobStatus | None = None

    def lines(self, event: Event) -> Iterator[str]:
        """Yield the lines for an event; none if nothing changed or progress came too soon."""
        if isinstance(event, JobStatus):
            self._last = event
            yield from self._lines_of_status(event)
        elif isinstance(event, PrintedLine):
            yield event.text
        elif isinstance(event, Notice):
            yield f"     {event.text}"
        elif isinstance(event, Trouble):
            yield f"the cluster does not answer; still trying: {event.error.message}"
        elif isinstance(event, NextRun):
            yield f"     submitted again as {event.ref.application_id}, run {event.ref.run}"
        elif isinstance(event, Waits) and event.is_news:
            yield from (f"     {line}" for line in cause_lines(event.causes[:1]))

    def still(self, name: str) -> str:
        """Return the message for an interrupt of the command: the state of the job, and how to
        reach it again.
        """
        if self._last is not None and self._last.state.is_final:
            return (
                f"{name} is over, and may have been submitted again. Run the same command again to "
                f"find out."
            )
        doing = self._last.state.value.lower() if self._last else "running"
        return (
            f"Job {name} is still {doing}. Reattach: submit_tf_job wait {name}    Stop: "
            f"submit_tf_job stop {name}"
        )

    def _lines_of_status(self, status: JobStatus) -> Iterator[str]:
        """Yield a line if its text has changed: at once for another state, else at its time."""
        now, key, text = self._clock(), line_key(status), change_text(status)
        rarer_s = min((now - self._begun) * _PROGRESS_SHARE, _PROGRESS_AT_MOST_S)
        is_due = now - self._printed_at >= max(self._progress_every_s, rarer_s)
        if text != self._text and (is_due or key != self._key):
            yield change_line(status, now - self._begun) if self._timed else text
            self._text, self._key, self._printed_at = text, key, now
        yield from self._new_links(status)

    def _new_links(self, status: JobStatus) -> Iterator[str]:
        """Yield each address that a task serves, once, when the task has reported it."""
        links = links_of(status)
        new = [link for link in links if self._links.get((link.task, link.name)) != link.url]
        self._links.update({(link.task, link.name): link.url for link in links})
        yield from (f"       {text}" for text in link_lines(new))


# --- after a submission or a change ---------------------------------------------------------------


def submitted_lines(
    done: Submission, resource_manager: str, *, detail: bool = False
) -> Iterator[str]:
    """Return the lines after a submission: the run, and the next commands.

    Args:
        done: The submission.
        resource_manager: URL of a ResourceManager, for the application's page.
        detail: Whether to show the submission's id.
    """
    name, app = done.ref.name, done.ref.application_id
    yield f"{submitted_line(done)}{clause(', submission {}', detail and done.plan.key)}"
    yield f"  submit_tf_job watch {name}    submit_tf_job logs {name} -f"
    yield f"  {resource_manager}/cluster/app/{app}"


def submitted_line(done: Submission) -> str:
    """Return which run a submission has started or found."""
    name = done.ref.name
    what = f"{name} was submitted already, as" if done.adopted else f"Submitted {name} as"
    if done.after and not done.adopted:
        what = f"{name} runs again ({done.after} has ended), as"
    return f"{what} {done.ref.run} ({done.ref.application_id})"


def change_object(change: Change) -> dict[str, Any]:
    """Return the object that `scale`, `restart`, `priority`, `move` and `extend` print."""
    return document(
        "Change",
        verb=change.verb,
        name=change.ref.name,
        run=change.ref.run,
        application_id=change.ref.application_id,
        changed=change.changed,
        value=change.value,
        message=change.message,
    )


# --- the live view ---


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
        with_cause: Whether the last picture has why the job failed, because nothing follows it.
        plain: Whether bars and curves have characters of ASCII alone.

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
        self._plain, self._usage_looks = plain, UsageLooks(cluster)
        self.usage: UsageReport | None = None
        self._last: JobStatus | None = None
        self._trouble, self._read_at = "", float("-inf")
        self._pending: tuple[Cause, ...] = ()
        self._cause: Cause | None = None
        self._lines: Mapping[str, str] = {}

    def take(self, event: Event) -> None:
        """Take the facts of an event, and draw."""
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
        """Return the lines of the view; they may contain any text of logs and servers."""
        if self._last is None:
            yield self._trouble or "looking …"
            return
        status, now_ms = self._last, int(time.time() * 1000)
        lines = [
            *_head(status, now_ms, self._plain),
            *(curve_lines(self.usage, width, plain=self._plain) if self.usage else ()),
            *(f"  {line.strip()}" for line in cause_lines(self._pending)),
            *(root_cause_lines(self._cause, short=True) if self._cause else ()),
            *(_roles(status.report) if status.report else ()),
        ]
        tail = _limits(status)
        if self._trouble:
            tail.append(f"  ! {self._trouble}")
        if not status.state.is_final:
            tail.append(f"  {self._leave}; the job keeps running")
        room = max(3, height - len(lines) - len(tail) - 3)  # tasks without problems are left out
        lines += _tasks(tasks_of(status), now_ms, width, room, self._lines)
        for line in (*lines, *tail):
            yield line if len(line) <= width else f"{line[: width - 1]}…"


def _head(status: JobStatus, now_ms: int, plain: bool) -> Iterator[str]:
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
        bar = _bar(report.arrived, report.wanted, plain)
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
        return f"{_bar(progress.part, 1, plain)} "
    if progress.step is not None and progress.total is not None and progress.total > 0:
        return f"{_bar(progress.step, progress.total, plain)} "
    return ""


def _bar(done: float, total: float, plain: bool) -> str:
    full = int(_BAR * max(0.0, min(1.0, done / (total or float("inf")))))
    whole, rest = "#." if plain else "█░"
    return whole * full + rest * (_BAR - full)


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
