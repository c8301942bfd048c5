"""Unit tests talk to nobody and know nobody's settings: a socket that is opened fails the test, whatever the code under test catches."""

from __future__ import annotations

import os
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


@pytest.fixture(autouse=True)
def nobody_s_settings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let no settings of this machine's user be seen: a sandbox that is up writes some there."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("nobody")))
    for name in [name for name in os.environ if name.startswith(("SUBMIT_TF_JOB_", "XDG_", "HADOOP_")) and "_TEST_" not in name]:
        monkeypatch.delenv(name)
