"""The live view of one job, for a terminal: a picture that is drawn anew at each look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from submit_tf_job.description import Task, limits_of, links_of, tasks_of
from submit_tf_job.observation import JobReport
from submit_tf_job.report.causes import cause_lines
from submit_tf_job.report.detail import task_rows
from submit_tf_job.report.job import progress_words
from submit_tf_job.report.table import columns, duration

if TYPE_CHECKING:
    from submit_tf_job.diagnose.model import Cause
    from submit_tf_job.watch import Look

__all__ = ["live_lines"]

_BAR = 30


def live_lines(
    look: Look,
    *,
    now_ms: int,
    width: int,
    height: int,
    pending: Sequence[Cause] = (),
    trouble: str = "",
    last: Mapping[str, str] | None = None,
    leave: str = "Ctrl-C leaves",
) -> Iterator[str]:
    """Draw a job.

    Args:
        look: The last look.
        now_ms: This moment.
        width: Columns of the terminal.
        height: Lines of the terminal; tasks that are well are left out first.
        pending: Why it waits.
        trouble: Why the picture is old, or "".
        last: The last log line of tasks, where that was asked for.
        leave: How the one who looks gets away.
    """
    lines = list(_head(look, now_ms))
    lines += [f"  {line.strip()}" for line in cause_lines(pending)]
    if look.seen.report is not None:
        lines += _roles(look.seen.report)
    tail = [*_limits(look), *([f"  ! {trouble}"] if trouble else [])]
    tail += [] if look.verdict.state.is_final else [f"  {leave}; the job goes on"]
    room = max(3, height - len(lines) - len(tail) - 3)
    lines += _tasks(tasks_of(look.seen), now_ms, width, room, last)
    yield from (_cut(line, width) for line in [*lines, *tail])


def _head(look: Look, now_ms: int) -> Iterator[str]:
    app, report = look.seen.app, look.seen.report
    since = (app.started_ms if app else None) or now_ms
    yield f"{look.seen.name}  {look.verdict.state.value}  {duration((now_ms - since) / 1000)}"
    if app is not None:
        again = f"  ApplicationMaster started {app.attempt} times" if (app.attempt or 1) > 1 else ""
        yield f"  {app.id}  queue {app.queue}  user {app.user}{again}"
    if look.verdict.reason:
        yield f"  {look.verdict.reason}"
    if report is not None and report.state == "waiting":
        yield f"  {_bar(report.arrived, report.wanted)} {report.arrived} of {report.wanted} tasks are here"
    if report is not None and report.progress:
        step, total = report.progress.get("step"), report.progress.get("total")
        bar = f"{_bar(step, total)} " if isinstance(step, (int, float)) and isinstance(total, (int, float)) and total > 0 else ""
        yield f"  {bar}{progress_words(report.progress)}"


def _bar(done: float, total: float) -> str:
    full = int(_BAR * max(0.0, min(1.0, done / total))) if total else 0
    return "█" * full + "░" * (_BAR - full)


def _roles(report: JobReport) -> list[str]:
    heading = ["ROLE", "WANTED", "ARRIVED", "RUNNING", "DONE", "FAILED", "RESTARTS"]
    rows = [
        [name, *map(str, (c.wanted, c.arrived, c.running, c.succeeded + c.ended, c.failed + c.lost, c.restarts))]
        for name, c in report.roles.items()
    ]
    return ["", *columns([heading, *rows], indent="  ")]


def _tasks(tasks: Sequence[Task], now_ms: int, width: int, room: int, last: Mapping[str, str] | None) -> list[str]:
    if not tasks:
        return []
    rows = [row[:5] for row in task_rows(tasks, now_ms, room)]
    heading = ["TASK", "STATE", "HOST", "AGE", "RESTARTS"]
    lines = ["", *columns([heading, *rows], width, indent="  ")]
    if last:
        lines += ["", *(f"  {name} | {line}" for name, line in last.items())]
    return [*lines, f"  and {len(tasks) - room} more"] if len(tasks) > room else lines


def _limits(look: Look) -> list[str]:
    limits = [f"  {limit.name} ends in {duration(limit.remaining_s)}" for limit in limits_of(look.seen)]
    links = [f"  {link.task} {link.name}: {link.url}" for link in links_of(look.seen)]
    warnings = [f"  warning: {text}" for text in (look.seen.report.warnings[-2:] if look.seen.report else ())]
    found = [*warnings, *limits, *links]
    return ["", *found] if found else [""]


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"
