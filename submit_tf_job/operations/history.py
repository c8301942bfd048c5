"""List the runs of a job by their records, with their ends."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.operations import run_records
from submit_tf_job.operations.cluster import Cluster, JobRef
from submit_tf_job.operations.read_status import read_status
from submit_tf_job.operations.runs import find
from submit_tf_job.operations.why import why_failed


def run_history(cluster: Cluster, job: str | None, limit: int) -> list[dict[str, Any]]:
    """Return the records of a job's runs, the newest first, of one run by its own name, or of all
    jobs.

    Raises:
        NoSuchJob: Neither a record nor YARN knows the job.
        SettingsError: There is no staging directory, and so no history.
        SubmitTFJobError: It cannot be read.
    """
    records = run_records.recorded_runs(cluster, job, limit)
    if job and not records:
        find(cluster, job)
    return [_with_end(cluster, record) for record in records]


def _with_end(cluster: Cluster, record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with the run's end, which this command may be the first to learn."""
    if record.get("end"):
        return record
    ref = JobRef(record["name"], record["application_id"], record["run"])
    with suppress(SubmitTFJobError):
        status = read_status(cluster, ref)
        why_failed(cluster, status)
        return run_records.read(cluster, ref.run) or record
    return record
