"""Directories and node files of an application's aggregated logs, for every Hadoop since 2.x.

There is one node file per NodeManager, several under rolling aggregation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from submit_tf_job.hadoop_logs import tfile
from submit_tf_job.hadoop_logs.cursor import MAX_ENTRIES, Memory, Source
from submit_tf_job.hadoop_logs.indexedfile import (
    UUID,
    application_uuid,
    read_checksum,
    read_indexed,
)
from submit_tf_job.hadoop_logs.interfaces import Damaged, DirectoryEntry, LogStore, Snapshot

TEMPORARY = ".tmp"  # LogAggregationUtils: TMP_FILE_SUFFIX
# beside an IndexedFile while a further upload is appended to it
CHECKSUM = "-checksum"  # LogAggregationIndexedFileController.CHECK_SUM_FILE_SUFFIX
_APP_ID = re.compile(r"application_\d+_(\d+)")
_NODE_FILE = re.compile(r"(?P<host>.+)_(?P<port>\d{1,5})(?:_(?P<uploaded>\d{12,14}))?")


@dataclass(frozen=True)
class LogSettings:
    """A cluster's configuration of log aggregation.

    Attributes:
        root: Directory or URI, `yarn.nodemanager.remote-app-log-dir`; without a scheme it is on the
            default file system.
        other_roots: Directories of single formats (`yarn.log-aggregation.*.remote-app-log-dir`).
        enabled: Whether logs are aggregated; None if unknown.
        retain_s: Seconds after which the history server deletes the logs; None for never, or if
            unknown.
        every_container: Whether the NodeManagers collect the logs of every container.
    """

    root: str = "/tmp/logs"  # noqa: S108 - YarnConfiguration.DEFAULT_NM_REMOTE_APP_LOG_DIR
    other_roots: tuple[str, ...] = ()
    enabled: bool | None = None
    retain_s: int | None = None
    every_container: bool = True

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> LogSettings:
        """Read the properties of yarn-site.xml or of the ResourceManager's `/conf`; ignore invalid
        values.
        """
        default = cls()
        root = properties.get("yarn.nodemanager.remote-app-log-dir") or default.root
        own = (
            value
            for name, value in properties.items()
            if re.fullmatch(r"yarn\.log-aggregation\.[^.]+\.remote-app-log-dir", name) and value
        )
        enabled = properties.get("yarn.log-aggregation-enable", "").strip().lower()
        retain = properties.get("yarn.log-aggregation.retain-seconds", "").strip()
        policy = properties.get("yarn.nodemanager.log-aggregation.policy.class", "").strip()
        return cls(
            root=root,
            other_roots=tuple(sorted({value for value in own if value != root})),
            enabled={"true": True, "false": False}.get(enabled),
            retain_s=int(retain) if re.fullmatch(r"[1-9]\d{0,11}", retain) else None,
            every_container=not policy or policy.endswith(".AllContainerLogAggregationPolicy"),
        )


# --- directories ----------------------------------------------------------------------------------


def _application_directories(
    store: LogStore, root: str, user: str, app_id: str
) -> Iterator[tuple[str, Sequence[DirectoryEntry]]]:
    """Yield the directories of an application under one root, for any suffix and format, together
    with their entries.

    Searches each directory of the user: `bucket-<suffix>-<format>/<NNNN>/<application>` (Hadoop
    3.3 and later), `<suffix>-<format>/<application>` (3.1.4, 3.2) and `<suffix>/<application>`
    (before).
    """
    number = _APP_ID.fullmatch(app_id)
    home = f"{root.rstrip('/')}/{user}"
    for directory in _list_or_empty(store, home):
        path = f"{home}/{directory.name}"
        if directory.name.startswith("bucket-") and number:
            path += f"/{int(number[1]) % 10000:04d}"  # LogAggregationUtils.getRemoteBucketDir
        if directory.is_dir:
            yield f"{path}/{app_id}", _list_or_empty(store, f"{path}/{app_id}")


def _list_or_empty(store: LogStore, path: str) -> Sequence[DirectoryEntry]:
    try:
        return store.list_dir(path)
    except FileNotFoundError:
        return ()


# --- node files -----------------------------------------------------------------------------------


def node_file(name: str) -> tuple[str, int] | None:
    """Return the NodeId and the time in the name of a node file; None for the name of another file.
    The name is the NodeId with `_` instead of `:`, and under rolling aggregation the time in
    milliseconds; else the time is 0 (LogAggregationUtils.getNodeString).
    """
    found = _NODE_FILE.fullmatch(name)
    if found is None:
        return None
    return f"{found['host']}:{found['port']}", int(found["uploaded"] or 0)


@dataclass
class NodeFile:
    """One node file.

    Attributes:
        node: NodeId, `host:port`.
        uploaded_ms: The time in the file's name, or else the time of its last change.
        valid: How many of the file's bytes are valid while a further upload is being appended; None
            if all bytes are valid.
        problems: A sentence for each part that could not be read.
    """

    store: LogStore
    app_id: str
    path: str
    node: str
    uploaded_ms: int
    memory: Memory
    valid: int | None = None
    problems: list[str] = field(default_factory=list)
    _found: list[Snapshot] | None = None

    def snapshots(self) -> list[Snapshot]:
        """Return all log files in the node file, the oldest upload first; read the node file only
        once.

        A missing or damaged part becomes an entry of `problems`.
        """
        if self._found is None:
            found: list[Snapshot] = []
            self.problems = []  # of an attempt during which the storage failed
            try:
                for snapshot in self._read_snapshots():
                    if len(found) == MAX_ENTRIES:
                        self.problems.append(
                            f"{self.path}: more than {MAX_ENTRIES} log files; the rest is left out"
                        )
                        break
                    found.append(snapshot)
            except Damaged as error:
                self.problems.append(str(error))
            except FileNotFoundError:
                self.problems.append(f"{self.path}: was deleted during the reading")
            self._found = found
        return self._found

    def _read_snapshots(self) -> Iterator[Snapshot]:
        source = Source(self.store.open(self.path), self.path, self.memory, self.valid)
        tail = source.tail()
        if tail.endswith(tfile.MAGIC):
            yield from tfile.read_tfile(source, self.node, self.uploaded_ms, self.problems)
        elif tail[-UUID:] == application_uuid(self.app_id):
            yield from read_indexed(source, self.node)
        else:
            raise source.damaged("it is neither a TFile nor an IndexedFile")


@dataclass
class Survey:
    """The contents of an application's directories.

    Attributes:
        nodes: Node files that can be read.
        pending: NodeIds with an unfinished upload.
    """

    nodes: list[NodeFile] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)

    def add(self, store: LogStore, root: str, user: str, app_id: str, memory: Memory) -> None:
        """Add an application's node files, and its unfinished uploads, under one root."""
        for directory, entries in list(_application_directories(store, root, user, app_id)):
            names = {entry.name for entry in entries}
            valid = _valid_sizes(store, directory, entries, memory)
            for entry in entries:
                final = entry.name.removesuffix(TEMPORARY)
                named = node_file(final)
                if entry.is_dir or named is None:
                    continue
                node, uploaded_ms = named[0], named[1] or entry.modified_ms
                if final != entry.name:  # HDFS shows no bytes of a TFile until it is renamed
                    self.pending += [node] if final not in names else []
                elif not entry.size or valid.get(final) == 0:
                    self.pending.append(node)
                else:
                    path, size = f"{directory}/{final}", valid.get(final)
                    self.nodes.append(
                        NodeFile(store, app_id, path, node, uploaded_ms, memory, size)
                    )


def _valid_sizes(
    store: LogStore, directory: str, entries: Sequence[DirectoryEntry], memory: Memory
) -> dict[str, int]:
    """Return the number of valid bytes of each node file to which an upload is being appended."""
    found: dict[str, int] = {}
    for entry in entries:
        if entry.name.endswith(CHECKSUM) and not entry.is_dir:
            path = f"{directory}/{entry.name}"
            # without its end the upload has not begun, and with its deletion it is done
            with suppress(Damaged, FileNotFoundError):
                found.update([read_checksum(Source(store.open(path), path, memory))])
    return found
