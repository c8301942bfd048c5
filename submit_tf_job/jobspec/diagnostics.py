"""What a reading of a job spec leaves behind besides the job: its problems, and the place of every value."""

from __future__ import annotations

from submit_tf_job.errors import JobSpecError, Problem
from submit_tf_job.job import Place

__all__ = ["BUILT_IN", "MAX_PROBLEMS", "Notes", "Unreadable"]

BUILT_IN = Place("default")
# A file of 1 MiB can hold a hundred thousand mistakes, and each costs a search for what was meant.
MAX_PROBLEMS = 200
_LONGEST_PATH = 300  # a key may be as long as the file


class Unreadable(Exception):
    """The text cannot be read any further."""

    def __init__(self, place: Place, message: str, path: str = "") -> None:
        super().__init__(message)
        self.place = place
        self.path = path


class Notes:
    """Problems and places, collected while a job spec is read."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.problems: set[Problem] = set()
        self.places: dict[str, Place] = {"": Place(source)}

    @property
    def full(self) -> bool:
        """Whether there are so many problems that further ones are not worth the time."""
        return len(self.problems) > MAX_PROBLEMS

    def problem(self, place: Place, path: str, message: str) -> None:
        """Note one problem."""
        path = path if path.isprintable() and len(path) <= _LONGEST_PATH else repr(path[:_LONGEST_PATH])[1:-1]
        new = Problem(place.line, place.column, path, message, place.source)
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.add(new)
        elif new not in self.problems:
            self.problems.add(Problem(0, 0, "", f"more than {MAX_PROBLEMS} problems; these are the first that were found", self.source))

    def default(self, path: str) -> None:
        """Note that a value is the built-in one."""
        self.places.setdefault(path, BUILT_IN)

    def check(self) -> None:
        """Raise what was found.

        Raises:
            JobSpecError: There is at least one problem.
        """
        if self.problems:
            raise JobSpecError(self.problems)
