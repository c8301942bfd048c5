"""Test whether two containers on an engine's bridge can connect, with two network namespaces.

Docker without --iptables=false sets the policy of iptables' chain FORWARD to DROP, for the whole
machine. Where the kernel passes bridged packets to iptables (br_netfilter), that disconnects the
containers of every other bridge. The sandbox changes no firewall rules, so it only reports the
problem.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.engine import Engine, call, dockerd_path

__all__ = ["bridge_problem"]

_CONNECT_S = 2.0
_PORT = 2222

_LISTEN = f"""
import socket
with socket.create_server(("", {_PORT})) as server:
    print("ready", flush=True)
    server.settimeout({2 * _CONNECT_S})
    server.accept()
"""
_CONNECT = f"""
import socket, sys
socket.create_connection((sys.argv[1], {_PORT}), timeout={_CONNECT_S}).close()
"""


def bridge_problem(engine: Engine) -> str:
    """Return why containers on the engine's bridge cannot connect to one another, "" where they
    can.

    Args:
        engine: A running engine; the process must be root's.
    """
    with contextlib.ExitStack() as stack:
        try:
            listens = stack.enter_context(_namespace(engine, "a", str(engine.subnet[-2])))
            connects = stack.enter_context(_namespace(engine, "b", str(engine.subnet[-3])))
        except SandboxError as error:
            return f"it could not be tried: {error.message}"
        if _connects(listens, connects, str(engine.subnet[-2])):
            return ""
    return _reason(engine)


@contextlib.contextmanager
def _namespace(engine: Engine, end: str, address: str) -> Iterator[str]:
    """Create a network namespace with one address on the bridge, and remove it afterwards."""
    name = f"{engine.identity}-{end}"
    outer, inner = (f"{engine.identity}{end}{number}" for number in (0, 1))
    with contextlib.suppress(SandboxError):
        call(["ip", "netns", "delete", name])  # left over by a call that was killed
    try:
        call(["ip", "netns", "add", name])
        call(["ip", "link", "add", outer, "type", "veth", "peer", "name", inner])
        call(["ip", "link", "set", inner, "netns", name])
        call(["ip", "link", "set", outer, "master", engine.identity, "up"])
        inside = ["ip", "-n", name]
        call([*inside, "address", "add", f"{address}/{engine.subnet.prefixlen}", "dev", inner])
        call([*inside, "link", "set", inner, "up"])
        yield name
    finally:
        for words in (["link", "delete", outer], ["netns", "delete", name]):
            with contextlib.suppress(SandboxError):
                call(["ip", *words])


def _connects(listens: str, connects: str, address: str) -> bool:
    """Return whether a connection from one namespace to the other succeeds."""
    environ = {"PATH": dockerd_path(os.environ)}
    python = [sys.executable, "-IS", "-c"]
    server = subprocess.Popen(
        ["ip", "netns", "exec", listens, *python, _LISTEN],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with server:
        try:
            if server.stdout is None or not server.stdout.readline():
                return False
            argv = ["ip", "netns", "exec", connects, *python, _CONNECT, address]
            done = subprocess.run(argv, env=environ, capture_output=True, timeout=10, check=False)
            return done.returncode == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            server.kill()


def _reason(engine: Engine) -> str:
    try:
        policy = call(["iptables", "-S", "FORWARD"]).partition("\n")[0]
    except SandboxError:
        policy = ""
    because = ""
    if policy.endswith(" DROP"):
        because = (
            "; the policy of iptables' chain FORWARD is DROP, as another Docker Engine sets it"
        )
    rule = f"iptables -I FORWARD -i {engine.identity} -o {engine.identity} -j ACCEPT"
    return (
        f"this machine's firewall drops what one sends to another{because}. `{rule}` lets it "
        f"pass; or use network: host"
    )
