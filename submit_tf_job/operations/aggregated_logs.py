"""Read the aggregated logs of a run that has ended. Needs no ResourceManager."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from submit_tf_job.container import contract
from submit_tf_job.errors import ClusterUnavailable, SubmitTFJobError
from submit_tf_job.host.hadoopconf import read_xml
from submit_tf_job.logs.archive import LAUNCH_SCRIPT
from submit_tf_job.logs.collected import (
    Absence,
    AggregatedLogs,
    ContainerLogs,
    LogSettings,
    NoLogs,
    WhatYarnSays,
)
from submit_tf_job.observation import COLLECTED_WITHIN_S, Evidence, with_outcome
from submit_tf_job.operations.stored_services import StoredServices
from submit_tf_job.storage import open_storage
from submit_tf_job.yarn.observed import AppReport

__all__ = [
    "collected_logs",
    "read_report",
]

_AM_FILES = ("serviceam.log", "serviceam-out.txt", "serviceam-err.txt")
_PROGRAM_FILES = ("stdout.txt", "stderr.txt", "prelaunch.out")
# LogAggregationStatus; the others are final
_UNDER_WAY = frozenset({"NOT_START", "RUNNING", "RUNNING_WITH_FAILURE"})


def collected_logs(
    app: AppReport,
    hadoop_conf: Path,
    user: str,
    *,
    as_proxy: bool = False,
    now_ms: int | None = None,
) -> AggregatedLogs:
    """Return the logs that the NodeManagers collected of an application; reads nothing yet.

    Args:
        app: The application.
        hadoop_conf: Directory with yarn-site.xml (where the logs are) and core-site.xml.
        user: The user of the request, under simple authentication.
        as_proxy: Whether to act for `user` as a proxy user.
        now_ms: The current time; without it, missing logs are never reported as deleted by age.
    """
    settings = LogSettings.from_properties(read_xml(hadoop_conf / "yarn-site.xml"))
    root = settings.root if "://" in settings.root else None
    said = WhatYarnSays(
        app.log_aggregation_status,
        running=not app.ended,
        finished_ms=app.finished_ms,
        now_ms=now_ms,
    )
    storage = open_storage(root, hadoop_conf=hadoop_conf, user=user, as_proxy=as_proxy)
    return AggregatedLogs(storage, app.id, user=app.user or user, settings=settings, said=said)


def read_report(
    app: AppReport,
    hadoop_conf: Path,
    user: str,
    *,
    as_proxy: bool = False,
    now_ms: int | None = None,
) -> tuple[Evidence, bytes | None]:
    """Return the deciding task's report from the aggregated logs of an application that is over.

    Args:
        app: The application.
        hadoop_conf: Directory with yarn-site.xml (where the logs are) and core-site.xml.
        user: The user of the request, under simple authentication.
        as_proxy: Whether to act for `user` as a proxy user.
        now_ms: The current time; without it, logs count as being collected as long as the
            ResourceManager reports that.

    Returns:
        READ with the report; MISSING if the logs show that none was written; COLLECTED_SOON while
        they are being collected; OUT_OF_REACH if the file system does not respond; UNREADABLE if
        the logs cannot be read, or are those of another tool's service.
    """
    said = WhatYarnSays(app.log_aggregation_status, finished_ms=app.finished_ms, now_ms=now_ms)
    fresh = said.age_s is None or said.age_s < COLLECTED_WITHIN_S
    under_way = said.status in _UNDER_WAY and fresh
    try:
        logs = collected_logs(app, hadoop_conf, user, as_proxy=as_proxy, now_ms=now_ms)
        newest = max(
            logs.find(contract.REPORT_FILE),
            key=lambda found: (found.container_id, found.uploaded_ms),
            default=None,
        )
        if newest is not None:
            place = newest.container_id
            content = logs.read(place, contract.REPORT_FILE)
            return Evidence.READ, with_outcome(
                content, lambda name, most: logs.read(place, name, tail=most)
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
        return _why_none(
            logs, lambda: _is_of_a_job(app, hadoop_conf, user, as_proxy=as_proxy)
        ), None
    except NoLogs as error:
        if under_way or (error.reason is Absence.NOT_YET and fresh):
            return Evidence.COLLECTED_SOON, None
        return Evidence.UNREADABLE, None
    except ClusterUnavailable:
        return Evidence.OUT_OF_REACH, None
    except SubmitTFJobError:
        return Evidence.UNREADABLE, None


def _why_none(logs: AggregatedLogs, is_of_a_job: Callable[[], bool]) -> Evidence:
    """Return why complete logs contain no report."""
    tasks = [
        container
        for container in logs.containers()
        if not any(container.file(name) for name in _AM_FILES)
    ]
    scripts = [container for container in tasks if container.file(LAUNCH_SCRIPT)]
    contents = (logs.read(found.container_id, LAUNCH_SCRIPT) for found in scripts)
    if any(contract.BOOTSTRAP_FILE.encode() in content for content in contents):
        return Evidence.MISSING
    if scripts:
        return Evidence.UNREADABLE  # another tool's service
    # Either no command ran, or the site has switched the copy of the script off
    # (yarn.nodemanager.log-container-debug-info.enabled).
    # Files of size 0 prove nothing: hadoop-facts.md#empty-log-files
    ran = any(_wrote(container) for container in tasks)
    return Evidence.UNREADABLE if ran and not is_of_a_job() else Evidence.MISSING


def _wrote(container: ContainerLogs) -> bool:
    return any(file.size > 0 for file in container.files if file.name in _PROGRAM_FILES)


def _is_of_a_job(app: AppReport, hadoop_conf: Path, user: str, *, as_proxy: bool) -> bool:
    """Return whether the stored service of an application is known to be one of this package."""
    try:
        storage = open_storage(None, hadoop_conf=hadoop_conf, user=user, as_proxy=as_proxy)
        stored = StoredServices(lambda: storage, app.user or user).job(app.name or "")
    except SubmitTFJobError:
        return False
    return stored.application_id == app.id and stored.deciding_task is not None
