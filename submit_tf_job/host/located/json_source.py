"""Read strict JSON (RFC 8259) into the located tree: no duplicate key, no NaN, no comments.

Python's reader returns no locations, and YAML's readers handle tabs, escapes and surrogate pairs
differently from JSON.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right

from submit_tf_job.host.located.diagnostics import Diagnostics, Unreadable
from submit_tf_job.host.located.nodes import (
    Items,
    Location,
    Node,
    Pair,
    Scalar,
    ScalarKind,
    Table,
    clip,
)
from submit_tf_job.host.located.yaml_source import MAX_DEPTH, MAX_NODES

_STRINGS = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD = re.compile(r"[^\s,:\[\]{}\"]+")
_COMMENT = re.compile(r"#|//|/\*")
_STRING_ERRORS = (
    ("Unterminated", "the string that begins here is never closed"),
    ("Invalid control", "a line break or control character inside of a string; write \\n or \\t"),
    ("", "an escape that JSON does not know; write \\\\ for a backslash"),
)
_WORDS = {"true": ScalarKind.BOOLEAN, "false": ScalarKind.BOOLEAN, "null": ScalarKind.NULL}


def read_json(text: str, notes: Diagnostics) -> Node:
    """Read one JSON document.

    Raises:
        Unreadable: The text is not JSON.
    """
    return _JsonReader(text, notes).document()


class _JsonReader:
    def __init__(self, text: str, notes: Diagnostics) -> None:
        self._text = text
        self._notes = notes
        self._at = 0
        self._count = 0
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]

    def document(self) -> Node:
        node = self._value(1)
        self._blanks()
        if self._at < len(self._text):
            raise self._error("more text after the end of the JSON document")
        return node

    def _value(self, depth: int) -> Node:
        self._blanks()
        self._count += 1
        if self._count > MAX_NODES:
            raise self._error(f"more than {MAX_NODES} values")
        if depth > MAX_DEPTH:
            raise self._error(f"nested more than {MAX_DEPTH} levels deep")
        place, char = self._place(), self._char()
        if char == "{":
            return self._table(place, depth)
        if char == "[":
            return self._list(place, depth)
        if char == '"':
            return Scalar(ScalarKind.TEXT, self._string(), place)
        return self._bare(place)

    def _bare(self, place: Location) -> Scalar:
        word = _WORD.match(self._text, self._at)
        if not word:
            raise self._error(
                "the text ends too early"
                if not self._char()
                else f"a value is missing before {clip(self._char())}"
            )
        said = word.group()
        number = _NUMBER.fullmatch(said)
        if said not in _WORDS and not number:
            raise self._error(f'{clip(said)} is not JSON; text stands in "double quotes"')
        self._at = word.end()
        if number:
            return Scalar(
                ScalarKind.REAL if number.group(1) or number.group(2) else ScalarKind.WHOLE,
                said,
                place,
            )
        return Scalar(_WORDS[said], said, place)

    def _list(self, place: Location, depth: int) -> Items:
        items: list[Node] = []
        while self._more("]", first=not items):
            items.append(self._value(depth + 1))
        return Items(tuple(items), place)

    def _table(self, place: Location, depth: int) -> Table:
        entries: dict[str, Pair] = {}
        first = True
        while self._more("}", first=first):
            first = False
            if self._char() != '"':
                raise self._error('a key stands in "double quotes"')
            at, key = self._place(), self._string()
            self._blanks()
            if self._char() != ":":
                raise self._error(f"a ':' belongs after the key {clip(key)}")
            self._at += 1
            entry = Pair(key, at, self._value(depth + 1))
            if key in entries:
                self._notes.problem(
                    at,
                    "",
                    f"the key {clip(key)} stands here again, first in line "
                    f"{entries[key].place.line}; keep one",
                )
            entries.setdefault(key, entry)
        return Table(tuple(entries.values()), place)

    def _more(self, closing: str, *, first: bool) -> bool:
        """Step over a bracket or comma; return whether another member follows."""
        if first:
            self._at += 1
        self._blanks()
        if self._char() == closing:
            self._at += 1
            return False
        if not first:
            if self._char() != ",":
                raise self._error(f"a ',' or '{closing}' belongs here")
            self._at += 1
            self._blanks()
            if self._char() == closing:
                raise self._error(f"a ',' before '{closing}'; JSON allows none")
        return True

    def _string(self) -> str:
        try:
            text, self._at = _STRINGS.raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            if not error.msg.startswith("Unterminated"):
                self._at = error.pos
            raise self._error(
                next(ours for begins, ours in _STRING_ERRORS if error.msg.startswith(begins))
            ) from None
        return str(text)

    def _blanks(self) -> None:
        blank = _BLANK.match(self._text, self._at)
        self._at = blank.end() if blank else self._at
        if _COMMENT.match(self._text, self._at):
            raise self._error("JSON has no comments; take it out, or name the file .yaml")

    def _char(self) -> str:
        return self._text[self._at : self._at + 1]

    def _place(self) -> Location:
        line = bisect_right(self._lines, self._at)
        return Location(self._notes.source, line, self._at - self._lines[line - 1] + 1)

    def _error(self, message: str) -> Unreadable:
        return Unreadable(self._place(), message)
