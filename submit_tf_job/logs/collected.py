"""Read the collected logs of an ended application, without Java and without a log server.

    find the directories ▸ read each node file's index ▸ list containers and log files ▸ read bytes

Formats and layouts are in `hadoop_logs`. Each index is read only once. A listing skips the
contents, and a tail reads only its own bytes, as far as compression allows. If there are no logs,
the error says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
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
from submit_tf_job.hadoop_logs.node_files import LogSettings, NodeFile, Survey
from submit_tf_job.logs.entries import FileInfo, TaskContainer
from submit_tf_job.logs.read import LARGEST, in_threads, joined, moment

# an AM runs for 30 s after it has unregistered, a NodeManager counts as lost after 10 minutes
LATEST_UPLOAD_S = 900

_OFF = "DISABLED"
# LogAggregationStatus; the others are final
UNDER_WAY = frozenset({"NOT_START", "RUNNING", "RUNNING_WITH_FAILURE"})
_FAILED = frozenset({"FAILED", "TIME_OUT"})


class Absence(str, Enum):
    """Why there are no logs: they will be collected later, the cluster does not collect logs, they
    were deleted, no node could upload them, or none were found for an unknown reason.
    """

    NOT_YET = "not-yet"
    OFF = "off"
    DELETED = "deleted"
    FAILED = "failed"
    NOTHING = "nothing"


class NoLogs(NoSuchJob):
    """The application, or one of its containers or files, has no aggregated logs. With
    `Absence.NOT_YET` they will be uploaded later.
    """

    def __init__(self, message: str, reason: Absence, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, details={"reason": reason.value})
        self.reason = reason


@dataclass(frozen=True)
class WhatYarnSays:
    """The ResourceManager's report of the application; None for unknown values.

    Attributes:
        status: `logAggregationStatus` (LogAggregationStatus).
        running: Whether the application has not ended yet.
        finished_ms: When the application ended, in milliseconds since 1970.
        now_ms: The current time, in milliseconds since 1970.
    """

    status: str | None = None
    running: bool = False
    finished_ms: int | None = None
    now_ms: int | None = None

    @property
    def age_s(self) -> int | None:
        """Seconds since the end; None if unknown."""
        if not self.finished_ms or self.now_ms is None:
            return None
        return max(0, (self.now_ms - self.finished_ms) // 1000)


@dataclass
class AggregatedLogs:
    """The collected logs of one application, a `LogSource`. Other errors of the storage than those
    that its methods list, such as `ClusterUnavailable`, pass through them.

    Args:
        store: Opened storage: the file system that contains `settings.root`.
        app_id: `application_…`.
        user: Owner of the application.
        settings: The cluster's configuration of log aggregation.
        said: The ResourceManager's report of the application, which tells why logs are missing.

    Example:
        >>> logs = AggregatedLogs(storage, "application_1700000000000_0001", user="alice")  # doctest: +SKIP
        >>> [(found.container_id, [file.name for file in found.files]) for found in logs.containers()]  # doctest: +SKIP
        >>> logs.read_file("container_1700000000000_0001_01_000002", "stderr.txt", tail=4096)  # doctest: +SKIP
    """  # noqa: E501

    store: LogStore
    app_id: str
    user: str
    settings: LogSettings = field(default_factory=LogSettings)
    said: WhatYarnSays = field(default_factory=WhatYarnSays)
    _memory: Memory = field(default_factory=Memory)
    _survey: Survey = field(default_factory=Survey)
    _listed: dict[str, ContainerLogs] = field(default_factory=dict)  # by container id

    # --- listing ---

    def containers(self) -> tuple[ContainerLogs, ...]:
        """List all containers with their log files, in the order of their ids.

        Raises:
            NoLogs: The application has no logs; `reason` of the error tells why.
            AuthError: The user may not read the logs.
            BadAnswer: None of the files can be read.
        """
        nodes = self._node_files()
        found = in_threads(NodeFile.snapshots, nodes)
        snapshots = [snapshot for of_node in found for snapshot in of_node]
        problems = [problem for node in nodes for problem in node.problems]
        if not snapshots and problems:
            raise BadAnswer(
                problems[0],
                hint="The container's own node may still have them.",
                details={"problems": problems},
            )
        grouped = _group_by_container(snapshots)
        self._listed = {found.container_id: found for found in grouped}
        return grouped

    def find(self, name: str) -> Iterator[Snapshot]:
        """Yield the files with a given name, of all containers, the newest upload first. As few
        node files as possible are read.

        Raises:
            NoLogs: The application has no logs.
            AuthError: The user may not read the logs.
        """
        for logs in sorted(self._node_files(), key=lambda logs: -logs.uploaded_ms):
            yield from (found for found in reversed(logs.snapshots()) if found.name == name)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about damaged files and unfinished uploads that were found so far."""
        pending = [f"{node} has not finished its upload" for node in self._survey.pending]
        damaged = [problem for node in self._survey.nodes for problem in node.problems]
        return (*pending, *damaged)

    # --- contents ---

    def files(self, container: TaskContainer) -> tuple[FileInfo, ...]:
        """List a container's files. Node files of the container's host are read first, and those of
        other hosts only if the container is not in them.

        Raises:
            NoLogs: The container has no logs, or the application has none.
            AuthError: The user may not read the logs.
        """
        return tuple(
            FileInfo(file.name, file.size, moment(ms if ms is None else ms / 1000))
            for file in self._logs_of_container(container).files
            for ms in [file.snapshots[-1].modified_ms]
        )

    def read(
        self, container: TaskContainer, file: str, *, tail: int | None = None
    ) -> Iterator[bytes]:
        """Read a file, or its last `tail` bytes, piece by piece.

        Raises:
            NoLogs: The container or file does not exist, or the application has no logs.
            AuthError: The user may not read the logs.
            BadAnswer: The file is not in a format of Hadoop's.
        """
        of_container = self._logs_of_container(container)
        found = of_container.file(file)
        if found is None:
            names = ", ".join(file.name for file in of_container.files)
            message = f"{container.id}: has no log file {file}"
            raise NoLogs(message, Absence.NOTHING, hint=f"It has {names}.")
        return _file_content(found, tail)

    def read_file(
        self, container_id: str, name: str, *, tail: int | None = None, host: str | None = None
    ) -> bytes:
        """Read a file at once; raises the same errors as `read`, and `BadAnswer` for a file that is
        larger than a NodeManager's may be.
        """
        pieces = self.read(TaskContainer("", container_id, host), name, tail=tail)
        content = joined(pieces, LARGEST)
        if content is None:
            raise BadAnswer(f"{container_id}: {name} has more than {LARGEST // 1024**2} MiB")
        return content

    def _logs_of_container(self, container: TaskContainer) -> ContainerLogs:
        if container.id in self._listed:
            return self._listed[container.id]
        nodes = sorted(
            self._node_files(), key=lambda logs: logs.node.rpartition(":")[0] != container.host
        )
        for home in dict.fromkeys(logs.node for logs in nodes):
            of_node = [log for logs in nodes if logs.node == home for log in logs.snapshots()]
            for found in _group_by_container(
                [log for log in of_node if log.container_id == container.id]
            ):
                self._listed[container.id] = found
                return found
        raise NoLogs(
            f"{self.app_id}: there are no logs of {container.id}",
            Absence.NOTHING,
            hint="Check the container's id.",
        )

    # --- finding ---

    def _node_files(self) -> list[NodeFile]:
        if not self._survey.nodes:
            found = Survey()
            self._search_root(self.settings.root, found)
            for root in self.settings.other_roots:
                # another file system, or not readable; only the first root is required
                with suppress(SubmitTFJobError):
                    self._search_root(root, found)
            self._survey = found
        if not self._survey.nodes:
            raise self._why_nothing()
        return self._survey.nodes

    def _search_root(self, root: str, found: Survey) -> None:
        try:
            found.add(self.store, root, self.user, self.app_id, self._memory)
        except AuthError as error:
            raise AuthError(
                f"{root}/{self.user}: not allowed to read the logs of {self.user}: {error.message}",
                hint=f"Use the account of {self.user}, or one in the directory's group: "
                f"aggregated logs have mode 770.",
            ) from None

    def _why_nothing(self) -> NoLogs:
        where = f"{self.settings.root}/{self.user}"
        reason, message, hint = _reason_of_absence(where, self.said, self.settings)
        if self._survey.pending:
            reason, message = Absence.NOT_YET, "its logs are just being uploaded"
            hint = "Try again in a few seconds."
        return NoLogs(f"{self.app_id}: {message}", reason, hint=hint)


def _file_content(file: CollectedFile, tail: int | None) -> Iterator[bytes]:
    """Read a file in pieces; if the file is damaged, raise an error with a message for the user."""
    try:
        yield from file.stream(tail=tail)
    except Damaged as error:
        hint = "Other nodes' logs may still be read."
        raise BadAnswer(str(error), hint=hint) from error


def _group_by_container(snapshots: list[Snapshot]) -> tuple[ContainerLogs, ...]:
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
        for container_id, files in sorted(
            by_container.items(), key=lambda item: _container_order(item[0])
        )
    )


def _container_order(container_id: str) -> tuple[list[int], str]:
    """Return the sort key of a container: attempt, then number; an epoch in the id
    (`container_e17_…`) is ignored.
    """
    return [int(number) for number in re.findall(r"\d+", container_id)[-4:]], container_id


def _reason_of_absence(
    where: str, said: WhatYarnSays, settings: LogSettings
) -> tuple[Absence, str, str]:
    """Return why a directory has no logs of an application: the reason, a sentence, and a hint."""
    age = said.age_s
    if said.status == _OFF or (settings.enabled is False and said.status is None):
        return (
            Absence.OFF,
            "the cluster does not collect logs (yarn.log-aggregation-enable is false)",
            "They are on the nodes only, as long as the NodeManagers keep them.",
        )
    if said.running:
        return (
            Absence.NOT_YET,
            "still running; logs are collected when all its containers on a node have ended",
            "Until then the NodeManagers serve them.",
        )
    if said.status in UNDER_WAY and (age is None or age < LATEST_UPLOAD_S):
        ended = "" if age is None else f", {age} s after its end"
        return (
            Absence.NOT_YET,
            f"its logs are not collected yet{ended}",
            "Try again in half a minute; NodeManagers upload once the last container has ended.",
        )
    if settings.retain_s is not None and age is not None and age >= settings.retain_s:
        return (
            Absence.DELETED,
            f"its logs are deleted: it ended {_span_text(age)} ago, and the cluster keeps them for "
            f"{_span_text(settings.retain_s)}",
            "yarn.log-aggregation.retain-seconds sets how long.",
        )
    if said.status in _FAILED:
        return (
            Absence.FAILED,
            f"no node could upload its logs (log aggregation: {said.status})",
            "Check the NodeManagers' own logs; the files may still be on the nodes.",
        )
    if said.status == "SUCCEEDED":
        return (
            Absence.DELETED,
            f"its logs were collected, but are not in {where}",
            "They were deleted since, or yarn.nodemanager.remote-app-log-dir of the cluster is "
            "another directory.",
        )
    return (
        Absence.NOTHING,
        f"there are no logs in {where}",
        "Check the application's user, and yarn.nodemanager.remote-app-log-dir. Or the logs were "
        "never collected, or were deleted since.",
    )


def _span_text(seconds: int) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
