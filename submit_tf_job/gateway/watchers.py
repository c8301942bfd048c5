"""Watch jobs for any number of listeners, and find the cause of a failure only once for all of
them.

Each job is queried once in each interval for each caller, however many listeners there are.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.sdk.client import Client, JobHandle, JobState, Status
from submit_tf_job.status_changes import event_key

if TYPE_CHECKING:
    from submit_tf_job.sdk.client import Cause

_BEHIND = 100  # a listener that is further behind misses intermediate changes, never the last one


@dataclass(frozen=True)
class JobChange:
    """A new state of a job.

    Attributes:
        id: Identifies this state, so that a returning listener can skip it.
        job: The job's object, as `status -o json` prints it; {} with an error.
        final: Whether no more changes follow, because the job is over or after an error.
        error: Why the job can no longer be followed; None if it can.
    """

    id: str
    job: dict[str, Any]
    final: bool = False
    error: Exception | None = None


def change_of(status: Status) -> JobChange:
    """Return the change that a status stands for. Two statuses have the same id if they do not
    differ in anything that a listener shows (`status_changes.event_key`).
    """
    job = status.to_json()
    return JobChange(event_key(job), job, status.is_over)


class Listener:
    """One listener's queue of changes in the event loop; if the listener is more than 100 changes
    behind, the oldest are dropped.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[JobChange | None] = asyncio.Queue()

    def tell(self, change: JobChange | None) -> None:
        """Queue a change, from any thread; None when the gateway ends."""
        with contextlib.suppress(RuntimeError):  # the loop is gone
            self._loop.call_soon_threadsafe(self._put_change, change)

    def _put_change(self, change: JobChange | None) -> None:
        if self._queue.qsize() >= _BEHIND:
            self._queue.get_nowait()
        self._queue.put_nowait(change)

    async def next(self, within_s: float | None = None) -> JobChange | None:
        """Return the next change; None when the gateway ends.

        Raises:
            asyncio.TimeoutError: No change arrived in time.
        """
        return await asyncio.wait_for(self._queue.get(), within_s)


@dataclass
class _Watch:
    listeners: list[Listener] = field(default_factory=list)
    last: JobChange | None = None
    over: threading.Event = field(default_factory=threading.Event)


class Watches:
    """All jobs that have listeners, by user and by the name or application id that the listener
    gave.

    Args:
        most: How many jobs are watched at the same time.
        client_of: Returns the client of a user.
        causes: Explains jobs that have failed.
    """

    def __init__(self, most: int, client_of: Callable[[str], Client], causes: Causes) -> None:
        self._most, self._client_of, self._causes = most, client_of, causes
        self._lock = threading.Lock()
        self._watches: dict[tuple[str, str], _Watch] = {}

    def __len__(self) -> int:
        return len(self._watches)

    def listen(self, user: str, job: str, listener: Listener) -> None:
        """Add a listener, which gets the last known change at once, and then every change; the
        first listener of a job starts a thread that follows the job.

        Raises:
            RequestRefused: Too many jobs are watched.
        """
        key = user, job
        with self._lock:
            watch, is_new = self._watches.get(key), False
            if watch is None:
                if len(self._watches) >= self._most:
                    raise RequestRefused(
                        "too-many",
                        "too many jobs are watched here at the moment",
                        hint="try again later, or poll",
                    )
                watch, is_new = _Watch(), True
                self._watches[key] = watch
            watch.listeners.append(listener)
            if watch.last is not None:
                listener.tell(watch.last)
        if is_new:  # a thread's start waits, and may fail: without the lock
            thread = threading.Thread(
                target=self._run_watch, args=(key, watch), daemon=True, name="gateway watch"
            )
            try:
                thread.start()
            except RuntimeError as error:  # no more threads
                self._end_watch(key, watch, JobChange("", {}, final=True, error=error))

    def leave(self, user: str, job: str, listener: Listener) -> None:
        """Remove a listener; a job without listeners is no longer watched."""
        with self._lock:
            watch = self._watches.get((user, job))
            if watch is not None and listener in watch.listeners:
                watch.listeners.remove(listener)
                if not watch.listeners:
                    watch.over.set()
                    del self._watches[user, job]

    def end(self) -> None:
        """Notify every listener of the gateway's end."""
        with self._lock:
            for watch in self._watches.values():
                for listener in watch.listeners:
                    listener.tell(None)

    def _run_watch(self, key: tuple[str, str], watch: _Watch) -> None:
        """Follow the job to its end, and tell the listeners each change, or the error that ends
        this. Also follow the runs that a submitter starts after the job ran out of memory.
        """
        user, job = key
        try:
            client = self._client_of(user).ended_by(watch.over)
            handle = replace(client.attach(job), by_name=True)
            last = self._causes.explained(handle, handle.status())
            if not last.is_over:
                self._tell_listeners(watch, change_of(last))
                for event in handle.events(explain=False):
                    if isinstance(event, Status):
                        last = event
                        if not last.is_over:
                            self._tell_listeners(watch, change_of(last))
                self._causes.remember(last)
            change = change_of(last)
        except CancelledError:
            return
        except Exception as error:  # noqa: BLE001 - the listeners get it
            change = JobChange("", {}, final=True, error=error)
        self._end_watch(key, watch, change)

    def _end_watch(self, key: tuple[str, str], watch: _Watch, last: JobChange) -> None:
        """Send the listeners the last change of a watch that is over."""
        with self._lock:
            if self._watches.get(key) is watch:
                del self._watches[key]
        self._tell_listeners(watch, last)

    def _tell_listeners(self, watch: _Watch, change: JobChange) -> None:
        with self._lock:
            if watch.last is not None and watch.last.id == change.id:
                return
            watch.last = change
            for listener in watch.listeners:
                listener.tell(change)


# --- causes ---------------------------------------------------------------------------------------

_REMEMBERED = 1000
_AGAIN_S = 2.0  # at first, then twice as long each time: logs are collected a while after the end


class Causes:
    """Stores the causes of failed jobs by application id. A cause that is no longer stored is
    determined again from the cluster.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # application → its cause, or the first and the last time when none was found
        self._found: OrderedDict[str, Cause | tuple[float, float]] = OrderedDict()

    def explained(self, handle: JobHandle, status: Status) -> Status:
        """Return a status together with the cause, if the job failed and some source explains the
        failure.

        If no cause is stored, this takes some requests to the cluster; if they find none, the next
        calls try again, at growing intervals.
        """
        if status.state is not JobState.FAILED:
            return status
        application = status.application_id
        with self._lock:
            known = self._found.get(application)
        if known is not None and not isinstance(known, tuple):
            return replace(status, root_cause=known)
        first, last = known or (time.monotonic(), float("-inf"))
        if time.monotonic() - last < max(_AGAIN_S, last - first):
            return status
        cause = handle.why_failed(status)
        self._keep_cause(application, cause or (first, time.monotonic()))
        return replace(status, root_cause=cause)

    def remember(self, status: Status) -> None:
        """Store the cause in a status that was found elsewhere; do nothing if it has none."""
        if status.root_cause is not None:
            self._keep_cause(status.application_id, status.root_cause)

    def _keep_cause(self, application: str, found: Cause | tuple[float, float]) -> None:
        with self._lock:
            self._found[application] = found
            self._found.move_to_end(application)
            while len(self._found) > _REMEMBERED:
                self._found.popitem(last=False)
