"""One question to one DNS server over UDP, without a library, such as whether Registry DNS knows its zone."""

from __future__ import annotations

import secrets
import socket
import struct

__all__ = ["DnsAnswer", "ask"]

_TYPES = {"A": 1, "SOA": 6, "TXT": 16, "AAAA": 28}


class DnsAnswer:
    """Result code and records of a DNS answer; `addresses` are those of its A records."""

    def __init__(self, packet: bytes) -> None:
        _, flags, _, self.count, _, _ = struct.unpack("!6H", packet[:12])
        self.code = flags & 0xF
        self.addresses: list[str] = []
        at = _skip_name(packet, 12) + 4
        for _ in range(self.count):
            at = _skip_name(packet, at)
            kind, _, _, size = struct.unpack("!HHIH", packet[at : at + 10])
            at += 10
            if kind == _TYPES["A"] and size == 4:
                self.addresses.append(socket.inet_ntoa(packet[at : at + 4]))
            at += size


def _skip_name(packet: bytes, at: int) -> int:
    while packet[at]:
        if packet[at] >= 0xC0:
            return at + 2
        at += packet[at] + 1
    return at + 1


def ask(server: str, port: int, name: str, kind: str = "A", timeout_s: float = 3.0) -> DnsAnswer:
    """Ask one DNS server one question.

    Raises:
        OSError: It does not answer, or with something that is no answer to this question.
    """
    labels = b"".join(bytes([len(label)]) + label.encode("ascii") for label in name.rstrip(".").split("."))
    number = secrets.randbelow(65_536)
    question = struct.pack("!6H", number, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", _TYPES[kind], 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.settimeout(timeout_s)
        connection.connect((server, port))
        connection.send(question)
        packet = connection.recv(4096)
    if packet[:2] != struct.pack("!H", number):
        raise OSError("it answers another question")
    try:
        return DnsAnswer(packet)
    except (struct.error, IndexError):
        raise OSError("its answer is no DNS answer") from None
