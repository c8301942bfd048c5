"""The sandbox keeps to this machine: its daemons listen on loopback, and get nothing of the shell
that started them.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import clusters
from tests.clusters import Cluster
from tests.tool import SUBMIT_S, Result, Tool, until

pytestmark = pytest.mark.cluster

LISTENS = "0A"


def daemons(cluster: Cluster) -> dict[str, int]:
    """Return the process of each daemon."""
    state = json.loads((cluster.home / "state.json").read_text())
    return {name: int(daemon["pid"]) for name, daemon in state["daemons"].items()}


def listening(pid: int) -> Iterator[str]:
    """Yield the addresses on which a process accepts connections."""
    sockets = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            sockets.add(str(entry.readlink()))
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENS and f"socket:[{words[9]}]" in sockets:
                packed = bytes.fromhex(words[1].partition(":")[0])
                parts = [packed[at : at + 4][::-1] for at in range(0, len(packed), 4)]
                address = ipaddress.ip_address(b"".join(parts))
                mapped = getattr(address, "ipv4_mapped", None)
                yield str(mapped or address)


def test_daemons_listen_on_loopback(simple: Cluster) -> None:
    found = {name: set(listening(pid)) for name, pid in daemons(simple).items()}
    assert any(found.values()), found
    strangers = {
        name: addresses
        for name, addresses in found.items()
        if not all(ipaddress.ip_address(address).is_loopback for address in addresses)
    }
    assert not strangers


def test_daemons_have_nothing_of_the_shell(simple: Cluster) -> None:
    mark = b"OF_THE_SHELL="
    assert clusters.environment()["OF_THE_SHELL"], "the shell has it"
    for name, pid in daemons(simple).items():
        environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert not [value for value in environ if value.startswith(mark)], name


def test_sandbox_status_names_each_daemon(tool: Tool, simple: Cluster) -> None:
    def ask() -> Result:
        return tool("sandbox", "status", "--name", "simple", "-o", "json")

    told = ask().json["daemons"]
    assert {row["name"]: row["alive"] for row in told} == dict.fromkeys(daemons(simple), True)

    def all_are_healthy() -> bool:
        done = ask()
        return done.status == 0 and all(row["healthy"] for row in done.json["daemons"])

    # a daemon that is busy may answer the question for its health too late
    until(all_are_healthy, "all daemons are healthy", within_s=SUBMIT_S, pause_s=1)
