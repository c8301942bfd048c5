"""The kinds of values: each has its JSON Schema, and makes a typed value of a JSON value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any

from submit_tf_job.host import units
from submit_tf_job.host.located.diagnostics import closest
from submit_tf_job.host.located.nodes import clip
from submit_tf_job.jobspec.grammar import Keys, Kind
from submit_tf_job.jobspec.job import AUTO_PORT, Command

LABEL = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
NO_LABEL = (
    "must be a valid DNS label: a-z, 0-9 and '-', a letter first, a letter or digit last, at "
    "most 63 characters"
)
_BLANK = re.compile(r"\s")
# DockerLinuxContainerRuntime.PORTS_MAPPING_PATTERN
_PUBLISHED = re.compile(r"((\d{1,3}(\.\d{1,3}){3}:)?(\d{1,5}))?:(\d{1,5})")


def as_label(text: str) -> str:
    """Make a text one of small letters, digits and single hyphens; "" if nothing is left."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


# --- single values ---


def text(
    expected: str = "text",
    shown: str = "text",
    make: Callable[[str], Any] = lambda text: text,
    *,
    empty: bool = False,
    exact: bool = False,
    explains_all: bool = False,
    definition: str = "",
    **schema: Any,
) -> Kind:
    """Return the kind of text, which may be empty or not; `schema` is what the JSON Schema says
    beyond the type, and `Kind` has what the other arguments are.
    """
    schema = {"type": "string"} | (schema or ({} if empty or exact else {"pattern": r"\S"}))
    return Kind(
        ("string",), shown, schema, make, expected, definition, exact, explains_all=explains_all
    )


def matching(
    pattern: str | re.Pattern[str],
    message: str,
    shown: str = "text",
    *,
    exact: bool = False,
    definition: str = "",
    explain: Callable[[str], str] | None = None,
) -> Kind:
    """Return the kind of text that matches a pattern as a whole.

    Args:
        pattern: The pattern, in the syntax that Python and ECMAScript share, without `|` outside of
            parentheses.
        message: The problem of other text, as the end of a sentence.
        shown: The value in the documentation.
        exact: Whether text that some YAML reader would retype must be in quotes.
        definition: The name of its definition in the JSON Schema.
        explain: Returns the problem of other text, instead of `message`.
    """
    compiled = re.compile(pattern)

    def make(found: str) -> str:
        if not compiled.fullmatch(found):
            raise ValueError(f"{clip(found)} {message}" if explain is None else explain(found))
        return found

    more: dict[str, Any] = {"exact": exact, "explains_all": not exact, "definition": definition}
    return text("text", shown, make, **more, pattern=f"^{compiled.pattern}$")


def words(values: Mapping[str, object], **synonyms: str) -> Kind:
    """Return the kind of a choice of words, each with its value.

    Args:
        values: The value of each word.
        synonyms: Other tools' words for ours, in lower case and without hyphens.
    """

    def make(word: str) -> object:
        if word in values:
            return values[word]
        like = word.lower().replace("_", "-")
        near = synonyms.get(like.replace("-", "")) or closest(like, values)
        meant = f"did you mean '{near}'?" if near else f"it is one of {', '.join(values)}"
        raise ValueError(f"unknown value {clip(word)}; {meant}")

    shown = ", ".join(f"`{word}`" for word in values)
    expected = f"one of {', '.join(values)}"
    return Kind(("string",), shown, {"enum": list(values)}, make, expected)


def enum(values: type[Enum], **synonyms: str) -> Kind:
    """Return the kind of an enumeration's values."""
    return words({member.value: member for member in values}, **synonyms)


def whole(least: int, most: int, too_few: str = "") -> Kind:
    """Return the kind of a whole number; `too_few` is the hint for a number below the minimum."""

    def make(number: int) -> int:
        if number < least:
            hint = f"; {too_few}" if too_few else ""
            raise ValueError(f"must be at least {least}, not {number}{hint}")
        if number > most:
            raise ValueError(f"must be at most {most}, not {number}")
        return int(number)

    schema = {"type": "integer", "minimum": least, "maximum": most}
    return Kind(("integer",), f"{least} to {most}", schema, make, "a whole number")


def factor(most: int) -> Kind:
    """Return the kind of a number greater than 1, such as 1.5."""

    def make(number: float) -> float:
        if not 1 < number <= most:
            raise ValueError(f"must be more than 1 and at most {most}, not {number}")
        return float(number)

    schema = {"type": "number", "exclusiveMinimum": 1, "maximum": most}
    return Kind(
        ("number", "integer"), f"more than 1, up to {most}", schema, make, "a number such as 1.5"
    )


def word_or_number(values: Mapping[str, object], least: int, most: int, **synonyms: str) -> Kind:
    """Return the kind of a choice of words, or a whole number."""
    named, number = words(values, **synonyms), whole(least, most)

    def make(value: str | int) -> Any:
        if isinstance(value, str) and value.isdigit():
            raise ValueError(_quoted_number(value))
        return named.make(value) if isinstance(value, str) else number.make(value)

    shown = f"{named.shown}, or {least} to {most}"
    schema = {"anyOf": [number.schema(), named.schema()]}
    return Kind(("integer", "string"), shown, schema, make, named.expected)


def _quoted_number(written: str) -> str:
    return f"expected a whole number, found the text {clip(written)}; leave out the quotes"


FLAG = Kind(
    ("boolean",), "`true`, `false`", {"type": "boolean"}, lambda flag: flag, "true or false"
)
DURATION = text(
    "a duration such as 15m",
    "[duration](#durations)",
    units.duration,
    definition="duration",
    explains_all=True,
    pattern="^(?=.*[1-9])([0-9]{1,8}d)?([0-9]{1,8}h)?([0-9]{1,8}m)?([0-9]{1,8}s)?$",
)
MEMORY = text(
    "an amount of memory such as 4Gi",
    "amount",
    units.memory,
    definition="memory",
    explains_all=True,
    pattern=f"^{units.MEMORY.pattern}$",
)


def _image(image: str) -> str:
    if _BLANK.search(image):
        raise ValueError(f"{clip(image)} contains a space; write only the image's name")
    return image


IMAGE = text("a Docker image", make=_image, pattern=r"^\S+$")


def _command(value: str | list[str | None]) -> Command | None:
    if isinstance(value, str):
        return Command(script=value)
    argv = [argument for argument in value if argument is not None]
    return Command(argv=tuple(argv)) if len(argv) == len(value) else None


_SCRIPT = {"type": "string", "pattern": r"\S"}
_ARGV = {
    "type": "array",
    "minItems": 1,
    "items": [{"type": "string", "minLength": 1}],
    "additionalItems": {"type": "string"},
}
COMMAND = Kind(
    ("string", "array"),
    "text or list",
    {"oneOf": [_SCRIPT, _ARGV]},
    _command,
    "text for bash, or a list of arguments",
    empty="the list is empty; its first item is the program, as in [python, train.py]",
    items=text(exact=True),
)


def _published(written: str) -> str:
    match = _PUBLISHED.fullmatch(written)
    if not match or any(not 0 < int(port) < 65536 for port in (match[4] or "1", match[5])):
        raise ValueError(
            f"{clip(written)} is not a valid port mapping; write ':8080' (any port of the "
            f"node), or '18080:8080'"
        )
    return written


PUBLISHED = text(shown="ports", make=_published, exact=True, pattern=f"^{_PUBLISHED.pattern}$")


def _port(value: str | int) -> int:
    if isinstance(value, str):
        if value.isdigit():
            raise ValueError(_quoted_number(value))
        words({"auto": AUTO_PORT}).make(value)
        return AUTO_PORT
    if not 1 <= value <= 65535:
        raise ValueError(f"{value} is not a valid port; use auto, or 1 to 65535")
    return int(value)


PORT = Kind(
    ("integer", "string"),
    "`auto` or a port",
    {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 65535}, {"const": "auto"}]},
    _port,
    "a whole number",
)


# --- lists and mappings; `Kind` has what the other arguments are ---


def _good_items(items: list[Any]) -> tuple[Any, ...]:
    return tuple(item for item in items if item is not None)


def good_members(members: dict[str, Any]) -> Mapping[str, Any]:
    """Return the members of a mapping that are not wrong."""
    return MappingProxyType({name: item for name, item in members.items() if item is not None})


def list_of(
    kind: Kind,
    expected: str,
    *,
    or_one: bool = False,
    make: Callable[[list[Any]], Any] = _good_items,
    empty: str = "",
) -> Kind:
    """Return the kind of a list; with `or_one` an item may stand there without it."""
    return Kind(
        ("array", *kind.types) if or_one else ("array",),
        f"list of {kind.shown}",
        {"minItems": 1} if empty else {},
        make,
        kind.expected if or_one else expected,
        empty=empty,
        items=kind,
        single=kind if or_one else None,
    )


def map_of(
    kind: Kind,
    expected: str,
    shown: str,
    make: Callable[[dict[str, Any]], Any] = good_members,
    *,
    most: int = 0,
    rules: Mapping[str, Any] = MappingProxyType({}),
    **more: Any,
) -> Kind:
    """Return the kind of a mapping with keys chosen by the user, `most` of them if that is not 0;
    `rules` are more of its JSON Schema.
    """
    schema = {**rules, **({"maxProperties": most} if most else {})}
    return Kind(("object",), shown, schema, make, expected, members=kind, **more)


def group(
    keys: Keys,
    make: Callable[[dict[str, Any]], Any] = lambda values: values,
    shown: str = "mapping",
    *,
    short: str = "",
    expected: str = "",
    definition: str = "",
) -> Kind:
    """Return the kind of a mapping of known keys; the value of the key `short` may replace it."""
    single = keys.rows[short].kind if short else None
    return Kind(
        ("object", *single.types) if single else ("object",),
        shown,
        {},
        make,
        expected or (single.expected if single else keys.expected),
        definition=definition,
        keys=keys,
        single=single,
        short=short,
    )
