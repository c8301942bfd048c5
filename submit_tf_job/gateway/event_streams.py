"""Streams of a job: its logs, and its changes as server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as Behind
from contextlib import ExitStack
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse

from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.gateway import openapi
from submit_tf_job.gateway.problems import ProblemResponse
from submit_tf_job.gateway.routes import AUTHENTICATED, Caller, Name
from submit_tf_job.gateway.runtime import in_thread
from submit_tf_job.gateway.watchers import JobChange, Listener
from submit_tf_job.host.units import duration_s
from submit_tf_job.sdk.handle import Lines

T = TypeVar("T")
KEEP_ALIVE_S = 15.0
_QUEUE_SIZE = 64
router = APIRouter(prefix="/v1", dependencies=AUTHENTICATED)


@router.get("/jobs/{name}/logs", tags=["jobs"], response_class=Response, **openapi.LOGS)
async def logs(
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
            pattern=r"^[0-9]{1,6}(ms|s|m|h|d)$",
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
    gateway, channel = caller.gateway, _ThreadChannel[str]()

    def begin() -> Lines:
        client = gateway.clients.client_of(caller.user).ended_by(channel.closed)
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
        going.enter_context(gateway.stream(gateway.streams, caller.user, channel.close))
        reading = await in_thread(begin)
        content = _stream_from_thread(channel, lambda: lines.of(reading))
        return _Stream(content, lines.media_type, going.pop_all().close)


class _Stream(StreamingResponse):
    """A streaming response that releases its resources in every case, however it ends."""

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


class _LogFormat(NamedTuple):
    media_type: str
    read: Callable[[Lines], Iterator[str]]
    note: Callable[[str], str]

    def of(self, reading: Lines) -> Iterator[str]:
        """Yield the lines in this format. An error that ends the reading becomes a last note,
        because the response has already begun.
        """
        try:
            yield from self.read(reading)
        except SubmitTFJobError as error:
            yield self.note(f"error: {ProblemResponse(error, '-').problem['detail']}")


_TEXT = _LogFormat(
    "text/plain; charset=utf-8",
    Lines.text,
    lambda sentence: f"[submit_tf_job] {' '.join(sentence.split())}\n",
)
_NDJSON = _LogFormat(
    "application/x-ndjson",
    Lines.json,
    lambda sentence: json.dumps({"kind": "LogNote", "format": 1, "message": sentence}) + "\n",
)


@router.get("/jobs/{name}/events", tags=["jobs"], response_class=Response, **openapi.EVENTS)
async def events(
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
    gateway, user, listener = caller.gateway, caller.user, Listener()
    watches = gateway.watches
    with ExitStack() as going:
        going.enter_context(
            gateway.stream(gateway.listeners, user, lambda: watches.leave(user, name, listener))
        )
        watches.listen(user, name, listener)
        first = await listener.next()
        if first is None:
            raise CancelledError
        if first.error is not None:
            raise first.error
        if first.final and first.id == last_event_id:
            return Response(status_code=204)  # otherwise a browser would reconnect forever
        return _Stream(
            _event_texts(first, listener, last_event_id), "text/event-stream", going.pop_all().close
        )


async def _event_texts(
    first: JobChange, listener: Listener, seen: str | None
) -> AsyncIterator[str]:
    last, change = seen, first
    while True:
        if change.id != last:
            yield _event_text(change)
            last = change.id
        if change.final:
            return
        while True:
            try:
                following = await listener.next(KEEP_ALIVE_S)
                break
            except asyncio.TimeoutError:
                yield ": nothing new\n\n"  # a proxy may close a silent connection
        if following is None:
            return
        change = following


def _event_text(change: JobChange) -> str:
    if change.error is not None:
        problem = bytes(ProblemResponse(change.error, "-").body).decode()
        return f"event: problem\ndata: {problem}\n\n"
    return f"event: job\nid: {change.id}\ndata: {json.dumps(change.job)}\n\n"


# --- from a thread to the event loop ---


class _ThreadChannel(Generic[T]):
    """Passes items from a thread to a coroutine.

    The thread waits while 64 items have not been taken yet.

    Attributes:
        closed: Set when the coroutine no longer receives.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[T | None] = asyncio.Queue(_QUEUE_SIZE)
        self.closed = threading.Event()
        self._error: Exception | None = None

    def put(self, item: T | None) -> None:
        """Pass an item; None marks the end.

        Raises:
            CancelledError: The coroutine no longer receives.
        """
        putting = self._queue.put(item)
        try:
            waiting = asyncio.run_coroutine_threadsafe(putting, self._loop)
        except RuntimeError:
            putting.close()
            raise CancelledError from None  # the loop is gone
        while not self.closed.is_set():
            with contextlib.suppress(Behind):  # raises CancelledError when the loop ends
                return waiting.result(timeout=1.0)
        waiting.cancel()
        raise CancelledError

    def fail(self, error: Exception) -> None:
        """End the channel with an error, which `take` raises."""
        self._error = error
        self.close()

    async def take(self) -> T | None:
        """Return the next item, None at the end."""
        item = await self._queue.get()
        if self._error is not None:
            raise self._error
        return None if self.closed.is_set() else item

    def close(self) -> None:
        """Stop receiving, from any thread: a pending `take` returns None, and `put` raises."""
        self.closed.set()
        with contextlib.suppress(RuntimeError):  # the loop is gone
            self._loop.call_soon_threadsafe(self._wake_reader)

    def _wake_reader(self) -> None:
        with contextlib.suppress(asyncio.QueueFull):  # then `take` returns without waiting
            self._queue.put_nowait(None)


async def _stream_from_thread(
    channel: _ThreadChannel[T], items: Callable[[], Iterable[T]]
) -> AsyncIterator[T]:
    """Yield the items of an iterator that runs in a thread, until its end or until the channel is
    closed; raise the iterator's error.
    """

    def run() -> None:
        try:
            for item in items():
                channel.put(item)
            channel.put(None)
        except CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 - raised again in the coroutine
            channel.fail(error)

    threading.Thread(target=run, daemon=True, name="gateway stream").start()
    try:
        while (item := await channel.take()) is not None:
            yield item
    finally:
        channel.close()
