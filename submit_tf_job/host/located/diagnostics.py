"""The problems of a job spec, and the location of every value, collected while it is read."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from submit_tf_job.errors import JobSpecError, Problem
from submit_tf_job.host.located.nodes import Location

AlwaysNone = NoReturn | None  # noqa: RUF020 - mypy lets a caller `return` it, which it does not with a plain None
BUILT_IN = Location("default")
# A file of 1 MiB can hold 100,000 problems, and each costs a search for similar keys.
MAX_PROBLEMS = 200
_LONGEST_PATH = 300  # a key may be as long as the file


class Unreadable(Exception):
    """The text cannot be parsed beyond this location."""

    def __init__(self, place: Location, message: str, path: str = "") -> None:
        super().__init__(message)
        self.place = place
        self.path = path


class Diagnostics:
    """Problems by location, and the location of each value by path."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.problems: set[Problem] = set()
        self.places: dict[str, Location] = {"": Location(source)}
        self.tagged: set[Location] = set()  # lists and mappings that a tag makes something else

    @property
    def full(self) -> bool:
        """Whether the limit of problems is reached."""
        return len(self.problems) > MAX_PROBLEMS

    def problem(self, place: Location, path: str, message: str) -> None:
        """Add one problem; the location of another format has the path in that format."""
        path = place.path or path
        path = (
            path
            if path.isprintable() and len(path) <= _LONGEST_PATH
            else repr(path[:_LONGEST_PATH])[1:-1]
        )
        new = Problem(place.line, place.column, path, message, place.source)
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.add(new)
        elif new not in self.problems:
            self.problems.add(
                Problem(
                    0,
                    0,
                    "",
                    f"more than {MAX_PROBLEMS} problems; these are the first that were found",
                    self.source,
                )
            )

    def default(self, path: str) -> None:
        """Record that the built-in default of a path is used."""
        self.places.setdefault(path, BUILT_IN)

    def check(self) -> None:
        """Raise an error with all problems, if any.

        Raises:
            JobSpecError: At least one problem was reported.
        """
        if self.problems:
            raise JobSpecError(self.problems)


@dataclass(frozen=True)
class Where:
    """The path of one value of the job spec, where problems are reported."""

    path: str
    notes: Diagnostics

    @property
    def place(self) -> Location:
        """The location of the value."""
        return self.notes.places[self.path]

    def member(self, name: str) -> Where:
        """Return the path of a member of a mapping."""
        return Where(f"{self.path}.{name}".removeprefix("."), self.notes)

    def item(self, index: int) -> Where:
        """Return the path of an item of a list."""
        return Where(f"{self.path}[{index}]", self.notes)

    def fail(self, message: str, key: str = "") -> AlwaysNone:
        """Report a problem of this value, or of one of its members; an absent member has the
        location of the mapping.
        """
        path = self.member(key).path if key else self.path
        place = self.notes.places.get(path, BUILT_IN)
        self.notes.problem(self.place if place == BUILT_IN else place, path, message)
        return None


def closest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that is most similar to a mistyped word."""
    if len(word) > 40:  # the comparison's time grows with the square of the length
        return None
    near = difflib.get_close_matches(word, list(candidates), n=1, cutoff=0.72)
    return next(iter(near), None)
