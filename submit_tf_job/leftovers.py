"""What is left of a job on HDFS: YARN's own copy of the service, and the aggregated logs when it is over. Needs no ResourceManager."""

from __future__ import annotations

import json
from pathlib import Path

from submit_tf_job import contract
from submit_tf_job.errors import ClusterUnavailable, SubmitTFJobError
from submit_tf_job.hadoopconf import read_xml
from submit_tf_job.observation import Evidence
from submit_tf_job.storage import Storage, open_storage
from submit_tf_job.yarn.logs import AggregatedLogs, ContainerLogs, LogSettings, WhatYarnSays
from submit_tf_job.yarn.records import AppReport

__all__ = ["collected_logs", "read_report", "stored_submission"]

LAUNCH_SCRIPT = "launch_container.sh"  # the script copies itself into the log directory when it runs (ContainerLaunch)
_AM_FILES = ("serviceam.log", "serviceam-out.txt", "serviceam-err.txt")
_NO_MORE_TO_COME = frozenset({"SUCCEEDED", "FAILED", "TIME_OUT", "DISABLED", None})  # LogAggregationStatus; the others are on their way


def stored_submission(storage: Storage, user: str, name: str, mine: str) -> str | None:
    """Read the submission's id from the service as YARN keeps it (`~/.yarn/services/NAME/NAME.json`, SVC CoreFileSystem).

    The services API shows it only while the ApplicationMaster runs (seen): this is how a submission that waits or is over is recognised.

    Args:
        mine: The id that is looked for: a run that `submit --replace` made answers to the id of the command without it, too.

    Returns:
        `mine`, or the id of another submission; None where the service is not one of ours.

    Raises:
        SubmitTFJobError: It is not there, or cannot be read; while the ResourceManager works on the POST, which writes the file twice, it
            is there and empty for moments (seen on 3.4.2).
    """
    path = f"{storage.home(user)}/.yarn/services/{name}/{name}.json"
    try:
        content = json.loads(storage.read(path))
        properties = content.get("configuration", {}).get("properties", {})
        submission = properties.get(contract.PROPERTY_SUBMISSION)
        rerun_of = properties.get(contract.PROPERTY_RERUN_OF)
    except (ValueError, AttributeError) as error:
        raise ClusterUnavailable(f"{storage.url(path)}: describes no service: {error}") from error
    if rerun_of == mine:
        return mine
    return str(submission) if submission else None


def collected_logs(app: AppReport, hadoop_conf: Path, user: str, *, as_proxy: bool = False, now_ms: int | None = None) -> AggregatedLogs:
    """Open the logs that the NodeManagers collected of an application; nothing is read yet.

    Args:
        app: The application.
        hadoop_conf: Directory with yarn-site.xml (where the logs are) and core-site.xml.
        user: Who asks, under simple authentication.
        as_proxy: Ask for `user` as a proxy user.
        now_ms: What the time is: without it, logs that are not there cannot be told to be deleted by age.
    """
    settings = LogSettings.from_properties(read_xml(hadoop_conf / "yarn-site.xml"))
    root = settings.root if "://" in settings.root else None
    said = WhatYarnSays(app.log_aggregation_status, running=not app.ended, finished_ms=app.finished_ms, now_ms=now_ms)
    storage = open_storage(root, hadoop_conf=hadoop_conf, user=user, as_proxy=as_proxy)
    return AggregatedLogs(storage, app.id, user=app.user or user, settings=settings, said=said)


def read_report(app: AppReport, hadoop_conf: Path, user: str, *, as_proxy: bool = False) -> tuple[Evidence, bytes | None]:
    """Read the deciding task's report from the aggregated logs of an application that is over.

    Args:
        app: The application.
        hadoop_conf: Directory with yarn-site.xml (where the logs are) and core-site.xml.
        user: Who asks, under simple authentication.
        as_proxy: Ask for `user` as a proxy user.

    Returns:
        READ with the report; MISSING where the logs show that none was written; NONE_EXPECTED where they show a job without bootstrap;
        COLLECTED_SOON while they are on their way, UNREADABLE where they do not show anything.
    """
    try:
        logs = collected_logs(app, hadoop_conf, user, as_proxy=as_proxy)
        newest = max(logs.find(contract.REPORT_FILE), key=lambda found: (found.container_id, found.uploaded_ms), default=None)
        if newest is not None:
            return Evidence.READ, logs.read(newest.container_id, contract.REPORT_FILE)
        return _why_none(logs, app), None
    except SubmitTFJobError:
        return (Evidence.UNREADABLE if app.log_aggregation_status in _NO_MORE_TO_COME else Evidence.COLLECTED_SOON), None


def _why_none(logs: AggregatedLogs, app: AppReport) -> Evidence:
    if app.log_aggregation_status not in _NO_MORE_TO_COME:
        return Evidence.COLLECTED_SOON
    if logs.warnings or app.log_aggregation_status not in ("SUCCEEDED", None):
        return Evidence.UNREADABLE  # some node's logs are not there
    tasks = [container for container in logs.containers() if not any(container.file(name) for name in _AM_FILES)]
    scripts = [container for container in tasks if container.file(LAUNCH_SCRIPT)]
    if not scripts:
        # Nothing shows that any command ran: neither the script nor, where sites switch its copy off, what it would have written.
        return Evidence.UNREADABLE if any(_wrote(container) for container in tasks) else Evidence.MISSING
    if any(contract.BOOTSTRAP_FILE.encode() in logs.read(found.container_id, LAUNCH_SCRIPT) for found in scripts):
        return Evidence.MISSING
    return Evidence.NONE_EXPECTED


def _wrote(container: ContainerLogs) -> bool:
    return any(file.name in ("stdout.txt", "stderr.txt", "prelaunch.out") for file in container.files)
