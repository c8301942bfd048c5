"""Follow a job as a sequence of events: each status, what the deciding task prints, why the job
waits, pauses, and the next run that `retries.memory` starts.

The consumer of the events does the waiting at each `Pause`, in a thread or in an event loop, so one
program can follow many jobs. docs/internals/architecture.md has the life of one follow.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from submit_tf_job.errors import AuthError, SubmitTFJobError
from submit_tf_job.observation import JobStatus
from submit_tf_job.operations.cluster import Cluster, JobRef
from submit_tf_job.operations.resubmission import (
    NOT_SUBMITTED,
    next_step,
    properties_of,
    ran_out_of_memory,
    run_after,
)
from submit_tf_job.operations.stop import FAILED_BEFORE, stop_run
from submit_tf_job.operations.watch_run import End, Pause, Trouble, watch_run
from submit_tf_job.operations.why import find_cause_and_record, is_waiting, why_pending
from submit_tf_job.yarn import service_properties

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.logs.entries import Run, TaskContainer
    from submit_tf_job.operations.submit import Submission
    from submit_tf_job.plan import Plan

EXPLAIN_EVERY_S = 15.0  # it takes requests
OUTPUT_EVERY_S = 1.0
TAIL = 20  # lines of output that are read of a run that an earlier client has submitted
# The submitter reads the logs for the cause, and posts the next run.
NEXT_RUN_WITHIN_S, NEXT_RUN_EVERY_S = 60.0, 2.0


@dataclass(frozen=True)
class PrintedLine:
    """A line that the deciding task has written, such as `worker-0 | step 7`."""

    text: str


@dataclass(frozen=True)
class Waits:
    """Why the job waits.

    Attributes:
        causes: The reasons, the most important first.
        is_news: Whether the first cause differs from the first cause of the previous event.
    """

    causes: tuple[Cause, ...]
    is_news: bool


@dataclass(frozen=True)
class Notice:
    """A sentence for people, such as: all tasks start again; or the job is submitted again."""

    text: str


@dataclass(frozen=True)
class NextRun:
    """The run that `retries.memory` starts after a run that ran out of memory; from now on this
    next run is followed.

    Attributes:
        ref: The next run.
        submission: The submission of that run, if this follower has submitted it.
    """

    ref: JobRef
    submission: Submission | None = None


Event = JobStatus | Trouble | PrintedLine | Waits | Notice | NextRun | Pause | End


def follow(
    cluster: Cluster,
    ref: JobRef,
    plan: Plan | None = None,
    *,
    own: bool = False,
    next_runs: bool = False,
    until: Callable[[JobStatus], bool] = lambda _status: False,
    timeout_s: float | None = None,
    details_every_s: float | None = None,
    explain: bool = True,
    output_every_s: float | None = None,
    tail: int | None = None,
) -> Iterator[Event]:
    """Follow a run to its end; with `plan` or `next_runs` also follow the runs that come after it.

    Args:
        cluster: The cluster.
        ref: The run.
        plan: The plan of the submission. With it, a job that ran out of memory is submitted again
            as its `retries.memory` says. It must be the plan of the first run, never the plan of a
            later run.
        own: Whether the caller is responsible for the job, because the caller has submitted the job
            or waits for it. Then a job that can never start is stopped. Always true with `plan`.
        next_runs: Whether to wait, after a run that ran out of memory, for the next run, which
            another follower that has the job spec submits; and to follow that run.
        until: Returns whether to end before the job is over.
        timeout_s: Time limit in seconds; None for no limit.
        details_every_s: Seconds between requests for the node and start of each task; None to send
            no such requests.
        explain: Whether to find out why the job waits, with some requests every 15 s.
        output_every_s: Seconds between two reads of the deciding task's output; None to read none.
        tail: The number of existing lines of that output to read; None for all.

    Yields:
        A `JobStatus` each time that the status was read, the other events (`Event`), and a `Pause`
        before the next read; `End` last.

    Raises:
        DeadlinePassed: `timeout_s` passed; the job may still be running.
        ClusterUnavailable: No ResourceManager answered for longer than `timeouts.unreachable`.
        SubmitTFJobError: With `plan`: the next run may or may not have been submitted.
    """
    end = None if timeout_s is None else cluster.clock() + timeout_s
    while True:
        steps = watch_run(
            cluster,
            ref,
            until=until,
            own=own or plan is not None,
            timeout_s=timeout_s,
            details_every_s=details_every_s,
        )
        status = yield from _EventsOfRun(cluster, output_every_s, tail, explain).events(steps)
        cause = find_cause_and_record(cluster, status)
        yield from _memory_at_end(cluster, status, cause)
        found: NextRun | None = None
        if ran_out_of_memory(status, cause):
            if plan is not None:
                found = yield from _submitted_again(cluster, plan, status, cause)
            elif next_runs:
                found = yield from _started_by_others(cluster, status)
        if found is None:
            yield End(status, cause)
            return
        yield found
        ref, tail = found.ref, TAIL if found.submission and found.submission.adopted else None
        timeout_s = None if end is None else max(1.0, end - cluster.clock())


class Restarts:
    """Yields a notice, once for each restart, when the ApplicationMaster or all tasks of a job with
    `retries` start again.
    """

    def __init__(self) -> None:
        """Begin with a run for which no notice was given yet."""
        self._attempt, self._retries = 0, 0

    def notices(self, status: JobStatus) -> Iterator[Notice]:
        """Yield the notices for a new status of the run; none if nothing has started again since
        the last status.
        """
        attempt = (status.app.attempt if status.app else None) or self._attempt
        if 0 < self._attempt < attempt:
            yield Notice(
                f"YARN started the ApplicationMaster again (attempt {attempt}); the tasks live on"
            )
        self._attempt = attempt
        retried = status.report and status.report.retried
        if not retried:
            return
        for entry in retried.generations:
            if entry.number >= self._retries:
                yield Notice(f"{entry.message}; all tasks start again ({retried.words(entry)})")
        self._retries = max(self._retries, retried.count)


class _EventsOfRun:
    """Makes the events of one run from those of its watch: adds notices, output, and why the job
    waits.
    """

    def __init__(
        self, cluster: Cluster, output_every_s: float | None, tail: int | None, explain: bool
    ) -> None:
        self._cluster, self._output_every_s, self._output = cluster, output_every_s, None
        self._explains = explain
        if output_every_s is not None:
            self._output = TaskOutput(cluster, tail=tail)
        self._failing, self._restarts = False, Restarts()
        self._explained_at, self._cause = float("-inf"), ""

    def events(
        self, steps: Iterable[JobStatus | Trouble | Pause | End]
    ) -> Generator[Event, None, JobStatus]:
        """Yield the events of a watch, with the notices about each status; return the last
        status.
        """
        for step in steps:
            if isinstance(step, End):
                return step.status
            if isinstance(step, Pause):
                yield from self._pause_and_read(step.seconds)
            elif isinstance(step, Trouble):
                if not self._failing:
                    yield step
                self._failing = True
            else:
                yield from self._events_of_status(step)
        raise AssertionError  # a watch ends with an `End`, or an error

    def _events_of_status(self, status: JobStatus) -> Iterator[Event]:
        if self._failing:
            yield Notice("the cluster answers again")
            self._failing = False
        yield from self._restarts.notices(status)
        if self._output is not None:
            yield from self._output.update(status)
        yield status
        if self._explains and is_waiting(status):
            yield from self._explain_wait(status)

    def _pause_and_read(self, left_s: float) -> Iterator[Event]:
        """Yield a pause, in parts between which new output is read."""
        while left_s > 0:
            pause_s = min(left_s, self._output_every_s or left_s)
            yield Pause(pause_s)
            left_s -= pause_s
            if self._output is not None:
                yield from self._output.poll()

    def _explain_wait(self, status: JobStatus) -> Iterator[Waits]:
        """Yield why the job waits, at most every 15 s."""
        from submit_tf_job.diagnose.pending import is_normal

        if self._cluster.clock() - self._explained_at < EXPLAIN_EVERY_S:
            return
        waiting_s = (status.app.elapsed_ms or 0) / 1000 if status.app else 0.0
        causes = why_pending(self._cluster, status)
        causes = tuple(cause for cause in causes if not is_normal(cause, waiting_s))
        self._explained_at = self._cluster.clock()
        first = causes[0].code if causes else self._cause
        yield Waits(causes, is_news=first != self._cause)
        self._cause = first


def _memory_at_end(cluster: Cluster, status: JobStatus, cause: Cause | None) -> Iterator[Notice]:
    """Yield a notice about the memory of a run that is over, if the run has reported its use and
    there is something to say about it.
    """
    if status.report is not None:
        from submit_tf_job.operations.usage import note_of_end

        if note := note_of_end(cluster, status, cause):
            yield Notice(note)


def _submitted_again(
    cluster: Cluster, plan: Plan, status: JobStatus, cause: Cause | None
) -> Generator[Event, None, NextRun | None]:
    """Submit the next run, if `retries.memory` of the job asks for it, and yield notices about what
    happens. Return the next run; None if nothing was submitted.
    """
    from submit_tf_job.operations.submit import submit  # most followers submit nothing

    step = next_step(cluster, plan, status, cause)
    if step is None:
        return None
    yield Notice(step.said)
    if step.plan is None:
        return None
    said: list[str] = []
    if status.held:  # a retry goes first
        ended = JobRef(status.name, status.application_id, status.run)
        stop_run(cluster, ended, reason=FAILED_BEFORE)
    try:
        done = submit(step.plan, cluster, on_wait=said.append)
    except NOT_SUBMITTED as error:
        yield Notice(f"not submitted again: {error.message}")
        return None
    yield from map(Notice, said)
    return NextRun(done.ref, done)


def _started_by_others(
    cluster: Cluster, status: JobStatus
) -> Generator[Event, None, NextRun | None]:
    """Wait for up to a minute for the next run that another follower starts, if `retries.memory` of
    the job asks for one. Return that run; None if there is none.
    """
    app, user, end = status.app, cluster.settings.user, cluster.clock() + NEXT_RUN_WITHIN_S
    if app is not None and app.user not in (None, user):
        return None
    try:
        properties = properties_of(cluster, status)
    except SubmitTFJobError:
        return None
    most = properties.get(service_properties.RESUBMISSIONS_MAX, "")
    if not most.isdigit() or service_properties.Resubmission.of(properties).number >= int(most):
        return None
    run = run_after(properties.get(service_properties.JOB, status.name), user, status.run)
    yield Notice(f"waiting up to {NEXT_RUN_WITHIN_S:.0f} s for its next run, with more memory")
    while True:
        with suppress(SubmitTFJobError):
            apps = cluster.client.apps(user=user, tags=(f"name: {run}",))
            if found := next((app for app in apps if app.name == run), None):
                return NextRun(JobRef(status.name, found.id, run))
        left_s = end - cluster.clock()
        if left_s <= 0:
            yield Notice("not submitted again: nothing that has its job spec follows it")
            return None
        yield Pause(min(NEXT_RUN_EVERY_S, left_s))


# --- the output of the deciding task --------------------------------------------------------------


_WORTH_SAYING_S = 30.0
_AFTER_FAILURE_S = 15.0  # a NodeManager that does not respond must not delay the watch


class TaskOutput:
    """Reads, between two reads of a run's status, what its deciding task has written since the last
    call.

    Args:
        cluster: The cluster.
        tail: The number of existing lines to read; None for all.
    """

    def __init__(self, cluster: Cluster, *, tail: int | None = None) -> None:
        from submit_tf_job.logs.entries import MACHINE_AND_BOOTSTRAP_LINES, LogSelection
        from submit_tf_job.logs.follow import LogFollower
        from submit_tf_job.logs.sources import NodeLogs

        self._clock, self._tail = cluster.clock, tail
        self._follower = LogFollower(
            NodeLogs(cluster.nodes),
            LogSelection(tail=tail, hide=MACHINE_AND_BOOTSTRAP_LINES),
            cluster.clock,
            cluster.wall,
            cluster.sleep,
            self._note_trouble,
        )
        self._trouble, self._failing_since = "", float("inf")
        self._taken: TaskContainer | None = None
        self._not_before = float("-inf")
        self._given_up = False

    def update(self, status: JobStatus) -> Iterator[PrintedLine | Notice]:
        """Read new output from the deciding task's current container; if the job is over, read all
        that is left.
        """
        found = _output_container(status)
        if found is not None and not status.state.is_final and found != self._taken:
            first = self._taken is None
            self._taken = found
            self._follower.take(found)
            if first and self._tail is not None:
                yield from self._read_output(self._follower.beginning)
        if self._taken is None or self._given_up:
            return
        if status.state.is_final:
            yield from self._read_output(self._follower.drain)
            self._given_up = True
            if self._follower.failing:
                rest = f"submit_tf_job logs {status.name} {self._taken.task}"
                yield Notice(f"the last lines of the output may be missing; all of it: {rest}")
        elif status.report is not None and status.report.is_over:
            yield from self._read_output(self._follower.poll)  # its node may delete the logs soon

    def poll(self) -> Iterator[PrintedLine | Notice]:
        """Read the new lines; none for a while after an error of the node, or once the output was
        read to its end.
        """
        is_due = self._clock() >= self._not_before
        if self._taken is not None and not self._given_up and is_due:
            yield from self._read_output(self._follower.poll)

    def _read_output(self, read: Callable[[], Iterable[Run]]) -> Iterator[PrintedLine | Notice]:
        from submit_tf_job.diagnose.output import without_workdir
        from submit_tf_job.logs.lines import as_left

        try:
            for run in read():
                for line in run.data.decode("utf-8", "backslashreplace").split("\n")[:-1]:
                    shown = as_left(line)
                    if "/container_" in shown:
                        shown = without_workdir(shown)
                    yield PrintedLine(f"{run.origin.container.task} | {shown}")
        except AuthError as error:
            self._given_up = True
            yield Notice(f"the output of the job cannot be shown: {error.message}")
        now = self._clock()
        if not self._follower.failing:
            self._failing_since = float("inf")
            return
        self._failing_since = min(self._failing_since, now)
        self._not_before = now + _AFTER_FAILURE_S
        if self._trouble and now - self._failing_since >= _WORTH_SAYING_S:
            yield Notice(self._trouble)
            self._trouble = ""

    def _note_trouble(self, sentence: str) -> None:
        """Keep a problem, and report it only if it lasts: the output of a container that has just
        ended cannot be read for a moment, which is normal.
        """
        self._trouble = sentence


def _output_container(status: JobStatus) -> TaskContainer | None:
    """Return the deciding task's last container; None before its first report was read, or if its
    node is not known.
    """
    from submit_tf_job.logs.entries import TaskContainer

    if status.report is None or status.service is None:
        return None
    task = status.deciding_task
    of_task = [
        one for one in status.containers if one.instance == task and one.id and one.bare_host
    ]
    newest = max(of_task, key=lambda one: one.launch_time_ms or 0, default=None)
    if newest is None or not newest.id:
        return None
    return TaskContainer(task or "", newest.id, newest.bare_host)
