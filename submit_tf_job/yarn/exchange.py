"""What `HttpClient` needs of a transport: one request is sent, and its response is read in pieces.

`plain` sends over `http.client` where nothing else is needed, and `transport` over requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from submit_tf_job.yarn.transport_errors import TransportError

__all__ = ["ENCODINGS", "HEADERS", "Incoming", "NoResponse", "Outgoing", "Transport"]

# Content encodings that are not in this list, or are nested, are rejected: each layer may expand
# the data a thousandfold.
ENCODINGS = ("gzip", "deflate")
HEADERS = {
    "User-Agent": "submit_tf_job",
    "Accept-Encoding": ", ".join(ENCODINGS),
    "Accept": "application/json, */*;q=0.1",
    "Connection": "keep-alive",
}


@dataclass(frozen=True)
class Outgoing:
    """A request, as a transport sends it.

    Attributes:
        url: The address, without the query.
        connect_s: Timeout for the connection.
        read_s: Timeout for the next bytes of the response.
    """

    method: str
    url: str
    params: Mapping[str, str]
    body: bytes | None
    connect_s: float
    read_s: float

    @property
    def headers(self) -> dict[str, str]:
        """The header fields that depend on the request."""
        return {} if self.body is None else {"Content-Type": "application/json"}


class NoResponse(Exception):
    """One attempt without a usable response.

    Attributes:
        trouble: What happened.
        error: The exception of the library below.
    """

    def __init__(self, trouble: TransportError, error: Exception) -> None:
        super().__init__(trouble.why)
        self.trouble = trouble
        self.error = error


class Incoming(Protocol):
    """A response whose body is not yet read."""

    @property
    def status(self) -> int:
        """The status code."""

    @property
    def reason(self) -> str:
        """The reason phrase."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The header fields by lower-case name."""

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield the decoded body in pieces of at most `size` bytes.

        Raises:
            NoResponse: The response broke off, or cannot be decoded.
        """

    def close(self) -> None:
        """Close the connection, unless the body was read to its end."""


class Transport(Protocol):
    """Sends requests; keeps connections for the next ones."""

    def send(self, asked: Outgoing) -> Incoming:
        """Send a request once, and follow no redirect.

        Raises:
            NoResponse: No response was received, or its content encoding was not requested.
        """

    def close(self) -> None:
        """Close the connections."""
