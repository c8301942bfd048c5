"""A graceful stop: all tasks end their commands, which may save, before YARN stops the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from submit_tf_job import waiting
from submit_tf_job.errors import ClusterUnavailable, NoSuchJob, Refused, SubmitTFJobError
from submit_tf_job.operations.cluster import Cluster, JobRef
from submit_tf_job.operations.description import tasks_of
from submit_tf_job.operations.read_status import StatusReader
from submit_tf_job.yarn import service_properties

if TYPE_CHECKING:
    from submit_tf_job.observation import JobReport, JobStatus

__all__ = ["deciding_container", "end_gracefully", "stated_grace_s"]

# The deciding task waits 20 s after each (`container.child.PATIENCE_S`); a NodeManager gets a
# signal with its next heartbeat, by default after 1 s at most.
_RENEWED_EVERY_S = 5.0
_LOOK_S = 5.0  # a stop is not delayed longer by an ApplicationMaster that does not answer
_NAMED = 5
_PATIENCE, _STOP = "OUTPUT_THREAD_DUMP", "GRACEFUL_SHUTDOWN"  # SIGQUIT, SIGTERM


def stated_grace_s(cluster: Cluster, ref: JobRef) -> float:
    """Return `stop_grace` of a running job's spec; 0 if it has none, or that cannot be read."""
    client = cluster.client
    try:
        service = client.get_service(ref.run, deadline=client.deadline(_LOOK_S))
    except SubmitTFJobError:
        return 0.0
    return float(service.properties.get(service_properties.STOP_GRACE) or 0)


def end_gracefully(
    cluster: Cluster, ref: JobRef, grace_s: float, on_wait: Callable[[str], None]
) -> None:
    """Have all tasks of a job that train or evaluate save and end; return when they have.

    The deciding task gets SIGTERM through the ResourceManager, so that neither its network nor its
    node has to be reachable from here; it tells the others. Parameter servers and sidecars run on,
    until YARN stops them. Returns at once for a job whose commands do not run.

    Args:
        grace_s: Return after this many seconds at the latest.
        on_wait: Called with a line for the user.

    Raises:
        Refused: The deciding task is not known, or Hadoop is
            too old (before 3.3, YARN-8693).
    """
    reader = StatusReader(cluster, ref)
    seen = reader.read(detail=True)
    container = deciding_container(seen)
    if container is None:
        return
    due, signals = cluster.clock(), [_PATIENCE, _STOP]
    for _ in waiting.TASKS_HAVE_SAVED.attempts(cluster.clock, cluster.sleep, within_s=grace_s):
        if cluster.clock() >= due:
            due = cluster.clock() + _RENEWED_EVERY_S
            try:
                for name in signals:
                    cluster.client.signal_container(container, name)
                if len(signals) > 1:
                    on_wait(f"{ref.name}: its tasks have {grace_s:g} s to save and end")
                signals = [_PATIENCE]
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
        if seen.state.is_final or (seen.report is not None and seen.report.has_saved):
            return
    on_wait(f"{ref.name}: {_late(seen.report)} after {grace_s:g} s; YARN stops the job now")


def deciding_container(seen: JobStatus) -> str | None:
    """Return the container that gets the signals; None if nothing runs that could save."""
    name = seen.name
    if seen.state.is_final or seen.app is None or seen.app.state.value != "RUNNING":
        return None
    service = seen.service
    if seen.report is not None:
        begun = seen.report.state in ("running", "finishing", "stopped")
        return str(seen.report.raw.get("container") or "") or None if begun else None
    deciding = service.properties.get(service_properties.DECIDING) if service else None
    for task in tasks_of(seen):
        if task.name == deciding and task.container_id:
            return task.container_id
    raise Refused(
        f"{name}: the container of its deciding task is not known" + _trouble(seen),
        hint=f"try again, or stop it at once: submit_tf_job stop {name} --grace 0s",
    )


def _trouble(seen: JobStatus) -> str:
    return f" ({seen.trouble})" if seen.trouble else ""


def _by_hand(name: str, container: str) -> str:
    command = f"yarn container -signal {container}"
    return (
        f"with Hadoop's command line: {command} {_PATIENCE} and {command} {_STOP}, then at most 20 "
        f"s later submit_tf_job stop {name} --grace 0s"
    )


def _late(report: JobReport | None) -> str:
    if report is None or not report.graceful:
        return "its tasks may still run"
    late = [str(name) for name in report.raw["saving"]]
    more = len(late) - _NAMED
    names = ", ".join(late[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"{names} had not ended"
