"""Decide whether a submission whose run has ended is run again: by its rule (`Again`), and by how
that run ended.
"""

from __future__ import annotations

from submit_tf_job.observation import JobState
from submit_tf_job.operations import run_records
from submit_tf_job.operations.cluster import Cluster, JobRef
from submit_tf_job.operations.watch_run import wait_for_end
from submit_tf_job.yarn.observed import AppReport
from submit_tf_job.yarn.run_names import Again, job_of


def is_run_again(cluster: Cluster, again: Again, app: AppReport) -> bool:
    """Return whether a submission, repeated with the same idempotency key, is run again after its
    run has ended. With AFTER_FAILURE this waits until the verdict of that run is known.

    Args:
        cluster: The cluster.
        again: The submission's rule.
        app: The application of the run that has ended.
    """
    if again is not Again.AFTER_FAILURE:
        return again is not Again.NEVER
    run = app.name or app.id
    ended = wait_for_end(cluster, JobRef(job_of(run), app.id, run))
    return ended.state is not JobState.SUCCEEDED


def has_succeeded(cluster: Cluster, run: str, app_id: str) -> bool:
    """Return whether a run that the ResourceManager has forgotten succeeded, according to the run's
    record; False if the record does not tell.

    Raises:
        SubmitTFJobError: The record cannot be read.
    """
    found = run_records.recorded_end(cluster, JobRef(job_of(run), app_id, run))
    return found is not None and found[1].state is JobState.SUCCEEDED
