"""The resources below /v1, but those that are streams. Each handler is one call of the api, made in a thread, as the caller."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.security import HTTPBearer

from submit_tf_job import api
from submit_tf_job.errors import AuthError, NoSuchJob, SubmitTFJobError, UsageError, error_class
from submit_tf_job.fleet import Selection
from submit_tf_job.gateway import openapi, submission
from submit_tf_job.gateway.database import DatabaseTrouble
from submit_tf_job.gateway.limits import MAX_BODY
from submit_tf_job.gateway.paging import page
from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.gateway.state import Gateway
from submit_tf_job.gateway.threads import in_thread
from submit_tf_job.observation import JobState
from submit_tf_job.report.change import deletion_object
from submit_tf_job.report.detail import description_object
from submit_tf_job.report.job import job_object
from submit_tf_job.report.listing import listing_object
from submit_tf_job.specfile import schema as job_schema

__all__ = ["PROVEN", "Caller", "Name", "check_own", "gateway_of", "router"]

T = TypeVar("T")
_JSON = frozenset({"application/json", "text/json"})
_YAML = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"})
_bearer = HTTPBearer(auto_error=False, description="A token that `submit_tf_job gateway token` printed.")

Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", description="Name of the job, or an application id.")]
ListedState = Literal["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED"]


def gateway_of(request: Request) -> Gateway:
    """Return the gateway that serves a request."""
    gateway: Gateway = request.app.state.gateway
    return gateway


def caller_of(request: Request) -> str:
    """Say who is calling, and refuse a query that nothing here knows: a filter with a typo would select everything."""
    certificate = request.scope["state"].get("certificate", "")
    caller, request.state.proof = gateway_of(request).caller(request.headers.get("authorization"), certificate)
    request.state.caller = caller
    known = request.scope["route"].dependant.query_params
    unknown = set(request.query_params) - {parameter.alias for parameter in known}
    if unknown:
        raise UsageError(f"there is no query parameter {', '.join(sorted(unknown))[:200]}", hint="GET /openapi.json names them all")
    return caller


Caller = Annotated[str, Depends(caller_of)]
PROVEN = [Depends(_bearer)]
router = APIRouter(prefix="/v1", dependencies=PROVEN)


async def _work(request: Request, caller: str, call: Callable[[api.Cluster], T]) -> T:
    """Ask the cluster as the caller, within the caller's bounds."""
    gateway = gateway_of(request)
    with gateway.requests.one(caller):
        return await in_thread(lambda: call(gateway.cluster(caller)))


def _json(request: Request, value: object, status: int = 200, **headers: str) -> Response:
    """Answer with JSON, or with 304 where the caller has it already."""
    content = json.dumps(value).encode()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    if request.method == "GET":
        headers["ETag"] = tag
        held = [item.strip().removeprefix("W/") for item in request.headers.get("if-none-match", "").split(",")]
        if tag in held or "*" in held:
            return Response(status_code=304, headers=headers)
    return Response(content, status, headers, "application/json")


@router.post("/jobs", status_code=201, tags=["jobs"], **openapi.SUBMIT)
async def submit(
    request: Request,
    caller: Caller,
    replace: Annotated[bool, Query(description="Delete a job of that name first, if it is over.")] = False,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="Names this submission, such as a run's id: the same key and body again is the same job.",
            pattern=r"^[!-~]{1,255}$",
        ),
    ] = None,
    webhook_url: Annotated[
        str | None,
        Header(description="Told by POST when the job is over, where this gateway sends webhooks.", max_length=2000),
    ] = None,
) -> Response:
    """Submit a job, once: the same request again finds the job that it made."""
    key = submission.check_key(idempotency_key)
    webhook = _wanted(gateway_of(request), webhook_url)
    source = _source(request)
    body = await _body(request)
    metrics, keys = gateway_of(request).metrics, gateway_of(request).keys

    def post(cluster: api.Cluster) -> submission.Posted:
        return submission.submit(cluster, keys, body, source, key=key, replace=replace, webhook=webhook)

    try:
        posted = await _work(request, caller, post)
    except SubmitTFJobError as error:
        metrics.submission(error_class(error).code)
        raise
    done = posted.done
    metrics.submission("adopted" if done.adopted else "new")
    return _json(request, posted.to_json(), 200 if done.adopted else 201, Location=f"/v1/jobs/{done.ref.name}")


def _wanted(gateway: Gateway, url: str | None) -> submission.Wanted | None:
    """Check where a webhook is to go, before anything is done."""
    if url is None:
        return None
    if gateway.webhooks is None or gateway.store is None:
        raise UsageError("Webhook-Url: this gateway sends no webhooks", hint="leave it out, and ask for the job's state or its events")
    return submission.Wanted(gateway.store, gateway.webhooks.allowed.check(url))


def _source(request: Request) -> str:
    """Name the body by its content type, which decides how it is read."""
    media, _, parameters = request.headers.get("content-type", "").partition(";")
    media = media.strip().lower()
    if "charset" in parameters.lower() and "utf-8" not in parameters.lower():
        raise RequestRefused("media-type", "a body is UTF-8")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestRefused("media-type", "a body is sent as it is, without a Content-Encoding")
    if media in _JSON:
        return "body.json"
    if media in _YAML:
        return "body.yaml"
    raise RequestRefused("media-type", f"{media[:100] or 'no content type'}: a job spec is application/json or application/yaml")


async def _body(request: Request) -> bytes:
    """Read a body that is neither too large nor too slow."""
    content = bytearray()
    said = request.headers.get("content-length", "0")

    async def read() -> None:
        async for piece in request.stream():
            content.extend(piece)
            if len(content) > MAX_BODY:
                raise _too_large()

    if said.isdigit() and int(said) > MAX_BODY:
        raise _too_large()
    try:
        await asyncio.wait_for(read(), gateway_of(request).limits.body_s)
    except asyncio.TimeoutError:
        raise RequestRefused("request-timeout", "the body did not arrive in time") from None
    return bytes(content)


def _too_large() -> RequestRefused:
    return RequestRefused(
        "too-large",
        "larger than 1 MiB; a job spec holds no data",
        hint="put files on HDFS or into the image",
        headers={"Connection": "close"},
    )


@router.get("/jobs", tags=["jobs"], **openapi.LIST)
async def listing(
    request: Request,
    caller: Caller,
    state: Annotated[list[ListedState] | None, Query(description="Only in these states; may be repeated.")] = None,
    user: Annotated[
        str | None, Query(pattern=r"^(\*|[A-Za-z_][A-Za-z0-9._-]{0,99}\$?)$", description="Whose; `*` for everybody's. Default: yours.")
    ] = None,
    queue: Annotated[str | None, Query(pattern=r"^[A-Za-z0-9_.-]{1,200}$", description="Only in this queue.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="At most so many.")] = 100,
    cursor: Annotated[str | None, Query(max_length=60, description="`next_cursor` of the page before.")] = None,
) -> Response:
    """List jobs, the newest first, by YARN's word alone."""
    states = frozenset(JobState(item) for item in state or ())
    wanted = Selection(user=None if user == "*" else user or caller, queue=queue, states=states)
    jobs = await _work(request, caller, lambda cluster: api.list_jobs(cluster, wanted))
    rows, following = page(jobs, limit, cursor)
    return _json(request, {**listing_object(rows), "next_cursor": following})


@router.get("/jobs/{name}", tags=["jobs"], **openapi.JOB)
async def status(request: Request, caller: Caller, name: Name) -> Response:
    """Look at a job: where it is and, when it is over, how it ended by both witnesses."""
    return _json(request, job_object(await _work(request, caller, lambda cluster: api.status(cluster, name))))


@router.get("/jobs/{name}/description", tags=["jobs"], **openapi.DESCRIPTION)
async def description(request: Request, caller: Caller, name: Name) -> Response:
    """Look at a job in detail: why it waits or why it failed, each task, limits, links. A few requests to the cluster; do not poll it."""

    def describe(cluster: api.Cluster) -> Any:
        found = api.describe(cluster, name)
        return description_object(found, api.diagnose(cluster, found.look))

    return _json(request, await _work(request, caller, describe))


@router.get("/jobs/{name}/webhooks", tags=["jobs"], **openapi.WEBHOOKS)
async def webhooks(request: Request, caller: Caller, name: Name) -> Response:
    """List the caller's webhooks of a job, and what became of them."""
    gateway = gateway_of(request)

    def find(cluster: api.Cluster) -> list[Any]:
        application = name if name.startswith("application_") else api.status(cluster, name).seen.application_id
        try:
            return gateway.store.webhooks(caller, application) if gateway.store and application else []
        except DatabaseTrouble:
            raise RequestRefused("state-unavailable", "the gateway's state cannot be read now", hint="try again later") from None

    found = await _work(request, caller, find)
    return _json(request, {"kind": "WebhookList", "format": 1, "webhooks": [webhook.to_json() for webhook in found]})


@router.get("/webhook-key", tags=["about"], **openapi.WEBHOOK_KEY)
async def webhook_key(request: Request, caller: Caller) -> Response:
    """Return the key that the caller's webhooks are signed with (Standard Webhooks); nobody else's are."""
    webhooks = gateway_of(request).webhooks
    if webhooks is None:
        raise RequestRefused("no-such-page", "this gateway sends no webhooks")
    return _json(request, {"kind": "WebhookKey", "format": 1, "key": webhooks.keyring.key_of(caller)})


@router.post("/jobs/{name}/stop", tags=["jobs"], **openapi.STOP)
async def stop(
    request: Request,
    caller: Caller,
    name: Name,
    wait: Annotated[bool, Query(description="Answer only when YARN says that it is over.")] = False,
) -> Response:
    """End a job; one that is over stays as it is."""
    look = await _work(request, caller, lambda cluster: _stop(cluster, name, wait))
    return _json(request, job_object(look), 200 if look.verdict.state.is_final else 202)


def _stop(cluster: api.Cluster, name: str, wait: bool) -> Any:
    check_own(cluster, name)
    return api.stop(cluster, name, wait=wait)


def check_own(cluster: api.Cluster, name: str) -> None:
    """Leave jobs of others alone: a cluster without ACLs lets everybody, and nodes take us for the gateway (they know no proxy users)."""
    theirs = api.owner(cluster, name)
    if theirs not in (None, cluster.settings.user):
        raise AuthError(f"{name} is a job of {theirs}, and you are {cluster.settings.user}")


@router.delete("/jobs/{name}", tags=["jobs"], **openapi.DELETE)
async def delete(
    request: Request, caller: Caller, name: Name, force: Annotated[bool, Query(description="Stop it first if it is running.")] = False
) -> Response:
    """Forget a job and free its name. What it wrote stays, and so do its logs."""
    deleted = await _work(request, caller, lambda cluster: api.delete(cluster, name, force=force))
    if not deleted:
        raise NoSuchJob(f"there is no job {name}")
    return _json(request, deletion_object(name, deleted=True))


@router.get("/schema", tags=["about"], **openapi.SCHEMA)
async def schema(request: Request, caller: Caller) -> Response:  # noqa: ARG001 - it is for callers alone
    """Return the JSON Schema (draft-07) of the job spec."""
    return _json(request, job_schema())
