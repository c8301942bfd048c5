"""The schemas of the OpenAPI document, in the part of JSON Schema that client generators support.

That is: objects with named properties, arrays with `items`, references, and `oneOf` for nullable
values. `GET /v1/schema` returns the whole schema of the job spec, with its rules between keys.
"""

from __future__ import annotations

from typing import Any

from submit_tf_job.errors import TABLE
from submit_tf_job.gateway.problems import CODES
from submit_tf_job.jobspec import schema as job_schema
from submit_tf_job.observation import JobState

__all__ = ["Shape", "ref", "schemas"]

Shape = dict[str, Any]

_TEXT, _FLAG, _WHOLE, _NUMBER = (
    {"type": name} for name in ("string", "boolean", "integer", "number")
)
_FREE = {"type": "object", "additionalProperties": True}
_FORMAT = {"const": 1}
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
    return {**_answers(), **_parts_of_a_job(), **_job_spec()}


def _object(properties: Shape, optional: tuple[str, ...] = ()) -> Shape:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "required": required, "properties": properties}


def _kind(name: str, /, **properties: Shape) -> Shape:
    return _object({"kind": {"const": name}, "format": _FORMAT, **properties})


def _list(items: Shape) -> Shape:
    return {"type": "array", "items": items}


def _nullable(shape: Shape) -> Shape:
    if "$ref" in shape:
        return {"oneOf": [shape, {"type": "null"}]}
    return {**shape, "type": [shape["type"], "null"]}


def _described(shape: Shape, description: str) -> Shape:
    return {**shape, "description": description}


_RUN = _described(_TEXT, "Name of the run, which is that of its YARN service.")
_INSTANT = _nullable({**_TEXT, "format": "date-time"})


def _answers() -> Shape:
    job = _job()
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
        "Job": _kind("Job", **job),
        "JobDescription": _kind(
            "JobDescription",
            **job,
            task_list=_list(ref("Task")),
            start=_nullable(ref("Start")),
            limits=_list(ref("Limit")),
            attempts=_list(ref("Attempt")),
            pages=ref("Pages"),
        ),
        "ListedJob": _kind(
            "ListedJob",
            name=_TEXT,
            run=_RUN,
            application_id=_TEXT,
            state=ref("JobState"),
            user=_nullable(_TEXT),
            queue=_nullable(_TEXT),
            submitted_at=_INSTANT,
            finished_at=_INSTANT,
            elapsed_s=_nullable(_WHOLE),
            containers=_nullable(_WHOLE),
            memory_mib=_nullable(_WHOLE),
            runs=_described(
                _WHOLE, "How many runs of the job the ResourceManager lists; this is the newest."
            ),
        ),
        "JobList": _kind(
            "JobList",
            jobs=_list(ref("ListedJob")),
            next_cursor=_described(
                _nullable(_TEXT), "`cursor` of the next page; null on the last."
            ),
            caller=_described(_TEXT, "The caller: only jobs of this user are accessible."),
        ),
        "Submission": _kind(
            "Submission",
            name=_TEXT,
            run=_RUN,
            application_id=_TEXT,
            submission=_described(_TEXT, "The submission's key."),
            adopted=_described(_FLAG, "Whether the run existed already."),
            warnings=_list(_TEXT),
            remarks=_described(
                _list(ref("Remark")), "What did not carry over from a file of another system."
            ),
        ),
        "Remark": _object(
            {
                "level": {"enum": ["warning", "note"]},
                "source": _TEXT,
                "line": _WHOLE,
                "column": _WHOLE,
                "path": _TEXT,
                "text": _TEXT,
                "also": _WHOLE,
            }
        ),
        "JobWithFiles": _object(
            {
                "job": ref("JobSpec"),
                "files": _described(
                    _list({**_TEXT, "format": "binary"}),
                    "Each with the name, as filename, that `files` of the job spec uses.",
                ),
            },
            optional=("files",),
        ),
        "Deletion": _kind("Deletion", job=_TEXT, deleted=_FLAG, runs=_list(_TEXT)),
        "ServerSentEvent": _described(
            _object(
                {"event": {"enum": ["job", "problem"]}, "id": _TEXT, "data": _TEXT},
                optional=("id",),
            ),
            "One event; data is JSON: a Job or a Problem.",
        ),
        "JobSpecSchema": _described(_FREE, "A JSON Schema, draft-07."),
    }


def _job() -> Shape:
    return {
        "name": _TEXT,
        "run": _RUN,
        "application_id": _nullable(_TEXT),
        "user": _nullable(_TEXT),
        "queue": _nullable(_TEXT),
        "state": ref("JobState"),
        "reason": _TEXT,
        "confirmed": _nullable(_FLAG),
        "hint": _TEXT,
        "failure": _nullable(ref("Failure")),
        "root_cause": _nullable(ref("RootCause")),
        "pending": _list(ref("PendingCause")),
        "tasks": _nullable(ref("Tasks")),
        "roles": {"type": "object", "additionalProperties": ref("RoleCounts")},
        "progress": _nullable(ref("Progress")),
        "standstill": _nullable(ref("Standstill")),
        "awaited": _nullable(ref("Awaited")),
        "retries": _nullable(ref("Retries")),
        "warnings": _list(_TEXT),
        "resubmission": _nullable(ref("Resubmission")),
        "evidence": _TEXT,
        "yarn": _nullable(ref("YarnState")),
        "links": _list(ref("Link")),
        "started_at": _INSTANT,
        "finished_at": _INSTANT,
    }


def _parts_of_a_job() -> Shape:
    text, whole = _nullable(_TEXT), _nullable(_WHOLE)
    counts = ["wanted", "arrived", "running", "succeeded", "failed", "ended", "lost", "restarts"]
    return {
        "Failure": _object(
            {
                "task": _TEXT,
                "status": whole,
                "reason": _TEXT,
                "message": _TEXT,
                "host": text,
                "last_lines": _list(_TEXT),
            }
        ),
        "Standstill": _object(
            {
                "tasks": _list(_TEXT),
                "count": _WHOLE,
                "since": _NUMBER,
                "everything": _FLAG,
                "step": _nullable(_NUMBER),
                "others_step": _nullable(_NUMBER),
            }
        ),
        "Awaited": _object({"tasks": _list(_TEXT), "count": _WHOLE, "until": _NUMBER}),
        "Resubmission": _object(
            {
                "number": _WHOLE,
                "former": _TEXT,
                "memory_mib": {"type": "object", "additionalProperties": _WHOLE},
            }
        ),
        "Retries": _object(
            {
                "max": _WHOLE,
                "used": _WHOLE,
                "refusal": _TEXT,
                "generations": _list(
                    _object(
                        {
                            "number": _WHOLE,
                            "task": _TEXT,
                            "host": text,
                            "kind": _TEXT,
                            "message": _TEXT,
                            "step": _nullable(_NUMBER),
                            "duration_s": _nullable(_NUMBER),
                        }
                    )
                ),
            }
        ),
        "RootCause": _object(
            {
                "code": _TEXT,
                "sentence": _TEXT,
                "hint": _TEXT,
                "retryable": _FLAG,
                "task": text,
                "host": text,
                "container_id": text,
                "status": whole,
                "meaning": _TEXT,
                "exception": _TEXT,
                "last_lines": _list(_TEXT),
                "diagnostics": _TEXT,
                "consequences": _list(ref("Consequence")),
                "facts": _FREE,
            }
        ),
        "Consequence": _object({"task": _TEXT, "status": whole, "message": _TEXT}),
        "PendingCause": _object({"code": _TEXT, "sentence": _TEXT, "hint": _TEXT, "facts": _FREE}),
        "Tasks": _object(
            {"wanted": _WHOLE, "arrived": _WHOLE, "missing": _list(_TEXT), "unnamed": _list(_TEXT)}
        ),
        "RoleCounts": _object({**dict.fromkeys(counts, _WHOLE), "most": whole}),
        # The training program wrote it, so any field may be missing.
        "Progress": _object(
            {"step": _nullable(_NUMBER), "total": _nullable(_NUMBER), "metrics": _FREE},
            optional=("step", "total", "metrics"),
        ),
        "YarnState": _object({"state": _TEXT, "final_status": _TEXT, "diagnostics": _TEXT}),
        "Link": _object(
            {"task": _TEXT, "name": _TEXT, "host": _TEXT, "port": _WHOLE, "url": _TEXT, "via": text}
        ),
        "Task": _object(
            {
                "task": _TEXT,
                "state": _TEXT,
                "host": text,
                "address": text,
                "container_id": text,
                "launched_at": _INSTANT,
                "restarts": _WHOLE,
                "status": whole,
                "gpus": _list(_TEXT),
            }
        ),
        "Start": _object(
            {
                "yarn_s": _NUMBER,
                "names_s": _NUMBER,
                "barrier_s": _NUMBER,
                "by_address": _WHOLE,
                "generation": _WHOLE,
            }
        ),
        "Limit": _object({"name": _TEXT, "remaining_s": whole, "ends_at": _TEXT}),
        "Attempt": _object(
            {
                "id": text,
                "state": text,
                "node": text,
                "started_at": _INSTANT,
                "finished_at": _INSTANT,
            }
        ),
        "Pages": _object({"application": text, "am_logs": text}),
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
