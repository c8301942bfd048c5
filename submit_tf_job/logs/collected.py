"""Read the collected logs of an ended application, without Java and without a log server.

    find the directories ▸ read each node file's index ▸ list containers and log files ▸ read bytes

Formats and layouts are in `hadoop_logs`. Nothing is read twice; a listing skips contents, and a
tail reads only its own bytes, as far as compression allows. Where there are none, an error
says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from submit_tf_job.errors import AuthError, BadAnswer, NoSuchJob, SubmitTFJobError
from submit_tf_job.hadoop_logs.cursor import Memory
from submit_tf_job.hadoop_logs.interfaces import (
    CollectedFile,
    ContainerLogs,
    Damaged,
    LogStore,
    Snapshot,
)
from submit_tf_job.hadoop_logs.layout import AppDirectory, LogSettings, find_directories
from submit_tf_job.hadoop_logs.node_files import NodeFiles, Survey, survey
from submit_tf_job.logs.parallel import in_threads

__all__ = [
    "Absence",
    "AggregatedLogs",
    "CollectedFile",
    "ContainerLogs",
    "LogSettings",
    "LogStore",
    "NoLogs",
    "Snapshot",
    "WhatYarnSays",
    "content",
]

WORKERS = 8  # node files are small and remote: most of the time is latency


class AggregatedLogs:
    """The collected logs of one application.

    Args:
        store: Open storage of the file system of `settings.root`.
        app_id: `application_…`.
        user: Owner of the application.
        settings: The cluster's configuration of log aggregation.
        said: The ResourceManager's report, for the reason of missing logs.

    Example:
        >>> logs = AggregatedLogs(storage, "application_1700000000000_0001", user="alice")  # doctest: +SKIP
        >>> [(found.container_id, [file.name for file in found.files]) for found in logs.containers()]  # doctest: +SKIP
        >>> logs.read("container_1700000000000_0001_01_000002", "stderr.txt", tail=4096)  # doctest: +SKIP
    """  # noqa: E501

    def __init__(
        self,
        store: LogStore,
        app_id: str,
        *,
        user: str,
        settings: LogSettings | None = None,
        said: WhatYarnSays | None = None,
    ) -> None:
        self._store = store
        self._app_id = app_id
        self._user = user
        self._settings = settings or LogSettings()
        self._said = said or WhatYarnSays()
        self._memory = Memory()
        self._survey: Survey | None = None

    @property
    def settings(self) -> LogSettings:
        """The cluster's configuration of log aggregation."""
        return self._settings

    # --- listing ---

    def containers(self) -> tuple[ContainerLogs, ...]:
        """List all containers with their log files, in the order of their ids.

        Raises:
            NoLogs: The application has none; see `reason`.
            AuthError: They may not be read.
            BadAnswer: None of the files can be read.
        """
        nodes = self._nodes()
        found = in_threads(NodeFiles.snapshots, nodes, WORKERS)
        snapshots = [snapshot for of_node in found for snapshot in of_node]
        problems = [problem for node in nodes for problem in node.problems]
        if not snapshots and problems:
            raise BadAnswer(
                problems[0],
                hint="The container's own node may still have them.",
                details={"problems": problems},
            )
        return _grouped(snapshots)

    def find(self, name: str) -> Iterator[Snapshot]:
        """Yield the files of a name, of all containers, reading as little as possible.

        Raises:
            NoLogs: The application has no logs.
            AuthError: They may not be read.
        """
        for logs in sorted(self._nodes(), key=lambda logs: -logs.uploaded_ms):
            yield from logs.seek(name)

    def container(self, container_id: str, *, node: str | None = None) -> ContainerLogs | None:
        """List the files of one container; with `node` (see `read`) read that node's file only.

        Raises:
            NoLogs: The application has no logs.
            AuthError: They may not be read.
        """
        nodes = sorted(self._nodes(), key=lambda logs: not _is_at(logs, node))
        home = next((logs.node for logs in nodes if any(logs.of(container_id))), None)
        found = [log for logs in nodes if logs.node == home for log in logs.of(container_id)]
        return next(iter(_grouped(found)), None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about damaged files and unfinished uploads found so far."""
        if self._survey is None:
            return ()
        pending = [f"{node} has not finished its upload" for node in self._survey.pending]
        archived = [
            f"{path} is a Hadoop archive, which is not supported" for path in self._survey.archives
        ]
        damaged = [problem for node in self._survey.nodes for problem in node.problems]
        return (*pending, *archived, *self._survey.problems, *damaged)

    # --- contents ---

    def read(
        self, container_id: str, name: str, *, tail: int | None = None, node: str | None = None
    ) -> bytes:
        """Read one log file, or its last `tail` bytes, at once.

        Args:
            container_id: The container.
            name: The file.
            tail: Number of bytes at its end; None for all.
            node: NodeId (`host:port`), or host, whose file is read first.

        Raises:
            NoLogs: The container or file does not exist, or the application has no logs.
            AuthError: They may not be read.
            BadAnswer: The file is not in a format of Hadoop's.
        """
        container = self.container(container_id, node=node)
        if container is None:
            raise NoLogs(
                f"{self._app_id}: there are no logs of {container_id}",
                Absence.NOTHING,
                hint="Check the container's id.",
            )
        file = container.file(name)
        if file is None:
            names = ", ".join(file.name for file in container.files)
            raise NoLogs(
                f"{container_id}: has no log file {name}", Absence.NOTHING, hint=f"It has {names}."
            )
        return b"".join(content(file, tail))

    # --- finding ---

    def _nodes(self) -> list[NodeFiles]:
        if self._survey is None or not self._survey.nodes:
            self._survey = survey(self._store, self._app_id, self._directories(), self._memory)
        if not self._survey.nodes:
            raise self._why_nothing(self._survey)
        return self._survey.nodes

    def _directories(self) -> list[AppDirectory]:
        found = self._directories_under(self._settings.root)
        for root in self._settings.other_roots:
            # another file system, or not readable; only the first root is required
            with suppress(SubmitTFJobError):
                found += self._directories_under(root)
        return found

    def _directories_under(self, root: str) -> list[AppDirectory]:
        try:
            return find_directories(self._store, root, self._user, self._app_id)
        except AuthError as error:
            raise AuthError(
                f"{root}/{self._user}: not allowed to read the logs of {self._user}: "
                f"{error.message}",
                hint=f"Use the account of {self._user}, or one in the directory's group: "
                f"aggregated logs have mode 770.",
            ) from None

    def _why_nothing(self, found: Survey) -> NoLogs:
        if found.archives:
            message = (
                f"{self._app_id}: its logs are in the Hadoop archive {found.archives[0]}, which "
                f"is not supported"
            )
            return NoLogs(
                message, Absence.ARCHIVED, hint=f"yarn logs -applicationId {self._app_id}"
            )
        if found.pending or found.problems:
            message = f"{self._app_id}: its logs are just being uploaded"
            return NoLogs(message, Absence.NOT_YET, hint="Try again in a few seconds.")
        where = f"{self._settings.root}/{self._user}"
        return _explain(
            self._app_id,
            where,
            self._said,
            enabled=self._settings.enabled,
            retain_s=self._settings.retain_s,
        )


def content(file: CollectedFile, tail: int | None) -> Iterator[bytes]:
    """Read a file in pieces; damage is an error for the user."""
    try:
        yield from file.stream(tail=tail)
    except Damaged as error:
        hint = "Other nodes' logs may still be read."
        raise BadAnswer(str(error), hint=hint) from error


def _is_at(logs: NodeFiles, node: str | None) -> bool:
    return node is not None and (logs.node == node or logs.node.rpartition(":")[0] == node)


def _grouped(snapshots: list[Snapshot]) -> tuple[ContainerLogs, ...]:
    by_container: dict[str, dict[str, list[Snapshot]]] = {}
    for snapshot in sorted(snapshots, key=lambda found: found.uploaded_ms):
        by_container.setdefault(snapshot.container_id, {}).setdefault(snapshot.name, []).append(
            snapshot
        )
    return tuple(
        ContainerLogs(
            container_id=container_id,
            node=next(iter(files.values()))[0].node,
            files=tuple(CollectedFile(name, tuple(found)) for name, found in sorted(files.items())),
        )
        for container_id, files in sorted(by_container.items(), key=lambda item: _order(item[0]))
    )


def _order(container_id: str) -> tuple[list[int], str]:
    """Return the key that sorts by attempt and number, without an epoch (`container_e17_…`)."""
    return [int(number) for number in re.findall(r"\d+", container_id)[-4:]], container_id


# --- why there are none ---

# an AM runs for 30 s after it has unregistered, a NodeManager counts as lost after 10 minutes
LATEST_UPLOAD_S = 900

_OFF = "DISABLED"
_UNDER_WAY = frozenset({"NOT_START", "RUNNING", "RUNNING_WITH_FAILURE"})
_FAILED = frozenset({"FAILED", "TIME_OUT"})


class Absence(str, Enum):
    """The reasons for missing logs."""

    NOT_YET = "not-yet"
    OFF = "off"
    DELETED = "deleted"
    FAILED = "failed"
    ARCHIVED = "archived"
    NOTHING = "nothing"


class NoLogs(NoSuchJob):
    """The application has no aggregated logs; with `Absence.NOT_YET` they are uploaded later."""

    def __init__(self, message: str, reason: Absence, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, details={"reason": reason.value})
        self.reason = reason


@dataclass(frozen=True)
class WhatYarnSays:
    """The ResourceManager's report of the application; None for unknown values.

    Attributes:
        status: `logAggregationStatus` (LogAggregationStatus).
        running: Whether the application has not ended.
        finished_ms: When it ended.
        now_ms: The current time.
    """

    status: str | None = None
    running: bool = False
    finished_ms: int | None = None
    now_ms: int | None = None

    @property
    def age_s(self) -> int | None:
        """Seconds since the end."""
        if not self.finished_ms or self.now_ms is None:
            return None
        return max(0, (self.now_ms - self.finished_ms) // 1000)


def _explain(
    app_id: str, where: str, said: WhatYarnSays, *, enabled: bool | None, retain_s: int | None
) -> NoLogs:
    """Return the error with the reason for missing logs.

    Args:
        app_id: The application.
        where: Directory that was searched.
        said: The ResourceManager's report.
        enabled: `yarn.log-aggregation-enable`, if known.
        retain_s: `yarn.log-aggregation.retain-seconds`, None for unlimited or unknown.
    """
    if said.status == _OFF or (enabled is False and said.status is None):
        message = (
            f"{app_id}: the cluster does not collect logs (yarn.log-aggregation-enable is false)"
        )
        return NoLogs(
            message,
            Absence.OFF,
            hint="They are on the nodes only, as long as the NodeManagers keep them.",
        )
    if said.running:
        message = (
            f"{app_id}: still running; logs are collected when all its containers on a node "
            f"have ended"
        )
        return NoLogs(message, Absence.NOT_YET, hint="Until then the NodeManagers serve them.")
    age = said.age_s
    if said.status in _UNDER_WAY and (age is None or age < LATEST_UPLOAD_S):
        ended = "" if age is None else f", {age} s after its end"
        message = f"{app_id}: its logs are not collected yet{ended}"
        return NoLogs(
            message,
            Absence.NOT_YET,
            hint="Try again in half a minute; NodeManagers upload once the last container has "
            "ended.",
        )
    if retain_s is not None and age is not None and age >= retain_s:
        message = (
            f"{app_id}: its logs are deleted: it ended {_span(age)} ago, and the cluster keeps "
            f"them for {_span(retain_s)}"
        )
        return NoLogs(
            message, Absence.DELETED, hint="yarn.log-aggregation.retain-seconds sets how long."
        )
    if said.status in _FAILED:
        message = f"{app_id}: no node could upload its logs (log aggregation: {said.status})"
        return NoLogs(
            message,
            Absence.FAILED,
            hint="Check the NodeManagers' own logs; the files may still be on the nodes.",
        )
    if said.status == "SUCCEEDED":
        message = f"{app_id}: its logs were collected, but are not in {where}"
        return NoLogs(
            message,
            Absence.DELETED,
            hint="They were deleted since, or yarn.nodemanager.remote-app-log-dir of the "
            "cluster is another directory.",
        )
    return NoLogs(
        f"{app_id}: there are no logs in {where}",
        Absence.NOTHING,
        hint="Check the application's user, and yarn.nodemanager.remote-app-log-dir. Or the logs "
        "were never collected, or were deleted since.",
    )


def _span(seconds: int) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
