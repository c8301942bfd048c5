"""Read the deciding task's report of an application that is over, from its logs or its node."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from submit_tf_job.container import contract
from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.observation import COLLECTED_WITHIN_S, Evidence, with_outcome
from submit_tf_job.operations import run_records
from submit_tf_job.operations.cluster import Cluster, stored_services
from submit_tf_job.operations.logs import am_log

if TYPE_CHECKING:
    from submit_tf_job.operations.stored_services import StoredJob
    from submit_tf_job.yarn.observed import AppReport

__all__ = ["read_from_its_node", "read_last_report"]

MOST_ASKED = 5  # where neither HDFS nor the log tells which task decides


def read_last_report(cluster: Cluster, app: AppReport) -> tuple[Evidence, bytes | None]:
    """Return the report from the run's record; without it from the aggregated logs, and before they
    are collected from the NodeManager.

    For a job that is already over, the deciding task's node is read from the ApplicationMaster's
    log: the services API and the ResourceManager list no containers of an application that is over.

    Args:
        cluster: The cluster.
        app: The application; it has ended.

    Returns:
        Whether the report could be read, and its bytes if so.
    """
    if (recorded := run_records.report_of(cluster, app.name or "", app.id)) is not None:
        return Evidence.READ, recorded
    settings = cluster.settings
    conf = settings.hadoop_conf
    now_ms = int(cluster.wall() * 1000)
    evidence, content = Evidence.UNREADABLE, None
    on_nodes = now_ms - (app.finished_ms or 0) < 1000 * COLLECTED_WITHIN_S
    if conf is not None:
        from submit_tf_job.operations.aggregated_logs import read_report

        evidence, content = read_report(
            app, conf, settings.user, as_proxy=settings.as_proxy, now_ms=now_ms
        )
        on_nodes = evidence in (Evidence.COLLECTED_SOON, Evidence.OUT_OF_REACH)
    if on_nodes and app.user in (None, settings.user):
        return read_from_its_node(cluster, app) or (evidence, content)
    return evidence, content


def read_from_its_node(cluster: Cluster, app: AppReport) -> tuple[Evidence, bytes | None] | None:
    """Return the report from the node that an ApplicationMaster's log names; None if there is none.

    The log is that of the last ApplicationMaster that started tasks. Which task decides is stored
    on HDFS; while that is away, the first task of each role is asked.
    """
    from submit_tf_job.yarn.amlog import container_of, deciding_role, first_tasks

    try:
        log = am_log(cluster, app)
        stored = _stored(cluster, app)
        role = deciding_role(log)
        tasks = [f"{role}-0"] if role else first_tasks(log)[:MOST_ASKED]
        if stored and stored.deciding_task:
            tasks = [stored.deciding_task]
        for place in filter(None, (container_of(log, task) for task in tasks)):
            found = _report_in(cluster, *place, is_due=bool(stored and stored.deciding_task))
            if found is not None:
                return found
    except SubmitTFJobError:
        return None
    return None


def _report_in(
    cluster: Cluster, container_id: str, host: str, *, is_due: bool
) -> tuple[Evidence, bytes | None] | None:
    """Return the report that a container has written; only the deciding task's writes one."""
    from submit_tf_job.yarn.nodemanager import NoSuchLogFile

    for node in cluster.client.nodes():
        if node.host == host and node.http_address:
            file = (node.http_address, container_id, contract.REPORT_FILE)
            try:
                content = cluster.nodes.read_log(*file).data
                return Evidence.READ, with_outcome(content, partial(_end_of, cluster, file[:2]))
            except NoSuchLogFile:
                if is_due and cluster.nodes.lacks(*file):
                    return Evidence.MISSING, None
    return None


def _end_of(cluster: Cluster, place: tuple[str, str], name: str, most: int) -> bytes:
    return cluster.nodes.read_log(*place, name, tail_bytes=most).data


def _stored(cluster: Cluster, app: AppReport) -> StoredJob | None:
    """Return the job in YARN's copy of the service, if the copy is still this application's."""
    services = stored_services(cluster)
    if services is None:
        return None
    try:
        stored = services.job(app.name or "")
    except SubmitTFJobError:
        return None
    return stored if stored.application_id == app.id else None
