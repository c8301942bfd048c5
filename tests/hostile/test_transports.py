"""Both transports return the same of every response, and keep connections alike."""

from __future__ import annotations

import contextlib
import gc
import gzip
import socket
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator

import pytest

from submit_tf_job.yarn.deadlines import bound
from submit_tf_job.yarn.exchange import NoResponse, Outgoing, Transport
from submit_tf_job.yarn.plain import PlainTransport
from submit_tf_job.yarn.transport import RequestsTransport
from tests.hostile.conftest import Serve
from tests.hostile.server import Answering, Asked, always, raw

PIECE = 1000
JSON = "application/json"
BODY = b'{"apps": "' + b"worker " * 5000 + b'"}'
BOTH: dict[str, Callable[[], Transport]] = {
    "plain": PlainTransport,
    "requests": lambda: RequestsTransport(None, lambda _session: None),
}


def bare_deflate(data: bytes) -> bytes:
    packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packing.compress(data) + packing.flush()


def chunked(data: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    parts = [data[at : at + 7000] for at in range(0, len(data), 7000)]
    return b"".join(b"%x;note=1\r\n%s\r\n" % (len(part), part) for part in parts) + end


def packed(encoding: str, body: bytes) -> bytes:
    return raw(200, body, JSON, f"Content-Encoding: {encoding}")


def in_chunks(body: bytes, *headers: str) -> bytes:
    return raw(200, body, JSON, "Transfer-Encoding: chunked", *headers, length=False)


GZIP = gzip.compress(BODY)
RESPONSES: dict[str, bytes] = {
    "whole": raw(200, BODY),
    "until the end": raw(200, BODY, length=False),
    "empty": raw(200),
    "no content": b"HTTP/1.1 204 None\r\n\r\n",
    "not changed": b"HTTP/1.1 304 Same\r\nContent-Length: 50\r\n\r\n",
    "no reason": b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n{}",
    "old": b"HTTP/1.0 200 OK\r\nContent-Type: a/b\r\n\r\n{}",
    "continue first": b"HTTP/1.1 100 Continue\r\n\r\n" + raw(200, BODY),
    "error": raw(500, b'{"diagnostics": "no"}'),
    "redirect": raw(307, b"", JSON, "Location: http://[::1/x", "Refresh: 3"),
    "same field twice": raw(200, BODY, JSON, "X-A: 1", "x-a: 2", "Set-Cookie: a=b; Path=/"),
    "folded field": raw(200, BODY, JSON, "X-A: 1\r\n  2"),
    "latin-1": raw(200, BODY, JSON, "X-A: gr\xfc\xdfe"),
    "field without colon": raw(200, BODY, JSON, "X-A"),
    "chunks": in_chunks(chunked(BODY)),
    "chunks, with a trailer": in_chunks(chunked(BODY, b"0\r\nX-Sum: 5\r\n\r\n")),
    "chunks and a length": in_chunks(chunked(BODY), "Content-Length: 3"),
    "chunks, cut off": in_chunks(chunked(BODY, b"")[:-50]),
    "chunks, without the last": in_chunks(chunked(BODY, b"")),
    "chunks, cut off in a length": in_chunks(chunked(BODY, b"1")),
    "chunks, not a number": in_chunks(b"zz\r\n{}\r\n0\r\n\r\n"),
    "chunks, later not a number": in_chunks(chunked(BODY, b"zz\r\n{}\r\n0\r\n\r\n")),
    "cut off": raw(200, BODY)[:-5000],
    "longer than announced": raw(200, BODY) + b"more",
    "two lengths": raw(200, BODY, JSON, "Content-Length: 5"),
    "the same length twice": raw(200, BODY, JSON, f"Content-Length: {len(BODY)}"),
    "length not a number": raw(200, BODY, JSON, "Content-Length: many", length=False),
    "length below zero": raw(200, BODY, JSON, "Content-Length: -5", length=False),
    "gzip": packed("gzip", GZIP),
    "gzip, in capitals": packed("GZIP", GZIP),
    "gzip of nothing": packed("gzip", gzip.compress(b"")),
    "gzip of two members": packed("gzip", gzip.compress(BODY) + gzip.compress(BODY)),
    "gzip, and rubbish after it": packed("gzip", GZIP + b"rubbish"),
    "gzip, and zeros after it": packed("gzip", GZIP + b"\0" * 20),
    "gzip in chunks": in_chunks(chunked(GZIP), "Content-Encoding: gzip"),
    "not gzip": packed("gzip", BODY),
    "empty, as gzip": packed("gzip", b""),
    "deflate": packed("deflate", zlib.compress(BODY)),
    "deflate without header": packed("deflate", bare_deflate(BODY)),
    "deflate, and rubbish after it": packed("deflate", zlib.compress(BODY) + b"rubbish"),
    "not deflate": packed("deflate", b"\xff" * 50),
    "identity": packed("identity", BODY),
    "brotli": packed("br", BODY),
    "nested": packed("gzip, gzip", gzip.compress(GZIP)),
    "nothing": b"",
    "half a line": b"HTTP/1.1 2",
    "only a line": b"HTTP/1.1 200 OK\r\n",
    "half a head": b"HTTP/1.1 200 OK\r\nDate: Sa",
    "not HTTP": b"\x00\x01\x02" * 100,
    "an alert of TLS": b"\x15\x03\x03\x00\x02\x02P",
    "a banner": b"SSH-2.0-OpenSSH_9.2\r\n",
    "status not a number": b"HTTP/1.1 abc OK\r\n\r\n",
    "status too long": b"HTTP/1.1 2000 OK\r\n\r\n",
    "a line without end": b"HTTP/1.1 200 " + b"x" * 70_000,
    "fields without end": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200,
    "a field without end": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000,
}


SPOILT: dict[str, bytes] = {  # they return more or less of these, and never the whole
    "chunks, a length without end": in_chunks(b"1" * 70_000),
    "chunks, a length below zero": in_chunks(b"-5\r\n" + BODY[:100] + b"\r\n0\r\n\r\n"),
    "chunks, later a length below zero": in_chunks(chunked(BODY[:100], b"-5\r\nrest\r\n")),
    "gzip, cut off": packed("gzip", GZIP[:-20]),
    "deflate, cut off": packed("deflate", zlib.compress(BODY)[:-10]),
}


def get(url: str, **changed: object) -> Outgoing:
    asked: dict[str, object] = {
        "method": "GET",
        "url": url,
        "params": {"user.name": "alice"},
        "body": None,
        "connect_s": 5.0,
        "read_s": 5.0,
    }
    return Outgoing(**(asked | changed))  # type: ignore[arg-type]


def outcome(transport: Transport, asked: Outgoing) -> object:
    """Return all that a caller sees of one exchange."""
    bound(lambda: 10.0, asked.read_s)
    try:
        response = transport.send(asked)
        with contextlib.closing(response):
            body = b"".join(response.pieces(PIECE))
    except NoResponse as error:
        return error.trouble
    return response.status, response.reason, dict(response.headers), body


@contextlib.contextmanager
def opened(kind: str) -> Iterator[Transport]:
    transport = BOTH[kind]()
    try:
        yield transport
    finally:
        transport.close()


@pytest.mark.parametrize("answer", RESPONSES.values(), ids=RESPONSES)
def test_both_return_the_same(serve: Serve, answer: bytes) -> None:
    server = serve(always(answer))
    seen = []
    for kind in BOTH:
        with opened(kind) as transport:
            seen.append(outcome(transport, get(server.url())))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("answer", SPOILT.values(), ids=SPOILT)
def test_no_spoilt_body_is_whole(serve: Serve, answer: bytes, kind: str) -> None:
    server = serve(always(answer))
    with opened(kind) as transport:
        found = outcome(transport, get(server.url()))
    if isinstance(found, tuple):
        assert len(found[3]) < len(BODY)
        assert BODY.startswith(found[3])
    else:
        assert getattr(found, "sent", False)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"params": {}},
        {"params": {"a b": "c&d=\u00e4/+", "user.name": "x"}},
        {"method": "DELETE"},
        {"method": "PUT", "body": b'{"state": "STOPPED"}'},
        {"method": "POST", "body": '{"name": "\u00e4"}'.encode()},
        {"method": "POST"},
    ],
    ids=["get", "no query", "query", "delete", "put", "post", "post nothing"],
)
@pytest.mark.parametrize("path", ["", "/", "/a/v1/b%2Fc/d~e", "/a b/\u00e4", "/x?y=1"])
def test_both_send_the_same(serve: Serve, changed: dict[str, object], path: str) -> None:
    server = serve(always(raw(200, BODY)))
    for kind in BOTH:
        with opened(kind) as transport:
            assert outcome(transport, get(server.url() + path, **changed))
    first, second = server.asked
    assert (first.target, first.body) == (second.target, second.body)
    assert sorted(first.head.splitlines()) == sorted(second.head.splitlines())


@pytest.mark.parametrize(
    "host",
    ["no-such-host.invalid", "a..b", "x" * 70, "[::1]:1", "127.0.0.1:1", "127.0.0.1:99999"],
)
def test_both_return_the_same_without_a_connection(host: str) -> None:
    seen = []
    for kind in BOTH:
        with opened(kind) as transport:
            seen.append(outcome(transport, get(f"http://{host}/x")))
    assert seen[0] == seen[1]


# --- connections ----------------------------------------------------------------------------------


class Counting:
    """Answers any number of requests on each connection, and counts the connections.

    Args:
        answer: What it answers.
        most: Requests after which it closes a connection.
    """

    def __init__(self, answer: bytes, most: int = 1000) -> None:
        self.answer = answer
        self.most = most
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/x"
        self.closed = threading.Event()

    def __enter__(self) -> Counting:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as lines:
            for _ in range(self.most):
                while line := lines.readline():
                    if line == b"\r\n":
                        break
                if not line:
                    return
                connection.sendall(self.answer)
        self.closed.set()


WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("answer", "connections"),
    [
        (WHOLE, 1),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 1),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 1),
        (b"HTTP/1.1 204 No\r\n\r\n", 1),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", 3),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", 3),
    ],
    ids=["length", "chunks", "empty", "no content", "close", "1.0"],
)
def test_a_connection_is_used_again(kind: str, answer: bytes, connections: int) -> None:
    with Counting(answer) as server, opened(kind) as transport:
        for _ in range(3):
            assert isinstance(outcome(transport, get(server.url)), tuple)
        assert server.connections == connections


@pytest.mark.parametrize("kind", BOTH)
def test_a_connection_that_the_server_closed_is_not_used_again(kind: str) -> None:
    with Counting(WHOLE, most=1) as server, opened(kind) as transport:
        for number in range(3):
            assert isinstance(outcome(transport, get(server.url)), tuple)
            assert server.closed.wait(10)
            server.closed.clear()
            assert server.connections == number + 1


@pytest.mark.parametrize("kind", BOTH)
def test_a_connection_with_unread_bytes_is_not_used_again(kind: str) -> None:
    large = b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000
    with Counting(large) as server, opened(kind) as transport:
        for _ in range(2):
            bound(lambda: 10.0, 5.0)
            response = transport.send(get(server.url))
            assert next(response.pieces(PIECE))
            response.close()
        assert server.connections == 2


@pytest.mark.parametrize("kind", BOTH)
def test_many_threads_share_one_transport(kind: str) -> None:
    with Counting(WHOLE) as server, opened(kind) as transport:
        seen: list[object] = []

        def ask() -> None:
            seen.extend(outcome(transport, get(server.url)) for _ in range(20))

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(seen) == 120
        assert all(isinstance(each, tuple) and each[3] == b"{}" for each in seen)
        assert server.connections <= 6


@pytest.mark.parametrize("kind", BOTH)
def test_connections_are_closed_with_a_transport_that_nobody_closes(kind: str) -> None:
    with Counting(WHOLE) as server, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        transport = BOTH[kind]()
        assert isinstance(outcome(transport, get(server.url)), tuple)
        del transport
        gc.collect()
    assert [str(each.message) for each in warned] == []


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("part", ["head", "body"])
def test_silence_ends_after_the_time_for_reading(serve: Serve, kind: str, part: str) -> None:
    go_on = threading.Event()

    def stall(_asked: Asked, stream: socket.socket) -> None:
        stream.sendall(raw(200, BODY)[: 20 if part == "head" else -20])
        go_on.wait(20)

    answering: Answering = stall
    server = serve(answering)
    with opened(kind) as transport:
        found = outcome(transport, get(server.url(), read_s=0.3))
    go_on.set()
    why = "no answer in time" if part == "head" else "its answer did not end in time"
    assert getattr(found, "why", found) == why
