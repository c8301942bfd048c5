"""Unit tests open no socket and read no settings of this machine. A socket that is opened fails
the test, whatever the code under test catches.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.builders.command_line import Cli
from tests.builders.host import Host


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forbid every connection, every listening socket and every name lookup."""

    def forbid(what: str) -> Callable[..., NoReturn]:
        def forbidden(*args: object, **_named: object) -> NoReturn:
            pytest.fail(
                f"a unit test opened a socket: {what}{args[1:] if what != 'getaddrinfo' else args}"
            )

        return forbidden

    for method in ("connect", "connect_ex", "listen", "sendto"):
        monkeypatch.setattr(socket.socket, method, forbid(method))
    for function in ("getaddrinfo", "gethostbyname", "create_connection"):
        monkeypatch.setattr(socket, function, forbid(function))


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield empty directories, one for each test.

    `mktemp` for each of 4,000 tests would list all the directories before it.
    """
    base = tmp_path_factory.mktemp("homes")
    return (base / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def empty_home(monkeypatch: pytest.MonkeyPatch, homes: Iterator[Path]) -> None:
    """Hide the settings of this machine's user: a running sandbox writes some there."""
    home = next(homes)
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in [
        name
        for name in os.environ
        if name.startswith(("SUBMIT_TF_JOB_", "XDG_", "HADOOP_")) and "_TEST_" not in name
    ]:
        monkeypatch.delenv(name)


@pytest.fixture
def host(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Return a machine without settings."""
    monkeypatch.delenv("SUBMIT_TF_JOB_USER")
    return Host(cli, home)
