"""A job in detail: its JSON object and its lines; the same for what happened to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from submit_tf_job.report.job import job_lines, job_object
from submit_tf_job.report.model import FORMAT_VERSION, instant
from submit_tf_job.report.table import columns, duration

if TYPE_CHECKING:
    from submit_tf_job.api.looking import Description
    from submit_tf_job.description import Event, Link, Task
    from submit_tf_job.diagnose.model import Diagnosis

__all__ = ["clock_time", "description_lines", "description_object", "events_lines", "events_object", "link_object", "task_rows"]

_TASKS_SHOWN = 40
_HEADING = ["TASK", "STATE", "HOST", "AGE", "RESTARTS", "EXIT", "CONTAINER"]
_EVENTS_SHOWN = 8


def description_object(found: Description, diagnosis: Diagnosis) -> dict[str, Any]:
    """Build the object that `describe -o json` prints: a Job with more."""
    app = found.look.seen.app
    return {
        **job_object(found.look, diagnosis.pending, diagnosis.failure),
        "kind": "JobDescription",
        "task_list": [_task_object(task) for task in found.tasks],
        "limits": [{"name": limit.name, "remaining_s": limit.remaining_s, "ends_at": limit.ends_at} for limit in found.limits],
        "links": [link_object(link) for link in found.links],
        "attempts": [
            {"id": a.id, "state": a.state, "node": a.node_id, "started_at": instant(a.started_ms), "finished_at": instant(a.finished_ms)}
            for a in found.attempts
        ],
        "pages": {"application": app.tracking_url if app else None, "am_logs": app.am_container_logs if app else None},
    }


def _task_object(task: Task) -> dict[str, Any]:
    return {
        "task": task.name,
        "state": task.state,
        "host": task.host,
        "address": task.address,
        "container_id": task.container_id,
        "launched_at": instant(task.launched_ms),
        "restarts": task.restarts,
        "status": task.status,
    }


def link_object(link: Link) -> dict[str, Any]:
    """Build the object of one link."""
    return {"task": link.task, "name": link.name, "host": link.host, "port": link.port, "url": link.url}


def description_lines(found: Description, diagnosis: Diagnosis, *, now_ms: int, width: int | None = None) -> Iterator[str]:
    """Describe a job: what `status` says, then its tasks, limits, links and the last events."""
    yield from job_lines(found.look, diagnosis.pending, diagnosis.failure)
    tasks = found.tasks
    if tasks:
        yield "tasks"
        yield from columns([_HEADING, *task_rows(tasks, now_ms)], width, indent="  ", ids=(6,))
        if len(tasks) > _TASKS_SHOWN:
            yield f"  and {len(tasks) - _TASKS_SHOWN} more; -o json lists all"
    for limit in found.limits:
        yield f"{limit.name}  ends in {duration(limit.remaining_s)}, at {limit.ends_at}"
    for link in found.links:
        yield f"{link.task} {link.name}  {link.url}"
    for number, attempt in enumerate(found.attempts, 1):
        where = (attempt.node_id or "?").partition(":")[0]
        yield f"ApplicationMaster {number}  {attempt.state}  on {where}"
    if found.events:
        yield "last events"
        yield from (f"  {line}" for line in events_lines(found.events[-_EVENTS_SHOWN:]))


def task_rows(tasks: Sequence[Task], now_ms: int, most: int = _TASKS_SHOWN) -> Iterator[list[str]]:
    """Write the rows of the table of tasks, those that are not well first."""
    calm = ("running", "succeeded", "ended", "ready")
    for task in sorted(tasks, key=lambda task: task.state in calm)[:most]:
        age = duration((now_ms - task.launched_ms) / 1000) if task.launched_ms else "-"
        exit_status = "-" if task.status is None else str(task.status)
        yield [task.name, task.state, task.host or "-", age, str(task.restarts), exit_status, task.container_id or "-"]


def events_object(name: str, events: Sequence[Event]) -> dict[str, Any]:
    """Build the object that `events -o json` prints."""
    listed = [{"at": instant(event.at_ms), "at_ms": event.at_ms, "source": event.source, "text": event.text} for event in events]
    return {"kind": "EventList", "format": FORMAT_VERSION, "name": name, "events": listed}


def events_lines(events: Sequence[Event]) -> Iterator[str]:
    """Write one line for each event, in this machine's time."""
    if not events:
        yield "nothing is known to have happened"
    yield from (f"{clock_time(event.at_ms)}  {event.source:<4}  {event.text}" for event in events)


def clock_time(at_ms: int) -> str:
    """Write a moment as a person reads it here."""
    try:
        return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OSError, OverflowError):
        return "?"
