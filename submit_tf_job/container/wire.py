"""JSON lines over a non-blocking socket; the length of a received line is limited.

Messages to the deciding task: hello (identity and state; first, and after each reconnect), running,
progress, warn, done, ping, stopping (YARN stops this task), away (it closes this connection, and
makes another), ready (for the next generation), stacks. Messages from it: preparing (it handles the
hello later), welcome (or a refusal: wrong-job, busy, taken, finished, end), go, noted (acknowledges
done), again (end the command, and be ready for the next generation), past (former generations, to
be remembered), end, grace (more time to save), stacks (send the stacks of your processes), ping,
pong.

The deciding task's pings have a number. Only a message that repeats the number was certainly sent
after the ping; any other message may have waited in a buffer. The deciding task's pongs have a
number, too: `done` tells after which pong the command ended, and how many seconds after it. A
task's pings tell for how long the task has printed nothing (`quiet`). `call` of a hello is the
number of the connection among all connections of one process.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import errno
import json
import selectors
import socket
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from submit_tf_job.container import untrusted

UNREAD_LIMIT = 8 * 1024 * 1024  # bytes that a connection keeps for a receiver that does not read
LINE_LIMIT = 64 * 1024  # longest line that a deciding task accepts
TABLE_LIMIT = 4 * 1024 * 1024  # longest line that the others accept: `go` may hold every address
_ENDED = (errno.ECONNRESET, errno.EPIPE)


class ChannelClosed(Exception):
    """The other side closed the connection, or sent something that is not one of our messages."""

    def __init__(self, text: str, ended: bool = False) -> None:
        """Keep the text; `ended` tells whether the kernel of the other side closed the connection,
        as it does when a process ends.
        """
        super().__init__(text)
        self.ended = ended


def pack(kind: str, **fields: Any) -> bytes:
    """Encode one message as a line of JSON; its kind is the field `t`."""
    return json.dumps(dict(fields, t=kind), separators=(",", ":")).encode("ascii") + b"\n"


def pack_addresses(tasks: list[str], addresses: Mapping[str, str]) -> str:
    """Encode the addresses of some tasks. Thousands of tasks on a few hundred nodes need few bytes.

    Args:
        tasks: All tasks that may have an address, in an order that the receiver also knows.
        addresses: Task → address; a task without an address is left out.
    """
    distinct = sorted(set(addresses.values()))
    numbers = {address: number for number, address in enumerate(distinct, 1)}
    chosen = [numbers.get(addresses.get(task, ""), 0) for task in tasks]
    # the high bytes are nearly all alike, and so compress to nothing
    columns = [bytes(number >> shift & 255 for number in chosen) for shift in (16, 8, 0)]
    data = "\n".join(distinct).encode("ascii") + b"\0" + b"".join(columns)
    return base64.b64encode(zlib.compress(data, 9)).decode("ascii")


def unpack_addresses(tasks: list[str], packed: str) -> dict[str, str]:
    """Decode the result of `pack_addresses` for the same tasks.

    Raises:
        ChannelClosed: `packed` is not such a result.
    """
    try:
        texts, _, columns = zlib.decompress(base64.b64decode(packed)).partition(b"\0")
        known = ["", *texts.decode("ascii").split("\n")]
        high, middle, low = (columns[i * len(tasks) : (i + 1) * len(tasks)] for i in range(3))
        chosen = [known[h << 16 | m << 8 | n] for h, m, n in zip(high, middle, low)]
    except (ValueError, IndexError, zlib.error):
        raise ChannelClosed("something that is not ours") from None
    return {task: address for task, address in zip(tasks, chosen) if address}


class Channel:
    """One connection that sends and receives messages, in an event loop."""

    def __init__(
        self,
        sock: socket.socket,
        limit: int,
        selector: selectors.BaseSelector,
        ready: Callable[[int], None],
        connected: bool = True,
    ) -> None:
        """Take over a socket that is `connected`, or is about to be; a line has at most `limit`
        bytes.

        `ready` is called with the socket's events; on `EVENT_WRITE` it must call `send` again, if
        only with b"".
        """
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock, self.limit, self.selector, self.ready = sock, limit, selector, ready
        self._in = b""
        self._out: collections.deque[memoryview] = collections.deque()
        self._kept = 0  # bytes in `_out`
        self._waiting = not connected  # for the socket to take more
        selector.register(sock, self._wanted_events(), ready)

    def _wanted_events(self) -> int:
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._waiting else 0)

    def receive(self) -> list[dict[str, Any]]:
        """Return the messages that have arrived completely; [] if there are none.

        Raises:
            ChannelClosed: End of stream, an error, a line that is too long or not a JSON object.
        """
        try:
            data = self.sock.recv(65536)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError as err:
            raise ChannelClosed(str(err), err.errno in _ENDED) from None
        if not data:
            raise ChannelClosed("closed", ended=True)
        lines = (self._in + data).split(b"\n")
        if any(len(line) > self.limit for line in lines):
            raise ChannelClosed(f"a line of more than {self.limit} bytes")
        self._in = lines.pop()
        try:
            messages = [untrusted.parse(line.decode("utf-8")) for line in lines]
        except ValueError:
            messages = [None]
        if not all(isinstance(m, dict) and isinstance(m.get("t"), str) for m in messages):
            raise ChannelClosed("something that is not ours")
        return messages

    def send(self, data: bytes) -> None:
        """Send as much as possible; the rest is kept, and sent by the next call.

        Raises:
            ChannelClosed: The connection is broken, or more than `UNREAD_LIMIT` bytes would be kept
                for a receiver that does not read; then the connection is shut down.
        """
        if data and self._kept + len(data) > UNREAD_LIMIT:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)  # the next read fails
            raise ChannelClosed("the other side does not read")
        if data:
            self._out.append(memoryview(data))
            self._kept += len(data)
        try:
            while self._out:
                sent = self.sock.send(self._out[0])
                self._kept -= sent
                rest = self._out.popleft()[sent:]
                if rest:
                    self._out.appendleft(rest)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as err:
            raise ChannelClosed(str(err), err.errno in _ENDED) from None
        if self._waiting != bool(self._out):
            self._waiting = bool(self._out)
            self.selector.modify(self.sock, self._wanted_events(), self.ready)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self.sock.fileno() < 0

    def close(self) -> None:
        """Close the connection."""
        self.selector.unregister(self.sock)
        self.sock.close()
