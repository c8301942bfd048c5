"""Streams of a job: its logs, and its changes as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.gateway import openapi
from submit_tf_job.gateway.problems import ProblemResponse
from submit_tf_job.gateway.routes import AUTHENTICATED, Caller, Name, gateway_of
from submit_tf_job.gateway.threads import ThreadChannel, in_thread, stream_from_thread
from submit_tf_job.gateway.watchers import JobChange, Listener
from submit_tf_job.host.units import duration_s
from submit_tf_job.sdk.client import JobHandle, Status
from submit_tf_job.sdk.handle import Lines

__all__ = ["router"]

KEEP_ALIVE_S = 15.0
router = APIRouter(prefix="/v1", dependencies=AUTHENTICATED)


@router.get("/jobs/{name}/logs", tags=["jobs"], response_class=Response, **openapi.LOGS)
async def logs(
    request: Request,
    caller: Caller,
    name: Name,
    task: Annotated[
        str | None,
        Query(
            pattern=r"^[a-z0-9][a-z0-9-]{0,99}$", description="A task (worker-0) or role (worker)."
        ),
    ] = None,
    file: Annotated[
        list[str] | None,
        Query(max_length=20, description="Names of files; default: stdout.txt and stderr.txt."),
    ] = None,
    tail: Annotated[
        int | None,
        Query(ge=0, le=1_000_000, description="Only the last N lines of each file."),
    ] = None,
    since: Annotated[
        str | None,
        Query(
            pattern=r"^\d{1,9}(\.\d{1,3})?(ms|s|m|h)$",
            description="Only lines of the last 90s, 15m, 2h.",
        ),
    ] = None,
    am: Annotated[
        bool, Query(description="Logs of YARN's ApplicationMaster for this job.")
    ] = False,
    follow: Annotated[bool, Query(description="Continue until the job is over.")] = False,
    accept: Annotated[
        str, Header(include_in_schema=False)  # OpenAPI ignores a parameter of this name
    ] = "text/plain",
) -> StreamingResponse:
    """Read the logs of a job as text with a task before each line, or as JSON lines."""
    lines = _NDJSON if "application/x-ndjson" in accept.lower() else _TEXT
    gateway, channel = gateway_of(request), ThreadChannel[str]()

    def begin() -> Lines:
        client = gateway.client(caller).ended_by(channel.closed)
        return client.attach(name).logs(
            task,
            files=file or (),
            tail=tail,
            since_s=None if since is None else duration_s(since),
            am=am,
            follow=follow,
            say=lambda sentence: channel.put(lines.note(sentence)),
        )

    with ExitStack() as going:
        going.enter_context(gateway.stream(gateway.streams, caller, channel.close))
        reading = await in_thread(begin)
        content = stream_from_thread(
            channel, lambda: _until_an_error(lambda: lines.read(reading), lines)
        )
        return _Stream(content, lines.media_type, going.pop_all().close)


class _Stream(StreamingResponse):
    """A streaming response that releases its resources however it ends."""

    def __init__(
        self, content: AsyncIterator[str], media_type: str, end: Callable[[], None]
    ) -> None:
        super().__init__(content, media_type=media_type, headers={"X-Accel-Buffering": "no"})
        self._end = end

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()


class _LogStream:
    """One format of logs."""

    def __init__(
        self, media_type: str, read: Callable[[Lines], Iterator[str]], note: Callable[[str], str]
    ) -> None:
        self.media_type, self.read, self.note = media_type, read, note


_TEXT = _LogStream(
    "text/plain; charset=utf-8",
    Lines.text,
    lambda sentence: f"[submit_tf_job] {' '.join(sentence.split())}\n",
)
_NDJSON = _LogStream(
    "application/x-ndjson",
    Lines.json,
    lambda sentence: json.dumps({"kind": "LogNote", "format": 1, "message": sentence}) + "\n",
)


def _until_an_error(begin: Callable[[], Iterator[str]], lines: _LogStream) -> Iterator[str]:
    """Read until an error, which is sent as a note, because the response has already begun."""
    try:
        yield from begin()
    except SubmitTFJobError as error:
        yield lines.note(f"error: {ProblemResponse(error, '-').problem['detail']}")


@router.get("/jobs/{name}/events", tags=["jobs"], response_class=Response, **openapi.EVENTS)
async def events(
    request: Request,
    caller: Caller,
    name: Name,
    last_event_id: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            max_length=64,
            description="Id of the last event received; browsers send it.",
        ),
    ] = None,
) -> Response:
    """Follow a job as server-sent events: its present state, then every change, until its end."""
    gateway = gateway_of(request)
    handle, first = gateway.watches.known(caller, name) or await _first_look(request, caller, name)
    if first.final and first.id == last_event_id:
        return Response(status_code=204)  # otherwise a browser would reconnect forever
    listener = Listener()
    with ExitStack() as going:
        going.enter_context(
            gateway.stream(
                gateway.listeners, caller, lambda: gateway.watches.leave(handle, listener)
            )
        )
        if not first.final:
            gateway.watches.listen(handle, listener)
        return _Stream(
            _events(first, listener, last_event_id), "text/event-stream", going.pop_all().close
        )


async def _first_look(request: Request, caller: str, name: str) -> tuple[JobHandle, JobChange]:
    """Get a job's status without a watch; concurrent requests share the query."""
    gateway = gateway_of(request)

    def look() -> tuple[JobHandle, Status]:
        with gateway.requests.one(caller):
            handle = gateway.client(caller).attach(name)
            return handle, handle.status()

    return await asyncio.shield(asyncio.wrap_future(gateway.watches.first(caller, name, look)))


async def _events(first: JobChange, listener: Listener, seen: str | None) -> AsyncIterator[str]:
    last = seen
    if first.id != last:
        yield _event(first)
        last = first.id
    if first.final:
        return
    while True:
        try:
            change = await listener.next(KEEP_ALIVE_S)
        except asyncio.TimeoutError:
            yield ": nothing new\n\n"  # a proxy may close a silent connection
            continue
        if change is None:
            return
        if change.id != last:
            yield _event(change)
            last = change.id
        if change.final:
            return


def _event(change: JobChange) -> str:
    if change.error is not None:
        problem = bytes(ProblemResponse(change.error, "-").body).decode()
        return f"event: problem\ndata: {problem}\n\n"
    return f"event: job\nid: {change.id}\ndata: {json.dumps(change.job)}\n\n"
