"""What an idempotency key was used for before: which job, and which content."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.operations import run_records
from submit_tf_job.operations.cluster import Cluster
from submit_tf_job.operations.runs import full_name, properties_of_run
from submit_tf_job.operations.stored_services import stored_services
from submit_tf_job.yarn import service_properties
from submit_tf_job.yarn.run_names import run_name

if TYPE_CHECKING:
    from submit_tf_job.plan import Plan

_NUMBERS = 4  # numbers of a key whose runs are looked for: the first, and those after spoiled ones


def has_run_of_key(cluster: Cluster, planned: Plan) -> bool:
    """Return whether the first run of a plan's idempotency key is stored (without HDFS: listed by
    the ResourceManager), alive or over; False if the cluster cannot tell.
    """
    with suppress(SubmitTFJobError):
        return planned.run in _known_runs(cluster)
    return False


def other_job_of_key(cluster: Cluster, planned: Plan) -> str | None:
    """Return the name of another job for which a plan's idempotency key was used before, as far as
    that job's runs are stored (without HDFS: listed); None if there is none.

    A run's name ends with a hash of its key. If the run's name may contain only a short form of its
    job's name, the full name is read from the run's service.

    Raises:
        SubmitTFJobError: The runs cannot be listed.
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
    """Return whether a run of the plan's idempotency key has the same job and files as the plan,
    according to the run's service or its record; True if neither tells.
    """
    told: object = None
    with suppress(SubmitTFJobError):
        told = properties_of_run(cluster, run).get(service_properties.CONTENT)
    if told is None:
        with suppress(SubmitTFJobError):
            record = run_records.read(cluster, run) or {}
            told = record.get("submission", {}).get("content")
    return told in (None, planned.content)


def _known_runs(cluster: Cluster) -> frozenset[str]:
    """Return the names of the user's services that are stored; without HDFS, of the user's
    applications that the ResourceManager lists.
    """
    stored = stored_services(cluster)
    if stored is not None:
        return stored.names()
    return frozenset(app.name or "" for app in cluster.client.apps(user=cluster.settings.user))
