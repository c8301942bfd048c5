"""What a sandbox remembers of itself between two commands, and where its files are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.model import Resolver
from submit_tf_job.sandbox.processes import Process

__all__ = ["Layout", "State", "load_state", "save_state"]

_FORMAT = 1


@dataclass(frozen=True)
class Layout:
    """The files of one sandbox, all below `home`."""

    home: Path

    @property
    def state_file(self) -> Path:
        return self.home / "state.json"

    @property
    def conf(self) -> Path:
        return self.home / "conf"

    @property
    def client_conf(self) -> Path:
        return self.home / "client"

    @property
    def webroot(self) -> Path:
        return self.home / "webroot"

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def nm_local(self) -> Path:
        return self.run / "nm-local"

    @property
    def namenode(self) -> Path:
        return self.run / "nn"

    def log(self, daemon: str) -> Path:
        return self.run / "log" / f"{daemon}.log"

    def make(self) -> None:
        """Make every directory that the daemons do not make themselves."""
        # HDFS asks where its web pages are and the jars do not hold the directories; empty ones are enough.
        pages = [self.webroot / "webapps" / part for part in ("hdfs", "datanode", "secondary", "static")]
        data = [self.run / part for part in ("zk", "nn", "dn", "nm-local", "nm-log", "nm-recovery", "tmp", "log")]
        for directory in (self.conf, self.client_conf, *pages, *data):
            directory.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class State:
    """One sandbox, as chosen at its first `up`, and its processes.

    Attributes:
        ready: A first `up` came to its end; otherwise the next one starts over.
        block: Block of ports.
        dns_address, dns_port: Where Registry DNS listens.
        hosts_file: The daemons find names in a file of their own, because the machine's own name leads nowhere.
        daemons: Process of each daemon that was started.
    """

    name: str
    hadoop_version: str
    hadoop_home: str | None
    jars: str
    tarball: str | None
    java_home: str
    user: str
    block: int
    ports: Mapping[str, int]
    resolver: Resolver
    dns_address: str
    dns_port: int
    hosts_file: bool
    container_path: tuple[str, ...]
    memory_mib: int
    vcores: int
    profile_path: str
    recovery: bool
    ready: bool = False
    daemons: Mapping[str, Process] = field(default_factory=dict)

    def with_daemon(self, name: str, process: Process) -> State:
        """Return the state with one daemon's process replaced."""
        return replace(self, daemons={**self.daemons, name: process})


def save_state(layout: Layout, state: State) -> None:
    """Write the state so that a reader sees the old one or the new one, never a part."""
    part = layout.state_file.with_suffix(".part")
    part.write_text(json.dumps({"format": _FORMAT, **asdict(state)}, indent=1) + "\n")
    part.replace(layout.state_file)


def load_state(layout: Layout) -> State | None:
    """Read the state, None if there is no sandbox.

    Raises:
        SandboxError: when the file was not written by this version of the package.
    """
    try:
        data = cast("dict[str, Any]", json.loads(layout.state_file.read_text()))
        if data.pop("format", None) != _FORMAT:
            raise ValueError("unknown format")
        data["container_path"] = tuple(data["container_path"])
        data["daemons"] = {name: Process(**value) for name, value in data["daemons"].items()}
        return State(**data)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SandboxError(
            f"{layout.state_file} cannot be read: {error}", hint="`sandbox down` ends and removes this sandbox all the same"
        ) from None
