"""A gateway as a process, on a fake cluster."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from submit_tf_job.gateway.callers import line_of
from tests.hostile.server import Authority
from tests.world.served import Served, served_cluster

JOB: dict[str, Any] = {
    "image": "library/python:3.11",
    "command": "true",
    "strategy": "single",
    "roles": {"worker": {"memory": "256Mi"}},
}
TOKEN = "token-of-alice"


class Process:
    """`gateway serve`, which can be killed and started again, always at the same address."""

    def __init__(
        self, directory: Path, *options: str, environ: dict[str, str] | None = None, patch: str = ""
    ) -> None:
        self.directory, self._options, self.port, self._patch = directory, options, 0, patch
        self.log = directory / f"gateway-{secrets.token_hex(3)}.log"
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SUBMIT_TF_JOB", "HADOOP", "XDG", "KRB5"))
        }
        self.given = environ or {}
        self.environ = {
            **kept,
            "HOME": str(directory),
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.given,
        }
        self.start()

    def start(self) -> None:
        program = f"{self._patch}\nimport sys\nfrom submit_tf_job.cli import main\nsys.exit(main())"
        argv = [
            sys.executable,
            "-c",
            program,
            "gateway",
            "serve",
            "--port",
            str(self.port),
            *self._options,
        ]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                argv,
                env=self.environ,
                cwd=self.directory,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said.startswith("listening on "), (said, self.log.read_text())
        self.port = int(said.rpartition(":")[2])
        self.url = said.split()[-1]

    def end(self, how: signal.Signals = signal.SIGKILL) -> int:
        if self.process.returncode is None:
            self.process.send_signal(how)
            self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.returncode

    def ask(self, method: str, path: str, **options: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {TOKEN}", **options.pop("headers", {})}
        return requests.request(
            method, f"{self.url}{path}", headers=headers, **{"timeout": 60, **options}
        )

    def metric(self, name: str) -> float:
        text = requests.get(f"{self.url}/metrics", timeout=10).text
        return float(
            next(
                line.rpartition(" ")[2]
                for line in text.splitlines()
                if line.startswith(f"submit_tf_job_gateway_{name}")
            )
        )

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


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
    served.cluster.yarn.job_s = None
    served.cluster.yarn.release()


@pytest.fixture
def options(tmp_path: Path, cluster: Served) -> list[str]:
    """What every gateway of a test is started with."""
    callers = tmp_path / "callers"
    callers.write_text(line_of("alice", TOKEN))
    callers.chmod(0o600)
    return ["--rm", cluster.url, "--user", "alice", "--callers", str(callers)]


def until(holds: Any, what: str, within_s: float = 60) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA, and its server certificate for localhost: ca.crt, server.crt, server.key."""
    made = tmp_path_factory.mktemp("tls")
    Authority.make(made, "ca").issue("server", "localhost")
    return made
