"""Read a job's data on HDFS: YARN's copy of the service, and the aggregated logs after its end.
Needs no ResourceManager.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from submit_tf_job.container import contract
from submit_tf_job.errors import ClusterUnavailable, SubmitTFJobError
from submit_tf_job.host.hadoopconf import read_xml
from submit_tf_job.logs.collected import (
    Absence,
    AggregatedLogs,
    ContainerLogs,
    LogSettings,
    NoLogs,
    WhatYarnSays,
)
from submit_tf_job.observation import COLLECTED_WITHIN_S, Evidence, with_outcome
from submit_tf_job.storage import NoSuchPath, PathExists, Storage, open_storage
from submit_tf_job.yarn.observed import AppReport
from submit_tf_job.yarn.reconcile import StoredService

__all__ = [
    "StoredJob",
    "StoredServices",
    "collected_logs",
    "read_report",
    "stored_job",
    "stored_service",
    "stored_submission",
]

# the script copies itself into the log directory when it runs (ContainerLaunch)
LAUNCH_SCRIPT = "launch_container.sh"
_AM_FILES = ("serviceam.log", "serviceam-out.txt", "serviceam-err.txt")
_PROGRAM_FILES = ("stdout.txt", "stderr.txt", "prelaunch.out")
# LogAggregationStatus; the others are final
_UNDER_WAY = frozenset({"NOT_START", "RUNNING", "RUNNING_WITH_FAILURE"})


def stored_submission(storage: Storage, user: str, name: str, mine: str) -> str | None:
    """Return the submission's id in YARN's copy of the service (`~/.yarn/services/NAME/NAME.json`,
    CoreFileSystem).

    The services API returns it only while the ApplicationMaster runs
    (docs/hadoop-facts.md#properties-of-a-service); this is for a submission that waits or is over.

    Args:
        mine: The expected id; a run of `submit --replace` also has that without the option.

    Returns:
        `mine`, or the id of another submission; None if the service is not one of ours.

    Raises:
        SubmitTFJobError: The copy does not exist, or cannot be read. During the POST the
            ResourceManager writes the file twice, and it is empty for moments (seen on 3.4.2).
    """
    found = stored_service(storage, user, name, mine)
    if found.torn:
        raise ClusterUnavailable(
            f"{storage.url(_copy_of(storage, user, name))}: describes no service: it is "
            f"cut off, or being written"
        )
    return found.submission


def stored_service(storage: Storage, user: str, name: str, mine: str) -> StoredService:
    """Return YARN's copy of a service on HDFS; see `stored_submission`.

    Raises:
        SubmitTFJobError: The copy does not exist, or cannot be read.
    """
    path = _copy_of(storage, user, name)
    edition = storage.stat(path).modified_ms
    try:
        content = json.loads(storage.read(path))
        properties = content.get("configuration", {}).get("properties", {})
        submission = properties.get(contract.PROPERTY_SUBMISSION)
        rerun_of = properties.get(contract.PROPERTY_RERUN_OF)
        app_id = content.get("id")
    except (ValueError, AttributeError):
        return StoredService(None, edition=edition, torn=True)
    if rerun_of == mine:
        submission = mine
    return StoredService(str(submission or "") or None, str(app_id or "") or None, edition)


def stored_properties(storage: Storage, user: str, name: str) -> dict[str, str]:
    """Return the properties of a service from YARN's copy on HDFS.

    Raises:
        SubmitTFJobError: The copy does not exist, cannot be read, or is being written.
    """
    where = _copy_of(storage, user, name)
    try:
        content = json.loads(storage.read(where))
        properties = content.get("configuration", {}).get("properties", {})
        return {str(key): str(value) for key, value in properties.items()}
    except (ValueError, AttributeError):
        raise ClusterUnavailable(f"{storage.url(where)}: describes no service") from None


def _copy_of(storage: Storage, user: str, name: str) -> str:
    return f"{storage.home(user)}/.yarn/services/{name}/{name}.json"


@dataclass(frozen=True)
class StoredServices:
    """The stored copy of one service, and the right to delete that service.

    Attributes:
        open: Opens the file system of YARN's copies; called when the copy is first needed.
        mine: The expected submission id.
    """

    open: Callable[[], Storage]
    user: str
    name: str
    mine: str

    def read(self) -> StoredService:
        """Read the copy.

        Raises:
            SubmitTFJobError: The copy does not exist, or cannot be read.
        """
        return stored_service(self.open(), self.user, self.name, self.mine)

    def text(self) -> str:
        """Return the whole content of the copy, "" if it cannot be read."""
        with suppress(SubmitTFJobError):
            storage = self.open()
            content = storage.read(_copy_of(storage, self.user, self.name))
            return content.decode(errors="replace")
        return ""

    def now_ms(self) -> int:
        """Return the time of the file system's clock.

        Raises:
            SubmitTFJobError: The directory does not exist, or is not writable.
        """
        storage = self.open()
        return storage.now_ms(self._beside(storage))

    def claim(self, edition: int, turn: int) -> bool:
        """Claim the right to delete a service at one edition of its copy; return whether that
        worked.

        The claim is a file beside the copy: the NameNode lets one client create it, and it is
        removed with the service. The copy is checked afterwards, because the file may be beside the
        copy of the next service with the name.

        Raises:
            SubmitTFJobError: The file system failed.
        """
        storage = self.open()
        copy = _copy_of(storage, self.user, self.name)
        claim = self._claim_of(storage, edition, turn)
        try:
            storage.create(claim, (), 0o600)
        except (PathExists, NoSuchPath):
            return False
        with suppress(NoSuchPath):
            if storage.stat(copy).modified_ms == edition:
                return True
        storage.remove(claim)
        return False

    def claimed_ms(self, edition: int, turn: int) -> int | None:
        """Return the time of the claim by the file system's clock; None without a claim.

        Raises:
            SubmitTFJobError: The file system failed.
        """
        storage = self.open()
        try:
            return storage.stat(self._claim_of(storage, edition, turn)).modified_ms
        except NoSuchPath:
            return None

    def _beside(self, storage: Storage) -> str:
        return _copy_of(storage, self.user, self.name).rpartition("/")[0]

    def _claim_of(self, storage: Storage, edition: int, turn: int) -> str:
        return f"{self._beside(storage)}/.tfjob-delete-{edition}-{turn}"


@dataclass(frozen=True)
class StoredJob:
    """The job in YARN's copy of a service.

    Attributes:
        application_id: The application that runs it; None if it has never started.
        deciding_task: The task whose end is the job's end; None for a service of another tool.
        bootstrap: Whether its tasks write an outcome.
    """

    application_id: str | None
    deciding_task: str | None
    bootstrap: bool


def stored_job(storage: Storage, user: str, name: str) -> StoredJob:
    """Return the job in YARN's stored copy of a service; the services API returns it only while the
    ApplicationMaster runs (docs/hadoop-facts.md#properties-of-a-service).

    Raises:
        SubmitTFJobError: The copy does not exist, or cannot be read.
    """
    path = _copy_of(storage, user, name)
    try:
        content = json.loads(storage.read(path))
        properties = content.get("configuration", {}).get("properties", {})
        bootstrap = properties.get(contract.PROPERTY_BOOTSTRAP) == "true"
        return StoredJob(content.get("id"), properties.get(contract.PROPERTY_DECIDING), bootstrap)
    except (ValueError, AttributeError) as error:
        raise ClusterUnavailable(f"{storage.url(path)}: describes no service: {error}") from error


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
        READ with the report; MISSING if the logs show that none was written; NONE_EXPECTED if they
        show a job without bootstrap; COLLECTED_SOON while they are being collected; OUT_OF_REACH if
        the file system does not respond; UNREADABLE if the logs cannot be read.
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
            logs, lambda: _bootstrap_of(app, hadoop_conf, user, as_proxy=as_proxy)
        ), None
    except NoLogs as error:
        if under_way or (error.reason is Absence.NOT_YET and fresh):
            return Evidence.COLLECTED_SOON, None
        return Evidence.UNREADABLE, None
    except ClusterUnavailable:
        return Evidence.OUT_OF_REACH, None
    except SubmitTFJobError:
        return Evidence.UNREADABLE, None


def _why_none(logs: AggregatedLogs, bootstrap: Callable[[], bool | None]) -> Evidence:
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
        return Evidence.NONE_EXPECTED
    # Either no command ran, or the site has switched the copy of the script off
    # (yarn.nodemanager.log-container-debug-info.enabled).
    # Files of size 0 prove nothing: docs/hadoop-facts.md#empty-log-files
    ran = any(_wrote(container) for container in tasks)
    expected = bootstrap()
    if expected is False:
        return Evidence.NONE_EXPECTED
    if ran and expected is None:
        return Evidence.UNREADABLE
    return Evidence.MISSING


def _wrote(container: ContainerLogs) -> bool:
    return any(file.size > 0 for file in container.files if file.name in _PROGRAM_FILES)


def _bootstrap_of(app: AppReport, hadoop_conf: Path, user: str, *, as_proxy: bool) -> bool | None:
    """Return whether an application's tasks run under the bootstrap; None if its service is no
    longer stored.
    """
    try:
        storage = open_storage(None, hadoop_conf=hadoop_conf, user=user, as_proxy=as_proxy)
        stored = stored_job(storage, app.user or user, app.name or "")
    except SubmitTFJobError:
        return None
    if stored.application_id != app.id:
        return None
    return stored.bootstrap
