"""Unit tests talk to nobody: a socket that is opened fails the test, whatever the code under test catches."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import NoReturn

import pytest


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forbid every connection, every listening socket and every name lookup."""

    def forbid(what: str) -> Callable[..., NoReturn]:
        def forbidden(*args: object, **_named: object) -> NoReturn:
            pytest.fail(f"a unit test opened a socket: {what}{args[1:] if what != 'getaddrinfo' else args}")

        return forbidden

    for method in ("connect", "connect_ex", "listen", "sendto"):
        monkeypatch.setattr(socket.socket, method, forbid(method))
    for function in ("getaddrinfo", "gethostbyname", "create_connection"):
        monkeypatch.setattr(socket, function, forbid(function))
