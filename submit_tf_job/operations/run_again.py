"""Decide whether the key of an ended run is submitted again, by how the run ended."""

from __future__ import annotations

from submit_tf_job.observation import JobState
from submit_tf_job.operations import run_records
from submit_tf_job.operations.cluster import Cluster, JobRef
from submit_tf_job.operations.watch_run import wait_for_end
from submit_tf_job.yarn.observed import AppReport
from submit_tf_job.yarn.run_names import Again, job_of


def is_run_again(cluster: Cluster, again: Again, app: AppReport) -> bool:
    """Return whether a key is submitted again after the end of this application, by the rule
    `again`. With AFTER_FAILURE this waits until the run's verdict is known.
    """
    if again is not Again.AFTER_FAILURE:
        return again is not Again.NEVER
    run = app.name or app.id
    ended = wait_for_end(cluster, JobRef(job_of(run), app.id, run))
    return ended.state is not JobState.SUCCEEDED


def has_succeeded(cluster: Cluster, run: str, app_id: str) -> bool:
    """Return whether a run that the ResourceManager has forgotten succeeded, according to the run's
    record.

    Raises:
        SubmitTFJobError: The record cannot be read.
    """
    run_records.read(cluster, run)  # `forgotten` raises no error
    found = run_records.forgotten(cluster, JobRef(job_of(run), app_id, run))
    return found is not None and found[1].state is JobState.SUCCEEDED
