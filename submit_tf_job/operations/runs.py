"""Join the runs of a job that was submitted again with more memory into one row of a list.

The ResourceManager's list has no property of a service: its tags are the name only (ServiceClient).
So the service is read, of a few names: those whose last run follows one that failed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import takewhile

from submit_tf_job.container import contract
from submit_tf_job.errors import ClusterUnavailable, SubmitTFJobError
from submit_tf_job.observation import JobState
from submit_tf_job.operations.cluster import Cluster, storage_of
from submit_tf_job.operations.lineage import Resubmission
from submit_tf_job.operations.listing import ListedJob

__all__ = ["SERVICES_READ", "joined"]

SERVICES_READ = 10  # of one list, at most
_ANSWER_S = 5.0


def joined(cluster: Cluster, jobs: tuple[ListedJob, ...]) -> tuple[ListedJob, ...]:
    """Return the jobs, with one row for all runs of the last submission of each name.

    Args:
        cluster: Their cluster; only jobs of its user are joined.
        jobs: All rows, the newest first.
    """
    named: dict[tuple[str | None, str], list[ListedJob]] = defaultdict(list)
    for job in jobs:
        named[job.user, job.name].append(job)
    again = [
        runs
        for (user, _name), runs in named.items()
        if runs[1:] and runs[1].state is JobState.FAILED and user == cluster.settings.user
    ]
    number: dict[str, int] = {}
    earlier: set[str] = set()
    for last, *before in again[:SERVICES_READ]:
        try:
            found = _resubmission(cluster, last)
        except ClusterUnavailable:
            break
        except SubmitTFJobError:
            continue
        if found.former != before[0].application_id:
            continue
        failed = takewhile(lambda job: job.state is JobState.FAILED, before[: found.number])
        earlier.update(job.application_id for job in failed)
        number[last.application_id] = found.number + 1
    return tuple(
        replace(job, runs=number.get(job.application_id, 1))
        for job in jobs
        if job.application_id not in earlier
    )


def _resubmission(cluster: Cluster, last: ListedJob) -> Resubmission:
    """Read it from the service, or where the ApplicationMaster does not run, from YARN's copy.

    Raises:
        SubmitTFJobError: It cannot be read.
    """
    from submit_tf_job.operations import history

    if not last.state.is_final:
        deadline = cluster.client.deadline(_ANSWER_S)
        properties = cluster.client.get_service(last.name, deadline=deadline).properties
        if contract.PROPERTY_SUBMISSION in properties:
            return Resubmission.of(properties)
    settings = cluster.settings
    if settings.hadoop_conf is None:
        return Resubmission()
    storage = storage_of(settings, timeout_s=_ANSWER_S)
    return Resubmission.of(history.stored_properties(storage, settings.user, last.name))
