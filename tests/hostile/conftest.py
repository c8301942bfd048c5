"""The command line in this process, as the unit tests call it, and servers on loopback."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hostile.server import Answering, Authority, HostileServer

Serve = Callable[..., HostileServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers that end with the test."""
    with contextlib.ExitStack() as stack:

        def start(answering: Answering, tls: ssl.SSLContext | None = None) -> HostileServer:
            return stack.enter_context(HostileServer(answering, tls).listening())

        yield start


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("ca"), "sandbox-ca")


@pytest.fixture
def patient(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait as long as a busy machine may take: what is judged at once is not waited for."""
    for name in ("FAILOVER", "READ", "CONNECT", "SUBMIT"):
        monkeypatch.setenv(f"SUBMIT_TF_JOB_TIMEOUTS_{name}", "1m")
    monkeypatch.setattr("submit_tf_job.doctor.checks.CHECK_S", 600)


@pytest.fixture
def train(home: Path) -> Path:
    """A job spec of somebody who means no harm."""
    path = home / "train.yaml"
    path.write_text(
        "name: mnist\nimage: library/tf:2\nstrategy: single\ncommand: [python, "
        "t.py]\nroles:\n  worker: {memory: 1Gi}\n"
    )
    return path
