"""Before the POST, check whether a job's containers fit the nodes and the queue."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from submit_tf_job.errors import InternalError, JobSpecError, Refused, SubmitTFJobError
from submit_tf_job.operations.cluster import Cluster

if TYPE_CHECKING:
    from submit_tf_job.plan import Plan
    from submit_tf_job.yarn.observed import Node

T = TypeVar("T")
Nodes = Callable[[], "tuple[Node, ...]"]
_ASKED = 8  # NodeManagers that are asked whether they run images, if the first one does not
_ASKED_S = 2.0


def check_capacity(planned: Plan, cluster: Cluster) -> tuple[str, ...]:
    """Check whether the nodes run the images of a job, and whether all its containers fit at once.

    Sends at most one request for the nodes. A cluster that does not answer is not an error.

    Returns:
        What may keep the job from starting, or from running in its image.

    Raises:
        JobSpecError: No node runs images, and the job requires its own (`image_policy`).
        Refused: It can never start, and `capacity_check` of the settings is `refuse`.
    """
    if cluster.settings.capacity_check == "off":
        return ()
    nodes = cache(lambda: _read(cluster.client.nodes) or ())
    return tuple(filter(None, (_images(planned, cluster, nodes), _room(planned, cluster, nodes))))


def _room(planned: Plan, cluster: Cluster, nodes: Nodes) -> str:
    """Return why the job cannot start now; "" if nothing is known to be in its way.

    Sends no request for a job of one task without a node label, and one for the queues if the job
    names a queue.
    """
    from submit_tf_job.diagnose import fit
    from submit_tf_job.yarn.queues import Scheduler

    job, gpu_resource = planned.job, planned.site.gpu_resource
    choice = cluster.settings.capacity_check
    if not fit.may_not_fit(job):
        return ""
    answer = _read(cluster.client.scheduler) if job.queue else None
    scheduler = Scheduler.from_json(answer) if answer else None
    never = fit.fits_never(job, gpu_resource, nodes(), scheduler)
    if never and choice == "refuse":
        raise Refused(
            "\n".join(str(job.problem(found.path, found.sentence)) for found in never),
            hint=f"{never[0].hint}; if the cluster adds nodes by itself, set capacity_check: warn "
            "in the settings",
        )
    if never:
        return f"it cannot start before the cluster grows: {never[0].sentence}"
    waits = fit.fits_not_now(job, gpu_resource, nodes(), scheduler)
    return f"it cannot start now, and waits: {waits}" if waits else ""


def _images(planned: Plan, cluster: Cluster, nodes: Nodes) -> str:
    """Return which nodes run no images, if the job needs one; "" if none is known.

    Sends one request for the configuration of a NodeManager; if that one runs no images, one to
    each of some others.
    """
    from submit_tf_job.diagnose.capacity import ways_out, why_no_images
    from submit_tf_job.jobspec.job import ImagePolicy
    from submit_tf_job.yarn.inspection import configuration

    job = planned.job
    role = next((role for role in job.roles.values() if role.in_container), None)
    if role is None or job.image_policy is not ImagePolicy.REQUIRE:
        return ""
    client = cluster.client
    running = [node for node in nodes() if node.state == "RUNNING" and node.http_address]
    scheme = client.scheme
    plain: dict[str, str] = {}
    for node in running[:_ASKED]:
        conf = configuration(
            client, f"{scheme}://{node.http_address}", deadline=client.deadline(_ASKED_S)
        )
        why = why_no_images(conf)
        if why:
            plain[node.host or node.id] = why
        elif not plain:
            return ""  # most clusters have one configuration for all nodes
    if not plain:
        return ""
    first, why = next(iter(plain.items()))
    if len(plain) < len(running):
        return f"a task on {first} would fail, and perhaps on others: {why} there; {ways_out(why)}"
    who = f"{first} runs" if len(plain) == 1 else f"all {len(plain)} nodes run"
    raise JobSpecError(
        [job.problem(f"roles.{role.name}.image", f"{who} no images: {why}")], hint=ways_out(why)
    )


def _read(request: Callable[[], T]) -> T | None:
    try:
        return request()
    except InternalError:
        raise
    except SubmitTFJobError:
        return None  # the POST decides
