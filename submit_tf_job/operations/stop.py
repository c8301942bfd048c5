"""Stop a job. YARN kills it; at a graceful stop it does so only after the tasks have saved and
ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from submit_tf_job import waiting
from submit_tf_job.errors import (
    ClusterUnavailable,
    DeadlinePassed,
    NoSuchJob,
    Refused,
    SubmitTFJobError,
    UsageError,
)
from submit_tf_job.observation import OVER, JobState
from submit_tf_job.operations.cluster import Cluster, JobRef
from submit_tf_job.operations.read_status import StatusReader, read_status
from submit_tf_job.operations.runs import application_that_stays, find
from submit_tf_job.operations.why import find_cause_and_record
from submit_tf_job.yarn import service_properties

if TYPE_CHECKING:
    from submit_tf_job.job_report import HeldContainer, JobReport
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.yarn.stopping import Remaining

# The reason for which YARN kills a job whose container is held: `list`, which has no more than
# YARN's words, shows it as failed.
FAILED_BEFORE = OVER + "failed"
_NAMED = 5
# The deciding task waits 20 s after each SIGQUIT (`container.child.PATIENCE_S`); a NodeManager gets
# a signal with its next heartbeat, by default after 1 s at most.
_RENEWED_EVERY_S = 5.0
_LOOK_S = 5.0  # a stop is not delayed longer by an ApplicationMaster that does not answer
THREAD_DUMP, _SAVE_AND_END = "OUTPUT_THREAD_DUMP", "GRACEFUL_SHUTDOWN"  # SIGQUIT, SIGTERM


def stop(
    cluster: Cluster,
    job: str | JobRef,
    *,
    wait: bool = True,
    containers: bool = True,
    grace_s: float | None = None,
    reason: str = "",
    on_wait: Callable[[str], None] = lambda _line: None,
) -> JobStatus:
    """Stop a job, and return its status; do nothing for a job that is over. A job that has failed,
    and whose container is held (`hold_on_failure`), is ended as failed. Once the job is stopped,
    the run's record is completed, too.

    Args:
        cluster: The cluster.
        job: Name of the job or run, an application id, or a run.
        wait: Whether to wait until YARN reports that the job is over.
        grace_s: Seconds for the tasks to save and end before YARN stops the job; None for
            `stop_grace` of its spec, which applies only with `wait` and without `reason`.
        containers: With `wait`, also wait until its nodes report no live container.
        reason: Have YARN kill the job at once, with this text in its diagnostics; "" to end it
            through the services API.
        on_wait: Called with one line while its tasks save, and if the job is over for YARN while
            its containers are alive.

    Raises:
        NoSuchJob: The job does not exist.
        UsageError: `grace_s` is negative.
        AuthError: The user may not stop the job.
        Refused: With `grace_s`: the job's tasks cannot be asked to save, because the deciding
            task's container is not known, or Hadoop is too old.
        DeadlinePassed: YARN does not end the job in time, or its containers are still alive after
            that.
    """
    if grace_s is not None and grace_s < 0:
        raise UsageError(f"grace_s={grace_s}: a time to save is 0 seconds or more")
    ref = find(cluster, job)
    if grace_s:
        _end_gracefully(cluster, ref, grace_s, on_wait)
    elif grace_s is None and wait and not reason:
        _end_as_stated(cluster, ref, on_wait)
    if not reason and held_container(cluster, ref):
        reason = FAILED_BEFORE
    stop_run(
        cluster, ref, wait=wait, containers=wait and containers, reason=reason, on_wait=on_wait
    )
    status = read_status(cluster, ref)
    if status.state is JobState.STOPPED:
        find_cause_and_record(cluster, status)  # before the node deletes the curves
    return status


def stop_run(
    cluster: Cluster,
    ref: JobRef,
    *,
    wait: bool = True,
    containers: bool = False,
    reason: str = "",
    on_wait: Callable[[str], None] = lambda _line: None,
) -> None:
    """Have YARN end a run at once, without time to save; do nothing if the ResourceManager does not
    know it any more. Arguments and errors are those of `stop`; `containers` also applies if `wait`
    is False.
    """
    from submit_tf_job.yarn.stopping import places_of, wait_until_gone
    from submit_tf_job.yarn.stopping import stop as stop_service

    client, user = cluster.client, cluster.settings.user
    app = client.app(ref.application_id)
    if app is None:
        return
    app = application_that_stays(cluster, app)
    places = places_of(client, app.id) if containers else ()
    stop_service(client, app, user=user, wait=wait, reason=reason)
    if not places:
        return
    left = wait_until_gone(
        client,
        cluster.nodes,
        app.id,
        places,
        on_wait=lambda found: on_wait(
            f"{ref.name} is over for YARN; waiting until its nodes have ended "
            f"{len(found)} of its containers"
        ),
    )
    if left:
        raise _still_alive(ref.name, app.id, left)


def _still_alive(name: str, app_id: str, left: Sequence[Remaining]) -> DeadlinePassed:
    some = "; ".join(map(str, left[:_NAMED]))
    if len(left) > _NAMED:
        some += f" and {len(left) - _NAMED} more"
    count = "1 container of it is" if len(left) == 1 else f"{len(left)} containers of it are"
    return DeadlinePassed(
        f"{name} is over for YARN ({app_id}), but {count} still alive "
        f"{waiting.CONTAINERS_ARE_GONE.within_s:g} s later: {some}",
        hint="give the same command again to look again. RUNNING: its ApplicationMaster has "
        "not exited. KILLING: the process ignores "
        "the signals that it gets (look at the STOPSIGNAL of its image), and must be "
        "ended on its node",
        details={
            "application_id": app_id,
            "containers": [{"id": c.container_id, "node": c.node, "state": c.state} for c in left],
        },
    )


def release(cluster: Cluster, job: str | JobRef) -> JobStatus:
    """End the hold of a failed task's container (`hold_on_failure`), and return when the job has
    ended for YARN.

    The deciding task gets SIGTERM through the ResourceManager, as in a graceful stop, and ends the
    job as it would have done without the hold. Before Hadoop 3.3, which cannot send signals, the
    job is stopped by YARN instead.

    Raises:
        NoSuchJob: The job does not exist.
        Refused: No container of the job is held.
        DeadlinePassed: YARN was to stop the job, which has not ended within two minutes.
    """
    ref = find(cluster, job)
    seen = read_status(cluster, ref, detail=True)
    if seen.held is None or seen.report is None:
        raise Refused(
            f"no container of {seen.name} is held",
            hint="`hold_on_failure` of its job spec holds that of the first task to fail",
        )
    try:
        cluster.client.signal_container(seen.report.container_id or "", _SAVE_AND_END)
        waits = waiting.CONTAINER_IS_RELEASED.attempts(cluster.clock, cluster.sleep)
        ended = any(_has_ended(cluster, ref) for _ in waits)
    except NoSuchJob:
        ended = True
    except Refused:
        ended = False
    if not ended:
        stop_run(cluster, ref, reason=FAILED_BEFORE)
    return read_status(cluster, ref)


def held_container(cluster: Cluster, ref: JobRef) -> HeldContainer | None:
    """Return the container of a run that is held after its failure (`hold_on_failure`); None if
    there is none, or if the run's status cannot be read.
    """
    try:
        return read_status(cluster, ref, detail=True).held
    except SubmitTFJobError:
        return None


def _has_ended(cluster: Cluster, ref: JobRef) -> bool:
    app = cluster.client.app(ref.application_id)
    return app is None or application_that_stays(cluster, app).ended


# --- a graceful stop ---


def _end_as_stated(cluster: Cluster, ref: JobRef, on_wait: Callable[[str], None]) -> None:
    """Give the tasks the time to save that the job spec states (`stop_grace`). If that is refused,
    tell the user so. Do nothing if the job states no such time, or if its service cannot be read.
    """
    client = cluster.client
    try:
        service = client.get_service(ref.run, deadline=client.deadline(_LOOK_S))
    except SubmitTFJobError:
        return
    grace_s = float(service.properties.get(service_properties.STOP_GRACE) or 0)
    if not grace_s:
        return
    try:
        _end_gracefully(cluster, ref, grace_s, on_wait)
    except Refused as error:
        on_wait(f"{ref.name}: its tasks get no time to save: {error.message}")


def _end_gracefully(
    cluster: Cluster, ref: JobRef, grace_s: float, on_wait: Callable[[str], None]
) -> None:
    """Have all tasks of a job that train or evaluate save their state and end; return when all of
    them have ended.

    The deciding task gets SIGTERM through the ResourceManager, so that neither its network nor its
    node has to be reachable from this machine; it tells the other tasks. Parameter servers and
    sidecars continue until YARN stops them. Returns at once for a job whose commands do not run.

    Args:
        grace_s: Return after this many seconds at the latest.
        on_wait: Called with a line for the user.

    Raises:
        Refused: The deciding task's container is not known, or Hadoop is too old (before 3.3,
            YARN-8693).
    """
    from submit_tf_job.operations.description import deciding_container  # `wait` needs no tasks

    reader = StatusReader(cluster, ref)
    seen = reader.read(detail=True)
    container = deciding_container(seen)
    if container is None:
        return
    due, signals = cluster.clock(), [THREAD_DUMP, _SAVE_AND_END]
    for _ in waiting.TASKS_HAVE_SAVED.attempts(cluster.clock, cluster.sleep, within_s=grace_s):
        if cluster.clock() >= due:
            due = cluster.clock() + _RENEWED_EVERY_S
            try:
                for name in signals:
                    cluster.client.signal_container(container, name)
                if len(signals) > 1:
                    on_wait(f"{ref.name}: its tasks have {grace_s:g} s to save and end")
                signals = [THREAD_DUMP]
            except NoSuchJob:
                return
            except Refused as error:
                raise Refused(error.message, hint=_by_hand(ref.name, container)) from None
            except ClusterUnavailable:
                pass  # the next one renews it
        try:
            seen = reader.read()
        except ClusterUnavailable:
            continue
        except NoSuchJob:
            return
        if seen.state.is_final or (seen.report is not None and seen.report.all_have_saved):
            return
    on_wait(
        f"{ref.name}: {_unsaved_tasks(seen.report)} after {grace_s:g} s; YARN stops the job now"
    )


def _by_hand(name: str, container: str) -> str:
    command = f"yarn container -signal {container}"
    return (
        f"with Hadoop's command line: {command} {THREAD_DUMP} and {command} {_SAVE_AND_END}, then "
        f"at most 20 s later submit_tf_job stop {name} --grace 0s"
    )


def _unsaved_tasks(report: JobReport | None) -> str:
    if report is None or report.saving is None:
        return "its tasks may still run"
    late = report.saving
    more = len(late) - _NAMED
    names = ", ".join(late[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"{names} had not ended"
