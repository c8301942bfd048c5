"""The value types of job spec keys ("kinds"), and the classes of the key table: a kind, a key, and
the keys of one mapping. Each kind has its JSON Schema, and makes a typed value from a JSON value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

from submit_tf_job.host import units
from submit_tf_job.host.located.tree import closest
from submit_tf_job.host.quoting import clip
from submit_tf_job.jobspec.job import AUTO_PORT, Command

LABEL = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
NO_LABEL = (
    "must be a valid DNS label: a-z, 0-9 and '-', a letter first, a letter or digit last, at "
    "most 63 characters"
)
# DockerLinuxContainerRuntime.PORTS_MAPPING_PATTERN
_PUBLISHED = re.compile(r"((\d{1,3}(\.\d{1,3}){3}:)?(\d{1,5}))?:(\d{1,5})")
_MARKUP = re.compile(r"\[([^\]]*)\]\([^)]*\)|`")


@dataclass(frozen=True, eq=False)
class Kind:
    """The type of a job spec value: its JSON Schema, how it becomes a typed value, and its
    documentation.

    Attributes:
        types: The JSON types that a value may have.
        shown: The value in a few words of Markdown, for the documentation.
        schema: The JSON Schema of a value.
        make: Returns the typed value for a JSON value of these types. Raises ValueError, with a
            sentence, for each value that the schema refuses, and for mistakes that a schema cannot
            express. For a mapping (by field, if its keys are known) or a list, its argument has the
            typed members; a wrong member is None.
        expected: The description of a value in messages.
        definition: The name of the kind's definition in the JSON Schema; "" for none.
        exact: Whether a text must be in quotes if some YAML reader would turn it into another type.
        explains_all: Whether `make` also has the sentences for an empty text and for numbers.
        empty: The problem of an empty list or mapping; "" if it may be empty.
        too_many: The problem of a mapping with too many members.
        keys: The keys of a mapping with known keys.
        members: The kind of the members of a mapping with keys chosen by the user.
        names: The kind of the keys that the user chooses.
        dotted: Whether the keys that the user chooses may contain dots.
        items: The kind of the items of a list.
        single: The kind of a single value that may be written instead of a list or mapping.
        short: The key of the mapping that such a single value stands for.
    """

    types: tuple[str, ...]
    shown: str
    schema: dict[str, Any]
    make: Callable[[Any], Any] = lambda value: value
    expected: str = "text"
    definition: str = ""
    exact: bool = False
    explains_all: bool = False
    empty: str = ""
    too_many: str = ""
    keys: Keys | None = None
    members: Kind | None = None
    names: Kind | None = None
    dotted: bool = False
    items: Kind | None = None
    single: Kind | None = None
    short: str = ""

    @property
    def reference(self) -> dict[str, Any]:
        """The JSON Schema, or, if the kind has a definition, a reference to it."""
        return {"$ref": f"#/definitions/{self.definition}"} if self.definition else self.schema

    def member(self, name: str) -> Kind | None:
        """Return the kind of the member with that name; None if the value has no members.

        Raises:
            ValueError: The value does not have this key; the message suggests another.
        """
        if self.keys is None:
            return self.members
        if name not in self.keys.rows:
            raise ValueError(self.keys.unknown(name))
        return self.keys.rows[name].kind

    def is_literal(self, text: str) -> bool:
        """Return whether a text after `--set` is the value itself, and not YAML."""
        if "string" not in self.types or {"integer", "number", "boolean"} & {*self.types}:
            return False
        return len(self.types) == 1 or text.lstrip()[:1] not in ("[", "{")


class Key(NamedTuple):
    """One key of a job spec: a row of the table.

    Attributes:
        name: The key as the user writes it.
        kind: The kind of its value.
        help: The key's purpose, in Markdown; it is also the description in the JSON Schema.
        examples: Values as JSON; the documentation shows the first.
        default: The default value, as a user would write it.
        missing: The hint if a required key is absent; "" for an optional key.
        words: The key's names in other tools, separated by blanks.
        field: The field of the value class, if its name differs from the key.
        more: A text that the documentation adds to `help`.
        otherwise: The documentation's text for the default.
        of_site: Whether the settings may set it for all jobs.
        shared: Whether both the job and its roles have the key; the JSON Schema then defines it
            once.
    """

    name: str
    kind: Kind
    help: str
    examples: tuple[object, ...] = ()
    default: object = None
    missing: str = ""
    words: str = ""
    field: str = ""
    more: str = ""
    otherwise: str = ""
    of_site: bool = True
    shared: bool = False

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the key: the schema of its value, with help, default and
        examples.
        """
        value = {"allOf": [self.kind.reference]} if self.kind.definition else self.kind.schema
        if self.default is not None:
            value = {**value, "default": self.default}
        plain = _MARKUP.sub(r"\1", self.help)
        return {"description": plain, **value, "examples": list(self.examples)}

    def reference(self) -> dict[str, Any]:
        """Return the JSON Schema, or a reference to its definition."""
        return {"$ref": f"#/definitions/{self.name}"} if self.shared else self.schema()


class Keys:
    """The keys of one mapping.

    Attributes:
        expected: The description of the mapping in messages.
        rows: Every key, by name.
        synonyms: Another tool's name → our key.
        advice: Another tool's name → a hint, if no single key corresponds to it.
        schema: The JSON Schema of the mapping.
    """

    def __init__(
        self,
        expected: str,
        rows: Iterable[Key],
        advice: Mapping[str, str] | None = None,
        rules: Mapping[str, Any] | None = None,
    ) -> None:
        self.expected = expected
        self.rows = {key.name: key for key in rows}
        self.synonyms = {word: key.name for key in self.rows.values() for word in key.words.split()}
        self.advice = advice or {}
        required = [key.name for key in self.rows.values() if key.missing]
        self.schema: dict[str, Any] = {"type": "object", "additionalProperties": False}
        if required and "anyOf" not in (rules or {}):
            self.schema["required"] = required
        self.schema["properties"] = {name: key.reference() for name, key in self.rows.items()}
        self.schema.update(rules or {})

    def unknown(self, key: str) -> str:
        """Return the message for a key that the mapping does not have."""
        word = _plain_key(key)
        if word in self.advice:
            return f"unknown key {clip(key)}; {self.advice[word]}"
        meant = self.meant_by(key)
        if meant:
            return f"unknown key {clip(key)}; did you mean '{meant}'?"
        return f"unknown key {clip(key)}; the keys here are {', '.join(self.rows)}"

    def meant_by(self, key: str) -> str | None:
        """Return the key that the user most likely meant by an unknown key; None if no key is
        similar, or if `advice` has a hint for the unknown key.
        """
        word = _plain_key(key)
        if word in self.advice:
            return None
        near = word if word in self.synonyms else closest(word, (*self.rows, *self.synonyms))
        return None if near is None else self.synonyms.get(near, near)


def _plain_key(key: str) -> str:
    return key.strip().lower().replace("-", "_")


def as_label(text: str) -> str:
    """Turn a text into a label of lower-case letters, digits and single hyphens; "" if nothing is
    left.
    """
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
    """Return a kind for text. Arguments that are not listed here are attributes of `Kind`.

    Args:
        empty: Whether the text may be empty; the text of an `exact` kind always may.
        schema: Further keywords of JSON Schema, instead of the pattern that refuses an empty text.
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
    expected: str = "text",
    exact: bool = False,
    definition: str = "",
    explain: Callable[[str], str] | None = None,
) -> Kind:
    """Return the kind of a text that must match a pattern as a whole.

    Args:
        pattern: The pattern, in the syntax that Python and ECMAScript share, without `|` outside of
            parentheses.
        message: The problem of a text that does not match, as the end of a sentence.
        shown: The description of the value in the documentation.
        expected: The description of the value in messages; "text" if `message` already says what is
            expected.
        exact: Whether a text must be in quotes if some YAML reader would turn it into another type.
        definition: The name of the kind's definition in the JSON Schema.
        explain: Returns the problem of a text that does not match, instead of `message`.
    """
    compiled = re.compile(pattern)

    def make(found: str) -> str:
        if not compiled.fullmatch(found):
            raise ValueError(f"{clip(found)} {message}" if explain is None else explain(found))
        return found

    return text(
        expected,
        shown,
        make,
        exact=exact,
        explains_all=not exact and expected == "text",
        definition=definition,
        pattern=f"^{compiled.pattern}$",
    )


def words(values: Mapping[str, object], **synonyms: str) -> Kind:
    """Return the kind of a choice between words, each of which stands for a value.

    Args:
        values: The value of each word.
        synonyms: Other tools' word → our word; the former in lower case and without hyphens.
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
    """Return the kind of a number greater than 1, such as 1.5, and at most `most`."""

    def make(number: float) -> float:
        if not 1 < number <= most:
            raise ValueError(f"must be more than 1 and at most {most}, not {number}")
        return float(number)

    schema = {"type": "number", "exclusiveMinimum": 1, "maximum": most}
    return Kind(
        ("number", "integer"), f"more than 1, up to {most}", schema, make, "a number such as 1.5"
    )


def word_or_number(values: Mapping[str, object], least: int, most: int, **synonyms: str) -> Kind:
    """Return the kind of a choice between words and a whole number."""
    named, number = words(values, **synonyms), whole(least, most)

    def make(value: str | int) -> Any:
        if isinstance(value, str) and value.isdigit():
            raise ValueError(_quoted_number(value))
        return named.make(value) if isinstance(value, str) else number.make(value)

    shown = f"{named.shown}, or {least} to {most}"
    schema = {"anyOf": [number.schema, named.schema]}
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


IMAGE = matching(r"\S+", "contains a space; write only the image's name", expected="a Docker image")


def _make_command(value: str | list[str | None]) -> Command | None:
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
    _make_command,
    "text for bash, or a list of arguments",
    empty="the list is empty; its first item is the program, as in [python, train.py]",
    items=text(exact=True),
)


def _make_port_mapping(written: str) -> str:
    match = _PUBLISHED.fullmatch(written)
    if not match or any(not 0 < int(port) < 65536 for port in (match[4] or "1", match[5])):
        raise ValueError(
            f"{clip(written)} is not a valid port mapping; write ':8080' (any port of the "
            f"node), or '18080:8080'"
        )
    return written


PUBLISHED = text(
    shown="ports", make=_make_port_mapping, exact=True, pattern=f"^{_PUBLISHED.pattern}$"
)


def _make_port(value: str | int) -> int:
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
    _make_port,
    "a whole number",
)


# --- lists and mappings; `Kind` has what the other arguments are ---


def _good_items(items: list[Any]) -> tuple[Any, ...]:
    return tuple(item for item in items if item is not None)


def good_members(members: dict[str, Any]) -> Mapping[str, Any]:
    """Return a mapping without its invalid members, whose value is None."""
    return MappingProxyType({name: item for name, item in members.items() if item is not None})


def list_of(
    kind: Kind,
    expected: str,
    *,
    or_one: bool = False,
    make: Callable[[list[Any]], Any] = _good_items,
    empty: str = "",
) -> Kind:
    """Return the kind of a list; with `or_one`, a single item may be written instead of the
    list.
    """
    schema = {"type": "array", "items": kind.reference} | ({"minItems": 1} if empty else {})
    return Kind(
        ("array", *kind.types) if or_one else ("array",),
        f"list of {kind.shown}",
        {"oneOf": [kind.reference, schema]} if or_one else schema,
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
    names: Kind | None = None,
    **more: Any,
) -> Kind:
    """Return the kind of a mapping whose keys the user chooses.

    Args:
        most: The largest number of keys; 0 for no limit.
        rules: Further keywords for the kind's JSON Schema.
        more: Further attributes of `Kind`.
    """
    schema = {"type": "object", "additionalProperties": kind.reference, **rules}
    if most:
        schema["maxProperties"] = most
    if names:
        schema["propertyNames"] = names.reference
    return Kind(("object",), shown, schema, make, expected, members=kind, names=names, **more)


def group(
    keys: Keys,
    make: Callable[[dict[str, Any]], Any] = lambda values: values,
    shown: str = "mapping",
    *,
    short: str = "",
    expected: str = "",
    definition: str = "",
) -> Kind:
    """Return the kind of a mapping with known keys; the value of the key `short` may be written
    instead of the mapping.
    """
    single = keys.rows[short].kind if short else None
    return Kind(
        ("object", *single.types) if single else ("object",),
        shown,
        {"oneOf": [single.reference, keys.schema]} if single else keys.schema,
        make,
        expected or (single.expected if single else keys.expected),
        definition=definition,
        keys=keys,
        single=single,
        short=short,
    )
