"""What `describe` shows of a job: tasks, limits and events; and the container that gets the signals
of a stop. Pure functions of its status.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from submit_tf_job.diagnose.amounts import clause
from submit_tf_job.errors import Refused
from submit_tf_job.host.units import duration_text, local_time
from submit_tf_job.operations.timeline import TimelinePart, timeline_of

if TYPE_CHECKING:
    from submit_tf_job.job_report import ReportedTask
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.yarn.observed import ObservedContainer

MOST_TASKS = 100_000


@dataclass(frozen=True)
class TaskDetail:
    """One task.

    Attributes:
        name: Such as `worker-3`.
        state: The task's state in the deciding task's report (`running`, `succeeded`, …); `lost` if
            the task has gone and its container is not replaced yet; if the report has none, the
            state of the task's container in lower case; without a container, `waiting`.
        host: The node on which the task runs.
        address: The task's own address, if it has one.
        container_id: The task's last container.
        launched_ms: When YARN launched that container, in milliseconds since 1970.
        restarts: How often the task was restarted.
        status: Exit status of the task's command; None while the command runs.
        gpus: The models of the GPUs that the task sees, if its role asks for GPUs.
        log_url: The page with the task's log on its node; None if the node is not known.
    """

    name: str = field(metadata={"json": "task"})
    state: str = "waiting"
    host: str | None = None
    address: str | None = None
    container_id: str | None = None
    launched_ms: int | None = None
    restarts: int = 0
    status: int | None = None
    gpus: tuple[str, ...] = ()
    log_url: str | None = None

    @property
    def role(self) -> str:
        """The task's role."""
        return self.name.rpartition("-")[0]


@dataclass(frozen=True)
class Limit:
    """A time limit of a job.

    Attributes:
        name: `lifetime`, after which YARN ends the job.
        remaining_s: Remaining seconds; None if YARN does not report them.
        ends_at: The end, in YARN's format, which is UTC; "" if YARN does not report it.
    """

    name: str
    remaining_s: int | None
    ends_at: str = ""

    def line(self, now_ms: int) -> str:
        """Return a line with the remaining time and the end, in this machine's time zone."""
        try:
            moment = datetime.strptime(self.ends_at, "%Y-%m-%dT%H:%M:%S.%f%z")
            at_ms = int(moment.timestamp() * 1000)
        except ValueError:
            at_ms = now_ms + (self.remaining_s or 0) * 1000
        end = local_time(at_ms / 1000, seconds=True)
        return f"{self.name}  ends in {duration_text(self.remaining_s)}, at {end}"


@dataclass(frozen=True)
class StartTimes:
    """How long the parts of a job's start took, in seconds; each part begins where the previous
    part ended.

    Attributes:
        yarn_s: From the submission, or from the end of the previous run of all commands
            (generation), until YARN had started the last task that the start waits for.
        names_s: Until the last task had found the deciding task and connected to it.
        barrier_s: Until the commands started.
        by_address: How many tasks the programs know by IP address instead of host name.
        generation: For a job with `retries`, the number of this start; 0 for the first start.
    """

    yarn_s: float
    names_s: float
    barrier_s: float
    by_address: int
    generation: int = 0

    def line(self) -> str:
        """Return the times in one sentence."""
        which = clause(" of generation {}", self.generation)
        return (
            f"start{which}  {self.yarn_s:.1f} s until YARN had started every task, "
            f"{self.names_s:.1f} s until all had found the deciding task, {self.barrier_s:.1f} s "
            f"until the programs started"
        )


@dataclass(frozen=True)
class Event:
    """An event of a job.

    Attributes:
        at_ms: Time in milliseconds since 1970.
        source: `yarn` or `job`.
    """

    at_ms: int
    source: str
    text: str


@dataclass(frozen=True)
class Details:
    """What `describe` shows in addition to `status`: fields of its JSON, and lines."""

    task_list: tuple[TaskDetail, ...]
    start: StartTimes | None
    limits: tuple[Limit, ...]
    timeline: tuple[TimelinePart, ...]

    def lines(self, now_ms: int) -> Iterator[str]:
        """Yield the lines for the start and the limits of the job. Tasks are shown as a table, and
        the timeline only in the JSON.
        """
        if self.start:
            yield self.start.line()
        yield from (limit.line(now_ms) for limit in self.limits)


def details_of(seen: JobStatus) -> Details:
    """Return the details of a job that `describe` shows."""
    return Details(tasks_of(seen), start_of(seen), limits_of(seen), timeline_of(seen))


def tasks_of(seen: JobStatus) -> tuple[TaskDetail, ...]:
    """Return all tasks of a job, including its witness, with or without a container; () if neither
    the report nor the services API lists tasks.
    """
    wanted = {name: TaskDetail(name) for name in _expected_tasks(seen)}
    for container in seen.containers:
        if container.instance:
            wanted[container.instance] = _by_yarn(container, wanted.get(container.instance))
    for told in seen.report.tasks if seen.report else ():
        wanted[told.task] = _by_report(told, wanted.get(told.task, TaskDetail(told.task)))
    return tuple(replace(task, log_url=_log_url(seen, task)) for task in wanted.values())


def deciding_container(seen: JobStatus) -> str | None:
    """Return the deciding task's container, which gets the signals of a stop or of `stacks`; None
    if the job's commands do not run.

    Raises:
        Refused: The job runs, and the container is not known.
    """
    name = seen.name
    if seen.state.is_final or seen.app is None or seen.app.state.value != "RUNNING":
        return None
    if seen.report is not None:
        begun = seen.report.state in ("running", "finishing", "stopped")
        return seen.report.container_id if begun else None
    for task in tasks_of(seen):
        if task.name == seen.deciding_task and task.container_id:
            return task.container_id
    why = f" ({seen.trouble})" if seen.trouble else ""
    raise Refused(
        f"{name}: the container of its deciding task is not known{why}",
        hint=f"try again, or stop it at once: submit_tf_job stop {name} --grace 0s",
    )


def _log_url(seen: JobStatus, task: TaskDetail) -> str | None:
    page = seen.node_pages.get(task.host or "")
    if not page or not task.container_id or seen.app is None:
        return None
    return f"{page}/node/containerlogs/{task.container_id}/{seen.app.user}"


def _expected_tasks(seen: JobStatus) -> Iterator[str]:
    counts = {c.name: c.number_of_containers or 0 for c in seen.components}
    if seen.report is not None:
        counts = {name: role.wanted for name, role in seen.report.roles.items()}
    for role, count in counts.items():
        yield from (f"{role}-{index}" for index in range(min(count, MOST_TASKS)))


def _by_yarn(container: ObservedContainer, before: TaskDetail | None) -> TaskDetail:
    if before is not None and (before.launched_ms or 0) > (container.launch_time_ms or 0):
        return before  # the services API lists an instance's earlier containers, too
    return TaskDetail(
        name=container.instance or "",
        state=container.state.value.lower(),
        host=container.bare_host,
        address=container.ip,
        container_id=container.id,
        launched_ms=container.launch_time_ms,
    )


def _by_report(task: ReportedTask, yarn: TaskDetail) -> TaskDetail:
    """Return a task as YARN lists it, completed with what the deciding task's report tells of it.
    If the task is absent in the report, YARN's values take precedence once they are those of a new
    container.
    """
    told = replace(
        yarn,
        state=task.state,
        host=task.host or yarn.host,
        address=task.address or yarn.address,
        container_id=task.container_id or yarn.container_id,
        restarts=task.attempt,
        status=task.status,
        gpus=task.gpus,
    )
    if task.state not in ("", "absent"):
        return told
    if yarn.container_id in (None, told.container_id):  # a lost task is not replaced yet
        return replace(told, state="lost" if task.container_id else yarn.state)
    return replace(
        told,
        state=yarn.state,
        host=yarn.host,
        address=yarn.address,
        container_id=yarn.container_id,
    )


def limits_of(seen: JobStatus) -> tuple[Limit, ...]:
    """Return the job's time limits from YARN; none for a job that is over."""
    if seen.app is None or seen.app.ended:
        return ()
    return tuple(
        Limit(t.type.lower(), t.remaining_s, t.expiry_time or "")
        for t in seen.app.timeouts
        if t.type and t.remaining_s is not None and t.remaining_s >= 0
    )


def start_of(seen: JobStatus) -> StartTimes | None:
    """Return the times of the job's last start; None before that start, for a job of a single task,
    and after all tasks were ended to start again.
    """
    report, app = seen.report_by_yarns_clock, seen.app
    if app is None or not app.started_ms or report is None or report.start is None:
        return None
    start, began = report.start, app.started_ms / 1000
    for generation in report.generations[-1:]:
        if generation.at is None or start.at < generation.at:
            return None  # the next generation has been called, and has not started
        began = generation.at
    moments = (began, start.launched_at, start.arrived_at, start.at)
    yarn_s, names_s, barrier_s = (
        round(max(0.0, after - before), 3) for before, after in pairwise(moments)
    )
    return StartTimes(yarn_s, names_s, barrier_s, start.by_address, report.generation)


def events_of(seen: JobStatus) -> tuple[Event, ...]:
    """Return the known events of a job, in order of time: those of YARN, and those in the deciding
    task's report.
    """
    yarn = [Event(at_ms, "yarn", text) for at_ms, text in _yarn_events(seen) if at_ms]
    return tuple(sorted([*yarn, *_job_events(seen)], key=lambda event: event.at_ms))


def _yarn_events(seen: JobStatus) -> Iterator[tuple[int | None, str]]:
    """Yield time and text of each event in YARN's records; the time is None for an event that has
    not happened yet.
    """
    if app := seen.app:
        yield app.started_ms, f"{app.id} is submitted to queue {app.queue} by {app.user}"
        end = f"{app.state.value}, its final status {app.final_status.value}"
        yield app.finished_ms, f"the application is {end}"
    for number, attempt in enumerate(seen.attempts, 1):
        what, host = f"attempt {number} of the ApplicationMaster", attempt.node_id or ""
        yield attempt.started_ms, f"{what} starts{clause(' on {}', host.partition(':')[0])}"
        yield attempt.finished_ms, f"{what} ends ({attempt.state})"
    for one in seen.containers:
        yield one.launch_time_ms, f"{one.instance} is launched on {one.bare_host}"


def _job_events(seen: JobStatus) -> Iterator[Event]:
    report = seen.report_by_yarns_clock
    for event in report.events if report else ():
        yield Event(int(event.at * 1000), "job", event.text)
