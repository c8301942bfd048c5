"""Resolve names: by the system's resolver, or by UDP queries to the registry's DNS server."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable
from functools import partial

from submit_tf_job.container.guards import in_thread
from submit_tf_job.container.info import Info

AAAA = 28  # the type of DNS records with IPv6 addresses
ANSWER_S, TRIES = 1.0, 3  # how long a DNS server has for an answer, and how often it is asked


def _first_family() -> socket.AddressFamily:
    """Return the family of addresses that is looked up first: IPv4; or IPv6 on a host without an
    IPv4 loopback address.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(("127.0.0.1", 0))
    except OSError:
        return socket.AF_INET6
    return socket.AF_INET


FAMILY = _first_family()
# type, class and length of the records that are read
_RECORDS = {socket.AF_INET: (1, 1, 4), socket.AF_INET6: (AAAA, 1, 16)}


def family_of(address: str) -> socket.AddressFamily:
    """Return the family of an IP address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def listening_socket() -> socket.socket:
    """Return a socket that can listen on all IPv4 and IPv6 addresses of this host at once.

    On a system without IPv6, the socket is for IPv4 only.
    """
    try:
        made = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    except OSError:
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return made


def plain(address: str) -> str:
    """Return an address in its usual form: a socket for both families shows an IPv4 address as an
    IPv6 address.
    """
    return address[7:] if address.startswith("::ffff:") else address


def encode_query(number: int, name: str, family: socket.AddressFamily = socket.AF_INET) -> bytes:
    """Build a DNS query with the id `number` for the addresses of `name`.

    Raises:
        UnicodeError: A part of the name is too long, or not valid in DNS.
    """
    labels = [label.encode("idna") for label in name.rstrip(".").split(".")]
    question = b"".join(struct.pack("B", len(label)) + label for label in labels)
    header = struct.pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0)
    return header + question + b"\0" + struct.pack(">HH", *_RECORDS[family][:2])


_NO_SUCH_NAME = (0, 3)  # response codes without an address: no such record, no such name
_NO_ADDRESS = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


def _skip_name(data: bytes, at: int) -> int:
    while True:
        length = data[at]
        if length >= 0xC0:
            return at + 2
        at += 1 + length
        if not length:
            return at


def decode_answer(
    number: int, data: bytes, family: socket.AddressFamily = socket.AF_INET
) -> list[str]:
    """Return the addresses of a family in a DNS response; CNAME records are skipped. A response
    that reports an error has none.

    Raises:
        ValueError: The data is not a well-formed response to query `number`.
    """
    try:
        got, flags, questions, answers = struct.unpack(">HHHH", data[:8])
        if got != number or not flags & 0x8000:
            raise ValueError(f"not the answer to question {number}")
        at, found = 12, []
        for _ in range(questions):
            at = _skip_name(data, at) + 4
        for _ in range(answers):
            at = _skip_name(data, at)
            kind, space, _ttl, length = struct.unpack(">HHIH", data[at : at + 10])
            at += 10
            if (kind, space, length) == _RECORDS[family]:
                if len(data) < at + length:
                    raise IndexError("cut off")
                found.append(socket.inet_ntop(family, data[at : at + length]))
            at += length
    except (IndexError, struct.error, OSError):
        raise ValueError("malformed DNS answer") from None
    return found if not flags & 15 else []


def server_address(server: str) -> tuple[str, int]:
    """Split `address` or `address:port` (port 53 if absent); an IPv6 address is in brackets."""
    host, _, port = server[1:].partition("]") if server[0] == "[" else server.partition(":")
    return host, int(port.lstrip(":") or 53)


def query(server: tuple[str, int], name: str) -> str | None:
    """Return a name's first address according to one DNS server, preferably an address of FAMILY.

    Returns:
        The address; "" if the name does not exist, or has none; None if the server does not
        respond, or reports an error.
    """
    found: str | None = ""
    for family in sorted(_RECORDS, key=lambda family: family != FAMILY):
        found, exists = _ask_server(server, name, family)
        if found != "" or not exists:
            break
    return found


def _ask_server(
    server: tuple[str, int], name: str, family: socket.AddressFamily
) -> tuple[str | None, bool]:
    """Return the result of `query` for one family, and whether the server knows the name, perhaps
    without an address of this family.
    """
    for _ in range(TRIES):
        number = int.from_bytes(os.urandom(2), "big")
        end = time.monotonic() + ANSWER_S
        try:
            with socket.socket(family_of(server[0]), socket.SOCK_DGRAM) as sock:
                sock.connect(server)  # accept datagrams of that server only
                sock.send(encode_query(number, name, family))
                while time.monotonic() < end:
                    sock.settimeout(max(0.01, end - time.monotonic()))
                    data = sock.recv(4096)
                    try:
                        found = decode_answer(number, data, family)
                    except ValueError:
                        continue
                    code = data[3] & 15
                    if found:
                        return found[0], True
                    return "" if code in _NO_SUCH_NAME else None, code == 0
        except (OSError, UnicodeError):
            continue  # time-out, refused, or too many open files: retry
    return None, False


def look_up(server: tuple[str, int] | None, name: str) -> str | None:
    """Return a name's address, from a DNS server or, if `server` is None, from the system's
    resolver; "" if DNS has none; None if no server responds without an error. A name below
    `.localhost` is this host.

    It is an IPv4 address if both this host and the name have an IPv4 address.
    """
    if name.endswith(".localhost"):  # RFC 6761; a run without a cluster has these names
        return "::1" if FAMILY == socket.AF_INET6 else "127.0.0.1"
    if server:
        return query(server, name)
    try:
        found = socket.getaddrinfo(name, None, 0, socket.SOCK_STREAM)
        found.sort(key=lambda info: info[0] != FAMILY)
        return str(found[0][4][0])
    except socket.gaierror as err:
        return "" if err.errno in _NO_ADDRESS else None
    except (OSError, UnicodeError):
        return None


class Resolver:
    """Looks up several names at once, in a few threads.

    The threads are needed because the system's resolver blocks, and signals do not interrupt it.
    """

    def __init__(self, info: Info, post: Callable[[Callable[[], None]], None]) -> None:
        """Create a resolver; `post(f)` runs f in the event loop."""
        server = info.task.get("dns_server")
        self.server = server_address(server) if server else None
        self.info, self.post, self.busy = info, post, 0
        self.trouble = ""  # why the last look-up failed, if that was no answer
        # between two look-ups of a task: many may wait for a deciding task without a container
        self.longest_pause_s = 0.5 + min(4.5, info.total / 400.0)

    def sought(self) -> str:
        """Return the name by which the deciding task is found in DNS."""
        return self.info.host(self.info.deciding)

    def missing(self) -> str:
        """Return why the deciding task is not found."""
        why = f" ({self.trouble})" if self.trouble else ""
        return f"the name {self.sought()} does not resolve{why}"

    def find(self, name: str) -> str | None:
        """Return the result of `look_up`; this method is called in a thread."""
        return look_up(self.server, name)

    def start(self, names: list[str], found: Callable[[str, str | None], None]) -> None:
        """Look up each name in threads, without waiting. In the event loop `found(name, address)`
        is called for each; the address is the result of `find`, or None if that fails.
        """
        work = iter(names)  # its `next` is atomic
        self.busy = len(names)

        def answer(name: str, address: str | None) -> None:
            self.busy -= 1
            found(name, address)

        def run() -> None:
            for name in work:
                address = None
                try:
                    address = self.find(name)
                except Exception as err:  # noqa: BLE001  (a later look-up may succeed)
                    self.trouble = repr(err)
                self.post(partial(answer, name, address))

        def give_up(err: Exception) -> None:
            self.trouble = repr(err)
            for name in work:
                self.post(partial(answer, name, None))

        for _ in range(min(4, len(names))):
            in_thread("resolver", run, give_up)
