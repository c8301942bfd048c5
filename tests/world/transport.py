"""What a server is asked and answers, and what `requests` makes of it, without sockets."""

from __future__ import annotations

import http.client
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import requests
import urllib3


@dataclass
class Asked:
    """A request as a server sees it.

    Attributes:
        user: Who asks.
        by: The command that asks.
        sent_at: When it did.
        slow: Steps of the server that take longer, and by how much.
    """

    method: str
    path: str
    query: dict[str, str]
    body: bytes = b""
    user: str = ""
    by: str = ""
    sent_at: float = 0.0
    slow: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        path = self.path.removeprefix("/app/v1/services").removeprefix("/ws/v1/cluster")
        return f"{self.method} {path or '/'}"


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


def asked_by(request: requests.PreparedRequest, by: str, now: float) -> Asked:
    """Return a request as its server sees it; it must be as the client promises."""
    parts = urlsplit(str(request.url))
    query = parse_qs(parts.query, keep_blank_values=True, strict_parsing=True)
    [user] = query.pop("user.name")
    assert "Cookie" not in request.headers, "a cookie would outweigh user.name"
    body = request.body or b""
    body = body.encode() if isinstance(body, str) else body
    assert isinstance(body, bytes)
    assert not body or request.headers["Content-Type"] == "application/json"
    values = {name: found[0] for name, found in query.items()}
    return Asked(str(request.method), parts.path, values, body, user, by or user, now)


def check_options(
    stream: bool, timeout: Any, verify: bool | str, proxies: Mapping[str, str] | None
) -> None:
    """Assert that a request is sent with bounds, to nobody else."""
    assert stream, "answers must be read with a bound"
    assert verify, "TLS verification is off"
    assert not proxies, "an ambient proxy is used"
    connect_s, read_s = timeout
    assert 0 < connect_s <= 10, timeout
    assert 0 < read_s <= 400, timeout


def response_of(request: requests.PreparedRequest, answer: Answer) -> requests.Response:
    """Return an answer as `requests` does."""
    response = requests.Response()
    response.request, response.url = request, str(request.url)
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


def wrong_scheme(right: str) -> requests.exceptions.ConnectionError:
    """Return what a request by the other scheme than the server's ends with."""
    if right == "http":
        return requests.exceptions.SSLError("[SSL: WRONG_VERSION_NUMBER] wrong version number")
    return requests.exceptions.ConnectionError(
        http.client.BadStatusLine("\x15\x03\x03\x00\x02\x02P")
    )


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
    cause = urllib3.exceptions.ProtocolError("Connection aborted.", gone)
    return requests.exceptions.ConnectionError(cause)


def proxy(status: int) -> Answer:
    """Return what a proxy answers in the place of Hadoop."""
    if status == 401:
        headers = {"WWW-Authenticate": 'Basic realm="gateway"'}
        return Answer(401, b"<html><title>401 Unauthorized</title></html>", "text/html", headers)
    title = {403: "403 Forbidden", 200: "Sign in"}.get(status, f"{status} Gateway")
    return Answer(status, f"<html><title>{title}</title></html>".encode(), "text/html")


def says_nothing() -> Answer:
    """Return a failure inside the services API that leaves open what was done."""
    words = (
        "Call From rm1/10.0.0.1 to nn1:8020 failed on connection exception: "
        "java.net.ConnectException: Connection refused"
    )
    return Answer.json({"diagnostics": words}, 500)


def remote_exception(exception: str, message: str, status: int) -> Answer:
    """Return what `/ws/v1` answers when something is wrong."""
    thrown = {"exception": exception, "message": message}
    thrown["javaClassName"] = f"org.apache.hadoop.yarn.webapp.{exception}"
    return Answer.json({"RemoteException": thrown}, status)
