"""Find and open the files that a gateway's caller has sent with a job spec.

Patterns are compared with the names of the files that arrived, and never with the file system. A
file is opened one path component at a time, without following a link. So no text in a job spec can
reach another file of this host.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from submit_tf_job.jobspec.job import PATTERN
from submit_tf_job.jobspec.reading_budget import ReadingBudget

LONGEST_PATH = 1024  # of a file's name, hence also of a pattern
_NO_NAME = ("", ".", "..")


class SentFiles:
    """The files below a directory. Links, devices and FIFOs in the directory are ignored.

    Args:
        root: The directory.
        budget: The limits for the work of finding files.
    """

    def __init__(self, root: Path, budget: ReadingBudget) -> None:
        self.root, self._budget = root, budget
        self._matches: dict[str, list[str]] = {}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all files, relative to the directory, sorted."""
        return tuple(sorted(_names_below(self.root, "")))

    @cached_property
    def _sent_directories(self) -> frozenset[str]:
        return frozenset(
            name[:end] for name in self.names for end, letter in enumerate(name) if letter == "/"
        )

    @cached_property
    def _known_names(self) -> frozenset[str]:
        return self._sent_directories.union(self.names)

    def name_of(self, path: Path) -> str:
        """Return the name of a path below the directory."""
        return path.relative_to(self.root).as_posix()

    def is_directory(self, name: str) -> bool:
        """Return whether there are files in a directory with this name."""
        return name in self._sent_directories or (name == "." and bool(self.names))

    def below(self, directory: str) -> list[str]:
        """Return the names of the files in a directory and its subdirectories."""
        start = "" if directory == "." else f"{directory}/"
        return [name for name in self.names if name.startswith(start)]

    def exact(self, src: str) -> str | None:
        """Return the name of the file or directory at a path; None if the caller did not send it,
        and for each path that is absolute, contains `..`, or is longer than `LONGEST_PATH`.
        """
        if src.startswith("/") or ".." in src.split("/") or len(src) > LONGEST_PATH:
            return None
        name = posixpath.normpath(src)
        return name if name in self._known_names or self.is_directory(name) else None

    def matching(self, pattern: str) -> list[str]:
        """Return the names of the files and directories that match a pattern, as `glob` does.

        `*`, `?` and `[…]` match within one component; a leading dot matches only a dot in the
        pattern; `**` matches any number of directories. Nothing matches a pattern with `..`, an
        absolute one, one without `*`, `?` and `[` (see `exact`), or one longer than `LONGEST_PATH`.

        Raises:
            UsageError: As `ReadingBudget.check`.
        """
        if pattern not in self._matches:
            self._matches[pattern] = self._matching_names(pattern)
        return self._matches[pattern]

    def _matching_names(self, pattern: str) -> list[str]:
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        is_relative = not pattern.startswith("/") and ".." not in parts
        if not PATTERN.search(pattern) or not is_relative or len(pattern) > LONGEST_PATH:
            return []
        tests = [None if part == "**" else _test_of(part) for part in parts]
        candidates = self._sent_directories if pattern.endswith("/") else self._known_names
        found = []
        for name in candidates:
            self._budget.check()
            if matches_components(name.split("/"), tests):
                found.append(name)
        return sorted(found)

    def open(self, name: str) -> int:
        """Return a descriptor of a file.

        Raises:
            OSError: The file cannot be opened, or a component of its name is a link.
        """
        if any(part in _NO_NAME for part in name.split("/")):
            raise FileNotFoundError(2, "not found", name)
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in name.split("/"):
            above = descriptor
            try:
                descriptor = os.open(part, _NO_LINK, dir_fd=above)
            finally:
                os.close(above)
        return descriptor


# without O_NONBLOCK a FIFO would wait for a writer
_NO_LINK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def _names_below(directory: Path, prefix: str) -> Iterator[str]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _names_below(directory / entry.name, f"{prefix}{entry.name}/")
            elif entry.is_file(follow_symlinks=False):
                yield prefix + entry.name


def _test_of(part: str) -> re.Pattern[str]:
    hidden = "" if part.startswith(".") else r"(?!\.)"
    return re.compile(hidden + fnmatch.translate(part))


def matches_components(
    components: list[str], tests: list[re.Pattern[str] | None], *, hidden: bool = False
) -> bool:
    """Return whether a name matches a pattern; the time is at most proportional to the product of
    their lengths.

    Args:
        components: The parts of the name.
        tests: The tests for the components; None stands for `**`.
        hidden: Whether `**` also matches names with a leading dot.
    """
    # the numbers of the tests that the next component may be for; None is `**`
    after = [True] + [False] * len(tests)
    for component in (*components, None):
        for number, test in enumerate(tests):
            after[number + 1] = after[number + 1] or (test is None and after[number])
        if component is None:
            break
        before, after = after, [False] * len(after)
        for number, test in enumerate(tests):
            if before[number] and test is None:
                after[number] = hidden or not component.startswith(".")
            elif before[number] and test is not None and test.match(component):
                after[number + 1] = True
    return after[-1]
