"""A located value on its way to a typed one: each reader returns what was asked for, or notes what is wrong and returns None."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NoReturn, TypeVar

from submit_tf_job.job import Place
from submit_tf_job.specfile.nodes import Entry, Items, Kind, Node, Scalar, Table, clip, describe
from submit_tf_job.specfile.notes import Notes
from submit_tf_job.specfile.scalars import retyped, surprising
from submit_tf_job.specfile.vocabulary import Keys, closest

__all__ = ["Section", "Value"]

T = TypeVar("T")
E = TypeVar("E", bound=Enum)
AlwaysNone = NoReturn | None  # noqa: RUF020 - mypy lets a caller `return` it, which it does not with a plain None

NO_SYNONYMS: Mapping[str, str] = MappingProxyType({})
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_FLAG_WORDS = {"yes": "true", "on": "true", "true": "true", "no": "false", "off": "false", "false": "false"}
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_MOST_DIGITS = 15


class Value:
    """A node, the path that leads to it, and where it stands."""

    def __init__(self, node: Node, path: str, place: Place, notes: Notes) -> None:
        self.node = node
        self.path = path
        self.place = place
        self.notes = notes
        notes.places[path] = place

    def fail(self, message: str) -> AlwaysNone:
        """Note a problem at this value."""
        self.notes.problem(self.place, self.path, message)
        return None

    @property
    def is_text(self) -> bool:
        """Whether the value is text."""
        return isinstance(self.node, Scalar) and self.node.kind is Kind.TEXT

    @property
    def is_list(self) -> bool:
        """Whether the value is a list."""
        return isinstance(self.node, Items)

    @property
    def is_mapping(self) -> bool:
        """Whether the value is a mapping."""
        return isinstance(self.node, Table)

    def text(self, *, expected: str = "text", empty: bool = False) -> str | None:
        """Read text, which is not empty."""
        node = self.node
        if not isinstance(node, Scalar) or node.kind is not Kind.TEXT:
            return self.fail(self._not_text(expected, empty))
        control = _CONTROL.search(node.text)
        if control:
            return self.fail(f"the text holds the control character U+{ord(control.group()):04X}; take it out")
        if not empty and not node.text.strip():
            return self.fail(f"expected {expected}, found an empty one")
        return node.text

    def _not_text(self, expected: str, empty: bool) -> str:
        node = self.node
        found = f"expected {expected}, found {describe(node)}"
        if not isinstance(node, Scalar) or expected != "text":
            return found
        if node.kind is Kind.NULL:
            return found + ('; write "" for empty text' if empty else "")
        if node.plain:
            return f"YAML reads {clip(node.text)[1:-1]} as {retyped(node)}; for text, quote it: {_quoted(node.text)}"
        return f"{found}; put it in quotes"

    def exact_text(self) -> str | None:
        """Read text that a program will see: what any YAML reader would retype has to be quoted."""
        text = self.text(empty=True)
        if text is not None and isinstance(self.node, Scalar) and self.node.plain:
            made = surprising(text)
            if made:
                return self.fail(f"YAML 1.1 reads {clip(text)[1:-1]} as {made}; for text, quote it: {_quoted(text)}")
        return text

    def matching(self, pattern: re.Pattern[str], message: str) -> str | None:
        """Read text that matches a pattern as a whole; `message` is what to say of anything else."""
        node = self.node
        if isinstance(node, Scalar) and node.kind is not Kind.NULL and not pattern.fullmatch(node.text):
            return self.fail(f"{clip(node.text)} {message}")
        return self.text()

    def number(self) -> int | None:
        """Read a whole number, written in decimal without quotes."""
        node = self.node
        if not isinstance(node, Scalar) or node.kind is not Kind.WHOLE:
            hint = "; leave out the quotes" if self.is_text and isinstance(node, Scalar) and _DECIMAL.fullmatch(node.text) else ""
            return self.fail(f"expected a whole number, found {describe(node)}{hint}")
        if not _DECIMAL.fullmatch(node.text):
            if len(node.text) > _MOST_DIGITS:
                return self.fail(f"the number {clip(node.text)[1:-1]} is too large")
            return self.fail(f"write {node.text} as a plain decimal number; YAML readers disagree about what it is")
        if len(node.text) > _MOST_DIGITS:
            return self.fail(f"the number {clip(node.text)[1:-1]} is too large")
        return int(node.text)

    def whole(self, least: int, most: int, too_few: str = "") -> int | None:
        """Read a whole number within bounds; `too_few` says what to do instead of less than the least."""
        number = self.number()
        if number is None:
            return None
        if number < least:
            return self.fail(f"{number} is too few; {too_few or f'the least is {least}'}")
        if number > most:
            return self.fail(f"{number} is too many; the most is {most}")
        return number

    def flag(self) -> bool | None:
        """Read true or false."""
        node = self.node
        if not isinstance(node, Scalar) or node.kind is not Kind.BOOLEAN:
            near = _FLAG_WORDS.get(node.text.lower()) if isinstance(node, Scalar) else None
            return self.fail(f"expected true or false, found {describe(node)}" + (f"; write {near}, without quotes" if near else ""))
        return node.text.lower() == "true"

    def one_of(self, kind: type[E], synonyms: Mapping[str, str] = NO_SYNONYMS) -> E | None:
        """Read one word of an enumeration; `synonyms` are other tools' words for ours."""
        words = [str(member.value) for member in kind]
        word = self.word(words, synonyms)
        return None if word is None else kind(word)

    def word(self, words: list[str], synonyms: Mapping[str, str] = NO_SYNONYMS) -> str | None:
        """Read one of some words."""
        text = self.text(expected=f"one of {', '.join(words)}")
        if text is None or text in words:
            return text
        like = text.lower().replace("_", "-")
        near = synonyms.get(like.replace("-", "")) or closest(like, words)
        meant = f"; did you mean '{near}'?" if near else f"; it is one of {', '.join(words)}"
        return self.fail(f"unknown value {clip(text)}{meant}")

    def items(self, expected: str) -> list[Value]:
        """Read a list."""
        if not isinstance(self.node, Items):
            self.fail(f"expected {expected}, found {describe(self.node)}" + ("; put it in [ ]" if self.is_text else ""))
            return []
        return [self.item(index, node) for index, node in enumerate(self.node.items)]

    def item(self, index: int, node: Node) -> Value:
        """Return one item of this value."""
        return Value(node, f"{self.path}[{index}]", node.place, self.notes)

    def section(self, keys: Keys, expected: str) -> Section | None:
        """Read a mapping of known keys; note each one that is not known."""
        table = self.table(expected)
        if table is None:
            return None
        meant: set[str | None] = set()
        for entry in table.entries:
            if entry.key not in keys.known and not self.notes.full:
                self.notes.problem(entry.place, self.path, keys.unknown(entry.key))
                meant.add(keys.meant_by(entry.key))
        return Section(self, table, meant)

    def table(self, expected: str) -> Table | None:
        """Read a mapping."""
        if isinstance(self.node, Table):
            return self.node
        return self.fail(f"expected {expected}, found {describe(self.node)}")

    def members(self, expected: str) -> Iterator[tuple[str, Value]]:
        """Read a mapping whose keys are the user's own."""
        table = self.table(expected)
        for entry in table.entries if table else ():
            yield entry.key, self.member(entry)

    def member(self, entry: Entry) -> Value:
        """Return the value of one entry of this mapping."""
        path = f"{self.path}.{entry.key}" if self.path else entry.key
        return Value(entry.value, path, entry.place, self.notes)


class Section:
    """A mapping of known keys."""

    def __init__(self, value: Value, table: Table, meant: Collection[str | None] = ()) -> None:
        self.value = value
        self.table = table
        self.meant = meant  # the keys that unknown ones seem to mean: they are wrong already, not missing
        self.notes = value.notes

    @property
    def keys(self) -> frozenset[str]:
        """The keys that the user wrote, right or wrong."""
        return frozenset(entry.key for entry in self.table.entries)

    def path(self, key: str) -> str:
        """Return the path of a key of this section."""
        return f"{self.value.path}.{key}" if self.value.path else key

    def has(self, key: str) -> bool:
        """Whether the user wrote the key."""
        return self.table.find(key) is not None

    def get(self, key: str, empty: str = "write one, or leave the key out") -> Value | None:
        """Return a key's value, None where the user is silent (or wrote nothing behind the key, which is noted)."""
        entry = self.table.find(key)
        if entry is None:
            return None
        value = self.value.member(entry)
        if isinstance(entry.value, Scalar) and entry.value.kind is Kind.NULL:
            return value.fail(f"there is no value; {empty}")
        return value

    def read(self, key: str, reader: Callable[[Value], T | None], default: T) -> T | None:
        """Read a key, or note that its default holds; None where the value is wrong."""
        if not self.has(key):
            self.notes.default(self.path(key))
            return default
        return self.optional(key, reader)

    def optional(self, key: str, reader: Callable[[Value], T | None]) -> T | None:
        """Read a key that has no default."""
        value = self.get(key)
        return None if value is None else reader(value)

    def required(self, key: str, reader: Callable[[Value], T | None], missing: str) -> T | None:
        """Read a key that must be there."""
        if not self.has(key) and key not in self.meant:
            self.notes.problem(self.value.place, self.path(key), f"missing; {missing}")
        value = self.get(key, missing)
        return None if value is None else reader(value)


def _quoted(text: str) -> str:
    return '"' + clip(text)[1:-1] + '"'
