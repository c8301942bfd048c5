"""Data classes for containers, their log files and their lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import NamedTuple, Protocol

from submit_tf_job.container import contract
from submit_tf_job.errors import NoSuchJob

AM_TASK = "am"
TASK_FILES = ("stdout.txt", "stderr.txt")
# ServiceClient.buildCommandLine; the first where a log4j file is configured
AM_FILES = ("serviceam.log", "serviceam-out.txt", "serviceam-err.txt")
# Lines for programs, and lines about the image instead of the job: bash warns in each image without
# the locale that YARN's ApplicationMaster sets (seen on 3.1 to 3.4).
_MACHINE = (
    re.escape(contract.PROGRESS_MARK).encode() + rb"\{",
    re.escape(contract.OUTCOME_MARK).encode() + rb"\{",
    rb"[^\n]{0,80}: warning: setlocale: LC_ALL: cannot change locale \(",
)
_BOOTSTRAP = rb"\[submit_tf_job\] "
MACHINE_LINES = re.compile(rb"^(?:" + b"|".join(_MACHINE) + rb")[^\n]*\n", re.MULTILINE)
MACHINE_AND_BOOTSTRAP_LINES = re.compile(
    rb"^(?:" + b"|".join((*_MACHINE, _BOOTSTRAP)) + rb")[^\n]*\n", re.MULTILINE
)


class NoSuchLog(NoSuchJob):
    """A container, or one of its files, has no logs in this source."""


@dataclass(frozen=True)
class LogLine:
    """One line that a task wrote.

    Attributes:
        task: The task, such as `worker-0`; `am` for the ApplicationMaster; the container's id where
            the task is unknown.
        container: The container that wrote it.
        file: Name of the file.
        text: The line without its end. Bytes that are not UTF-8 are written as `\\xff`; control
            characters are kept.
        time: The time in the line; None if the line has no time.
        written: When the line was written at the latest, according to the times that the bootstrap
            records beside the file (`contract.TIMES_FILE`); accurate to 1 s in the first hour of a
            task, 10 s in the first day, 60 s later; None if unknown.
    """

    task: str
    container: str
    file: str
    text: str
    time: datetime | None = None
    written: datetime | None = None


@dataclass(frozen=True)
class TaskContainer:
    """A container and its task.

    Attributes:
        task: See `LogLine.task`.
        id: The container's id.
        host: The container's node; None if unknown.
        address: The web address of the container's NodeManager; None if unknown.
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
    def order(self) -> tuple[bool, str, int, list[int]]:
        """Sort key: role, index as a number, then age. The witness, which runs no program, comes
        last.
        """
        index = self.task.rpartition("-")[2]
        return (
            self.role == contract.WITNESS_ROLE,
            self.role,
            int(index) if index.isdigit() else 0,
            [int(number) for number in re.findall(r"\d+", self.id)[-2:]],
        )


@dataclass(frozen=True)
class FileInfo:
    """A log file of a container.

    Attributes:
        name: The file's name.
        size: The file's size in bytes; None if unknown.
        modified: When the file was last changed; None if unknown.
        zone: The time zone of the node's clock; None if unknown.
    """

    name: str
    size: int | None
    modified: datetime | None = None
    zone: tzinfo | None = None


@dataclass(frozen=True)
class LogInventory:
    """The log files of a job.

    Attributes:
        job: The job's name.
        application_id: The application of the job's run.
        source: Where the logs are: `nodes`, `collected` or `log-server`.
        containers: Containers with their files, in the order of tasks.
    """

    job: str
    application_id: str
    source: str
    containers: tuple[tuple[TaskContainer, tuple[FileInfo, ...]], ...]


class Origin(NamedTuple):
    """The container and the file from which lines are read."""

    container: TaskContainer
    file: str


class Run(NamedTuple):
    """Consecutive whole lines of one file. Only the first line may have a time, unless times are
    not parsed.

    Attributes:
        origin: The lines' container and file.
        at: The time in the first line, in seconds since the epoch; None if it has no time.
        order: The latest known time in the file so far, by which files are merged; minus infinity
            before the first time.
        data: The lines, each with its end.
        written: When the first line was written at the latest, in seconds since the epoch (see
            `LogLine.written`); None if unknown.
    """

    origin: Origin
    at: float | None
    order: float
    data: bytes
    written: float | None = None


@dataclass(frozen=True)
class LogSelection:
    """The filters that select log lines.

    Attributes:
        files: Names of files; () for the files that a task's program writes.
        tail: Number of lines at each file's end; None for all.
        since: Seconds since the epoch before which lines are left out.
        grep: The pattern that a line must match.
        hide: Whole lines that are left out, as a multi-line pattern, such as `MACHINE_LINES`.
    """

    files: tuple[str, ...] = ()
    tail: int | None = None
    since: float | None = None
    grep: re.Pattern[str] | None = None
    hide: re.Pattern[bytes] | None = None

    def names(self, container: TaskContainer) -> tuple[str, ...]:
        """Return the names of the container's files to read, in order."""
        return self.files or (AM_FILES if container.task == AM_TASK else TASK_FILES)


class LogSource(Protocol):
    """A source of containers' logs: NodeManagers, collected logs, or a log server."""

    def files(self, container: TaskContainer) -> tuple[FileInfo, ...]:
        """List a container's files, sorted by name.

        Raises:
            SubmitTFJobError: The files cannot be listed.
        """

    def read(
        self, container: TaskContainer, file: str, *, tail: int | None = None
    ) -> Iterator[bytes]:
        """Read a file, or its last `tail` bytes, piece by piece.

        Raises:
            SubmitTFJobError: The file cannot be read.
        """
