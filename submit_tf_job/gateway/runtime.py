"""The parts of a running gateway: its limits, uploaded files, metrics and threads. Nothing of this
is kept after the process ends, because the jobs themselves are on the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
import time
from collections import Counter as Counts
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from submit_tf_job.errors import AuthError, SubmitTFJobError
from submit_tf_job.gateway.callers import CallerClients, CallersFile, Negotiator, OnePerson
from submit_tf_job.gateway.cluster_metrics import ClusterGauges
from submit_tf_job.gateway.policy import Policy
from submit_tf_job.gateway.problems import RequestRefused
from submit_tf_job.gateway.watchers import Causes, Watches

if TYPE_CHECKING:
    from submit_tf_job.sdk.client import Client

T = TypeVar("T")
_READY_FOR_S = 5.0
_ANSWER_S = 3.0


@dataclass(frozen=True)
class Limits:
    """The limits of a gateway; a pair is the limit for each caller, and the limit for all callers
    together.

    Attributes:
        requests: Requests that use the cluster at the same time.
        streams: Logs that are read or followed at the same time; each has a thread.
        listeners: Streams of events that are followed at the same time; each needs only a queue.
        watches: Jobs that are watched for events; any number of listeners shares the watch of one
            job.
        body_s: Seconds in which a body must arrive.
        upload_bytes: Size of all files of one request.
        upload_files: Number of files of one request.
        upload_s: Seconds in which a body with files must arrive.
        uploads: Requests with files at the same time; with `upload_bytes` this bounds the disk.
    """

    requests: tuple[int, int] = (16, 64)
    streams: tuple[int, int] = (200, 1000)
    listeners: tuple[int, int] = (1000, 5000)
    watches: int = 200
    body_s: float = 30.0
    upload_bytes: int = 256 * 1024**2
    upload_files: int = 1000
    upload_s: float = 600.0
    uploads: tuple[int, int] = (2, 8)


class Slots:
    """Counts work that is done at the same time, and refuses more than its limits.

    Args:
        what: The plural name of the work in messages, such as "requests".
        limits: The limit for each caller, and the limit for all callers together.
    """

    def __init__(self, what: str, limits: tuple[int, int]) -> None:
        self._what, (self._each, self._everybody) = what, limits
        self._lock = threading.Lock()
        self._taken: Counts[str] = Counts()

    @property
    def taken(self) -> int:
        """The number of slots in use."""
        return self._taken.total()

    @contextlib.contextmanager
    def take(self, caller: str) -> Iterator[None]:
        """Take a slot while the block runs.

        Raises:
            RequestRefused: No slot is free.
        """
        with self._lock:
            if self._taken[caller] >= self._each or self._taken.total() >= self._everybody:
                who = "all callers together have"
                if self._taken[caller] >= self._each:
                    who = f"{caller} has"
                raise RequestRefused(
                    "too-many",
                    f"{who} too many {self._what} at once",
                    hint="end some, or try again later",
                )
            self._taken[caller] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[caller] -= 1
                if not self._taken[caller]:
                    del self._taken[caller]


# --- uploaded files ---

_UPLOADS = "submit_tf_job-uploads-"
_YOUNG_S = 60.0  # a gateway that has just created its directory may not hold the lock yet


def upload_unavailable() -> RequestRefused:
    """Return the error for an upload when the disk is full or cannot be written."""
    return RequestRefused(
        "upload-unavailable", "the gateway cannot store the files now", hint="try again later"
    )


class UploadDirectory:
    """The directory of one gateway's uploads; it is created at the first upload.

    The gateway holds a lock on the directory. The next gateway that starts removes the directories
    of gateways that were killed (`sweep`).

    Args:
        parent: The directory in which to create it; None for the system's temporary directory.
    """

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent
        self._lock = threading.Lock()
        self._made: tuple[Path, int] | None = None

    def new(self) -> Path:
        """Create a directory for one request.

        Raises:
            RequestRefused: The file system does not allow it.
        """
        try:
            return Path(tempfile.mkdtemp(dir=self._own_directory()))
        except OSError:
            raise upload_unavailable() from None

    def close(self) -> None:
        """Remove this gateway's uploads, and release the lock."""
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            shutil.rmtree(made[0], ignore_errors=True)
            os.close(made[1])

    def _own_directory(self) -> Path:
        with self._lock:
            if self._made is None:
                path = Path(tempfile.mkdtemp(prefix=_UPLOADS, dir=self._parent))
                self._made = (path, _open_locked(path))
            return self._made[0]

    def sweep(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Remove the directories of this user's gateways that no longer run; ignore errors. Those
        that are too young, as after a gateway that was killed and started again at once, are
        removed a minute later.
        """
        if self._remove_abandoned():
            sleep(_YOUNG_S)
            self._remove_abandoned()

    def _remove_abandoned(self) -> bool:
        """Remove the directories of gateways that no longer run, and return whether one of them is
        too young.
        """
        left = False
        with contextlib.suppress(OSError):
            parent = self._parent or Path(tempfile.gettempdir())
            for path in parent.glob(f"{_UPLOADS}*"):
                with contextlib.suppress(OSError):
                    left |= not _remove_if_abandoned(path)
        return left


def _open_locked(path: Path) -> int:
    """Open a directory and lock it.

    Raises:
        OSError: The path is locked by another process, or is not a directory.
    """
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        raise
    return opened


def _remove_if_abandoned(path: Path) -> bool:
    """Remove the directory of a gateway that no longer runs. Return False if the directory is too
    young to tell whether its gateway runs.

    Raises:
        OSError: The gateway runs.
    """
    found = path.lstat()
    if found.st_uid != os.geteuid():
        return True
    if time.time() - found.st_mtime < _YOUNG_S:
        return False
    opened = _open_locked(path)
    try:
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(opened)
    return True


# --- the gateway ---


@dataclass
class Gateway:
    """A running gateway.

    Attributes:
        clients: The clients of the callers on the cluster.
        callers: The tokens of callers; None if no tokens are accepted.
        log: Writes one entry of the log.
        limits: The limits for callers and bodies.
        policy: What each caller may do.
        negotiator: Accepts Kerberos tickets; None if none are accepted. If there is neither a
            `negotiator` nor `callers`, every client acts as the gateway's own user (allowed only on
            loopback).
        uploads: Holds uploaded files until their job is submitted.
        draining: Whether the gateway ends, and refuses new requests.

    Raises:
        SettingsError: The gateway cannot act for one of the callers.
    """

    clients: CallerClients
    callers: CallersFile | OnePerson | None
    log: Callable[[dict[str, Any]], None]
    limits: Limits = field(default_factory=Limits)
    policy: Policy = field(default_factory=Policy)
    negotiator: Negotiator | None = None
    uploads: UploadDirectory = field(default_factory=UploadDirectory)
    draining: bool = False

    def __post_init__(self) -> None:
        limits = self.limits
        self.requests = Slots("requests", limits.requests)
        self.streams = Slots("logs", limits.streams)
        self.listeners = Slots("streams of events", limits.listeners)
        self.uploading = Slots("uploads", limits.uploads)
        self.causes = Causes()
        self.watches = Watches(limits.watches, self.clients.client_of, self.causes)
        self.metrics = Metrics(self)
        self._endings: set[Callable[[], None]] = set()
        self._checked_at, self._checking = float("-inf"), threading.Lock()
        self._why_not = "no ResourceManager was queried yet"
        names = set(self.callers.read().values() if self.callers else ())
        if self.negotiator is not None:
            names.add("the users of Kerberos tickets")
        self.clients.check_callers(names)

    @property
    def is_open(self) -> bool:
        """Whether every client acts as the gateway's own user."""
        return self.callers is None and self.negotiator is None

    @property
    def challenges(self) -> tuple[str, ...]:
        """The ways of authentication, as `WWW-Authenticate` fields."""
        ways = {'Bearer realm="submit_tf_job"': self.callers, "Negotiate": self.negotiator}
        return tuple(way for way, accepted in ways.items() if accepted is not None)

    def caller(self, authorization: str) -> tuple[str, str]:
        """Return the caller, and the token by which the gateway authenticates itself to the caller
        ("" if none is needed).

        Raises:
            RequestRefused: The client is not a known caller.
            SettingsError: The callers file cannot be read.
        """
        if self.is_open:
            return self.clients.settings.user, ""
        scheme, _, token = authorization.partition(" ")
        ticket = token.strip() if scheme.lower() == "negotiate" else ""
        if self.negotiator is not None and (ticket or self.callers is None):
            return self.negotiator.caller(ticket)
        assert self.callers is not None
        return self.callers.caller(authorization), ""

    def client_of_caller(self, user: str) -> Client | None:
        """Return the client of a user who may be a caller: who is in the callers file, is the
        gateway's own user, or has called before; None for any other user. Errors are those of
        `CallerClients.client_of`.
        """
        listed = self.callers.read().values() if self.callers else ()
        if user in listed or user == self.clients.settings.user or self.clients.has_client(user):
            return self.clients.client_of(user)
        return None

    def why_not_ready(self) -> str:
        """Return why the gateway is not ready, or "" if it is ready.

        The cluster is queried at most every 5 s; until a query ends, the former result is returned.
        """
        if self.draining:
            return "draining"
        try:
            if self.callers is not None:
                self.callers.read()
            self.policy.file()
        except SubmitTFJobError:
            return "the file of callers or the policy cannot be read"
        is_due = time.monotonic() - self._checked_at > _READY_FOR_S
        if is_due and self._checking.acquire(blocking=False):
            try:
                self._why_not = self._check_cluster()
                self._checked_at = time.monotonic()
            finally:
                self._checking.release()
        return self._why_not

    def _check_cluster(self) -> str:
        try:
            self.clients.own().hadoop_version(_ANSWER_S)
        except AuthError:
            return "the ResourceManager does not take the gateway for its user"
        except SubmitTFJobError:
            return "no ResourceManager answers"
        return ""

    def drain(self) -> None:
        """End all streams; other requests are completed. No signal handler may call this, because
        it takes a lock.
        """
        self.draining = True
        self.watches.end()
        for end in tuple(self._endings):
            end()

    @contextlib.contextmanager
    def stream(self, slots: Slots, caller: str, end: Callable[[], None]) -> Iterator[None]:
        """Count a stream while the block runs.

        Args:
            slots: `streams` or `listeners`.
            caller: The caller.
            end: Ends the stream; called when the gateway ends, and in any case after the block.

        Raises:
            CancelledError: The gateway ends.
            RequestRefused: There are too many streams.
        """
        with slots.take(caller):
            if self.draining:  # the request was checked before
                raise CancelledError
            self._endings.add(end)
            try:
                yield
            finally:
                self._endings.discard(end)
                end()


# --- metrics, for Prometheus ---

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_METHODS = frozenset({"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"})
_STREAMS = frozenset({"/v1/jobs/{name}/logs", "/v1/jobs/{name}/events"})
_PREFIX = "submit_tf_job_gateway"

# Without it each counter has a second series, the time of its creation.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The gateway's counters. The number of label values is limited: labels have routes instead of
    paths, and no callers or jobs.
    """

    def __init__(self, gateway: Gateway) -> None:
        registry = self._registry = CollectorRegistry()

        def gauge(name: str, text: str, value: Callable[[], float]) -> None:
            Gauge(f"{_PREFIX}_{name}", text, registry=registry).set_function(value)

        self._requests = Counter(
            f"{_PREFIX}_requests",
            "Completed requests.",
            ("method", "route", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            f"{_PREFIX}_request_seconds",
            "Seconds from a request to the end of its response, without streams.",
            ("route",),
            registry=registry,
            buckets=_BUCKETS_S,
        )
        self._submissions = Counter(
            f"{_PREFIX}_submissions",
            "Submissions by outcome: new, adopted, or the code of an error.",
            ("outcome",),
            registry=registry,
        )
        for outcome in ("new", "adopted"):  # Prometheus counts from a first value that it has seen
            self._submissions.labels(outcome)
        gauge(
            "requests_in_progress",
            "Requests that are being answered, without streams.",
            lambda: gateway.requests.taken,
        )
        gauge(
            "streams",
            "Open streams of logs and events.",
            lambda: gateway.streams.taken + gateway.listeners.taken,
        )
        gauge("watched_jobs", "Jobs that the gateway follows.", lambda: len(gateway.watches))
        gauge("draining", "1 while the gateway ends.", lambda: gateway.draining)
        clients, most = gateway.clients, gateway.clients.settings.gateway.job_series
        registry.register(ClusterGauges(clients.own, gateway.client_of_caller, most))

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a completed request.

        A stream is counted when it ends, without its duration.
        """
        word = method if method in _METHODS else "other"
        self._requests.labels(word, route, str(status)).inc()
        if route not in _STREAMS:
            self._seconds.labels(route).observe(seconds)

    def submission(self, outcome: str) -> None:
        """Count a submission by its outcome: `new`, `adopted`, or the code of an error."""
        self._submissions.labels(outcome).inc()

    def text(self) -> bytes:
        """Return all counters and gauges in Prometheus' text format.

        It may wait up to 3 s for the cluster.
        """
        return generate_latest(self._registry)


# --- threads ---


async def in_thread(call: Callable[[], T]) -> T:
    """Call a function in a new thread, and return its result or raise its error.

    The thread is a daemon: a request to the cluster that takes minutes does not delay the end of a
    gateway. If a submission is cut off, the same request to another gateway finds its job.
    """
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
