"""JSON lines over a non-blocking socket, bounded in both directions.

To the deciding task: hello (who, state; first, and again after each connect), running, progress, done, ping, pong, stopping (told by
YARN). From it: welcome (or wrong-job, busy, finished, end: an answer that refuses), go, noted (the answer to done), end, ping, pong.
"""

from __future__ import annotations

import collections
import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

LINE_LIMIT = 64 * 1024  # what a deciding task accepts
TABLE_LIMIT = 4 * 1024 * 1024  # what the others accept: `go` may carry every address


class Gone(Exception):
    """The other side closed, or what it sent is not ours."""


def pack(kind: str, **fields: Any) -> bytes:
    """Encode one message."""
    return json.dumps(dict(fields, t=kind), separators=(",", ":")).encode("ascii") + b"\n"


class Channel:
    """One connection."""

    def __init__(self, sock: socket.socket, limit: int) -> None:
        """Take over a connected socket; `limit` bounds one line."""
        sock.setblocking(False)
        self.sock, self.limit = sock, limit
        self._in = b""
        self._out: collections.deque[memoryview] = collections.deque()

    def receive(self) -> list[dict[str, Any]]:
        """Read what is there.

        Raises:
            Gone: End of stream, an error, a line that is too long or no JSON object.
        """
        try:
            data = self.sock.recv(65536)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError as err:
            raise Gone(str(err)) from None
        if not data:
            raise Gone("closed")
        lines = (self._in + data).split(b"\n")
        self._in = lines.pop()
        if len(self._in) > self.limit or any(len(line) > self.limit for line in lines):
            raise Gone("a line of more than %d bytes" % self.limit)
        messages = []
        for line in lines:
            try:
                message = json.loads(line.decode("utf-8"))
            except (ValueError, RecursionError):
                raise Gone("something that is not ours") from None
            if not isinstance(message, dict) or not isinstance(message.get("t"), str):
                raise Gone("something that is not ours")
            messages.append(message)
        return messages

    def send(self, data: bytes) -> bool:
        """Send as much as goes; True while something is left (call again with b"" when writable).

        Raises:
            Gone: The connection is broken.
        """
        if data:
            self._out.append(memoryview(data))
        try:
            while self._out:
                sent = self.sock.send(self._out[0])
                rest = self._out.popleft()[sent:]
                if rest:
                    self._out.appendleft(rest)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as err:
            raise Gone(str(err)) from None
        return bool(self._out)
