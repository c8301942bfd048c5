"""Hold a job against the nodes and the queue of a cluster before it is posted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from submit_tf_job.errors import InternalError, Refused, SubmitTFJobError
from submit_tf_job.operations.cluster import Cluster

if TYPE_CHECKING:
    from submit_tf_job.plan import Plan

__all__ = ["check_room"]

T = TypeVar("T")


def check_room(planned: Plan, cluster: Cluster) -> str:
    """Check whether all containers of a job fit into the cluster at once.

    Sends one request for the nodes, and one for the queues if the job names a queue; none for a job
    of one task without a node label. A cluster that does not answer them is not an error.

    Returns:
        A line that tells why the job cannot start now; "" if nothing is known to be in its way.

    Raises:
        Refused: It can never start, and `capacity_check` of the settings is `refuse`.
    """
    from submit_tf_job.diagnose import gang
    from submit_tf_job.yarn.queues import Scheduler

    job, gpu_resource = planned.job, planned.site.gpu_resource
    choice = cluster.settings.capacity_check
    if choice == "off" or not gang.may_not_fit(job):
        return ""
    nodes = _read(cluster.client.nodes) or ()
    answer = _read(cluster.client.scheduler) if job.queue else None
    scheduler = Scheduler.from_json(answer) if answer else None
    never = gang.fits_never(job, gpu_resource, nodes, scheduler)
    if never and choice == "refuse":
        raise Refused(
            "\n".join(str(job.problem(path, sentence)) for path, sentence in never),
            hint="ask for less; if the cluster adds nodes by itself, set capacity_check: warn in "
            "the settings",
        )
    if never:
        return f"it cannot start before the cluster grows: {never[0].sentence}"
    waits = gang.fits_not_now(job, gpu_resource, nodes, scheduler)
    return f"it cannot start now, and waits: {waits}" if waits else ""


def _read(request: Callable[[], T]) -> T | None:
    try:
        return request()
    except InternalError:
        raise
    except SubmitTFJobError:
        return None  # the POST decides
