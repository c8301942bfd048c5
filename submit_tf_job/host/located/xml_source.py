"""Read a Hadoop configuration file (XML) as the located tree: property name → text.

No document type, and so no entities of its own and no external files; expat counts the places.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from submit_tf_job.host.located.diagnostics import Diagnostics, Unreadable
from submit_tf_job.host.located.nodes import Location, Pair, Scalar, ScalarKind, Table, clip

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
    """Read a configuration; a property that stands twice is a problem.

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
        parser = self._parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters

    def document(self, text: str) -> Table:
        try:
            self._parser.Parse(text, True)
        except expat.ExpatError as error:
            place = Location(self._notes.source, error.lineno, error.offset + 1)
            raise Unreadable(place, f"not XML: {expat.ErrorString(error.code)}") from None
        return Table(tuple(self._entries.values()), Location(self._notes.source, 1, 1))

    def _here(self) -> Location:
        at = self._parser
        return Location(self._notes.source, at.CurrentLineNumber, at.CurrentColumnNumber + 1)

    def _refuse(self, message: str) -> NoReturn:
        raise Unreadable(self._here(), message)

    def _doctype(self, *_: object) -> None:
        self._refuse("a document type (DOCTYPE), whose entities are not read; take it out")

    def _start(self, name: str, _attributes: dict[str, str]) -> None:
        depth = len(self._path)
        if depth == 0 and name != "configuration":
            self._refuse(
                f"the element {clip(name)} begins the file; a Hadoop configuration begins with "
                "<configuration>"
            )
        if depth == 1 and name != "property":
            self._refuse(f"the element {clip(name)} is not read; only <property> is")
        if depth == 2 and name not in _PARTS:
            self._refuse(f"a property has no {clip(name)}; it has a name and a value")
        if depth > 2:
            self._refuse(f"the element {clip(name)} stands in a {self._path[-1]}; write text there")
        self._path.append(name)
        if depth == 1:
            self._property = _Property(self._here())
        elif depth == 2 and self._property is not None:
            self._property.parts[name] = _Text()

    def _end(self, _name: str) -> None:
        self._path.pop()
        if len(self._path) == 1 and self._property is not None:
            self._add(self._property)
            self._property = None

    def _characters(self, text: str) -> None:
        if len(self._path) == 3 and self._property is not None:
            part = self._property.parts[self._path[-1]]
            if part.place is None and text.strip():
                here = self._here()
                blanks = len(text) - len(text.lstrip())
                part.place = Location(here.source, here.line, here.column + blanks)
            part.text += text
        elif len(self._path) != 3 and text.strip():
            self._refuse(f"text outside of a property: {clip(text.strip())}")

    def _add(self, found: _Property) -> None:
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
