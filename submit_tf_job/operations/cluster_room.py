"""Read the free capacity, and whether a job would start now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from submit_tf_job.diagnose.room import ClusterRoom, ClusterState, room_of
from submit_tf_job.operations.cluster import Cluster, site_of
from submit_tf_job.operations.usage import step_mib
from submit_tf_job.yarn import inspection

if TYPE_CHECKING:
    from submit_tf_job.jobspec.job import Job


def read_room(cluster: Cluster, job: Job | None = None) -> ClusterRoom:
    """Return the free capacity of queues, labels and nodes, and, if a job is given, whether it
    would start now or what it would wait for.

    This takes four requests, for any number of jobs and nodes.

    Raises:
        ClusterUnavailable: No ResourceManager answered.
    """
    client = cluster.client
    state = ClusterState(
        nodes=inspection.all_nodes(client) or client.nodes(),
        scheduler=inspection.scheduler(client),
        apps=inspection.live_apps(client, {"deSelects": "resourceRequests"}),
        exclusive=inspection.label_exclusivity(client),
    )
    if job is None:
        return room_of(state)
    from submit_tf_job.diagnose.job_start import start_of_job

    settings = cluster.settings
    return room_of(
        state, start_of_job(job, site_of(settings), state, settings.user, step_mib(cluster))
    )
