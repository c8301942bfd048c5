"""The JSON Schema of job specs: use it to find what is wrong in a located tree, and return the
typed values of the tree.

The jsonschema library finds the errors; here each becomes a sentence at its location, by the row of
the key table. This module also reports problems that a schema cannot find: unquoted text that some
YAML readers turn into another type, numbers that they read differently, and text that the schema
accepts and the kind of the value refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from submit_tf_job.host.located.tree import (
    Diagnostics,
    Items,
    Location,
    Node,
    Scalar,
    ScalarKind,
    Table,
    Where,
    describe,
    to_python,
)
from submit_tf_job.host.located.yaml_source import retyped, surprising
from submit_tf_job.host.quoting import clip
from submit_tf_job.jobspec.keys import INPUT, JOB, OUTPUT, ROLE, SHARED
from submit_tf_job.jobspec.kinds import Key, Keys, Kind, group

_Path = tuple[str | int, ...]
_Error = Any  # jsonschema's ValidationError, each of whose attributes has "unset" in its type
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLAGS = {"true": "true", "yes": "true", "on": "true"} | dict.fromkeys(
    ("false", "no", "off"), "false"
)
_JSON_TYPES = {
    ScalarKind.TEXT: "string",
    ScalarKind.WHOLE: "integer",
    ScalarKind.REAL: "number",
    ScalarKind.BOOLEAN: "boolean",
    ScalarKind.NULL: "null",
}


# --- the JSON Schema ---

_DEFINED = (
    JOB.rows["name"],
    JOB.rows["lifetime"],
    ROLE.rows["memory"],
    *(keys.rows["uri"] for keys in (INPUT, OUTPUT)),
)
_DEFINITIONS: dict[str, Any] = {
    "role": {
        "description": "All tasks of one role.",
        **ROLE.schema,
        "examples": [{"instances": 4, "cpus": 4, "memory": "16Gi", "gpus": 1}],
    },
    **{name: key.schema() for name, key in SHARED.items()},
    **{key.kind.definition: key.kind.schema for key in _DEFINED},
}


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft-07) of the job spec, for editors and other tools.

    Example:
        >>> schema()["title"]
        'submit_tf_job job spec'
    """
    whole = JOB.schema
    at_schema = {
        "description": "Where an editor finds this schema; not read otherwise.",
        "type": "string",
        "examples": ["./job.schema.json"],
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "submit_tf_job job spec",
        "description": "One distributed TensorFlow job on YARN. Reference: submit_tf_job help "
        "job-spec. Rules that join several keys (which roles a strategy needs) are in part here "
        "and in full in `submit_tf_job validate`.",
        **whole,
        "properties": {"$schema": at_schema, **whole["properties"]},
        "allOf": [
            _under_strategy("single", _SINGLE, legacy_master={"const": False}),
            _under_strategy(
                "multi-worker",
                {"required": ["worker"], "properties": {"ps": False}},
                legacy_master={"const": False},
            ),
            _under_strategy(
                "parameter-server", {"required": ["worker", "ps"]}, legacy_master={"const": False}
            ),
            _under_strategy(
                "estimator", {"anyOf": [{"required": [name]} for name in ("chief", "master")]}
            ),
        ],
        "definitions": _DEFINITIONS,
    }


_SINGLE: dict[str, Any] = {
    "properties": {
        "ps": False,
        "evaluator": False,
        "worker": {"properties": {"instances": {"maximum": 1}}},
    },
    "oneOf": [{"required": [name]} for name in ("chief", "master", "worker")],
}


def _under_strategy(strategy: str, roles: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {
        "if": {"properties": {"strategy": {"const": strategy}}, "required": ["strategy"]},
        "then": {"properties": {"roles": roles, **keys}},
    }


# --- the check ---


def typed(root: Node, keys: Keys, at: Where, place: Location) -> Any:
    """Return the typed value of a located tree; each wrong value in it becomes None.

    Args:
        root: The tree.
        keys: The keys of the tree's mapping; their JSON Schema decides what is wrong.
        at: The path of the tree; collects problems, and the location of every value.
        place: The location of the tree.
    """
    at.notes.places[at.path] = place
    decides = schema() if keys is JOB else {**keys.schema, "definitions": _DEFINITIONS}
    return _Check(root, group(keys), at).result(decides)


@dataclass(frozen=True)
class _Located:
    """A value of the tree with its path, its kind and, if the key table has a row for it, that
    row.
    """

    node: Node
    at: Where
    kind: Kind | None
    row: Key | None = None

    @property
    def keys(self) -> set[str]:
        return {entry.key for entry in self.node.entries} if isinstance(self.node, Table) else set()

    @property
    def meant(self) -> set[str | None]:
        """The known keys of which the unknown keys of this mapping are most likely misspellings."""
        known = self.kind.keys if self.kind else None
        return {known.meant_by(key) for key in self.keys - set(known.rows)} if known else set()


class _Check:
    def __init__(self, root: Node, kind: Kind, at: Where) -> None:
        self._notes: Diagnostics = at.notes
        self._seen: dict[_Path, _Located] = {}
        self._wrong: set[_Path] = set()
        self._plain = self._json_value(_Located(root, at, kind), ())

    def result(self, schema: Mapping[str, Any]) -> Any:
        """Report all problems, and return the typed value."""
        # imported here: other commands import this package, and read no job spec
        from jsonschema import Draft7Validator

        found = Draft7Validator(schema).iter_errors(self._plain)
        errors = [leaf for error in found for leaf in _errors_to_report(error)]
        crowded = [tuple(e.absolute_path) for e in errors if e.validator == "maxProperties"]
        for error in errors:
            path = tuple(error.absolute_path)
            above = any(path[: len(top)] == top != path for top in crowded)
            if _is_rule(error):
                continue
            if above or self._notes.full:
                self._wrong.add(path)  # the value must not be made of it
            else:
                self._report_error(error, path)
        return self._typed_value(())

    # --- the tree as JSON values ---

    def _json_value(self, seen: _Located, path: _Path) -> Any:
        """Return a node as a JSON value; remember each value in it by its path."""
        self._seen[path] = seen
        node, kind, places = seen.node, seen.kind, self._notes.places
        if isinstance(node, Scalar):
            return to_python(node)
        if isinstance(node, Items):
            found = []
            for index, item in enumerate(node.items):
                at = seen.at.item(index)
                places[at.path] = item.place
                found.append(
                    self._json_value(_Located(item, at, kind and kind.items), (*path, index))
                )
            return found
        rows, members = kind.keys.rows if kind and kind.keys else {}, {}
        for entry in node.entries:
            row, at = rows.get(entry.key), seen.at.member(entry.key)
            places[at.path] = entry.place
            inside = _Located(entry.value, at, row.kind if row else kind and kind.members, row)
            members[entry.key] = self._json_value(inside, (*path, entry.key))
        return members

    # --- the schema's errors as problems ---

    def _report_error(self, error: _Error, path: _Path) -> None:
        seen = self._seen[path]
        if error.validator == "additionalProperties" and seen.kind and seen.kind.keys:
            for entry in seen.node.entries if isinstance(seen.node, Table) else ():
                if entry.key not in seen.kind.keys.rows and not self._notes.full:
                    message = seen.kind.keys.unknown(entry.key)
                    self._notes.problem(entry.place, seen.at.path, message)
        elif error.validator == "required":
            self._report_missing(seen, path, error.validator_value)
        elif _is_choice_of_keys(error):
            self._report_missing(seen, path, _likeliest_keys(error))
        elif "propertyNames" in error.absolute_schema_path:
            name = error.instance
            inside = (*path, name)
            self._wrong.add(inside)
            names = seen.kind.names if seen.kind else None
            said = _explained_by_kind(names, name) if names else ""
            self._seen[inside].at.fail(said or error.message)
        else:
            self._wrong.add(path)
            if seen.node.place not in self._notes.tagged:
                seen.at.fail(_sentence_of_error(seen, error))

    def _report_missing(self, seen: _Located, path: _Path, keys: list[str]) -> None:
        rows = seen.kind.keys.rows if seen.kind and seen.kind.keys else {}
        for key in set(keys) - seen.keys - seen.meant:
            self._wrong.add((*path, key))
            seen.at.fail(f"missing; {rows[key].missing}", key)

    # --- typed values ---

    def _typed_value(self, path: _Path) -> Any:
        seen = self._seen[path]
        node, kind = seen.node, seen.kind
        if path in self._wrong or kind is None:
            return None
        try:
            if isinstance(node, Scalar):
                return self._of_scalar(node, kind)
            if isinstance(node, Items):
                return kind.make([self._typed_value((*path, n)) for n in range(len(node.items))])
            if kind.keys is not None:
                return kind.make(self._of_keys(seen, kind.keys, path))
            return kind.make(
                {entry.key: self._typed_value((*path, entry.key)) for entry in node.entries}
            )
        except ValueError as wrong:
            seen.at.fail(str(wrong))
            return None

    def _of_scalar(self, node: Scalar, kind: Kind) -> Any:
        single = kind.single or kind
        if node.kind is ScalarKind.WHOLE and not _DECIMAL.fullmatch(node.text):
            raise ValueError(
                f"write {clip(node.text)[1:-1]} as a plain decimal number; YAML readers disagree "
                f"about what it is"
            )
        control = _CONTROL.search(node.text)
        if control:
            raise ValueError(
                f"the text holds the control character U+{ord(control.group()):04X}; take it out"
            )
        made = surprising(node.text) if single.exact and node.plain else None
        if made:
            raise ValueError(
                f"YAML 1.1 reads {clip(node.text)[1:-1]} as {made}; for text, quote it: "
                f"{_quoted_text(node.text)}"
            )
        value = single.make(to_python(node))
        if kind.single is None:
            return value
        if kind.keys is None:
            return kind.make([value])
        return kind.make({kind.keys.rows[kind.short].field or kind.short: value})

    def _of_keys(self, seen: _Located, keys: Keys, path: _Path) -> dict[str, Any]:
        """Return the values of known keys by field. The value is None for a required key that is
        missing, and for a key of which an unknown key is most likely a misspelling.
        """
        values: dict[str, Any] = {}
        for name, key in keys.rows.items():
            if (*path, name) in self._seen:
                values[key.field or name] = self._typed_value((*path, name))
            elif (*path, name) in self._wrong:
                values[key.field or name] = None
            elif key.default is not None:
                self._notes.default(seen.at.member(name).path)
        for name in filter(None, seen.meant):
            values.setdefault(keys.rows[name].field or name, None)
        return values


# --- errors of jsonschema ---


def _errors_to_report(error: _Error) -> Iterator[_Error]:
    """Yield the errors to report. If the schema has several alternatives and the type of the value
    fits only one of them, yield the errors of that alternative; else one error for all.
    """
    if not error.context or _is_choice_of_keys(error):
        yield error
        return
    branches: dict[Any, list[_Error]] = {}
    for inner in error.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    fitting = [found for found in branches.values() if not any(map(_is_of_another_type, found))]
    if len(fitting) == 1:
        for inner in fitting[0]:
            yield from _errors_to_report(inner)
    else:
        yield error


def _is_of_another_type(error: _Error) -> bool:
    kinds = ("type", "enum", "const", "anyOf", "oneOf")
    return not error.path and error.validator in kinds and not _is_choice_of_keys(error)


def _is_choice_of_keys(error: _Error) -> bool:
    """Return whether the error is an `anyOf` of `required` lists, which means that one of several
    sets of keys must be present.
    """
    choices = error.validator_value if error.validator == "anyOf" else ()
    return bool(choices) and all(set(choice) == {"required"} for choice in choices)


def _likeliest_keys(error: _Error) -> list[str]:
    """Return the list of keys of which the fewest are missing; the first list if none of the keys
    is present.
    """
    stated = set(error.instance)
    lists: list[list[str]] = [choice["required"] for choice in error.validator_value]
    begun = [keys for keys in lists if not stated.isdisjoint(keys)]
    return min(begun, key=lambda keys: len(set(keys) - stated), default=lists[0])


def _is_rule(error: _Error) -> bool:
    """Return whether an error breaks a rule about several keys; `rules.py` and the kinds report
    such errors in words.
    """
    path = ["", *error.absolute_schema_path]
    words = {word for before, word in pairwise(path) if before != "properties"}
    return (
        error.validator == "not"
        or not {"then", "dependencies"}.isdisjoint(words)
        or (error.validator == "maximum" and "type" not in error.schema)
    )


# --- sentences ---


def _sentence_of_error(seen: _Located, error: _Error) -> str:
    node, kind = seen.node, seen.kind
    assert kind is not None
    if isinstance(node, Scalar) and node.kind is ScalarKind.NULL and seen.row is not None:
        return f"there is no value; {seen.row.missing or 'write one, or leave the key out'}"
    if error.validator in ("minItems", "minProperties"):
        return kind.empty
    if error.validator == "maxProperties":
        return kind.too_many.format(many=len(error.instance))
    if error.validator == "minLength":
        return "expected the program's name, found an empty one"
    said = _of_this_type(node, kind) if isinstance(node, Scalar) else ""
    return said or f"expected {kind.expected}, found {describe(node)}{_hint_for_type(node, kind)}"


def _of_this_type(node: Scalar, kind: Kind) -> str:
    """Return the problem that the kind finds in a scalar; "" if there is none, or the scalar has
    another type.
    """
    single = kind.single or kind
    own_words = single.explains_all and kind.expected == "text"
    if node.kind is ScalarKind.TEXT and not node.text.strip() and not own_words:
        return f"expected {kind.expected}, found an empty one" if "string" in single.types else ""
    value, shown = to_python(node), clip(node.text)
    if value is not None and _JSON_TYPES[node.kind] in single.types:
        return _explained_by_kind(single, value)
    if node.kind in (ScalarKind.WHOLE, ScalarKind.REAL) and single.explains_all:
        # an amount without its unit is shown as the number that it is
        said = _explained_by_kind(single, node.text)
        said = said if own_words else said.replace(shown, shown[1:-1], 1)
        if said:
            return said
    if kind.expected == "text" and node.plain and node.kind is not ScalarKind.NULL:
        how = f"for text, quote it: {_quoted_text(node.text)}"
        return f"YAML reads {shown[1:-1]} as {retyped(node)}; {how}"
    return ""


def _quoted_text(text: str) -> str:
    return '"' + clip(text)[1:-1] + '"'


def _explained_by_kind(kind: Kind, value: object) -> str:
    try:
        kind.make(value)
    except ValueError as wrong:
        return str(wrong)
    return ""


def _hint_for_type(node: Node, kind: Kind) -> str:
    """Return how to write a value that has the wrong type as a value of this kind; "" if that is
    not known.
    """
    if not isinstance(node, Scalar):
        return ""
    if node.kind is ScalarKind.NULL:
        return '; write "" for empty text' if kind.exact else ""
    if node.kind is not ScalarKind.TEXT:
        return "; put it in quotes" if kind.expected == "text" else ""
    if kind.types == ("array",):
        return "; put it in [ ]"
    if kind.types == ("boolean",) and node.text.lower() in _FLAGS:
        return f"; write {_FLAGS[node.text.lower()]}, without quotes"
    is_number = "integer" in kind.types and _DECIMAL.fullmatch(node.text)
    return "; leave out the quotes" if is_number else ""
