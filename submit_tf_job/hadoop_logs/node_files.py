"""Node files of an application: one per NodeManager, several under rolling aggregation."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from submit_tf_job.hadoop_logs import tfile
from submit_tf_job.hadoop_logs.cursor import Memory, Source
from submit_tf_job.hadoop_logs.indexedfile import (
    UUID,
    application_uuid,
    read_checksum,
    read_indexed,
)
from submit_tf_job.hadoop_logs.interfaces import Damaged, DirectoryEntry, LogStore, Snapshot
from submit_tf_job.hadoop_logs.layout import AppDirectory, node_file

TEMPORARY = ".tmp"  # LogAggregationUtils: TMP_FILE_SUFFIX
CHECKSUM = "-checksum"  # LogAggregationIndexedFileController.CHECK_SUM_FILE_SUFFIX
ARCHIVE = ".har"


class _Uploading:
    """A file of a temporary name, which has its final name as soon as its upload is done.

    Attributes:
        size: Its bytes when it was opened.
    """

    def __init__(self, store: LogStore, path: str) -> None:
        self._store, self._final = store, path.removesuffix(TEMPORARY)
        try:
            self._file = store.open(path)
        except FileNotFoundError:
            self._file = store.open(self._final)
        self.size = self._file.size

    def read_range(self, start: int, length: int) -> bytes:
        """Read a part of it."""
        try:
            return self._file.read_range(start, length)
        except FileNotFoundError:
            self._file = self._store.open(self._final)
            return self._file.read_range(start, length)


@dataclass
class NodeFiles:
    """One node file.

    Attributes:
        node: NodeId, `host:port`.
        uploaded_ms: The time in its name, else of its last change.
        unfinished: Whether it has no trailer.
        safe_end: Its valid size during a further upload; None for all of it.
        problems: A sentence for each part that could not be read.
    """

    store: LogStore
    app_id: str
    path: str
    node: str
    uploaded_ms: int
    memory: Memory
    unfinished: bool = False
    safe_end: int | None = None
    problems: list[str] = field(default_factory=list)
    _found: list[Snapshot | None] = field(default_factory=list)  # None ends a container's record
    _rest: Iterator[Snapshot | None] | None = None
    _complete: bool = False
    _by_index: bool = False  # the index lists all log files at once
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def each(self) -> Iterator[Snapshot]:
        """Yield its log files, oldest upload first; read the file once, as they are consumed.

        A missing or damaged part becomes an entry of `problems`.
        """
        return (snapshot for snapshot in self._entries() if snapshot is not None)

    def snapshots(self) -> list[Snapshot]:
        """Return all its log files, oldest upload first."""
        return list(self.each())

    def seek(self, name: str) -> Iterator[Snapshot]:
        """Yield log files of a name, read as they are consumed; with an index newest first."""
        next(self.each(), None)
        found = reversed(self.snapshots()) if self._by_index else self.each()
        return (snapshot for snapshot in found if snapshot.name == name)

    def of(self, container_id: str) -> Iterator[Snapshot]:
        """Yield the log files of a container; in a TFile they are in one record."""
        seen = False
        for snapshot in self._entries():
            if snapshot is not None and snapshot.container_id == container_id:
                seen = True
                yield snapshot
            elif seen and not self._by_index:
                return  # the rest belongs to other containers

    def _entries(self) -> Iterator[Snapshot | None]:
        position = 0
        while self._has(position):
            yield self._found[position]
            position += 1

    def _has(self, position: int) -> bool:
        with self._lock:
            while position >= len(self._found) and not self._complete:
                self._advance()
            return position < len(self._found)

    def _advance(self) -> None:
        if self._rest is None:
            self._found, self.problems = [], []
            self._rest = self._read(self.problems)
        try:
            self._found.append(next(self._rest))
        except StopIteration:
            self._complete = True
        except BaseException:
            # the storage failed: the next call starts again, in the same order
            self._rest = None
            raise

    def _read(self, problems: list[str]) -> Iterator[Snapshot | None]:
        try:
            file = _Uploading(self.store, self.path) if self.unfinished else None
            source = Source(
                file or self.store.open(self.path),
                self.path,
                memory=self.memory,
                size=self.safe_end,
            )
            if source.tail().endswith(tfile.MAGIC):
                yield from self._tfile(source, tfile.read_index(source), problems)
            elif self.unfinished:
                yield from self._tfile(source, tfile.salvage_index(source), problems)
            elif source.tail()[-UUID:] == application_uuid(self.app_id):
                found = read_indexed(source, self.app_id, self.node)
                self._by_index = True
                yield from found
            else:
                raise source.damaged("it is neither a TFile nor an IndexedFile")
        except Damaged as error:
            problems.append(str(error))
        except FileNotFoundError:
            problems.append(f"{self.path}: was deleted during the reading")

    def _tfile(
        self, source: Source, index: tfile.Index, problems: list[str]
    ) -> Iterator[Snapshot | None]:
        for log in tfile.scan(source, index, problems):
            if log is None:
                yield None
            else:
                yield Snapshot(
                    log.container_id,
                    self.node,
                    log.name,
                    log.size,
                    log.declared_size,
                    self.uploaded_ms,
                    None,
                    log.content,
                )


@dataclass
class Survey:
    """The contents of an application's directories.

    Attributes:
        nodes: Node files that can be read.
        pending: NodeIds with an unfinished upload.
        archives: HAR archives (`mapred archive-logs`), which are not supported.
        problems: Sentences about other files.
    """

    nodes: list[NodeFiles] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    archives: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def survey(
    store: LogStore, app_id: str, directories: Iterable[AppDirectory], memory: Memory
) -> Survey:
    """Return the directories' entries by kind."""
    found = Survey()
    for directory in directories:
        finished = {entry.name for entry in directory.entries}
        ends = _safe_ends(store, directory)
        for entry in directory.entries:
            _take(found, store, app_id, directory, entry, memory, ends, finished)
    return found


def _take(
    found: Survey,
    store: LogStore,
    app_id: str,
    directory: AppDirectory,
    entry: DirectoryEntry,
    memory: Memory,
    ends: dict[str, int],
    names: set[str],
) -> None:
    path = f"{directory.path}/{entry.name}"
    if entry.name.endswith(ARCHIVE):
        found.archives.append(path)
        return
    unfinished = entry.name.endswith(TEMPORARY)
    final = entry.name.removesuffix(TEMPORARY)
    named = node_file(final)
    if entry.is_dir or named is None or (unfinished and final in names):
        return
    if unfinished:
        found.pending.append(named[0])
    # HDFS shows no bytes of a TFile until it is renamed
    if not entry.size or ends.get(entry.name) == 0:
        if not unfinished:
            found.problems.append(f"{path}: is still empty")
        return
    node, uploaded_ms = named[0], named[1] or entry.modified_ms
    end = ends.get(entry.name)
    found.nodes.append(NodeFiles(store, app_id, path, node, uploaded_ms, memory, unfinished, end))


def _safe_ends(store: LogStore, directory: AppDirectory) -> dict[str, int]:
    """Return the valid sizes of node files with an unfinished upload, by name."""
    ends: dict[str, int] = {}
    for entry in directory.entries:
        if entry.name.endswith(CHECKSUM) and not entry.is_dir:
            said = _safe_end(store, f"{directory.path}/{entry.name}")
            if said is not None:
                ends[said[0]] = max(0, said[1])
    return ends


def _safe_end(store: LogStore, path: str) -> tuple[str, int] | None:
    try:
        source = Source(store.open(path), path)
        return read_checksum(source.read(0, min(source.size, 8192)), source)
    except (FileNotFoundError, Damaged):
        return None
