"""The options of a sandbox, the state that is kept between two commands, the paths of the sandbox's
files, and the results of its commands.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, cast

from submit_tf_job.errors import SandboxError, UsageError
from submit_tf_job.sandbox import addresses
from submit_tf_job.sandbox.addresses import Resolver, ResolverChoice
from submit_tf_job.sandbox.engine import Engine
from submit_tf_job.sandbox.processes import Process, is_alive

Mode = Literal["kerberos", "ha", "tls", "docker"]

# The values of `up --profile` beside `simple`, in the order in which a combination is written.
MODES: tuple[Mode, ...] = ("kerberos", "ha", "tls", "docker")

DOMAIN = "sandbox.test"
REALM = "SANDBOX.TEST"

# The user that containers of a sandbox with Docker run as; it exists on every machine.
RUN_AS = "nobody"

# A NodeManager is a JVM of 200 to 400 MB.
MAX_NODES = 8
# The NodeManager of each node; the first one has no number.
NODEMANAGERS = ("nodemanager", *(f"nodemanager{number}" for number in range(2, MAX_NODES + 1)))


def parse_modes(words: Iterable[str]) -> tuple[Mode, ...]:
    """Parse the value of `--profile`, such as `kerberos+ha` or `kerberos,ha`; return each mode
    once, in a fixed order.

    Raises:
        UsageError: A word is not a mode, or `simple` is combined with a mode.
    """
    asked = [part for word in words for part in re.split("[+,]", word)]
    unknown = [part for part in asked if part not in ("simple", *MODES)]
    if unknown:
        raise UsageError(
            f"--profile takes simple, {', '.join(MODES)}, or several of the latter as "
            f"kerberos+ha+tls, not {unknown[0]!r}"
        )
    if "simple" in asked and set(asked) != {"simple"}:
        raise UsageError("--profile simple means without the others; leave it out")
    return tuple(mode for mode in MODES if mode in asked)


@dataclass(frozen=True)
class SandboxDirs:
    """The directories of sandboxes.

    Attributes:
        state_dir: Contains one directory for each sandbox: configuration, data, logs.
        cache_dir: Contains the jars, which all sandboxes share.
        config_dir: Directory of the settings; the profile is written to `profiles.d` in it.
    """

    state_dir: Path
    cache_dir: Path
    config_dir: Path


@dataclass(frozen=True)
class SandboxOptions:
    """The options of `up`. None means the value of the existing sandbox, or else the default.

    Attributes:
        hadoop_version: Hadoop version, default `jars.DEFAULT_VERSION`.
        hadoop_home: An unpacked Hadoop whose jars are used instead of Maven's.
        container_path: Directories put first on the PATH of containers, such as the `bin` of a
            virtual environment with TensorFlow.
        resolver: How containers resolve names: `system` (root only), `direct`, or `auto`; `none`
            for a sandbox without Registry DNS. Default `auto`.
        modes: Additions to a simple cluster: Kerberos, two ResourceManagers, TLS, Docker. Default
            none.
        gpus: With Docker: number of simulated GPUs that each node offers; the machine need not have
            any. Default none.
        executor: With Docker: Hadoop's own container-executor, instead of the sandbox's.
        mounts: With Docker: directories that jobs may mount, `/dir` to read or `/dir:rw`.
        default_timeouts: Keep Hadoop's default intervals and time-outs for jobs. Default no.
        nodes: Number of NodeManagers; each offers `gpus` GPUs. Default 1.
        memory_mib: Memory that each node offers to containers, in MiB; the machine need not have
            that much. Default 12 GiB.
        cpus: Cores that each node offers to containers; the machine need not have that many.
            Default 16.
    """

    hadoop_version: str | None = None
    hadoop_home: Path | None = None
    container_path: tuple[Path, ...] | None = None
    resolver: ResolverChoice | None = None
    modes: tuple[Mode, ...] | None = None
    gpus: int | None = None
    executor: Path | None = None
    mounts: tuple[str, ...] | None = None
    default_timeouts: bool | None = None
    nodes: int | None = None
    memory_mib: int | None = None
    cpus: int | None = None

    def chosen(self) -> dict[str, Any]:
        """Return the options that were given, by the names that `SandboxState` has for them."""
        given = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: _stored_value(value) for name, value in given.items() if value is not None}


def _stored_value(value: object) -> object:
    if isinstance(value, Path):
        return str(value.absolute())
    return tuple(map(_stored_value, value)) if isinstance(value, tuple) else value


def check_name(name: str) -> None:
    """Refuse a name of a sandbox that cannot be the name of a directory and of a profile.

    Raises:
        SandboxError: The name is not valid.
    """
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", name):
        raise SandboxError(
            f"{name!r} is not a valid sandbox name",
            hint="use up to 32 lower-case letters, digits and hyphens",
        )


def profile_name(name: str) -> str:
    """Return the name of the settings profile of a sandbox."""
    return "sandbox" if name == "default" else f"sandbox-{name}"


# --- files and state ---

_FORMAT = 2


class Layout:
    """The files of one sandbox, all below `home`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.state_file = home / "state.json"
        self.conf = home / "conf"
        self.client_conf = home / "client"
        self.webroot = home / "webroot"
        self.run = home / "run"
        self.namenode = self.run / "nn"
        self.kdc = home / "kdc"  # database and configuration of the KDC
        self.krb5_conf = self.kdc / "krb5.conf"
        self.keytabs = home / "keytabs"
        # the secret with which web servers sign their cookies
        self.http_secret = self.keytabs / "http.secret"
        # with Kerberos, the keytab that containers of Docker may read
        self.job_keytabs = home / "job-keytabs"
        self.tls = home / "tls"  # certificates and their stores
        self.ca_file = self.tls / "ca.pem"
        self.docker = home / "docker"  # the Docker Engine's data
        # the NodeManagers' directories as they are mounted for containers of Docker
        self.exposed = Engine(self.docker, 0).run
        # the sandbox's own container-executor and nvidia-smi
        self.programs = home / "bin"
        self.executor = self.programs / "container-executor"

    def of_node(self, node: int, name: str, *, exposed: bool = False) -> Path:
        """Return one of a node's directories: `conf`, `nm-local` (containers), `nm-log` (their
        output) or `nm-recovery`. With `exposed`, return the path that Docker containers see.
        """
        parent = self.home if name == "conf" else self.run
        return (self.exposed if exposed else parent) / f"{name}{'' if node == 1 else node}"

    def keytab(self, principal: str) -> Path:
        """Return the path of a principal's keytab: `alice.localhost.keytab` for
        `alice/localhost@REALM`.
        """
        return self.keytabs / f"{principal.partition('@')[0].replace('/', '.')}.keytab"

    def log(self, daemon: str) -> Path:
        return self.run / "log" / f"{daemon}.log"

    def make(self, nodes: int = 1) -> None:
        """Create every directory that the daemons do not create by themselves."""
        # HDFS requires the directories of its web pages, which the jars do not contain; empty ones
        # are enough.
        pages = [
            self.webroot / "webapps" / part for part in ("hdfs", "datanode", "secondary", "static")
        ]
        data = [self.run / part for part in ("zk", "nn", "dn", "tmp", "log")]
        names = ("nm-local", "nm-log", "nm-recovery")
        of_nodes = [self.of_node(node, name) for node in range(1, nodes + 1) for name in names]
        for directory in (self.conf, self.client_conf, *pages, *data, *of_nodes):
            directory.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class SandboxState:
    """One sandbox, with the options that were chosen at its first `up`, and its processes.

    Attributes:
        ready: Whether the first `up` has succeeded; otherwise the next `up` starts from scratch.
        jars: Directory of the jars.
        tarball: The jars as a tarball for the service AM; None if it does not need one.
        user: The user who started the sandbox, as whom the daemons run.
        block: Number of the block of ports (`addresses.first_port`).
        ports: Port by purpose (`daemons.TABLE`).
        resolver: How containers resolve names (`addresses.choose_resolver`).
        profile_path: The file of the settings profile.
        home: Directory of the sandbox.
        modes: The sandbox's additions to a simple cluster.
        native: Directory of libhadoop.so; None if the library is not needed.
        hosts_file: Whether the daemons read names from a separate file, because the machine's own
            name does not resolve.
        network: Number of the Docker Engine's block of addresses.
        gpus: Number of simulated GPUs that each NodeManager offers.
        executor: Path of Hadoop's own container-executor; None for the sandbox's.
        mounts: Directories that jobs may mount into their containers.
        default_timeouts: Whether Hadoop's default intervals and time-outs apply to jobs.
        nodes: Number of NodeManagers.
        memory_mib: Memory that each NodeManager offers to containers, in MiB.
        cpus: Cores that each NodeManager offers.
        daemons: Process of each daemon that was started.
    """

    name: str
    hadoop_version: str
    jars: str
    tarball: str | None
    java_home: str
    user: str
    block: int
    ports: Mapping[str, int]
    resolver: Resolver
    hosts_file: bool
    profile_path: str
    home: str = ""
    hadoop_home: str | None = None
    container_path: tuple[str, ...] = ()
    modes: tuple[Mode, ...] = ()
    native: str | None = None
    ready: bool = False
    network: int = 0
    gpus: int = 0
    executor: str | None = None
    mounts: tuple[str, ...] = ()
    default_timeouts: bool = False
    nodes: int = 1
    memory_mib: int = 12288
    cpus: int = 16
    daemons: Mapping[str, Process] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        """The paths of the sandbox's files."""
        return Layout(Path(self.home))

    @property
    def secure(self) -> bool:
        """Whether the sandbox uses Kerberos."""
        return "kerberos" in self.modes

    @property
    def dns(self) -> bool:
        """Whether the sandbox has Registry DNS."""
        return self.resolver != "none"

    @property
    def ha(self) -> bool:
        """Whether the sandbox has two ResourceManagers."""
        return "ha" in self.modes

    @property
    def tls(self) -> bool:
        """Whether YARN's web interfaces use https only. HDFS always uses http."""
        return "tls" in self.modes

    @property
    def docker(self) -> bool:
        """Whether containers run with Docker."""
        return "docker" in self.modes

    @property
    def submitter(self) -> str:
        """The user who submits jobs through the sandbox's profile.

        With Kerberos and Docker a NodeManager runs every container as its job's user, who must
        exist on this machine and must not be root (LinuxContainerExecutor).
        """
        return RUN_AS if self.secure and self.docker else self.user

    @property
    def profile(self) -> str:
        """The name of the sandbox's settings profile."""
        return profile_name(self.name)

    @property
    def dns_address(self) -> str:
        """The address at which Registry DNS listens."""
        if self.docker:  # containers on a bridge cannot connect to loopback
            return self.engine.address
        return addresses.dns_address(self.block) if self.resolver == "system" else "127.0.0.1"

    @property
    def dns_port(self) -> int:
        """The port at which Registry DNS listens."""
        return 53 if self.resolver == "system" else self.ports["dns"]

    @property
    def dns_server(self) -> str | None:
        """`address:port` of Registry DNS; None if the sandbox has none."""
        return f"{self.dns_address}:{self.dns_port}" if self.dns else None

    @property
    def kdc_address(self) -> str:
        """Address of the KDC, `address:port`; it is not loopback if there are containers on a
        bridge, which cannot connect to loopback.
        """
        return f"{self.engine.address if self.docker else '127.0.0.1'}:{self.ports['kdc']}"

    @property
    def engine(self) -> Engine:
        """The Docker Engine."""
        return Engine(self.layout.docker, self.network)

    @property
    def hdfs_host(self) -> str:
        """The address at which HDFS listens; it is not loopback if there are containers on a
        bridge, which cannot connect to loopback.
        """
        return self.engine.address if self.docker else "localhost"

    @property
    def hdfs_uri(self) -> str:
        """The URI of HDFS, which is the default file system."""
        return f"hdfs://{self.hdfs_host}:{self.ports['namenode']}"

    @property
    def nodemanagers(self) -> Mapping[str, int]:
        """The sandbox's NodeManagers: name → number of the node."""
        return {name: node for node, name in enumerate(NODEMANAGERS[: self.nodes], 1)}

    @property
    def recovery(self) -> bool:
        """Whether NodeManagers can recover their containers. They store the state in leveldb, whose
        native library exists only for some processors.
        """
        return platform.machine() in ("x86_64", "AMD64")

    @property
    def node_ids(self) -> tuple[str, ...]:
        """The ids of the nodes at the ResourceManager: host:port."""
        return tuple(f"{node_host(node)}:{self.ports['nm']}" for node in self.nodemanagers.values())

    @property
    def rm_urls(self) -> tuple[str, ...]:
        """Web addresses of the ResourceManagers."""
        purposes = ("rm_http", "rm2_http") if self.ha else ("rm_http",)
        return tuple(self._yarn_url("localhost", purpose) for purpose in purposes)

    @property
    def nm_urls(self) -> tuple[str, ...]:
        """Web addresses of the NodeManagers."""
        return tuple(
            self._yarn_url(node_host(node), "nm_http") for node in self.nodemanagers.values()
        )

    @property
    def namenode_url(self) -> str:
        """Web address of the NameNode."""
        return f"http://{self.hdfs_host}:{self.ports['namenode_http']}"

    def _yarn_url(self, host: str, purpose: str) -> str:
        return f"{'https' if self.tls else 'http'}://{host}:{self.ports[purpose]}"

    def is_alive(self, name: str) -> bool:
        """Return whether a daemon's process exists."""
        return name in self.daemons and is_alive(self.daemons[name])


def node_host(node: int) -> str:
    """Return the host of a node, which is also the address at which its NodeManager listens.

    Every node has an address of its own, as on a cluster, because YARN uses hosts for blacklists
    and placement; the ports of all nodes are the same. Except for the first node (`localhost`), the
    host is an address and not a name, because clients connect to it.
    """
    return "localhost" if node == 1 else f"127.0.0.{node}"


def save_state(state: SandboxState) -> None:
    """Write the state to its file, atomically."""
    part = state.layout.state_file.with_suffix(".part")
    part.write_text(json.dumps({"format": _FORMAT, **asdict(state)}, indent=1) + "\n")
    part.replace(state.layout.state_file)


def load_state(layout: Layout) -> SandboxState | None:
    """Read the state from its file; return None if the sandbox does not exist.

    Raises:
        SandboxError: The file is damaged, or was written by an incompatible version of the package.
    """
    try:
        data = cast("dict[str, Any]", json.loads(layout.state_file.read_text()))
        if data.pop("format", None) != _FORMAT:
            raise ValueError("unknown format")
        data |= {name: tuple(data.get(name, ())) for name in ("container_path", "modes", "mounts")}
        data["daemons"] = {name: Process(**value) for name, value in data["daemons"].items()}
        # A package of an earlier version saved more.
        known = SandboxState.__dataclass_fields__
        return SandboxState(**{name: value for name, value in data.items() if name in known})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SandboxError(
            f"{layout.state_file} cannot be read: {error}",
            hint="`sandbox down` ends and removes this sandbox all the same",
        ) from None


# --- what the commands return ---


@dataclass(frozen=True)
class StartedSandbox:
    """The result of `up`.

    Attributes:
        sandbox: The running sandbox.
        started: Daemons that this `up` started; empty if all were healthy.
        seconds: Duration of this `up`.
    """

    sandbox: SandboxState
    started: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class DaemonStatus:
    """The status of one daemon.

    Attributes:
        name: One of `daemons.TABLE`.
        pid: The PID of the daemon's process; None if the daemon never started.
        alive: Whether the process exists and belongs to this sandbox.
        healthy: Whether the daemon's health check passes.
        reason: Why the daemon is not healthy, or "".
        ports: The ports at which the daemon listens.
        log: The daemon's log file.
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
    """The status of a sandbox.

    Attributes:
        name: The sandbox's name.
        state: `up` (all daemons are healthy), `down` (the sandbox does not exist, or no daemon
            runs), or `degraded` (anything else).
        daemons: The status of each daemon; empty if the sandbox does not exist.
        sandbox: The sandbox; None if it is down.
    """

    name: str
    state: Literal["down", "up", "degraded"]
    daemons: tuple[DaemonStatus, ...] = ()
    sandbox: SandboxState | None = None
