"""Read a located value as a typed one.

Each reader returns the typed value; for a wrong value it reports the problem and returns None.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import NoReturn, TypeVar

from submit_tf_job.jobspec.diagnostics import Diagnostics, closest
from submit_tf_job.jobspec.job import Location
from submit_tf_job.jobspec.nodes import Items, Node, Pair, Scalar, ScalarKind, Table, clip, describe
from submit_tf_job.jobspec.scalars import retyped, surprising

__all__ = ["Value"]

T = TypeVar("T")
AlwaysNone = NoReturn | None  # noqa: RUF020 - mypy lets a caller `return` it, which it does not with a plain None

NO_SYNONYMS: Mapping[str, str] = MappingProxyType({})
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_FLAG_WORDS = {
    "yes": "true",
    "on": "true",
    "true": "true",
    "no": "false",
    "off": "false",
    "false": "false",
}
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_MOST_DIGITS = 15


class Value:
    """A node with its path and location."""

    def __init__(self, node: Node, path: str, place: Location, notes: Diagnostics) -> None:
        self.node = node
        self.path = path
        self.place = place
        self.notes = notes
        self.longer = ""  # the mapping that may stand here instead
        notes.places[path] = place

    def fail(self, message: str) -> AlwaysNone:
        """Report a problem at this value."""
        self.notes.problem(self.place, self.path, message)
        return None

    @property
    def is_text(self) -> bool:
        """Whether the value is text."""
        return isinstance(self.node, Scalar) and self.node.kind is ScalarKind.TEXT

    @property
    def is_list(self) -> bool:
        """Whether the value is a list."""
        return isinstance(self.node, Items)

    @property
    def is_mapping(self) -> bool:
        """Whether the value is a mapping."""
        return isinstance(self.node, Table)

    def text(self, *, expected: str = "text", empty: bool = False) -> str | None:
        """Return text; empty text is a problem unless `empty` is set."""
        node = self.node
        if not isinstance(node, Scalar) or node.kind is not ScalarKind.TEXT:
            return self.fail(self._not_text(expected, empty))
        control = _CONTROL.search(node.text)
        if control:
            return self.fail(
                f"the text holds the control character U+{ord(control.group()):04X}; take it out"
            )
        if not empty and not node.text.strip():
            return self.fail(f"expected {expected}, found an empty one")
        return node.text

    def _not_text(self, expected: str, empty: bool) -> str:
        node = self.node
        found = f"expected {expected}, found {describe(node)}"
        if not isinstance(node, Scalar) or expected != "text":
            return found
        if node.kind is ScalarKind.NULL:
            return found + ('; write "" for empty text' if empty else "")
        if node.plain:
            return (
                f"YAML reads {clip(node.text)[1:-1]} as {retyped(node)}; for text, quote it: "
                f"{_quoted(node.text)}"
            )
        return f"{found}; put it in quotes"

    def exact_text(self) -> str | None:
        """Return text for a program; text that a YAML reader would retype must be in quotes."""
        text = self.text(empty=True)
        if text is not None and isinstance(self.node, Scalar) and self.node.plain:
            made = surprising(text)
            if made:
                return self.fail(
                    f"YAML 1.1 reads {clip(text)[1:-1]} as {made}; for text, quote it: "
                    f"{_quoted(text)}"
                )
        return text

    def matching(self, pattern: re.Pattern[str], message: str) -> str | None:
        """Return text that matches a pattern as a whole; `message` is the problem of other text."""
        node = self.node
        if (
            isinstance(node, Scalar)
            and node.kind is not ScalarKind.NULL
            and not pattern.fullmatch(node.text)
        ):
            return self.fail(f"{clip(node.text)} {message}")
        return self.text()

    def number(self) -> int | None:
        """Return a whole number, written in decimal without quotes."""
        node = self.node
        if not isinstance(node, Scalar) or node.kind is not ScalarKind.WHOLE:
            hint = (
                "; leave out the quotes"
                if self.is_text and isinstance(node, Scalar) and _DECIMAL.fullmatch(node.text)
                else ""
            )
            longer = f" or {self.longer}" if self.longer else ""
            return self.fail(f"expected a whole number{longer}, found {describe(node)}{hint}")
        if not _DECIMAL.fullmatch(node.text):
            if len(node.text) > _MOST_DIGITS:
                return self.fail(f"the number {clip(node.text)[1:-1]} is too large")
            return self.fail(
                f"write {node.text} as a plain decimal number; YAML readers disagree about "
                f"what it is"
            )
        if len(node.text) > _MOST_DIGITS:
            return self.fail(f"the number {clip(node.text)[1:-1]} is too large")
        return int(node.text)

    def whole(self, least: int, most: int, too_few: str = "") -> int | None:
        """Return a whole number within bounds; `too_few` is the hint for one below the minimum."""
        number = self.number()
        if number is None:
            return None
        if number < least:
            return self.fail(
                f"must be at least {least}, not {number}" + (f"; {too_few}" if too_few else "")
            )
        if number > most:
            return self.fail(f"must be at most {most}, not {number}")
        return number

    def flag(self) -> bool | None:
        """Return true or false."""
        node = self.node
        if not isinstance(node, Scalar) or node.kind is not ScalarKind.BOOLEAN:
            near = _FLAG_WORDS.get(node.text.lower()) if isinstance(node, Scalar) else None
            return self.fail(
                f"expected true or false, found {describe(node)}"
                + (f"; write {near}, without quotes" if near else "")
            )
        return node.text.lower() == "true"

    def word(self, words: Collection[str], synonyms: Mapping[str, str] = NO_SYNONYMS) -> str | None:
        """Return one of several words; `synonyms` maps other tools' words to ours."""
        text = self.text(expected=f"one of {', '.join(words)}")
        if text is None or text in words:
            return text
        like = text.lower().replace("_", "-")
        near = synonyms.get(like.replace("-", "")) or closest(like, words)
        meant = f"; did you mean '{near}'?" if near else f"; it is one of {', '.join(words)}"
        return self.fail(f"unknown value {clip(text)}{meant}")

    def items(self, expected: str) -> list[Value]:
        """Return the items of a list."""
        if not isinstance(self.node, Items):
            self.fail(
                f"expected {expected}, found {describe(self.node)}"
                + ("; put it in [ ]" if self.is_text else "")
            )
            return []
        return [self.item(index, node) for index, node in enumerate(self.node.items)]

    def item(self, index: int, node: Node) -> Value:
        """Return one item of this value."""
        return Value(node, f"{self.path}[{index}]", node.place, self.notes)

    def table(self, expected: str) -> Table | None:
        """Return the node of a mapping."""
        if isinstance(self.node, Table):
            return self.node
        return self.fail(f"expected {expected}, found {describe(self.node)}")

    def members(self, expected: str) -> Iterator[tuple[str, Value]]:
        """Yield the members of a mapping with keys chosen by the user."""
        table = self.table(expected)
        for entry in table.entries if table else ():
            yield entry.key, self.member(entry)

    def named(self, name: str) -> Value:
        """Return the name of this value as a value at the same location."""
        return Value(Scalar(ScalarKind.TEXT, name, self.place), self.path, self.place, self.notes)

    def member(self, entry: Pair) -> Value:
        """Return the value of one entry of this mapping."""
        path = f"{self.path}.{entry.key}".removeprefix(".")
        return Value(entry.value, path, entry.place, self.notes)


def _quoted(text: str) -> str:
    return '"' + clip(text)[1:-1] + '"'
