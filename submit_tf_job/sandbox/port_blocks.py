"""Choose the ports of a sandbox: one block of 25, reserved as a whole, so that two sandboxes never
share ports.

A NodeManager does not check a cluster id: if another sandbox's ResourceManager listens on the
configured port, it joins that cluster and runs its containers. So a block is used only if *every*
port in it is free, and it stays reserved until the daemons listen. From then on any running daemon
keeps others from choosing the block, even while another daemon is dead.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from submit_tf_job import waiting
from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.locks import reserve

__all__ = [
    "BLOCKS",
    "PORT_NAMES",
    "block_ports",
    "dns_address",
    "keep_block",
    "pick_block",
    "port_is_free",
]

# Below the ephemeral range (32768) and below the range of job tasks (20000 to 32767).
_FIRST = 10000
_SIZE = 25
BLOCKS = 400

PORT_NAMES = (
    "zookeeper",
    "namenode",
    "namenode_http",
    "datanode",
    "datanode_http",
    "datanode_ipc",
    "rm_scheduler",
    "rm_tracker",
    "rm",
    "rm_admin",
    "rm_http",
    "nm",
    "nm_localizer",
    "nm_http",
    "dns",
    "kdc",
    "rm2_scheduler",
    "rm2_tracker",
    "rm2",
    "rm2_admin",
    "rm2_http",
)


def block_ports(block: int) -> dict[str, int]:
    """Return the ports of a block by purpose."""
    return {name: _FIRST + block * _SIZE + offset for offset, name in enumerate(PORT_NAMES)}


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
    """Choose a block whose ports are all free, and keep it reserved while the body runs.

    Args:
        first: Block to try first; the next ones follow.

    Raises:
        SandboxError: Every block is in use.
    """
    for step in range(BLOCKS):
        block = (first + step) % BLOCKS
        held = reserve(f"ports.{block}")
        if held is None:
            continue
        with held:
            if all(port_is_free(_FIRST + block * _SIZE + offset) for offset in range(_SIZE)):
                yield block
                return
    raise SandboxError(
        f"no {_SIZE} free ports in a row between {_FIRST} and {_FIRST + BLOCKS * _SIZE - 1}",
        hint="end what uses them",
    )


@contextlib.contextmanager
def keep_block(block: int) -> Iterator[None]:
    """Reserve the block that a sandbox already has, while the body restarts some of its daemons.

    Raises:
        SandboxError: Another process does not release the block.
    """
    for _ in waiting.SANDBOX_IS_UNLOCKED.attempts():
        if (held := reserve(f"ports.{block}")) is not None:
            with held:
                yield
            return
    raise SandboxError(
        "another sandbox is taking this sandbox's ports",
        hint="`sandbox down` this one, then `sandbox up`",
    )
