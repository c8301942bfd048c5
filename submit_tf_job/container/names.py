"""Names to addresses: the system's resolver, or one UDP question to the registry's own DNS server."""

from __future__ import annotations

import os
import queue
import socket
import struct
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def encode_query(number: int, name: str) -> bytes:
    """Build a DNS question for the A record of `name`."""
    labels = [label.encode("idna") for label in name.rstrip(".").split(".")]
    question = b"".join(struct.pack("B", len(label)) + label for label in labels)
    return struct.pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0) + question + b"\0" + struct.pack(">HH", 1, 1)


def _skip_name(data: bytes, at: int) -> int:
    while True:
        length = data[at]
        if length >= 0xC0:
            return at + 2
        at += 1 + length
        if not length:
            return at


def decode_answer(number: int, data: bytes) -> list[str]:
    """Return the addresses of a DNS answer; CNAMEs before them are passed over.

    Raises:
        ValueError: It is no well-formed answer to question `number`.
    """
    try:
        got, flags, questions, answers = struct.unpack(">HHHH", data[:8])
        if got != number or not flags & 0x8000:
            raise ValueError("not the answer to question %d" % number)
        at, found = 12, []
        for _ in range(questions):
            at = _skip_name(data, at) + 4
        for _ in range(answers):
            at = _skip_name(data, at)
            kind, family, _ttl, length = struct.unpack(">HHIH", data[at : at + 10])
            at += 10
            if kind == 1 and family == 1 and length == 4:
                found.append(socket.inet_ntoa(data[at : at + 4]))
            at += length
    except (IndexError, struct.error, OSError):
        raise ValueError("malformed DNS answer") from None
    return found if not flags & 15 else []


def server_address(server: str) -> tuple[str, int]:
    """Split `address` or `address:port`."""
    host, _, port = server.partition(":")
    return host, int(port or 53)


def ask(server: tuple[str, int], name: str, timeout_s: float = 1.0, tries: int = 3) -> str | None:
    """Ask one DNS server for a name's first address."""
    for _ in range(tries):
        number = int.from_bytes(os.urandom(2), "big")
        end = time.monotonic() + timeout_s
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            try:
                sock.connect(server)  # only that server's datagrams come through
                sock.send(encode_query(number, name))
                while time.monotonic() < end:
                    sock.settimeout(max(0.01, end - time.monotonic()))
                    try:
                        found = decode_answer(number, sock.recv(4096))
                    except ValueError:
                        continue
                    return found[0] if found else None
            except (OSError, UnicodeError):
                continue  # time-out or refused: ask again
    return None


def look_up(server: tuple[str, int] | None, name: str) -> str | None:
    """Return the IPv4 address of a name, or None while it has none."""
    if server:
        return ask(server, name)
    try:
        return str(socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    except (OSError, UnicodeError):
        return None


class Resolver:
    """Looks up a batch of names in a few threads: the system's resolver blocks, and cannot be interrupted by a signal."""

    def __init__(self, server: str | None, post: Callable[[Callable[[], None]], None]) -> None:
        """`post(f)` makes the event loop call f."""
        self.server, self.post, self.busy = server_address(server) if server else None, post, 0

    def start(self, names: list[str], found: Callable[[str, str | None], None]) -> None:
        """Call `found(name, address or None)` in the event loop for each name."""
        work: queue.Queue[str] = queue.Queue()
        for name in names:
            work.put(name)
        self.busy = len(names)

        def answer(name: str, address: str | None) -> None:
            self.busy -= 1
            found(name, address)

        def run() -> None:
            while True:
                try:
                    name = work.get_nowait()
                except queue.Empty:
                    return
                address = look_up(self.server, name)
                self.post(lambda name=name, address=address: answer(name, address))  # type: ignore[misc]

        for _ in range(min(4, len(names))):
            threading.Thread(target=run, daemon=True).start()
