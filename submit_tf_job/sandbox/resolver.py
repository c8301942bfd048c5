"""Choose how containers resolve `chief-0.<service>.<user>.sandbox.test`."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.options import Resolver, ResolverChoice
from submit_tf_job.sandbox.port_blocks import dns_address, port_is_free
from submit_tf_job.sandbox.processes import run

__all__ = ["PRIVATE_MOUNTS", "choose_resolver", "hosts_file_text"]

_ETC = Path("/etc")

# Runs a command in a separate mount namespace.
PRIVATE_MOUNTS = ("unshare", "-m", "--propagation", "private")
_TRY = (*PRIVATE_MOUNTS, "/bin/sh", "-c", "mount --bind /dev/null /etc/resolv.conf")


def _why_not_system(block: int, environ: Mapping[str, str]) -> str:
    """Return why containers cannot use the system's resolver for the sandbox's names; "" where they
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
        tried = run(_TRY, environ, timeout_s=20)
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
    """Return the resolver to use, and why `system` cannot be used in place of `direct`.

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
    """Return the text of a hosts file for the daemons, None if the machine resolves its own name.

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
