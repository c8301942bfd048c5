"""The transport over requests, for TLS, Kerberos and credentials in header fields."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import requests
from requests.adapters import BaseAdapter, HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import LocationValueError

from submit_tf_job.errors import SettingsError
from submit_tf_job.host.inputfile import reason, refuse_special
from submit_tf_job.yarn.deadlines import BoundResponse
from submit_tf_job.yarn.exchange import ENCODINGS, HEADERS, Incoming, NoResponse, Outgoing
from submit_tf_job.yarn.transport_errors import transport_error_of

__all__ = ["DeadlineAdapter", "RequestsTransport", "Session", "authorities"]


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


class _BoundConnection(HTTPConnection):
    response_class = BoundResponse


class _TLSConnection(HTTPSConnection):
    response_class = BoundResponse


class _Pool(HTTPConnectionPool):
    ConnectionCls = _BoundConnection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


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
        request.headers["Accept-Encoding"] = ", ".join(ENCODINGS)
        try:
            response = super().send(request, *args, **named)
        except (
            LocationValueError
        ) as error:  # requests does not translate it, when the connection is opened
            raise requests.exceptions.InvalidURL(str(error), request=request) from error
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", *ENCODINGS):
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


class RequestsTransport:
    """Sends requests over a session of requests; any number of threads may use it.

    Args:
        ca_file: CA certificates for https; the system's if None.
        prepare: Configures the session for an authentication method.
        adapter: Replaces the network in tests.
    """

    def __init__(
        self,
        ca_file: Path | None,
        prepare: Callable[[requests.Session], None],
        adapter: BaseAdapter | None = None,
    ) -> None:
        self._session = Session()
        self._session.trust_env = False  # ignore proxies, .netrc and CA bundle of the environment
        self._session.verify = authorities(ca_file) if ca_file else True
        self._session.headers.update(HEADERS)
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, adapter or DeadlineAdapter())
        prepare(self._session)

    def send(self, asked: Outgoing) -> Incoming:
        """Send a request once."""
        try:
            response = self._session.request(
                asked.method,
                asked.url,
                params=asked.params,
                data=asked.body,
                headers=asked.headers,
                timeout=(asked.connect_s, asked.read_s),
                allow_redirects=False,
                stream=True,
            )
        except requests.RequestException as error:
            raise NoResponse(transport_error_of(error), error) from error
        return _SessionResponse(response)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()


class _SessionResponse:
    """A response of requests."""

    def __init__(self, response: requests.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.reason = response.reason or ""
        self.headers: Mapping[str, str] = {
            name.lower(): value for name, value in response.headers.items()
        }

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield the decoded body.

        Raises:
            NoResponse: It broke off, or cannot be decoded.
        """
        try:
            yield from self._response.iter_content(size)
        # urllib3 does not translate the ValueError for the length of a chunk below zero
        except (requests.RequestException, ValueError) as error:
            raise NoResponse(transport_error_of(error), error) from error

    def close(self) -> None:
        """Close the response."""
        self._response.close()
