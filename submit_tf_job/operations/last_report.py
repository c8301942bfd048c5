"""Read the deciding task's report of an application that is over, from its logs or its node."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from submit_tf_job.container import contract
from submit_tf_job.errors import ClusterUnavailable, SubmitTFJobError
from submit_tf_job.observation import COLLECTED_WITHIN_S, Evidence
from submit_tf_job.operations import run_records
from submit_tf_job.operations.cluster import Cluster, storage_of
from submit_tf_job.operations.collected_logs import collected_logs
from submit_tf_job.operations.logs import am_log
from submit_tf_job.operations.stored_services import StoredServices
from submit_tf_job.yarn.observed import AppReport

if TYPE_CHECKING:
    from submit_tf_job.logs.collected import AggregatedLogs

_PROGRAM_FILES = ("stdout.txt", "stderr.txt", "prelaunch.out")


def read_report_from_logs(
    cluster: Cluster, app: AppReport, conf: Path
) -> tuple[Evidence, bytes | None]:
    """Return the deciding task's report from the aggregated logs of an application that is over.

    Args:
        cluster: The cluster.
        app: The application.
        conf: Directory with yarn-site.xml (where the logs are) and core-site.xml.

    Returns:
        READ with the report; MISSING if the logs show that none was written; COLLECTED_SOON while
        they are being collected; OUT_OF_REACH if the file system does not respond; UNREADABLE if
        the logs cannot be read, or belong to a service of another tool.
    """
    from submit_tf_job.job_report import with_outcome
    from submit_tf_job.logs.collected import UNDER_WAY, Absence, NoLogs, WhatYarnSays

    now_ms = cluster.client.now_ms()
    said = WhatYarnSays(app.log_aggregation_status, finished_ms=app.finished_ms, now_ms=now_ms)
    fresh = said.age_s is None or said.age_s < COLLECTED_WITHIN_S
    under_way = said.status in UNDER_WAY and fresh
    try:
        logs = collected_logs(app, conf, cluster.settings, now_ms)
        newest = max(
            logs.find(contract.REPORT_FILE),
            key=lambda found: (found.container_id, found.uploaded_ms),
            default=None,
        )
        if newest is not None:
            place = newest.container_id
            content = logs.read_file(place, contract.REPORT_FILE)
            return Evidence.READ, with_outcome(
                content, lambda name, most: logs.read_file(place, name, tail=most)
            )
        # A restarted ResourceManager does not report the NodeManagers' progress.
        if under_way or (said.status is None and said.age_s is not None and fresh):
            return Evidence.COLLECTED_SOON, None
        if (
            logs.warnings
            or said.status not in ("SUCCEEDED", None)
            or not logs.settings.every_container
        ):
            return Evidence.UNREADABLE, None  # the logs of a container are missing
        return _why_none(logs, lambda: _stored_deciding_task(cluster, app) is not None), None
    except NoLogs as error:
        if under_way or (error.reason is Absence.NOT_YET and fresh):
            return Evidence.COLLECTED_SOON, None
        return Evidence.UNREADABLE, None
    except ClusterUnavailable:
        return Evidence.OUT_OF_REACH, None
    except SubmitTFJobError:
        return Evidence.UNREADABLE, None


def _why_none(logs: AggregatedLogs, is_of_a_job: Callable[[], bool]) -> Evidence:
    """Return what complete logs without a report prove: MISSING if the job's command never ran or
    left no report; UNREADABLE if the logs seem to be those of another tool's service.

    Args:
        logs: The logs.
        is_of_a_job: Returns whether YARN's copy of the service is that of a job.
    """
    from submit_tf_job.logs.archive import LAUNCH_SCRIPT
    from submit_tf_job.logs.entries import AM_FILES

    tasks = [
        container
        for container in logs.containers()
        if not any(container.file(name) for name in AM_FILES)
    ]
    scripts = [container for container in tasks if container.file(LAUNCH_SCRIPT)]
    contents = (logs.read_file(found.container_id, LAUNCH_SCRIPT) for found in scripts)
    if any(contract.BOOTSTRAP_FILE.encode() in content for content in contents):
        return Evidence.MISSING
    if scripts:
        return Evidence.UNREADABLE  # another tool's service
    # Either no command ran, or the site has switched the copy of the script off
    # (yarn.nodemanager.log-container-debug-info.enabled).
    # Files of size 0 prove nothing: hadoop-facts.md#empty-log-files
    files = [file for container in tasks for file in container.files]
    ran = any(file.size > 0 for file in files if file.name in _PROGRAM_FILES)
    return Evidence.UNREADABLE if ran and not is_of_a_job() else Evidence.MISSING


MOST_ASKED = 5  # where neither HDFS nor the log tells which task decides


def read_last_report(cluster: Cluster, app: AppReport) -> tuple[Evidence, bytes | None]:
    """Return the deciding task's report of an application that is over, from the run's record. If
    the record has none, return it from the aggregated logs, or, before the logs are collected, from
    the NodeManager.

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
    evidence, content = Evidence.UNREADABLE, None
    now_ms = cluster.client.now_ms()
    on_nodes = now_ms is None or now_ms - (app.finished_ms or 0) < COLLECTED_WITHIN_S * 1000
    if conf is not None:
        evidence, content = read_report_from_logs(cluster, app, conf)
        on_nodes = evidence in (Evidence.COLLECTED_SOON, Evidence.OUT_OF_REACH)
    if on_nodes and app.user in (None, settings.user):
        return read_report_from_node(cluster, app) or (evidence, content)
    return evidence, content


def read_report_from_node(cluster: Cluster, app: AppReport) -> tuple[Evidence, bytes | None] | None:
    """Return the deciding task's report from the node that an ApplicationMaster's log names. The
    evidence is READ, or MISSING if the deciding task's container certainly wrote none; None if
    neither can be determined.

    The log that is read is that of the last ApplicationMaster. The name of the deciding task is
    stored on HDFS; while HDFS cannot be read, the first task of the role that the log names as the
    one that ended the service is read, or else the first task of up to five roles.
    """
    from submit_tf_job.yarn.amlog import container_of, deciding_role, first_tasks

    try:
        log = am_log(cluster, app)
        deciding = _stored_deciding_task(cluster, app)
        role = deciding_role(log)
        tasks = [f"{role}-0"] if role else first_tasks(log)[:MOST_ASKED]
        if deciding:
            tasks = [deciding]
        for place in filter(None, (container_of(log, task) for task in tasks)):
            found = _report_in(cluster, *place, is_due=bool(deciding))
            if found is not None:
                return found
    except SubmitTFJobError:
        return None
    return None


def _report_in(
    cluster: Cluster, container_id: str, host: str, *, is_due: bool
) -> tuple[Evidence, bytes | None] | None:
    """Return the report that a container has written; only the container of the deciding task
    writes a report. None if it cannot be read.

    Args:
        cluster: The cluster.
        container_id: The container.
        host: Its node.
        is_due: Whether the container is certainly that of the deciding task, so that a report that
            does not exist is MISSING.
    """
    from submit_tf_job.job_report import with_outcome
    from submit_tf_job.yarn.nodemanager import NoSuchLogFile

    for address in cluster.nodes.addresses_of(host):
        file = (address, container_id, contract.REPORT_FILE)
        try:
            content = cluster.nodes.read_log(*file).data
            return Evidence.READ, with_outcome(content, partial(_read_tail, cluster, file[:2]))
        except NoSuchLogFile:
            if is_due and cluster.nodes.lacks(*file):
                return Evidence.MISSING, None
    return None


def _read_tail(cluster: Cluster, place: tuple[str, str], name: str, most: int) -> bytes:
    return cluster.nodes.read_log(*place, name, tail_bytes=most).data


def _stored_deciding_task(cluster: Cluster, app: AppReport) -> str | None:
    """Return the deciding task that YARN's copy of the service names; None if the copy cannot be
    read, or belongs to another application by now.
    """
    settings = cluster.settings
    if settings.hadoop_conf is None:
        return None
    stored = StoredServices(lambda: storage_of(settings), app.user or settings.user)
    with suppress(SubmitTFJobError):
        return stored.deciding_task(app.name or "", app.id)
    return None
