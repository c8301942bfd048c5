"""Read the logs of containers: choose the files, read several at once, and merge their lines by
time.
"""

from __future__ import annotations

import heapq
import math
import os
import re
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TypeVar

from submit_tf_job.container import contract
from submit_tf_job.errors import SettingsError, SubmitTFJobError, UsageError
from submit_tf_job.logs import lines
from submit_tf_job.logs.entries import (
    AM_TASK,
    FileInfo,
    LogLine,
    LogSelection,
    LogSource,
    NoSuchLog,
    Origin,
    Run,
    TaskContainer,
)
from submit_tf_job.logs.lines import Dates, Stamps

WORKERS = 8
LARGEST = 64 * 1024**2  # bytes of a file that is read at once, as of a NodeManager's answer
_MOST_STAMPS = 8 * 1024**2  # a task of a week has some 500 kB of them
NO_ROLES: Mapping[str, int] = {}
Say = Callable[[str], None]


@dataclass(frozen=True)
class LogFile:
    """One log file to read."""

    container: TaskContainer
    info: FileInfo
    has_times: bool = False  # whether the times that the bootstrap records are beside it

    @property
    def origin(self) -> Origin:
        """The container and the file."""
        return Origin(self.container, self.info.name)


@dataclass(frozen=True)
class Reading:
    """Log lines that are read while they are iterated, once.

    Attributes:
        make: Starts the reading; its argument tells whether to parse the times of lines.
        tasks: The tasks whose logs are read; tasks may be added while a job is followed.
        following: Whether the logs continue until the job is over.
    """

    make: Callable[[bool], Iterator[Run]]
    tasks: tuple[str, ...]
    following: bool = False

    def __iter__(self) -> Iterator[LogLine]:
        """Yield single lines, with their times."""
        return log_lines(self.make(True))

    def runs(self, *, times: bool = False) -> Iterator[Run]:
        """Yield the lines in larger parts (runs), which is faster.

        Args:
            times: Whether to parse the times of lines even if the order does not depend on them.
        """
        return self.make(times)


def chosen(
    containers: Iterable[TaskContainer],
    task: str | None,
    *,
    am: bool = False,
    roles: Mapping[str, int] = NO_ROLES,
) -> list[TaskContainer]:
    """Select containers by task or by role, or select those of the ApplicationMaster. The result is
    empty for a task that has no container yet, and if there are neither containers nor `roles`.

    Args:
        containers: The containers.
        task: A task, a role or a container's id; None for all tasks.
        am: Whether to select only the ApplicationMaster's containers.
        roles: The number of tasks of each role; also counts tasks that have no container.

    Raises:
        UsageError: The task or role does not exist.
    """
    every = sorted(containers, key=lambda container: container.order)
    if am or task == AM_TASK:
        return [container for container in every if container.task == AM_TASK]
    tasks = [container for container in every if container.task != AM_TASK]
    if task is None:
        return tasks
    found = [
        container for container in tasks if task in (container.task, container.role, container.id)
    ]
    role, _, index = task.rpartition("-")
    coming = task in roles or (index.isdecimal() and int(index) < roles.get(role, 0))
    if not found and role in roles and index.isdecimal() and not coming:
        raise UsageError(
            f"there is no task {task!r}", hint=f"{role} has {_counted_tasks(roles[role])}."
        )
    if not found and (tasks or roles) and not coming:
        raise UsageError(
            f"there is no task or role {task!r} with logs",
            hint=f"There are {_first_words([container.task for container in tasks] or roles)}.",
        )
    return found


def _counted_tasks(tasks: int) -> str:
    return {0: "no tasks", 1: "one task, index 0"}.get(tasks, f"{tasks} tasks, 0 to {tasks - 1}")


def _first_words(words: Iterable[str], most: int = 20) -> str:
    found = list(dict.fromkeys(words))
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")


def listed(
    source: LogSource, containers: Sequence[TaskContainer], say: Say
) -> list[tuple[TaskContainer, tuple[FileInfo, ...]]]:
    """List the files of containers in parallel, and report those that cannot be listed.

    Raises:
        SubmitTFJobError: None of them could be listed.
    """

    def files(container: TaskContainer) -> tuple[FileInfo, ...] | SubmitTFJobError:
        try:
            return source.files(container)
        except SubmitTFJobError as error:
            return error

    found: list[tuple[TaskContainer, tuple[FileInfo, ...]]] = []
    failures: list[tuple[TaskContainer, SubmitTFJobError]] = []
    for container, answer in zip(containers, in_threads(files, containers), strict=True):
        if isinstance(answer, SubmitTFJobError):
            failures.append((container, answer))
        else:
            found.append((container, answer))
    if failures and not found:
        raise failures[0][1]
    for container, error in failures:
        say(f"{container.task}: its logs cannot be read: {error.message}")
    return found


def wanted_files(
    found: Iterable[tuple[TaskContainer, tuple[FileInfo, ...]]],
    selection: LogSelection,
    ended: datetime | None = None,
) -> list[LogFile]:
    """Select files of containers; with a tail, only the files of each task's last container.

    Args:
        found: Containers with their files; for each task, older containers come before newer ones.
        selection: The filters.
        ended: When the application ended; no file was changed later.

    Raises:
        NoSuchLog: For one of `selection.files`, no container has a file of that name.
    """
    found = list(found)
    if selection.tail is not None:
        newest = {container.task: container.id for container, _files in found}
        found = [
            (container, files)
            for container, files in found
            if newest[container.task] == container.id
        ]
    out = [
        LogFile(
            container,
            replace(info, modified=info.modified or ended),
            any(other.name == contract.TIMES_FILE for other in files),
        )
        for container, files in found
        for name in selection.names(container)
        for info in files
        if info.name == name
    ]
    missing = [name for name in selection.files if name not in {file.info.name for file in out}]
    if missing and found:
        there = _first_words(
            sorted({info.name for _container, files in found for info in files}), 40
        )
        raise NoSuchLog(
            f"there is no log file {missing[0]}",
            hint=f"There are {there}." if there else "Nothing has been written yet.",
        )
    return out


def start_of(
    source: LogSource, file: LogFile, selection: LogSelection, dates: Dates, stamps: Stamps
) -> int:
    """Return the offset from which a file has to be read so that no selected line is missed.

    Raises:
        SubmitTFJobError: The source cannot read the file.
    """
    size = file.info.size
    if not size:
        return 0
    if selection.since is not None and stamps:
        return min(size, lines.offset_before(stamps, selection.since))
    if selection.since is not None:
        enough = lines.begins_before(selection.since, dates)
    elif selection.tail is not None and selection.grep is None:
        enough = lines.begins_at(selection.tail, dates, selection.hide)
    else:
        return 0
    return size - lines.start_of_tail(
        lambda tail: source.read(*file.origin, tail=tail), size, enough
    )


def file_runs(
    source: LogSource,
    file: LogFile,
    selection: LogSelection,
    now: float,
    say: Say,
    *,
    times: bool = True,
) -> Iterator[Run]:
    """Yield the selected lines of one file.

    Args:
        source: The source of the file.
        file: The file.
        selection: The filters.
        now: The current time, in seconds since the epoch.
        say: Called with a sentence for the user, if a filter by time finds no times.
        times: Whether to find out the times of lines.
    """
    info, since = file.info, selection.since
    if info.size == 0 or (since and info.modified and info.modified.timestamp() < since):
        return
    dates = Dates(lambda: now, info.zone)
    stamps = stamps_of(source, file.origin) if times and file.has_times else ()
    start = start_of(source, file, selection, dates, stamps)
    pieces = source.read(*file.origin, tail=(info.size or 0) - start if start else None)
    runs = lines.RunCutter(file.origin, dates if times else None).cut(pieces)
    yield from filtered(runs, file.origin, selection, say, start, stamps)


def stamps_of(source: LogSource, origin: Origin) -> Stamps:
    """Return the times at which a file was written, which the bootstrap records beside it
    (`contract.TIMES_FILE`); () if they cannot be read.
    """
    try:
        data = joined(source.read(origin.container, contract.TIMES_FILE), _MOST_STAMPS)
    except SubmitTFJobError:
        return ()
    return lines.read_stamps(data or b"").get(origin.file, ())


def joined(pieces: Iterable[bytes], most: int) -> bytes | None:
    """Return the pieces of a file that any program may have written as one; None if they have more
    than `most` bytes.
    """
    content = bytearray()
    for piece in pieces:
        content += piece
        if len(content) > most:
            return None
    return bytes(content)


def filtered(
    runs: Iterable[Run],
    origin: Origin,
    selection: LogSelection,
    say: Say,
    start: int,
    stamps: Stamps,
) -> Iterable[Run]:
    """Yield the lines of a file that the selection takes; `start` is the offset in the file at
    which `runs` begin.
    """
    if stamps:
        runs = lines.stamped(runs, start, stamps)
    if selection.since is not None:
        where = f"{origin.file} of {origin.container.task}"
        runs = lines.after(
            runs,
            selection.since,
            lambda: say(f"{where} has no times; every line that may be new is shown"),
        )
    runs = wanted_lines(runs, selection)
    return lines.last_lines(runs, selection.tail) if selection.tail is not None else runs


def wanted_lines(runs: Iterable[Run], selection: LogSelection) -> Iterable[Run]:
    """Yield the lines that are not hidden and that match the pattern."""
    if selection.hide is not None:
        runs = lines.without(runs, selection.hide)
    return lines.matching(runs, selection.grep.search) if selection.grep else runs


def surviving(runs: Iterator[Run], file: LogFile, say: Say) -> Iterator[Run]:
    """Yield a file's lines; if an error occurs, report it and stop, instead of raising it."""
    try:
        yield from runs
    except SubmitTFJobError as error:
        say(f"{file.container.task}: {file.info.name} cannot be read: {error.message}")


def read(
    source: LogSource, files: Sequence[LogFile], selection: LogSelection, now: float, say: Say
) -> Reading:
    """Return a reading of files whose lines are merged by time. `now` is the current time, in
    seconds since the epoch. If several files are read, `say` is called with a sentence for each
    that cannot be; of a single file, the reading raises the source's error.
    """

    def make(times: bool) -> Iterator[Run]:
        need_times = times or len(files) > 1 or selection.since is not None
        if len(files) == 1:
            return file_runs(source, files[0], selection, now, say, times=need_times)
        return in_order(
            [surviving(file_runs(source, file, selection, now, say), file, say) for file in files]
        )

    return Reading(make, tuple(dict.fromkeys(file.container.task for file in files)))


def log_lines(runs: Iterable[Run]) -> Iterator[LogLine]:
    """Split runs into single lines."""
    for run in runs:
        (container, file), at, written = run.origin, run.at, moment(run.written)
        for line in run.data.split(b"\n")[:-1]:
            yield LogLine(
                container.task, container.id, file, lines.text_of(line), moment(at), written
            )
            at = None


def moment(at: float | None) -> datetime | None:
    """Convert seconds since the epoch to a datetime in UTC; None stays None."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, timezone.utc)


def pattern(text: str) -> re.Pattern[str]:
    """Compile the pattern of `--grep`.

    Raises:
        UsageError: The text is not a valid regular expression.
    """
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"--grep: {text!r} is not a valid regular expression: {error}") from None


# --- many files ---

OPEN_AT_ONCE = 8  # an open file holds a connection and up to 4 MiB
_WINDOW = 64 * 1024
_HEAD = struct.Struct("<dddI")
T = TypeVar("T")
R = TypeVar("R")


def in_threads(call: Callable[[T], R], values: Sequence[T]) -> list[R]:
    """Return a function's results for the given values, in the order of the values. Several results
    are computed at once, because most of the time of reading is spent waiting for the network.
    """
    if len(values) <= 1:
        return [call(value) for value in values]
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(call, values))


def in_order(files: Sequence[Iterable[Run]]) -> Iterator[Run]:
    """Merge files by the times of their lines; files without times keep their order.

    Up to `OPEN_AT_ONCE` files are read side by side. If there are more, all files are first read
    one by one into one temporary file, because the last line of the last file may be the oldest
    line of all.

    Raises:
        SettingsError: There is no room for the temporary file.
    """
    if len(files) == 1:
        yield from files[0]
    elif len(files) <= OPEN_AT_ONCE:
        yield from heapq.merge(*files, key=_run_order)
    else:
        with _Spool() as spool:
            yield from heapq.merge(*[spool.take(runs) for runs in files], key=_run_order)


def _run_order(run: Run) -> float:
    return run.order


def _packed_time(time: float | None) -> float:
    return math.nan if time is None else time


def _unpacked_time(time: float) -> float | None:
    return None if math.isnan(time) else time


def _no_room(error: OSError) -> SettingsError:
    return SettingsError(
        f"there is no room for a temporary file to sort the logs: {error.strerror}",
        hint="Set TMPDIR to a larger directory, or use --tail, or name one task.",
    )


class _Spool:
    """The runs of lines (`Run`) of many log files in one temporary file, which has no name."""

    def __enter__(self) -> _Spool:
        try:
            self._file = tempfile.TemporaryFile()
        except OSError as error:  # a full disk has no usable temporary directory
            raise _no_room(error) from None
        return self

    def __exit__(self, *_failure: object) -> None:
        self._file.close()

    def take(self, runs: Iterable[Run]) -> Iterator[Run]:
        """Copy a log file's runs of lines; return them as an iterator that reads them again, about
        64 KiB at a time.
        """
        start, origin = self._file.tell(), None
        try:
            for run in runs:
                origin = run.origin
                self._file.write(
                    _HEAD.pack(
                        _packed_time(run.at), run.order, _packed_time(run.written), len(run.data)
                    )
                    + run.data
                )
            self._file.flush()
        except OSError as error:
            raise _no_room(error) from None
        if origin is None:
            return iter(())
        return self._reread_runs(origin, start, self._file.tell())

    def _reread_runs(self, origin: Origin, place: int, end: int) -> Iterator[Run]:
        window, at = b"", 0  # the bytes from `place` on, and where the next run begins in them
        while place + at < end:
            have = len(window) - at
            need = _HEAD.size
            if have >= need:
                need += _HEAD.unpack_from(window, at)[3]
            if have < need:
                place, at = place + at, 0
                size = max(need, min(_WINDOW, end - place))
                window = os.pread(self._file.fileno(), size, place)
                continue
            time, order, written, length = _HEAD.unpack_from(window, at)
            at += _HEAD.size + length
            yield Run(
                origin,
                _unpacked_time(time),
                order,
                window[at - length : at],
                _unpacked_time(written),
            )
