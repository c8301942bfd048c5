"""The OpenAPI document: the parameters and responses of each route, and the schemas.

The schemas use only the part of JSON Schema that client generators support: objects with named
properties, arrays with `items`, references, and `oneOf` for nullable values. `GET /v1/schema`
returns the whole schema of the job spec, with its rules between keys.
"""

from __future__ import annotations

from typing import Any

from submit_tf_job import jsonview
from submit_tf_job.errors import TABLE
from submit_tf_job.gateway.problems import CODES
from submit_tf_job.sdk.client import JobState, job_schema

Shape = dict[str, Any]


def ref(name: str) -> Shape:
    """Return a reference to a schema."""
    return {"$ref": f"#/components/schemas/{name}"}


CURSOR = r"^application_\d{1,19}_\d{1,19}$"

_PROBLEM = {
    "description": "A problem.",
    "content": {"application/problem+json": {"schema": ref("Problem")}},
}
_PROBLEMS: dict[int | str, Shape] = {"4XX": _PROBLEM, "5XX": _PROBLEM}
_UNCHANGED: Shape = {"description": "Not changed since the ETag in If-None-Match."}


def _route_arguments(operation: str, summary: str, **responses: Shape) -> dict[str, Any]:
    return {
        "operation_id": operation,
        "summary": summary,
        "responses": {
            **{name.removeprefix("s"): shape for name, shape in responses.items()},
            **_PROBLEMS,
        },
    }


def _json_response(description: str, name: str, links: Shape | None = None) -> Shape:
    shape = {"description": description, "content": {"application/json": {"schema": ref(name)}}}
    return {**shape, "links": links} if links else shape


def _links_to_job(name: str) -> Shape:
    """Return links to each operation on a job whose name or id is at `name` in the response."""
    return {
        operation: {"operationId": operation, "parameters": {"name": f"$response.body#/{name}"}}
        for operation in (
            "get_job",
            "describe_job",
            "read_logs",
            "follow_job",
            "stop_job",
            "release_job",
            "delete_job",
        )
    }


def finish(document: Shape) -> Shape:
    """Complete the document that FastAPI derived from the handlers.

    For a handler, an optional parameter is None if it is left out; but in HTTP a query parameter or
    a header cannot be null, so null is removed from the schemas. FastAPI's titles are removed, too,
    because they only repeat the names.
    """
    for operation in (one for path in document["paths"].values() for one in path.values()):
        for parameter in operation.get("parameters", ()):
            shape = parameter["schema"]
            kinds = [kind for kind in shape.pop("anyOf", ()) if kind != {"type": "null"}]
            shape.update(*kinds)
            for repeated in ("title", "description"):
                shape.pop(repeated, None)
    document.setdefault("components", {})["schemas"] = schemas()
    return document


_SMALLEST: Shape = {
    "name": "mnist",
    "image": "library/python:3.11",
    "command": "python3 -c 'print(42)'",
    "strategy": "single",
    "roles": {"worker": {"memory": "512Mi"}},
}
SUBMIT = {
    **_route_arguments(
        "submit_job",
        "Submit a job",
        s201=_json_response("Submitted.", "Submission", _links_to_job("run")),
        s200=_json_response("It was submitted before.", "Submission", _links_to_job("run")),
    ),
    "openapi_extra": {
        "requestBody": {
            "required": True,
            # application/yaml is not among the contents, because client generators warn about it.
            "description": "A job spec, at most 1 MiB, as JSON or, with the content type "
            "application/yaml, as YAML."
            " It must not use files of the gateway's host. As multipart/form-data the "
            "request contains the files of the job spec.",
            "content": {
                "application/json": {"schema": ref("JobSpec"), "example": _SMALLEST},
                "multipart/form-data": {
                    "schema": ref("JobWithFiles"),
                    # OpenAPI has no way to write the name of a file, which a job spec with files
                    # needs.
                    "example": {"job": _SMALLEST, "files": []},
                    "encoding": {"job": {"contentType": "application/json, application/yaml"}},
                },
            },
        }
    },
}
_NEXT_PAGE: Shape = {
    "next_page": {
        "operationId": "list_jobs",
        "parameters": {"cursor": "$response.body#/next_cursor"},
    }
}
LIST = _route_arguments(
    "list_jobs",
    "List jobs",
    s200=_json_response(
        "One page.", "JobList", {**_NEXT_PAGE, **_links_to_job("jobs/0/application_id")}
    ),
    s304=_UNCHANGED,
)
HISTORY = _route_arguments(
    "list_runs",
    "List runs by their records",
    s200=_json_response("The runs.", "RunHistory"),
    s304=_UNCHANGED,
)
COMPARISON = _route_arguments(
    "compare_runs", "Compare runs", s200=_json_response("The runs.", "Comparison"), s304=_UNCHANGED
)
TOP = _route_arguments(
    "get_room",
    "Free capacity",
    s200=_json_response("The room.", "ClusterRoom"),
    s304=_UNCHANGED,
)
ROOM_FOR_JOB = {
    **_route_arguments(
        "get_room_for_job",
        "Free capacity, and whether a job would start now",
        s200=_json_response("The room, with `start` of the job.", "ClusterRoom"),
    ),
    "openapi_extra": SUBMIT["openapi_extra"],
}
JOB = _route_arguments(
    "get_job", "Get a job", s200=_json_response("The job.", "Job"), s304=_UNCHANGED
)
DESCRIPTION = _route_arguments(
    "describe_job",
    "Get a job in detail",
    s200=_json_response("The job, and more.", "JobDescription"),
    s304=_UNCHANGED,
)
WHY = _route_arguments(
    "explain_job",
    "Get why a job waits or failed",
    s200=_json_response("Why, and what is new since a run of it succeeded.", "Why"),
    s304=_UNCHANGED,
)
USAGE = _route_arguments(
    "read_usage",
    "Get what a job uses, and its curves",
    s200=_json_response("What it uses beside what it asked for.", "Usage"),
    s304=_UNCHANGED,
)
STOP = _route_arguments(
    "stop_job",
    "Stop a job",
    s200=_json_response("It is over.", "Job"),
    s202=_json_response("It was asked to stop.", "Job"),
)
RELEASE = _route_arguments(
    "release_job",
    "End the hold of a failed job's container",
    s200=_json_response("Its container is no longer held.", "Job"),
)
DELETE = _route_arguments(
    "delete_job", "Delete a job", s200=_json_response("It is deleted.", "Deletion")
)
SCHEMA = _route_arguments(
    "get_job_schema",
    "JSON Schema of the job spec",
    s200=_json_response("The schema.", "JobSpecSchema"),
    s304=_UNCHANGED,
)
LOGS = _route_arguments(
    "read_logs",
    "Read logs",
    s200={
        "description": "Lines, as they come; a JSON object each with the header "
        "`Accept: application/x-ndjson`.",
        "content": {
            "text/plain": {"schema": {"type": "string"}},
            "application/x-ndjson": {"schema": {"type": "string"}},
        },
    },
)
EVENTS = _route_arguments(
    "follow_job",
    "Follow a job",
    s200={
        "description": "Server-sent events: `job` with a Job, `problem` with a Problem and then the end.",  # noqa: E501
        "content": {
            "text/event-stream": {
                "schema": {"type": "string"},
                # `itemSchema` of OpenAPI 3.2, which generators for 3.1 refuse
                "x-itemSchema": ref("ServerSentEvent"),
            }
        },
    },
    s204={"description": "It is over, and the caller has that event (Last-Event-ID)."},
)


# --- the schemas ---

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


def schemas() -> Shape:
    """Return the schemas by name; docs/json.md describes the fields of jobs."""
    return {**_answer_schemas(), **dict(jsonview.schemas()), **_job_spec()}


def _object_schema(properties: Shape, optional: tuple[str, ...] = ()) -> Shape:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "required": required, "properties": properties}


def _with_description(shape: Shape, description: str) -> Shape:
    return {**shape, "description": description}


def _answer_schemas() -> Shape:
    """Return the schemas of problems, requests and events; the schemas of jobs are in
    `jsonview`.
    """
    codes = sorted({row.code for row in TABLE.values()} | set(CODES))
    return {
        "Problem": _object_schema(
            {
                "type": {**_TEXT, "format": "uri"},
                "title": _TEXT,
                "status": _WHOLE,
                "detail": _TEXT,
                "code": {"enum": codes},
                "retryable": _with_description(
                    _FLAG, "Whether the same request may succeed later without changes."
                ),
                "request": _with_description(_TEXT, "Id of the request in the gateway's log."),
                "hint": _TEXT,
                "details": _with_description(
                    _FREE, "Facts; for an invalid job spec `problems` with lines and columns."
                ),
            },
            optional=("hint", "details"),
        ),
        "JobState": {"type": "string", "enum": [state.value for state in JobState]},
        "JobWithFiles": _object_schema(
            {
                "job": ref("JobSpec"),
                "files": _with_description(
                    {"type": "array", "items": {**_TEXT, "format": "binary"}},
                    "Each with the name, as filename, that `files` of the job spec uses.",
                ),
            },
            optional=("files",),
        ),
        "ServerSentEvent": _with_description(
            _object_schema(
                {"event": {"enum": ["job", "problem"]}, "id": _TEXT, "data": _TEXT},
                optional=("id",),
            ),
            "One event; data is JSON: a Job or a Problem.",
        ),
        "JobSpecSchema": _with_description(_FREE, "A JSON Schema, draft-07."),
    }


def _job_spec() -> Shape:
    """Return the schemas of a job spec, in which each definition is a component of the document."""
    whole = job_schema()
    parts = whole.pop("definitions")
    del whole["properties"]["$schema"]
    named = {"JobSpec": whole, **{_component_name(name): part for name, part in parts.items()}}
    return {name: _without_draft_keywords(part) for name, part in named.items()}


def _component_name(definition: str) -> str:
    return f"JobSpec{definition[:1].upper()}{definition[1:]}"


def _without_draft_keywords(value: Shape) -> Shape:
    """Return a draft-07 schema without keywords that generators cannot read; the result accepts at
    least the same values.
    """
    if "$ref" in value:
        return ref(_component_name(value["$ref"].rpartition("/")[2]))
    shape: Shape = {}
    for name, item in value.items():
        if name == "properties":
            shape[name] = {key: _without_draft_keywords(part) for key, part in item.items()}
        elif name in ("allOf", "anyOf", "oneOf"):
            branches = [
                _without_draft_keywords(part)
                for part in item
                if {"$ref", "type", "enum"} & set(part)
            ]
            if branches:
                shape[name] = branches
        # the schema of the first item differs from the others
        elif name == "items" and isinstance(item, list):
            shape["prefixItems"] = [_without_draft_keywords(part) for part in item]
            shape[name] = _without_draft_keywords(value["additionalItems"])
        elif name in ("items", "additionalProperties") and isinstance(item, dict):
            shape[name] = _without_draft_keywords(item)
        elif name not in _NOT_PLAIN:
            shape[name] = item
    return shape
