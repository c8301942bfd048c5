"""Format a job's details and events as lines and as JSON objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from submit_tf_job.diagnose.amounts import listed
from submit_tf_job.host.units import duration_text, local_time
from submit_tf_job.json_values import document, instant, plain
from submit_tf_job.operations.description import details_of, events_of
from submit_tf_job.report.job_text import job_lines
from submit_tf_job.report.table import columns, number

if TYPE_CHECKING:
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.operations.description import Event, TaskDetail
    from submit_tf_job.operations.stacks import JobStacks
    from submit_tf_job.operations.why import Diagnosis

_TASKS_SHOWN = 40
_HEADING = ["TASK", "STATE", "HOST", "AGE", "RESTARTS", "EXIT", "CONTAINER"]
_EVENTS_SHOWN = 8


def description_lines(
    status: JobStatus,
    diagnosis: Diagnosis,
    *,
    now_ms: int,
    uses: str = "",
    width: int | None = None,
) -> Iterator[str]:
    """Return the lines of `describe`: the lines of `status`, the use of resources, then tasks,
    GPUs, start, limits, attempts of the ApplicationMaster, and the last events.
    """
    yield from job_lines(status, diagnosis.pending, diagnosis.failure)
    if uses:
        yield f"  uses         {uses}"
    details = details_of(status)
    tasks = details.task_list
    if tasks:
        yield "tasks"
        yield from columns([_HEADING, *task_rows(tasks, now_ms)], width, indent="  ", ids=(6,))
        if len(tasks) > _TASKS_SHOWN:
            yield f"  and {len(tasks) - _TASKS_SHOWN} more; -o json lists all"
    yield from _gpu_lines(tasks)
    yield from details.lines(now_ms)
    for count, attempt in enumerate(status.attempts, 1):
        where = (attempt.node_id or "?").partition(":")[0]
        yield f"ApplicationMaster {count}  {attempt.state}  on {where}"
    events = events_of(status)
    if events:
        yield "last events"
        yield from (f"  {line}" for line in events_lines(events[-_EVENTS_SHOWN:]))


def _gpu_lines(tasks: Sequence[TaskDetail]) -> Iterator[str]:
    """Return one line for each kind of GPU that tasks see, with the first of these tasks."""
    found: dict[str, list[str]] = {}
    for task in tasks:
        counts = Counter(task.gpus).items()
        if task.gpus:
            words = ", ".join(f"{count} x {model}" for model, count in counts)
            found.setdefault(words, []).append(task.name)
    for words, names in found.items():
        yield f"GPUs  {words}  in {listed(names)}"


def task_rows(
    tasks: Sequence[TaskDetail], now_ms: int, most: int = _TASKS_SHOWN
) -> Iterator[list[str]]:
    """Yield the rows of the table of tasks, at most `most`; first the tasks that neither run nor
    have ended well.
    """
    calm = ("running", "succeeded", "ended", "ready")
    for task in sorted(tasks, key=lambda task: task.state in calm)[:most]:
        age_s = task.launched_ms and (now_ms - task.launched_ms) / 1000
        restarts, exit_status = str(task.restarts), number(task.status)
        cells = (task.host, duration_text(age_s or None), restarts, exit_status, task.container_id)
        yield [task.name, task.state, *(cell or "-" for cell in cells)]


def events_object(name: str, events: Sequence[Event]) -> dict[str, Any]:
    """Return the object that `events -o json` prints."""
    listed = [
        {
            "at": instant(event.at_ms),
            "at_ms": event.at_ms,
            "source": event.source,
            "text": event.text,
        }
        for event in events
    ]
    return document("EventList", name=name, events=listed)


def events_lines(events: Sequence[Event]) -> Iterator[str]:
    """Yield one line for each event, in this machine's time; without events, one line that says
    so.
    """
    if not events:
        yield "nothing is known to have happened"
    for event in events:
        at = local_time(event.at_ms / 1000, seconds=True)
        yield f"{at}  {event.source:<4}  {event.text}"


def stacks_object(found: JobStacks) -> dict[str, Any]:
    """Return the object that `stacks -o json` prints."""
    return document(
        "Stacks",
        name=found.ref.name,
        run=found.ref.run,
        application_id=found.ref.application_id,
        at=instant(found.at_ms),
        at_ms=found.at_ms,
        differs=found.differs,
        tasks=list(map(plain, found.tasks)),
    )


def stacks_lines(found: JobStacks) -> Iterator[str]:
    """Return the task that differs, one line for each task with the place in the program where it
    is, and then the stacks of each task.
    """
    if found.differs:
        yield f"{found.differs} stands elsewhere than the other tasks"
    yield from (f"{one.task} on {one.host}: {one.where}" for one in found.tasks)
    for one in found.tasks:
        if one.text:
            yield ""
            yield f"--- {one.task}"
            yield from one.text.splitlines()
