"""Reading of HTTP responses under their operation's deadline, for both transports.

A socket's own timeout limits only the wait for the next byte: a server that sends one byte per
second could delay a client for days, in the header fields or in the body. Therefore every read
waits at most for the time that is left until the deadline.
"""

from __future__ import annotations

import http.client
import io
import socket
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

__all__ = ["BoundResponse", "bound", "unbound"]


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


class BoundResponse(http.client.HTTPResponse):
    """A response whose reads keep the limits set by `bound`."""

    def __init__(self, sock: socket.socket, *args: Any, **named: Any) -> None:
        super().__init__(sock, *args, **named)
        limit = _limit.get()
        if limit is not None:
            self.fp.close()
            self.fp = io.BufferedReader(_DeadlineReader(sock, limit))
