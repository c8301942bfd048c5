"""Read the text of a file, and parse it: as YAML (`yaml_source.py`), JSON or XML, chosen by the
content.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from submit_tf_job.host.located.tree import (
    Diagnostics,
    Items,
    Location,
    Node,
    Pair,
    Scalar,
    ScalarKind,
    Table,
    Unreadable,
    describe,
    key_places,
    to_python,
)
from submit_tf_job.host.located.yaml_source import EMPTY, MAX_DEPTH, MAX_NODES, read_yaml
from submit_tf_job.host.quoting import clip
from submit_tf_job.host.user_files import read_input, reason

MAX_BYTES = 1024 * 1024
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")


def parse_file(path: Path, notes: Diagnostics) -> Node:
    """Return the located tree of a YAML, JSON or XML file.

    Args:
        path: The file.
        notes: Collects problems; its source is the file's name in messages.

    Raises:
        Unreadable: The file cannot be read or parsed.
    """
    try:
        content = read_input(path, MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise Unreadable(Location(notes.source), f"cannot be read: {reason(error)}") from None
    return parse(decode(content, notes.source), notes)


def read_mapping(text: str, source: str) -> tuple[dict[str, Any], dict[str, Location]]:
    """Return a YAML file that contains one mapping as plain values, and the location of each key by
    its dotted path; an empty file gives an empty mapping.

    Raises:
        Unreadable: The text is not YAML, or not a mapping.
    """
    notes = Diagnostics(source)
    try:
        root = read_yaml(decode(text, source), notes)
    except Unreadable as error:
        if str(error) == EMPTY:
            return {}, {}
        raise
    for first in sorted(notes.problems)[:1]:
        raise Unreadable(Location(source, first.line, first.column), first.message)
    if isinstance(root, Scalar) and root.kind is ScalarKind.NULL:
        return {}, {}
    if not isinstance(root, Table):
        raise Unreadable(
            root.place, f"expected a mapping of names to values, found {describe(root)}"
        )
    content: dict[str, Any] = to_python(root)
    return content, dict(key_places(root))


def decode(text: str | bytes, source: str) -> str:
    """Return text without a byte order mark.

    Args:
        text: The text, or its bytes in UTF-8.
        source: The name of the text in messages.

    Raises:
        Unreadable: The text is too large, is not UTF-8, or contains control characters.
    """
    if len(text) > MAX_BYTES:
        raise Unreadable(
            Location(source),
            "larger than 1 MiB; a job spec holds no data, list files under `files` or put "
            "them on HDFS",
        )
    if isinstance(text, bytes):
        text = _decode_utf8(text, source)
    text = text.removeprefix("\ufeff")
    bad = _NO_TEXT.search(text)
    if bad:
        place = _position_after(text[: bad.start()], source)
        raise Unreadable(place, f"the control character U+{ord(bad.group()):04X}; take it out")
    return text


def _decode_utf8(content: bytes, source: str) -> str:
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Unreadable(
            Location(source, 1, 1), "UTF-16, where UTF-8 is expected; save the file as UTF-8"
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        place = _position_after(content[: error.start].decode("utf-8"), source)
        raise Unreadable(
            place, f"the byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8"
        ) from None


def _position_after(before: str, source: str) -> Location:
    return Location(source, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


def parse(text: str, notes: Diagnostics) -> Node:
    """Return the located tree. Whether the text is XML is decided by its content; whether it is
    JSON, by the name of the source or by the content; else it is YAML.

    Raises:
        Unreadable: The text cannot be parsed.
    """
    if text.lstrip().startswith("<"):
        return read_xml(text, notes)
    if notes.source.lower().endswith(".json"):
        return read_json(text, notes)
    if text.lstrip().startswith("{"):
        trial = Diagnostics(notes.source)
        try:
            root = read_json(text, trial)
        except Unreadable:
            return read_yaml(text, notes)
        notes.problems |= trial.problems
        return root
    return read_yaml(text, notes)


# --- JSON (RFC 8259): no duplicate key, no NaN, no comments ---

# Python's reader returns no locations, and YAML's readers handle tabs, escapes and surrogate pairs
# differently from JSON.
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
        node = self._read_value(1)
        self._skip_blanks()
        if self._at < len(self._text):
            raise self._error_here("more text after the end of the JSON document")
        return node

    def _read_value(self, depth: int) -> Node:
        self._skip_blanks()
        self._count += 1
        if self._count > MAX_NODES:
            raise self._error_here(f"more than {MAX_NODES} values")
        if depth > MAX_DEPTH:
            raise self._error_here(f"nested more than {MAX_DEPTH} levels deep")
        place, char = self._place_here(), self._next_char()
        if char == "{":
            return self._read_table(place, depth)
        if char == "[":
            return self._read_list(place, depth)
        if char == '"':
            return Scalar(ScalarKind.TEXT, self._read_string(), place)
        return self._read_word(place)

    def _read_word(self, place: Location) -> Scalar:
        word = _WORD.match(self._text, self._at)
        if not word:
            raise self._error_here(
                "the text ends too early"
                if not self._next_char()
                else f"a value is missing before {clip(self._next_char())}"
            )
        said = word.group()
        number = _NUMBER.fullmatch(said)
        if said not in _WORDS and not number:
            raise self._error_here(f'{clip(said)} is not JSON; text stands in "double quotes"')
        self._at = word.end()
        if number:
            return Scalar(
                ScalarKind.REAL if number.group(1) or number.group(2) else ScalarKind.WHOLE,
                said,
                place,
            )
        return Scalar(_WORDS[said], said, place)

    def _read_list(self, place: Location, depth: int) -> Items:
        items: list[Node] = []
        while self._has_more("]", first=not items):
            items.append(self._read_value(depth + 1))
        return Items(tuple(items), place)

    def _read_table(self, place: Location, depth: int) -> Table:
        entries: dict[str, Pair] = {}
        first = True
        while self._has_more("}", first=first):
            first = False
            if self._next_char() != '"':
                raise self._error_here('a key stands in "double quotes"')
            at, key = self._place_here(), self._read_string()
            self._skip_blanks()
            if self._next_char() != ":":
                raise self._error_here(f"a ':' belongs after the key {clip(key)}")
            self._at += 1
            entry = Pair(key, at, self._read_value(depth + 1))
            if key in entries:
                self._notes.problem(
                    at,
                    "",
                    f"the key {clip(key)} stands here again, first in line "
                    f"{entries[key].place.line}; keep one",
                )
            entries.setdefault(key, entry)
        return Table(tuple(entries.values()), place)

    def _has_more(self, closing: str, *, first: bool) -> bool:
        """Skip a bracket or comma; return whether another member follows."""
        if first:
            self._at += 1
        self._skip_blanks()
        if self._next_char() == closing:
            self._at += 1
            return False
        if not first:
            if self._next_char() != ",":
                raise self._error_here(f"a ',' or '{closing}' belongs here")
            self._at += 1
            self._skip_blanks()
            if self._next_char() == closing:
                raise self._error_here(f"a ',' before '{closing}'; JSON allows none")
        return True

    def _read_string(self) -> str:
        try:
            text, self._at = _STRINGS.raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            if not error.msg.startswith("Unterminated"):
                self._at = error.pos
            raise self._error_here(
                next(ours for begins, ours in _STRING_ERRORS if error.msg.startswith(begins))
            ) from None
        return str(text)

    def _skip_blanks(self) -> None:
        blank = _BLANK.match(self._text, self._at)
        self._at = blank.end() if blank else self._at
        if _COMMENT.match(self._text, self._at):
            raise self._error_here("JSON has no comments; take it out, or name the file .yaml")

    def _next_char(self) -> str:
        return self._text[self._at : self._at + 1]

    def _place_here(self) -> Location:
        line = bisect_right(self._lines, self._at)
        return Location(self._notes.source, line, self._at - self._lines[line - 1] + 1)

    def _error_here(self, message: str) -> Unreadable:
        return Unreadable(self._place_here(), message)


# --- a Hadoop configuration (XML): property name → text ---

# No document type, and so no entities of its own and no external files; expat counts the places.

# org.apache.hadoop.conf.Configuration.Parser; only name and value have a meaning for a job
_PARTS = ("name", "value", "description", "final", "source", "tag")


@dataclass
class _Text:
    text: str = ""
    place: Location | None = None


@dataclass
class _Property:
    place: Location
    parts: dict[str, _Text] = field(default_factory=dict)


def read_xml(text: str, notes: Diagnostics) -> Table:
    """Read a Hadoop configuration; a property that occurs twice is a problem.

    Raises:
        Unreadable: The text is not XML, not a configuration, or has a document type.
    """
    return _XMLReader(notes).document(text)


class _XMLReader:
    def __init__(self, notes: Diagnostics) -> None:
        self._notes = notes
        self._path: list[str] = []
        self._property: _Property | None = None
        self._entries: dict[str, Pair] = {}
        from xml.parsers import expat

        self._expat = expat
        parser = self._parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = self._on_doctype
        parser.StartElementHandler = self._on_start
        parser.EndElementHandler = self._on_end
        parser.CharacterDataHandler = self._on_characters

    def document(self, text: str) -> Table:
        try:
            self._parser.Parse(text, True)
        except self._expat.ExpatError as error:
            place = Location(self._notes.source, error.lineno, error.offset + 1)
            raise Unreadable(place, f"not XML: {self._expat.ErrorString(error.code)}") from None
        return Table(tuple(self._entries.values()), Location(self._notes.source, 1, 1))

    def _parser_place(self) -> Location:
        at = self._parser
        return Location(self._notes.source, at.CurrentLineNumber, at.CurrentColumnNumber + 1)

    def _refuse_here(self, message: str) -> NoReturn:
        raise Unreadable(self._parser_place(), message)

    def _on_doctype(self, *_: object) -> None:
        self._refuse_here("a document type (DOCTYPE), whose entities are not read; take it out")

    def _on_start(self, name: str, _attributes: dict[str, str]) -> None:
        depth = len(self._path)
        if depth == 0 and name != "configuration":
            self._refuse_here(
                f"the element {clip(name)} begins the file; a Hadoop configuration begins with "
                "<configuration>"
            )
        if depth == 1 and name != "property":
            self._refuse_here(f"the element {clip(name)} is not read; only <property> is")
        if depth == 2 and name not in _PARTS:
            self._refuse_here(f"a property has no {clip(name)}; it has a name and a value")
        if depth > 2:
            self._refuse_here(
                f"the element {clip(name)} stands in a {self._path[-1]}; write text there"
            )
        self._path.append(name)
        if depth == 1:
            self._property = _Property(self._parser_place())
        elif depth == 2 and self._property is not None:
            self._property.parts[name] = _Text()

    def _on_end(self, _name: str) -> None:
        self._path.pop()
        if len(self._path) == 1 and self._property is not None:
            self._add_property(self._property)
            self._property = None

    def _on_characters(self, text: str) -> None:
        if len(self._path) == 3 and self._property is not None:
            part = self._property.parts[self._path[-1]]
            if part.place is None and text.strip():
                here = self._parser_place()
                blanks = len(text) - len(text.lstrip())
                part.place = Location(here.source, here.line, here.column + blanks)
            part.text += text
        elif len(self._path) != 3 and text.strip():
            self._refuse_here(f"text outside of a property: {clip(text.strip())}")

    def _add_property(self, found: _Property) -> None:
        name, value = (found.parts.get(part, _Text()) for part in ("name", "value"))
        key, place = name.text.strip(), name.place or found.place
        if not key:
            self._notes.problem(found.place, "", "a property without a name; add <name>")
            return
        if key in self._entries:
            line = self._entries[key].place.line
            self._notes.problem(place, key, f"stands in line {line} already; keep one of the two")
        at = value.place or place
        self._entries[key] = Pair(key, at, Scalar(ScalarKind.TEXT, value.text.strip(), at))
