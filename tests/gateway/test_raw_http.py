"""Whatever arrives at the gateway's port gets one answer with the right status, in a bounded time,
and costs nothing afterwards.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.gateway.conftest import JOB, TOKEN, Process, until
from tests.world.served import Served

OWN = f"Host: gateway\r\nAuthorization: Bearer {TOKEN}\r\n"
LIST = f"GET /v1/jobs HTTP/1.1\r\n{OWN}\r\n"
POST = f"POST /v1/jobs HTTP/1.1\r\n{OWN}Content-Type: application/json\r\n"
CHUNKED = f"{POST}Transfer-Encoding: chunked\r\n\r\n"
LAST = "GET /healthz HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n"


def get(path: str, more: str = "", method: str = "GET") -> str:
    return f"{method} {path} HTTP/1.1\r\n{OWN}{more}\r\n"


Answers = list[tuple[int, str]]  # status, and the problem's code

# What is sent, and what is answered in turn; after it `LAST` is sent where the connection goes on.
WHOLE: dict[str, tuple[str, Answers]] = {
    # --- heads ---
    "no request": ("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", [(400, "not-http")]),
    "HTTP/0.9": ("GET /\r\n\r\n", [(400, "not-http")]),
    "HTTP/2": ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [(400, "not-http")]),
    "no host": ("GET /healthz HTTP/1.1\r\n\r\n", [(400, "not-http")]),
    "two hosts": ("GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", [(400, "not-http")]),
    "large field": (get("/v1/jobs", f"X: {'x' * 40_000}\r\n"), [(431, "head-too-large")]),
    "large target": (get(f"/v1/jobs?{'x' * 40_000}"), [(431, "head-too-large")]),
    "many fields": (get("/v1/jobs", "a: b\r\n" * 10_000), [(431, "head-too-large")]),
    "some fields": (get("/v1/jobs", "a: b\r\n" * 3000), [(200, ""), (200, "")]),
    "folded field": (get("/v1/jobs", "X: a\r\n  b\r\n"), [(200, ""), (200, "")]),
    "NUL in a field": (get("/v1/jobs", "X: a\x00b\r\n"), [(400, "not-http")]),
    "field without a name": (get("/v1/jobs", ": b\r\n"), [(400, "not-http")]),
    "space in a name": (get("/v1/jobs", "X y: b\r\n"), [(400, "not-http")]),
    "no Latin": (get("/v1/jobs", "X: \xff\xfe\r\n"), [(200, ""), (200, "")]),
    "no Latin in the token": (
        get("/v1/jobs").replace(TOKEN, "\xff\xfe"),
        [(401, "not-authenticated"), (200, "")],
    ),
    "no Latin in the type": (
        f"POST /v1/jobs HTTP/1.1\r\n{OWN}Content-Type: \xff\r\nContent-Length: 2\r\n\r\n{{}}",
        [(415, "media-type"), (200, "")],
    ),
    "no Latin in the key": (
        f"{POST}Idempotency-Key: \xff\r\nContent-Length: 2\r\n\r\n{{}}",
        [(400, "usage"), (200, "")],
    ),
    "bare line feeds": (get("/v1/jobs").replace("\r\n", "\n"), [(200, ""), (200, "")]),
    "HTTP/1.0": ("GET /healthz HTTP/1.0\r\n\r\n", [(200, "")]),
    "upgrade": (
        get("/v1/jobs", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n"),
        [(200, ""), (200, "")],
    ),
    # --- targets ---
    "absolute": (get("http://other.example/v1/jobs"), [(404, "no-such-page"), (200, "")]),
    "asterisk": (get("*", method="OPTIONS"), [(404, "no-such-page"), (200, "")]),
    "authority": (get("other.example:443", method="CONNECT"), [(404, "no-such-page"), (200, "")]),
    "two slashes": (get("//v1/jobs"), [(404, "no-such-page"), (200, "")]),
    "dots": (get("/v1/../v1/jobs"), [(404, "no-such-page"), (200, "")]),
    "escaped dots": (get("/v1/%2e%2e/metrics"), [(404, "no-such-page"), (200, "")]),
    "escaped slash": (get("/v1/jobs/a%2f..%2fb"), [(404, "no-such-page"), (200, "")]),
    "escaped twice": (get("/v1/jobs/a%252fb"), [(400, "usage"), (200, "")]),
    "escaped NUL": (get("/v1/jobs/a%00b"), [(400, "usage"), (200, "")]),
    "escaped line": (get("/v1/jobs/a%0d%0aX:b"), [(400, "usage"), (200, "")]),
    "no UTF-8": (get("/v1/jobs/%ff"), [(400, "usage"), (200, "")]),
    "half an escape": (get("/v1/jobs/a%"), [(400, "usage"), (200, "")]),
    "no ASCII": (get("/v1/jobs/\xe4"), [(400, "not-http")]),
    "query without ASCII": (get("/v1/jobs?state=%ff%00"), [(400, "usage"), (200, "")]),
    "many parameters": (get(f"/v1/jobs?{'a=b&' * 100}"), [(400, "usage"), (200, "")]),
    # --- methods ---
    "override": (
        get("/v1/jobs", "X-HTTP-Method-Override: DELETE\r\n"),
        [(200, ""), (200, "")],
    ),
    "override of a post": (
        get("/v1/jobs/none", "X-HTTP-Method: DELETE\r\nContent-Length: 0\r\n", "POST"),
        [(405, "method-not-allowed"), (200, "")],
    ),
    "small letters": (get("/v1/jobs", method="get"), [(405, "method-not-allowed"), (200, "")]),
    "unknown": (get("/v1/jobs", method="BREW"), [(405, "method-not-allowed"), (200, "")]),
    "trace": (get("/v1/jobs", method="TRACE"), [(405, "method-not-allowed"), (200, "")]),
    "no method": (get("/v1/jobs", method="G(T"), [(400, "not-http")]),
    # --- bodies ---
    "body of a GET": (get("/v1/jobs", "Content-Length: 3\r\n") + "abc", [(200, ""), (200, "")]),
    "equal lengths": (
        f"{POST}Content-Length: 1\r\nContent-Length: 1\r\n\r\n[",
        [(422, "job-spec"), (200, "")],
    ),
    "different lengths": (
        f"{POST}Content-Length: 1\r\nContent-Length: 2\r\n\r\n[",
        [(400, "not-http")],
    ),
    "negative length": (f"{POST}Content-Length: -1\r\n\r\n", [(400, "not-http")]),
    "length without an end": (f"{POST}Content-Length: {'9' * 5000}\r\n\r\n", [(400, "not-http")]),
    "length of an exabyte": (f"{POST}Content-Length: {10**18}\r\n\r\n", [(413, "too-large")]),
    "length in other digits": (f"{POST}Content-Length: \xb2\r\n\r\n", [(400, "not-http")]),
    "less than the body": (
        f"{POST}Content-Length: 1\r\n\r\n[[[\r\n\r\n",
        [(422, "job-spec"), (400, "not-http")],
    ),
    "chunk without a size": (f"{CHUNKED}x\r\n", [(400, "not-http")]),
    "negative chunk": (f"{CHUNKED}-1\r\n", [(400, "not-http")]),
    "huge chunk": (f"{CHUNKED}{'f' * 30}\r\n", [(400, "not-http")]),
    "chunk of another size": (f"{CHUNKED}1\r\nabc\r\n", [(400, "not-http")]),
    "large extension": (f"{CHUNKED}1;{'x' * 40_000}\r\n", [(400, "not-http")]),
    "large trailers": (f"{CHUNKED}1\r\n[\r\n0\r\n{'a: b' * 10_000}\r\n", [(400, "not-http")]),
    "continue": (
        f"{POST}Expect: 100-continue\r\nContent-Length: 1\r\n\r\n[",
        [(100, ""), (422, "job-spec"), (200, "")],
    ),
    "too much to continue": (
        f"{POST}Expect: 100-continue\r\nContent-Length: 9999999\r\n\r\n",
        [(413, "too-large")],
    ),
    "nobody to continue": (
        f"{POST}Expect: 100-continue\r\nContent-Length: 1\r\n\r\n[".replace(TOKEN, "x"),
        [(401, "not-authenticated"), (200, "")],
    ),
    "another expectation": (
        f"{POST}Expect: wonders\r\nContent-Length: 1\r\n\r\n[",
        [(422, "job-spec"), (200, "")],
    ),
    # --- several ---
    "pipeline": (LIST * 20, [(200, "")] * 21),
    "pipeline with a bad one": (LIST * 3 + "x\r\n\r\n", [(200, "")] * 3 + [(400, "not-http")]),
}

# What is sent at once, what then trickles for ever, and what is answered before the connection ends.
SLOW: dict[str, tuple[str, str, Answers]] = {
    "nothing": ("", "", []),
    "head": ("GET /healthz HTTP/1.1\r\nX: ", "x", [(408, "request-timeout")]),
    "half a head": ("GET /healthz HTTP/1.1\r\nX: ", "", [(408, "request-timeout")]),
    "fields": ("GET /healthz HTTP/1.1\r\n", "X: x\r\n", [(408, "request-timeout")]),
    "empty lines": ("", "\r\n", [(400, "not-http")]),
    "next head": (f"{LIST}GET /", "x", [(200, ""), (408, "request-timeout")]),
    "body": (f"{POST}Content-Length: 1000\r\n\r\n", "x", [(408, "request-timeout")]),
    "no body": (f"{POST}Content-Length: 1000\r\n\r\n", "", [(408, "request-timeout")]),
    "body to continue": (
        f"{POST}Expect: 100-continue\r\nContent-Length: 9\r\n\r\n",
        "",
        [(100, ""), (408, "request-timeout")],
    ),
    "chunks": (CHUNKED, "1\r\n[\r\n", [(408, "request-timeout")]),
    "large chunks": (CHUNKED, f"8000\r\n{'[' * 0x8000}\r\n" * 20, [(413, "too-large")]),
    "size of a chunk": (CHUNKED, "0", [(408, "request-timeout")]),
    "trailers": (f"{CHUNKED}1\r\n[\r\n0\r\n", "a: b\r\n", [(408, "request-timeout")]),
    "files": (
        f"POST /v1/jobs HTTP/1.1\r\n{OWN}Content-Type: multipart/form-data; boundary=b\r\n"
        "Content-Length: 9999\r\n\r\n",
        "x",
        [(408, "request-timeout")],
    ),
    "body of a GET": (get("/v1/jobs", "Content-Length: 9999\r\n"), "x", [(200, "")]),
    "chunks of a GET": (
        get("/v1/jobs", "Transfer-Encoding: chunked\r\n"),
        "1\r\nx\r\n",
        [(200, "")],
    ),
    "body of a DELETE": (
        get("/v1/jobs/none", "Content-Length: 9999\r\n", "DELETE"),
        "x",
        [(404, "no-such-job")],
    ),
    "body of what is no page": (
        get("/x", "Content-Length: 9999\r\n", "POST"),
        "x",
        [(404, "no-such-page")],
    ),
    "body of a stranger": (CHUNKED.replace(TOKEN, "x"), "1\r\nx\r\n", [(401, "not-authenticated")]),
}
WAITS_S = 15  # longer than a busy machine stands still between two lines of a test
PATCH = f"""
import submit_tf_job.gateway.http_connection as connection
import submit_tf_job.gateway.runtime as running
connection.IDLE_S = connection.UNREAD_S = {WAITS_S}
begin, hasty = running.Limits.__init__, dict(body_s={WAITS_S}.0, upload_s={WAITS_S}.0)
running.Limits.__init__ = lambda self, **given: begin(self, **{{**given, **hasty}})
"""
END_S = 240.0


@pytest.fixture
def hasty(tmp_path: Path, options: list[str]) -> Iterator[Process]:
    """A gateway that waits for seconds where others wait for half a minute and more."""
    made = Process(tmp_path, *options, patch=PATCH)
    yield made
    made.end()


def exchange(gateway: Process, sent: str, then: str = "", trickles: str = "") -> bytes:
    """Send bytes, and read until the gateway closes the connection."""
    received, deadline = b"", time.monotonic() + END_S
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=END_S) as connection:
        with suppress(ConnectionError):  # it was closed meanwhile
            connection.sendall(sent.encode("latin-1"))
            connection.sendall(then.encode())
        connection.settimeout(0.1)
        while time.monotonic() < deadline:
            try:
                piece = connection.recv(65536)
                received += piece
                if not piece:
                    return received
            except TimeoutError:
                with suppress(ConnectionError, TimeoutError):  # it may read no more
                    connection.sendall(trickles.encode("latin-1"))
            except ConnectionError:  # closed with bytes that nobody has read
                return received
    raise AssertionError(f"it has not ended: {received[:500]!r}")


def answers(received: bytes) -> Answers:
    """Return the status and the problem's code of each answer in turn."""
    found: Answers = []
    while received:
        head, _, received = received.partition(b"\r\n\r\n")
        first = re.match(rb"HTTP/1\.1 (\d{3}) [A-Za-z -]+\r\n", head + b"\r\n")
        assert first, head
        status, fields = int(first[1]), head.decode("ascii").lower()
        length = re.search(r"\ncontent-length: (\d+)", fields)
        size = int(length[1]) if length else 0
        body, received = received[:size], received[size:]
        found.append((status, code_of(status, fields, body) if status >= 400 else ""))
    return found


def code_of(status: int, fields: str, body: bytes) -> str:
    problem: dict[str, Any] = json.loads(body)
    assert "\ncontent-type: application/problem+json" in fields, fields
    assert problem["status"] == status
    assert problem["detail"]
    assert problem["request"]
    assert TOKEN not in body.decode()
    return str(problem["code"])


def difference(gateway: Process, row: Any) -> str:
    """Return what is wrong with the answers to one row; "" where nothing is."""
    name, (sent, then, trickles, wanted) = row
    try:
        found = answers(exchange(gateway, sent, then, trickles))
    except (AssertionError, ValueError) as error:
        return f"{name}: {error}"
    return "" if found == wanted else f"{name}: {found} instead of {wanted}"


def nothing_remains(gateway: Process) -> None:
    """Look at what has been taken, and at the log."""
    until(lambda: gateway.metric("requests_in_progress") == 0, "no request is in progress")
    assert gateway.metric("streams") == 0
    for entry in gateway.entries():
        assert entry["level"] != "error", entry
        assert "Traceback" not in json.dumps(entry), entry


def test_whatever_is_sent_has_one_answer(gateway: Process) -> None:
    rows = [(name, (sent, LAST, "", wanted)) for name, (sent, wanted) in WHOLE.items()]
    wrong = [found for row in rows if (found := difference(gateway, row))]
    assert not wrong, "\n".join(wrong)
    nothing_remains(gateway)


def test_what_never_comes_is_not_waited_for(hasty: Process) -> None:
    rows = [(name, (sent, "", trickles, wanted)) for name, (sent, trickles, wanted) in SLOW.items()]
    with ThreadPoolExecutor(len(rows)) as pool:  # nearly all of their time is waiting
        wrong = [found for found in pool.map(partial(difference, hasty), rows) if found]
    assert not wrong, "\n".join(wrong)
    nothing_remains(hasty)


def test_head_has_no_body(gateway: Process) -> None:
    sent = get("/v1/jobs", "Content-Length: 3\r\n", "HEAD") + "abc"
    received = exchange(gateway, sent, LAST)
    first, _, rest = received.partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 405"), first
    assert answers(rest) == [(200, "")]


def test_a_client_that_does_not_read_gives_its_stream_back(hasty: Process, cluster: Served) -> None:
    """A log of more than the kernel's buffers hold."""
    answer = hasty.ask("POST", "/v1/jobs", json={**JOB, "name": "mnist"})
    application = answer.json()["application_id"]
    container = f"{application.replace('application', 'container')}_01_000002"
    until(lambda: hasty.ask("GET", "/v1/jobs/mnist").json()["state"] != "PENDING")
    fake = cluster.cluster
    fake.yarn.containers["worker"] = [
        {
            "id": container,
            "component_instance_name": "worker-0",
            "bare_host": "node1",
            "state": "READY",
        }
    ]
    fake.node.logs[container, "stdout.txt"] = (b"x" * 99 + b"\n") * 300_000
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", hasty.port))
        connection.sendall(get("/v1/jobs/mnist/logs?follow=true").encode())
        path = "/v1/jobs/mnist/logs"
        until(lambda: path in [entry["path"] for entry in hasty.entries()], "the stream has ended")
        [entry] = [entry for entry in hasty.entries() if entry["path"] == path]
        assert (entry["status"], entry["bytes"] > 4096) == (200, True), entry
    assert requests.get(f"{hasty.url}/healthz", timeout=600).status_code == 200
    nothing_remains(hasty)
