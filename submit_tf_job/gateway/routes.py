"""The resources below /v1, except streams.

Each handler calls the caller's client in a thread.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.security import HTTPBearer
from pydantic import StringConstraints
from starlette.requests import ClientDisconnect

from submit_tf_job.errors import NoSuchJob, SubmitTFJobError, UsageError
from submit_tf_job.gateway import openapi, submission
from submit_tf_job.gateway.problems import code_of
from submit_tf_job.gateway.runtime import Gateway, in_thread
from submit_tf_job.gateway.watchers import Causes
from submit_tf_job.host.units import duration_s
from submit_tf_job.jsonview import (
    comparison_object,
    deletion_object,
    description_object,
    history_object,
    page_object,
    room_object,
    usage_object,
    why_object,
)
from submit_tf_job.sdk.client import Client, JobHandle, job_schema

if TYPE_CHECKING:
    from submit_tf_job.sdk.client import ListedJob

T = TypeVar("T")
_bearer = HTTPBearer(
    auto_error=False, description="A token that `submit_tf_job gateway token` printed."
)

_JOB = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
_JOB_PATTERN = r"^[A-Za-z0-9*?][A-Za-z0-9._*?-]{0,99}$"
Name = Annotated[
    str,
    Path(
        pattern=_JOB,
        description="Name of the job, or an application id.",
    ),
]
ListedState = Literal["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED"]


@dataclass(frozen=True)
class Authenticated:
    """A request, and the caller who sent it.

    Attributes:
        request: The request.
        user: The caller's user name on the cluster.
        gateway: The gateway.
    """

    request: Request
    user: str
    gateway: Gateway

    async def with_client(self, call: Callable[[Client], T]) -> T:
        """Call a function with the caller's client in a thread, and return its result.

        Raises:
            RequestRefused: The caller, or all callers together, have too many requests at once.
            AuthError: The gateway cannot act for the caller on the cluster.
        """
        with self.gateway.requests.take(self.user):
            return await in_thread(lambda: call(self.gateway.clients.client_of(self.user)))

    async def with_client_while(self, call: Callable[[Client, Callable[[], bool]], T]) -> T:
        """Call a function as `with_client` does, with two arguments: the caller's client, and a
        function that returns whether the HTTP client has closed the connection.

        Raises:
            ClientDisconnect: The client left, and the function was ended because of that.
        """
        has_left = threading.Event()
        work = asyncio.ensure_future(self.with_client(lambda it: call(it, has_left.is_set)))
        leaving = asyncio.ensure_future(_until_disconnected(self.request))
        try:
            await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                has_left.set()
            return await work
        except (SubmitTFJobError, CancelledError):
            if has_left.is_set():
                raise ClientDisconnect from None
            raise
        finally:
            has_left.set()
            leaving.cancel()
            work.cancel()

    async def with_job(self, name: str, call: Callable[[JobHandle, Causes], T]) -> T:
        """Call a function as `with_client` does, with two arguments: the handle of the job with
        this name or id, and the store of the causes of failed jobs.
        """
        return await self.with_client(lambda it: call(it.attach(name), self.gateway.causes))

    def done(self, result: str, **facts: str) -> None:
        """Add the result of the operation, and `facts` such as its run, to the log's entry for this
        request.
        """
        self.request.state.action |= {**facts, "result": result}

    def json(self, value: object, status: int = 200, **headers: str) -> Response:
        """Return a JSON response; for a GET with an ETag, or 304 if the caller already has the same
        content.
        """
        content = json.dumps(value).encode()
        if self.request.method == "GET":
            return with_etag(self.request, content, headers, "application/json")
        return Response(content, status, headers, "application/json")


async def _until_disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def with_etag(request: Request, content: bytes, headers: dict[str, str], media: str) -> Response:
    """Return a response with an ETag, or 304 if the caller already has the same content."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    sent = request.headers.get("if-none-match", "").split(",")
    held = [item.strip().removeprefix("W/") for item in sent]
    if tag in held or "*" in held:
        return Response(status_code=304, headers={**headers, "ETag": tag})
    return Response(content, headers={**headers, "ETag": tag}, media_type=media)


def authenticated(request: Request) -> Authenticated:
    """Authenticate the caller of a request, and check that the policy allows the caller such a
    request (`expires`, `role`) and that no query parameter is unknown: a filter with a typo would
    otherwise select everything.

    Raises:
        RequestRefused: The client is not a known caller, or the policy does not allow the request.
        UsageError: A query parameter is unknown.
        SettingsError: The file of callers or the policy cannot be read.
    """
    gateway: Gateway = request.app.state.gateway
    # a proxy may have checked another one of several; joined (RFC 9110, 5.2) they are no token
    proofs = ", ".join(request.headers.getlist("authorization"))
    caller, request.state.proof = gateway.caller(proofs)
    request.state.caller = caller
    changes = request.method not in ("GET", "HEAD") and request.scope["route"].name != _ASKS
    if changes:  # the log's record, also of what is refused
        name = request.path_params.get("name")
        request.state.action = {"action": request.scope["route"].name, "job": name}
    gateway.policy.rules(caller).check_request(caller, changes=changes)
    known = request.scope["route"].dependant.query_params
    unknown = set(request.query_params) - {parameter.alias for parameter in known}
    if unknown:
        raise UsageError(
            f"unknown query parameter: {', '.join(sorted(unknown))[:200]}",
            hint="GET /openapi.json lists them all",
        )
    return Authenticated(request, caller, gateway)


Caller = Annotated[Authenticated, Depends(authenticated)]
AUTHENTICATED = [Depends(_bearer)]
# a duration before now, or an instant in UTC
_MOMENT = (
    r"^([0-9]{1,6}(ms|s|m|h|d)|[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,3})?Z)$"
)
_ASKS = "top_for_job"  # the POST that changes nothing
MOST_GRACE_S = 600  # the request occupies a thread for that time

router = APIRouter(prefix="/v1", dependencies=AUTHENTICATED)


@router.post("/jobs", status_code=201, tags=["jobs"], **openapi.SUBMIT)
async def submit(
    caller: Caller,
    dialect: Annotated[
        str | None,
        Query(description="Format of a job file of another system; by default recognised."),
    ] = None,
    idempotency_key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            description="Id of this submission, such as a scheduler's: the same key finds the same "
            "run, and never starts another.",
            pattern=r"^[!-~]{1,255}$",
        ),
    ] = None,
) -> Response:
    """Submit a job: the same request again finds its run while that lives, and with an
    Idempotency-Key also after its end.
    """
    gateway, action = caller.gateway, caller.request.state.action
    async with submission.received(caller.request, gateway, caller.user) as sent:
        action["body_sha256"] = hashlib.sha256(sent.identity).hexdigest()

        def post(client: Client, has_left: Callable[[], bool]) -> tuple[JobHandle, Any]:
            policy = gateway.policy
            return submission.submit(
                client, sent, policy, idempotency_key, dialect, action, has_left
            )

        try:
            handle, body = await caller.with_client_while(post)
        except SubmitTFJobError as error:
            gateway.metrics.submission(code_of(error))
            raise
    result = "adopted" if handle.adopted else "new"
    caller.done(result, run=handle.run, application_id=handle.application_id)
    gateway.metrics.submission(result)
    status = 200 if handle.adopted else 201
    return caller.json(body, status, Location=f"/v1/jobs/{handle.run}")


@router.get("/jobs", tags=["jobs"], **openapi.LIST)
async def listing(
    caller: Caller,
    state: Annotated[
        list[ListedState] | None, Query(description="Only in these states; may be repeated.")
    ] = None,
    user: Annotated[
        str | None,
        Query(
            pattern=r"^(\*|[A-Za-z_][A-Za-z0-9._-]{0,99}\$?)$",
            description="Owner; `*` for all users. Default: you.",
        ),
    ] = None,
    queue: Annotated[
        str | None, Query(pattern=r"^[A-Za-z0-9_.-]{1,200}$", description="Only in this queue.")
    ] = None,
    name: Annotated[
        str | None,
        Query(
            pattern=r"^[A-Za-z0-9*][A-Za-z0-9._*-]{0,99}$",
            description="Only jobs of this name; `*` stands for any text: `train-*`.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        Query(
            pattern=_MOMENT,
            description="Only jobs submitted in the last 90m, 24h, 7d, or at or after an instant "
            "in UTC: 2026-05-04T09:30:00Z.",
        ),
    ] = None,
    until: Annotated[
        str | None, Query(pattern=_MOMENT, description="Only jobs submitted before it, as `since`.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Size of a page, at most.")] = 100,
    cursor: Annotated[
        str | None,
        Query(pattern=openapi.CURSOR, description="`next_cursor` of the previous page."),
    ] = None,
) -> Response:
    """List jobs, the newest first, by YARN's state only."""
    # jobs have times by the ResourceManager's clock; this host's may be wrong
    now_ms = await caller.with_client(lambda client: client.cluster.now_ms())
    since_ms = _moment_ms(since, now_ms) if since else 0
    until_ms = _moment_ms(until, now_ms) if until else None
    listed = await caller.with_client(
        lambda client: client.jobs(
            user=None if user == "*" else user or caller.user,
            queue=queue,
            states=state or (),
            # the clocks of two ResourceManagers may differ; the selection below is exact
            within_s=(now_ms - since_ms) / 1000 + 60.0 if since else None,
        ),
    )
    jobs = [
        job
        for job in listed
        if (name is None or fnmatchcase(job.name, name))
        and (job.submitted_ms or 0) >= since_ms
        and (until_ms is None or (job.submitted_ms or 0) < until_ms)
    ]
    rows, following = _page_of(jobs, limit, cursor)
    return caller.json(page_object(rows, following, caller.user))


@router.get("/history", tags=["jobs"], **openapi.HISTORY)
async def history(
    caller: Caller,
    name: Annotated[
        str | None,
        Query(pattern=_JOB, description="Only runs of this job, or one run by its own name."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="At most so many, the newest.")] = 50,
) -> Response:
    """List the caller's runs by their records, which stay when YARN has forgotten a run.

    A run whose end is not in its record takes several requests to the cluster.
    """
    runs = await caller.with_client(lambda client: client.history(name, limit=limit))
    return caller.json(history_object(runs))


@router.get("/comparison", tags=["jobs"], **openapi.COMPARISON)
async def comparison(
    caller: Caller,
    run: Annotated[
        list[Annotated[str, StringConstraints(pattern=_JOB_PATTERN)]],
        Query(
            min_length=1,
            max_length=100,
            description="A run; a job, by its newest run, one alone by its last ten; an "
            "application id; or a pattern of jobs: `hpo-*`. May be repeated.",
        ),
    ],
    sort: Annotated[
        str | None,
        Query(min_length=1, max_length=200, description="A metric: the best run first."),
    ] = None,
) -> Response:
    """Compare the caller's runs: what differs in what they were given, and their results."""
    found = await caller.with_client(lambda client: client.compare(*run, sort=sort))
    return caller.json(comparison_object(found))


@router.get("/top", tags=["about"], **openapi.TOP)
async def top(caller: Caller) -> Response:
    """Return the free capacity of queues, node labels and nodes."""
    return caller.json(room_object(await caller.with_client(lambda client: client.top())))


@router.post("/top", tags=["about"], **openapi.ROOM_FOR_JOB)
async def top_for_job(
    caller: Caller,
    dialect: Annotated[
        str | None,
        Query(description="Format of a job file of another system; by default recognised."),
    ] = None,
) -> Response:
    """Return the free capacity, and whether a job would start now; nothing is submitted."""
    gateway = caller.gateway
    async with submission.received(caller.request, gateway, caller.user) as sent:

        def ask(client: Client, has_left: Callable[[], bool]) -> Any:
            job = submission.read_job(client, sent, dialect, has_left)
            gateway.policy.rules(caller.user).check_job(job)
            return client.top(job)

        return caller.json(room_object(await caller.with_client_while(ask)))


@router.get("/jobs/{name}", tags=["jobs"], **openapi.JOB)
async def status(caller: Caller, name: Name) -> Response:
    """Get a job: its state and, once it is over, its verdict, and why it failed."""
    found = await caller.with_job(name, lambda job, causes: causes.explained(job, job.status()))
    return caller.json(found.to_json())


@router.get("/jobs/{name}/description", tags=["jobs"], **openapi.DESCRIPTION)
async def description(caller: Caller, name: Name) -> Response:
    """Get a job in detail: why it waits or failed, each task, limits, links.

    It takes several requests to the cluster; do not poll it.
    """

    def describe(job: JobHandle, causes: Causes) -> Any:
        found = job.describe()
        cause = causes.explained(job, found).root_cause
        return description_object(found.job, job.why_pending(found), cause)

    return caller.json(await caller.with_job(name, describe))


@router.get("/jobs/{name}/why", tags=["jobs"], **openapi.WHY)
async def why(caller: Caller, name: Name) -> Response:
    """Get why a job waits or failed, and what is new since a run of it succeeded.

    It takes several requests to the cluster; do not poll it.
    """
    found = await caller.with_job(name, lambda job, _causes: job.why())
    return caller.json(why_object(found))


@router.get("/jobs/{name}/usage", tags=["jobs"], **openapi.USAGE)
async def usage(caller: Caller, name: Name) -> Response:
    """Get what a job uses beside what it asked for, its curves, and what to ask for next time.

    It takes several requests to the cluster; do not poll it more often than every 10 s: the job
    writes its use no more often.
    """
    found = await caller.with_job(name, lambda job, _causes: job.usage())
    return caller.json(usage_object(found))


@router.post("/jobs/{name}/stop", tags=["jobs"], **openapi.STOP)
async def stop(
    caller: Caller,
    name: Name,
    wait: Annotated[bool, Query(description="Respond only when YARN reports its end.")] = False,
    grace: Annotated[
        float | None,
        Query(
            ge=0,
            le=MOST_GRACE_S,
            description="Seconds for the tasks to save and end before YARN stops the job; the "
            "response comes after that. With `wait`, by default `stop_grace` of its spec.",
        ),
    ] = None,
) -> Response:
    """Stop a job; a finished job is not changed."""
    status = await caller.with_job(
        name, lambda job, causes: causes.explained(job, job.stop(wait=wait, grace_s=grace))
    )
    caller.done(status.state.value, run=status.run, application_id=status.application_id)
    return caller.json(status.to_json(), 200 if status.is_over else 202)


@router.post("/jobs/{name}/release", tags=["jobs"], **openapi.RELEASE)
async def release(caller: Caller, name: Name) -> Response:
    """End the hold of the container in which a job failed (`hold_on_failure`).

    It responds when YARN reports the end of the job. An application that has not ended a minute
    later is stopped, which may take two minutes more.
    """
    status = await caller.with_job(name, lambda job, causes: causes.explained(job, job.release()))
    caller.done(status.state.value, run=status.run, application_id=status.application_id)
    return caller.json(status.to_json())


@router.delete("/jobs/{name}", tags=["jobs"], **openapi.DELETE)
async def delete(
    caller: Caller,
    name: Name,
    force: Annotated[bool, Query(description="Stop it first if it is running.")] = False,
) -> Response:
    """Delete all ended runs of a job and their staged files, or one run. Logs and outputs stay."""
    deleted = await caller.with_client(lambda client: client.delete(name, force=force))
    if not deleted:
        raise NoSuchJob(f"there is no job {name}")
    caller.done("deleted", run=",".join(deleted))
    return caller.json(deletion_object(name, deleted))


@router.get("/schema", tags=["about"], **openapi.SCHEMA)
async def schema(caller: Caller) -> Response:
    """Return the JSON Schema (draft-07) of the job spec."""
    return caller.json(job_schema())


# --- pages of a list ---

_ID = re.compile(r"application_(\d{1,19})_(\d{1,19})")


def _moment_ms(text: str, now_ms: int) -> int:
    """Return the milliseconds since 1970 of a text that `_MOMENT` matches.

    Raises:
        UsageError: There is no such day.
    """
    if not text.endswith("Z"):
        return now_ms - int(duration_s(text) * 1000)
    try:
        seconds, _, fraction = text[:-1].partition(".")  # Python 3.10 parses three digits alone
        return int(datetime.fromisoformat(f"{seconds}.{fraction:0<3}+00:00").timestamp() * 1000)
    except ValueError as error:
        raise UsageError(f"{text}: {error}", hint="write 24h, or 2026-05-04T09:30:00Z") from None


def _page_of(
    jobs: Iterable[ListedJob], limit: int, cursor: str | None
) -> tuple[list[ListedJob], str | None]:
    """Return one page of a list, the newest jobs first, and the cursor for the next page (None on
    the last page).

    A cursor is the application id at which the previous page ended.
    """
    before = _list_position(cursor or "")
    placed = [(position, job) for job in jobs if (position := _list_position(job.application_id))]
    placed.sort(key=lambda item: item[0], reverse=True)
    rest = [job for position, job in placed if before is None or position < before]
    return rest[:limit], rest[limit - 1].application_id if len(rest) > limit else None


def _list_position(application_id: str) -> tuple[int, int] | None:
    found = _ID.fullmatch(application_id)
    return (int(found[1]), int(found[2])) if found else None
