"""Many at once: listeners, idle connections, clients that trickle, a ResourceManager that hangs, a
hundred thousand requests.
"""

from __future__ import annotations

import resource
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.gateway.conftest import JOB, TOKEN, Process, until
from tests.world.served import Served, served_cluster

LISTENERS = 500
IDLE = 2000
POLLS = 5
ENDED_S = 120.0


@pytest.fixture
def slow_cluster() -> Iterator[Served]:
    """A fake cluster as fast as real ones are."""
    with served_cluster(speed=1.0) as made:
        yield made


@contextmanager
def a_gateway(
    cluster: Served, directory: Path, options: list[str], **more: Any
) -> Iterator[Process]:
    made = Process(directory, "--rm", cluster.url, *options[2:], **more)
    try:
        yield made
    finally:
        made.end(signal.SIGKILL)


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(10_000, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def connect(gateway: Process, said: bytes, stack: ExitStack) -> socket.socket:
    made = stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), timeout=600))
    made.sendall(said)
    return made


def read_all(sockets: list[socket.socket]) -> dict[socket.socket, bytes]:
    """Read from each socket until all have ended."""
    found = dict.fromkeys(sockets, b"")
    deadline = time.monotonic() + ENDED_S
    with selectors.DefaultSelector() as waiting:
        for one in sockets:
            waiting.register(one, selectors.EVENT_READ)
        while waiting.get_map():
            assert time.monotonic() < deadline, (
                f"{len(waiting.get_map())} have not ended in {ENDED_S} s"
            )
            for key, _ in waiting.select(0.2):
                ready: Any = key.fileobj
                piece = ready.recv(65536)
                found[ready] += piece
                if not piece:
                    waiting.unregister(ready)
    return found


def test_listeners_idle_connections_and_a_slow_resource_manager(
    slow_cluster: Served, options: list[str], tmp_path: Path
) -> None:
    with a_gateway(slow_cluster, tmp_path, options) as gateway, ExitStack() as stack:
        job = {**JOB, "name": "mnist", "command": "sleep 600"}
        answer = gateway.ask("POST", "/v1/jobs", json=job)
        app = slow_cluster.cluster.yarn.apps[answer.json()["application_id"]]

        def state() -> str:
            return str(gateway.ask("GET", "/v1/jobs/mnist").json()["state"])

        until(lambda: state() == "STARTING", "its ApplicationMaster runs")

        # Five hundred listeners of one job are one poll.
        head = (
            f"GET /v1/jobs/mnist/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
            f"{TOKEN}\r\nConnection: close\r\n\r\n"
        ).encode()
        listeners = [connect(gateway, head, stack) for _ in range(LISTENERS)]
        until(lambda: gateway.metric("streams") == LISTENERS, "all listen")
        begun = len(slow_cluster.asked)

        def last_looks_s() -> float:
            """Return over how many seconds the last looks at the job went."""
            asked = slow_cluster.asked[begun:]
            at = [at for at, _, path in asked if path.endswith(app.id)][-POLLS:]
            return at[-1] - at[0] if len(at) == POLLS else 0.0

        until(lambda: last_looks_s() > POLLS - 2, "one look a second, however many listen")

        # Thousands of connections that say nothing are no hindrance.
        idle = [connect(gateway, b"", stack) for _ in range(IDLE)]
        assert gateway.ask("GET", "/healthz").status_code == 200
        assert state() in ("STARTING", "RUNNING")

        # A ResourceManager that hangs keeps its own callers waiting, as many as may, and nobody
        # else.
        slow_cluster.answers.clear()

        def answered() -> list[int]:
            return [one.result().status_code for one in asking if one.done()]

        with ThreadPoolExecutor(24) as pool:
            asking = [pool.submit(gateway.ask, "GET", "/v1/jobs?user=*") for _ in range(22)]
            until(lambda: len(answered()) == 6, "who gets no place learns it meanwhile")
            assert gateway.ask("GET", "/healthz").status_code == 200, "it is alive while they wait"
            assert answered() == [429] * 6
            slow_cluster.answers.set()
        assert sorted(answered()) == [200] * 16 + [429] * 6

        slow_cluster.cluster.yarn.end(app, "FINISHED", "SUCCEEDED", "")
        ends = read_all(listeners)
        learnt = [said for said in ends.values() if b'"state": "SUCCEEDED"' in said]
        assert len(learnt) == LISTENERS, "everybody learns the end"
        assert len(idle) == IDLE
        assert gateway.end(signal.SIGTERM) == 0


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_memory_is_flat_over_100_000_requests(options: list[str], tmp_path: Path) -> None:
    with served_cluster(speed=100.0) as quick, a_gateway(quick, tmp_path, options) as gateway:
        gateway.ask("POST", "/v1/jobs", json={**JOB, "name": "mnist", "command": "sleep 600"})
        seen = [gateway.memory() / 1024**2]
        for _ in range(10):
            _many(gateway, 10_000)
            seen.append(gateway.memory() / 1024**2)
        print(f"MiB after each ten thousand: {[round(one, 1) for one in seen]}")
        assert seen[-1] - seen[2] < 8, seen


def _many(gateway: Process, count: int) -> None:
    """Requests of each kind, good ones and bad ones, by eight clients that keep their
    connections.
    """
    kinds: tuple[Callable[[requests.Session, str], Any], ...] = (
        lambda http, url: http.get(f"{url}/v1/jobs/mnist"),
        lambda http, url: http.get(f"{url}/v1/jobs?limit=5"),
        lambda http, url: http.get(f"{url}/healthz"),
        lambda http, url: http.get(f"{url}/v1/jobs/nobody-{time.monotonic_ns()}"),
        lambda http, url: http.post(
            f"{url}/v1/jobs", data=b"{", headers={"Content-Type": "application/json"}
        ),
    )

    def work(number: int) -> None:
        with requests.Session() as http:
            http.headers["Authorization"] = f"Bearer {TOKEN}"
            for turn in range(count // 8):
                assert kinds[(number + turn) % len(kinds)](http, gateway.url).status_code < 500

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
