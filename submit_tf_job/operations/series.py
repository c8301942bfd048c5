"""Read what a run's tasks use, and the curves of its metrics: while it runs from the deciding
task's node, after its end from the run's record, else from its collected logs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from submit_tf_job.container import contract
from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.operations import run_records
from submit_tf_job.operations.cluster import Cluster, JobRef
from submit_tf_job.operations.collected_logs import collected_logs
from submit_tf_job.operations.read_status import StatusReader
from submit_tf_job.operations.runs import find_with_record
from submit_tf_job.usage_report import UsageReport

if TYPE_CHECKING:
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.yarn.observed import AppReport


_USAGE_EVERY_S = 15.0  # between two reads by a live view; the container writes it as often


def series_of(cluster: Cluster, job: str | JobRef) -> UsageReport | None:
    """Return the use and the curves of a job's newest run, or of a run; None if none were left, or
    are there yet.

    Args:
        cluster: The cluster.
        job: The name of a job or of a run, an application id, or a run that was found.

    Raises:
        NoSuchJob: The job does not exist.
        ClusterUnavailable: No ResourceManager answered.

    Example:
        >>> usage = series_of(cluster, "train")
        >>> usage.roles["worker"].memory_bytes.peak.most
    """
    ref, app = find_with_record(cluster, job)
    reader = StatusReader(cluster, ref)
    status = reader.read(detail=True, app=app)
    return usage_by(cluster, reader, status)


def usage_by(cluster: Cluster, reader: StatusReader, status: JobStatus) -> UsageReport | None:
    """Return the same by a reader that has just returned a status; while the job runs this is one
    request.
    """
    if not status.state.is_final:
        return live_usage(reader)
    return run_records.usage_of(cluster, status.run) or _in_logs(cluster, status.app, reader)


def live_usage(reader: StatusReader) -> UsageReport | None:
    """Return the same of a job that runs, by a reader that has found its deciding task: one
    request, to its node.
    """
    content = reader.read_from_deciding_task(contract.USAGE_FILE)
    return UsageReport.parse(content) if content else None


def _in_logs(cluster: Cluster, app: AppReport | None, reader: StatusReader) -> UsageReport | None:
    """Return the same from the collected logs, or from the node that has not handed them over."""
    conf = cluster.settings.hadoop_conf
    if app is None:
        return None
    with suppress(SubmitTFJobError):
        if conf is not None:
            logs = collected_logs(app, conf, cluster.settings, cluster.client.now_ms())
            found = max(
                logs.find(contract.USAGE_FILE), key=lambda one: one.uploaded_ms, default=None
            )
            if found is not None:
                content = logs.read_file(found.container_id, contract.USAGE_FILE)
                return UsageReport.parse(content)
    return live_usage(reader)


class UsageLooks:
    """Reads the use and the curves of a run that is watched, at most every 15 s, because the file
    is written so often.

    Args:
        cluster: The run's cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._read_at = cluster, float("-inf")
        self._run = ""
        self._last: UsageReport | None = None

    def of(self, status: JobStatus) -> UsageReport | None:
        """Return what was read last of the run; errors leave that, because it is only shown."""
        if status.run != self._run:
            self._run, self._last, self._read_at = status.run, None, float("-inf")
        now = self._cluster.clock()
        if status.report is None or now - self._read_at < _USAGE_EVERY_S:
            return self._last
        self._read_at = now
        with suppress(SubmitTFJobError):
            ref = JobRef(status.name, status.application_id, status.run)
            reader = StatusReader(self._cluster, ref)
            seen = reader.read(detail=True, app=status.app)
            self._last = usage_by(self._cluster, reader, seen) or self._last
        return self._last
