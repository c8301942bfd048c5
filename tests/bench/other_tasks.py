"""A real deciding task with thousands of others, simulated by one process: what it sends to
them, and what it takes itself.

No task has a name in DNS, so that each is sent the addresses of all: the most that a start can
cost. Twenty of them share an address, as tasks do on the network of their node; which ones is
drawn at random (all of 127.0.0.0/8 is this machine).
"""

from __future__ import annotations

import json
import math
import resource
import selectors
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from submit_tf_job.container import contract
from tests.bench.measure import Row
from tests.bootstrap.harness import FOREVER, UNTIL_GO, Cluster, cluster, free, role

__all__ = ["Crowd", "measure_other_tasks", "notice_silence", "simulate"]

FEW, MANY = 1000, 10_000
TASKS_OF_A_NODE = 20
EXPONENT_GOAL, INFORMATION_GOAL = 1.3, 2.0
SILENCE_GOAL_S = 60.0
GRACE_S, PING_S, SETTLE_S = 30.0, 5.0, 2.0  # the defaults
ANSWERS = {"go": "running", "ping": "ping"}
WAIT_S = 600.0


@dataclass(frozen=True)
class Crowd:
    """What a job of so many other tasks took.

    Attributes:
        sent: Bytes that the deciding task sent to all other tasks together, until each had started.
        again: Bytes that it sent when all had lost their connection and come back.
        start_s: From the last task's hello to the last one's start.
        cpu_s: CPU seconds of the deciding task, from its start to its end.
        memory: Most bytes of the deciding task that were resident.
    """

    others: int
    sent: int
    again: int
    start_s: float
    cpu_s: float
    memory: int


class _OtherTasks:
    """The other ends of the deciding task's connections."""

    def __init__(self, job: Cluster, count: int, ping_s: float) -> None:
        self.job, self.count, self.ping_s = job, count, ping_s
        self.begun, self.pings = time.monotonic(), 0
        self.selector = selectors.DefaultSelector()
        self.places: dict[int, int] = {}
        self.kinds: Counter[str] = Counter()
        self.received = 0
        self.seen: str | None = None
        self.connections: dict[int, socket.socket] = {}
        self.rests: dict[int, bytes] = {}
        nodes = range(max(1, count // TASKS_OF_A_NODE))
        self.addresses = [
            f"127.1.{node >> 8}.{node & 255}" for node in Random(count).choices(nodes, k=count)
        ]

    def connect(self, state: str) -> None:
        """Connect all of them, a few hundred at a time, and have each say hello."""
        self.kinds.clear()
        for index in range(self.count):
            sock = socket.socket()
            sock.bind((self.addresses[index], 0))
            sock.connect(("127.0.0.1", self.job.rendezvous()))
            sock.sendall(self._hello(index, state))
            self.selector.register(sock, selectors.EVENT_READ)
            self.places[sock.fileno()] = index
            self.connections[index] = sock
            if index % 200 == 0:
                self.answer_all()

    def _hello(self, index: int, state: str) -> bytes:
        task = {"role": "worker", "index": index, "attempt": 1, "process": f"process-{index}"}
        place = {"host": f"node-{index % 500}", "address": self.addresses[index]}
        place["container"] = f"{self.job.application}_01_{index + 2:06d}"
        known = {"seen": self.seen, "age_s": 1.0}
        run = self.job.task["run"]
        return _pack("hello", run=run, state=state, **task, **place, **known)

    def answer_all(self) -> None:
        """Answer what has arrived, and ping."""
        self._ping()
        for key, _events in self.selector.select(0):
            self._receive(key.fileobj)  # type: ignore[arg-type]

    def serve_until(self, over: Callable[[], bool]) -> None:
        """Answer what arrives, and ping, until something is the case."""
        deadline = time.monotonic() + WAIT_S
        while not over():
            assert time.monotonic() < deadline, (self.kinds, self.job.stderr("chief-0")[-2000:])
            self._ping()
            for key, _events in self.selector.select(0.05):
                self._receive(key.fileobj)  # type: ignore[arg-type]

    def _ping(self) -> None:
        """Ping as bootstraps do, evenly spread over the time."""
        if not self.ping_s:
            return
        due = int((time.monotonic() - self.begun) / self.ping_s * self.count)
        for number in range(self.pings, due):
            sock = self.connections.get(number % self.count)
            if sock:
                sock.sendall(_pack("ping"))
        self.pings = due

    def fall_silent(self, index: int) -> socket.socket:
        """Have one of them say nothing any more after a last ping; its connection stays open."""
        sock = self.connections.pop(index)
        sock.sendall(_pack("ping"))
        self.selector.unregister(sock)
        return sock

    def _receive(self, sock: socket.socket) -> None:
        data = sock.recv(1 << 20)
        if not data:
            self._close(sock)
            return
        self.received += len(data)
        number = sock.fileno()
        *lines, rest = (self.rests.pop(number, b"") + data).split(b"\n")
        if rest:
            self.rests[number] = rest
        for line in lines:
            self._answer(sock, line)

    def _answer(self, sock: socket.socket, line: bytes) -> None:
        message: dict[str, Any] = json.loads(line) if len(line) < 4096 else {"t": "go"}
        kind = message["t"]
        self.kinds[kind] += 1
        if kind == "welcome":
            self.seen = message["process"]
        if kind in ANSWERS:
            sock.sendall(_pack(ANSWERS[kind], probe=message.get("probe")))
        if kind == "end":
            self._close(sock)

    def _close(self, sock: socket.socket) -> None:
        self.rests.pop(sock.fileno(), None)
        self.connections.pop(self.places[sock.fileno()], None)
        self.selector.unregister(sock)
        sock.close()

    def lose_connections(self) -> None:
        """Close every connection, as a network does that forgets them."""
        for key in list(self.selector.get_map().values()):
            sock: socket.socket = key.fileobj  # type: ignore[assignment]
            sock.sendall(_pack("away"))
            self._close(sock)

    @property
    def connected(self) -> int:
        """How many connections are open."""
        return len(self.selector.get_map())


def _pack(kind: str, **fields: object) -> bytes:
    return json.dumps(dict(fields, t=kind)).encode() + b"\n"


@contextmanager
def _started(
    others: int, every_s: float = 0.0, **task: Any
) -> Iterator[tuple[Cluster, _OtherTasks, float]]:
    """Start a job of one deciding task and so many other tasks.

    Args:
        others: How many.
        every_s: How often each of them pings; 0 for never.
        task: Fields of the task description.

    Yields:
        The job, its other tasks, and the seconds from the last hello to the last start.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, cluster(Path(directory)) as job:
        workers = role(1, contract.KIND_SERVES, FOREVER)
        job.job(
            {"chief": role(1, contract.KIND_TRAINS, ["sh", "-c", UNTIL_GO]), "worker": workers},
            start_timeout_s=WAIT_S,
            **task,
        )
        workers["count"] = others
        job.dns.hidden.update(f"worker-{index}" for index in range(others))
        job.start("chief-0")
        job.until(lambda: "waiting for" in job.stderr("chief-0") or not free(job.rendezvous()))
        crowd = _OtherTasks(job, others, every_s)
        crowd.connect("waiting")
        start = time.monotonic()
        crowd.serve_until(lambda: crowd.kinds["go"] == others)
        yield job, crowd, time.monotonic() - start
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def simulate(others: int) -> Crowd:
    """Run a job of one deciding task and so many other tasks, who lose their connections once."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with _started(others, grace_s=60) as (job, crowd, start_s):
        sent = crowd.received
        crowd.lose_connections()
        crowd.connect("running")
        crowd.serve_until(lambda: crowd.kinds["welcome"] == others)
        again = crowd.received - sent
        status = Path(f"/proc/{job.runs['chief-0'].pid}/status").read_text()
        memory = int(status.partition("VmHWM:")[2].split()[0]) * 1024
        job.go()
        crowd.serve_until(lambda: not crowd.connected)
        assert job.wait("chief-0") == 0, job.stderr("chief-0")[-2000:]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return Crowd(others, sent, again, start_s, cpu_s, memory)


def notice_silence(others: int, grace_s: float, ping_s: float) -> float:
    """Have one of so many other tasks fall silent, as one whose node died.

    Args:
        others: How many.
        grace_s: `grace` of the job.
        ping_s: How often each of them pings.

    Returns:
        The seconds from its last message to the word to the others that the job has failed.
    """
    # the harness settles sooner, before one process has answered for thousands
    times = {"grace_s": grace_s, "ping_s": ping_s, "settle_s": SETTLE_S}
    with _started(others, ping_s, **times) as (job, crowd, _):
        with crowd.fall_silent(others // 2):
            begun = time.monotonic()
            crowd.serve_until(lambda: crowd.kinds["end"] > 0)
            took = time.monotonic() - begun
            crowd.serve_until(lambda: not crowd.connected)
        assert job.wait("chief-0") == contract.EXIT_JOB_FAILED
        first = job.report()["first_failure"]
        assert (first["task"], first["reason"]) == (f"worker-{others // 2}", "lost")
    return took


def measure_other_tasks() -> list[Row]:
    """Compare ten thousand other tasks with a thousand."""
    few, many = simulate(FEW), simulate(MANY)
    noticed_s = notice_silence(MANY, GRACE_S, PING_S)
    floor, more = f"{FEW:,} other tasks, as exponent of their number", math.log(MANY / FEW)
    # which of the nodes each task is on, told to each task
    least = MANY * MANY * math.log2(MANY / TASKS_OF_A_NODE) / 8

    def growth(what: str, large: float, small: float, details: str) -> Row:
        return Row(what, floor, math.log(large / small) / more, EXPONENT_GOAL, details)

    sent = f"bytes sent until {MANY:,} simulated other tasks start, addresses for all"
    held = "the information that they hold: for each the node of each"
    sizes = f"{many.sent / 1e6:,.1f} MB and {least / 1e6:,.1f} MB"
    again = f"{many.again / 1e6:,.1f} MB and {few.again / 1e6:,.2f} MB"
    used = (
        f"{many.cpu_s:.1f} s and {few.cpu_s:.1f} s; {many.memory / 2**20:.0f} MiB and "
        f"{few.memory / 2**20:.0f} MiB resident; the last starts {many.start_s:.1f} s and "
        f"{few.start_s:.1f} s after the last hello"
    )
    silent = f"a silent node among {MANY:,}: its last message → the end of the job"
    noticed = f"{noticed_s:.1f} s, with the default `grace` of {GRACE_S:.0f} s; nothing closes its "
    return [
        Row(sent, held, many.sent / least, INFORMATION_GOAL, sizes),
        growth(
            "bytes sent when all of them have lost their connections", many.again, few.again, again
        ),
        growth("CPU time of the deciding task", many.cpu_s, few.cpu_s, used),
        Row(
            silent,
            f"{SILENCE_GOAL_S:.0f} s",
            noticed_s / SILENCE_GOAL_S,
            1.0,
            f"{noticed}connection",
        ),
    ]
