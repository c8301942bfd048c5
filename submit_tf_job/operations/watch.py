"""Follow a job: polling pauses, retries of an unreachable cluster, and stopping a job that can
never start.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

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
from submit_tf_job.operations.observer import observe

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["FollowOptions", "Pace", "Patience", "follow", "following", "watching"]

ANSWER_S = 10.0  # a watch reports a cluster that has not responded for this time
OVERDUE_SEEN_S = 30.0
LEFT_OVER_S = 60.0  # with Hadoop's defaults an ApplicationMaster has exited by then


@dataclass(frozen=True)
class Pace:
    """Pauses between polls: short while the job changes, then growing up to a limit.

    Attributes:
        first_s: Pause after a recent change.
        longest_s: Longest pause.
        eager_s: Seconds after a change in which `first_s` is used.
    """

    first_s: float = 1.0
    longest_s: float = 15.0
    eager_s: float = 30.0
    growth: float = 1.5

    def after(self, pause_s: float, quiet_s: float) -> float:
        """Return the pause after one of `pause_s`, if nothing has changed for `quiet_s`."""
        if quiet_s < self.eager_s:
            return self.first_s
        return min(pause_s * self.growth, self.longest_s)


@dataclass(frozen=True)
class Patience:
    """Limits in seconds for retries, and for waiting for late data.

    Attributes:
        unreachable_s: For a cluster that does not respond.
        logs_s: For logs that can only explain a verdict, or a file system that does not respond.
        verdict_s: For logs that the verdict depends on. Longer than
            `observation.COLLECTED_WITHIN_S`, after which they count as lost by this machine's
            clock.
        forgotten_s: For a ResourceManager without a record of the application: one that recovers
            its state has none for a moment (hadoop-facts.md#failover).
    """

    unreachable_s: float = 900.0
    logs_s: float = 60.0
    verdict_s: float = 200.0
    forgotten_s: float = 30.0


class FollowOptions(TypedDict, total=False):
    """The arguments of `follow` and `following`.

    Attributes:
        until: Returns whether to end before the job is over; never by default.
        own: Whether the caller has submitted the job: then it is stopped if it can never start.
        bootstrap: Whether it runs under the bootstrap; None to read that from the service.
        timeout_s: Time limit in seconds; None for no limit.
        details_every_s: Seconds between requests for the node and start of each task; None if these
            are not needed.
        on_status: Called with each status.
        on_trouble: Called with every error that was retried.
    """

    until: Callable[[JobStatus], bool]
    own: bool
    bootstrap: bool | None
    timeout_s: float | None
    details_every_s: float | None
    on_status: Callable[[JobStatus], None]
    on_trouble: Callable[[ClusterUnavailable], None]


def follow(cluster: Cluster, ref: JobRef, **options: Unpack[FollowOptions]) -> JobStatus:
    """Wait until a job is over or `until` holds, and return its last status.

    Raises:
        DeadlinePassed: `timeout_s` passed; the job may still be running.
        ClusterUnavailable: No ResourceManager answered for longer than `timeouts.unreachable`.
    """
    steps = following(cluster, ref, **options)
    while True:
        try:
            pause_s = next(steps)
        except StopIteration as end:
            last: JobStatus = end.value
            return last
        cluster.sleep(pause_s)


def following(
    cluster: Cluster,
    ref: JobRef,
    *,
    until: Callable[[JobStatus], bool] = lambda _status: False,
    own: bool = False,
    bootstrap: bool | None = None,
    timeout_s: float | None = None,
    details_every_s: float | None = None,
    on_status: Callable[[JobStatus], None] = lambda _status: None,
    on_trouble: Callable[[ClusterUnavailable], None] = lambda _error: None,
) -> Generator[float, None, JobStatus]:
    """Follow a job as `follow` does, but yield the seconds to wait before each step; the caller
    waits.

    A container that fails before its bootstrap runs (an image without Python, a mount that a node
    lacks) sends nothing to the deciding task; the job would hold its other containers until the
    start deadline. The deciding task keeps that deadline, so nothing else ends a job whose deciding
    task gets no container. With `own`, both are stopped here.

    Whoever follows a job has YARN kill what is left of it `LEFT_OVER_S` after its end: an
    application that still waits for a container (docs/internals/endings.md).
    """
    clear_up = clears_up(cluster, ref)
    in_vain = waits_in_vain(cluster.clock) if own else lambda _status: False
    observer = observe(
        cluster, ref, bootstrap=bootstrap, answer_s=ANSWER_S, details_every_s=details_every_s
    )

    def look() -> JobStatus:
        seen = observer.observe()
        clear_up(seen)
        return seen

    poll = cluster.settings.poll
    steps = watching(
        look,
        lambda status: until(status) or in_vain(status),
        on_status=on_status,
        on_trouble=on_trouble,
        deadline_s=timeout_s,
        pace=Pace(first_s=poll.min_s, longest_s=poll.max_s),
        patience=Patience(cluster.settings.timeouts.unreachable_s),
        clock=cluster.clock,
    )
    try:
        status = yield from steps
    except DeadlinePassed as error:
        if error.hint:  # the job is over, and its logs are awaited
            raise
        raise DeadlinePassed(
            f"{error.message}; {ref.name} may still be running",
            hint=f"submit_tf_job wait {ref.name}, or submit_tf_job stop {ref.name}",
        ) from None
    if status.state.is_final or not in_vain(status):
        return status
    return _end(cluster, ref, status)


def waits_in_vain(clock: Callable[[], float]) -> Callable[[JobStatus], bool]:
    """Return a function that returns for each status whether the job can never start.

    The deciding task must be without container for some time: a ResourceManager or an
    ApplicationMaster that restarts lists no containers for some seconds.
    """
    since: float | None = None

    def in_vain(status: JobStatus) -> bool:
        nonlocal since
        if status.overdue is None:
            since = None
        elif since is None:
            since = clock()
        return bool(status.failed_before_bootstrap) or (
            since is not None and clock() - since >= OVERDUE_SEEN_S
        )

    return in_vain


def clears_up(cluster: Cluster, ref: JobRef) -> Callable[[JobStatus], None]:
    """Return a function that is called with each status, and has YARN kill an application whose job
    has been over for some time.

    The verdict stays that of the report: YARN's diagnostics keep it, too, for `list`.
    """
    since: float | None = None

    def look(status: JobStatus) -> None:
        nonlocal since
        if not status.is_left_over:
            since = None
            return
        since = cluster.clock() if since is None else since
        report = status.report
        if report is not None and report.has_ended:
            limit_s, reason = LEFT_OVER_S, OVER + report.state
        else:  # what YARN starts again would have had this time to find the deciding task
            limit_s = max(LEFT_OVER_S, status.start_timeout_s)
            reason = GIVEN_UP + "all its tasks have ended, and YARN does not start them again"
        if cluster.clock() - since >= limit_s:
            from submit_tf_job.operations.stop import stop

            since = None  # another user's follower may not end it
            with suppress(SubmitTFJobError):
                stop(cluster, ref.application_id or ref.name, wait=False, reason=reason)

    return look


def _end(cluster: Cluster, ref: JobRef, status: JobStatus) -> JobStatus:
    """Have YARN kill a job that can never start, and return its status with the reason.

    YARN stores the reason in the application's diagnostics, so every later command returns the same
    verdict.
    """
    from submit_tf_job.operations.stop import stop

    reason = f"{status.overdue}, so the job was stopped"
    if status.failed_before_bootstrap:
        reason = (
            f"the container of {status.failed_before_bootstrap[0]} failed before its bootstrap "
            f"could run, so the job was stopped"
        )
    job = ref.application_id or ref.name
    stopped = stop(cluster, job, containers=False, reason=GIVEN_UP + reason)
    if stopped.state is not JobState.STOPPED:
        return stopped  # FAILED for this reason, or it ended by itself meanwhile
    return replace(stopped, given_verdict=given_up(reason))


def watching(
    observe: Callable[[], JobStatus],
    until: Callable[[JobStatus], bool],
    *,
    on_status: Callable[[JobStatus], None] = lambda _status: None,
    on_trouble: Callable[[ClusterUnavailable], None] = lambda _error: None,
    deadline_s: float | None = None,
    pace: Pace | None = None,
    patience: Patience | None = None,
    clock: Callable[[], float],
    jitter: Callable[[], float] = random.random,
) -> Generator[float, None, JobStatus]:
    """Observe a job until `until` holds or it is over. The caller waits between the steps, in a
    thread or in an event loop.

    Args:
        observe: Returns the job's current status.
        until: Returns whether to end before the job is over.
        on_status: Called with each status.
        on_trouble: Called with every error of an unreachable cluster that is retried.
        deadline_s: Time limit in seconds from now; None for no limit.
        pace: Pauses between observations.
        patience: Limits of retries.
        clock: Monotonic seconds.
        jitter: Returns a number in [0, 1), so that many watchers do not send at the same moment.

    Yields:
        Seconds to wait before the next step.

    Returns:
        The last status.

    Raises:
        DeadlinePassed: `deadline_s` passed; the job may still be running.
        ClusterUnavailable: No ResourceManager answered for longer than the patience.
    """
    pace, patience = pace or Pace(), patience or Patience()
    start = clock()
    last_answer, last_change, pause = start, start, pace.first_s
    over_at: float | None = None
    previous: JobStatus | None = None
    while True:
        try:
            status = observe()
        except ClusterUnavailable as error:
            if clock() - last_answer > patience.unreachable_s:
                raise
            on_trouble(error)
            # `observe` waits for a ResourceManager by itself, so a short pause after it is enough
            last_change = clock()
        else:
            now = clock()
            status = _still_known(status, previous)
            on_status(status)
            if status.state.is_final or _awaits_logs(status):
                if over_at is None:
                    over_at = now
                if now - over_at >= _doubt_s(status, patience):
                    return _without_logs(status)
            else:
                over_at = None
                if until(status):
                    return status
            if previous is None or _key(status) != _key(previous):
                last_change = now
            last_answer, previous = now, status
        pause = pace.after(pause, clock() - last_change)
        wait = pause * (0.8 + 0.4 * jitter())
        if deadline_s is not None:
            left = start + deadline_s - clock()
            if left <= 0:
                return _at_the_deadline(previous, deadline_s)
            wait = min(wait, left)
        yield wait


def _at_the_deadline(last: JobStatus | None, deadline_s: float) -> JobStatus:
    """Return the last status if the job is over and its logs can only explain the verdict.

    Raises:
        DeadlinePassed: The job is not over, or its verdict depends on the logs.
    """
    passed = f"the deadline of {deadline_s:g} s passed"
    if last is not None and last.state.is_final and last.state is not JobState.UNKNOWN:
        return last
    if last is not None and _awaits_logs(last):
        raise DeadlinePassed(f"{passed}: {last.verdict.reason}", hint=last.verdict.hint)
    raise DeadlinePassed(passed)


def _awaits_logs(status: JobStatus) -> bool:
    app = status.app
    return app is not None and app.ended and status.evidence is Evidence.COLLECTED_SOON


def _still_known(status: JobStatus, previous: JobStatus | None) -> JobStatus:
    """Return the previous status of an application that has ended, if the ResourceManager does not
    return it now: a new leader does not return every one (hadoop-facts.md#failover).
    """
    ended = previous is not None and previous.app is not None and previous.app.ended
    return previous if previous and ended and status.state is JobState.UNKNOWN else status


def _doubt_s(status: JobStatus, patience: Patience) -> float:
    """Return the minimum seconds after a job's end before the watch ends."""
    if status.state is JobState.UNKNOWN:
        return patience.forgotten_s
    if status.evidence not in AWAITED:
        return 0.0
    if status.state.is_final:
        return patience.logs_s
    return patience.verdict_s


def _without_logs(status: JobStatus) -> JobStatus:
    """Return the status with the verdict without logs, if these are late."""
    if not _awaits_logs(status):
        return status
    return replace(status, evidence=Evidence.UNREADABLE)


def _key(status: JobStatus) -> tuple[object, ...]:
    report, app = status.report, status.app
    return (
        status.state,
        app and app.state,
        report and (report.state, report.arrived),
        len(status.containers),
    )
