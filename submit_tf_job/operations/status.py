"""Read the status of one job: status, describe, last_lines, error_of."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from submit_tf_job.container import contract
from submit_tf_job.errors import JobFailed, JobStopped, NoSuchJob, SubmitTFJobError
from submit_tf_job.operations.cluster import Cluster, JobRef
from submit_tf_job.operations.description import tasks_of
from submit_tf_job.operations.logs import tail_of
from submit_tf_job.operations.read_status import read_status
from submit_tf_job.operations.runs import find_with_record

if TYPE_CHECKING:
    from submit_tf_job.observation import JobStatus

__all__ = ["describe", "error_of", "last_lines", "status"]


def status(cluster: Cluster, job: str | JobRef) -> JobStatus:
    """Return the status of a job, by its name or application id, or of a run.

    Raises:
        NoSuchJob: The job does not exist.
    """
    ref, app = find_with_record(cluster, job)
    return read_status(cluster, ref, app=app)


def describe(cluster: Cluster, job: str | JobRef) -> JobStatus:
    """Return the status of a job in detail, with the attempts of its ApplicationMaster.

    This takes two to four requests, for any number of tasks.

    Raises:
        NoSuchJob: The job does not exist.
    """
    ref, app = find_with_record(cluster, job)
    found = read_status(cluster, ref, detail=True, app=app)
    return replace(found, attempts=cluster.client.app_attempts(found.application_id))


def error_of(status: JobStatus) -> SubmitTFJobError | None:
    """Return the error for a job that failed, was stopped or is unknown; None for any other."""
    from submit_tf_job.observation import JobState

    found, name = status.verdict, status.name
    if found.state is JobState.FAILED:
        return JobFailed(f"{name} failed: {found.reason}", hint=found.hint)
    if found.state is JobState.STOPPED:
        return JobStopped(f"{name}: {found.reason}", hint=found.hint)
    if found.state is JobState.UNKNOWN:
        return NoSuchJob(f"{name}: {found.reason}", hint=found.hint)
    return None


def last_lines(
    cluster: Cluster, status: JobStatus, *, most: int, file: str = "stdout.txt"
) -> dict[str, str]:
    """Read the last log line of each running task.

    Args:
        status: The job's status.
        most: Maximum number of tasks.
        file: The log file.
    """
    app = status.app
    if app is None:
        return {}
    running = [
        task
        for task in tasks_of(status)
        if task.container_id and task.host and task.state in ("running", "ready")
    ]
    found = {
        t.name: tail_of(
            cluster, app, t.container_id or "", file, host=t.host, lines=3, max_bytes=4096
        )
        for t in running[:most]
    }
    shown = {
        name: [line for line in lines if not line.startswith(contract.PROGRESS_MARK)]
        for name, lines in found.items()
    }
    return {name: lines[-1] for name, lines in shown.items() if lines}
