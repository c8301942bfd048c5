"""The located tree of a job spec: the values as they are written, each with its location; and the
problems that are found in the tree.

YAML, JSON, the settings and `--set` all produce this tree.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NoReturn

from submit_tf_job.errors import JobSpecError, Problem
from submit_tf_job.host.quoting import clip

_MOST_DIGITS = 1000


@dataclass(frozen=True)
class Location:
    """The source, line and column of a value in the user's input.

    Attributes:
        path: The path of the value in a file of another format, for messages; "" in a job spec.
    """

    source: str
    line: int = 0
    column: int = 0
    path: str = ""

    def __str__(self) -> str:
        """Return the location in the form that messages have: file:line:column."""
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


class ScalarKind(Enum):
    """The type of a scalar, as YAML 1.2's core schema or JSON defines it."""

    TEXT = "text"
    WHOLE = "a whole number"
    REAL = "a number"
    BOOLEAN = "true or false"
    NULL = "nothing"


@dataclass(frozen=True)
class Scalar:
    """One value that is neither a list nor a mapping.

    Attributes:
        text: For a text, its content; for any other scalar, the characters in the file.
        plain: Whether the value is written in YAML without quotes, so that a YAML reader decides
            what kind it is.
    """

    kind: ScalarKind
    text: str
    place: Location
    plain: bool = False


@dataclass(frozen=True)
class Items:
    """A list."""

    items: tuple[Node, ...]
    place: Location


@dataclass(frozen=True)
class Pair:
    """One key with its value; the location is that of the key."""

    key: str
    place: Location
    value: Node


@dataclass(frozen=True)
class Table:
    """A mapping. Its keys are texts as they are written, and each occurs once."""

    entries: tuple[Pair, ...]
    place: Location

    def find(self, key: str) -> Pair | None:
        """Return the entry with a key; None if there is none."""
        return next((entry for entry in self.entries if entry.key == key), None)

    def without(self, *keys: str) -> Table:
        """Return a copy without some keys."""
        return Table(tuple(entry for entry in self.entries if entry.key not in keys), self.place)

    def with_entry(self, new: Pair) -> Table:
        """Return a copy in which `new` replaces the entry with the same key, or is appended."""
        if self.find(new.key) is None:
            return Table((*self.entries, new), self.place)
        return Table(
            tuple(new if entry.key == new.key else entry for entry in self.entries), self.place
        )


Node = Scalar | Items | Table


def describe(node: Node) -> str:
    """Return a description of a node for a message."""
    if isinstance(node, Table):
        return "a mapping"
    if isinstance(node, Items):
        return "a list"
    if node.kind is ScalarKind.TEXT:
        return f"the text {clip(node.text)}"
    if node.kind is ScalarKind.NULL:
        return "nothing"
    return node.text if node.kind is ScalarKind.BOOLEAN else f"the number {clip(node.text)[1:-1]}"


def to_python(node: Node) -> Any:
    """Return a node as plain values; None for a number that JSON does not have (infinite, NaN), and
    for one of more than 1000 characters.
    """
    if isinstance(node, Table):
        return {entry.key: to_python(entry.value) for entry in node.entries}
    if isinstance(node, Items):
        return [to_python(item) for item in node.items]
    if node.kind is ScalarKind.TEXT:
        return node.text
    if node.kind is ScalarKind.BOOLEAN:
        return node.text.lower() == "true"
    if node.kind is ScalarKind.NULL or len(node.text) > _MOST_DIGITS:
        return None
    if node.kind is ScalarKind.WHOLE:
        return int(node.text, 0 if node.text[:2] in ("0x", "0o") else 10)
    try:
        number = float(node.text)
    except ValueError:  # .inf and .nan
        return None
    return number if math.isfinite(number) else None


def key_places(node: Node, prefix: str = "") -> Iterator[tuple[str, Location]]:
    """Yield the location of each key by its dotted path."""
    if isinstance(node, Items):
        for item in node.items:
            yield from key_places(item, prefix)
    for entry in node.entries if isinstance(node, Table) else ():
        path = f"{prefix}.{entry.key}".removeprefix(".")
        yield path, entry.place
        yield from key_places(entry.value, path)


def from_python(value: object, place: Location) -> Node:
    """Return plain Python values as nodes that all have one location; a value that is a node
    already keeps its own location.
    """
    if isinstance(value, (Scalar, Items, Table)):
        return value
    if isinstance(value, Mapping):
        return Table(
            tuple(Pair(str(key), place, from_python(item, place)) for key, item in value.items()),
            place,
        )
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return Items(tuple(from_python(item, place) for item in value), place)
    if isinstance(value, bool):
        return Scalar(ScalarKind.BOOLEAN, "true" if value else "false", place)
    if value is None:
        return Scalar(ScalarKind.NULL, "null", place)
    if isinstance(value, int):
        return Scalar(ScalarKind.WHOLE, str(value), place)
    if isinstance(value, float):
        return Scalar(ScalarKind.REAL, repr(value), place)
    return Scalar(ScalarKind.TEXT, str(value), place)


# --- the problems in it ---

AlwaysNone = NoReturn | None  # noqa: RUF020 - mypy lets a caller `return` it, which it does not with a plain None
BUILT_IN = Location("default")
# A file of 1 MiB can hold 100,000 problems, and each costs a search for similar keys.
MAX_PROBLEMS = 200
_LONGEST_PATH = 300  # a key may be as long as the file


class Unreadable(Exception):
    """The text cannot be parsed after this location."""

    def __init__(self, place: Location, message: str, path: str = "") -> None:
        super().__init__(message)
        self.place = place
        self.path = path


class Diagnostics:
    """Collects problems with their locations, and the location of each value by its path."""

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
        """Add one problem. If the location is in a file of another format, the path in that file
        (`place.path`) is shown. After `MAX_PROBLEMS`, only add that there are more.
        """
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
        """Record that the value at a path is the built-in default."""
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
    """The path of one value of the job spec; problems with the value are reported here."""

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
        """Report a problem with this value, or with one of its members; if the member is absent,
        the location is that of the mapping.
        """
        path = self.member(key).path if key else self.path
        place = self.notes.places.get(path, BUILT_IN)
        self.notes.problem(self.place if place == BUILT_IN else place, path, message)
        return None


def closest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that is most similar to a mistyped word; None if none is similar, or if
    the word has more than 40 characters.
    """
    if len(word) > 40:  # the comparison's time grows with the square of the length
        return None
    near = difflib.get_close_matches(word, list(candidates), n=1, cutoff=0.72)
    return next(iter(near), None)
