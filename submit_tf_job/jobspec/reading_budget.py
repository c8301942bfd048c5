"""Limit the time and memory that it costs this host to read a job spec of another user.

A few bytes of text can cost hours: patterns over deep directories, archives that unpack to
terabytes. So each loop whose number of steps depends on such a text counts its steps here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from submit_tf_job.errors import UsageError

CPU_S = 20.0
ENTRIES = 10_000
ROLE_FILES = 50_000
UNPACKED = 4 * 1024**3
MEMBERS = 100_000
RATIO = 200
FREE = 64 * 1024**2  # unpacked bytes that no ratio is asked of
_GIB = 1024**3


class TooMuch(Exception):
    """A limit was exceeded; the text of the error is the end of a message about a file or entry."""


@dataclass
class ReadingBudget:
    """The limits for reading one job spec, and what the reading has cost until now; by default
    there are no limits.

    Attributes:
        cpu_s: CPU seconds of the thread that reads the job spec.
        entries: Number of entries of the lists of files; each match of a pattern counts as one.
        role_files: Number of files of all roles together; files of the job count once for each
            role.
        unpacked: Bytes of all archives after unpacking.
        members: Number of members of all archives.
        ratio: Unpacked bytes for each byte of an archive, beyond the first 64 MiB.
        has_ended: Returns whether the caller has left, so that nothing waits for the result.
    """

    cpu_s: float = math.inf
    entries: float = math.inf
    role_files: float = math.inf
    unpacked: float = math.inf
    members: float = math.inf
    ratio: float = math.inf
    has_ended: Callable[[], bool] = lambda: False
    _begin: float = field(default_factory=time.thread_time)
    _entries: int = 0
    _unpacked: int = 0
    _members: int = 0

    @classmethod
    def of_others(cls, has_ended: Callable[[], bool] = lambda: False) -> ReadingBudget:
        """Return a new budget for a job spec that another user has sent."""
        return cls(CPU_S, ENTRIES, ROLE_FILES, UNPACKED, MEMBERS, RATIO, has_ended)

    @property
    def is_bounded(self) -> bool:
        """Whether the budget has limits, judged by `cpu_s` alone."""
        return self.cpu_s < math.inf

    def check(self) -> None:
        """Raise an error if reading the job spec has taken too much CPU time, or if its result is
        not awaited any more. Loops call this method.

        Raises:
            UsageError: The CPU time is used up, or the caller has left.
        """
        if self.has_ended():
            raise UsageError("nobody waits for this job spec any more")
        if time.thread_time() - self._begin > self.cpu_s:
            raise UsageError(
                f"to read this job spec takes more than {self.cpu_s:g} s of CPU here",
                hint="list directories instead of patterns, and put large archives on HDFS",
            )

    def add_entry(self) -> None:
        """Count one entry of a list of files.

        Raises:
            TooMuch: There are too many entries.
            UsageError: As `check`.
        """
        self.check()
        self._entries += 1
        if self._entries > self.entries:
            raise TooMuch(
                f"with it the job has more than {self.entries} files; list them once, or pack "
                "them into one archive"
            )

    def check_role_files(self, many: int) -> None:
        """Check how many files all roles have together.

        Raises:
            TooMuch: There are too many files.
            UsageError: As `check`.
        """
        self.check()
        if many > self.role_files:
            raise TooMuch(
                f"all roles together have {many} files, and {self.role_files} are the most; pack "
                "them into one archive"
            )

    def add_member(self) -> None:
        """Count one member of an archive.

        Raises:
            TooMuch: There are too many members.
            UsageError: As `check`.
        """
        self.check()
        self._members += 1
        if self._members > self.members:
            raise TooMuch(f"with it the archives have more than {self.members} members")

    def add_unpacked(self, size: int, of_archive: int, packed: int) -> None:
        """Count unpacked bytes of an archive.

        Args:
            size: The number of bytes that were unpacked now.
            of_archive: The number of bytes that were unpacked from this archive until now.
            packed: The size of the packed archive in bytes.

        Raises:
            TooMuch: There are too many bytes, of all archives or for the size of this one.
            UsageError: As `check`.
        """
        self.check()
        self._unpacked += size
        if self._unpacked > self.unpacked:
            raise TooMuch(
                f"with it the archives unpack to more than {self.unpacked // _GIB:g} GiB; put "
                "large data on HDFS"
            )
        if of_archive > max(FREE, self.ratio * packed):
            raise TooMuch(f"unpacks to more than {self.ratio} times its size")
