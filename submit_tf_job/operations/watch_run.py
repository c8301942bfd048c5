"""Watch one run to its end: pauses between reads of its status, retries while the cluster cannot be
reached, and waiting for logs that arrive late.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from submit_tf_job.errors import ClusterUnavailable, DeadlinePassed, SubmitTFJobError
from submit_tf_job.observation import (
    AWAITED,
    GIVEN_UP,
    OVER,
    Evidence,
    JobState,
    JobStatus,
    given_up,
)
from submit_tf_job.operations.cluster import Cluster, JobRef
from submit_tf_job.operations.read_status import StatusReader
from submit_tf_job.operations.stop import stop
from submit_tf_job.operations.why import why_pending
from submit_tf_job.status_changes import pace_key
from submit_tf_job.waiting import JOB_IS_FORGOTTEN_S, WATCH_ANSWERS_S

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause

T = TypeVar("T")

EAGER_S, GROWTH = 30.0, 1.5  # how long after a change the pauses stay short, and how they grow then
# YARN's service ApplicationMaster sleeps this long before it unregisters (ServiceUtils.terminate):
# the end of the application comes soon after
LINGER_S, UNREGISTERED_WITHIN_S = 5.0, 10.0
NEAR_END = 0.25  # of a pause, while that end is due
LOGS_S = 60.0  # for logs that can only explain a verdict, or a file system that does not respond
# For logs that the verdict depends on: longer than `observation.COLLECTED_WITHIN_S`, after which
# they count as lost by this machine's clock.
VERDICT_S = 200.0


@dataclass(frozen=True)
class Trouble:
    """The cluster could not be reached, and the request will be repeated; the next `JobStatus`
    means that the cluster answers again.
    """

    error: ClusterUnavailable


@dataclass(frozen=True)
class Pause:
    """Nothing happens for a number of seconds: the consumer should wait for that time, then take
    the next event.
    """

    seconds: float


@dataclass(frozen=True)
class End:
    """The last event of a watch.

    Attributes:
        status: The last status.
        cause: Why the job failed; None if the job did not fail, or if the caller has not determined
            the cause.
    """

    status: JobStatus
    cause: Cause | None = None


def until_end(
    events: Iterable[T],
    sleep: Callable[[float], None],
    show: Callable[[T], None] = lambda _event: None,
) -> End:
    """Pass all events of a watch except pauses to `show`, and sleep for the pauses in this thread;
    return the last event.
    """
    for event in events:
        if isinstance(event, Pause):
            sleep(event.seconds)
        elif isinstance(event, End):
            return event
        else:
            show(event)
    raise AssertionError  # a watch ends with an `End`, or an error


def wait_for_end(
    cluster: Cluster, ref: JobRef, *, own: bool = False, timeout_s: float | None = None
) -> JobStatus:
    """Wait until a run is over, and return its last status; arguments and errors are those of
    `watch_run`.
    """
    return until_end(watch_run(cluster, ref, own=own, timeout_s=timeout_s), cluster.sleep).status


def watch_run(
    cluster: Cluster,
    ref: JobRef,
    *,
    until: Callable[[JobStatus], bool] = lambda _status: False,
    own: bool = False,
    timeout_s: float | None = None,
    details_every_s: float | None = None,
) -> Iterator[JobStatus | Trouble | Pause | End]:
    """Read the status of a run repeatedly, until the run is over or `until` holds.

    A container that fails before its bootstrap runs (an image without Python, a mount that a node
    lacks) sends nothing to the deciding task, so the job would keep its other containers until the
    start deadline. It is the deciding task that checks this deadline, so on the cluster nothing
    ends a job whose deciding task gets no container. With `own`, jobs of both kinds are stopped
    here.

    With or without `own`, a watch of the user's own job has YARN kill an application that is still
    alive some time after its job's end, because it still waits for a container
    (docs/internals/endings.md).

    Args:
        until: Returns whether to end before the run is over; never by default.
        own: Whether the caller is responsible for the run: a run that can never start is then
            stopped.
        timeout_s: Time limit in seconds; None for no limit.
        details_every_s: Seconds between requests for the node and start of each task; None to send
            no such requests.

    Yields:
        Each status, or the error of a cluster that cannot be reached, and then a pause; `End` last.

    Raises:
        DeadlinePassed: `timeout_s` passed, and the job may still be running, or its verdict depends
            on logs that are not collected yet. For a job that is over otherwise, `End` is yielded
            at the deadline.
        ClusterUnavailable: No ResourceManager answered for longer than `timeouts.unreachable`.
    """
    end_leftovers = ends_leftovers(cluster, ref)
    in_vain = waits_in_vain(cluster.clock) if own else lambda _status: False
    reader = StatusReader(cluster, ref, answer_s=WATCH_ANSWERS_S, details_every_s=details_every_s)
    limits = _Limits(cluster, timeout_s)
    previous: JobStatus | None = None
    while True:
        try:
            status = reader.read()
            end_leftovers(status)
        except ClusterUnavailable as error:
            limits.unreachable(error)
            yield Trouble(error)
        else:
            status = _keep_ended(status, previous)
            limits.answered(
                status, is_change=previous is None or pace_key(status) != pace_key(previous)
            )
            previous = status
            yield status
            if (status.state.is_final or _awaits_logs(status)) and limits.is_settled(status):
                yield End(_without_logs(status))
                return
            if not status.state.is_final and not _awaits_logs(status):
                if until(status):
                    yield End(status)
                    return
                if in_vain(status):
                    yield End(end_in_vain(cluster, ref, status))
                    return
        pause_s = limits.pause_s()
        if timeout_s is not None and pause_s <= 0:
            yield End(_at_the_deadline(ref, previous, timeout_s))
            return
        yield Pause(pause_s)


class _Limits:
    """Measures the times of a watch: since its begin, the last answer, the last change, and the
    run's end.
    """

    def __init__(self, cluster: Cluster, timeout_s: float | None) -> None:
        self._clock, poll = cluster.clock, cluster.settings.poll
        self._unreachable_s = cluster.settings.timeouts.unreachable_s
        self._first_s, self._longest_s, self._pause_s = poll.min_s, poll.max_s, poll.min_s
        self._answered_at = self._changed_at = self._clock()
        self._end = None if timeout_s is None else self._answered_at + timeout_s
        self._over_at: float | None = None
        self._left_at: float | None = None  # when the deciding task was first seen to have left

    def unreachable(self, error: ClusterUnavailable) -> None:
        """Raise the error if the cluster has been unreachable for longer than
        `timeouts.unreachable`.
        """
        if self._clock() - self._answered_at > self._unreachable_s:
            raise error
        # a read waits for a ResourceManager by itself, so a short pause after it is enough
        self._changed_at = self._clock()

    def answered(self, status: JobStatus, *, is_change: bool) -> None:
        """Record that a status was read now. `is_change` tells whether the pauses must become short
        again.
        """
        self._answered_at = self._clock()
        if is_change:
            self._changed_at = self._answered_at
        if status.report is None or not status.report.deciding_task_left:
            self._left_at = None
        elif self._left_at is None:
            self._left_at = self._answered_at
        if not status.state.is_final and not _awaits_logs(status):
            self._over_at = None
        elif self._over_at is None:
            self._over_at = self._answered_at

    def is_settled(self, status: JobStatus) -> bool:
        """Return whether a run has been over for so long that no better verdict can come."""
        return self._clock() - (self._over_at or 0.0) >= _doubt_s(status)

    def pause_s(self) -> float:
        """Return the next pause: short while the run changes, and a quarter of that while YARN ends
        its application, then growing up to a limit; 0 or less at the deadline. It varies, so that
        many watchers do not send at the same moment.
        """
        if self._clock() - self._changed_at < EAGER_S:
            self._pause_s = self._first_s
        else:
            self._pause_s = min(self._pause_s * GROWTH, self._longest_s)
        wait_s = self._pause_s * (0.8 + 0.4 * random.random())  # noqa: S311
        if self._is_near_end():
            wait_s *= NEAR_END
        return wait_s if self._end is None else min(wait_s, self._end - self._clock())

    def _is_near_end(self) -> bool:
        if self._left_at is None or self._over_at is not None:
            return False
        since_s = self._clock() - self._left_at
        return LINGER_S - self._first_s <= since_s < UNREGISTERED_WITHIN_S


def _at_the_deadline(ref: JobRef, last: JobStatus | None, timeout_s: float) -> JobStatus:
    """Return the last status of a watch whose time limit has passed, if the job is over and its
    logs can only explain the verdict.

    Raises:
        DeadlinePassed: The job is not over, or its verdict depends on the logs.
    """
    passed = f"the deadline of {timeout_s:g} s passed"
    if last is not None and last.state.is_final and last.state is not JobState.UNKNOWN:
        return last
    if last is not None and _awaits_logs(last) and last.verdict.hint:
        raise DeadlinePassed(f"{passed}: {last.verdict.reason}", hint=last.verdict.hint)
    raise DeadlinePassed(
        f"stopped following after {timeout_s:g} s; {ref.name} may still be running",
        hint=f"submit_tf_job wait {ref.name}, or submit_tf_job stop {ref.name}",
    )


def _awaits_logs(status: JobStatus) -> bool:
    app = status.app
    return app is not None and app.ended and status.evidence is Evidence.COLLECTED_SOON


def _keep_ended(status: JobStatus, previous: JobStatus | None) -> JobStatus:
    """Return the previous status of an application that has ended, if the ResourceManager does not
    list the application now: after a failover, the new active ResourceManager may not list it for
    some seconds (hadoop-facts.md#failover).
    """
    ended = previous is not None and previous.app is not None and previous.app.ended
    return previous if previous and ended and status.state is JobState.UNKNOWN else status


def _doubt_s(status: JobStatus) -> float:
    """Return for how many seconds after a job's end the watch continues at least, because a better
    verdict may come.
    """
    if status.state is JobState.UNKNOWN:
        return JOB_IS_FORGOTTEN_S
    if status.evidence not in AWAITED:
        return 0.0
    return LOGS_S if status.state.is_final else VERDICT_S


def _without_logs(status: JobStatus) -> JobStatus:
    """Return the status with the verdict that is reached without logs, if the logs are still being
    collected; else return the status unchanged.
    """
    return replace(status, evidence=Evidence.UNREADABLE) if _awaits_logs(status) else status


# --- what a watch ends ----------------------------------------------------------------------------


OVERDUE_SEEN_S = 30.0
LEFT_OVER_S = 60.0  # with Hadoop's defaults an ApplicationMaster has exited by then


def waits_in_vain(clock: Callable[[], float]) -> Callable[[JobStatus], bool]:
    """Return a function that is called with each status, and returns whether the job can never
    start.

    It returns True if a container failed before its bootstrap, or if the deciding task has been
    without a container for longer than `start_timeout`, and is seen so for 30 s: a ResourceManager
    or an ApplicationMaster that restarts lists no containers for some seconds.
    """
    since: float | None = None

    def in_vain(status: JobStatus) -> bool:
        nonlocal since
        if status.start_overdue is None:
            since = None
        elif since is None:
            since = clock()
        return bool(status.failed_before_bootstrap) or (
            since is not None and clock() - since >= OVERDUE_SEEN_S
        )

    return in_vain


def ends_leftovers(cluster: Cluster, ref: JobRef) -> Callable[[JobStatus], None]:
    """Return a function to call with each status. It has YARN kill an application that is still
    alive a minute or more after the end of its job; errors are ignored, because only the job's
    owner may kill it.

    The verdict of the report stays valid: it is also written into YARN's diagnostics, where `list`
    reads it.
    """
    since: float | None = None

    def end_leftover(status: JobStatus) -> None:
        nonlocal since
        if not status.application_left_over:
            since = None
            return
        since = cluster.clock() if since is None else since
        report = status.report
        if report is not None and report.deciding_task_left:
            limit_s, reason = LEFT_OVER_S, OVER + report.state
        else:  # what YARN starts again would have had this time to find the deciding task
            limit_s = max(LEFT_OVER_S, status.start_timeout_s)
            reason = GIVEN_UP + "all its tasks have ended, and YARN does not start them again"
        if cluster.clock() - since >= limit_s:
            since = None  # another user's follower may not end it
            with suppress(SubmitTFJobError):
                stop(cluster, ref.application_id or ref.name, wait=False, reason=reason)

    return end_leftover


def _why_it_waited(cluster: Cluster, status: JobStatus) -> str:
    from submit_tf_job.diagnose.pending import UNEXPLAINED

    causes = [c for c in why_pending(cluster, status) if c.code not in UNEXPLAINED]
    if not causes:
        return ""
    return f"; it waited because {causes[0].sentence[:600]} (next: {causes[0].hint[:300]})"


def end_in_vain(cluster: Cluster, ref: JobRef, status: JobStatus) -> JobStatus:
    """Have YARN kill a job that can never start, and return its status with the reason. A job that
    has ended by itself meanwhile keeps its own verdict.

    YARN stores the reason in the application's diagnostics, so every later command returns the same
    verdict.
    """
    reason = f"{status.start_overdue}, so the job was stopped{_why_it_waited(cluster, status)}"
    if status.failed_before_bootstrap:
        reason = (
            f"the container of {status.failed_before_bootstrap[0]} failed before its bootstrap "
            f"could run, so the job was stopped"
        )
    job = ref.application_id or ref.name
    stopped = stop(cluster, job, containers=False, reason=GIVEN_UP + reason)
    if stopped.state is not JobState.STOPPED:
        return stopped  # FAILED for this reason, or it ended by itself meanwhile
    return replace(stopped, recorded_verdict=given_up(reason))
