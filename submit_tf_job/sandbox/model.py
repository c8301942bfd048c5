"""What goes into the sandbox and what comes out of it, as values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from submit_tf_job.errors import SandboxError
from submit_tf_job.settings import directories

__all__ = [
    "DAEMONS",
    "DOMAIN",
    "DaemonStatus",
    "Resolver",
    "ResolverChoice",
    "SandboxDirs",
    "SandboxInfo",
    "SandboxOptions",
    "SandboxStatus",
    "check_name",
    "profile_name",
]

Resolver = Literal["system", "direct"]
ResolverChoice = Literal["auto", "system", "direct"]

DOMAIN = "sandbox.test"

# In the order in which they are shown; also the names that `logs` takes.
DAEMONS = ("zookeeper", "namenode", "datanode", "resourcemanager", "nodemanager", "registrydns")


@dataclass(frozen=True)
class SandboxDirs:
    """Where sandboxes live.

    Attributes:
        state_dir: Holds one directory per sandbox: configuration, data, logs.
        cache_dir: Holds the jars, shared by all sandboxes.
        config_dir: Directory of the settings; the profile goes to `profiles.d` in it.
    """

    state_dir: Path
    cache_dir: Path
    config_dir: Path

    @classmethod
    def standard(cls, environ: Mapping[str, str], config_dir: Path | None = None) -> SandboxDirs:
        """Return the directories that belong to an environment.

        Args:
            environ: Environment; HOME and the XDG variables count.
            config_dir: Where the settings are, if not in their usual place.
        """
        usual = directories(environ)
        return cls(usual.state / "sandbox", usual.cache, config_dir or usual.config)


@dataclass(frozen=True)
class SandboxOptions:
    """What a user may ask of `up`; None means: as the sandbox was started, or the default.

    Attributes:
        hadoop_version: Hadoop version, default `versions.DEFAULT_VERSION`.
        hadoop_home: An unpacked Hadoop whose jars are used instead of Maven's.
        container_path: Directories put first on the PATH of containers, such as the `bin` of a virtual environment with TensorFlow.
        resolver: How containers find names: `system` (root only), `direct`, or `auto`.
        memory_mib: Memory that the NodeManager offers; nominal, the machine need not have it. Default 12288.
        vcores: Cores that it offers, likewise nominal. Default 16.
    """

    hadoop_version: str | None = None
    hadoop_home: Path | None = None
    container_path: tuple[Path, ...] | None = None
    resolver: ResolverChoice | None = None
    memory_mib: int | None = None
    vcores: int | None = None


@dataclass(frozen=True)
class SandboxInfo:
    """A running sandbox.

    Attributes:
        name: Its name.
        profile: Name of the settings profile that reaches it.
        profile_path: File of that profile.
        hadoop_version: Hadoop version.
        user: OS user that the daemons run as; HDFS superuser, and owner of every container process.
        home: Directory of its configuration, data and logs.
        client_conf: Directory with core-site.xml, hdfs-site.xml and yarn-site.xml for clients.
        hdfs_uri: Default file system.
        rm_url, nm_url, namenode_url: Web addresses.
        dns_server: `address:port` of Registry DNS.
        resolver: `system` if containers' own resolver knows Registry DNS, else `direct`.
        ports: Every port, by purpose.
        started: Daemons that this `up` started; empty if all were well.
        seconds: How long this `up` took.
    """

    name: str
    profile: str
    profile_path: Path
    hadoop_version: str
    user: str
    home: Path
    client_conf: Path
    hdfs_uri: str
    rm_url: str
    nm_url: str
    namenode_url: str
    dns_server: str
    resolver: Resolver
    ports: Mapping[str, int]
    started: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class DaemonStatus:
    """One daemon as it is now.

    Attributes:
        name: One of `DAEMONS`.
        pid: Its process, None if it never started.
        alive: The process is there, and is ours.
        healthy: It answers as it should.
        reason: What is wrong, "" if nothing.
        ports: Ports it listens on.
        log: Its log file.
    """

    name: str
    pid: int | None
    alive: bool
    healthy: bool
    reason: str
    ports: tuple[int, ...]
    log: Path


@dataclass(frozen=True)
class SandboxStatus:
    """A sandbox as it is now: `down` (not there), `up` (all healthy) or `degraded`."""

    name: str
    state: Literal["down", "up", "degraded"]
    daemons: tuple[DaemonStatus, ...] = ()
    info: SandboxInfo | None = None


def check_name(name: str) -> None:
    """Refuse a sandbox name that would not do as a directory and as a profile name.

    Raises:
        SandboxError: when the name does not fit.
    """
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", name):
        raise SandboxError(f"{name!r} is no name for a sandbox", hint="use up to 32 lower-case letters, digits and hyphens")


def profile_name(name: str) -> str:
    """Return the settings profile of a sandbox."""
    return "sandbox" if name == "default" else f"sandbox-{name}"
