"""Changes of jobs, for any number of listeners: one job is looked at once per interval for each caller, however many listen."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from submit_tf_job import api
from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.gateway.threads import Closed, breakable
from submit_tf_job.report.job import job_object
from submit_tf_job.watch import Look

__all__ = ["Change", "Listener", "Watches", "change_of"]

_BEHIND = 100  # a listener that is further behind misses changes in between, never the last one


@dataclass(frozen=True)
class Change:
    """A job, as it is from now on.

    Attributes:
        id: Names this very state of it, so that a listener who comes back can say what it has seen.
        final: Whether nothing more will happen.
        error: Why there will be no more news.
    """

    id: str
    job: dict[str, Any]
    final: bool = False
    error: Exception | None = None


def change_of(look: Look) -> Change:
    """Say what a look shows; two looks that differ in nothing a listener wants to know are the same change."""
    job = job_object(look)
    telling = {name: job[name] for name in ("application_id", "state", "reason", "progress", "tasks", "roles", "confirmed")}
    digest = hashlib.sha256(json.dumps(telling, sort_keys=True, default=str).encode()).hexdigest()[:16]
    return Change(digest, job, look.verdict.state.is_final)


class Listener:
    """One who listens; belongs to the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Change | None] = asyncio.Queue()

    def tell(self, change: Change | None) -> None:
        """Tell a change, from any thread; None where the gateway ends."""
        with contextlib.suppress(RuntimeError):  # the loop is gone
            self._loop.call_soon_threadsafe(self._put, change)

    def _put(self, change: Change | None) -> None:
        if self._queue.qsize() >= _BEHIND:
            self._queue.get_nowait()
        self._queue.put_nowait(change)

    async def next(self, within_s: float) -> Change | None:
        """Return the next change, None where the gateway ends; `asyncio.TimeoutError` where there is none in time."""
        return await asyncio.wait_for(self._queue.get(), within_s)


class Watches:
    """All jobs that somebody listens to.

    Args:
        most: At most so many jobs.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._watches: dict[tuple[str, api.JobRef], _Watch] = {}
        self._first: dict[tuple[str, str], Future[tuple[api.JobRef, Change]]] = {}

    def __len__(self) -> int:
        return len(self._watches)

    def known(self, user: str, job: str) -> tuple[api.JobRef, Change] | None:
        """Return a job that is being watched, by its name or application, and how it is; asks nobody.

        Args:
            user: As whom it is watched.
            job: A name, or an application id.
        """
        with self._lock:
            for (watcher, ref), watch in self._watches.items():
                if watcher == user and job in (ref.name, ref.application_id) and watch.last is not None:
                    return ref, watch.last
        return None

    def first(self, user: str, job: str, look: Callable[[], Look]) -> Future[tuple[api.JobRef, Change]]:
        """Look at a job that nobody watches yet; whoever asks while somebody looks gets what that one sees.

        Args:
            user: Who looks.
            job: A name, or an application id.
            look: Looks at it.
        """
        key = (user, job)
        with self._lock:
            if key in self._first:
                return self._first[key]
            found = self._first[key] = Future()

        def run() -> None:
            try:
                seen = look()
                found.set_result((api.JobRef(seen.seen.name, seen.seen.application_id), change_of(seen)))
            except Exception as error:  # noqa: BLE001 - raised again where it is awaited
                found.set_exception(error)
            finally:
                with self._lock:
                    del self._first[key]

        threading.Thread(target=run, daemon=True, name="gateway request").start()
        return found

    def listen(self, cluster: api.Cluster, ref: api.JobRef, listener: Listener) -> None:
        """Begin to listen: the listener is told at once how the job is, and then every change.

        Raises:
            RequestRefused: Too many jobs are listened to.
        """
        key = (cluster.settings.user, ref)
        with self._lock:
            watch = self._watches.get(key)
            if watch is None:
                if len(self._watches) >= self._most:
                    raise RequestRefused("too-many", "too many jobs are watched here at the moment", hint="try again later, or poll")
                watch = self._watches[key] = _Watch(cluster, ref)
                threading.Thread(target=self._run, args=(key, watch), daemon=True, name="gateway watch").start()
            watch.listeners.append(listener)
            if watch.last is not None:
                listener.tell(watch.last)

    def leave(self, cluster: api.Cluster, ref: api.JobRef, listener: Listener) -> None:
        """Listen no more; a job to which nobody listens is looked at no more."""
        key = (cluster.settings.user, ref)
        with self._lock:
            watch = self._watches.get(key)
            if watch is not None and listener in watch.listeners:
                watch.listeners.remove(listener)
                if not watch.listeners:
                    watch.over.set()
                    del self._watches[key]

    def end(self) -> None:
        """Tell every listener that the gateway ends."""
        with self._lock:
            for watch in self._watches.values():
                for listener in watch.listeners:
                    listener.tell(None)

    def _run(self, key: tuple[str, api.JobRef], watch: _Watch) -> None:
        try:
            last = watch.follow(lambda change: self._tell(watch, change))
        except Closed:
            return
        except Exception as error:  # noqa: BLE001 - the listeners are told
            last = Change("", {}, final=True, error=error)
        with self._lock:
            if self._watches.get(key) is watch:
                del self._watches[key]
        self._tell(watch, last)

    def _tell(self, watch: _Watch, change: Change) -> None:
        with self._lock:
            if watch.last is not None and watch.last.id == change.id:
                return
            watch.last = change
            for listener in watch.listeners:
                listener.tell(change)


class _Watch:
    """One job that is looked at."""

    def __init__(self, cluster: api.Cluster, ref: api.JobRef) -> None:
        self.listeners: list[Listener] = []
        self.last: Change | None = None
        self.over = threading.Event()
        self._ref = ref
        self._cluster = replace(cluster, sleep=breakable(cluster.sleep, self.over))

    def follow(self, tell: Callable[[Change], None]) -> Change:
        """Look until the job is over; return its last change, which was not told."""
        look = api.follow(self._cluster, self._ref, on_look=lambda look: None if look.verdict.state.is_final else tell(change_of(look)))
        return change_of(look)
