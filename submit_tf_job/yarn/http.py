"""The one way out: every request to a ResourceManager or NodeManager goes through here.

What is retried follows from what is known of the request, as in Hadoop's own RPC client (RetryPolicies.java): it never reached a
ResourceManager, or a standby refused it: the next one, for as long as the deadline lasts; it was sent and no answer came: again only
where doing it twice is doing it once; otherwise `AnswerLost`, and the caller has to look.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from submit_tf_job.errors import AuthError, BadAnswer, ClusterUnavailable
from submit_tf_job.yarn.answers import Reply
from submit_tf_job.yarn.auth import Auth
from submit_tf_job.yarn.ha import ResourceManagers, Standby
from submit_tf_job.yarn.trouble import Trouble, trouble_of

if TYPE_CHECKING:
    import requests
    from requests.adapters import BaseAdapter

__all__ = ["AnswerLost", "Deadline", "Download", "Funnel", "Interrupted", "Timeouts"]

BODY_MAX = 64 * 1024 * 1024
ROUNDS_MAX = 1000  # the deadline ends it before; this is for a clock that stands still
_CHUNK = 64 * 1024
_PIECE = 256 * 1024
_PAUSE_S, _PAUSE_MAX_S = 0.5, 1.5  # a failover takes 4 to 14 s (facts: verified-security-ha 9); its end should not be slept through

_log = logging.getLogger(__name__)


class AnswerLost(ClusterUnavailable):
    """The request was sent and its answer never came, or says nothing: whether it took effect is not known.

    Attributes:
        answered: Whether Hadoop itself answered, so that the server is done with the request.
    """

    answered = False


class Interrupted(ClusterUnavailable):
    """A download broke off before its end."""


class Download:
    """An answer of any length, read piece by piece.

    Attributes:
        url: What was asked, without the query.
    """

    def __init__(self, response: requests.Response, url: str) -> None:
        self.url = url
        self._response = response

    def pieces(self) -> Iterator[bytes]:
        """Read to the end; whoever stops before that calls `close`.

        Raises:
            Interrupted: The connection broke, or the server fell silent.
        """
        import requests

        try:
            yield from self._response.iter_content(_PIECE)
        except requests.RequestException as error:
            why = trouble_of(error).why
            raise Interrupted(f"{self.url}: its answer broke off: {why}.", details={"url": self.url, "reason": why}) from error

    def close(self) -> None:
        """Let go of the connection; harmless where that was done."""
        self._response.close()


@dataclass(frozen=True)
class Timeouts:
    """How long to wait, in seconds.

    Attributes:
        connect_s: For a connection.
        read_s: For the next bytes of an answer to a question.
        post_s: For the answer to a POST: jars are uploaded and the application accepted inside it (facts: yarn-services P20).
        change_s: For the answer to a PUT or DELETE; DELETE waits for the end of the application.
        total_s: For one operation with all its retries and failovers, where the caller gives no deadline.
    """

    connect_s: float = 5.0
    read_s: float = 30.0
    post_s: float = 120.0
    change_s: float = 60.0
    total_s: float = 60.0


@dataclass(frozen=True)
class Deadline:
    """A moment on a monotonic clock."""

    at: float
    clock: Callable[[], float] = field(repr=False)

    @property
    def left_s(self) -> float:
        """Seconds that remain, 0 when it has passed."""
        return max(0.0, self.at - self.clock())


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    params: Mapping[str, str]
    body: str | None
    read_s: float
    repeatable: bool


class Funnel:
    """Sends requests to whichever ResourceManager is active.

    Args:
        rms: The configured ResourceManagers.
        auth: Who we are.
        timeouts: How long to wait.
        ca_file: CA certificates to check https against; the system's where `None`.
        clock: Monotonic seconds.
        sleep: Waits for seconds.
        jitter: A number in [0, 1), for the pauses between retries.
        adapter: Transport in place of the network's, for tests.
    """

    def __init__(
        self,
        rms: ResourceManagers,
        auth: Auth,
        *,
        timeouts: Timeouts | None = None,
        ca_file: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        adapter: BaseAdapter | None = None,
    ) -> None:
        self.rms = rms
        self.auth = auth
        self.timeouts = timeouts or Timeouts()
        self.clock = clock
        self.sleep = sleep
        self._ca_file = ca_file
        self._jitter = jitter
        self._adapter = adapter
        self._sessions: dict[bool, requests.Session] = {}
        self._opening = threading.Lock()

    def deadline(self, seconds: float | None = None) -> Deadline:
        """Return the moment `seconds` from now, by default the total for one operation."""
        return Deadline(self.clock() + (self.timeouts.total_s if seconds is None else seconds), self.clock)

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
        """Send a request to the active ResourceManager and return its answer, whatever its status.

        Args:
            method: HTTP method.
            path: Path below the ResourceManager's address.
            params: Query, in addition to the authentication's.
            body: JSON text.
            read_s: Time to wait for the answer, default `timeouts.read_s`.
            deadline: Kept across retries and failovers.
            repeatable: Whether doing it twice is doing it once.
            rounds: How often to ask all ResourceManagers in turn, at most.

        Raises:
            AuthError: when authentication failed.
            AnswerLost: when a request that is not repeatable was sent and no answer came.
            ClusterUnavailable: when no active ResourceManager answered before the deadline.
            BadAnswer: when the answer is too large, or a redirect to somewhere else.
        """
        wanted = _Request(method, path, params or {}, body, read_s or self.timeouts.read_s, repeatable)
        deadline = deadline or self.deadline()
        seen: dict[str, Trouble] = {}
        for attempt in range(rounds):
            reply = self._round(wanted, deadline, seen)
            if reply is not None:
                return reply
            if len(seen) == len(self.rms.urls) and (refusal := _refusal_of_all(seen)) is not None:
                raise refusal
            if not deadline.left_s or attempt == rounds - 1 or all(trouble.hopeless for trouble in seen.values()):
                break
            self._pause(attempt, seen, deadline)
        raise self._unreachable(wanted, seen)

    def fetch(self, base: str, path: str, *, params: Mapping[str, str] | None = None, deadline: Deadline | None = None) -> Reply | Trouble:
        """GET from exactly one address, once; the caller answers for the address being one of the cluster's own."""
        wanted = _Request("GET", path, params or {}, None, self.timeouts.read_s, repeatable=True)
        outcome = self._send(base, wanted, deadline or self.deadline(), others=0)
        return self._checked(outcome) if isinstance(outcome, Reply) else outcome

    def download(
        self, base: str, path: str, *, params: Mapping[str, str] | None = None, deadline: Deadline | None = None
    ) -> Download | Reply | Trouble:
        """GET from exactly one address, once; a good answer is handed out unread, any other is read whole.

        Args:
            base: One of the cluster's own addresses; the caller answers for that.
            path: Path below it.
            params: Query, in addition to the authentication's.
            deadline: For the beginning of the answer; the rest takes as long as it takes, but is never silent for `timeouts.read_s`.
        """
        import requests

        from submit_tf_job.yarn.transport import unbound

        wanted = _Request("GET", path, params or {}, None, self.timeouts.read_s, repeatable=True)
        deadline = deadline or self.deadline()
        try:
            response = self._ask(base, wanted, deadline, wanted.read_s)
            if response.status_code == 200:
                unbound()
                return Download(response, base + path)
            with response:
                outcome = self._read(response, base + path, deadline)
        except requests.RequestException as error:
            return self._failed(error)
        return self._checked(outcome) if isinstance(outcome, Reply) else outcome

    def _round(self, wanted: _Request, deadline: Deadline, seen: dict[str, Trouble]) -> Reply | None:
        """Ask each ResourceManager once, in the order that their answers suggest."""
        waiting = deque(self.rms.urls)
        while waiting and deadline.left_s:
            url = waiting.popleft()
            outcome = self._send(url, wanted, deadline, others=len(waiting))
            if isinstance(outcome, Reply):
                standby = self.rms.standby(outcome, url)
                unknown = len(self.rms.urls) > 1 and self.auth.unknown_to_standby(outcome)
                if standby is None and not unknown and not _stumbled(outcome, wanted):
                    self.rms.worked(url)
                    return self._checked(outcome)
                outcome = self._passed_over(outcome, standby, unknown=unknown)
                active = standby.active if standby else None
                if active is not None and active in waiting:
                    waiting.remove(active)
                    waiting.appendleft(active)
            if deadline.left_s or url not in seen:  # what the deadline cut short tells less than what was seen before
                seen[url] = outcome
            _log.info("%s %s%s: %s", wanted.method, url, wanted.path, outcome.why)
            if outcome.sent and not wanted.repeatable:
                raise AnswerLost(
                    f"{wanted.method} {url}{wanted.path} was sent and its answer never came ({outcome.why}).",
                    details={"method": wanted.method, "url": url + wanted.path, "resource_manager": url, "reason": outcome.why},
                )
        return None

    def _passed_over(self, reply: Reply, standby: Standby | None, *, unknown: bool) -> Trouble:
        if standby is not None:
            return Trouble.of_standby(standby)
        if unknown:
            return Trouble("a standby, or it does not know the token", refusal=self.auth.refused(reply))
        return Trouble.of_gateway(reply)

    def _send(self, base: str, wanted: _Request, deadline: Deadline, *, others: int) -> Reply | Trouble:
        """Try once. Where other ResourceManagers wait for their turn, a silent one may not use up their time."""
        import requests

        left = max(deadline.left_s, 0.001)
        read_s = min(wanted.read_s, left / 2 if others and wanted.repeatable else left)
        try:
            with self._ask(base, wanted, deadline, read_s) as response:
                return self._read(response, base + wanted.path, deadline)
        except requests.RequestException as error:
            return self._failed(error)

    def _ask(self, base: str, wanted: _Request, deadline: Deadline, read_s: float) -> requests.Response:
        from submit_tf_job.yarn.transport import bound

        bound(lambda: deadline.left_s, read_s)
        node = base not in self.rms.urls
        return self._open(node=node).request(
            wanted.method,
            base + wanted.path,
            params={**wanted.params, **self.auth.params(node=node)},
            data=None if wanted.body is None else wanted.body.encode(),
            headers={"Content-Type": "application/json"} if wanted.body is not None else {},
            timeout=(min(self.timeouts.connect_s, max(deadline.left_s, 0.001)), read_s),
            allow_redirects=False,
            stream=True,
        )

    def _failed(self, error: requests.RequestException) -> Trouble:
        refused = self.auth.explain(error)
        if refused is not None:
            raise refused from error
        return trouble_of(error)

    def _read(self, response: requests.Response, url: str, deadline: Deadline) -> Reply | Trouble:
        """Read an answer to its end, which a server that trickles or floods does not get to choose."""
        chunks: list[bytes] = []
        size = 0
        for chunk in response.iter_content(_CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > BODY_MAX:
                raise BadAnswer(
                    f"{url} answered with more than {BODY_MAX // 1024**2} MiB.", details={"url": url, "status": response.status_code}
                )
            if not deadline.left_s:
                return Trouble("its answer did not end in time", sent=True)
        headers = {name.lower(): value for name, value in response.headers.items()}
        declared = headers.get("content-length", "")
        if declared.isdigit() and "content-encoding" not in headers and size < int(declared):
            return Trouble("its answer was cut off", sent=True)
        method = response.request.method or ""
        reply = Reply(method, url, response.status_code, response.reason or "", headers, b"".join(chunks))
        return Trouble("its answer was cut off", sent=True) if reply.cut_off else reply

    def _checked(self, reply: Reply) -> Reply:
        """Refuse answers that mean the same whatever was asked."""
        refused = self.auth.refused(reply) if reply.status in (401, 403) else None
        if refused is not None:
            raise refused
        if reply.status == 404 and "to a Hadoop IPC port" in reply.words:
            raise reply.bad(f"{'/'.join(reply.url.split('/')[:3])} is Hadoop's RPC port, not its web address.")
        if 300 <= reply.status < 400 and reply.status != 307:
            target = reply.headers.get("location", "nowhere").partition("?")[0]
            raise reply.bad(f"{reply.url} redirects to {target}, which is not followed.")
        return reply

    def _pause(self, attempt: int, seen: Mapping[str, Trouble], deadline: Deadline) -> None:
        pause = self._jitter() * min(_PAUSE_MAX_S, _PAUSE_S * 2 ** min(attempt, 10))
        pause = max([pause, *(trouble.retry_after_s for trouble in seen.values())])
        self.sleep(min(pause, deadline.left_s))

    def _unreachable(self, wanted: _Request, seen: Mapping[str, Trouble]) -> ClusterUnavailable:
        tried = ", ".join(f"{url} ({trouble.why})" for url, trouble in sorted(seen.items())) or "the deadline had passed before"
        details: dict[str, object] = {
            "method": wanted.method,
            "path": wanted.path,
            "tried": {url: t.why for url, t in sorted(seen.items())},
        }
        elsewhere = sorted({trouble.unconfigured for trouble in seen.values() if trouble.unconfigured})
        if elsewhere:
            return ClusterUnavailable(
                f"The active ResourceManager is {elsewhere[0]}, which is not configured; tried {tried}.",
                hint=f"Add --rm {elsewhere[0]}, or add it to resource_managers.",
                details=details,
            )
        advice = next((trouble.advice for trouble in seen.values() if trouble.advice), "")
        return ClusterUnavailable(
            f"No ResourceManager could be reached: {tried}.", hint=advice or "Check --rm and resource_managers.", details=details
        )

    def _open(self, *, node: bool) -> requests.Session:
        """Return the session for ResourceManagers, or the one for nodes: what is proven to one of them is no business of the other."""
        with self._opening:
            if node not in self._sessions:
                self._sessions[node] = self._new_session(node=node)
            return self._sessions[node]

    def _new_session(self, *, node: bool) -> requests.Session:
        from submit_tf_job.yarn.transport import DeadlineAdapter, Session, authorities  # 140 ms that `render` and `--help` need not pay

        session = Session()
        session.trust_env = False  # no proxies, .netrc or CA bundle out of the environment
        session.verify = authorities(self._ca_file) if self._ca_file else True
        session.headers.update({"Accept": "application/json, */*;q=0.1", "User-Agent": "submit_tf_job"})
        for scheme in ("http://", "https://"):
            session.mount(scheme, self._adapter or DeadlineAdapter())
        self.auth.prepare(session, node=node)
        return session


def _refusal_of_all(seen: Mapping[str, Trouble]) -> AuthError | None:
    """Return why authentication failed where every ResourceManager refuses it: then none of them is just a standby that cannot know."""
    refusals = [trouble.refusal for trouble in seen.values()]
    return refusals[0] if all(refusals) else None


def _stumbled(reply: Reply, wanted: _Request) -> bool:
    """Whether something between us and Hadoop answered in its place; Hadoop's own 5xx carry words and are answers."""
    return wanted.repeatable and reply.status in (502, 503, 504) and not reply.java_class and not reply.speaks_json
