"""Read the collected logs of an ended application, without Java and without a log server.

    find the directories ▸ read each node file's index ▸ list containers and log files ▸ read bytes

Formats and layouts are in `hadoop_logs`. Nothing is read twice; a listing skips contents, and a
tail reads only its own bytes, as far as compression allows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from submit_tf_job.errors import AuthError, BadAnswer, SubmitTFJobError
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
from submit_tf_job.logs.absence import Absence, NoLogs, WhatYarnSays, explain
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

    def find(self, name: str, *, node: str | None = None) -> Iterator[Snapshot]:
        """Yield the files of a name, of all containers, reading as little as possible.

        Args:
            name: File name, such as `job-report.json`.
            node: NodeId (`host:port`), or host, whose file is read first.

        Raises:
            NoLogs: The application has no logs.
            AuthError: They may not be read.
        """
        for logs in sorted(
            self._nodes(), key=lambda logs: (not _is_at(logs, node), -logs.uploaded_ms)
        ):
            yield from logs.seek(name)

    def container(self, container_id: str, *, node: str | None = None) -> ContainerLogs | None:
        """List the files of one container; with `node` (see `stream`) read that node's file only.

        Raises:
            NoLogs: The application has no logs.
            AuthError: They may not be read.
        """
        grouped = _grouped(self._of_container(container_id, node))
        return grouped[0] if grouped else None

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

    def stream(
        self, container_id: str, name: str, *, tail: int | None = None, node: str | None = None
    ) -> Iterator[bytes]:
        """Read one log file in pieces of at most about a megabyte.

        Uploads of a rolled log are joined: an upload that begins with the whole previous one
        replaces it, any other is appended.

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
        file = CollectedFile(name, tuple(self._snapshots_of(container_id, name, node)))
        yield from content(file, tail)

    def read(
        self, container_id: str, name: str, *, tail: int | None = None, node: str | None = None
    ) -> bytes:
        """Read one log file, or its last `tail` bytes, at once; see `stream`."""
        return b"".join(self.stream(container_id, name, tail=tail, node=node))

    def _of_container(self, container_id: str, first: str | None) -> list[Snapshot]:
        """Return the container's log files: find its node, then read that node's files."""
        nodes = sorted(self._nodes(), key=lambda logs: not _is_at(logs, first))
        home = next((logs.node for logs in nodes if any(logs.of(container_id))), None)
        return [log for logs in nodes if logs.node == home for log in logs.of(container_id)]

    def _snapshots_of(self, container_id: str, name: str, first: str | None) -> list[Snapshot]:
        found = self._of_container(container_id, first)
        named = sorted((log for log in found if log.name == name), key=lambda log: log.uploaded_ms)
        if not found:
            raise NoLogs(
                f"{self._app_id}: there are no logs of {container_id}",
                Absence.NOTHING,
                hint="Check the container's id.",
            )
        if not named:
            names = ", ".join(sorted({log.name for log in found}))
            raise NoLogs(
                f"{container_id}: has no log file {name}", Absence.NOTHING, hint=f"It has {names}."
            )
        return named

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
        return explain(
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
