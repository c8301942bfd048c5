"""The middleware around every request: ids, checks, error responses, the access log and counters.

It is plain ASGI, so that streams are not buffered.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import datetime, timezone
from typing import Any
from urllib.parse import parse_qsl

from submit_tf_job.errors import UsageError
from submit_tf_job.gateway.problems import ProblemResponse, RequestRefused
from submit_tf_job.gateway.running import Gateway

__all__ = ["Middleware"]

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_IDENTITIES = frozenset({"doas", "user.name", "proxyuser"})
_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")
_ALWAYS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


class Middleware:
    """The outermost part of the gateway.

    Args:
        app: The application inside it.
        gateway: The gateway.
    """

    def __init__(
        self, app: Callable[[Scope, Receive, Send], Awaitable[None]], gateway: Gateway
    ) -> None:
        self._app, self._gateway = app, gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        entry = _RequestLog(self._gateway, scope, send, headers.get("x-request-id", ""))
        try:
            self._check(scope, headers)
            await self._app(scope, receive, entry.send)
        except Exception as error:  # noqa: BLE001 - every error becomes a problem response
            await entry.fail(error)
        finally:
            entry.end()

    def _check(self, scope: Scope, headers: dict[str, str]) -> None:
        _check_framing(scope, headers)
        try:
            names = {
                name.lower()
                for name, _ in parse_qsl(
                    scope["query_string"].decode("ascii"), keep_blank_values=True, max_num_fields=50
                )
            }
        except ValueError:
            raise UsageError("the query cannot be read") from None
        if names & _IDENTITIES:
            raise UsageError(
                f"a caller is identified by its token or ticket: "
                f"{', '.join(sorted(names & _IDENTITIES))} is not accepted",
                hint="leave it out",
            )
        # Browsers send tickets on behalf of any page that requests them. Without authentication any
        # web page that this machine's user opens could call, also under a name that resolves to
        # loopback.
        host = headers.get("host", "")
        if "origin" in headers and headers["origin"].lower() not in (
            f"http://{host}".lower(),
            f"https://{host}".lower(),
        ):
            raise RequestRefused(
                "forbidden-origin",
                "pages of other sites are not served",
                hint="use a program, or the page at /",
            )
        if self._gateway.is_open and not _LOOPBACK.fullmatch(host):
            raise RequestRefused(
                "forbidden-origin",
                "without authentication only programs of this machine are served",
                hint="call localhost",
            )


def _check_framing(scope: Scope, headers: dict[str, str]) -> None:
    """Refuse a request whose end is ambiguous to a proxy and this server (RFC 9112, 6.1 and 11.2).

    h11 itself refuses two different lengths and two Transfer-Encodings, and closes the connection.
    """
    if "transfer-encoding" not in headers:
        return
    if "content-length" in headers or scope.get("http_version") == "1.0":
        other = "Content-Length" if "content-length" in headers else "HTTP/1.0"
        raise RequestRefused(
            "ambiguous-length",
            f"Transfer-Encoding together with {other}: where the request ends is ambiguous",
            hint="send one of them",
            headers={"Connection": "close"},
        )


class _RequestLog:
    """One request and its response."""

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
            message = {
                **message,
                "headers": [
                    *message.get("headers", []),
                    *more,
                    (b"x-request-id", self.id.encode()),
                ],
            }
        elif message["type"] == "http.response.body":
            self._bytes += len(message.get("body", b""))
        await self._send(message)

    def _challenges(self) -> tuple[str, ...]:
        if self._status == 401:
            return self._gateway.challenges
        proof = self._scope["state"].get("proof")
        return (f"Negotiate {proof}",) if proof else ()

    async def fail(self, error: Exception) -> None:
        """Send the problem response, unless a response has begun."""
        response = ProblemResponse(error, self.id)
        self._defect = response.defect
        if not self._status:
            await response(self._scope, _nothing_more, self.send)

    def end(self) -> None:
        """Count the request and log it, without query, headers and body."""
        seconds, state = time.monotonic() - self._start, self._scope["state"]
        route = getattr(self._scope.get("route"), "path", "other")
        self._gateway.metrics.request(self._scope["method"], route, self._status, seconds)
        client = self._scope.get("client")
        more = {"code": state.get("code"), "why": self._defect or state.get("defect")}
        self._gateway.log(
            {
                "at": datetime.now(timezone.utc)
                .isoformat(timespec="milliseconds")
                .replace("+00:00", "Z"),
                "event": "request",
                "level": "error" if self._status >= 500 else "info",
                "request": self.id,
                "caller": state.get("caller"),
                "client": client[0] if client else None,
                "method": self._scope["method"],
                "path": self._scope["path"][:300],
                "status": self._status,
                "seconds": round(seconds, 4),
                "bytes": self._bytes,
                **{name: text for name, text in more.items() if text},
                **_audited(state.get("action"), state.get("code")),
            }
        )


def _audited(action: dict[str, Any] | None, code: str | None) -> dict[str, Any]:
    """Return the fields of an audited action: what was done, to which job, its result."""
    if action is None:
        return {}
    kept = {name: value for name, value in action.items() if value is not None}
    return {**kept, "result": action.get("result") or code or "failed"}


async def _nothing_more() -> MutableMapping[str, Any]:
    return {"type": "http.disconnect"}
