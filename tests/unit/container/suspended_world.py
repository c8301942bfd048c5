"""A job's real event loops in virtual time, whose deciding task is suspended now and then.

What is imitated is the kernel: what arrives during a suspension stays in the buffers of sockets; a
closed connection is seen after all that was sent before it; a connection is accepted by the kernel,
and takes data, before the program accepts it. A suspension begins anywhere: while the loop waits,
or between any two of its calls to the kernel.
"""

from __future__ import annotations

import errno
import heapq
import random
import selectors
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from submit_tf_job.container import (
    caller,
    command,
    connections,
    deciding_task,
    info,
    job_end,
    loop,
    other_task,
    ports,
)
from submit_tf_job.container.command import TaskCommand
from submit_tf_job.container.deciding_task import DecidingTask
from submit_tf_job.container.info import Info
from submit_tf_job.container.loop import Loop
from submit_tf_job.container.other_task import OtherTask
from tests.unit.container.descriptions import description, environment, role

LATENCY_S = 0.001
T0 = 1000.0


class End:
    """One end of a connection."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number = world, number
        self.data, self.eof, self.error = b"", False, 0
        self.open, self.connected = True, False
        self.other: End | None = None
        self.wake: Callable[[], None] = lambda: None

    def setblocking(self, _on: bool) -> None: ...
    def setsockopt(self, *_what: int) -> None: ...

    def getsockopt(self, *_what: int) -> int:
        return self.error

    def getsockname(self) -> tuple[str, int]:
        return ("10.0.0.1", 1)

    def fileno(self) -> int:
        return self.number if self.open else -1

    def connect_ex(self, _to: tuple[str, int]) -> int:
        self.world.after(LATENCY_S, lambda: self.world.connect(self))
        return errno.EINPROGRESS

    def recv(self, count: int) -> bytes:
        self.world.may_pause(self)
        if self.data:
            found, self.data = self.data[:count], self.data[count:]
            return found
        if self.error:
            raise OSError(self.error, "reset")
        if not self.eof:
            raise BlockingIOError
        return b""

    def send(self, data: Any) -> int:
        self.world.may_pause(self)
        if not self.open or self.error or not self.connected:
            raise OSError(errno.EPIPE, "no connection")
        sent, other = bytes(data), self.other
        self.world.sent = not self.world.acting
        if other:
            self.world.after(LATENCY_S, lambda: other.arrive(sent))
        return len(sent)

    def arrive(self, data: bytes) -> None:
        if self.open and not self.error:
            self.data += data
            self.wake()

    def close(self, *, silently: bool = False) -> None:
        if self.open:
            self.open = False
            other = self.other
            if other and not silently:
                self.world.after(LATENCY_S, other.end)

    def end(self) -> None:
        self.eof = True
        self.wake()

    def reset(self) -> None:
        """Break the connection for both ends; what has arrived can be read no more."""
        for end in (self, self.other):
            if end and end.open:
                end.data, end.error = b"", errno.ECONNRESET
                end.wake()

    def ready(self) -> bool:
        return bool(self.data or self.eof or self.error)


class Listener:
    """The listening socket: the kernel accepts, the program takes over later."""

    def __init__(self, world: World) -> None:
        self.world, self.queue = world, deque[End]()

    def accept(self) -> tuple[End, tuple[str, int]]:
        self.world.may_pause(self)
        if not self.queue:
            raise BlockingIOError
        return self.queue.popleft(), ("10.0.0.2", 1)

    def ready(self) -> bool:
        return bool(self.queue)


class Selector:
    """The deciding task's selector: while it waits, the others act."""

    def __init__(self, world: World) -> None:
        self.world, self.keys = world, dict[Any, tuple[int, Any]]()

    def register(self, sock: Any, events: int, data: Any) -> None:
        self.keys[sock] = (events, data)

    modify = register

    def unregister(self, sock: Any) -> None:
        del self.keys[sock]

    def select(self, timeout: float) -> list[tuple[Any, int]]:
        until = self.world.now + timeout
        while True:
            self.world.may_pause(self, waiting=True)
            found = []
            for sock, (events, data) in self.keys.items():
                if hasattr(sock, "ready"):
                    mask = selectors.EVENT_READ if sock.ready() else 0
                    mask |= events & selectors.EVENT_WRITE
                    if mask:
                        found.append((SimpleNamespace(data=data), mask))
            if found or self.world.now >= until:
                self.world.random.shuffle(found)
                return found
            self.world.advance_to(min(self.world.next_event(), until))


class Child:
    """A command that ends when the world says so."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.over, self.kill_at = False, None
        self.left: list[str] = []

    def poll(self, _now: float) -> bool:
        self.over = self.code is not None
        return self.over

    def stop(self, _now: float, _grace_s: float, number: int = 15) -> None:
        if self.code is None and number:
            self.code = -number

    def send(self, _number: int) -> None: ...
    def spare(self, _until: float) -> None: ...
    def close(self) -> None: ...


class TaskSelector:
    """The selector of a task: its socket calls the task at once."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def register(self, sock: Any, _events: int, data: Any) -> None:
        if isinstance(sock, End):
            sock.wake = lambda: self.host.call(data)

    def modify(self, *_what: Any) -> None: ...
    def unregister(self, sock: Any) -> None:
        sock.wake = lambda: None


def parts(part: Any, world: World, env: dict[str, str]) -> tuple[Any, Any, Any]:
    """Return the loop, the command and the part in the job of one task."""
    task = Info(world.task, env, "/nowhere")
    own = Loop(world.signals, task.started)
    run = TaskCommand(task, world.signals, own.post)
    return own, run, part(task, own, run)


class Host:
    """One other task: a real one, whose loop is run by events."""

    def __init__(self, world: World, name: str, serial: int) -> None:
        self.world, self.name = world, name
        self.dead = False
        env = environment(name, f"container_1_0001_01_{serial:06d}", "n-" + name)
        self.loop, self.command, self.part = parts(OtherTask, world, env)
        self.loop.selector = TaskSelector(self)
        self.part.caller.resolver = self.part.caller.place.resolver = world.resolver
        self.turn()

    def call(self, ready: Callable[[int], None]) -> None:
        """Run a callback of the selector, as soon as the process runs."""

        def do() -> None:
            if not self.dead:
                ready(selectors.EVENT_READ)
                self.step()

        self.world.after(0, do)

    def step(self) -> bool:
        if self.dead:
            return False
        self.command.watch(self.world.now)
        busy = bool(self.loop.exit is None and self.part.tick(self.world.now))
        if self.loop.exit is not None:
            self.leave()
        return busy

    def turn(self) -> None:
        if not self.dead:
            pause_s = 0.1 if self.step() else 1.0
            self.world.after(pause_s, self.turn)

    def leave(self, *, silently: bool = False) -> None:
        """End the process; a node that dies closes nothing."""
        if not self.dead:
            self.dead = True
            for call in self.part.caller.calls():
                call.channel.sock.close(silently=silently)

    def end_command(self, code: int) -> None:
        child = self.command.child
        if not self.dead and child and child.code is None:
            child.code = code
            self.step()


class World:
    """One history: its faults are drawn from the seed."""

    def __init__(self, seed: int, *, retries: bool = False, elastic: bool = False) -> None:
        self.random = random.Random(seed)
        self.now, self.serial = T0, 0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.acting = False  # whether the others act: their reads suspend nobody
        count = self.random.randint(2, 4)
        roles = {"chief": role(1, "trains"), "worker": role(count, "trains")}
        more: dict[str, Any] = {"ends_with": "all-that-train"}
        if retries or elastic:
            roles["witness"] = role(1, "sidecar")
            more["retries"] = {"max": 3, "on": ["lost"], "node_losses": 2}
        if elastic:
            more["elastic"] = {"worker": {"min": 1, "grow_after_s": 600}}
        self.task = description(roles, **more)
        self.signals: Any = SimpleNamespace(
            stop=lambda: 0, patient_until=0.0, seen=[], reader=object(), drain=lambda: None,
            wake=lambda: None, forward=None, asked_at=0.0,
        )  # fmt: skip
        self.resolver = SimpleNamespace(
            busy=0,
            sought=lambda: "chief",
            start=lambda hosts, found: [found(host, "10.0.0.1") for host in hosts],
            longest_pause_s=0.5,
            missing=lambda: "chief",
        )
        self.listener = Listener(self)
        self.pauses = deque(self._pauses())
        self.sent = False  # whether the latest call of the deciding task sent a message
        self.skip = 0
        self.root = ""  # the task that fails first
        self.root_at = 0.0
        self.said: list[str] = []
        self.hosts: dict[str, Host] = {}
        self.deciding: Any = None
        self.names = [f"worker-{i}" for i in range(count)] + ["witness-0"] * ("retries" in more)

    def _pauses(self) -> list[tuple[float, float, int]]:
        """Draw suspensions: when, how long, and after how many further calls to the kernel."""
        found, at, left_s = [], T0 + 10, 24.0
        for _ in range(self.random.randint(1, 3)):
            at += self.random.uniform(1, 30)
            about_s = self.random.choice([1.5, 3.5, 6, 12, 20])
            seconds = min(left_s, about_s * self.random.uniform(0.7, 1.2))
            if seconds > 0.5:
                found.append((at, seconds, self.random.choice([0, 0, 1, 2, 3, 4, 6, 9, 14])))
            left_s -= seconds
        return found

    # --- time ---
    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.serial += 1
        heapq.heappush(self.events, (self.now + seconds, self.serial, call))

    def next_event(self) -> float:
        return self.events[0][0] if self.events else float("inf")

    def advance_to(self, until: float) -> None:
        acting, self.acting = self.acting, True
        while self.events and self.events[0][0] <= until:
            at, _serial, call = heapq.heappop(self.events)
            self.now = max(self.now, at)
            call()
        self.acting = acting
        self.now = max(self.now, until)

    def monotonic(self) -> float:
        """Return the time; no suspension begins between a message and the note of its time, a
        microsecond in which no side could tell what came first.
        """
        if self.sent and not self.acting:
            self.sent = False
        else:
            self.may_pause(None)
        return self.now

    def may_pause(self, _where: Any, *, waiting: bool = False) -> None:
        """Suspend the deciding task if it is time, here or some calls later."""
        if not self.acting:
            self.sent = False
        if self.acting or not self.pauses or self.now < self.pauses[0][0]:
            return
        _at, seconds, calls = self.pauses[0]
        if not (waiting and not calls) and self.skip < calls:
            self.skip += 1
            return
        self.pauses.popleft()
        self.skip = 0
        self.said.append(f"{self.now:.2f} paused for {seconds:.1f} s")
        self.advance_to(self.now + seconds)

    # --- the network ---
    def connect(self, end: End) -> None:
        if not end.open:
            return
        self.serial += 1
        theirs = End(self, self.serial)
        theirs.other, end.other = end, theirs
        theirs.connected = end.connected = True
        self.listener.queue.append(theirs)
        end.wake()

    def socket(self, *_what: Any) -> End:
        self.serial += 1
        return End(self, self.serial)

    # --- the job ---
    def start(self, name: str) -> None:
        self.serial += 1
        self.hosts[name] = Host(self, name, self.serial)

    def faults(self) -> None:
        """Plan what happens once all commands run."""
        workers = [name for name in self.names if name.startswith("worker")]
        base = self.pauses[0][0] if self.pauses and self.random.random() < 0.8 else T0 + 20
        at = base + self.random.uniform(-4, 8) - T0
        kinds = "none fails killed unreported node oom node killed"
        kind = self.random.choice(kinds.split())
        for _ in range(self.random.randint(0, 2)):
            victim = self.random.choice(workers)
            breaks_s = max(5, at + self.random.uniform(-8, 8))
            self.after(breaks_s, partial(self.break_connection, victim))
        ends = 75.0
        if kind == "none":
            for name in workers:
                self.after(ends + self.random.uniform(0, 9), partial(self.end_command, name, 0))
            self.after(ends + self.random.uniform(0, 9), lambda: self.end_own(0))
            return
        self.root = self.random.choice(workers)
        self.root_at = T0 + max(6, at)
        self.after(self.root_at - T0, lambda: self.strike(kind))
        for name in [*workers, "chief-0"]:
            if name != self.root and self.random.random() < 0.7:
                delay_s = self.random.uniform(0.2, 12)
                self.after(self.root_at + delay_s - T0, partial(self.consequence, name))

    def break_connection(self, name: str) -> None:
        host = self.hosts[name]
        if not host.dead and host.part.caller.calls() and not self.struck(name):
            self.said.append(f"{self.now:.2f} the connection of {name} breaks")
            for call in host.part.caller.calls():
                call.channel.sock.reset()

    def struck(self, name: str) -> bool:
        return bool(self.root) and self.now >= self.root_at - 2

    def strike(self, kind: str) -> None:
        host = self.hosts[self.root]
        self.said.append(f"{self.now:.2f} {self.root}: {kind}")
        if kind == "fails":
            host.end_command(3)
        elif kind == "oom":
            host.end_command(-9)
        else:
            if kind == "unreported" and host.command.child:
                host.command.child.code = 3
            host.leave(silently=kind == "node")
        if "retries" in self.task and host.dead:
            self.after(self.random.uniform(5, 40), lambda: self.start(self.root))

    def consequence(self, name: str) -> None:
        self.said.append(f"{self.now:.2f} {name} fails in consequence")
        if name == "chief-0":
            self.end_own(1)
        else:
            self.end_command(name, 1)

    def end_command(self, name: str, code: int) -> None:
        self.hosts[name].end_command(code)

    def end_own(self, code: int) -> None:
        own = self.deciding.command
        child = own.child
        if child and child.code is None and not own.end_requested:
            child.code = code

    def play(self, patch: pytest.MonkeyPatch) -> Any:
        """Play the history to its end; return the deciding task's state machine."""
        clock = SimpleNamespace(monotonic=self.monotonic, sleep=lambda _s: None, time=lambda: 0.0)
        modules: Any = (
            caller,
            command,
            deciding_task,
            other_task,
            info,
            job_end,
            loop,
            connections,
        )
        for module in modules:
            if hasattr(module, "time"):
                patch.setattr(module, "time", clock)
        for name in ("AF_INET", "SOCK_STREAM", "SOL_SOCKET", "SO_ERROR"):
            setattr(self, name, getattr(socket, name))
        patch.setattr(caller, "socket", self)
        patch.setattr(TaskCommand, "run", lambda own, *_what: setattr(own, "child", Child()))
        patch.setattr(TaskCommand, "set_variables", lambda _own: None)
        patch.setattr(command, "oom_kills", lambda: 0)
        patch.setattr(selectors, "DefaultSelector", lambda: Selector(self))
        patch.setattr(ports, "reserve_own", lambda *_what: None)
        for module in modules:
            if hasattr(module, "log"):
                patch.setattr(module, "log", lambda _text: None)
        env = environment("chief-0", "container_1_0001_01_000000")
        self.acting = True
        own_loop, own_command, own = parts(DecidingTask, self, env)
        self.deciding = own
        own.resolver = own.place.resolver = SimpleNamespace(
            busy=0,
            sought=lambda: "",
            start=lambda names, found: [found(n, "10.0.0.2") for n in names],
        )
        own.peers.listener = self.listener
        own_loop.selector.register(self.listener, selectors.EVENT_READ, own.peers.accept)
        own.job.tell = lambda text: self.said.append(f"{self.now:.2f} job: {text}")
        for name in self.names:
            self.after(self.random.uniform(0, 3), partial(self.start, name))
        self.faults()
        self.acting = False
        self.after(200, self.stop)
        own_command.set_up({}, None)
        own_loop.run(own_command, own.tick, own.stopped, own.broken)
        return own.job

    def stop(self) -> None:
        """Leave the history; every cause is named by now, and with `retries` the job goes on."""
        self.deciding.loop.exit = 0


def play(seed: int, **kinds: bool) -> tuple[World, str]:
    """Play one history; return what is wrong with its verdict, or ""."""
    world = World(seed, **kinds)
    with pytest.MonkeyPatch.context() as patch:
        job = world.play(patch)
    past = job.generations.past
    causes = [entry["task"] for entry in past] + ([job.first["task"]] if job.first else [])
    if not world.root:
        return world, "" if job.verdict == "succeeded" and not causes else f"{job.verdict} {causes}"
    if not causes or causes[0] != world.root:
        return world, f"{causes} instead of {world.root}"
    return world, ""
