"""One request with the library requests: no retry, no redirect, no settings from the environment,
and a deadline.

A socket's own timeout limits only the wait for the next byte: a server that sends one byte per
second could delay a client for days, in the header fields or in the body. Therefore every read
waits at most for the time that is left until the deadline.
"""

from __future__ import annotations

import http.client
import io
import math
import socket
import ssl
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests
from requests.adapters import BaseAdapter, HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import LocationValueError

from submit_tf_job.errors import SettingsError
from submit_tf_job.host.authorities import system_authorities
from submit_tf_job.host.user_files import reason, refuse_special

if TYPE_CHECKING:
    from submit_tf_job.yarn.rest import Deadline

# Content encodings that are not in this list, or are nested, are rejected: each layer may expand
# the data a thousandfold.
_ENCODINGS = ("gzip", "deflate")
_HEADERS = {
    "User-Agent": "submit_tf_job",
    "Accept-Encoding": ", ".join(_ENCODINGS),
    "Accept": "application/json, */*;q=0.1",
}


@dataclass
class _Limit:
    """The time limits for a response: `deadline` for all of it, `read_s` for its next bytes."""

    deadline: Deadline | None
    read_s: float


# of this thread's current request; urllib3 passes nothing to a response
_limit: ContextVar[_Limit] = ContextVar("limit")


class Session(requests.Session):
    """A session for one authentication method; any number of threads may use it at the same time.

    Args:
        ca_file: CA certificates for https; the system's if None.
        adapter: Replaces the network in tests.

    Raises:
        SettingsError: when the file cannot be read, or contains no certificate.
    """

    def __init__(self, ca_file: Path | None, adapter: BaseAdapter | None = None) -> None:
        super().__init__()
        self.trust_env = False  # ignore proxies, .netrc and CA bundle of the environment
        self.verify = _checked_ca_file(ca_file) if ca_file else True
        self.headers.update(_HEADERS)
        for scheme in ("http://", "https://"):
            self.mount(scheme, adapter or _DeadlineAdapter())

    def ask(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str],
        body: str | None,
        connect_s: float,
        read_s: float,
        deadline: Deadline,
        endless: bool,
    ) -> requests.Response:
        """Send a request once, and return its response with the body unread.

        Args:
            method: HTTP method.
            url: The address, without the query.
            params: The query.
            body: JSON text.
            connect_s: Timeout for the connection.
            read_s: Timeout for the next bytes of the response.
            deadline: For the whole response.
            endless: Whether `deadline` does not limit the body of a successful response.

        Raises:
            requests.RequestException: when there was no response; see `transport_error_of`.
        """
        limit = _Limit(deadline, read_s)
        _limit.set(limit)
        if self.verify is True and url.startswith("https:"):
            self.verify = system_authorities()
        response = self.request(
            method,
            url,
            params=params,
            data=None if body is None else body.encode(),
            headers=None if body is None else {"Content-Type": "application/json"},
            timeout=(connect_s, read_s),
            allow_redirects=False,
            stream=True,
        )
        if endless and response.status_code == 200:
            limit.deadline = None
        return response

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None, so that redirects are not followed: requests would parse `Location`, and
        fail for an invalid address.
        """


def _checked_ca_file(ca_file: Path) -> str:
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


class _DeadlineReader(io.RawIOBase):
    """A socket as a file object whose reads do not last longer than the deadline."""

    def __init__(self, sock: socket.socket, limit: _Limit) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._limit = limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left_s = self._limit.deadline.left_s if self._limit.deadline else math.inf
        if left_s <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(min(self._limit.read_s, left_s))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _DeadlineResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **named: Any) -> None:
        super().__init__(sock, *args, **named)
        self.fp.close()
        self.fp = io.BufferedReader(_DeadlineReader(sock, _limit.get()))


class _Connection(HTTPConnection):
    response_class = _DeadlineResponse


class _TLSConnection(HTTPSConnection):
    response_class = _DeadlineResponse


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


class _DeadlineAdapter(HTTPAdapter):
    """An adapter whose responses keep the limits of `Session.ask`. Like every adapter of requests
    by default, it repeats no request.
    """

    def init_poolmanager(self, *args: Any, **named: Any) -> None:
        super().init_poolmanager(*args, **named)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}

    def send(
        self, request: requests.PreparedRequest, *args: Any, **named: Any
    ) -> requests.Response:
        try:
            response = super().send(request, *args, **named)
        # requests does not translate it, when the connection is opened
        except LocationValueError as error:
            raise requests.exceptions.InvalidURL(str(error), request=request) from error
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", *_ENCODINGS):
            response.close()
            raise requests.exceptions.ContentDecodingError(
                f"content-encoding {encoding}", request=request, response=response
            )
        return response
