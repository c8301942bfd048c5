"""Nodes as network namespaces, joined by a bridge in one more namespace: packets between them are
real, and a cable can be pulled out.

The machine's own network has no part in it. Names of namespaces are drawn at random, and all are
removed at the end, with whatever runs inside.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.bootstrap.harness import Cluster, FakeDns

__all__ = ["MISSING", "Nodes", "nodes"]

CLONE_NEWNET = 0x40000000
SWITCH = "10.77.0.1"
END_S = 10.0

MISSING = ""
if os.geteuid() != 0:
    MISSING = "only root can make network namespaces"
elif not shutil.which("ip"):
    MISSING = "iproute2 is not installed"


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def _socket_inside(namespace: str) -> socket.socket:
    """Make a bound UDP socket of a namespace: one thread enters that, and ends."""

    def make() -> socket.socket:
        libc = ctypes.CDLL(None, use_errno=True)
        with Path(f"/run/netns/{namespace}").open() as file:
            assert libc.setns(file.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((SWITCH, 0))
        return sock

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(make).result(timeout=60)


class Nodes(Cluster):
    """One job's containers, each on a node of its own."""

    def __init__(self, root: Path, dns: FakeDns, switch: str) -> None:
        super().__init__(root, dns)
        self.switch = switch
        self.homes: dict[str, int] = {}  # the node on which a task is started
        self.count = 0

    # --- nodes ------------------------------------------------------------------------------------
    def inside(self, name: str) -> list[str]:
        """Start a task in its node's namespace; DNS has its address."""
        if name not in self.homes:
            self.move(name)
        return ["ip", "netns", "exec", self._space(self.homes[name])]

    def move(self, name: str) -> int:
        """Have the next container of a task start on a new node; return the former one."""
        former = self.homes.get(name, 0)
        self.count += 1
        self._boot(self.count)
        self.homes[name] = self.count
        self.dns.addresses[name] = self._address(self.count)
        return former

    def _space(self, node: int) -> str:
        return f"{self.switch}-{node}"

    @staticmethod
    def _address(node: int) -> str:
        return f"10.77.0.{node + 1}"

    def _boot(self, node: int) -> None:
        space, port = self._space(node), f"port{node}"
        _ip("netns", "add", space)
        _ip("-n", space, "link", "set", "lo", "up")
        mac = ("address", f"02:00:00:00:00:{node:02x}")  # a reboot does not change it
        peer = ("peer", "name", "eth0", *mac, "netns", space)
        _ip("-n", self.switch, "link", "add", port, "type", "veth", *peer)
        _ip("-n", self.switch, "link", "set", port, "master", "switch", "up")
        _ip("-n", space, "addr", "add", f"{self._address(node)}/24", "dev", "eth0")
        _ip("-n", space, "link", "set", "eth0", "up")

    def pull(self, node: int) -> None:
        """Pull the cable of a node: packets vanish in both directions, and nothing is closed."""
        _ip("-n", self.switch, "link", "set", f"port{node}", "down")

    def plug(self, node: int) -> None:
        """Put the cable back."""
        _ip("-n", self.switch, "link", "set", f"port{node}", "up")

    def processes(self, node: int) -> list[int]:
        """Return what runs on a node."""
        return [int(pid) for pid in _ip("netns", "pids", self._space(node)).split()]

    def signal(self, node: int, number: int) -> None:
        """Send a signal to everything on a node."""
        for pid in self.processes(node):
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, number)

    def pause(self, node: int) -> None:
        """Stop a virtual machine: neither its processes nor its kernel answer."""
        self.pull(node)
        self.signal(node, signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """Have it go on."""
        self.signal(node, signal.SIGCONT)
        self.plug(node)

    def reboot(self, node: int) -> None:
        """Have a node vanish without a word, and come back with nothing on it."""
        self.pull(node)
        self._remove(node)
        self._boot(node)

    def _remove(self, node: int) -> None:
        end = time.monotonic() + END_S
        while self.processes(node):
            assert time.monotonic() < end, self.processes(node)
            self.signal(node, signal.SIGKILL)
            for run in self.runs.values():
                run.poll()
            time.sleep(0.02)
        try:
            _ip("-n", self.switch, "link", "del", f"port{node}")  # that of a namespace lingers
        finally:
            _ip("netns", "del", self._space(node))

    def close(self) -> None:
        """Remove all nodes, with what runs on them."""
        with contextlib.ExitStack() as all_of_them:
            all_of_them.callback(super().close)
            for node in range(1, self.count + 1):
                all_of_them.callback(self._remove, node)

    # --- the job ----------------------------------------------------------------------------------
    def lost_each_other(self, name: str) -> None:
        """Wait until a task and the deciding one both gave the connection up."""
        deciding = self.task["deciding"] + "-0"
        self.until(lambda: f"the connection to {name} went away" in self.stderr(deciding))
        self.until(lambda: f"the connection to {deciding} went away" in self.stderr(name))

    def empty(self, *chosen: int) -> None:
        """Wait until nothing runs on these nodes, by default on all."""
        self.until(lambda: not any(map(self.processes, chosen or range(1, self.count + 1))))


@contextmanager
def nodes(root: Path) -> Iterator[Nodes]:
    """Make the switch, and a name server beside it."""
    switch = f"tfj{uuid.uuid4().hex[:8]}"
    _ip("netns", "add", switch)
    try:
        _ip("-n", switch, "link", "set", "lo", "up")
        _ip("-n", switch, "link", "add", "switch", "type", "bridge")
        _ip("-n", switch, "addr", "add", f"{SWITCH}/24", "dev", "switch")
        _ip("-n", switch, "link", "set", "switch", "up")
        dns = FakeDns(_socket_inside(switch))
        made = Nodes(root, dns, switch)
        try:
            yield made
        finally:
            made.close()
            dns.close()
    finally:
        _ip("netns", "del", switch)
