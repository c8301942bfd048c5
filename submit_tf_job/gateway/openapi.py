"""The OpenAPI document: what fastapi learns from the handlers, and the shapes of what goes in and out."""

from __future__ import annotations

from typing import Any

from submit_tf_job.errors import TABLE
from submit_tf_job.gateway.problems import CODES
from submit_tf_job.gateway.store import STATES
from submit_tf_job.observation import JobState
from submit_tf_job.specfile import schema as job_schema

__all__ = ["DELETE", "DESCRIPTION", "EVENTS", "JOB", "LIST", "LOGS", "SCHEMA", "STOP", "SUBMIT", "WEBHOOKS", "WEBHOOK_KEY", "schemas"]

_Shape = dict[str, Any]


def _ref(name: str) -> _Shape:
    return {"$ref": f"#/components/schemas/{name}"}


_PROBLEM = {"description": "A problem.", "content": {"application/problem+json": {"schema": _ref("Problem")}}}
_PROBLEMS: dict[int | str, _Shape] = {"4XX": _PROBLEM, "5XX": _PROBLEM}
_UNCHANGED: _Shape = {"description": "The caller has it already (If-None-Match)."}


def _route(summary: str, **responses: _Shape) -> dict[str, Any]:
    return {"summary": summary, "responses": {**{name.removeprefix("s"): shape for name, shape in responses.items()}, **_PROBLEMS}}


def _json(description: str, name: str) -> _Shape:
    return {"description": description, "content": {"application/json": {"schema": _ref(name)}}}


SUBMIT = {
    **_route("Submit a job", s201=_json("Submitted.", "Submission"), s200=_json("It was submitted before.", "Submission")),
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "description": "A job spec, at most 1 MiB. It may name no file of the gateway's host.",
            "content": {"application/json": {"schema": _ref("JobSpec")}, "application/yaml": {"schema": {"type": "string"}}},
        }
    },
}
LIST = _route("List jobs", s200=_json("One page.", "JobList"), s304=_UNCHANGED)
JOB = _route("Look at a job", s200=_json("The job.", "Job"), s304=_UNCHANGED)
DESCRIPTION = _route("Look at a job in detail", s200=_json("The job, and more.", "JobDescription"), s304=_UNCHANGED)
WEBHOOKS = _route("List webhooks of a job", s200=_json("The caller's own.", "WebhookList"), s304=_UNCHANGED)
WEBHOOK_KEY = _route("Key of webhooks", s200=_json("The caller's own.", "WebhookKey"), s304=_UNCHANGED)
STOP = _route("Stop a job", s200=_json("It is over.", "Job"), s202=_json("It was asked to stop.", "Job"))
DELETE = _route("Delete a job", s200=_json("It is deleted.", "Deletion"))
_AN_OBJECT: _Shape = {"description": "The schema.", "content": {"application/json": {"schema": {"type": "object"}}}}
SCHEMA = _route("JSON Schema of the job spec", s200=_AN_OBJECT, s304=_UNCHANGED)
LOGS = _route(
    "Read logs",
    s200={
        "description": "Lines, as they come.",
        "content": {"text/plain": {"schema": {"type": "string"}}, "application/x-ndjson": {"schema": {"type": "string"}}},
    },
)
_EVENT = {
    "type": "object",
    "description": "One event; data is JSON: a Job or a Problem.",
    "required": ["event", "data"],
    "properties": {"event": {"enum": ["job", "problem"]}, "id": {"type": "string"}, "data": {"type": "string"}},
}
EVENTS = _route(
    "Follow a job",
    s200={
        "description": "Server-sent events: `job` with a Job, `problem` with a Problem and then the end.",
        "content": {"text/event-stream": {"schema": _EVENT}},
    },
    s204={"description": "It is over, and the caller has seen that (Last-Event-ID)."},
)


def _object(properties: _Shape, optional: tuple[str, ...] = ()) -> _Shape:
    return {"type": "object", "required": [name for name in properties if name not in optional], "properties": properties}


def _or_null(kind: str) -> _Shape:
    return {"type": [kind, "null"]}


_TEXT, _FLAG, _MAP = {"type": "string"}, {"type": "boolean"}, {"type": "object"}
_LIST = {"type": "array"}
_FORMAT = {"const": 1}
_INSTANT = {"type": ["string", "null"], "format": "date-time"}


def schemas() -> _Shape:
    """Return the shapes by name; those of jobs are described field by field in docs/json.md."""
    return {"Problem": _problem(), **_objects(), **_job_spec()}


def _problem() -> _Shape:
    codes = sorted({row.code for row in TABLE.values()} | set(CODES))
    return _object(
        {
            "type": {"type": "string", "format": "uri"},
            "title": _TEXT,
            "status": {"type": "integer"},
            "detail": _TEXT,
            "code": {"enum": codes},
            "retryable": {**_FLAG, "description": "Whether the same request may succeed later, with nothing changed."},
            "request": {**_TEXT, "description": "Names the request in the gateway's log."},
            "hint": _TEXT,
            "details": {**_MAP, "description": "Facts; of a bad job spec `problems`, each with its line and column."},
        },
        optional=("hint", "details"),
    )


def _objects() -> _Shape:
    states = {"enum": [state.value for state in JobState]}
    listed = {
        "kind": {"const": "ListedJob"}, "format": _FORMAT, "name": _TEXT, "application_id": _TEXT, "state": states,
        "user": _or_null("string"), "queue": _or_null("string"), "submitted_at": _INSTANT, "finished_at": _INSTANT,
        "elapsed_s": _or_null("integer"), "containers": _or_null("integer"), "memory_mib": _or_null("integer"),
    }  # fmt: skip
    job = {
        "kind": {"const": "Job"}, "format": _FORMAT, "name": _TEXT, "application_id": _or_null("string"), "user": _or_null("string"),
        "queue": _or_null("string"), "state": states, "reason": _TEXT, "confirmed": _or_null("boolean"), "hint": _TEXT,
        "failure": _or_null("object"), "root_cause": _or_null("object"), "pending": _LIST, "submission": _or_null("string"),
        "tasks": _or_null("object"), "roles": _MAP, "progress": _or_null("object"), "warnings": {**_LIST, "items": _TEXT},
        "evidence": _TEXT, "yarn": _or_null("object"), "started_at": _INSTANT, "finished_at": _INSTANT,
    }  # fmt: skip
    submission = {
        "kind": {"const": "Submission"}, "format": _FORMAT, "name": _TEXT, "application_id": _or_null("string"), "submission": _TEXT,
        "adopted": {**_FLAG, "description": "Whether it was there already."}, "warnings": {**_LIST, "items": _TEXT},
    }  # fmt: skip
    page = {
        "kind": {"const": "JobList"}, "format": _FORMAT, "jobs": {**_LIST, "items": _ref("ListedJob")},
        "next_cursor": {**_or_null("string"), "description": "`cursor` of the next page; null on the last."},
    }  # fmt: skip
    description = {
        **job, "kind": {"const": "JobDescription"}, "task_list": {**_LIST, "items": _MAP}, "limits": {**_LIST, "items": _MAP},
        "links": {**_LIST, "items": _MAP}, "attempts": {**_LIST, "items": _MAP}, "pages": _MAP,
    }  # fmt: skip
    webhook = _object({"id": _TEXT, "url": _TEXT, "state": {"enum": list(STATES)}, "attempts": {"type": "integer"}, "said": _TEXT})
    webhooks = {"kind": {"const": "WebhookList"}, "format": _FORMAT, "webhooks": {**_LIST, "items": webhook}}
    webhook_key = {"kind": {"const": "WebhookKey"}, "format": _FORMAT, "key": _TEXT}
    deletion = {"kind": {"const": "Deletion"}, "format": _FORMAT, "job": _TEXT, "deleted": _FLAG}
    rows = {"ListedJob": listed, "Job": job, "JobDescription": description, "Submission": submission, "JobList": page}
    rows |= {"Deletion": deletion, "WebhookList": webhooks, "WebhookKey": webhook_key}
    return {name: _object(properties) for name, properties in rows.items()}


def _job_spec() -> _Shape:
    """Put the job spec's own schema in: its definitions become components."""
    whole = job_schema()
    parts = whole.pop("definitions")
    del whole["$schema"]
    named = {"JobSpec": whole, **{f"JobSpec.{name}": part for name, part in parts.items()}}
    return {name: _moved(part) for name, part in named.items()}


def _moved(value: Any) -> Any:
    """Say draft-07 in the words of OpenAPI 3.1 (JSON Schema 2020-12): where definitions stand, and lists whose first item is another."""
    if isinstance(value, list):
        return [_moved(item) for item in value]
    if not isinstance(value, dict):
        return value
    moved = {name: _moved(item) for name, item in value.items()}
    if isinstance(moved.get("$ref"), str):
        moved["$ref"] = moved["$ref"].replace("#/definitions/", "#/components/schemas/JobSpec.")
    if isinstance(moved.get("items"), list):
        moved["prefixItems"], moved["items"] = moved["items"], moved.pop("additionalItems", True)
    return moved
