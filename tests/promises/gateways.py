"""A gateway as its operator starts it: `gateway token`, a file of callers, `gateway serve`."""

from __future__ import annotations

import signal
import subprocess
from typing import Any

import requests

from tests.tool import Tool


class Gateway:
    """`gateway serve` of one caller, which can be killed and started again at the same address."""

    def __init__(self, tool: Tool, user: str) -> None:
        self._tool, self._port = tool, 0
        made = tool("gateway", "token", user, "-o", "json").json
        self.token = made["token"]
        self._callers = tool.cwd / "callers"
        self._callers.write_text(f"{made['line']}\n")
        self._callers.chmod(0o600)
        self.log = tool.cwd / "gateway.log"
        self.start()

    def start(self) -> None:
        words = ["--callers", str(self._callers), "--port", str(self._port)]
        argv = self._tool.argv("gateway", "serve", *words)
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                argv, env=self._tool.environ, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said.startswith("listening on http://"), (said, self.log.read_text())
        self._port = int(said.rpartition(":")[2])
        self.url = said.split()[-1]

    def kill(self, how: signal.Signals = signal.SIGKILL) -> int:
        self.process.send_signal(how)
        status = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status

    def ask(self, method: str, path: str, **options: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        return requests.request(
            method, f"{self.url}{path}", headers=headers, timeout=150, **options
        )
