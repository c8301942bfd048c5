"""The HTTP transport: responses are read under their operation's deadline and decompressed once.

A socket's own timeout limits only the wait for the next byte: a server that sends one byte per
second could delay a client for days, in the header fields or in the body. Therefore every read
waits at most for the time that is left until the deadline. Content encodings that were not
requested, or are nested, are rejected: each layer may expand the data a thousandfold.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import LocationValueError

from submit_tf_job.deferred import dataclass
from submit_tf_job.errors import SettingsError
from submit_tf_job.host.inputfile import reason, refuse_special

__all__ = ["DeadlineAdapter", "Session", "authorities", "bound", "unbound"]


def authorities(ca_file: Path) -> str:
    """Return the path of a file of CA certificates for the session's `verify`.

    Raises:
        SettingsError: It cannot be read, or contains no certificate.
    """
    try:
        refuse_special(ca_file, ca_file.stat())
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=ca_file)
    except ssl.SSLError:
        raise SettingsError(
            f"{ca_file}: there are no certificates in it (ca_file wants them as PEM)"
        ) from None
    except OSError as error:
        raise SettingsError(f"{ca_file}: cannot be read: {reason(error)} (ca_file)") from None
    return str(ca_file)


@dataclass
class _Limit:
    """Limits for the response to the current request: `left_s()` in total, `read_s` for its next
    bytes.
    """

    left_s: Callable[[], float]
    read_s: float


_limit: ContextVar[_Limit | None] = ContextVar("limit", default=None)


def bound(left_s: Callable[[], float], read_s: float) -> None:
    """Set the time limits of responses to this thread's requests.

    Args:
        left_s: Returns the seconds that remain for the whole operation.
        read_s: Maximum time without data from the server.
    """
    _limit.set(_Limit(left_s, read_s))


def unbound() -> None:
    """Remove the total time limit of the current response; `read_s` still applies to each read."""
    limit = _limit.get()
    if limit is not None:
        limit.left_s = lambda: float("inf")


class _DeadlineReader(io.RawIOBase):
    """A socket as a file object whose reads end before the deadline."""

    def __init__(self, sock: socket.socket, limit: _Limit) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._limit = limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left_s = self._limit.left_s()
        if left_s <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(min(self._limit.read_s, left_s))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **named: Any) -> None:
        super().__init__(sock, *args, **named)
        limit = _limit.get()
        if limit is not None:
            self.fp.close()
            self.fp = io.BufferedReader(_DeadlineReader(sock, limit))


class _BoundConnection(HTTPConnection):
    response_class = _Response


class _TLSConnection(HTTPSConnection):
    response_class = _Response


class _Pool(HTTPConnectionPool):
    ConnectionCls = _BoundConnection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


_ENCODINGS = ("gzip", "deflate")


class DeadlineAdapter(HTTPAdapter):
    """HTTP adapter that enforces the limits set by `bound`."""

    def send(
        self, request: requests.PreparedRequest, *args: Any, **named: Any
    ) -> requests.Response:
        """Send a request.

        Raises:
            requests.exceptions.InvalidURL: when the format of the host name is not valid.
            requests.exceptions.ContentDecodingError: when the response has a content encoding that
                was not requested.
        """
        request.headers["Accept-Encoding"] = ", ".join(_ENCODINGS)
        try:
            response = super().send(request, *args, **named)
        except (
            LocationValueError
        ) as error:  # requests does not translate it, when the connection is opened
            raise requests.exceptions.InvalidURL(str(error), request=request) from error
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", *_ENCODINGS):
            response.close()
            raise requests.exceptions.ContentDecodingError(
                f"content-encoding {encoding}", request=request, response=response
            )
        return response

    def init_poolmanager(self, *args: Any, **named: Any) -> None:
        """Create a pool of connections with deadlines."""
        super().init_poolmanager(*args, **named)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}


class Session(requests.Session):
    """A session that follows no redirect, and does not parse `Location`, which would fail for an
    invalid address.
    """

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None: redirects are not followed."""
