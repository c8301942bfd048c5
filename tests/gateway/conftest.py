"""A gateway as a process, on a fake cluster."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.gateway.callers import line_of
from tests.gateways import TOKEN, Process
from tests.hostile.server import Authority
from tests.tool import until
from tests.world.served import Served, served_cluster
from tests.world.yarn import FOREVER

__all__ = ["JOB", "TOKEN", "Process", "until"]

JOB: dict[str, Any] = {
    "image": "library/python:3.11",
    "command": "true",
    "strategy": "single",
    "roles": {"worker": {"memory": "256Mi"}},
}


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    """A fake cluster at a real address, ten times as fast."""
    with served_cluster() as made:
        yield made


@pytest.fixture
def cluster(served: Served) -> Iterator[Served]:
    """The session's cluster, whose jobs run until a test ends them, or sets `job_s` for itself."""
    yield served
    served.delay_s = 0.0
    served.answers.set()
    served.cluster.yarn.site.job_s = FOREVER
    served.cluster.yarn.full = False


@pytest.fixture
def options(tmp_path: Path, cluster: Served) -> list[str]:
    """What every gateway of a test is started with."""
    callers = tmp_path / "callers"
    callers.write_text(line_of("alice", TOKEN))
    callers.chmod(0o600)
    return ["--rm", cluster.url, "--user", "alice", "--callers", str(callers)]


@pytest.fixture
def gateway(tmp_path: Path, options: list[str]) -> Iterator[Process]:
    """A gateway with nothing but a cluster and a caller."""
    made = Process(tmp_path, *options)
    yield made
    made.end(signal.SIGKILL)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA, and its server certificate for localhost: ca.crt, server.crt, server.key."""
    made = tmp_path_factory.mktemp("tls")
    Authority.make(made, "ca").issue("server", "localhost")
    return made
