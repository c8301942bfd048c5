"""Name server for the tasks of a local run, in place of Registry DNS: all names resolve to this
machine.
"""

from __future__ import annotations

import socket
import struct
import threading

from submit_tf_job.container.names import AAAA, FAMILY

__all__ = ["NameServer"]

_HEADER = struct.Struct(">HHHHHH")
_LOOPBACK = "::1" if FAMILY == socket.AF_INET6 else "127.0.0.1"
_ADDRESS = socket.inet_pton(FAMILY, _LOOPBACK)
_TYPE = AAAA if FAMILY == socket.AF_INET6 else 1
# Class IN, TTL of one second.
_ANSWER = b"\xc0\x0c" + struct.pack(">HHIH", _TYPE, 1, 1, len(_ADDRESS)) + _ADDRESS
# Flags: response, authoritative, recursion available; the second with NXDOMAIN.
_FOUND, _NO_SUCH_NAME = 0x8580, 0x8583


class NameServer:
    """Resolves every name below a domain to the loopback address; other names do not exist.

    Args:
        domain: The domain.
    """

    def __init__(self, domain: str) -> None:
        self._suffix = f".{domain.lower()}"
        self._socket = socket.socket(FAMILY, socket.SOCK_DGRAM)
        self._socket.bind((_LOOPBACK, 0))
        host = f"[{_LOOPBACK}]" if ":" in _LOOPBACK else _LOOPBACK
        self.address = f"{host}:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, name="names", daemon=True)

    def __enter__(self) -> NameServer:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        with socket.socket(FAMILY, socket.SOCK_DGRAM) as closing:
            closing.sendto(b"", self._socket.getsockname())  # an empty query ends the thread
        self._thread.join(5)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                query, peer = self._socket.recvfrom(4096)
            except OSError:
                return
            if not query:
                return
            answer = _answer(query, self._suffix)
            if answer:
                self._socket.sendto(answer, peer)


def _answer(message: bytes, suffix: str) -> bytes:
    """Return the response to a query; b"" if it is not valid."""
    try:
        labels, at = [], _HEADER.size
        while message[at]:
            labels.append(message[at + 1 : at + 1 + message[at]].decode("ascii"))
            at += 1 + message[at]
        (kind,) = struct.unpack_from(">H", message, at + 1)
    except (IndexError, UnicodeDecodeError, struct.error):
        return b""
    flags, answers = _NO_SUCH_NAME, b""
    if ".".join(labels).lower().endswith(suffix):
        flags = _FOUND
        if kind == _TYPE:
            answers = _ANSWER
    header = _HEADER.pack(int.from_bytes(message[:2], "big"), flags, 1, len(answers) > 0, 0, 0)
    return header + message[_HEADER.size : at + 5] + answers
