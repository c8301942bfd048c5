"""Read strict YAML into the located tree: one document, no duplicate keys, no tags, few aliases.

Only the parser of PyYAML is used, because its loaders keep the last of several duplicate keys, turn
text into other types, and build objects. This module resolves unquoted scalars, and also finds
scalars that other YAML readers resolve differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

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
)
from submit_tf_job.host.quoting import clip

if TYPE_CHECKING:
    import yaml

EMPTY = "the file is empty; `submit_tf_job init` writes a job spec to begin with"
MAX_DEPTH = 20
MAX_NODES = (
    20_000  # each alias counts as the values that it stands for: 306 bytes can stand for 226 MB
)
MAX_ALIASES = 100

_UNFIT = "this does not fit what stands above; check the indentation, the quotes and the brackets"
_BETWEEN_DOCUMENTS = re.compile(r"(?:[ \t]*(?:#[^\n]*|\.\.\.)?\r?\n)*[ \t]*(?:#[^\n]*|\.\.\.)?")
# PyYAML's message, with or without libyaml; our message. The first ones are reported where the
# construct began.
_UNFINISHED = (
    (r"end of stream|'<stream end>'", "the {what} that begins here is never closed"),
    (r"could not find expected ':'", "a key without ':'; write 'key: value'"),
)
_SYNTAX = (
    *_UNFINISHED,
    (
        r"mapping values are not allowed",
        "a ':' where none can be; put the text in quotes, or check the line above and the "
        "indentation",
    ),
    (r"entries are not allowed", "a list item '-' cannot begin here; put it on a line of its own"),
    (r"or (\]|'\]')", "the list '[' in line {line} lacks a ',' or its ']' before this"),
    (r"or (\}|'\}')", "the mapping '{{' in line {line} lacks a ',' or its '}}' before this"),
    (
        r"escape",
        "an escape that YAML does not know; write \\\\ for a backslash, or use single quotes",
    ),
    (r"node content", "a value or a key is missing before this"),
    (r"undefined tag handle|tag", "tags (!) are not read; leave it out, and put text in quotes"),
    # PyYAML's own limit, since 6.0.4: its scanner reads ahead of the check below
    (r"maximum nesting depth", f"nested more than {MAX_DEPTH} levels deep"),
    (
        r"alphabetic or numeric",
        "an anchor (&) or alias (*) without a name; put the text in quotes if it begins so",
    ),
    (
        r"chomping|comment or line break|indentation indicator",
        "'|' and '>' stand alone at the end of their line",
    ),
    (
        r"expected (key|<block end>|'-' indicator|'<document start>'|<document start>)|simple key|while parsing a block",  # noqa: E501
        _UNFIT,
    ),
)
_CANNOT_START = "nothing can begin with {char}; put the text in quotes"
_TAB = "a tab; YAML is indented with spaces only"


def read_yaml(text: str, notes: Diagnostics, place: Location | None = None) -> Node:
    """Return the located tree of one YAML document; if `place` is given, it is the location of all
    nodes.

    Raises:
        Unreadable: The text is not YAML, or uses a refused feature.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    _refuse_directives(text, notes.source)
    try:
        return _Composer(yaml.parse(text, Loader=loader), text, notes, place).document()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, notes.source) from None
    except yaml.reader.ReaderError as error:
        raise Unreadable(
            Location(notes.source),
            f"a character that YAML does not allow: {clip(chr(error.character))}",
        ) from None


def parse_flow(text: str, place: Location) -> Node:
    """Return the value of an override, which is a YAML scalar, list or mapping; all nodes have the
    same location.

    Raises:
        Unreadable: The text is not valid YAML.
    """
    notes = Diagnostics(place.source)
    if not text.strip():
        raise Unreadable(place, "there is no value behind '='")
    try:
        node = read_yaml(text, notes, place)
    except Unreadable as error:
        raise Unreadable(place, f"{clip(text)} is not a YAML value: {error}") from None
    if notes.problems:
        raise Unreadable(place, min(notes.problems).message)
    return node


def _refuse_directives(text: str, source: str) -> None:
    """Refuse `%` lines at the beginning: the time that libyaml needs for them grows with the square
    of their number.
    """
    head = re.match(r"(?:[ \t]*(?:#[^\n]*)?\r?\n)*", text)
    if head and text.startswith("%", head.end()):
        raise Unreadable(
            Location(source, text.count("\n", 0, head.end()) + 1, 1),
            "a YAML directive (%); leave it out",
        )


class _Composer:
    """Builds nodes of PyYAML's events."""

    def __init__(
        self, events: Iterator[Any], text: str, notes: Diagnostics, place: Location | None
    ) -> None:
        self._events = events
        self._fixed = place
        self._text = text
        self._notes = notes
        # node, nodes in it, levels in it; None while it is open
        self._anchors: dict[str, tuple[Node, int, int] | None] = {}
        self._count = 0
        self._aliases = 0

    def document(self) -> Node:
        import yaml

        next(self._events)  # the stream's start
        event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            raise Unreadable(Location(self._notes.source, 1, 1), EMPTY)
        node, _ = self._compose_node(next(self._events), 1)
        end = next(self._events)
        self._refuse_more(end.end_mark.index)
        return node

    def _refuse_more(self, at: int) -> None:
        rest = _BETWEEN_DOCUMENTS.match(self._text, at)
        if rest and rest.end() < len(self._text):
            line = self._text.count("\n", 0, rest.end()) + 1
            another = (
                self._text.startswith("---", rest.end()) or "..." in self._text[at - 3 : rest.end()]
            )
            what = "a second document begins here; keep one" if another else _UNFIT
            raise Unreadable(Location(self._notes.source, line, 1), what)

    def _compose_node(self, event: Any, depth: int) -> tuple[Node, int]:
        """Return one node, and the number of nested levels in it."""
        import yaml

        place = self._place_of(event)
        self._count_nodes(place, 1, depth)
        if isinstance(event, yaml.AliasEvent):
            return self._resolve_alias(event, place, depth)
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            self._notes.problem(
                place,
                "",
                f"tags (here {clip(tag)}) are not read; leave it out, and put text in quotes",
            )
            if not isinstance(event, yaml.ScalarEvent):
                self._notes.tagged.add(place)
        before = self._count
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        node, levels = self._compose_content(event, place, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, self._count - before + 1, levels)
        return node, levels

    def _compose_content(self, event: Any, place: Location, depth: int) -> tuple[Node, int]:
        import yaml

        if isinstance(event, yaml.ScalarEvent):
            plain = event.style in (None, "") and event.tag is None
            return Scalar(
                kind_of_plain(event.value) if plain else ScalarKind.TEXT, event.value, place, plain
            ), 1
        if isinstance(event, yaml.SequenceStartEvent):
            return self._compose_items(place, depth)
        return self._compose_table(place, depth)

    def _compose_items(self, place: Location, depth: int) -> tuple[Node, int]:
        import yaml

        items: list[Node] = []
        deepest = 0
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            node, levels = self._compose_node(event, depth + 1)
            items.append(node)
            deepest = max(deepest, levels)
        return Items(tuple(items), place), deepest + 1

    def _compose_table(self, place: Location, depth: int) -> tuple[Node, int]:
        import yaml

        entries: dict[str, Pair] = {}
        deepest = 0
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key, at = self._compose_key(event, depth + 1)
            node, levels = self._compose_node(next(self._events), depth + 1)
            deepest = max(deepest, levels)
            if key == "<<" and not event.style:
                self._notes.problem(
                    at,
                    "",
                    "a merge key (<<) is not read; write the keys out",
                )
            elif key in entries:
                self._notes.problem(
                    at,
                    "",
                    f"the key {clip(key)} stands here again, first in line "
                    f"{entries[key].place.line}; keep one",
                )
            else:
                entries[key] = Pair(key, at, node)
        return Table(tuple(entries.values()), place), deepest + 1

    def _compose_key(self, event: Any, depth: int) -> tuple[str, Location]:
        import yaml

        place = self._place_of(event)
        at = event.start_mark.index
        if self._text[at - 1 : at + 1] == "{{":
            raise Unreadable(
                place,
                "'{{' begins no value; fill the template in first, or put the text in quotes",
            )
        if not isinstance(event, yaml.ScalarEvent):
            raise Unreadable(place, "a key is plain text; this is a list, a mapping or an alias")
        self._compose_node(event, depth)
        return event.value, place

    def _resolve_alias(self, event: Any, place: Location, depth: int) -> tuple[Node, int]:
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            raise Unreadable(place, f"more than {MAX_ALIASES} aliases (*); write the values out")
        if event.anchor not in self._anchors:
            raise Unreadable(
                place,
                f"the alias *{clip(event.anchor)[1:-1]} stands for nothing above; put text "
                f"that begins with * in quotes",
            )
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise Unreadable(
                place,
                f"the alias *{clip(event.anchor)[1:-1]} refers to a value that contains it",
            )
        node, nodes, levels = anchored
        self._count_nodes(place, nodes, depth + levels - 1)
        return node, levels

    def _count_nodes(self, place: Location, nodes: int, depth: int) -> None:
        self._count += nodes
        if self._count > MAX_NODES:
            raise Unreadable(
                place,
                f"more than {MAX_NODES} values, aliases counted as what they stand for",
            )
        if depth > MAX_DEPTH:
            raise Unreadable(place, f"nested more than {MAX_DEPTH} levels deep")

    def _place_of(self, event: Any) -> Location:
        mark = event.start_mark
        return self._fixed or Location(self._notes.source, mark.line + 1, mark.column + 1)


def _syntax_error(error: yaml.MarkedYAMLError, text: str, source: str) -> Unreadable:
    mark, began = error.problem_mark or error.context_mark, error.context_mark
    if mark is None:
        return Unreadable(Location(source), f"not YAML: {error.problem}")
    unclosed = _unclosed_bracket(error, text)
    if unclosed is not None:
        kind = "list" if "sequence" in str(error.context) else "mapping"
        return Unreadable(
            Location(source, *unclosed), f"the {kind} that begins here is never closed"
        )
    char = text[mark.index : mark.index + 1]
    place = Location(source, mark.line + 1, mark.column + 1)
    said = f"{error.context or ''}: {error.problem or ''}"
    if char == "\t" or "tab character" in said:
        return Unreadable(place, _TAB)
    if "cannot start any token" in said:
        return Unreadable(place, _CANNOT_START.format(char=clip(char)))
    for row in _SYNTAX:
        pattern, message = row
        if re.search(pattern, said):
            if row in _UNFINISHED and began is not None:
                place = Location(source, began.line + 1, began.column + 1)
            line = began.line + 1 if began else place.line
            return Unreadable(place, message.format(what=_construct_in(said), line=line))
    return Unreadable(place, f"not YAML: {error.problem}")


def _unclosed_bracket(error: Any, text: str) -> tuple[int, int] | None:
    """Return line and column, both counted from 1, of a bracket that is never closed; None if the
    error has another reason.

    YAML's parser takes the line after the bracket as a part of the list or mapping, and fails at
    the ':' in that line. A line `key: …` that is not indented more than the line with the bracket
    must be the next key.

    Args:
        error: PyYAML's error (`MarkedYAMLError`).
        text: The text that was parsed.
    """
    began, mark = error.context_mark, error.problem_mark or error.context_mark
    if began is None or not re.search("flow (sequence|mapping)", str(error.context)):
        return None
    lines = text.splitlines()
    at, stopped = (lines[line] if line < len(lines) else "" for line in (began.line, mark.line))
    next_key = mark.line > began.line and re.match(r" *[\w.\"'-]+ *:(\s|$)", stopped) is not None
    if mark.index >= len(text) or (next_key and _indentation_of(stopped) <= _indentation_of(at)):
        return began.line + 1, began.column + 1
    return None


def _indentation_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _construct_in(said: str) -> str:
    """Return the YAML construct that PyYAML's message names."""
    if "sequence" in said:
        return "list"
    return "mapping" if "mapping" in said else "quote"


# --- unquoted scalars ---

# A job spec is YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema): only true and false are
# booleans, 010 is ten. Many readers, PyYAML among them, follow YAML 1.1: there `yes` is true, `010`
# is eight, `1:30` is ninety and `2024-01-01` is a date. Text for an environment or an argv must be
# in quotes if either version resolves it as another type.
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEAN = frozenset(("true", "True", "TRUE", "false", "False", "FALSE"))
_WHOLE = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_REAL = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)

_TRUE_11 = frozenset(("yes", "on"))
_FALSE_11 = frozenset(("no", "off"))
_OCTAL_11 = re.compile(r"[-+]?0[0-7_]+")
_NUMBER_11 = re.compile(r"[-+]?(0b[01_]+|[0-9][0-9_]*(\.[0-9_]*)?([eE][-+][0-9]+)?)")
_SEXAGESIMAL_11 = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_DATE_11 = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt\s].*)?")
_LONGEST = 40  # characters of a number that a message shows


def kind_of_plain(text: str) -> ScalarKind:
    """Return the kind of an unquoted scalar by YAML 1.2's core schema."""
    if text in _NULL:
        return ScalarKind.NULL
    if text in _BOOLEAN:
        return ScalarKind.BOOLEAN
    if _WHOLE.fullmatch(text):
        return ScalarKind.WHOLE
    return ScalarKind.REAL if _REAL.fullmatch(text) else ScalarKind.TEXT


def retyped(scalar: Scalar) -> str:
    """Describe the value that YAML reads in an unquoted scalar that is not text, for a message:
    "the number 1.1", "the boolean true".
    """
    text = scalar.text
    if scalar.kind is ScalarKind.BOOLEAN:
        return f"the boolean {text.lower()}"
    if scalar.kind is ScalarKind.NULL:
        return "nothing"
    if len(text) > _LONGEST:
        return "a number"
    return (
        f"the number {_parse_whole(text) if scalar.kind is ScalarKind.WHOLE else _parse_real(text)}"
    )


def _parse_whole(text: str) -> int:
    if text[:2] in ("0x", "0o"):
        return int(text, 0)
    return int(text, 8 if _OCTAL_11.fullmatch(text) else 10)


def _parse_real(text: str) -> float:
    # .inf and .nan carry YAML's dot
    return float(text.replace(".", "", 1) if text[-1] in "fFnN" else text)


def surprising(text: str) -> str | None:
    """Return the YAML 1.1 type of an unquoted scalar that is a text in YAML 1.2; None if it is a
    text in both versions.
    """
    if text.lower() in _TRUE_11 | _FALSE_11:
        return "true" if text.lower() in _TRUE_11 else "false"
    if _DATE_11.fullmatch(text):
        return "a date"
    if _NUMBER_11.fullmatch(text) or _SEXAGESIMAL_11.fullmatch(text):
        return "a number"
    return None
