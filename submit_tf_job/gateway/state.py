"""What a running gateway has in its hands; what the one that is started after it needs is in `store`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from submit_tf_job import api
from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.gateway.callers import CallersFile, token_of
from submit_tf_job.gateway.clusters import Clusters
from submit_tf_job.gateway.delivery import Courier, Webhooks
from submit_tf_job.gateway.limits import Limits, Slots
from submit_tf_job.gateway.metrics import Metrics
from submit_tf_job.gateway.negotiate import Negotiator
from submit_tf_job.gateway.store import Store
from submit_tf_job.gateway.submission import Keys
from submit_tf_job.gateway.watching import Watches

__all__ = ["Gateway"]

_READY_FOR_S = 5.0
_ANSWER_S = 3.0


@dataclass
class Gateway:
    """A gateway.

    Attributes:
        callers: Who may call by a token or a certificate.
        log: Takes one entry of the log.
        negotiator: Reads the tickets of those who come by Kerberos. Without it and without `callers` everybody who reaches the gateway is
            its own user (on loopback alone).
        store: What is kept beyond this process; None without a database.
        webhooks: Where they may go, and how they are signed; None where there are none.
    """

    clusters: Clusters
    callers: CallersFile | None
    log: Callable[[dict[str, Any]], None]
    limits: Limits = field(default_factory=Limits)
    metrics: Metrics = field(default_factory=Metrics)
    negotiator: Negotiator | None = None
    store: Store | None = None
    webhooks: Webhooks | None = None
    draining: bool = False

    def __post_init__(self) -> None:
        limits = self.limits
        self.requests = Slots("requests", limits.requests, limits.all_requests)
        self.streams = Slots("logs", limits.streams, limits.all_streams)
        self.listeners = Slots("streams of events", limits.listeners, limits.all_listeners)
        self.keys = Keys(self.store, self.log)
        self.courier: Courier | None = None
        if self.store is not None and self.webhooks is not None:
            self.courier = Courier(self.store, self.webhooks, self.cluster, self.log, count=self.metrics.webhook)
        self.watches = Watches(limits.watches)
        self._endings: set[Callable[[], None]] = set()
        self._asked_at, self._trouble, self._asking = float("-inf"), "no ResourceManager was asked yet", threading.Lock()
        names = self.callers.names if self.callers is not None else frozenset()
        self.clusters.check_callers({*names, *(["whoever has a ticket"] if self.negotiator is not None else [])})

    @property
    def is_open(self) -> bool:
        """Whether everybody who reaches it is its own user."""
        return self.callers is None and self.negotiator is None

    @property
    def challenges(self) -> tuple[str, ...]:
        """In which ways a caller can say who it is, as `WWW-Authenticate` names them."""
        ways = ['Bearer realm="submit_tf_job"'] if self.callers is not None else []
        return (*ways, *(["Negotiate"] if self.negotiator is not None else []))

    def caller(self, authorization: str | None, certificate: str = "") -> tuple[str, str]:
        """Say who is calling, and what proves to them who we are ("" where nothing has to).

        Args:
            authorization: The header; it says more than a certificate.
            certificate: Subject of the TLS certificate that came with the connection, "" where none did.

        Raises:
            RequestRefused: Nobody who is known.
            SettingsError: The file of callers cannot be read.
        """
        if self.is_open:
            return self.clusters.settings.user, ""
        scheme, _, token = (authorization or "").partition(" ")
        if self.negotiator is not None and scheme.lower() == "negotiate":
            return self.negotiator.caller(token.strip())
        if self.callers is not None and certificate and authorization is None:
            return self.callers.of_certificate(certificate), ""
        if self.callers is None:
            raise Negotiator.refused("no Kerberos ticket came with the request")
        return self.callers.caller(token_of(authorization)), ""

    def trouble(self) -> str:
        """Say why the gateway is not ready, "" where it is; the cluster is asked every few seconds at most."""
        if self.draining:
            return "draining"
        try:
            if self.callers is not None:
                self.callers.check()
        except SubmitTFJobError:
            return "the file of callers cannot be read"
        if time.monotonic() - self._asked_at > _READY_FOR_S and self._asking.acquire(blocking=False):
            try:
                self._trouble = self._ask()
                self._asked_at = time.monotonic()
            finally:
                self._asking.release()
        return self._trouble

    def _ask(self) -> str:
        try:
            client = self.clusters.own().client
            client.cluster_info(deadline=client.deadline(_ANSWER_S))
        except SubmitTFJobError:
            return "no ResourceManager answers"
        return ""

    def drain(self) -> None:
        """End what would go on for ever; what is being done is finished."""
        self.draining = True
        self.watches.end()
        for end in tuple(self._endings):
            end()

    @contextmanager
    def stream(self, slots: Slots, caller: str, end: Callable[[], None]) -> Iterator[None]:
        """Count a stream while it goes on.

        Args:
            slots: Of which it takes one.
            caller: Whose it is.
            end: Ends it, called when the gateway ends and in any case at last.

        Raises:
            RequestRefused: Too many go on.
        """
        with slots.one(caller):
            self._endings.add(end)
            try:
                yield
            finally:
                self._endings.discard(end)
                end()

    def gauges(self) -> dict[str, int]:
        """Count what is going on."""
        return {
            "requests_in_progress": self.requests.taken,
            "streams": self.streams.taken + self.listeners.taken,
            "watched_jobs": len(self.watches),
            "draining": int(self.draining),
            "delivers_webhooks": int(self.courier is not None and self.courier.leads),
        }

    def cluster(self, caller: str) -> api.Cluster:
        """Return the cluster, as a caller."""
        return self.clusters.of(caller)
