"""Bridge between the event loop, which serves, and threads, which call the cluster.

Threads are daemons: a request to the cluster that takes minutes does not delay the end of a
gateway. If a submission is cut off, the same request to another gateway finds its job.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as Behind
from typing import Generic, TypeVar

__all__ = ["ThreadChannel", "in_thread", "stream_from_thread"]

T = TypeVar("T")
_QUEUE_SIZE = 64


async def in_thread(call: Callable[[], T]) -> T:
    """Call a function in a new thread, and return its result or raise its error."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle_in_loop(settle: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(lambda: None if future.done() else settle())

    def run() -> None:
        try:
            value = call()
        except BaseException as error:  # noqa: BLE001 - raised again in the awaiting coroutine
            raised = error
            settle_in_loop(lambda: future.set_exception(raised))
        else:
            settle_in_loop(lambda: future.set_result(value))

    threading.Thread(target=run, daemon=True, name="gateway request").start()
    return await future


class ThreadChannel(Generic[T]):
    """Passes items from a thread to a coroutine.

    The thread blocks while the coroutine is behind.

    Attributes:
        closed: Set when the coroutine no longer receives.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[T | None] = asyncio.Queue(_QUEUE_SIZE)
        self.closed = threading.Event()
        self._error: Exception | None = None

    def put(self, item: T | None) -> None:
        """Pass an item; None at the end.

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
        """End with an error, which `take` raises."""
        self._error = error
        self.close()

    async def take(self) -> T | None:
        """Return the next item, None at the end."""
        item = await self._queue.get()
        if self._error is not None:
            raise self._error
        return None if self.closed.is_set() else item

    def close(self) -> None:
        """Stop receiving; a pending `take` returns None."""
        self.closed.set()
        with contextlib.suppress(RuntimeError):  # the loop is gone
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        with contextlib.suppress(asyncio.QueueFull):  # then `take` returns without waiting
            self._queue.put_nowait(None)


async def stream_from_thread(
    channel: ThreadChannel[T], items: Callable[[], Iterable[T]]
) -> AsyncIterator[T]:
    """Yield the items of an iterator that runs in a thread, until its end or until closed."""

    def run() -> None:
        try:
            for item in items():
                channel.put(item)
            channel.put(None)
        except CancelledError:
            return
        except Exception as error:  # noqa: BLE001 - raised again in the coroutine
            channel.fail(error)

    threading.Thread(target=run, daemon=True, name="gateway stream").start()
    try:
        while (item := await channel.take()) is not None:
            yield item
    finally:
        channel.close()
