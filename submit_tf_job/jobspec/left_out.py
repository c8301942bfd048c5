"""Decide which files of a directory in `files` are not sent: by patterns like those of .gitignore,
and by built-in rules for caches, virtual environments and the like.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from submit_tf_job.jobspec.reading_budget import ReadingBudget
from submit_tf_job.jobspec.secret_names import is_secret
from submit_tf_job.jobspec.sent_files import LONGEST_PATH, matches_components

CACHES = frozenset(
    (
        "__pycache__",
        ".git",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".nox",
        ".pytest_cache",
        ".ruff_cache",
        ".tox",
    )
)
AT_TOP = frozenset((".venv", "node_modules"))
_SHOWN = 5


@dataclass(frozen=True)
class _Rule:
    below: str  # the directory that the pattern stands in, "" for the top
    tests: list[re.Pattern[str] | None]
    is_negated: bool
    of_directories: bool
    of_gitignore: bool


@dataclass
class LeftOut:
    """Decides which files of one directory are not sent.

    Attributes:
        budget: The limits for the work of matching.
        follows_gitignore: Whether files that .gitignore names are left out, too.
    """

    budget: ReadingBudget
    follows_gitignore: bool = False
    _rules: list[_Rule] = field(default_factory=list)
    _decided: dict[str, bool] = field(default_factory=dict)
    _left: list[str] = field(default_factory=list)
    _ignored: list[str] = field(default_factory=list)
    _secrets: list[str] = field(default_factory=list)

    def add_patterns(self, lines: Iterable[str], *, gitignore_of: str | None = None) -> None:
        """Add patterns; the last pattern that matches decides. Patterns of `exclude` take
        precedence over those of a .gitignore. Patterns longer than any file name are ignored.

        Args:
            lines: The patterns, written like lines of a .gitignore.
            gitignore_of: The directory of the .gitignore that contains the patterns; None for
                patterns of `exclude`.
        """
        for line in lines:
            text = line.rstrip()
            if not text or text.startswith("#") or len(text) > LONGEST_PATH:
                continue
            is_negated = text.startswith("!")
            text = text.removeprefix("!").removeprefix("\\").removeprefix("./")
            parts = [part for part in text.split("/") if part]
            if "/" not in text.rstrip("/"):
                parts = ["**", *parts]
            tests = [None if x == "**" else re.compile(fnmatch.translate(x)) for x in parts]
            of_git = gitignore_of is not None
            rule = _Rule(gitignore_of or "", tests, is_negated, text.endswith("/"), of_git)
            self._rules.append(rule)

    def covers(self, name: str, *, is_directory: bool, is_environment: bool = False) -> bool:
        """Return whether a file or directory is left out, given that the directory above it is not
        left out; record it for `remarks`. A file that looks like a secret is not left out for that,
        only recorded.

        Args:
            name: Its path relative to the directory in `files`.
            is_directory: Whether the path is a directory.
            is_environment: Whether the path is a directory with a virtual environment.
        """
        own = self._decision_about(name, is_directory=is_directory, of_gitignore=False)
        if own is None:
            last = posixpath.basename(name)
            is_lock = last.startswith(".#")  # Emacs' link that leads nowhere
            own = is_environment or is_lock or last in CACHES
            own = own or (is_directory and name in AT_TOP)
            if not own and self._decision_about(name, is_directory=is_directory, of_gitignore=True):
                own = self.follows_gitignore
                is_below = any(name.startswith(f"{last}/") for last in self._ignored[-1:])
                self._ignored += [] if own or is_below else [name]
        if own and posixpath.basename(name) != "__pycache__":
            self._left.append(name)
        if not own and not is_directory and is_secret(posixpath.basename(name)):
            self._secrets.append(name)
        return own

    def covers_below(self, name: str, environments: frozenset[str]) -> bool:
        """Return whether a file, or any directory above it, is left out.

        Args:
            name: The file's path relative to the directory in `files`.
            environments: The names of directories with a virtual environment.
        """
        ends = [end for end, letter in enumerate(name) if letter == "/"]
        for directory in (name[:end] for end in ends):
            if directory not in self._decided:
                is_environment = directory in environments
                self._decided[directory] = self.covers(
                    directory, is_directory=True, is_environment=is_environment
                )
            if self._decided[directory]:
                return True
        return self.covers(name, is_directory=False)

    def remarks(self, shown: str) -> Iterator[tuple[Literal["note", "warning"], str]]:
        """Yield level and text of each remark for the user.

        Args:
            shown: The directory's name.
        """
        if self._left:
            yield "note", f"not sent of {shown}: {_listed_names(self._left)}"
        if self._ignored:
            sent = f"{_listed_names(self._ignored)}, which {_is_or_are(self._ignored)} sent"
            yield "note", f".gitignore names {sent}; gitignore: true leaves it out"
        if self._secrets:
            looks = "looks like a secret" if len(self._secrets) == 1 else "look like secrets"
            sent = f"{_listed_names(self._secrets)} {looks}, and {_is_or_are(self._secrets)} sent"
            names = ", ".join(dict.fromkeys(map(posixpath.basename, self._secrets)))
            them = "it" if len(self._secrets) == 1 else "them"
            yield "warning", f"{sent}; leave {them} out by exclude: [{names}]"

    def _decision_about(self, name: str, *, is_directory: bool, of_gitignore: bool) -> bool | None:
        for rule in reversed(self._rules):
            self.budget.check()
            below = f"{rule.below}/" if rule.below else ""
            if rule.of_gitignore != of_gitignore or not name.startswith(below):
                continue
            if rule.of_directories and not is_directory:
                continue
            if matches_components(name[len(below) :].split("/"), rule.tests, hidden=True):
                return not rule.is_negated
        return None


def _listed_names(names: list[str]) -> str:
    more = [f"and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    return ", ".join([*names[:_SHOWN], *more])


def _is_or_are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
