"""Between the event loop, which serves, and threads, which ask the cluster.

Threads are daemons: a request to the cluster that takes minutes does not keep a gateway alive that has been told to end. What it was doing
is found again by whoever asks the same once more.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Generic, TypeVar

__all__ = ["Channel", "Closed", "breakable", "in_thread", "pumped"]

T = TypeVar("T")
_ROOM = 64


class Closed(Exception):
    """Nobody listens any more."""


def breakable(sleep: Callable[[float], None], over: threading.Event) -> Callable[[float], None]:
    """Return a way to wait that raises `Closed` within a second of an event."""

    def wait(seconds: float) -> None:
        left = seconds
        while not over.is_set() and left > 0:
            sleep(min(1.0, left))
            left -= 1.0
        if over.is_set():
            raise Closed

    return wait


async def in_thread(call: Callable[[], T]) -> T:
    """Call a function in a thread of its own and return what it returns, or raise what it raises."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def tell(settle: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone
            loop.call_soon_threadsafe(lambda: None if future.done() else settle())

    def run() -> None:
        try:
            value = call()
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            raised = error
            tell(lambda: future.set_exception(raised))
        else:
            tell(lambda: future.set_result(value))

    threading.Thread(target=run, daemon=True, name="gateway request").start()
    return await future


class Channel(Generic[T]):
    """Carries things from a thread to a coroutine; the thread waits while the coroutine is behind."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[T | None] = asyncio.Queue(_ROOM)
        self._closed = threading.Event()
        self._error: Exception | None = None

    def put(self, item: T | None) -> None:
        """Hand something over; None at the end.

        Raises:
            Closed: Nobody listens any more.
        """
        putting = self._queue.put(item)
        try:
            waiting = asyncio.run_coroutine_threadsafe(putting, self._loop)
        except RuntimeError:
            putting.close()
            raise Closed from None  # the loop is gone
        while not self._closed.is_set():
            try:
                waiting.result(timeout=1.0)
            except concurrent.futures.TimeoutError:  # the coroutine is behind
                continue
            except concurrent.futures.CancelledError:
                raise Closed from None  # the loop ends
            return
        waiting.cancel()
        raise Closed

    def fail(self, error: Exception) -> None:
        """End with an error, which is raised where the next thing is taken."""
        self._error = error
        self.close()

    def breakable(self, sleep: Callable[[float], None]) -> Callable[[float], None]:
        """Return a way to wait that ends where nobody listens any more."""
        return breakable(sleep, self._closed)

    async def take(self) -> T | None:
        """Return the next thing, None at the end."""
        item = await self._queue.get()
        if self._error is not None:
            raise self._error
        return None if self._closed.is_set() else item

    def close(self) -> None:
        """Listen no more; whoever waits for the next thing learns that there is none."""
        self._closed.set()
        with contextlib.suppress(RuntimeError):  # the loop is gone
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        with contextlib.suppress(asyncio.QueueFull):  # then nobody waits
            self._queue.put_nowait(None)


async def pumped(channel: Channel[T], items: Callable[[], Iterable[T]]) -> AsyncIterator[T]:
    """Give what an iterator in a thread gives, until it ends or nobody listens any more."""

    def run() -> None:
        try:
            for item in items():
                channel.put(item)
            channel.put(None)
        except Closed:
            return
        except Exception as error:  # noqa: BLE001 - raised again in the coroutine
            channel.fail(error)

    threading.Thread(target=run, daemon=True, name="gateway stream").start()
    try:
        while (item := await channel.take()) is not None:
            yield item
    finally:
        channel.close()
