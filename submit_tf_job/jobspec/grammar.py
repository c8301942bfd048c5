"""The classes of the key table: a kind of value, a key, and the keys of one mapping."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from submit_tf_job.host.located.diagnostics import closest
from submit_tf_job.host.located.nodes import clip

_MARKUP = re.compile(r"\[([^\]]*)\]\([^)]*\)|`")


@dataclass(frozen=True, eq=False)
class Kind:
    """The kind of a value: its JSON Schema, its typed value and its documentation.

    Attributes:
        types: The JSON types that it may have.
        shown: The value in a few words of Markdown, for the documentation.
        fragment: Its JSON Schema, without what follows from its members and keys.
        make: Returns the typed value of a JSON value of these types; raises ValueError with a
            sentence for each that the schema refuses, and for what a schema cannot say. Of a
            mapping (by field, if its keys are known) or list it gets the typed members, None for a
            wrong one.
        expected: The value in messages.
        definition: The name of the kind's definition in the JSON Schema; "" for none.
        exact: Whether text that some YAML reader would retype must be in quotes.
        explains_all: Whether `make` has the sentence for empty text and for numbers, too.
        empty: The problem of an empty list or mapping; "" if it may be empty.
        too_many: The problem of a mapping with too many members.
        keys: The keys of a mapping with known keys.
        members: The kind of the members of a mapping with keys chosen by the user.
        names: The kind of those keys.
        dotted: Whether those keys may contain dots.
        items: The kind of the items of a list.
        single: The kind of a value that may stand here without its list or mapping.
        short: The key of the mapping that such a value is.
    """

    types: tuple[str, ...]
    shown: str
    fragment: dict[str, Any]
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

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of a value."""
        made = self.fragment
        if self.items and "oneOf" not in made:
            made = {"type": "array", "items": self.items.reference(), **made}
        if self.members:
            made = {"type": "object", "additionalProperties": self.members.reference(), **made}
        if self.names:
            made = {**made, "propertyNames": self.names.reference()}
        if self.keys:
            made = self.keys.schema()
        return {"oneOf": [self.single.reference(), made]} if self.single else made

    def reference(self) -> dict[str, Any]:
        """Return the JSON Schema, or a reference to its definition."""
        return {"$ref": f"#/definitions/{self.definition}"} if self.definition else self.schema()

    def member(self, name: str) -> Kind | None:
        """Return the kind of the member of that name; None if the value has no members.

        Raises:
            ValueError: The value does not have this key; the message suggests another.
        """
        if self.keys is None:
            return self.members
        if name not in self.keys.rows:
            raise ValueError(self.keys.unknown(name))
        return self.keys.rows[name].kind

    def is_literal(self, text: str) -> bool:
        """Whether a text of `--set` is the value itself, and not YAML."""
        if "string" not in self.types or {"integer", "number", "boolean"} & {*self.types}:
            return False
        return len(self.types) == 1 or text.lstrip()[:1] not in ("[", "{")


class Key(NamedTuple):
    """One key of a job spec: a row of the table.

    Attributes:
        name: The key as the user writes it.
        kind: The kind of its value.
        help: Its purpose, in Markdown; also the description in the JSON Schema.
        examples: Values as JSON; the documentation shows the first.
        default: The default value, as a user would write it.
        missing: The hint if a required key is absent; "" for an optional key.
        words: Its names in other tools, separated by blanks.
        field: The field of the value class, if its name differs from the key.
        more: Text that the documentation adds to `help`.
        otherwise: The documentation's text for the default.
        of_site: Whether the settings may set it for all jobs.
        shared: Whether it is a key of the job and of its roles, which the JSON Schema defines once.
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
        """Return the JSON Schema: that of the value, with help, default and examples."""
        value = self.kind.schema()
        if self.kind.definition:
            value = {"allOf": [self.kind.reference()]}
        if self.default is not None:
            value = {**value, "default": self.default}
        return {"description": _without_markup(self.help), **value, "examples": list(self.examples)}

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
        rules: The rules between keys in the JSON Schema.
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
        self.rules = rules or {}

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the mapping."""
        required = [key.name for key in self.rows.values() if key.missing]
        schema: dict[str, Any] = {"type": "object", "additionalProperties": False}
        if required and "anyOf" not in self.rules:
            schema["required"] = required
        properties = {name: key.reference() for name, key in self.rows.items()}
        return {**schema, "properties": properties, **self.rules}

    def unknown(self, key: str) -> str:
        """Return the message for a key that the mapping does not have."""
        word = _plain(key)
        if word in self.advice:
            return f"unknown key {clip(key)}; {self.advice[word]}"
        meant = self.meant_by(key)
        if meant:
            return f"unknown key {clip(key)}; did you mean '{meant}'?"
        return f"unknown key {clip(key)}; the keys here are {', '.join(self.rows)}"

    def meant_by(self, key: str) -> str | None:
        """Return the key that the user most likely meant by an unknown one."""
        word = _plain(key)
        if word in self.advice:
            return None
        near = word if word in self.synonyms else closest(word, (*self.rows, *self.synonyms))
        return None if near is None else self.synonyms.get(near, near)


def _plain(key: str) -> str:
    return key.strip().lower().replace("-", "_")


def _without_markup(markdown: str) -> str:
    return _MARKUP.sub(lambda found: found[1] or "", markdown)
