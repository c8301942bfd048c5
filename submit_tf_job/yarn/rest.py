"""The HTTP client for all requests to ResourceManagers and NodeManagers.

`session` sends one request with the library requests, which is imported with the first request.
Retries follow the rules of Hadoop's own RPC client (RetryPolicies.java). A request that never
reached a ResourceManager, or that a standby rejected, is sent to the next one until the deadline. A
request that was sent without a response is repeated only if it is idempotent; otherwise
`AnswerLost` is raised, and the caller has to check the outcome.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from submit_tf_job.container import untrusted
from submit_tf_job.errors import BadAnswer, ClusterUnavailable, SubmitTFJobError
from submit_tf_job.yarn.auth import Auth
from submit_tf_job.yarn.errors import unauthenticated
from submit_tf_job.yarn.ha import ResourceManagers, addresses_of
from submit_tf_job.yarn.response import Reply, TransportError, transport_error_of

if TYPE_CHECKING:
    import requests
    from requests.adapters import BaseAdapter

    from submit_tf_job.yarn.session import Session

_LOG = logging.getLogger(__name__)
BODY_MAX = 64 * 1024 * 1024
ROUNDS_MAX = 1000  # the deadline ends the rounds earlier; this limits them if the clock stops
# RequestException is an OSError; urllib3 leaves the ValueError for a chunk's length below zero
_NOT_READ = (OSError, ValueError)
_CHUNK = 64 * 1024
_PIECE = 256 * 1024
# a failover takes 4 to 14 s (hadoop-facts.md#failover); a longer pause would miss its end
_PAUSE_S, _PAUSE_MAX_S = 0.5, 1.5


class AnswerLost(ClusterUnavailable):
    """The request was sent, but its response was lost or is not conclusive: the request may have
    taken effect.
    """


class Interrupted(ClusterUnavailable):
    """A download ended before it was complete."""


class Download:
    """A response of any length, read in pieces.

    Attributes:
        url: The requested URL, without the query.
    """

    def __init__(self, response: requests.Response, url: str) -> None:
        self.url = url
        self._response = response

    def pieces(self) -> Iterator[bytes]:
        """Yield the body in pieces; a caller that stops before the end calls `close`.

        Raises:
            Interrupted: The connection broke, or the server stopped sending.
        """
        try:
            yield from self._response.iter_content(_PIECE)
        except _NOT_READ as error:
            why = transport_error_of(error).why
            raise Interrupted(
                f"{self.url}: its answer broke off: {why}.",
                details={"url": self.url, "reason": why},
            ) from error

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        self._response.close()


class Timeouts(NamedTuple):
    """Timeouts in seconds.

    Attributes:
        connect_s: To open a connection.
        read_s: For the next bytes of the response to a GET.
        post_s: For the response to a POST, which includes the upload of jars and the acceptance of
            the application (hadoop-facts.md#jar-upload-inside-the-post).
        change_s: For the response to a PUT or DELETE; DELETE waits for the end of the application.
        total_s: For one operation with all its retries and failovers, if the caller sets no
            deadline.
    """

    connect_s: float = 5.0
    read_s: float = 30.0
    post_s: float = 120.0
    change_s: float = 60.0
    total_s: float = 60.0


class Deadline(NamedTuple):
    """A point in time on a monotonic clock."""

    at: float
    clock: Callable[[], float]

    @property
    def left_s(self) -> float:
        """Seconds that remain; 0 after the deadline."""
        return max(0.0, self.at - self.clock())


class _Request(NamedTuple):
    method: str
    path: str
    params: Mapping[str, str]
    body: str | None
    read_s: float
    repeatable: bool


class HttpClient:
    """Send requests to the active ResourceManager, with retries and failover.

    Args:
        resource_managers: Addresses as `http://host:port`; all of them with high availability.
        auth: The authentication method.
        timeouts: Timeouts for connections, responses and whole operations.
        ca_file: CA certificates for https; the system's if None.
        clock: Monotonic seconds.
        sleep: Sleeps for a number of seconds.
        jitter: Returns a number in [0, 1), for the pauses between retries.
        resolve: Maps a host name to its addresses.
        adapter: Replaces the network transport in tests.
    """

    def __init__(
        self,
        resource_managers: Iterable[str],
        auth: Auth,
        *,
        timeouts: Timeouts | None = None,
        ca_file: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        resolve: Callable[[str], frozenset[str]] = addresses_of,
        adapter: BaseAdapter | None = None,
    ) -> None:
        self.rms = ResourceManagers(resource_managers, resolve=resolve)
        self.auth = auth
        self.timeouts = timeouts or Timeouts()
        self.clock = clock
        self.sleep = sleep
        self._ca_file = ca_file
        self._jitter = jitter
        self._adapter = adapter
        self._sessions: dict[bool, Session] = {}
        # header fields of a response, whose `Date` tells the cluster's time, and when it was read
        self._dated: tuple[Reply, float] | None = None
        self._opening = threading.Lock()
        self._node_link = ""  # a link to a node, as the ResourceManager wrote it
        self._met_node_scheme = ""  # that a node answered to

    @property
    def node_scheme(self) -> str:
        """`http` or `https`, for requests to nodes: the scheme in the links that the
        ResourceManager writes; if none is known, the scheme by which a node has answered; else the
        ResourceManager's own scheme. These can differ, because a proxy may add TLS to the
        ResourceManager alone.
        """
        own = self.rms.urls[0].partition("://")[0]
        return self._told_node_scheme or self._met_node_scheme or own

    @property
    def _told_node_scheme(self) -> str:
        """The scheme of the last link to a node that the ResourceManager wrote, which is that of
        its yarn.http.policy; "" if there is none, or if it leads to a gateway in front of it.
        """
        parts = untrusted.url_parts(self._node_link)
        if parts.scheme not in ("http", "https"):
            return ""
        gateways = {urlsplit(url).netloc for url in self.rms.urls}
        return "" if parts.netloc in gateways else parts.scheme

    def deadline(self, seconds: float | None = None) -> Deadline:
        """Return the deadline `seconds` from now, by default the total for one operation."""
        return Deadline(
            self.clock() + (self.timeouts.total_s if seconds is None else seconds), self.clock
        )

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        while self._sessions:
            self._sessions.popitem()[1].close()

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: str | None = None,
        read_s: float | None = None,
        deadline: Deadline | None = None,
        repeatable: bool = True,
        rounds: int = ROUNDS_MAX,
    ) -> Reply:
        """Send a request to the active ResourceManager and return the response, of any status.

        Args:
            method: HTTP method.
            path: Path below the ResourceManager's address.
            params: Query, in addition to the parameters of the authentication.
            body: JSON text.
            read_s: Timeout for the response, default `timeouts.read_s`.
            deadline: Applies to all retries and failovers together.
            repeatable: Whether the request is idempotent.
            rounds: Maximum number of attempts per ResourceManager.

        Raises:
            AuthError: when authentication failed.
            AnswerLost: when a request that is not repeatable was sent and no response was received.
            ClusterUnavailable: when no active ResourceManager responded before the deadline.
            BadAnswer: when the response is too large, redirects (with another status than the 307
                of a standby), or comes from Hadoop's RPC port.
            SettingsError: when `ca_file` or the credentials cannot be read, or requests-kerberos is
                not installed.
        """
        wanted = _Request(
            method, path, params or {}, body, read_s or self.timeouts.read_s, repeatable
        )
        deadline = deadline or self.deadline()
        seen: dict[str, TransportError] = {}
        for attempt in range(rounds):
            reply = self._try_each(wanted, deadline, seen)
            if reply is not None:
                return reply
            if (
                len(seen) == len(self.rms.urls)
                and (refusal := _auth_error_of_all(seen)) is not None
            ):
                raise refusal
            if (
                not deadline.left_s
                or attempt == rounds - 1
                or all(trouble.hopeless for trouble in seen.values())
            ):
                break
            self._pause_before_retry(attempt, seen, deadline)
        raise self._none_answered(wanted, seen)

    def fetch(
        self,
        base: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        deadline: Deadline | None = None,
    ) -> Reply | TransportError:
        """Send a GET to one address in the cluster and return the response, of any status. It is
        sent once more only if the server expects the other scheme (http or https).

        Args:
            base: The address; the caller has to check that the ResourceManager lists it.
            path: Path below it.
            params: Query, in addition to the parameters of the authentication.
            deadline: For the whole response.

        Raises:
            AuthError: when authentication failed.
            BadAnswer: when the response is too large, redirects (with another status than 307), or
                comes from Hadoop's RPC port.
            SettingsError: As `request`.
        """
        wanted = _Request("GET", path, params or {}, None, self.timeouts.read_s, repeatable=True)
        deadline = deadline or self.deadline()
        base, response = self._send_to_node(base, wanted, deadline)
        outcome = self._read_reply(response, wanted, base, deadline)
        return self._acceptable_reply(outcome, wanted) if isinstance(outcome, Reply) else outcome

    def download(
        self,
        base: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        deadline: Deadline | None = None,
    ) -> Download | Reply | TransportError:
        """Send a GET to one address, as `fetch` does; a response with the status 200 is returned
        unread.

        Args:
            base: An address in the cluster; the caller has to check that the ResourceManager lists
                it.
            path: Path below it.
            params: Query, in addition to the parameters of the authentication.
            deadline: For the start of the response; the rest has no deadline, but each read has a
                timeout of `timeouts.read_s`.
        """
        wanted = _Request("GET", path, params or {}, None, self.timeouts.read_s, repeatable=True)
        deadline = deadline or self.deadline()
        base, response = self._send_to_node(base, wanted, deadline, endless=True)
        if not isinstance(response, TransportError) and response.status_code == 200:
            return Download(response, base + path)
        outcome = self._read_reply(response, wanted, base, deadline)
        return self._acceptable_reply(outcome, wanted) if isinstance(outcome, Reply) else outcome

    def _try_each(
        self, wanted: _Request, deadline: Deadline, seen: dict[str, TransportError]
    ) -> Reply | None:
        """Try each ResourceManager once, and return the first acceptable response; None if there is
        none. The responses of standbys suggest the order. `seen` receives the error of each
        address.

        Raises:
            AnswerLost: A request that is not repeatable was sent, and no response was received.
        """
        waiting = deque(self.rms.urls)
        while waiting and deadline.left_s:
            url = waiting.popleft()
            response = self._send_once(url, wanted, deadline, others=bool(waiting))
            outcome = self._read_reply(response, wanted, url, deadline)
            if isinstance(outcome, Reply):
                standby = self.rms.standby(outcome, url)
                if standby is not None:
                    if standby.active and standby.active in waiting:
                        waiting.remove(standby.active)
                        waiting.appendleft(standby.active)
                    outcome = standby._replace(refusal=unauthenticated(outcome, self.auth))
                # a server in front of Hadoop failed: its own 5xx have a message, and are final
                elif (
                    outcome.status in (502, 503, 504)
                    and wanted.repeatable
                    and not outcome.is_hadoops
                ):
                    outcome = TransportError.of_gateway(outcome)
                else:
                    self.rms.worked(url)
                    if outcome.status == 200 and "json" in outcome.content_type:
                        self._dated = replace(outcome, body=b""), self.clock()
                    return self._acceptable_reply(outcome, wanted)
            # an error caused by the deadline is less specific than an earlier one
            if deadline.left_s or url not in seen:
                seen[url] = outcome
            _LOG.info("%s %s%s: %s", wanted.method, url, wanted.path, outcome.why)
            if outcome.sent and not wanted.repeatable:
                raise AnswerLost(
                    f"{wanted.method} {url}{wanted.path} was sent and its answer never "
                    f"came ({outcome.why}).",
                    details={
                        "method": wanted.method,
                        "url": url + wanted.path,
                        "resource_manager": url,
                        "reason": outcome.why,
                    },
                )
        return None

    def _send_to_node(
        self, base: str, wanted: _Request, deadline: Deadline, *, endless: bool = False
    ) -> tuple[str, requests.Response | TransportError]:
        """Send a GET to an address in the cluster, with the other scheme (http or https) if the
        server expects it. Return the address that was asked last, and its response.

        The scheme changes to http only if the ResourceManager does not write https into its links:
        an attacker on the network could also answer without TLS.
        """
        response = self._send_once(base, wanted, deadline, endless=endless)
        speaks = response.speaks if isinstance(response, TransportError) else ""
        if not speaks or (speaks == "http" and self._told_node_scheme == "https"):
            return base, response
        base = f"{speaks}://{base.partition('://')[2]}"
        response = self._send_once(base, wanted, deadline, endless=endless)
        if not isinstance(response, TransportError):
            self._met_node_scheme = speaks
        return base, response

    def _send_once(
        self,
        base: str,
        wanted: _Request,
        deadline: Deadline,
        *,
        others: bool = False,
        endless: bool = False,
    ) -> requests.Response | TransportError:
        """Send a request once, and return its response with the body unread.

        Args:
            others: Whether other ResourceManagers remain to be tried: one that does not respond
                must not use up the time for the others.
            endless: Whether the body of a successful response may arrive after the deadline.
        """
        node, left_s = base not in self.rms.urls, max(deadline.left_s, 0.001)
        within_s = left_s / 2 if others and wanted.repeatable else left_s
        try:
            return self._session_for(node=node).ask(
                wanted.method,
                base + wanted.path,
                params={**wanted.params, **self.auth.params(node=node)},
                body=wanted.body,
                connect_s=min(self.timeouts.connect_s, left_s),
                read_s=wanted.read_s if endless else min(wanted.read_s, within_s),
                deadline=deadline,
                endless=endless,
            )
        except OSError as error:
            refused = self.auth.explain(error)
            if refused is None:
                return transport_error_of(error)
            if not wanted.repeatable and self.auth.answered(error):
                return TransportError(refused.message.rstrip("."), sent=True, advice=refused.hint)
            raise refused from error

    def _read_reply(
        self,
        response: requests.Response | TransportError,
        wanted: _Request,
        base: str,
        deadline: Deadline,
    ) -> Reply | TransportError:
        """Read the whole response, with limits on its size and duration, and close it."""
        if isinstance(response, TransportError):
            return response
        url, body = base + wanted.path, bytearray()
        try:
            with closing(response):
                for chunk in response.iter_content(_CHUNK):
                    body += chunk
                    if len(body) > BODY_MAX:
                        raise BadAnswer(
                            f"{url} answered with more than {BODY_MAX // 1024**2} MiB.",
                            details={"url": url, "status": response.status_code},
                        )
                    if not deadline.left_s:
                        return TransportError("its answer did not end in time", sent=True)
        except _NOT_READ as error:
            return transport_error_of(error)
        status, reason = response.status_code, response.reason or ""
        reply = Reply(wanted.method, url, status, reason, response.headers, bytes(body))
        return TransportError("its answer was cut off", sent=True) if reply.cut_off else reply

    def _acceptable_reply(self, reply: Reply, wanted: _Request) -> Reply:
        """Return the response, or raise an error for responses that no request may accept.

        A request that is not repeatable may have taken effect even if a server other than Hadoop
        rejects it, so such a response is returned.
        """
        if reply.status < 300:
            return reply
        sure = wanted.repeatable or reply.is_hadoops
        refused = unauthenticated(reply, self.auth) if sure else None
        if refused is not None:
            raise refused
        if reply.status == 404 and "to a Hadoop IPC port" in reply.text:
            raise reply.bad(
                f"{'/'.join(reply.url.split('/')[:3])} is Hadoop's RPC port, not its web address."
            )
        if 300 <= reply.status < 400 and reply.status != 307:
            target = reply.headers.get("location", "nowhere").partition("?")[0]
            raise reply.bad(f"{reply.url} redirects to {target}, which is not followed.")
        return reply

    def _pause_before_retry(
        self, attempt: int, seen: Mapping[str, TransportError], deadline: Deadline
    ) -> None:
        pause = self._jitter() * min(_PAUSE_MAX_S, _PAUSE_S * 2 ** min(attempt, 10))
        pause = max([pause, *(trouble.retry_after_s for trouble in seen.values())])
        self.sleep(min(pause, deadline.left_s))

    def _none_answered(
        self, wanted: _Request, seen: Mapping[str, TransportError]
    ) -> ClusterUnavailable:
        tried = (
            ", ".join(f"{url} ({trouble.why})" for url, trouble in sorted(seen.items()))
            or "the deadline had passed before"
        )
        details: dict[str, object] = {
            "method": wanted.method,
            "path": wanted.path,
            "tried": {url: t.why for url, t in sorted(seen.items())},
        }
        elsewhere = sorted(
            {trouble.unconfigured for trouble in seen.values() if trouble.unconfigured}
        )
        if elsewhere:
            return ClusterUnavailable(
                f"The active ResourceManager is {elsewhere[0]}, which is not configured; "
                f"tried {tried}.",
                hint=f"Add --rm {elsewhere[0]}, or add it to resource_managers.",
                details=details,
            )
        advice = next((trouble.advice for trouble in seen.values() if trouble.advice), "")
        said = "No ResourceManager could be reached"
        if any(trouble.sent for trouble in seen.values()):
            said = f"No ResourceManager answered {wanted.method} {wanted.path}"
        return ClusterUnavailable(
            f"{said}: {tried}.",
            hint=advice or _hint_of_wildcard(self.rms.urls) or "Check --rm and resource_managers.",
            details=details,
        )

    def _session_for(self, *, node: bool) -> Session:
        """Return the session for an address.

        For nodes there is a separate session, which never gets the credentials for
        ResourceManagers.
        """
        from submit_tf_job.yarn.session import Session

        with self._opening:
            if node not in self._sessions:
                self._sessions[node] = Session(self._ca_file, self._adapter)
                self.auth.prepare(self._sessions[node], node=node)
            return self._sessions[node]


def _hint_of_wildcard(urls: Iterable[str]) -> str:
    """Return a hint for the user if a configured address is the wildcard address (every address of
    a machine), else "".
    """
    every = ("0.0.0.0", "::")  # noqa: S104 - compared, not listened at
    if not any(urlsplit(url).hostname in every for url in urls):
        return ""
    return (
        "0.0.0.0 is this machine; name the host of the ResourceManager: --rm, resource_managers, "
        "or yarn.resourcemanager.hostname in yarn-site.xml."
    )


def _auth_error_of_all(seen: Mapping[str, TransportError]) -> SubmitTFJobError | None:
    """Return the authentication error if every ResourceManager rejects the request, else None. A
    standby's rejection alone does not count, because it may reject valid credentials.
    """
    refusals = [trouble.refusal for trouble in seen.values()]
    return refusals[0] if all(refusals) else None
