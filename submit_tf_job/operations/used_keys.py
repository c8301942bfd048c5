"""What the key of a plan was used for before: whether it had a run, of another job or content."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.operations.cluster import Cluster, stored_services
from submit_tf_job.operations.runs import full_name, properties_of_run
from submit_tf_job.yarn import service_properties
from submit_tf_job.yarn.run_names import run_name

if TYPE_CHECKING:
    from submit_tf_job.plan import Plan

__all__ = ["has_run", "is_of_content", "other_job_of_key"]

_NUMBERS = 4  # numbers of a key whose runs are looked for: the first, and those after spoiled ones


def has_run(cluster: Cluster, planned: Plan) -> bool:
    """Return whether the first run of a plan's key is known, alive or over; False where the cluster
    does not tell.
    """
    with suppress(SubmitTFJobError):
        return planned.run in _known_runs(cluster)
    return False


def other_job_of_key(cluster: Cluster, planned: Plan) -> str | None:
    """Return the name of another job that a plan's key was used for, as far as its runs are stored.

    A run's name is a hash of its key. Where it may show only the beginning of its job's name, its
    service has the whole one.
    """
    for name in _known_runs(cluster):
        job = full_name(cluster, name)
        if job != planned.job.name and name.rpartition("-")[2] in (
            run_name(job, planned.site.user, planned.key, number).rpartition("-")[2]
            for number in range(_NUMBERS)
        ):
            return job
    return None


def is_of_content(cluster: Cluster, planned: Plan, run: str) -> bool:
    """Return whether a run of the plan's key has its job and files; True where nothing tells it."""
    from submit_tf_job.plan.content_key import content_key

    mine = content_key(planned.job)
    with suppress(SubmitTFJobError):
        return properties_of_run(cluster, run).get(service_properties.CONTENT, mine) == mine
    return True


def _known_runs(cluster: Cluster) -> frozenset[str]:
    """Return the names of the user's services that are stored; without HDFS, of the user's
    applications that the ResourceManager lists.
    """
    stored = stored_services(cluster)
    if stored is not None:
        return stored.names()
    return frozenset(app.name or "" for app in cluster.client.apps(user=cluster.settings.user))
