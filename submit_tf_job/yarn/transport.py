"""The network as it is used here: answers are read under the deadline of their operation, and unpacked once at most.

A socket's own timeout bounds the wait for the next byte only: a server that sends one byte each second would keep its reader for days, in
the header fields as in the body. So every read waits for what is left of the deadline, at most. Encodings that were not asked for, and one
inside the other, are refused: each layer may blow up a thousandfold.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from submit_tf_job.errors import SettingsError

__all__ = ["DeadlineAdapter", "Session", "authorities", "bound", "unbound"]


def authorities(ca_file: Path) -> str:
    """Return a file of CA certificates as the session wants it.

    Raises:
        SettingsError: It cannot be read, or there is no certificate in it.
    """
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=ca_file)
    except ssl.SSLError:
        raise SettingsError(f"{ca_file}: there are no certificates in it (ca_file wants them as PEM)") from None
    except OSError as error:
        raise SettingsError(f"{ca_file}: cannot be read: {error.strerror} (ca_file)") from None
    return str(ca_file)


@dataclass
class _Limit:
    """What the answer to the current request may take: `left_s()` altogether, `read_s` for its next bytes."""

    left_s: Callable[[], float]
    read_s: float


_limit: ContextVar[_Limit | None] = ContextVar("limit", default=None)


def bound(left_s: Callable[[], float], read_s: float) -> None:
    """Bound the answers to this thread's requests from now on.

    Args:
        left_s: Seconds that remain for the whole operation.
        read_s: For which a server may be silent.
    """
    _limit.set(_Limit(left_s, read_s))


def unbound() -> None:
    """Let the answer that has begun take as long as it takes; its server must not fall silent for `read_s`."""
    limit = _limit.get()
    if limit is not None:
        limit.left_s = lambda: float("inf")


class _Patient(io.RawIOBase):
    """A socket as a file, each of whose reads ends in time."""

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
            self.fp = io.BufferedReader(_Patient(sock, limit))


class _Connection(HTTPConnection):
    response_class = _Response


class _TLSConnection(HTTPSConnection):
    response_class = _Response


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


_ENCODINGS = ("gzip", "deflate")


class DeadlineAdapter(HTTPAdapter):
    """The network, for answers that `bound` bounds."""

    def send(self, request: requests.PreparedRequest, *args: Any, **named: Any) -> requests.Response:
        """Send a request.

        Raises:
            requests.exceptions.ContentDecodingError: when the answer is packed in a way that was not asked for.
        """
        request.headers["Accept-Encoding"] = ", ".join(_ENCODINGS)
        response = super().send(request, *args, **named)
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", *_ENCODINGS):
            response.close()
            raise requests.exceptions.ContentDecodingError(f"content-encoding {encoding}", request=request, response=response)
        return response

    def init_poolmanager(self, *args: Any, **named: Any) -> None:
        """Make a pool of connections of our kind."""
        super().init_poolmanager(*args, **named)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}


class Session(requests.Session):
    """A session that follows nothing: without this it would still read `Location`, and stumble over one that is no address."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return `None`."""
