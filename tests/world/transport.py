"""A network without sockets: what `requests` would have sent is answered by objects, and faults
happen on demand.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

import requests
import urllib3
from requests.adapters import BaseAdapter

from tests.world.clock import FakeClock

LATE_S = 6.0  # twice as long as during a failover: hadoop-facts.md#failover


@dataclass
class Asked:
    """A request as a server sees it."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    headers: Mapping[str, str]
    read_s: float

    @property
    def user(self) -> str:
        return self.query["user.name"]


@dataclass
class Answer:
    """What a server answers."""

    status: int
    body: bytes = b""
    content_type: str = "application/json;charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)
    reason: str = ""

    @classmethod
    def json(cls, value: object, status: int = 200) -> Answer:
        return cls(status, json.dumps(value).encode())

    @classmethod
    def text(cls, text: str, status: int = 200, **headers: str) -> Answer:
        return cls(status, text.encode(), "text/plain;charset=utf-8", headers)


class Server(Protocol):
    """Something that listens at one address."""

    @property
    def process(self) -> object:
        """What tells the process that listens from its successor."""

    def serve(self, asked: Asked) -> Answer:
        """Answer a request, or raise what `requests` raises when there is no answer."""


@dataclass
class Fault:
    """Something that goes wrong with the next request that fits.

    Attributes:
        kind: `refuse`, `unsent-timeout`: nothing arrives; `lost`: nothing arrives, and that cannot
            be known; `reset`, `silent`: it takes effect and the answer is lost; `truncate`: the
            answer is cut off; `gateway`: it takes effect and a proxy answers 502; `gateway-before`:
            a proxy answers 503 and passes nothing on; `error`, `error-after`: Hadoop answers 500
            with words that say nothing, before or after the effect; `duplicate`, `duplicate-late`:
            something on the way sends it twice, and the first or the second answer arrives; `late`:
            the connection breaks, and its server gets to it seconds later, should it live; `crash`,
            `crash-before`: the client is killed when the request has been answered, or before it is
            sent; `instead`: something on the way gives `answer` and passes nothing on.
        method: Which requests it fits.
        path: Pattern of their paths.
        answer: For `instead`.
    """

    kind: str
    method: str = ""
    path: str = ""
    answer: Answer | None = None

    def fits(self, asked: Asked) -> bool:
        return self.method in ("", asked.method) and re.search(self.path, asked.path) is not None


class Killed(BaseException):
    """The client is no more; nothing of it catches this."""


class FakeNetwork(BaseAdapter):
    """Every address that exists; a request to any other fails the test."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.clock = clock
        self.servers: dict[str, Server] = {}
        self.faults: list[Fault] = []
        self.log: list[tuple[str, str, str]] = []  # address, method, path

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """Deliver a request, strictly."""
        parts = urlsplit(str(request.url))
        assert stream, "answers must be read with a bound"
        assert verify, "TLS verification is off"
        assert not proxies, "an ambient proxy is used"
        assert isinstance(timeout, tuple), f"no explicit timeouts: {timeout}"
        assert all(part and part > 0 for part in timeout), f"a timeout without end: {timeout}"
        assert parts.netloc in self.servers, (
            f"{request.method} to {parts.netloc}, which nobody configured"
        )
        query = parse_qs(parts.query, keep_blank_values=True, strict_parsing=True)
        assert len(query.get("user.name", [])) == 1, (
            f"user.name is not there exactly once: {parts.query}"
        )
        assert "Cookie" not in request.headers, "a cookie would outweigh user.name"
        body = request.body or b""
        body = body.encode() if isinstance(body, str) else body
        assert isinstance(body, bytes)
        if body:
            assert request.headers["Content-Type"] == "application/json"
        asked = Asked(
            str(request.method),
            parts.path,
            {k: v[0] for k, v in query.items()},
            body,
            request.headers,
            timeout[1],
        )
        self.log.append((parts.netloc, asked.method, parts.path))
        return self._response(request, self._deliver(self.servers[parts.netloc], asked, timeout[0]))

    def close(self) -> None:
        """Forget nothing: connections are not modelled."""

    def _deliver(self, server: Server, asked: Asked, connect_s: float) -> Answer:
        fault = next((fault for fault in self.faults if fault.fits(asked)), None)
        if fault is None:
            return server.serve(asked)
        self.faults.remove(fault)
        if fault.kind == "crash-before":
            raise Killed
        if fault.answer is not None:
            return fault.answer
        if fault.kind == "late":
            self.clock.after(LATE_S, partial(self._too_late, server, asked, server.process))
            raise connection_broke()
        if fault.kind in ("refuse", "unsent-timeout", "lost", "gateway-before", "error"):
            return self._instead(fault.kind, connect_s)
        arrived = self.clock()
        answer = server.serve(asked)
        if fault.kind == "crash":
            raise Killed
        if fault.kind in ("duplicate", "duplicate-late"):
            second = server.serve(asked)
            return answer if fault.kind == "duplicate" else second
        if fault.kind == "reset":
            raise connection_broke()
        if fault.kind == "silent":
            self.clock.sleep(max(0.0, asked.read_s - (self.clock() - arrived)))
            raise requests.exceptions.ReadTimeout("Read timed out.")
        if fault.kind == "truncate":
            answer.headers["Content-Length"] = str(len(answer.body))
            answer.body = answer.body[: len(answer.body) // 2]
            return answer
        assert fault.kind in ("gateway", "error-after"), fault.kind
        return bad_gateway(502) if fault.kind == "gateway" else says_nothing()

    @staticmethod
    def _too_late(server: Server, asked: Asked, process: object) -> None:
        """Deliver a request whose client has gone; it waited in a socket of the server's process,
        and is gone with that.
        """
        if server.process == process:
            with contextlib.suppress(requests.RequestException):
                server.serve(asked)

    def _instead(self, kind: str, connect_s: float) -> Answer:
        if kind == "refuse":
            raise refused()
        if kind == "unsent-timeout":
            self.clock.sleep(connect_s)
            raise requests.exceptions.ConnectTimeout("timed out")
        if kind == "lost":
            raise connection_broke()
        return bad_gateway(503) if kind == "gateway-before" else says_nothing()

    @staticmethod
    def _response(request: requests.PreparedRequest, answer: Answer) -> requests.Response:
        response = requests.Response()
        response.request = request
        response.url = str(request.url)
        response.status_code = answer.status
        response.reason = answer.reason or http.client.responses.get(answer.status, "")
        headers = {"Content-Type": answer.content_type, **answer.headers}
        response.headers.update(headers)
        response.raw = urllib3.HTTPResponse(
            body=io.BytesIO(answer.body),
            headers=headers,
            status=answer.status,
            preload_content=False,
            request_method=request.method,
        )
        return response


def refused() -> requests.exceptions.ConnectionError:
    """Return what `requests` raises where nothing listens."""
    try:
        raise ConnectionRefusedError(111, "Connection refused")
    except ConnectionRefusedError as cause:
        pool = urllib3.HTTPConnectionPool("rm", 8088)
        new = urllib3.exceptions.NewConnectionError(
            urllib3.connection.HTTPConnection("rm", 8088), f"Failed to establish: {cause}"
        )
        new.__cause__ = cause
        return requests.exceptions.ConnectionError(urllib3.exceptions.MaxRetryError(pool, "/", new))


def connection_broke() -> requests.exceptions.ConnectionError:
    """Return what `requests` raises when the peer closes before it has answered."""
    gone = http.client.RemoteDisconnected("Remote end closed connection without response")
    return requests.exceptions.ConnectionError(
        urllib3.exceptions.ProtocolError("Connection aborted.", gone)
    )


def bad_gateway(status: int) -> Answer:
    """Return what a proxy answers in the place of Hadoop."""
    return Answer(
        status,
        b"<html><head><title>Bad Gateway</title></head><body>nginx</body></html>",
        "text/html",
    )


def says_nothing() -> Answer:
    """Return a failure inside the services API that leaves open what was done."""
    words = (
        "Call From rm1/10.0.0.1 to nn1:8020 failed on connection exception: "
        "java.net.ConnectException: Connection refused"
    )
    return Answer.json({"diagnostics": words}, 500)


def remote_exception(exception: str, message: str, status: int) -> Answer:
    """Return what `/ws/v1` answers when something is wrong."""
    return Answer.json(
        {
            "RemoteException": {
                "exception": exception,
                "message": message,
                "javaClassName": f"org.apache.hadoop.yarn.webapp.{exception}",
            }
        },
        status,
    )
