"""The parameters and responses of each route in the OpenAPI document."""

from __future__ import annotations

from typing import Any

from submit_tf_job.gateway.shapes import Shape, ref, schemas

__all__ = [
    "CURSOR",
    "DELETE",
    "DESCRIPTION",
    "EVENTS",
    "JOB",
    "LIST",
    "LOGS",
    "SCHEMA",
    "STOP",
    "SUBMIT",
    "finish",
    "schemas",
]

CURSOR = r"^application_\d{1,19}_\d{1,19}$"

_PROBLEM = {
    "description": "A problem.",
    "content": {"application/problem+json": {"schema": ref("Problem")}},
}
_PROBLEMS: dict[int | str, Shape] = {"4XX": _PROBLEM, "5XX": _PROBLEM}
_UNCHANGED: Shape = {"description": "Not changed since the ETag in If-None-Match."}


def _route(operation: str, summary: str, **responses: Shape) -> dict[str, Any]:
    return {
        "operation_id": operation,
        "summary": summary,
        "responses": {
            **{name.removeprefix("s"): shape for name, shape in responses.items()},
            **_PROBLEMS,
        },
    }


def _json(description: str, name: str, links: Shape | None = None) -> Shape:
    shape = {"description": description, "content": {"application/json": {"schema": ref(name)}}}
    return {**shape, "links": links} if links else shape


def _links_to_job(name: str) -> Shape:
    """Return links to each operation on a job, whose name or id is in the response at `name`."""
    return {
        operation: {"operationId": operation, "parameters": {"name": f"$response.body#/{name}"}}
        for operation in (
            "get_job",
            "describe_job",
            "read_logs",
            "follow_job",
            "stop_job",
            "delete_job",
        )
    }


def finish(document: Shape) -> Shape:
    """Complete the document that FastAPI derived from the handlers.

    A parameter that may be left out is None to a handler, but a query and a header cannot be null;
    and FastAPI's titles only repeat the names.
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
    **_route(
        "submit_job",
        "Submit a job",
        s201=_json("Submitted.", "Submission", _links_to_job("run")),
        s200=_json("It was submitted before.", "Submission", _links_to_job("run")),
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
LIST = _route(
    "list_jobs",
    "List jobs",
    s200=_json("One page.", "JobList", {**_NEXT_PAGE, **_links_to_job("jobs/0/application_id")}),
    s304=_UNCHANGED,
)
JOB = _route("get_job", "Get a job", s200=_json("The job.", "Job"), s304=_UNCHANGED)
DESCRIPTION = _route(
    "describe_job",
    "Get a job in detail",
    s200=_json("The job, and more.", "JobDescription"),
    s304=_UNCHANGED,
)
STOP = _route(
    "stop_job",
    "Stop a job",
    s200=_json("It is over.", "Job"),
    s202=_json("It was asked to stop.", "Job"),
)
DELETE = _route("delete_job", "Delete a job", s200=_json("It is deleted.", "Deletion"))
SCHEMA = _route(
    "get_job_schema",
    "JSON Schema of the job spec",
    s200=_json("The schema.", "JobSpecSchema"),
    s304=_UNCHANGED,
)
LOGS = _route(
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
EVENTS = _route(
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
