"""Bytes that no HTTP library sends: ambiguous lengths, and clients that leave in the middle of a
body.
"""

from __future__ import annotations

import re
import signal
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
import requests

from tests.gateway.conftest import TOKEN, Process, until
from tests.tool import SUBMIT_S
from tests.world.served import Served

HEAD = (
    f"POST /v1/jobs HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer "
    f"{TOKEN}\r\nContent-Type: application/json\r\n"
)
SMUGGLED = "GET /healthz HTTP/1.1\r\nHost: gateway\r\n\r\n"


def exchange(gateway: Process, sent: str) -> str:
    """Send bytes and read until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=600) as connection:
        connection.sendall(sent.encode())
        received = b""
        while piece := connection.recv(65536):
            received += piece
    return received.decode()


@pytest.mark.parametrize(
    ("lengths", "code"),
    [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked", "ambiguous-length"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5", "ambiguous-length"),
        ("transfer-encoding: Chunked\r\nCONTENT-LENGTH: 0", "ambiguous-length"),
        ("Content-Length: 5\r\nContent-Length: 6", None),
        ("Content-Length: 5, 6", None),
        ("Content-Length: +5", None),
        ("Content-Length: 5\r\nTransfer-Encoding: identity", None),
        ("Content-Length: 5\r\nTransfer-Encoding : chunked", None),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", None),
        ("Transfer-Encoding: gzip, chunked", None),
        ("Transfer-Encoding: chunked, identity", None),
    ],
)
def test_ambiguous_length_is_refused_and_the_connection_closed(
    gateway: Process, lengths: str, code: str | None
) -> None:
    received = exchange(gateway, f"{HEAD}{lengths}\r\n\r\n0\r\n\r\n{SMUGGLED}")
    assert re.findall(r"HTTP/1\.1 (\d+)", received) == ["400"], received
    assert "connection: close" in received.lower()
    if code is not None:
        assert f'"code": "{code}"' in received
        until(gateway.entries, "the request is logged")
        assert (gateway.entries()[-1]["status"], gateway.entries()[-1]["level"]) == (400, "info")


def test_chunked_request_of_http_1_0_is_refused(gateway: Process) -> None:
    head = HEAD.replace("HTTP/1.1", "HTTP/1.0")
    received = exchange(gateway, f"{head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}")
    assert re.findall(r"HTTP/1\.1 (\d+)", received) == ["400"], received
    assert "ambiguous-length" in received


@pytest.mark.parametrize("how", ["closes", "resets"])
def test_client_that_leaves_during_its_body_is_logged_as_499(gateway: Process, how: str) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=600) as connection:
        connection.sendall(f'{HEAD}Content-Length: 1000\r\n\r\n{{"name": '.encode())
        if how == "resets":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    until(gateway.entries, "the request is logged")
    [entry] = gateway.entries()
    assert (entry["status"], entry["code"], entry["level"]) == (499, "client-gone", "info"), entry
    assert "why" not in entry
    assert gateway.metric('requests_total{method="POST",route="/v1/jobs",status="499"}') == 1


@pytest.mark.parametrize(("drain", "answer"), [("1s", 503), ("50s", 200)])
def test_a_request_has_the_time_of_drain_when_the_gateway_is_ended(
    tmp_path: Path, options: list[str], cluster: Served, drain: str, answer: int
) -> None:
    gateway = Process(tmp_path, *options, "--drain", drain)
    cluster.answers.clear()

    def status() -> int:
        with suppress(requests.ConnectionError):
            return gateway.ask("GET", "/v1/jobs").status_code
        return 0

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(status)
        until(lambda: gateway.metric("requests_in_progress") == 1, "the request has begun")
        gateway.process.send_signal(signal.SIGTERM)
        if answer == 200:
            until(lambda: not listens(gateway), "the gateway is being ended")
            cluster.answers.set()
        assert asked.result() == answer
        cluster.answers.set()
    assert gateway.process.wait(SUBMIT_S) == 0
    gateway.end()


def listens(gateway: Process) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", gateway.port)) == 0
