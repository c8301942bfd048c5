"""A gateway as its operator starts it: `gateway serve` as a process."""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import requests

from tests.tool import SUBMIT_S, Tool

TOKEN = "token-of-alice"


def unused_port() -> int:
    """Return a port that nobody else gets before a server listens there, or while it is killed and
    started again: none of those that the kernel gives to connections, of those that sandboxes and
    tasks have, or of another process of this test session.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for port in random.sample(range(61_000 + worker % 9 * 500, 61_500 + worker % 9 * 500), 500):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


class Process:
    """A gateway that can be killed and started again, always at the same address."""

    token = TOKEN

    def __init__(
        self,
        directory: Path,
        *options: str,
        environ: Mapping[str, str] | None = None,
        patch: str = "",
    ) -> None:
        self.directory, self._options, self._patch = directory, options, patch
        self.port = unused_port()
        self.log = directory / f"gateway-{secrets.token_hex(3)}.log"
        own = ("SUBMIT_TF_JOB", "HADOOP", "XDG", "KRB5")
        kept = {name: text for name, text in os.environ.items() if not name.startswith(own)}
        self.given = dict(environ or {})
        self.environ = {**kept, "HOME": str(directory), **self.given}
        self.start()

    def start(self) -> None:
        program = f"{self._patch}\nimport sys\nfrom submit_tf_job.cli import main\nsys.exit(main())"
        argv = [sys.executable, "-c", program, "gateway", "serve", "--port", str(self.port)]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [*argv, *self._options],
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
            self.process.wait(SUBMIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.returncode

    def ask(self, method: str, path: str, **options: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        more = {"timeout": SUBMIT_S, "headers": headers, **options}
        return requests.request(method, f"{self.url}{path}", **more)

    def metric(self, name: str) -> float:
        text = requests.get(f"{self.url}/metrics", timeout=SUBMIT_S).text
        begins = f"submit_tf_job_gateway_{name}"
        line = next(line for line in text.splitlines() if line.startswith(begins))
        return float(line.rpartition(" ")[2])

    def memory(self, what: str = "VmRSS") -> int:
        """Return how many bytes are resident, or were at most (VmHWM)."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.partition(f"{what}:")[2].split()[0]) * 1024

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


class Gateway(Process):
    """A gateway of one caller, with a token of `gateway token`."""

    def __init__(self, tool: Tool, user: str) -> None:
        made = tool("gateway", "token", user, "-o", "json").json
        self.token = made["token"]
        callers = tool.cwd / "callers"
        callers.write_text(f"{made['line']}\n")
        callers.chmod(0o600)
        options = ("--profile", tool.profile, "--callers", str(callers))
        super().__init__(tool.cwd, *options, environ=tool.environ)
