"""Containers, their files, their lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import NamedTuple, Protocol

from submit_tf_job.errors import NoSuchJob

__all__ = [
    "AM_FILES",
    "AM_TASK",
    "TASK_FILES",
    "FileInfo",
    "LogInventory",
    "LogLine",
    "NoSuchLog",
    "Origin",
    "Run",
    "Selection",
    "Shelf",
    "TaskContainer",
]

AM_TASK = "am"
TASK_FILES = ("stdout.txt", "stderr.txt")
AM_FILES = ("serviceam.log", "serviceam-out.txt", "serviceam-err.txt")  # ServiceClient.buildCommandLine; the first where a log4j file is


class NoSuchLog(NoSuchJob):
    """A container or one of its files is not where it was looked for."""


@dataclass(frozen=True)
class LogLine:
    """One line that a task wrote.

    Attributes:
        task: The task, such as `worker-0`; `am` for the ApplicationMaster; the container's id where nothing tells the task.
        container: The container that wrote it.
        file: Name of the file.
        text: The line without its end. Bytes that are no UTF-8 are written as `\\xff`; control characters are as they were.
        time: When it was written, where the line itself says so.
    """

    task: str
    container: str
    file: str
    text: str
    time: datetime | None = None


@dataclass(frozen=True)
class TaskContainer:
    """A container, and which task it was.

    Attributes:
        task: See `LogLine.task`.
        id: The container's id.
        host: Its node, where known.
        address: Its NodeManager's web address, where known.
    """

    task: str
    id: str
    host: str | None = None
    address: str | None = None

    @property
    def role(self) -> str:
        """The role of its task."""
        return self.task.rpartition("-")[0] or self.task

    @property
    def order(self) -> tuple[str, int, list[int]]:
        """Order by role, by index as a number, and then by age."""
        index = self.task.rpartition("-")[2]
        return self.role, int(index) if index.isdigit() else 0, [int(number) for number in re.findall(r"\d+", self.id)[-2:]]


@dataclass(frozen=True)
class FileInfo:
    """A log file of a container.

    Attributes:
        name: Its name.
        size: Bytes; None where that is not told.
        modified: When it was last changed; None where that is not told.
        zone: The zone of its node's clock; None where that is not told.
    """

    name: str
    size: int | None
    modified: datetime | None = None
    zone: tzinfo | None = None


@dataclass(frozen=True)
class LogInventory:
    """The log files of a job.

    Attributes:
        job: Its name.
        application_id: Its application.
        source: Where they are: `nodes`, `collected`, `log-server` or `disk`.
        containers: Containers with their files, in the order of tasks.
    """

    job: str
    application_id: str
    source: str
    containers: tuple[tuple[TaskContainer, tuple[FileInfo, ...]], ...]


class Origin(NamedTuple):
    """Whose lines they are."""

    container: TaskContainer
    file: str


class Run(NamedTuple):
    """Whole lines of one file that follow one another: the first may carry a time, the others carry none.

    Attributes:
        origin: Whose they are.
        at: Seconds since the epoch that the first line says; None where it says none.
        order: The latest time that the file has said so far; minus infinity before the first.
        data: The lines, each with its end.
    """

    origin: Origin
    at: float | None
    order: float
    data: bytes


@dataclass(frozen=True)
class Selection:
    """Which lines are wanted.

    Attributes:
        files: Names of files; () for those that a task's program writes to.
        tail: How many lines of each file's end; None for all.
        since: Seconds since the epoch before which lines are left out.
        grep: What a line must match.
    """

    files: tuple[str, ...] = ()
    tail: int | None = None
    since: float | None = None
    grep: re.Pattern[str] | None = None

    def names(self, container: TaskContainer) -> tuple[str, ...]:
        """Return the files that are wanted of a container, in order."""
        return self.files or (AM_FILES if container.task == AM_TASK else TASK_FILES)


class Shelf(Protocol):
    """A place where the logs of containers are."""

    def files(self, container: TaskContainer) -> tuple[FileInfo, ...]:
        """List a container's files, sorted by name.

        Raises:
            SubmitTFJobError: They cannot be listed.
        """

    def read(self, container: TaskContainer, file: str, *, tail: int | None = None) -> Iterator[bytes]:
        """Read a file, or its last `tail` bytes, piece by piece.

        Raises:
            SubmitTFJobError: It cannot be read.
        """
