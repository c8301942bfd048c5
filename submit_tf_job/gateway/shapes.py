"""The schemas of the OpenAPI document, in the part of JSON Schema that client generators support.

That is: objects with named properties, arrays with `items`, references, and `oneOf` for nullable
values. `GET /v1/schema` returns the whole schema of the job spec, with its rules between keys.
"""

from __future__ import annotations

from typing import Any

from submit_tf_job import jsonview
from submit_tf_job.errors import TABLE
from submit_tf_job.gateway.problems import CODES
from submit_tf_job.sdk.client import JobState, job_schema

__all__ = ["Shape", "ref", "schemas"]

Shape = dict[str, Any]

_TEXT, _FLAG, _WHOLE = ({"type": name} for name in ("string", "boolean", "integer"))
_FREE = {"type": "object", "additionalProperties": True}
# Rules between keys, and hints for editors. A generated client would send a default, and so
# override the cluster's settings.
_NOT_PLAIN = frozenset(
    (
        "if",
        "then",
        "else",
        "not",
        "dependencies",
        "propertyNames",
        "additionalItems",
        "default",
        "title",
        "$schema",
    )
)


def ref(name: str) -> Shape:
    """Return a reference to a schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def schemas() -> Shape:
    """Return the schemas by name; docs/json.md describes the fields of jobs."""
    return {**_answers(), **dict(jsonview.schemas()), **_job_spec()}


def _object(properties: Shape, optional: tuple[str, ...] = ()) -> Shape:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "required": required, "properties": properties}


def _described(shape: Shape, description: str) -> Shape:
    return {**shape, "description": description}


def _answers() -> Shape:
    """Return the schemas of what is no view of a job."""
    codes = sorted({row.code for row in TABLE.values()} | set(CODES))
    return {
        "Problem": _object(
            {
                "type": {**_TEXT, "format": "uri"},
                "title": _TEXT,
                "status": _WHOLE,
                "detail": _TEXT,
                "code": {"enum": codes},
                "retryable": _described(
                    _FLAG, "Whether the same request may succeed later without changes."
                ),
                "request": _described(_TEXT, "Id of the request in the gateway's log."),
                "hint": _TEXT,
                "details": _described(
                    _FREE, "Facts; for an invalid job spec `problems` with lines and columns."
                ),
            },
            optional=("hint", "details"),
        ),
        "JobState": {"type": "string", "enum": [state.value for state in JobState]},
        "JobWithFiles": _object(
            {
                "job": ref("JobSpec"),
                "files": _described(
                    {"type": "array", "items": {**_TEXT, "format": "binary"}},
                    "Each with the name, as filename, that `files` of the job spec uses.",
                ),
            },
            optional=("files",),
        ),
        "ServerSentEvent": _described(
            _object(
                {"event": {"enum": ["job", "problem"]}, "id": _TEXT, "data": _TEXT},
                optional=("id",),
            ),
            "One event; data is JSON: a Job or a Problem.",
        ),
        "JobSpecSchema": _described(_FREE, "A JSON Schema, draft-07."),
    }


def _job_spec() -> Shape:
    """Return the schemas of a job spec, with each definition as a component."""
    whole = job_schema()
    parts = whole.pop("definitions")
    del whole["properties"]["$schema"]
    named = {"JobSpec": whole, **{_component(name): part for name, part in parts.items()}}
    return {name: _plain(part) for name, part in named.items()}


def _component(definition: str) -> str:
    return f"JobSpec{definition[:1].upper()}{definition[1:]}"


def _plain(value: Shape) -> Shape:
    """Return a draft-07 schema without the keywords that generators cannot read; it accepts no
    less.
    """
    if "$ref" in value:
        return ref(_component(value["$ref"].rpartition("/")[2]))
    shape: Shape = {}
    for name, item in value.items():
        if name == "properties":
            shape[name] = {key: _plain(part) for key, part in item.items()}
        elif name in ("allOf", "anyOf", "oneOf"):
            branches = [_plain(part) for part in item if {"$ref", "type", "enum"} & set(part)]
            if branches:
                shape[name] = branches
        # the schema of the first item differs from the others
        elif name == "items" and isinstance(item, list):
            shape["prefixItems"] = [_plain(part) for part in item]
            shape[name] = _plain(value["additionalItems"])
        elif name in ("items", "additionalProperties") and isinstance(item, dict):
            shape[name] = _plain(item)
        elif name not in _NOT_PLAIN:
            shape[name] = item
    return shape
