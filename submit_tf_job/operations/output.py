"""Read the output of the deciding task while its job is followed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from submit_tf_job.errors import AuthError, NoSuchJob
from submit_tf_job.operations.cluster import Cluster
from submit_tf_job.operations.follow_events import Notice, PrintedLine

if TYPE_CHECKING:
    from submit_tf_job.logs.archive import Archive
    from submit_tf_job.logs.entries import Run, TaskContainer
    from submit_tf_job.observation import JobStatus

__all__ = ["TaskOutput"]

_PULSE_S = 1.0
_WORTH_SAYING_S = 30.0
_AFTER_FAILURE_S = 15.0  # a NodeManager that does not respond must not delay the watch


class TaskOutput:
    """Reads the deciding task's output of one run between two looks at it.

    Args:
        cluster: The cluster.
        tail: The number of existing lines to read; None for all.
    """

    def __init__(self, cluster: Cluster, *, tail: int | None = None) -> None:
        from submit_tf_job.logs.entries import MACHINE_AND_BOOTSTRAP_LINES, LogSelection
        from submit_tf_job.logs.follow import LogFollower, LoggedContainers, PollIntervals
        from submit_tf_job.logs.sources import NodeLogs

        self._clock, self._tail = cluster.clock, tail
        self._follower = LogFollower(
            lambda: LoggedContainers((), over=False),
            NodeLogs(cluster.client, cluster.nodes),
            _nothing_collected,
            LogSelection(tail=tail, hide=MACHINE_AND_BOOTSTRAP_LINES),
            pulse=PollIntervals(_PULSE_S),
            clock=cluster.clock,
            wall=cluster.wall,
            sleep=cluster.sleep,
            say=self._note,
        )
        self._trouble, self._failing_since = "", float("inf")
        self._taken: TaskContainer | None = None
        self._not_before = float("-inf")
        self._given_up = False

    def update(self, status: JobStatus) -> Iterator[PrintedLine | Notice]:
        """Read from the deciding task's current container; read the rest if the job is over."""
        found = _deciding(status)
        if found is not None and not status.state.is_final and found != self._taken:
            first = self._taken is None
            self._taken = found
            self._follower.take(found)
            if first and self._tail is not None:
                yield from self._read(self._follower.beginning)
        if self._taken is None or self._given_up:
            return
        if status.state.is_final:
            yield from self._read(self._follower.drain)
            self._given_up = True
            if self._follower.failing:
                rest = f"submit_tf_job logs {status.name} {self._taken.task}"
                yield Notice(f"the last lines of the output may be missing; all of it: {rest}")
        elif status.report is not None and status.report.is_over:
            yield from self._read(self._follower.poll)  # its node may delete the logs soon

    def poll(self) -> Iterator[PrintedLine | Notice]:
        """Read what is new."""
        is_due = self._clock() >= self._not_before
        if self._taken is not None and not self._given_up and is_due:
            yield from self._read(self._follower.poll)

    def _read(self, read: Callable[[], Iterable[Run]]) -> Iterator[PrintedLine | Notice]:
        from submit_tf_job.logs.lines import as_left

        try:
            for run in read():
                for line in run.data.decode("utf-8", "backslashreplace").split("\n")[:-1]:
                    yield PrintedLine(f"{run.origin.container.task} | {as_left(line)}")
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

    def _note(self, sentence: str) -> None:
        """Keep a problem for later: a container that has ended cannot be read either, which is
        normal.
        """
        self._trouble = sentence


def _deciding(status: JobStatus) -> TaskContainer | None:
    """Return the deciding task's container once its bootstrap has written something."""
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


def _nothing_collected() -> Archive:
    raise NoSuchJob("collected logs are not read while a job is watched")
