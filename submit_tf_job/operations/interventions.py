"""What a follower ends: a job that can never start, and what is left of a job that is over."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.observation import GIVEN_UP, OVER, JobState, JobStatus, given_up
from submit_tf_job.operations.cluster import Cluster, JobRef

__all__ = ["end_in_vain", "ends_leftovers", "waits_in_vain"]

OVERDUE_SEEN_S = 30.0
LEFT_OVER_S = 60.0  # with Hadoop's defaults an ApplicationMaster has exited by then


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


def ends_leftovers(cluster: Cluster, ref: JobRef) -> Callable[[JobStatus], None]:
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


def end_in_vain(cluster: Cluster, ref: JobRef, status: JobStatus) -> JobStatus:
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
