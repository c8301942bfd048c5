"""What goes into the sandbox and what comes out of it, as values."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from submit_tf_job.errors import SandboxError, UsageError
from submit_tf_job.settings import directories

__all__ = [
    "ALL_DAEMONS",
    "DAEMONS",
    "DOMAIN",
    "MODES",
    "REALM",
    "DaemonStatus",
    "DockerInfo",
    "KerberosInfo",
    "Mode",
    "Resolver",
    "ResolverChoice",
    "SandboxDirs",
    "SandboxInfo",
    "SandboxOptions",
    "SandboxStatus",
    "check_name",
    "daemons_of",
    "parse_modes",
    "profile_name",
]

Resolver = Literal["system", "direct"]
ResolverChoice = Literal["auto", "system", "direct"]

Mode = Literal["kerberos", "ha", "tls", "docker"]

# What `up --profile` takes beside `simple`, in the order in which a combination is written.
MODES: tuple[Mode, ...] = ("kerberos", "ha", "tls", "docker")

DOMAIN = "sandbox.test"
REALM = "SANDBOX.TEST"

# In the order in which they are shown; also the names that `logs` takes.
ALL_DAEMONS = ("dockerd", "kdc", "zookeeper", "namenode", "datanode", "resourcemanager", "resourcemanager2", "nodemanager", "registrydns")
_MORE: dict[Mode, str] = {"docker": "dockerd", "kerberos": "kdc", "ha": "resourcemanager2"}
# Those of a simple sandbox.
DAEMONS = tuple(name for name in ALL_DAEMONS if name not in _MORE.values())


def daemons_of(modes: Collection[Mode]) -> tuple[str, ...]:
    """Return the daemons that a sandbox of these modes has."""
    wanted = {*DAEMONS, *(daemon for mode, daemon in _MORE.items() if mode in modes)}
    return tuple(name for name in ALL_DAEMONS if name in wanted)


def parse_modes(words: Iterable[str]) -> tuple[Mode, ...]:
    """Read what `--profile` was given, such as `kerberos+ha`, each mode once and in their usual order.

    Raises:
        UsageError: when a word is no mode, or `simple` stands beside one.
    """
    asked = [part for word in words for part in word.split("+")]
    unknown = [part for part in asked if part not in ("simple", *MODES)]
    if unknown:
        raise UsageError(f"--profile takes simple, {', '.join(MODES)}, or several of the latter as kerberos+ha+tls, not {unknown[0]!r}")
    if "simple" in asked and set(asked) != {"simple"}:
        raise UsageError("--profile simple means without the others; leave it out")
    if {"docker", "kerberos"} <= set(asked):
        # A secure NodeManager runs each container as the user who submitted it, and the sandbox's users are nobody on this machine.
        raise UsageError("--profile docker and kerberos cannot be had together; docker goes with ha and tls")
    return tuple(mode for mode in MODES if mode in asked)


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
        modes: What it has beyond a simple cluster: Kerberos, two ResourceManagers, TLS, Docker. Default none.
        gpus: With Docker: GPUs that the NodeManager offers and the machine need not have. Default none.
        container_executor: With Docker: Hadoop's own container-executor, instead of the sandbox's.
        mounts: With Docker: what of this machine jobs may mount, `/dir` to read or `/dir:rw`.
    """

    hadoop_version: str | None = None
    hadoop_home: Path | None = None
    container_path: tuple[Path, ...] | None = None
    resolver: ResolverChoice | None = None
    memory_mib: int | None = None
    vcores: int | None = None
    modes: tuple[Mode, ...] | None = None
    gpus: int | None = None
    container_executor: Path | None = None
    mounts: tuple[str, ...] | None = None


@dataclass(frozen=True)
class DockerInfo:
    """The Docker Engine of a sandbox.

    Attributes:
        host: What DOCKER_HOST must be to reach it.
        address: Address of this machine on its bridge; HDFS and Registry DNS listen there.
        networks: Networks that jobs may use.
        executor: The container-executor in use; None for the sandbox's own.
        gpus: GPUs that the NodeManager offers.
    """

    host: str
    address: str
    networks: tuple[str, ...]
    executor: Path | None
    gpus: int


@dataclass(frozen=True)
class KerberosInfo:
    """Where the Kerberos of a sandbox is.

    Attributes:
        realm: Its realm.
        kdc: `address:port` of its KDC.
        krb5_conf: Configuration for clients: `KRB5_CONFIG`.
        keytabs: Directory with a keytab per principal, `alice.keytab` and `alice.localhost.keytab`.
        principal: Who the profile logs in as.
    """

    realm: str
    kdc: str
    krb5_conf: Path
    keytabs: Path
    principal: str


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
        rm_urls: Web addresses of all ResourceManagers, `rm_url` first.
        dns_server: `address:port` of Registry DNS.
        resolver: `system` if containers' own resolver knows Registry DNS, else `direct`.
        ports: Every port, by purpose.
        started: Daemons that this `up` started; empty if all were well.
        seconds: How long this `up` took.
        modes: What it has beyond a simple cluster.
        ca_file: CA that its certificates are checked against, None without TLS.
        kerberos: None without Kerberos.
        docker: None without Docker.
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
    rm_urls: tuple[str, ...] = ()
    modes: tuple[Mode, ...] = ()
    ca_file: Path | None = None
    kerberos: KerberosInfo | None = None
    docker: DockerInfo | None = None


@dataclass(frozen=True)
class DaemonStatus:
    """One daemon as it is now.

    Attributes:
        name: One of `ALL_DAEMONS`.
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
