"""The parts of a running gateway. Nothing of it outlives the process: jobs are on the cluster."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from submit_tf_job.errors import AuthError, ClusterUnavailable, SettingsError, SubmitTFJobError
from submit_tf_job.gateway.callers import CallersFile, Negotiator, token_of
from submit_tf_job.gateway.metrics import Metrics
from submit_tf_job.gateway.policy import Policy
from submit_tf_job.gateway.slots import Limits, Slots
from submit_tf_job.gateway.uploads import UploadDirectory
from submit_tf_job.gateway.watchers import Causes, Watches
from submit_tf_job.sdk.client import Client
from submit_tf_job.settings import Settings

__all__ = ["Clusters", "Gateway"]

_READY_FOR_S = 5.0
_ANSWER_S = 3.0


@dataclass
class Gateway:
    """A running gateway.

    Attributes:
        callers: Tokens of callers.
        log: Writes one entry of the log.
        policy: What each caller may do.
        negotiator: Accepts Kerberos tickets. Without it and without `callers` every client has the
            gateway's own user (on loopback only).
        uploads: Holds uploaded files until their job is submitted.
    """

    clusters: Clusters
    callers: CallersFile | None
    log: Callable[[dict[str, Any]], None]
    limits: Limits = field(default_factory=Limits)
    policy: Policy = field(default_factory=Policy)
    metrics: Metrics = field(default_factory=Metrics)
    negotiator: Negotiator | None = None
    uploads: UploadDirectory = field(default_factory=UploadDirectory)
    draining: bool = False

    def __post_init__(self) -> None:
        limits = self.limits
        self.requests = Slots("requests", limits.requests, limits.all_requests)
        self.streams = Slots("logs", limits.streams, limits.all_streams)
        self.listeners = Slots("streams of events", limits.listeners, limits.all_listeners)
        self.uploading = Slots("uploads", limits.uploads, limits.all_uploads)
        self.causes = Causes()
        self.watches = Watches(limits.watches, self.causes)
        self._endings: set[Callable[[], None]] = set()
        self._checked_at, self._checking = float("-inf"), threading.Lock()
        self._why_not = "no ResourceManager was queried yet"
        names: set[str] = set()
        if self.callers is not None:
            names |= self.callers.names
        if self.negotiator is not None:
            names.add("the users of Kerberos tickets")
        self.clusters.check_callers(names)

    @property
    def is_open(self) -> bool:
        """Whether every client has the gateway's own user."""
        return self.callers is None and self.negotiator is None

    @property
    def challenges(self) -> tuple[str, ...]:
        """The ways of authentication, as `WWW-Authenticate` fields."""
        ways = {'Bearer realm="submit_tf_job"': self.callers, "Negotiate": self.negotiator}
        return tuple(way for way, accepted in ways.items() if accepted is not None)

    def caller(self, authorization: str | None) -> tuple[str, str]:
        """Return the caller, and the token that authenticates the gateway to it ("" if not needed).

        Args:
            authorization: The header.

        Raises:
            RequestRefused: The client is not a known caller.
            SettingsError: The callers file cannot be read.
        """
        if self.is_open:
            return self.clusters.settings.user, ""
        scheme, _, token = (authorization or "").partition(" ")
        if self.negotiator is not None and scheme.lower() == "negotiate":
            return self.negotiator.caller(token.strip())
        if self.callers is None:
            raise Negotiator.refused("the request has no Kerberos ticket")
        return self.callers.caller(token_of(authorization)), ""

    def why_not_ready(self) -> str:
        """Return why the gateway is not ready, or "".

        The cluster is queried at most every few seconds.
        """
        if self.draining:
            return "draining"
        try:
            if self.callers is not None:
                self.callers.check()
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
            self.clusters.own().hadoop_version(_ANSWER_S)
        except AuthError:
            return "the ResourceManager does not take the gateway for its user"
        except SubmitTFJobError:
            return "no ResourceManager answers"
        return ""

    def drain(self) -> None:
        """End all streams; other requests are completed."""
        self.draining = True
        self.watches.end()
        for end in tuple(self._endings):
            end()

    @contextmanager
    def stream(self, slots: Slots, caller: str, end: Callable[[], None]) -> Iterator[None]:
        """Count a stream while the block runs.

        Args:
            slots: The slots for streams of this kind.
            caller: The caller.
            end: Ends the stream; called when the gateway ends, and in any case after the block.

        Raises:
            RequestRefused: There are too many streams.
        """
        with slots.one(caller):
            self._endings.add(end)
            try:
                yield
            finally:
                self._endings.discard(end)
                end()

    def gauges(self) -> dict[str, int]:
        """Return the current counts by name."""
        return {
            "requests_in_progress": self.requests.taken,
            "streams": self.streams.taken + self.listeners.taken,
            "watched_jobs": len(self.watches),
            "draining": int(self.draining),
        }

    def client(self, caller: str) -> Client:
        """Return the client with a caller's identity."""
        return self.clusters.of(caller)


# --- clients -------------------------------------------------------------------------------------


class Clusters:
    """Clients by caller; each connects and its identity is checked at the caller's first request.

    Args:
        settings: The gateway's own settings.
        connect: Returns a client.
    """

    def __init__(
        self,
        settings: Settings,
        connect: Callable[[Settings], Client] = lambda settings: Client(
            settings=settings, own_jobs_only=True
        ),
    ) -> None:
        if settings.as_proxy:
            raise SettingsError(
                "as_user does not work with a gateway: it acts for its callers",
                hint="leave as_user (--as-user) out",
            )
        self.settings = settings
        self._connect = connect
        self._open: dict[str, Client] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def check_callers(self, names: Iterable[str]) -> None:
        """Refuse callers for whom the gateway cannot act.

        Raises:
            SettingsError: The gateway's way of authentication does not support proxy users.
        """
        others = sorted(set(names) - {self.settings.user})
        if others and self.settings.auth not in ("simple", "kerberos"):
            raise SettingsError(
                f"with auth {self.settings.auth} the gateway can act for "
                f"{self.settings.user} only, not for {', '.join(others[:5])}",
                hint="only auth simple and kerberos support proxy users",
            )

    def of(self, caller: str) -> Client:
        """Return the client of a caller, which treats jobs of other users as unknown.

        Raises:
            AuthError: The ResourceManager would take the gateway for another user.
            ClusterUnavailable: The ResourceManager cannot be reached.
        """
        with self._locks[caller]:
            if caller not in self._open:
                client = self._connect(self.settings.acting_for(caller))
                client.check_identity()
                self._open[caller] = client
            return self._open[caller]

    def check_own_user(self) -> None:
        """Check that the ResourceManager takes this gateway for its `user`.

        With Kerberos the ticket says who it is. A ResourceManager that does not answer yet is
        passed over: a gateway may be started before its cluster.

        Raises:
            AuthError: The ResourceManager takes it for another user.
        """
        if self.settings.auth == "kerberos":
            with suppress(ClusterUnavailable):
                self.own()

    def own(self) -> Client:
        """Return the gateway's own client, which only checks that the cluster is available."""
        return self.of(self.settings.user)
