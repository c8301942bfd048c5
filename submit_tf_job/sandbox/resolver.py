"""Choose how containers find `chief-0.<service>.<user>.sandbox.test`."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.model import Resolver, ResolverChoice
from submit_tf_job.sandbox.ports import dns_address, port_is_free

__all__ = ["choose_resolver", "hosts_file_text", "why_not_system"]

_TRY = ("unshare", "-m", "--propagation", "private", "/bin/sh", "-c", "mount --bind /dev/null /etc/resolv.conf")


def why_not_system(
    block: int, environ: Mapping[str, str], etc: Path = Path("/etc"), is_root: Callable[[], bool] = lambda: os.geteuid() == 0
) -> str:
    """Say what keeps containers from using the system's resolver for the sandbox's names; "" if nothing does.

    The system's resolver asks port 53 of the servers in /etc/resolv.conf. So Registry DNS must get port 53 of some loopback address, and
    the NodeManager a mount namespace in which /etc/resolv.conf is its own; containers inherit it.
    """
    if not is_root():
        return "only root may listen on port 53 and have a mount namespace"
    if not (etc / "resolv.conf").exists():
        return "there is no /etc/resolv.conf to put another one over"
    try:
        switch = (etc / "nsswitch.conf").read_text()
    except OSError:
        switch = ""
    if re.search(r"^\s*hosts:.*\bresolve\b", switch, re.MULTILINE):
        return "/etc/nsswitch.conf sends host names to systemd-resolved, which does not read /etc/resolv.conf"
    try:
        tried = subprocess.run(_TRY, env=dict(environ), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"`unshare -m` does not work here: {error}"
    if tried.returncode != 0:
        return f"`unshare -m` and a bind mount do not work here: {tried.stderr.strip()}"
    if not port_is_free(53, dns_address(block)):
        return f"port 53 of {dns_address(block)} is in use, by a DNS server that listens on every address"
    return ""


def choose_resolver(wanted: ResolverChoice, block: int, environ: Mapping[str, str]) -> tuple[Resolver, str]:
    """Return the way to use, and why it is not the better one.

    Raises:
        SandboxError: when `system` was asked for and cannot be had.
    """
    if wanted == "direct":
        return "direct", ""
    reason = why_not_system(block, environ)
    if not reason:
        return "system", ""
    if wanted == "system":
        raise SandboxError(f"the system's resolver cannot be used: {reason}", hint="use the resolver `direct`, or `auto`")
    return "direct", reason


def hosts_file_text(etc: Path = Path("/etc"), name: str = "") -> str | None:
    """Return a hosts file for the daemons, None if the machine knows its own name.

    Hadoop's daemons look up the machine's own name as they start, and a NodeManager gives its containers the address found there. Where the
    name leads nowhere, Java is told to take names from this file instead.
    """
    name = name or socket.gethostname()
    try:
        socket.gethostbyname(name)
    except OSError:
        pass
    else:
        return None
    try:
        known = (etc / "hosts").read_text(errors="replace")
    except OSError:
        known = ""
    return f"127.0.0.1 localhost {name}\n{known}"
