"""Read the logs of containers as they are now."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from submit_tf_job.errors import NoSuchJob, SubmitTFJobError, UsageError
from submit_tf_job.tasklogs import lines
from submit_tf_job.tasklogs.merge import in_order
from submit_tf_job.tasklogs.model import AM_TASK, FileInfo, LogLine, NoSuchLog, Origin, Run, Selection, Shelf, TaskContainer
from submit_tf_job.tasklogs.times import Dates

__all__ = [
    "LogFile",
    "Reading",
    "chosen",
    "dates_of",
    "file_runs",
    "filtered",
    "listed",
    "log_lines",
    "nothing_yet",
    "pattern",
    "read",
    "tail_size",
    "wanted_files",
]

WORKERS = 8
Say = Callable[[str], None]


@dataclass(frozen=True)
class LogFile:
    """One file that is to be read."""

    container: TaskContainer
    info: FileInfo

    @property
    def origin(self) -> Origin:
        """Whose lines are in it."""
        return Origin(self.container, self.info.name)


class Reading:
    """Logs that are read while they are asked for: once.

    Args:
        make: Begins to read; told whether the times of lines are wanted.
        tasks: The tasks whose logs they are; more may come where they are followed.
        following: Whether they go on until the job is over.
    """

    def __init__(self, make: Callable[[bool], Iterator[Run]], tasks: Sequence[str], *, following: bool = False) -> None:
        self._make = make
        self.tasks = tuple(dict.fromkeys(tasks))
        self.following = following

    def __iter__(self) -> Iterator[LogLine]:
        """Give line after line."""
        return log_lines(self._make(True))

    def runs(self) -> Iterator[Run]:
        """Give lines in larger parts, which is faster; what they say of time is not read where the order does not need it."""
        return self._make(False)


def chosen(containers: Iterable[TaskContainer], task: str | None, *, am: bool = False, roles: Iterable[str] = ()) -> list[TaskContainer]:
    """Choose containers by task, by role, or the ApplicationMaster's.

    Args:
        containers: Those that are there.
        task: A task, a role or a container's id; None for all tasks.
        am: Only the ApplicationMaster's.
        roles: Roles that the job has, whether or not a container is there already.

    Raises:
        UsageError: There is no such task or role.
    """
    every = sorted(containers, key=lambda container: container.order)
    if am or task == AM_TASK:
        return [container for container in every if container.task == AM_TASK]
    tasks = [container for container in every if container.task != AM_TASK]
    if task is None:
        return tasks
    found = [container for container in tasks if task in (container.task, container.role, container.id)]
    if not found and (tasks or roles) and not {task, task.rpartition("-")[0]} & set(roles):
        raise UsageError(
            f"there is no task or role {task!r} with logs", hint=f"There are {_some([container.task for container in tasks] or roles)}."
        )
    return found


def _some(words: Iterable[str], most: int = 20) -> str:
    found = list(dict.fromkeys(words))
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")


def listed(shelf: Shelf, containers: Sequence[TaskContainer], say: Say) -> list[tuple[TaskContainer, tuple[FileInfo, ...]]]:
    """List the files of containers, a few at a time; what cannot be listed is said.

    Raises:
        SubmitTFJobError: None of them could be listed.
    """

    def files(container: TaskContainer) -> tuple[FileInfo, ...] | SubmitTFJobError:
        try:
            return shelf.files(container)
        except SubmitTFJobError as error:
            return error

    with ThreadPoolExecutor(max_workers=max(1, min(WORKERS, len(containers)))) as pool:
        answers = list(zip(containers, pool.map(files, containers), strict=True))
    failures = [(container, answer) for container, answer in answers if isinstance(answer, SubmitTFJobError)]
    if failures and len(failures) == len(answers):
        raise failures[0][1]
    for container, error in failures:
        say(f"{container.task}: its logs cannot be read: {error.message}")
    return [(container, answer) for container, answer in answers if not isinstance(answer, SubmitTFJobError)]


def wanted_files(
    found: Iterable[tuple[TaskContainer, tuple[FileInfo, ...]]], selection: Selection, ended: datetime | None = None
) -> list[LogFile]:
    """Choose files of containers; of each task's containers the last, where only the end is wanted.

    Args:
        found: Containers with their files, the older of a task's before the newer.
        selection: What is wanted.
        ended: When the application ended: no file of it was changed later.

    Raises:
        NoSuchLog: A file was asked for by name, and no container has one.
    """
    found = list(found)
    if selection.tail is not None:
        newest = {container.task: container.id for container, _files in found}
        found = [(container, files) for container, files in found if newest[container.task] == container.id]
    out = [
        LogFile(container, replace(info, modified=info.modified or ended))
        for container, files in found
        for name in selection.names(container)
        for info in files
        if info.name == name
    ]
    missing = [name for name in selection.files if name not in {file.info.name for file in out}]
    if missing and found:
        there = _some(sorted({info.name for _container, files in found for info in files}), 40)
        raise NoSuchLog(f"there is no log file {missing[0]}", hint=f"There are {there}." if there else "Nothing has been written yet.")
    return out


def dates_of(info: FileInfo, now: float) -> Dates:
    """Make the reader of a file's times: they are of its node's zone, where that is known, else of this machine's."""
    moment = datetime.fromtimestamp(now, timezone.utc)
    return Dates(moment.astimezone(info.zone))


def tail_size(shelf: Shelf, file: LogFile, selection: Selection, dates: Dates) -> int | None:
    """Find how much of a file's end has to be read; None for all of it."""
    size = file.info.size
    if not size:
        return None
    enough = None
    if selection.since is not None:
        enough = lines.begins_before(selection.since, dates)
    elif selection.tail is not None and selection.grep is None:
        enough = lines.begins_at(selection.tail, dates)
    if enough is None:
        return None
    return lines.start_of_tail(lambda tail: shelf.read(file.container, file.info.name, tail=tail), size, enough)


def file_runs(shelf: Shelf, file: LogFile, selection: Selection, now: float, say: Say, *, times: bool = True) -> Iterator[Run]:
    """Read what is wanted of one file."""
    if file.info.size == 0 or (selection.since is not None and file.info.modified and file.info.modified.timestamp() < selection.since):
        return
    dates = dates_of(file.info, now)
    tail = tail_size(shelf, file, selection, dates)
    runs = lines.dated(file.origin, shelf.read(file.container, file.info.name, tail=tail), dates if times else None)
    yield from filtered(runs, file, selection, say)


def filtered(runs: Iterator[Run], file: LogFile, selection: Selection, say: Say) -> Iterator[Run]:
    """Keep the lines that are wanted."""
    if selection.since is not None:
        where = f"{file.info.name} of {file.container.task}"
        runs = lines.after(runs, selection.since, lambda: say(f"{where} says no times; all of it that may be new is shown"))
    if selection.grep is not None:
        runs = lines.matching(runs, selection.grep.search)
    if selection.tail is not None:
        runs = lines.last_lines(runs, selection.tail)
    return runs


def surviving(runs: Iterator[Run], file: LogFile, say: Say) -> Iterator[Run]:
    """Say that the rest of a file cannot be read, instead of ending with it."""
    try:
        yield from runs
    except SubmitTFJobError as error:
        say(f"{file.container.task}: {file.info.name} cannot be read (on): {error.message}")


def read(shelf: Shelf, files: Sequence[LogFile], selection: Selection, now: float, say: Say) -> Reading:
    """Read files in order of time."""

    def make(times: bool) -> Iterator[Run]:
        need_times = times or len(files) > 1 or selection.since is not None
        if len(files) == 1:
            return file_runs(shelf, files[0], selection, now, say, times=need_times)
        return in_order([surviving(file_runs(shelf, file, selection, now, say), file, say) for file in files])

    return Reading(make, [file.container.task for file in files])


def log_lines(runs: Iterable[Run]) -> Iterator[LogLine]:
    """Make single lines of runs."""
    for run in runs:
        (container, file), at = run.origin, run.at
        for line in run.data.split(b"\n")[:-1]:
            moment = None if at is None else datetime.fromtimestamp(at, timezone.utc)
            yield LogLine(container.task, container.id, file, lines.text_of(line), moment)
            at = None


def pattern(text: str) -> re.Pattern[str]:
    """Compile what `--grep` takes.

    Raises:
        UsageError: It is no regular expression.
    """
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"--grep: {text!r} is no regular expression: {error}") from None


def nothing_yet(name: str, why: str) -> NoSuchJob:
    """Make the error for a job without any container."""
    return NoSuchJob(f"{name} has no logs yet: {why}", hint=f"submit_tf_job logs {name} -f waits for them.")
