"""Read what a run's tasks use, and the curves of its metrics: while the run is alive from the
deciding task's node; after its end from the run's record, or else from its collected logs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from submit_tf_job.container import contract
from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.json_values import plain
from submit_tf_job.operations import run_records
from submit_tf_job.operations.cluster import Cluster
from submit_tf_job.operations.collected_logs import collected_logs

if TYPE_CHECKING:
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.usage_report import UsageReport
    from submit_tf_job.yarn.observed import AppReport


_USAGE_EVERY_S = 15.0  # between two reads by a live view; the container writes it every 10 s


def usage_of_status(
    cluster: Cluster, status: JobStatus, addresses: dict[str, list[str]] | None = None
) -> UsageReport | None:
    """Return the use and the curves of a run; None if the run has none (yet), if they cannot be
    read, or if it belongs to another user.

    While the run is alive this takes one request, to the node of its deciding task; after its end
    also one, to its record. If the use is not beside the record, more requests are needed.

    Args:
        cluster: The run's cluster.
        status: A status of the run.
        addresses: The nodes' web addresses by host; addresses that are found are added for the next
            call. None to ask the ResourceManager each time.

    Example:
        >>> usage = usage_of_status(cluster, read_status(cluster, ref))
        >>> usage.roles["worker"].memory_bytes.peak.most
    """
    if status.of_other_user:
        return None
    from submit_tf_job.usage_report import UsageReport

    found = run_records.usage_of(cluster, status.run) if status.state.is_final else None
    return found or UsageReport.parse(
        _left_by_tasks(cluster, status, {} if addresses is None else addresses)
    )


class UsageReader:
    """Reads the use and the curves of a run while it is watched, at most every 15 s, each time by
    one request.

    Args:
        cluster: The run's cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._read_at = cluster, float("-inf")
        self._run = ""
        self._last: UsageReport | None = None
        self._addresses: dict[str, list[str]] = {}

    def of(self, status: JobStatus) -> UsageReport | None:
        """Return the use and the curves of a run as they were read last (see the class); None if
        they could not be read yet; after an error these are the values read before it.
        """
        if status.run != self._run:
            self._run, self._last, self._read_at = status.run, None, float("-inf")
        now = self._cluster.clock()
        if status.report is not None and now - self._read_at >= _USAGE_EVERY_S:
            self._read_at = now
            self._last = usage_of_status(self._cluster, status, self._addresses) or self._last
        return self._last


def lost_its_use(status: JobStatus) -> bool:
    """Return whether the deciding task of a run that is over could not write the use beside the
    run's record, because the run was stopped or killed.
    """
    report = status.report
    return report is not None and report.state not in ("succeeded", "failed")


def keep_usage(cluster: Cluster, status: JobStatus) -> None:
    """Write the use and the curves of a run beside its record, if the deciding task could not,
    because the run was stopped or killed. Do nothing if they are there, or cannot be read.
    """
    if lost_its_use(status) and run_records.usage_of(cluster, status.run) is None:
        from submit_tf_job.usage_report import UsageReport

        found = UsageReport.parse(_left_by_tasks(cluster, status, {}))
        if found is not None:
            from submit_tf_job.container.usage_file import shortened  # few commands need it

            if content := shortened(plain(found)):
                run_records.write_usage(cluster, status.run, content)


def _left_by_tasks(cluster: Cluster, status: JobStatus, addresses: dict[str, list[str]]) -> bytes:
    """Return the content of the file of use: for a run that is over from its collected logs, else
    from the node that has the file; b"" if no source has it, or YARN has forgotten the run.
    """
    app = status.app
    if app is None:
        return b""
    found = _in_logs(cluster, app) if status.state.is_final else b""
    return found or _on_node(cluster, status, addresses)


def _in_logs(cluster: Cluster, app: AppReport) -> bytes:
    conf = cluster.settings.hadoop_conf
    with suppress(SubmitTFJobError):
        if conf is not None:
            logs = collected_logs(app, conf, cluster.settings, cluster.client.now_ms())
            newest = max(
                logs.find(contract.USAGE_FILE), key=lambda one: one.uploaded_ms, default=None
            )
            if newest is not None:
                return logs.read_file(newest.container_id, contract.USAGE_FILE)
    return b""


def _on_node(cluster: Cluster, status: JobStatus, addresses: dict[str, list[str]]) -> bytes:
    """Return the file of use from the node of the deciding task's container; b"" if that container
    or its node is not known.
    """
    report, nodes = status.report, cluster.nodes
    deciding = (report and report.deciding) or status.deciding_task
    places = [(one.bare_host, one.id) for one in status.containers if one.instance == deciding]
    if report:
        hosts = [task.host for task in report.tasks if task.task == deciding]
        places += [(host, report.container_id) for host in hosts]
    for host, container in places:
        if not host or not container:
            continue
        with suppress(SubmitTFJobError):
            if host not in addresses:
                addresses[host] = nodes.addresses_of(host)
            for address in addresses.pop(host):
                content = nodes.read_log(address, container, contract.USAGE_FILE).data
                addresses[host] = [address]
                return content
    return b""
