"""The transport for plain http without credentials in header fields, over `http.client`.

With simple authentication that is every request of most clusters, and the import of requests takes
longer than all else that `status` does (docs/performance.md). Whatever needs more (TLS, Kerberos,
tokens, passwords) is sent by requests.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import threading
import weakref
import zlib
from collections.abc import Iterator, Mapping
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from submit_tf_job.yarn.deadlines import BoundResponse
from submit_tf_job.yarn.exchange import ENCODINGS, HEADERS, Incoming, NoResponse, Outgoing
from submit_tf_job.yarn.transport_errors import lost_error_of, unconnected_error_of
from submit_tf_job.yarn.unpacking import Unpacker

__all__ = ["PlainTransport"]

_PATH_SAFE = "!#$%&'()*+,/:;=?@[]~"  # what is not escaped again, as in requests
_IDLE_MAX = 20  # in all: `logs` may ask a thousand nodes
_FOLD = re.compile(r"\r?\n[ \t]+")


class PlainTransport:
    """Sends requests over `http.client`; any number of threads may use it."""

    def __init__(self) -> None:
        self._idle: list[_Connection] = []
        self._changing = threading.Lock()
        weakref.finalize(self, _close, self._idle)  # as urllib3 does: many callers never close

    def send(self, asked: Outgoing) -> Incoming:
        """Send a request once."""
        connection = self._connected(asked)
        try:
            response = connection.exchange(asked)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise NoResponse(lost_error_of(error, within_body=False), error) from error
        incoming = _PlainResponse(self, connection, response)
        if incoming.encoding not in ("identity", *ENCODINGS):
            incoming.close()
            unwanted = zlib.error(incoming.encoding)
            raise NoResponse(lost_error_of(unwanted, within_body=False), unwanted)
        return incoming

    def close(self) -> None:
        """Close the connections that no response uses."""
        with self._changing:
            _close(self._idle)

    def keep(self, connection: _Connection) -> None:
        """Keep a connection for the next request to its address; close the one that has waited
        longest, if there are too many.
        """
        with self._changing:
            self._idle.append(connection)
            oldest = self._idle.pop(0) if len(self._idle) > _IDLE_MAX else None
        if oldest is not None:
            oldest.close()

    def _connected(self, asked: Outgoing) -> _Connection:
        parts = urlsplit(asked.url)
        while (connection := self._kept(parts.netloc)) is not None:
            if connection.usable(asked.connect_s):
                return connection
            connection.close()
        try:
            connection = _Connection(parts, asked.connect_s)
            connection.connect()
        except (OSError, ValueError, http.client.InvalidURL) as error:
            raise NoResponse(unconnected_error_of(error), error) from error
        return connection

    def _kept(self, address: str) -> _Connection | None:
        with self._changing:
            for at, connection in reversed(list(enumerate(self._idle))):
                if connection.address == address:
                    return self._idle.pop(at)
        return None


def _close(idle: list[_Connection]) -> None:
    while idle:
        idle.pop().close()


class _Connection(http.client.HTTPConnection):
    response_class = BoundResponse

    def __init__(self, parts: SplitResult, connect_s: float) -> None:
        # urlsplit checks the port; the system would take 65,536 off a greater one
        super().__init__(parts.hostname or "", parts.port or 80, timeout=connect_s)
        self.address = parts.netloc

    def usable(self, connect_s: float) -> bool:
        """Return whether the server has kept the connection open, and sent nothing more."""
        try:
            self.sock.setblocking(False)
            self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            self.sock.settimeout(connect_s)
            return True
        except OSError:
            return False
        return False

    def exchange(self, asked: Outgoing) -> http.client.HTTPResponse:
        """Send a request, and read the response's header fields."""
        parts = urlsplit(asked.url)
        query = "&".join(part for part in (parts.query, urlencode(asked.params)) if part)
        target = quote(parts.path or "/", safe=_PATH_SAFE) + (query and f"?{query}")
        headers = {**HEADERS, **asked.headers}
        if asked.body is None and asked.method != "GET":
            headers["Content-Length"] = "0"
        # the server may have responded before it closed the connection
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.request(asked.method, target, asked.body, headers)
        self.sock.settimeout(asked.read_s)
        return self.getresponse()


class _PlainResponse:
    """A response of `http.client`."""

    def __init__(
        self,
        transport: PlainTransport,
        connection: _Connection,
        response: http.client.HTTPResponse,
    ) -> None:
        self._transport = transport
        self._connection = connection
        self._response = response
        self.status = response.status
        self.reason = response.reason
        self.headers = _joined(response.msg)
        self.encoding = self.headers.get("content-encoding", "identity").strip().lower()

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield the decoded body.

        Raises:
            NoResponse: It broke off, or cannot be decoded.
        """
        try:
            yield from self._decoded(size)
            self._check_end()
        except (OSError, http.client.HTTPException, zlib.error) as error:
            self.close()
            raise NoResponse(lost_error_of(error, within_body=True), error) from error
        self._response.close()
        if self._connection.sock is not None:
            self._transport.keep(self._connection)

    def close(self) -> None:
        """Close the response, and its connection if bytes of it may still arrive."""
        if not self._response.isclosed():
            self._response.close()
            self._connection.close()

    def _decoded(self, size: int) -> Iterator[bytes]:
        received = iter(lambda: self._response.read1(size), b"")
        if self.encoding not in ENCODINGS:
            yield from received
            return
        unpacker = Unpacker(self.encoding)
        for data in received:
            yield from unpacker.pieces(data, size)
        if rest := unpacker.end():
            yield rest

    def _check_end(self) -> None:
        """Raise an error if the body is shorter than announced, or announced in two lengths."""
        announced = {item.strip() for item in self.headers.get("content-length", "").split(",")}
        if len(announced) > 1 and not self._response.chunked:
            raise http.client.HTTPException("two lengths")
        if self._response.length:
            raise http.client.IncompleteRead(b"", self._response.length)


def _joined(fields: http.client.HTTPMessage) -> Mapping[str, str]:
    """Return header fields by lower-case name, several of one name joined by commas."""
    joined: dict[str, str] = {}
    for name, folded in fields.items():
        name, value = name.lower(), _FOLD.sub(" ", folded)
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined
