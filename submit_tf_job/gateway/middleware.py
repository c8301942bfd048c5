"""Around every request: its id, what is refused before anything is done, the answer to every error, one line of log, the counters.

Plain ASGI, so that streams pass as they come.
"""

from __future__ import annotations

import json
import re
import secrets
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import datetime, timezone
from typing import Any
from urllib.parse import parse_qsl

from submit_tf_job.errors import InternalError, SettingsError, SubmitTFJobError, UsageError
from submit_tf_job.gateway.problems import CONTENT_TYPE, RequestRefused, problem
from submit_tf_job.gateway.state import Gateway

__all__ = ["Door", "answer_of"]

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_IDENTITIES = frozenset({"doas", "user.name", "proxyuser"})
_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")
_ALWAYS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


class Door:
    """The outermost part of the gateway.

    Args:
        app: What is behind it.
        gateway: The gateway.
    """

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], gateway: Gateway) -> None:
        self._app, self._gateway = app, gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        visit = _Visit(self._gateway, scope, send, headers.get("x-request-id", ""))
        try:
            self._check(scope, headers)
            await self._app(scope, receive, visit.send)
        except Exception as error:  # noqa: BLE001 - nothing leaves as it is
            await visit.fail(error)
        finally:
            visit.end()

    def _check(self, scope: Scope, headers: dict[str, str]) -> None:
        try:
            names = {
                name.lower() for name, _ in parse_qsl(scope["query_string"].decode("ascii"), keep_blank_values=True, max_num_fields=50)
            }
        except ValueError:
            raise UsageError("the query cannot be read") from None
        if names & _IDENTITIES:
            raise UsageError(
                f"a caller says who it is by its token, ticket or certificate: {', '.join(sorted(names & _IDENTITIES))} is not taken",
                hint="leave it out",
            )
        # Browsers send tickets and certificates for any page that asks them to, and whoever needs no token could be any web page that this
        # machine's user looks at, also one whose name leads to loopback.
        host = headers.get("host", "")
        if "origin" in headers and headers["origin"].lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
            raise RequestRefused("forbidden-origin", "pages of other sites are not served", hint="use a program, or the page at /")
        if self._gateway.is_open and not _LOOPBACK.fullmatch(host):
            raise RequestRefused(
                "forbidden-origin", "without authentication only programs of this machine are served", hint="call localhost"
            )


class _Visit:
    """One request, and how it was answered."""

    def __init__(self, gateway: Gateway, scope: Scope, send: Send, asked_id: str) -> None:
        self._gateway, self._scope, self._send = gateway, scope, send
        self.id = asked_id if _REQUEST_ID.fullmatch(asked_id) else secrets.token_hex(8)
        self._start = time.monotonic()
        self._status, self._bytes = 0, 0
        self._defect = ""
        scope.setdefault("state", {})["request_id"] = self.id

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            given = {name for name, _ in message.get("headers", [])}
            more = [(name, value) for name, value in _ALWAYS if name not in given]
            more += [(b"www-authenticate", way.encode()) for way in self._challenges()]
            message = {**message, "headers": [*message.get("headers", []), *more, (b"x-request-id", self.id.encode())]}
        elif message["type"] == "http.response.body":
            self._bytes += len(message.get("body", b""))
        await self._send(message)

    def _challenges(self) -> tuple[str, ...]:
        if self._status == 401:
            return self._gateway.challenges
        proof = self._scope["state"].get("proof")
        return (f"Negotiate {proof}",) if proof else ()

    async def fail(self, error: Exception) -> None:
        """Answer with the problem; where an answer has begun, it ends as it is."""
        self._defect = _for_the_log(error)
        if self._status:
            return
        status, headers, body = answer_of(error, self.id)
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    def end(self) -> None:
        """Count it, and write its line: no query, no header, no body."""
        seconds, state = time.monotonic() - self._start, self._scope["state"]
        route = getattr(self._scope.get("route"), "path", "other")
        self._gateway.metrics.request(self._scope["method"], route, self._status, seconds)
        client = self._scope.get("client")
        why = self._defect or state.get("defect", "")
        self._gateway.log(
            {
                "at": datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "event": "request",
                "request": self.id,
                "caller": state.get("caller"),
                "client": client[0] if client else None,
                "method": self._scope["method"],
                "path": self._scope["path"][:300],
                "status": self._status,
                "seconds": round(seconds, 4),
                "bytes": self._bytes,
                **({"code": state["code"]} if "code" in state else {}),
                **({"why": why} if why else {}),
            }
        )


def answer_of(error: Exception, request_id: str) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Return status, headers and body of the answer that an error is."""
    found = problem(error, request_id)
    body = json.dumps(found.body, default=str).encode()
    headers = {"Content-Type": CONTENT_TYPE, "Content-Length": str(len(body)), **found.headers}
    return found.status, [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in headers.items()], body


def _for_the_log(error: Exception) -> str:
    """Say what a caller is not told: our own words in full; of others only where it happened, for they may quote a token."""
    if isinstance(error, (SettingsError, InternalError)):
        return f"{type(error).__name__}: {error.message}"
    if isinstance(error, SubmitTFJobError):
        return ""
    places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-3:]]
    return f"{type(error).__name__} at {', '.join(places)}"
