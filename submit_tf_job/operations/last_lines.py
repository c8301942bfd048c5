"""Read the last line that each running task has written, for a live view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from submit_tf_job.container import contract
from submit_tf_job.operations.description import tasks_of
from submit_tf_job.operations.logs import end_of_log

if TYPE_CHECKING:
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.operations.cluster import Cluster


def last_lines(cluster: Cluster, status: JobStatus, *, most: int) -> dict[str, str]:
    """Read the last log line of each running task.

    Args:
        cluster: The cluster.
        status: The job's status.
        most: Maximum number of tasks; the first of them are read.

    Returns:
        The lines by task; without tasks whose log is empty or cannot be read now.
    """
    app = status.app
    if app is None:
        return {}
    running = [
        task
        for task in tasks_of(status)
        if task.container_id and task.host and task.state in ("running", "ready")
    ]
    found = {}
    for task in running[:most]:
        end = end_of_log(
            cluster, app, task.container_id or "", "stdout.txt", host=task.host, max_bytes=4096
        )
        lines = end.split("\n")[-3:]
        shown = [line for line in lines if line and not line.startswith(contract.PROGRESS_MARK)]
        if shown:
            found[task.name] = shown[-1]
    return found
