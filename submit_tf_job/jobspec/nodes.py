"""What a job spec says, before it means anything: a tree of located values, the same for YAML, JSON, settings and `--set`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from submit_tf_job.job import Place

__all__ = ["Entry", "Items", "Kind", "Node", "Scalar", "Table", "clip", "describe", "from_python"]

_SHOWN = 48


class Kind(Enum):
    """What a scalar is, by YAML 1.2's core schema or by JSON."""

    TEXT = "text"
    WHOLE = "a whole number"
    REAL = "a number"
    BOOLEAN = "true or false"
    NULL = "nothing"


@dataclass(frozen=True)
class Scalar:
    """One value.

    Attributes:
        text: The characters: of a text its content, of anything else what the file says.
        plain: Whether it stands in YAML without quotes, so that a YAML reader chose its kind.
    """

    kind: Kind
    text: str
    place: Place
    plain: bool = False


@dataclass(frozen=True)
class Items:
    """A list."""

    items: tuple[Node, ...]
    place: Place


@dataclass(frozen=True)
class Entry:
    """One key with its value; the place is the key's."""

    key: str
    place: Place
    value: Node


@dataclass(frozen=True)
class Table:
    """A mapping: keys are text as written, each there once."""

    entries: tuple[Entry, ...]
    place: Place

    def find(self, key: str) -> Entry | None:
        """Return the entry with that key."""
        return next((entry for entry in self.entries if entry.key == key), None)

    def without(self, *keys: str) -> Table:
        """Return a copy that lacks some keys."""
        return Table(tuple(entry for entry in self.entries if entry.key not in keys), self.place)

    def with_entry(self, new: Entry) -> Table:
        """Return a copy in which `new` replaces the entry of that key, or stands last."""
        if self.find(new.key) is None:
            return Table((*self.entries, new), self.place)
        return Table(tuple(new if entry.key == new.key else entry for entry in self.entries), self.place)


Node = Scalar | Items | Table


def clip(text: str) -> str:
    """Quote a user's text for a message: one line, no control characters, not too long."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


def describe(node: Node) -> str:
    """Say what was found, for a message."""
    if isinstance(node, Table):
        return "a mapping"
    if isinstance(node, Items):
        return "a list"
    if node.kind is Kind.TEXT:
        return f"the text {clip(node.text)}"
    if node.kind is Kind.NULL:
        return "nothing"
    return node.text if node.kind is Kind.BOOLEAN else f"the number {clip(node.text)[1:-1]}"


def from_python(value: object, place: Place) -> Node:
    """Turn plain Python values (of the settings) into nodes that all stand at one place."""
    if isinstance(value, Mapping):
        return Table(tuple(Entry(str(key), place, from_python(item, place)) for key, item in value.items()), place)
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return Items(tuple(from_python(item, place) for item in value), place)
    if isinstance(value, bool):
        return Scalar(Kind.BOOLEAN, "true" if value else "false", place)
    if value is None:
        return Scalar(Kind.NULL, "null", place)
    if isinstance(value, int):
        return Scalar(Kind.WHOLE, str(value), place)
    if isinstance(value, float):
        return Scalar(Kind.REAL, repr(value), place)
    return Scalar(Kind.TEXT, str(value), place)
