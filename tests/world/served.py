"""The fake cluster behind a real socket, for programs that run as processes of their own; its time
runs faster than ours.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, Protocol
from urllib.parse import parse_qs, urlsplit

from tests.world.clock import Clock
from tests.world.cluster import FakeCluster
from tests.world.network import Waiter
from tests.world.transport import Answer, Asked

__all__ = ["Served", "served_cluster"]


class QuickClock(Clock):
    """A clock that goes by itself, so many times as fast as the wall's, once it has begun; whoever
    waits lets happen what is due. Each request waits in a thread of its own, and what happens is
    made for one: it happens one after the other.
    """

    def __init__(self, speed: float) -> None:
        super().__init__()
        self._happens = threading.RLock()
        self._speed, self._begun, self._from = speed, 0.0, self.now

    def begin(self) -> None:
        """Go from now on."""
        self._begun, self._from = time.monotonic(), self.now

    def __call__(self) -> float:
        return (
            self._from + (time.monotonic() - self._begun) * self._speed if self._begun else self.now
        )

    def step(self, end: float) -> bool:
        """Let what is due happen, or time pass; return whether it is before the end."""
        now = self()
        with self._happens:
            if super().step(min(end, now)):
                return True
        if now >= end:
            return False
        next_s = min([end, *(at for at, _, _ in self._due[:1])]) - now
        time.sleep(min(max(next_s / self._speed, 0.0), 0.02))
        return True


class Server(Protocol):
    """Something else that answers."""

    def serve(self, asked: Asked) -> Answer: ...


class Served:
    """A cluster that can be called at `url`."""

    def __init__(self, cluster: FakeCluster, url: str) -> None:
        self.cluster, self.url = cluster, url
        self.delay_s = 0.0  # before every answer
        self.answers = threading.Event()  # or it hangs, for minutes at most
        self.answers.set()
        self.silent = "no path"  # what is asked below it gets no answer
        # what answers below a path, where it is not a ResourceManager
        self.servers: dict[str, Server] = {"/ws/v1/node/": cluster.node, "/conf": cluster.node}
        self.asked: list[tuple[float, str, str]] = []  # when, method, path


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # head and body are two writes: the second would wait 40 ms for the acknowledgement of the first
    disable_nagle_algorithm = True
    served: ClassVar[Served]

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        query = {
            name: values[0]
            for name, values in parse_qs(parts.query, keep_blank_values=True).items()
        }
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.served.asked.append((time.monotonic(), self.command, parts.path))
        self.served.answers.wait(240)
        time.sleep(self.served.delay_s)
        if parts.path.startswith(self.served.silent):
            time.sleep(60)
        user = query.pop("user.name", "")
        asked = Asked(self.command, parts.path, query, body, user, user)
        servers = self.served.servers.items()
        other = next((one for below, one in servers if parts.path.startswith(below)), None)
        answer = other.serve(asked) if other else self._ask(asked)
        if isinstance(answer, Answer):
            self._send(answer)
        else:
            self.close_connection = True

    def _ask(self, asked: Asked) -> Answer | Exception:
        """Let the ResourceManager answer, in its own time."""
        cluster = self.served.cluster
        cluster.clock.sleep(0.0)  # what is due
        asked.sent_at = cluster.clock.now
        return cluster.network.exchange(Waiter(cluster.clock), cluster.yarn.servers[0], asked, 60.0)

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in {
            "Content-Type": answer.content_type,
            "Content-Length": str(len(answer.body)),
            **answer.headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients are killed."""


@contextmanager
def served_cluster(speed: float = 10.0) -> Iterator[Served]:
    """Serve a fake cluster on loopback."""
    clock = QuickClock(speed)
    cluster = FakeCluster(clock=clock)
    clock.begin()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {}))
    cluster.node.address = f"127.0.0.1:{server.server_address[1]}"
    made = Served(cluster, f"http://{cluster.node.address}")
    server.RequestHandlerClass.served = made  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()


def submit_tf_job(home: Path, served: Served, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run the command line with what `home` has of Hadoop's configuration."""
    env = {"HOME": str(home), "PATH": os.defpath, "SUBMIT_TF_JOB_USER": "alice"}
    env["SUBMIT_TF_JOB_HADOOP_CONF"] = str(home)
    argv = (sys.executable, "-m", "submit_tf_job", *argv, "--rm", served.url)
    return subprocess.run(argv, cwd=home, env=env, capture_output=True, text=True, timeout=240)
