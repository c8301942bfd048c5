"""Texts on which a regular expression may take long, made of what the pattern itself names."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

parser: Any = import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

_MANY = 64  # a repeat of fewer is a constant
_ANYTHING = "a1A_ .-/:\n\t,'\"!"
_ENDS = ("", "\x00", "\n\x00")
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_SPACES = " \t\n\r\f\v"
_CATEGORIES: dict[str, Callable[[str], bool]] = {
    "DIGIT": str.isdigit,
    "SPACE": lambda char: char in _SPACES,
    "WORD": lambda char: char.isalnum() or char == "_",
}
_Item = tuple[Any, Any]


@dataclass(frozen=True)
class HostileText:
    """A text that may be made as long as one likes."""

    start: str
    part: str
    end: str

    def of_size(self, size: int) -> str:
        """Return it with about this many characters."""
        return self.start + self.part * (size // len(self.part)) + self.end


def hostile_texts(pattern: re.Pattern[Any]) -> Iterator[HostileText]:
    """Return texts, simple ones first: each thing that a pattern repeats, many times, after what precedes it there, and the
    two together many times, before what does not follow.
    """
    tree = list(parser.parse(pattern.pattern, pattern.flags & ~(re.UNICODE | re.DEBUG)))
    letters = _letters(tree)
    made = set[tuple[str, str]]()
    for before, body in _repeats(tree, ""):
        for part in _variants(body, letters):
            made |= {(before, part), ("", before + part)}
    for start, part in sorted(made, key=lambda one: (len(one[1]), one)):
        if part:
            yield from (HostileText(start, part, end) for end in _ENDS)


def _items(tree: list[_Item]) -> Iterator[_Item]:
    """Return all items of a pattern, those inside of others too."""
    for code, argument in tree:
        yield code, argument
        for inner in _inside(code, argument):
            yield from _items(inner)


def _inside(code: Any, argument: Any) -> list[list[_Item]]:
    name = str(code)
    if name in _REPEATS:
        return [list(argument[2])]
    if name == "BRANCH":
        return [list(one) for one in argument[1]]
    if name == "SUBPATTERN":
        return [list(argument[3])]
    if name in ("ASSERT", "ASSERT_NOT"):
        return [list(argument[1])]
    if name == "ATOMIC_GROUP":
        return [list(argument)]
    if name == "GROUPREF_EXISTS":
        return [list(one) for one in argument[1:] if one]
    return []


def _accepts(code: Any, argument: Any, char: str) -> bool:
    """Return whether an item that stands for one character accepts this one."""
    name = str(code)
    if name == "ANY":
        return char != "\n"
    if name == "LITERAL":
        return chr(argument) == char
    if name == "NOT_LITERAL":
        return chr(argument) != char
    if name == "RANGE":
        return bool(argument[0] <= ord(char) <= argument[1])
    if name == "CATEGORY":
        kind = str(argument).removeprefix("CATEGORY_")
        return _CATEGORIES[kind.removeprefix("NOT_")](char) != kind.startswith("NOT_")
    if name == "IN":
        negated = str(argument[0][0]) == "NEGATE"
        return any(_accepts(kind, value, char) for kind, value in argument[negated:]) != negated
    return False


def _letters(tree: list[_Item]) -> str:
    """Return one character of each kind that the pattern tells apart."""
    telling = ("ANY", "LITERAL", "NOT_LITERAL", "IN")
    items = list({str(item): item for item in _items(tree) if str(item[0]) in telling}.values())
    named = _ANYTHING
    for code, argument in items:
        for kind, value in argument if str(code) == "IN" else [(code, argument)]:
            if str(kind) in ("LITERAL", "NOT_LITERAL"):
                named += chr(value)
            elif str(kind) == "RANGE":
                named += chr(value[0])
    kinds: dict[tuple[bool, ...], str] = {}
    for char in dict.fromkeys(named):
        kinds.setdefault(tuple(_accepts(*item, char) for item in items), char)
    return "".join(kinds.values())


def _sample(tree: list[_Item]) -> str:
    """Return a short text for a part of a pattern, which may match it."""
    text = ""
    for code, argument in tree:
        name = str(code)
        if name in _REPEATS:
            text += _sample(list(argument[2])) * min(argument[0], _MANY)
        elif name in ("BRANCH", "SUBPATTERN", "ATOMIC_GROUP"):
            text += _sample(_inside(code, argument)[0])
        elif name == "LITERAL":
            text += chr(argument)
        elif name in ("ANY", "NOT_LITERAL", "IN"):
            named = [chr(v) for k, v in argument if str(k) == "LITERAL"] if name == "IN" else []
            text += next((c for c in _ANYTHING + "".join(named) if _accepts(code, argument, c)), "")
    return text


def _repeats(tree: list[_Item], before: str) -> Iterator[tuple[str, list[_Item]]]:
    """Return what is repeated without a small bound, and what may precede it."""
    for code, argument in tree:
        if str(code) in _REPEATS and argument[1] > _MANY:
            yield before, list(argument[2])
        for inner in _inside(code, argument):
            yield from _repeats(inner, before)
        before += _sample([(code, argument)])


def _variants(body: list[_Item], letters: str) -> set[str]:
    """Return texts of what is repeated: each of its items with each character that it accepts."""
    made = {_sample(body)}
    while len(body) == 1 and str(body[0][0]) in ("SUBPATTERN", "BRANCH"):
        inner = _inside(*body[0])
        if len(inner) > 1:
            return made.union(*(_variants(one, letters) for one in inner))
        body = inner[0]
    for at, (code, argument) in enumerate(body):
        while str(code) in _REPEATS:
            code, argument = argument[2][0]
        for char in letters:
            if _accepts(code, argument, char):
                made.add(_sample(body[:at]) + char + _sample(body[at + 1 :]))
    return made
