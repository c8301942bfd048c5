"""A NameNode that takes connections and answers each call late, and then with an error."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CALLS = 5  # a connection of hdfs-native counts its calls from 0


def _delimited(message: bytes) -> bytes:
    return bytes([len(message)]) + message


def _error(call: int) -> bytes:
    """An RpcResponseHeaderProto: callId, status ERROR, serverIpcVersionNum, exceptionClassName,
    errorMsg.
    """
    name, words = b"java.io.IOException", b"too late"
    header = (
        bytes([0x08, call, 0x10, 1, 0x18, 9, 0x22, len(name)])
        + name
        + bytes([0x2A, len(words)])
        + words
    )
    body = _delimited(header)
    return len(body).to_bytes(4, "big") + body


@contextmanager
def late_name_node(may_answer: threading.Event) -> Iterator[str]:
    """Serve as a NameNode that answers each connection once it may; yields its `host:port`."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        threading.Thread(target=_accept, args=(server, may_answer), daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def _accept(server: socket.socket, may_answer: threading.Event) -> None:
    while True:
        try:
            connection = server.accept()[0]
        except OSError:
            return
        threading.Thread(target=_answer, args=(connection, may_answer), daemon=True).start()


def _answer(connection: socket.socket, may_answer: threading.Event) -> None:
    with connection, suppress(OSError):  # the client may be gone by then
        may_answer.wait()
        for call in range(_CALLS):
            connection.sendall(_error(call))
        connection.settimeout(60)
        while connection.recv(4096):
            pass
