"""The kinds of values: each reads a value, and has its JSON Schema."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Any

from submit_tf_job.jobspec import units
from submit_tf_job.jobspec.diagnostics import closest
from submit_tf_job.jobspec.grammar import Keys, Kind
from submit_tf_job.jobspec.job import AUTO_PORT, PATTERN, Command, Mount
from submit_tf_job.jobspec.nodes import Scalar, ScalarKind, clip, describe
from submit_tf_job.jobspec.sections import Section
from submit_tf_job.jobspec.values import Value

__all__ = [
    "COMMAND",
    "DURATION",
    "FLAG",
    "IMAGE",
    "LABEL",
    "MEMORY",
    "MOUNT",
    "NO_LABEL",
    "PLAIN_URI",
    "PORT",
    "PUBLISHED",
    "SCHEMES",
    "URI",
    "enum",
    "factor",
    "group",
    "list_of",
    "map_of",
    "matching",
    "of_host",
    "text",
    "whole",
    "word_or_number",
    "words",
]

LABEL = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
NO_LABEL = (
    "must be a valid DNS label: a-z, 0-9 and '-', a letter first, a letter or digit last, at "
    "most 63 characters"
)
SCHEMES = ("hdfs", "viewfs", "webhdfs", "swebhdfs", "file", "s3", "s3a", "gs", "abfs", "abfss")
_MOUNT = "a mount such as /data:/data:ro"
_WITH_HOST = (*SCHEMES[2:4], *SCHEMES[5:])
_FACTOR = re.compile(r"[0-9]{1,3}(\.[0-9]{1,6})?")
_BLANK = re.compile(r"\s")
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/\s]*)(/.*)?", re.DOTALL)
# DockerLinuxContainerRuntime.PORTS_MAPPING_PATTERN
_PUBLISHED = re.compile(r"((\d{1,3}(\.\d{1,3}){3}:)?(\d{1,5}))?:(\d{1,5})")

# --- single values ---


def text(
    expected: str = "text", shown: str = "text", *, empty: bool = False, exact: bool = False
) -> Kind:
    """Return the kind of text.

    Args:
        expected: The value in messages.
        shown: The value in the documentation.
        empty: Whether it may be empty.
        exact: Whether text that some YAML reader would retype must be in quotes.
    """
    read = Value.exact_text if exact else partial(Value.text, expected=expected, empty=empty)
    schema = {"type": "string"} | ({} if empty or exact else {"pattern": r"\S"})
    return Kind(read, shown, schema)


def matching(
    pattern: str | re.Pattern[str],
    message: str,
    shown: str = "text",
    *,
    exact: bool = False,
    definition: str = "",
) -> Kind:
    """Return the kind of text that matches a pattern as a whole.

    Args:
        pattern: The pattern, in the syntax that Python and ECMAScript share, without `|` outside of
            parentheses.
        message: The problem of other text, as the end of a sentence.
        shown: The value in the documentation.
        exact: Whether text that some YAML reader would retype must be in quotes.
        definition: The name of its definition in the JSON Schema.
    """
    compiled = re.compile(pattern)

    def read(value: Value) -> str | None:
        found = value.exact_text() if exact else value.matching(compiled, message)
        if found is not None and not compiled.fullmatch(found):
            return value.fail(f"{clip(found)} {message}")
        return found

    schema = {"type": "string", "pattern": f"^{compiled.pattern}$"}
    return Kind(read, shown, schema, definition=definition)


def of_host(shown: str, **schema: Any) -> Kind:
    """Return the kind of text that needs a reader with files or settings of this host."""
    return Kind(lambda value: value.text(), shown, {"type": "string", **schema})


def words(values: Mapping[str, object], **synonyms: str) -> Kind:
    """Return the kind of a choice of words, each with its value.

    Args:
        values: The value of each word.
        synonyms: Other tools' words for ours, in lower case and without hyphens.
    """

    def read(value: Value) -> Any:
        word = value.word(values, synonyms)
        return values.get(word or "")

    return Kind(read, ", ".join(f"`{word}`" for word in values), {"enum": list(values)})


def enum(values: type[Enum], **synonyms: str) -> Kind:
    """Return the kind of an enumeration's values."""
    return words({member.value: member for member in values}, **synonyms)


def whole(least: int, most: int, too_few: str = "") -> Kind:
    """Return the kind of a whole number; `too_few` is the hint for a number below the minimum."""
    schema = {"type": "integer", "minimum": least, "maximum": most}
    read = partial(Value.whole, least=least, most=most, too_few=too_few)
    return Kind(read, f"{least} to {most}", schema, as_yaml=None)


def factor(most: int) -> Kind:
    """Return the kind of a number greater than 1, such as 1.5."""

    def read(value: Value) -> Any:
        node = value.node
        numbers = (ScalarKind.WHOLE, ScalarKind.REAL)
        written = isinstance(node, Scalar) and node.kind in numbers
        if not isinstance(node, Scalar) or not (written and _FACTOR.fullmatch(node.text)):
            return value.fail(f"expected a number such as 1.5, found {describe(node)}")
        if not 1 < float(node.text) <= most:
            return value.fail(f"must be more than 1 and at most {most}, not {node.text}")
        return float(node.text)

    schema = {"type": "number", "exclusiveMinimum": 1, "maximum": most}
    return Kind(read, f"more than 1, up to {most}", schema, as_yaml=None)


def word_or_number(values: Mapping[str, object], least: int, most: int, **synonyms: str) -> Kind:
    """Return the kind of a choice of words, or a whole number."""
    named = words(values, **synonyms)

    def read(value: Value) -> Any:
        if isinstance(value.node, Scalar) and not value.node.text.isdigit():
            return named.read(value)
        return value.whole(least=least, most=most)

    number = {"type": "integer", "minimum": least, "maximum": most}
    shown = f"{named.shown}, or {least} to {most}"
    return Kind(read, shown, {"anyOf": [number, {"enum": list(values)}]}, as_yaml=None)


FLAG = Kind(Value.flag, "`true`, `false`", {"type": "boolean"}, as_yaml=None)
DURATION = Kind(
    units.duration,
    "[duration](#durations)",
    {
        "type": "string",
        "pattern": "^(?=.*[1-9])([0-9]{1,8}d)?([0-9]{1,8}h)?([0-9]{1,8}m)?([0-9]{1,8}s)?$",
    },
    definition="duration",
)
MEMORY = Kind(
    units.memory,
    "amount",
    {"type": "string", "pattern": f"^{units.MEMORY.pattern}$"},
    definition="memory",
)


def _image(value: Value) -> str | None:
    found = value.text(expected="a Docker image")
    if found is not None and _BLANK.search(found):
        return value.fail(f"{clip(found)} holds a blank; write the image's name alone")
    return found


IMAGE = Kind(_image, "text", {"type": "string", "pattern": r"^\S+$"})


def _command(value: Value) -> Command | None:
    if not value.is_list:
        script = value.text(expected="text for bash, or a list of arguments")
        return None if script is None else Command(script=script)
    items = value.items("a list of arguments")
    if not items:
        return value.fail(
            "the list is empty; its first item is the program, as in [python, train.py]"
        )
    argv = [item.exact_text() for item in items]
    if any(argument is None for argument in argv):
        return None
    if not argv[0]:
        return items[0].fail("expected the program's name, found an empty one")
    return Command(argv=tuple(argument or "" for argument in argv))


COMMAND = Kind(
    _command,
    "text or list",
    {
        "oneOf": [
            {"type": "string", "pattern": r"\S"},
            {
                "type": "array",
                "minItems": 1,
                "items": [{"type": "string", "minLength": 1}],
                "additionalItems": {"type": "string"},
            },
        ]
    },
    as_yaml="[{",
)


def _mount(value: Value) -> Mount | None:
    text = value.text(expected=_MOUNT)
    if text is None:
        return None
    parts = text.split(":")
    if len(parts) not in (2, 3) or not all(parts):
        return value.fail(
            f"{clip(text)} is not a valid mount; write "
            f"/path/on/the/node:/path/in/the/container, with :rw to write there"
        )
    source, target, mode = (*parts, "ro")[:3]
    if mode not in ("ro", "rw"):
        return value.fail(
            f"unknown mode {clip(mode)}; it is ro (to read, the default) or rw (to write, too)"
        )
    for side in (source, target):
        if not side.startswith("/") or ".." in side.split("/"):
            return value.fail(
                f"{clip(side)} is not an absolute path without '..'; write it out from /"
            )
    if posixpath.normpath(target) == "/":
        return value.fail(
            "the container's root '/' cannot be a mount's target; name a directory below it"
        )
    return Mount(source, target, read_only=mode == "ro")


MOUNT = Kind(
    _mount,
    "mounts",
    {"type": "string", "pattern": "^/[^:]*:/[^:]*[^:/][^:]*(:(ro|rw))?$"},
    expected=_MOUNT,
)


def _published(value: Value) -> str | None:
    text = value.exact_text()
    match = _PUBLISHED.fullmatch(text or "")
    if text is not None and (
        not match or any(not 0 < int(port) < 65536 for port in (match[4] or "1", match[5]))
    ):
        return value.fail(
            f"{clip(text)} is not a valid port mapping; write ':8080' (any port of the "
            f"node), or '18080:8080'"
        )
    return text


PUBLISHED = Kind(_published, "ports", {"type": "string", "pattern": f"^{_PUBLISHED.pattern}$"})


def _port(value: Value) -> int | None:
    node = value.node
    if isinstance(node, Scalar) and value.is_text and not node.text.isdigit():
        return None if value.word(["auto"]) is None else AUTO_PORT
    number = value.number()
    if number is not None and not 1 <= number <= 65535:
        return value.fail(f"{number} is not a valid port; use auto, or 1 to 65535")
    return number


PORT = Kind(
    _port,
    "`auto` or a port",
    {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 65535}, {"const": "auto"}]},
    as_yaml=None,
)


def _uri(value: Value) -> str | None:
    text = value.text(expected="a URI, as in hdfs:///data/train")
    if text is None:
        return None
    found = _URI.fullmatch(text)
    if found is None:
        meant = clip(f"hdfs:///{text.removeprefix('/')}")[1:-1]
        return value.fail(
            f"{clip(text)} does not say which file system; write {meant}, or file://…"
        )
    scheme, authority, path = found[1], found[2], (found[3] or "").rstrip("/")
    if scheme not in SCHEMES:
        near = closest(scheme.lower(), SCHEMES)
        meant = f"did you mean {near}://?" if near else f"known are {', '.join(SCHEMES)}"
        return value.fail(f"{clip(text)}: unknown file system '{scheme}'; {meant}")
    if ":" in authority.rpartition("@")[0]:
        return value.fail(f"{clip(text)} has a password, and a job spec holds none; leave it out")
    if not path or ".." in path.split("/") or "\n" in path:
        return value.fail(
            f"{clip(text)} names no file or directory; write the path from the root, without '..'"
        )
    if scheme == "file" and authority not in ("", "localhost"):
        return value.fail(
            f"{clip(text)} names a host; a file of this kind is written with three "
            f"slashes, as in file:///{authority}{path}"
        )
    if scheme not in ("hdfs", "viewfs", "file") and not authority:
        return value.fail(f"{clip(text)} names no host or bucket; write {scheme}://…{path}")
    return f"{scheme}://{authority}{path}"


def _plain_uri(value: Value) -> str | None:
    uri = _uri(value)
    if uri is not None and PATTERN.search(uri):
        return value.fail(
            f"{clip(uri)} is a pattern, and an output has one name; leave '*', '?' and '[' out"
        )
    return uri


URI = Kind(
    _uri,
    "a URI",
    {
        "type": "string",
        "pattern": r"^(?!.*/\.\.(/|$))((hdfs|viewfs)://[^/\s]*|file://(localhost)?|"
        rf"({'|'.join(_WITH_HOST)})://[^/\s]+)/+[^/\n][^\n]*$",
    },
    definition="uri",
)
PLAIN_URI = Kind(
    _plain_uri,
    "a URI",
    {"allOf": [URI.reference(), {"pattern": "^[^*?[]*$"}]},
    definition="plainUri",
)

# --- lists and mappings ---


def list_of(kind: Kind, expected: str, *, empty: str = "", or_one: bool = False) -> Kind:
    """Return the kind of a list; wrong items are omitted.

    Args:
        kind: The kind of the items.
        expected: The list in messages.
        empty: The problem of an empty list; "" if it may be empty.
        or_one: Whether one item may be written without a list.
    """

    def read(value: Value) -> tuple[Any, ...]:
        items = [value] if or_one and not value.is_list else value.items(expected)
        found = tuple(item for item in map(kind.read, items) if item is not None)
        if empty and value.is_list and not items:
            value.fail(empty)
        return found

    def schema() -> dict[str, Any]:
        several = {"type": "array", "items": kind.reference()} | ({"minItems": 1} if empty else {})
        return {"oneOf": [kind.reference(), several]} if or_one else several

    as_yaml = "[{" if or_one and kind.as_yaml == "" else None
    shown = f"list of {kind.shown}"
    return Kind(read, shown, schema, as_yaml=as_yaml, items=kind, expected=expected)


def map_of(
    kind: Kind,
    expected: str,
    *,
    shown: str,
    names: Kind | None = None,
    most: int = 0,
    build: Callable[[Value, dict[str, Any]], Any] = lambda _value, found: MappingProxyType(found),
    dotted: bool = False,
    rules: Mapping[str, Any] = MappingProxyType({}),
) -> Kind:
    """Return the kind of a mapping with keys chosen by the user; wrong members are omitted.

    Args:
        kind: The kind of the members.
        expected: The mapping in messages.
        shown: The mapping in the documentation.
        names: The kind of the keys.
        most: The largest number of members; 0 without a limit.
        build: Builds the value from the members, and reports problems between them.
        dotted: Whether the keys may contain dots.
        rules: Additional rules of the JSON Schema.
    """

    def read(value: Value) -> Any:
        found: dict[str, Any] = {}
        for number, (name, item) in enumerate(value.members(expected)):
            if most and number == most:
                item.fail(f"more than {most}; put what belongs together into one directory")
                break
            member = kind.read(item) if names is None or names.read(item.named(name)) else None
            if member is not None:
                found[name] = member
        return build(value, found)

    def schema() -> dict[str, Any]:
        made = {"type": "object", "additionalProperties": kind.reference(), **rules}
        if most:
            made["maxProperties"] = most
        if names:
            made["propertyNames"] = names.reference()
        return made

    return Kind(read, shown, schema, as_yaml=None, members=kind, dotted=dotted, expected=expected)


def group(
    keys: Keys,
    build: Callable[[Value, dict[str, Any]], Any] = lambda _value, values: values,
    shown: str = "mapping",
    *,
    short: str = "",
    definition: str = "",
) -> Kind:
    """Return the kind of a mapping of known keys.

    Args:
        keys: Its keys.
        build: Builds the value from the values by field, and reports problems between keys. A wrong
            value is None.
        shown: The mapping in the documentation.
        short: The key whose value may replace the mapping; "" without a short form.
        definition: The name of its definition in the JSON Schema.
    """

    def read(value: Value) -> Any:
        if short and not value.is_mapping:
            key, value.longer = keys.rows[short], keys.expected
            single = key.kind.read(value)
            return None if single is None else build(value, {key.field or short: single})
        section = Section.of(value, keys)
        return None if section is None else build(value, section.read_all())

    def schema() -> dict[str, Any]:
        mapping = keys.schema()
        if short:
            return {"oneOf": [keys.rows[short].kind.reference(), mapping]}
        return mapping

    return Kind(
        read,
        shown,
        schema,
        as_yaml="[{" if short and keys.rows[short].kind.as_yaml == "" else None,
        definition=definition,
        keys=keys,
        short=short,
    )
