"""The table of a format's keys: each row tells what becomes of a foreign key. The documentation and
the translation both use the table.

A row is `FATE KEY, KEY… [-> TARGET [CONVERTER]] [| TEXT]`. Several keys share a row if they are
spellings of one key, or if the same text applies to them. If the row has a TARGET, `carry` sets
that key of the job spec, with the value converted by one of `CONVERTERS`; `*` in the TARGET stands
for the role. With `!` instead of `|` the text is also a note at each value that is carried over. A
command line's key is `--flag` for a switch, `--flag=` for one value, `--flag=*` for several, and
`--flag name` for one of the properties that a flag takes as `name=value`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from submit_tf_job.dialects.translation import At


class Fate(str, Enum):
    """What becomes of a foreign key: it is translated, dropped with a warning, without effect on
    YARN (and so without a remark), or refused.
    """

    MAPPED = "="
    DROPPED = "~"
    SILENT = "."
    REFUSED = "x"


@dataclass(frozen=True)
class Row:
    """One row of a format's table.

    Attributes:
        fate: What becomes of the key.
        spellings: The key's spellings: keys joined by dots; `*` stands for any key, and `[]` for
            the items of a list.
        text: The text about the key, or why it is dropped.
        target: The key of a job spec that `carry` sets; "" if code translates the key.
        converter: The converter of the value.
        is_note: Whether the text is a note at each value that is carried over.
    """

    fate: Fate
    spellings: tuple[str, ...]
    text: str
    target: str = ""
    converter: str = "text"
    is_note: bool = False

    @property
    def becomes(self) -> str:
        """What becomes of the key, for the documentation."""
        return "; ".join(filter(None, [self.target and f"`{self.target}`", self.text]))


@dataclass(frozen=True)
class ForeignKey:
    """A key of another system's format in one spelling, with what becomes of it and the text about
    it.
    """

    path: str
    fate: Fate
    text: str


@dataclass(frozen=True)
class Rows:
    """The rows of a table, which apply below each of several prefixes."""

    prefixes: tuple[str, ...]
    rows: tuple[Row, ...]

    def each(self) -> Iterator[ForeignKey]:
        """Yield every key of the table: each spelling of each row, once below each prefix."""
        for prefix in self.prefixes:
            for row in self.rows:
                for spelling in row.spellings:
                    yield ForeignKey(prefix + path_of(spelling), row.fate, row.text)

    def spelled(self, keep: Callable[[str], bool]) -> Rows:
        """Return the rows with only those spellings that `keep` accepts; rows without any spelling
        are left out.
        """
        left = (replace(r, spellings=tuple(filter(keep, r.spellings))) for r in self.rows)
        return replace(self, rows=tuple(row for row in left if row.spellings))


def path_of(spelling: str) -> str:
    """Return the spelling of a key without the mark `=` or `=*` of a flag that takes values."""
    return re.sub(r"=\*?$", "", spelling)


_LINE = re.compile(
    r"(?P<fate>[=~.x]) (?P<keys>.+?)(?: -> (?P<to>\S+)(?: (?P<by>\w+))?)?"
    r"(?: (?P<kind>[|!]) (?P<text>.+))?"
)


def rows(table: str) -> tuple[Row, ...]:
    """Parse rows; an indented line continues the row before it."""
    found = []
    for line in re.sub(r"\n +", " ", table.strip()).splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise AssertionError(f"not a row: {line}")
        found.append(
            Row(
                Fate(match["fate"]),
                tuple(match["keys"].split(", ")),
                match["text"] or "",
                match["to"] or "",
                match["by"] or "text",
                match["kind"] == "!",
            )
        )
    return tuple(found)


# --- rows that act --------------------------------------------------------------------------------


def amount(mib: float) -> str:
    """Format an amount of memory in MiB for a job spec, such as `4Gi` or `512Mi`; fractions of a
    MiB are rounded up.
    """
    whole = max(1, math.ceil(mib))
    return f"{whole // 1024}Gi" if whole % 1024 == 0 else f"{whole}Mi"


# name → the value of a job spec; an empty one sets nothing
CONVERTERS: Mapping[str, Callable[[At], object]] = {
    "text": lambda at: at.text(),
    "whole": lambda at: at.whole(),
    "count": lambda at: at.whole(1),
    "seconds": lambda at: f"{seconds}s" if (seconds := at.whole(1)) else "",
    "endless": lambda at: f"{seconds}s" if (seconds := at.whole()) else "",  # 0 is no limit
    "mebibytes": lambda at: amount(at.whole(1, 1)),
    "parts": lambda at: at.parts(),
    "words": lambda at: at.words(),
}


def carry(table: Iterable[Row], find: Callable[[Row], At], role: str = "") -> None:
    """Set the target of each row to the value in the file; a row without a target, and a value that
    is absent or empty, sets nothing. If several rows have the same target, the first one with a
    value counts.

    Args:
        table: The rows.
        find: Returns a cursor at the value of a row's key.
        role: The role that `*` in a target stands for.
    """
    done = set()
    for row in table:
        at = find(row) if row.target and row.target not in done else None
        if at and (value := CONVERTERS[row.converter](at)):
            at.put(row.target.replace("*", role), value, row.text if row.is_note else "")
            done.add(row.target)


def values_of(at: At) -> Callable[[Row], At]:
    """Return a function that finds the value of a row's key below a cursor."""

    def find(row: Row) -> At:
        found = (at.get(name) or at.find(name) for name in map(path_of, row.spellings))
        return next(filter(None, found), at.get())

    return find


# --- all keys of a format -------------------------------------------------------------------------


@dataclass
class KeyTree:
    """A node of the tree of a format's keys.

    Attributes:
        key: The key of the row for this node; None if no row is for exactly this path.
        inner: The nodes below it, by the next part of the path.
    """

    key: ForeignKey | None = None
    inner: dict[str, KeyTree] = field(default_factory=dict)

    @property
    def is_final(self) -> bool:
        """Whether the fate of this key is that of everything below it: that is so unless the key is
        translated.
        """
        return self.key is not None and self.key.fate is not Fate.MAPPED


@cache  # a table has up to some hundred rows, and a program may convert many files
def key_tree(table: tuple[Rows, ...]) -> KeyTree:
    """Return the keys of all rows as a tree."""
    tree = KeyTree()
    for key in (key for group in table for key in group.each()):
        place = tree
        for step in re.findall(r"\[\]|[^.\[\]]+", key.path):
            place = place.inner.setdefault(step, KeyTree())
        place.key = key
    return tree


def matches(pattern: str, name: str) -> bool:
    """Return whether the name of a property matches a row's name: `*` stands for one part of it,
    `**` for the rest.
    """
    words = {"**": ".+", "*": "[^.]+"}
    parts = re.split(r"(\*\*?)", pattern)
    return (
        re.fullmatch("".join(words.get(part) or re.escape(part) for part in parts), name)
        is not None
    )
