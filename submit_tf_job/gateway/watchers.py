"""Watch jobs for any number of listeners, and find the cause of a failure once for all of them.

Each job is queried once per interval for each caller, however many listen.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from submit_tf_job import operations
from submit_tf_job.diagnose.cause import Cause
from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.gateway.threads import Closed, breakable
from submit_tf_job.jsonview import job_object
from submit_tf_job.observation import JobState, JobStatus

__all__ = ["Causes", "JobChange", "Listener", "Watches", "change_of"]

_BEHIND = 100  # a listener that is further behind misses intermediate changes, never the last one


@dataclass(frozen=True)
class JobChange:
    """A new state of a job.

    Attributes:
        id: Identifies this state, so that a returning listener can skip it.
        final: Whether the job no longer changes.
        error: Why no more changes follow.
    """

    id: str
    job: dict[str, Any]
    final: bool = False
    error: Exception | None = None


def change_of(status: JobStatus, cause: Cause | None = None) -> JobChange:
    """Return the change that a status represents, with the cause of a failure.

    Two statuses without differences for listeners have the same id.
    """
    job = job_object(status, cause=cause)
    relevant = {
        name: job[name]
        for name in (
            "application_id",
            "state",
            "reason",
            "progress",
            "standstill",
            "awaited",
            "retries",
            "tasks",
            "roles",
            "confirmed",
            "links",
        )
    }
    text = json.dumps(relevant, sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return JobChange(digest, job, status.state.is_final)


class Listener:
    """One listener's queue of changes in the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[JobChange | None] = asyncio.Queue()

    def tell(self, change: JobChange | None) -> None:
        """Queue a change, from any thread; None when the gateway ends."""
        with contextlib.suppress(RuntimeError):  # the loop is gone
            self._loop.call_soon_threadsafe(self._put, change)

    def _put(self, change: JobChange | None) -> None:
        if self._queue.qsize() >= _BEHIND:
            self._queue.get_nowait()
        self._queue.put_nowait(change)

    async def next(self, within_s: float) -> JobChange | None:
        """Return the next change; None when the gateway ends.

        Raises:
            asyncio.TimeoutError: No change arrived in time.
        """
        return await asyncio.wait_for(self._queue.get(), within_s)


class Watches:
    """All jobs with listeners.

    Args:
        most: Limit of watched jobs.
        causes: Why jobs failed.
    """

    def __init__(self, most: int, causes: Causes) -> None:
        self._most, self._causes = most, causes
        self._lock = threading.Lock()
        self._watches: dict[tuple[str, operations.JobRef], _Watch] = {}
        self._first: dict[tuple[str, str], Future[tuple[operations.JobRef, JobChange]]] = {}

    def __len__(self) -> int:
        return len(self._watches)

    def known(self, user: str, job: str) -> tuple[operations.JobRef, JobChange] | None:
        """Return a watched job by its name, its run's name or application id, with its last change;
        sends no request.

        Args:
            user: The user of the watch.
            job: A name, or an application id.
        """
        with self._lock:
            for (watcher, ref), watch in self._watches.items():
                if (
                    watcher == user
                    and job in (ref.name, ref.run, ref.application_id)
                    and watch.last is not None
                ):
                    return ref, watch.last
        return None

    def first(
        self, user: str, job: str, look: Callable[[], tuple[operations.Cluster, JobStatus]]
    ) -> Future[tuple[operations.JobRef, JobChange]]:
        """Get the status of a job without a watch; concurrent calls share one query.

        Args:
            user: The caller.
            job: A name, or an application id.
            look: Returns the caller's cluster, and the status.
        """
        key = (user, job)
        with self._lock:
            if key in self._first:
                return self._first[key]
            found = self._first[key] = Future()

        def run() -> None:
            try:
                cluster, seen = look()
                ref = operations.JobRef(seen.name, seen.application_id, seen.run)
                found.set_result((ref, change_of(seen, self._causes.of(cluster, seen))))
            except Exception as error:  # noqa: BLE001 - raised again in the awaiting coroutine
                found.set_exception(error)
            finally:
                with self._lock:
                    del self._first[key]

        threading.Thread(target=run, daemon=True, name="gateway request").start()
        return found

    def listen(
        self, cluster: operations.Cluster, ref: operations.JobRef, listener: Listener
    ) -> None:
        """Add a listener, which gets the last change at once, and then every change.

        Raises:
            RequestRefused: Too many jobs are watched.
        """
        key = (cluster.settings.user, ref)
        with self._lock:
            watch = self._watches.get(key)
            if watch is None:
                if len(self._watches) >= self._most:
                    raise RequestRefused(
                        "too-many",
                        "too many jobs are watched here at the moment",
                        hint="try again later, or poll",
                    )
                watch = self._watches[key] = _Watch(cluster, ref, self._causes)
                threading.Thread(
                    target=self._run, args=(key, watch), daemon=True, name="gateway watch"
                ).start()
            watch.listeners.append(listener)
            if watch.last is not None:
                listener.tell(watch.last)

    def leave(
        self, cluster: operations.Cluster, ref: operations.JobRef, listener: Listener
    ) -> None:
        """Remove a listener; a job without listeners is no longer watched."""
        key = (cluster.settings.user, ref)
        with self._lock:
            watch = self._watches.get(key)
            if watch is not None and listener in watch.listeners:
                watch.listeners.remove(listener)
                if not watch.listeners:
                    watch.over.set()
                    del self._watches[key]

    def end(self) -> None:
        """Notify every listener of the gateway's end."""
        with self._lock:
            for watch in self._watches.values():
                for listener in watch.listeners:
                    listener.tell(None)

    def _run(self, key: tuple[str, operations.JobRef], watch: _Watch) -> None:
        try:
            last = watch.follow(lambda change: self._tell(watch, change))
        except Closed:
            return
        except Exception as error:  # noqa: BLE001 - the listeners get it
            last = JobChange("", {}, final=True, error=error)
        with self._lock:
            if self._watches.get(key) is watch:
                del self._watches[key]
        self._tell(watch, last)

    def _tell(self, watch: _Watch, change: JobChange) -> None:
        with self._lock:
            if watch.last is not None and watch.last.id == change.id:
                return
            watch.last = change
            for listener in watch.listeners:
                listener.tell(change)


class _Watch:
    """A watched job."""

    def __init__(self, cluster: operations.Cluster, ref: operations.JobRef, causes: Causes) -> None:
        self.listeners: list[Listener] = []
        self.last: JobChange | None = None
        self.over = threading.Event()
        self._ref, self._causes = ref, causes
        self._cluster = replace(cluster, sleep=breakable(cluster.sleep, self.over))

    def follow(self, tell: Callable[[JobChange], None]) -> JobChange:
        """Follow the job to its end, and the runs that a submitter starts after it ran out of
        memory; return its last change, which `tell` does not queue.
        """

        def show(event: operations.Event) -> None:
            if isinstance(event, JobStatus) and not event.state.is_final:
                tell(change_of(event))

        events = operations.follow(self._cluster, self._ref, next_runs=True, explain=False)
        end = operations.until_end(events, self._cluster.sleep, show)
        self._causes.remember(end.status, end.cause)
        return change_of(end.status, end.cause)


# --- causes ---------------------------------------------------------------------------------------

_REMEMBERED = 1000
_AGAIN_S = 2.0  # at first, then twice as long each time: logs are collected a while after the end


class Causes:
    """Causes by application id. A gateway that does not have one finds it on the cluster."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # application → its cause, or the first and the last time when none was found
        self._found: OrderedDict[str, Cause | tuple[float, float]] = OrderedDict()

    def of(self, cluster: operations.Cluster, status: JobStatus) -> Cause | None:
        """Return why a job failed; None for other jobs, and where no source explains it.

        At the first call for a job this takes some requests to the cluster.
        """
        application = status.application_id
        if status.state is not JobState.FAILED or application is None:
            return None
        with self._lock:
            known = self._found.get(application)
        if isinstance(known, Cause):
            return known
        first, last = known or (cluster.clock(), float("-inf"))
        if cluster.clock() - last < max(_AGAIN_S, last - first):
            return None
        cause = operations.why_failed(cluster, status)
        with self._lock:
            self._keep(application, cause or (first, cluster.clock()))
        return cause

    def remember(self, status: JobStatus, cause: Cause | None) -> None:
        """Keep a cause that was found elsewhere."""
        if cause is not None:
            with self._lock:
                self._keep(status.application_id, cause)

    def _keep(self, application: str, found: Cause | tuple[float, float]) -> None:
        self._found[application] = found
        self._found.move_to_end(application)
        while len(self._found) > _REMEMBERED:
            self._found.popitem(last=False)
