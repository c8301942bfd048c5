"""Choose the ports and addresses of a sandbox, and how its containers resolve names.

The ports of a sandbox are one block of 25, which is reserved as a whole, so that two sandboxes
never share ports.

A NodeManager does not check a cluster id: if another sandbox's ResourceManager listens on the
configured port, it joins that cluster and runs its containers. So a block is used only if *every*
port in it is free, and it stays reserved until the daemons listen. From then on any running daemon
keeps others from choosing the block, even while another daemon is dead.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.processes import reserve, run

Resolver = Literal["system", "direct", "none"]
ResolverChoice = Literal["auto", "system", "direct", "none"]

# Below the ephemeral range (32768) and below the range of job tasks (20000 to 32767).
_FIRST = 10000
_SIZE = 25
BLOCKS = 400


def first_port(block: int) -> int:
    """Return the first port of a block; `daemons.TABLE` tells for what each port is used."""
    return _FIRST + block * _SIZE


def dns_address(block: int) -> str:
    """Return the loopback address that belongs to a block, for a Registry DNS on port 53."""
    return f"127.83.{block // 250}.{1 + block % 250}"


def port_is_free(port: int, address: str = "") -> bool:
    """Return whether nothing listens on a port, TCP or UDP, on the address (default: on any
    address).
    """
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            if kind == socket.SOCK_STREAM:
                # Connections of a daemon that just ended (TIME_WAIT) do not keep the next one from
                # listening.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                return False
    return True


@contextlib.contextmanager
def pick_block(first: int) -> Iterator[int]:
    """Choose a block whose ports are all free, and keep it reserved while the `with` block runs.

    Args:
        first: The block to try first; then the next blocks are tried.

    Raises:
        SandboxError: Every block is in use.
    """
    for step in range(BLOCKS):
        block = (first + step) % BLOCKS
        held = reserve(f"ports.{block}")
        if held is None:
            continue
        with held:
            if all(port_is_free(first_port(block) + offset) for offset in range(_SIZE)):
                yield block
                return
    raise SandboxError(
        f"no {_SIZE} free ports in a row between {_FIRST} and {_FIRST + BLOCKS * _SIZE - 1}",
        hint="end what uses them",
    )


# --- how containers resolve `chief-0.<service>.<user>.sandbox.test` ---

_ETC = Path("/etc")

# Runs a command in a separate mount namespace.
PRIVATE_MOUNTS = ("unshare", "-m", "--propagation", "private")
_TRY = (*PRIVATE_MOUNTS, "/bin/sh", "-c", "mount --bind /dev/null /etc/resolv.conf")


def _why_not_system(block: int, environ: Mapping[str, str]) -> str:
    """Return why containers cannot use the system's resolver for the sandbox's names; "" if they
    can.

    The system's resolver sends queries to port 53 of the servers in /etc/resolv.conf. So Registry
    DNS needs port 53 of a loopback address, and the NodeManager needs a mount namespace with a
    separate /etc/resolv.conf, which containers inherit.
    """
    if os.geteuid() != 0:
        return "only root may listen on port 53 and have a mount namespace"
    if not (_ETC / "resolv.conf").exists():
        return "there is no /etc/resolv.conf to put another one over"
    try:
        switch = (_ETC / "nsswitch.conf").read_text()
    except OSError:
        switch = ""
    if re.search(r"^\s*hosts:.*\bresolve\b", switch, re.MULTILINE):
        return (
            "/etc/nsswitch.conf sends host names to systemd-resolved, which does not read "
            "/etc/resolv.conf"
        )
    try:
        tried = run(_TRY, environ)
    except SandboxError as error:
        return f"`unshare -m` does not work here: {error.message}"
    if tried.returncode != 0:
        return f"`unshare -m` and a bind mount do not work here: {tried.stderr.strip()}"
    if not port_is_free(53, dns_address(block)):
        return (
            f"port 53 of {dns_address(block)} is in use, by a DNS server that listens on every "
            f"address"
        )
    return ""


def choose_resolver(
    wanted: ResolverChoice, block: int, environ: Mapping[str, str]
) -> tuple[Resolver, str]:
    """Return how containers resolve names; and, if `auto` became `direct`, why `system` cannot be
    used, else "".

    With `system` the containers' resolver asks Registry DNS; with `direct` only the tasks
    themselves ask it; with `none` there is no Registry DNS.

    Raises:
        SandboxError: `system` was requested and is not available.
    """
    if wanted in ("direct", "none"):
        return wanted, ""
    reason = _why_not_system(block, environ)
    if not reason:
        return "system", ""
    if wanted == "system":
        raise SandboxError(
            f"the system's resolver cannot be used: {reason}",
            hint="use the resolver `direct`, or `auto`",
        )
    return "direct", reason


def hosts_file_text() -> str | None:
    """Return the text of a hosts file for the daemons; None if the machine can resolve its own
    name.

    Hadoop's daemons resolve the machine's own name when they start, and a NodeManager passes the
    address to its containers. Where the name does not resolve, Java reads names from this file
    instead.
    """
    name = socket.gethostname()
    try:
        socket.gethostbyname(name)
    except OSError:
        pass
    else:
        return None
    try:
        known = (_ETC / "hosts").read_text(errors="replace")
    except OSError:
        known = ""
    return f"127.0.0.1 localhost {name}\n{known}"
