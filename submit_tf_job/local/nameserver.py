"""What Registry DNS is to a job on YARN: a name server for the names of its tasks, for as long as it runs. They all are this machine."""

from __future__ import annotations

import socket
import struct
import threading
from types import TracebackType

__all__ = ["NameServer"]

_HEADER = struct.Struct(">HHHHHH")
_ANSWER = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 1, 4) + socket.inet_aton("127.0.0.1")  # A, IN, one second
_FOUND, _NO_SUCH_NAME = 0x8580, 0x8583  # answer, authoritative, recursion available; the second with NXDOMAIN
_TYPE_A = 1


class NameServer:
    """Answers for every name below a domain on a port of its own; for others there is no such name.

    Args:
        domain: The domain.
    """

    def __init__(self, domain: str) -> None:
        self._suffix = f".{domain.lower()}"
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, name="names", daemon=True)

    def __enter__(self) -> NameServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as knock:
            knock.sendto(b"", self._socket.getsockname())  # an empty question ends it
        self._thread.join(5)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                question, peer = self._socket.recvfrom(4096)
            except OSError:
                return
            if not question:
                return
            answer = _answer(question, self._suffix)
            if answer:
                self._socket.sendto(answer, peer)


def _answer(message: bytes, suffix: str) -> bytes:
    """Answer one question, b"" where it is none."""
    try:
        labels, at = [], _HEADER.size
        while message[at]:
            labels.append(message[at + 1 : at + 1 + message[at]].decode("ascii"))
            at += 1 + message[at]
        (kind,) = struct.unpack_from(">H", message, at + 1)
    except (IndexError, UnicodeDecodeError, struct.error):
        return b""
    known = ".".join(labels).lower().endswith(suffix)
    answers = _ANSWER if known and kind == _TYPE_A else b""
    flags = _FOUND if known else _NO_SUCH_NAME
    header = _HEADER.pack(int.from_bytes(message[:2], "big"), flags, 1, 1 if answers else 0, 0, 0)
    return header + message[_HEADER.size : at + 5] + answers
