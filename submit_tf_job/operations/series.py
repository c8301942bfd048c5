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
    """Return the use and the curves of a job's newest run, or of a run; None if it left none, or
    has none yet.

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
    """Return the use and the curves of the run of a reader that has just returned `status`; one
    request while the job runs.
    """
    if not status.state.is_final:
        return live_usage(reader)
    return usage_at_end(cluster, status)


def usage_of_status(cluster: Cluster, status: JobStatus) -> UsageReport | None:
    """Return the use and the curves of a run, given its status read in detail; while the job runs
    this is one request to the node of its deciding task.
    """
    if status.of_other_user:
        return None
    return _on_node(cluster, status) if not status.state.is_final else usage_at_end(cluster, status)


def live_usage(reader: StatusReader) -> UsageReport | None:
    """Return the use and the curves of a running job by one request, through a reader that knows
    its deciding task.
    """
    content = reader.read_from_deciding_task(contract.USAGE_FILE)
    return UsageReport.parse(content) if content else None


def usage_at_end(cluster: Cluster, status: JobStatus) -> UsageReport | None:
    """Return the use and the curves of a run that is over: from its record, its collected logs, or
    the node that still has the logs.
    """
    found = run_records.usage_of(cluster, status.run)
    if found is None and status.app is not None:
        found = _in_logs(cluster, status.app) or _on_node(cluster, status)
    return found


def _in_logs(cluster: Cluster, app: AppReport) -> UsageReport | None:
    conf = cluster.settings.hadoop_conf
    with suppress(SubmitTFJobError):
        if conf is not None:
            logs = collected_logs(app, conf, cluster.settings, cluster.client.now_ms())
            newest = max(
                logs.find(contract.USAGE_FILE), key=lambda one: one.uploaded_ms, default=None
            )
            if newest is not None:
                content = logs.read_file(newest.container_id, contract.USAGE_FILE)
                return UsageReport.parse(content)
    return None


class UsageLooks:
    """Reads the use and the curves of a run that is watched, every 15 s at most.

    Args:
        cluster: The run's cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._read_at = cluster, float("-inf")
        self._run = ""
        self._last: UsageReport | None = None

    def of(self, status: JobStatus) -> UsageReport | None:
        """Return the use and the curves of a run as read last; after an error these are the former
        ones.
        """
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


def _on_node(cluster: Cluster, status: JobStatus) -> UsageReport | None:
    """Return the use and the curves from the node of the deciding task's container; None if it is
    not known.
    """
    report = status.report
    deciding = report.deciding if report else status.deciding_task
    places = [(one.bare_host, one.id) for one in status.containers if one.instance == deciding]
    if report:
        hosts = [task.host for task in report.tasks if task.task == deciding]
        places += [(host, report.container_id) for host in hosts]
    with suppress(SubmitTFJobError):
        for host, container in places:
            for address in cluster.nodes.addresses_of(host) if host and container else ():
                content = cluster.nodes.read_log(address, str(container), contract.USAGE_FILE).data
                return UsageReport.parse(content)
    return None
