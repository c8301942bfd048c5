"""The transport for plain http without credentials in header fields, over a socket.

With simple authentication that is every request of most clusters, and the import of requests takes
longer than all else that `status` does; that of `http.client` a sixth (docs/performance.md).
Whatever needs more (TLS, Kerberos, tokens, passwords) is sent by requests.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import weakref
import zlib
from collections.abc import Iterator, Mapping
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from submit_tf_job.yarn.exchange import ENCODINGS, HEADERS, Incoming, NoResponse, Outgoing
from submit_tf_job.yarn.http1 import CutOffError, NotHttpError, Response
from submit_tf_job.yarn.transport_errors import lost_error_of, unconnected_error_of
from submit_tf_job.yarn.unpacking import Unpacker

__all__ = ["PlainTransport"]

_TARGET_SAFE = "!#$%&'()*+,/:;=?@[]~"  # what is not escaped again, as in requests
_IDLE_MAX = 20  # in all: `logs` may ask a thousand nodes


class PlainTransport:
    """Sends requests over sockets; any number of threads may use it."""

    def __init__(self) -> None:
        self._idle: list[_Connection] = []
        self._changing = threading.Lock()
        weakref.finalize(self, _close, self._idle)  # as urllib3 does: many callers never close

    def send(self, asked: Outgoing) -> Incoming:
        """Send a request once."""
        connection = self._connected(asked)
        try:
            response = connection.exchange(asked)
        except (OSError, NotHttpError) as error:
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
            return _Connection(parts, asked.connect_s)
        except (OSError, ValueError) as error:
            raise NoResponse(unconnected_error_of(error), error) from error

    def _kept(self, address: str) -> _Connection | None:
        with self._changing:
            for at, connection in reversed(list(enumerate(self._idle))):
                if connection.address == address:
                    return self._idle.pop(at)
        return None


def _close(idle: list[_Connection]) -> None:
    while idle:
        idle.pop().close()


class _Connection:
    """An open connection to a server.

    Raises:
        OSError: It cannot be opened.
        ValueError: The address is not valid.
    """

    def __init__(self, parts: SplitResult, connect_s: float) -> None:
        self.address = parts.netloc
        host = _ascii_host(parts.hostname or "")
        # urlsplit checks the port; the system would take 65,536 off a greater one
        port = parts.port or 80
        self._host = f"[{host}]" if ":" in host else host
        if port != 80:
            self._host += f":{port}"
        # as bytes, because Python would import a codec to encode a text
        self._sock = socket.create_connection((host.encode(), port), connect_s)  # type: ignore[arg-type]
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        """Close it."""
        self._sock.close()

    def usable(self, connect_s: float) -> bool:
        """Return whether the server has kept the connection open, and sent nothing more."""
        try:
            self._sock.setblocking(False)
            self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            self._sock.settimeout(connect_s)
            return True
        except OSError:
            return False
        return False

    def exchange(self, asked: Outgoing) -> Response:
        """Send a request, and read the response's header fields."""
        headers = {"Host": self._host, **HEADERS, **asked.headers}
        if asked.body is not None or asked.method != "GET":
            headers["Content-Length"] = str(len(asked.body or b""))
        lines = [f"{asked.method} {_target_of(asked)} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join([*lines, "", ""]).encode("ascii")
        # the server may have responded before it closed the connection
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._sock.sendall(head + (asked.body or b""))
        self._sock.settimeout(asked.read_s)
        return Response(self._sock)


def _ascii_host(host: str) -> str:
    """Return a host's name as DNS has it.

    Raises:
        ValueError: A label is empty or too long, or a character is not allowed.
    """
    name = host if host.isascii() else host.encode("idna").decode("ascii")
    labels = name.removesuffix(".").split(".")
    if not all(0 < len(label) < 64 for label in labels) or not name.isprintable() or " " in name:
        raise ValueError(f"{host!r} is not a valid host")
    return name


def _target_of(asked: Outgoing) -> str:
    """Return path and query of a request."""
    parts = urlsplit(asked.url)
    query = "&".join(part for part in (parts.query, urlencode(asked.params)) if part)
    return quote(parts.path or "/", safe=_TARGET_SAFE) + (
        query and f"?{quote(query, _TARGET_SAFE)}"
    )


class _PlainResponse:
    """A response, and the connection that it arrives on."""

    def __init__(
        self, transport: PlainTransport, connection: _Connection, response: Response
    ) -> None:
        self._transport = transport
        self._connection = connection
        self._response = response
        self.status = response.status
        self.reason = response.reason
        self.headers: Mapping[str, str] = response.headers
        self.encoding = self.headers.get("content-encoding", "identity").strip().lower()

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield the decoded body.

        Raises:
            NoResponse: It broke off, or cannot be decoded.
        """
        try:
            yield from self._decoded(size)
        except (OSError, CutOffError, NotHttpError, zlib.error) as error:
            self._response.close()
            self._connection.close()
            raise NoResponse(lost_error_of(error, within_body=True), error) from error
        self._response.close()
        if self._response.keeps_open:
            self._transport.keep(self._connection)
        else:
            self._connection.close()

    def close(self) -> None:
        """Close the response, and its connection if bytes of it may still arrive."""
        self._response.close()
        if not self._response.at_end:
            self._connection.close()

    def _decoded(self, size: int) -> Iterator[bytes]:
        received = iter(lambda: self._response.read(size), b"")
        if self.encoding not in ENCODINGS:
            yield from received
            return
        unpacker = Unpacker(self.encoding)
        for data in received:
            yield from unpacker.pieces(data, size)
        if rest := unpacker.end():
            yield rest
