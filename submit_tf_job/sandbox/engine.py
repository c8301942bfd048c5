"""A Docker Engine of its own, beside whatever Docker the machine has, and gone without a trace at the end.

Socket, data, bridge, addresses, control group and configuration are its own. It sets no firewall rule and no kernel switch, because those
are the machine's: containers on its bridge reach this machine and one another, and nothing beyond; `--network host` reaches all.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.locks import reserve
from submit_tf_job.sandbox.processes import Process, end, group_members, is_alive, launch, marker, named_processes
from submit_tf_job.settings import process_environment

__all__ = [
    "DOCKERD",
    "Engine",
    "Programs",
    "dockerd_argv",
    "dockerd_path",
    "end_engine",
    "ensure_network",
    "expose",
    "find_programs",
    "make_bridge",
    "restore_bridge",
    "running_engine",
    "server_version",
    "start_engine",
    "wait_until_it_answers",
]

DOCKERD = "dockerd"

# Short, because a socket's path has at most 107 bytes, and containerd puts sockets of its own below.
RUN = Path("/run/submit_tf_job")
_CGROUPS = Path("/sys/fs/cgroup")
_SBIN = ("/usr/sbin", "/sbin", "/usr/local/sbin")
# Of Docker's own range for networks the last /16 but one: Docker takes from the other end, and 172.31 is what clouds use.
_RANGE = ipaddress.IPv4Network("172.30.0.0/16")
_BLOCK = 22
# dockerd in a mount namespace of its own: its mounts go when its processes do; the identity that it writes, its plug-ins' sockets and
# those of containerd's shims are nobody else's; and it does not find, and then use, the machine's containerd.
_HIDDEN = ("/etc/docker", "/run/docker", "/run/containerd")
_PRIVATE = f'for d in {" ".join(_HIDDEN)}; do mkdir -p $d && mount -t tmpfs -o mode=700 tmpfs $d || exit 1; done; exec "$@"'
_READY_S = 60.0
_CALL_S = 60.0


@dataclass(frozen=True)
class Programs:
    """What an engine is made of."""

    dockerd: str
    docker: str


@dataclass(frozen=True)
class Engine:
    """One engine; everything about it follows from its directory and the number of its network.

    Attributes:
        home: Directory of its images, containers and log.
        number: Which block of addresses it has.
        owner: Directory whose mark dockerd carries, if not its own.
        log: Output of dockerd; default in its own directory.
    """

    home: Path
    number: int
    owner: Path | None = None
    log: Path | None = None

    @property
    def identity(self) -> str:
        """Its name among the engines of this machine: that of its bridge and of its control group."""
        return _identity(self.home)

    @property
    def run(self) -> Path:
        """Directory of its sockets and of its processes' state."""
        return RUN / self.identity

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.run / "docker.sock"

    @property
    def host(self) -> str:
        """What `docker -H` and DOCKER_HOST take."""
        return f"unix://{self.socket}"

    @property
    def block(self) -> ipaddress.IPv4Network:
        """All its addresses: the bridge's, then those of user networks."""
        return _blocks()[self.number]

    @property
    def subnet(self) -> ipaddress.IPv4Network:
        """Addresses of containers on its bridge."""
        return next(self.block.subnets(new_prefix=24))

    @property
    def address(self) -> str:
        """Address that this machine has on its bridge."""
        return str(self.subnet[1])

    @property
    def data(self) -> Path:
        """Images and containers."""
        return self.home / "data"

    @property
    def log_file(self) -> Path:
        """Where dockerd's output is."""
        return self.log or self.home / "dockerd.log"


def _identity(home: Path) -> str:
    return f"tfj{hashlib.sha256(str(home.absolute()).encode()).hexdigest()[:8]}"


def _blocks() -> list[ipaddress.IPv4Network]:
    return list(_RANGE.subnets(new_prefix=_BLOCK))


# --- what it needs ---


def find_programs(environ: Mapping[str, str]) -> Programs:
    """Find what an engine is made of; distributions put part of it where users' PATH does not lead.

    Raises:
        SandboxError: when something is missing, or we are not root.
    """
    if os.geteuid() != 0:
        raise SandboxError("a Docker Engine can be started by root only", hint="run it as root, or leave docker out")
    path = dockerd_path(environ)
    found = {
        name: shutil.which(name, path=path) for name in (DOCKERD, "docker", "containerd", "runc", "iptables", "ip", "mount", "unshare")
    }
    missing = [name for name, where in found.items() if where is None]
    if missing:
        raise SandboxError(
            f"{missing[0]} was not found; a Docker Engine is started of the distribution's package",
            hint="install it (Debian, Ubuntu: apt-get install docker.io iptables iproute2); nothing of it has to run",
        )
    return Programs(str(found[DOCKERD]), str(found["docker"]))


def dockerd_path(environ: Mapping[str, str]) -> str:
    """Return a PATH on which dockerd finds containerd, runc and iptables."""
    return os.pathsep.join([environ.get("PATH") or os.defpath, *_SBIN])


def _call(argv: Sequence[str]) -> str:
    """Run a program; its own words where it fails.

    Raises:
        SandboxError: when it fails, or does not end.
    """
    own = {"PATH": dockerd_path(process_environment()), "LANG": "C.UTF-8"}
    try:
        done = subprocess.run(argv, env=own, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_CALL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxError(f"{argv[0]} could not be run: {error}") from None
    if done.returncode != 0:
        raise SandboxError(f"`{' '.join(argv)}` failed: {done.stderr.strip()}")
    return done.stdout


def _docker(engine: Engine, *words: str) -> str:
    # The environment is our own, and the address explicit: DOCKER_HOST or a context of the user's would lead to another engine.
    return _call(["docker", "-H", engine.host, "--config", str(engine.run / "cli"), *words])


# --- its bridge ---


def make_bridge(home: Path) -> Engine:
    """Choose addresses that nothing on this machine uses, and make the bridge that has them.

    Args:
        home: Directory of the engine.

    Raises:
        SandboxError: when there are none left, or the bridge cannot be made.
    """
    first = int(_identity(home)[3:], 16) % len(_blocks())
    for step in range(len(_blocks())):
        engine = Engine(home, (first + step) % len(_blocks()))
        held = reserve(f"network.{engine.number}")
        if held is None:
            continue
        with held:
            if _is_free(engine):
                restore_bridge(engine)
                return engine
    raise SandboxError(f"no free addresses for a Docker network in {_RANGE}", hint="`ip route` shows what uses them")


def restore_bridge(engine: Engine) -> None:
    """Make the bridge, if it is not there; it outlives dockerd, so that who listens on its address does as well.

    Raises:
        SandboxError: when it cannot be made, or something else has its addresses by now.
    """
    if _has_bridge(engine.identity):
        return
    if not _is_free(engine):
        raise SandboxError(
            f"the addresses {engine.block} are in use by now", hint="`sandbox down` and `sandbox up`; `ip route` shows by what"
        )
    _call(["ip", "link", "add", engine.identity, "type", "bridge"])
    try:
        _call(["ip", "address", "add", f"{engine.address}/{engine.subnet.prefixlen}", "dev", engine.identity])
        _call(["ip", "link", "set", engine.identity, "up"])
    except SandboxError:
        _call(["ip", "link", "delete", engine.identity])
        raise


def expose(engine: Engine, directories: Mapping[str, Path]) -> None:
    """Show directories at the same place to root, to containers and to who runs them: `engine.run` / name.

    Where they are, one of their parents may be closed to others (a home directory), here or in an image that has one of the same name.

    Raises:
        SandboxError: when they cannot be mounted.
    """
    _make_run(engine)
    for name, directory in directories.items():
        target = engine.run / name
        target.mkdir(exist_ok=True)
        if not target.is_mount():
            _call(["mount", "--bind", str(directory), str(target)])


def _make_run(engine: Engine) -> None:
    for directory in (RUN, engine.run):
        directory.mkdir(exist_ok=True)
        directory.chmod(0o711)


def _is_free(engine: Engine) -> bool:
    return not any(route.overlaps(engine.block) for route in _routes() if route.prefixlen)


def _routes() -> Iterator[ipaddress.IPv4Network]:
    for route in _ip("route", "show", "table", "all"):
        with contextlib.suppress(ValueError):
            yield ipaddress.IPv4Network(route.get("dst", ""))


def _ip(*words: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(_call(["ip", "-json", "-4", *words]) or "[]")
    return rows


# --- dockerd ---


def dockerd_argv(engine: Engine, dns: str | None = None, options: Sequence[str] = ()) -> list[str]:
    """Return dockerd's command line.

    Args:
        engine: The engine.
        dns: The name server of all containers; None for those of the machine.
        options: Further options of dockerd.
    """
    pools = list(engine.block.subnets(new_prefix=24))[1:]
    run = engine.run
    return [
        DOCKERD,
        *("-H", engine.host),
        *("--data-root", str(engine.data), "--exec-root", str(run / "exec"), "--pidfile", str(run / "dockerd.pid")),
        # Not the machine's daemon.json.
        *("--config-file", str(run / "daemon.json")),
        *("--bridge", engine.identity, "--iptables=false", "--ip-forward=false", "--ip-masq=false"),
        *(word for pool in pools for word in ("--default-address-pool", f"base={pool},size=26")),
        *(("--dns", dns) if dns else ()),
        # A control group of its own is how its containers are known, also when dockerd is dead.
        *("--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", f"/{engine.identity}"),
        *("--shutdown-timeout", "3", "--label", marker(engine.owner or engine.home)),
        *options,
    ]


def start_engine(engine: Engine, environ: Mapping[str, str], dns: str | None = None, options: Sequence[str] = ()) -> Process:
    """Start dockerd on the bridge and return its process at once.

    Raises:
        SandboxError: when it could not be started at all.
    """
    engine.data.mkdir(parents=True, exist_ok=True)
    _make_run(engine)
    (engine.run / "daemon.json").write_text("{}\n")
    # Its pid file may name a process of this number that is somebody else now.
    (engine.run / "dockerd.pid").unlink(missing_ok=True)
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR")
    variables = {name: environ[name] for name in proxies if name in environ}
    variables |= {"PATH": dockerd_path(environ), "LANG": "C.UTF-8", "HOME": str(engine.home)}
    private = ["unshare", "-m", "--propagation", "slave", "/bin/sh", "-c", _PRIVATE, "sh"]
    return launch([*private, *dockerd_argv(engine, dns, options)], variables, engine.home, engine.log_file)


def server_version(engine: Engine) -> str:
    """Ask the engine for its version.

    Raises:
        SandboxError: when it does not answer.
    """
    return _docker(engine, "version", "--format", "{{.Server.Version}}").strip()


def ensure_network(engine: Engine, name: str) -> None:
    """Make a user network, if it is not there.

    Raises:
        SandboxError: when it cannot be made.
    """
    if name not in _docker(engine, "network", "ls", "--format", "{{.Name}}").split():
        _docker(engine, "network", "create", name)


def wait_until_it_answers(engine: Engine, process: Process, timeout_s: float = _READY_S) -> None:
    """Wait for a dockerd that was just started.

    Raises:
        SandboxError: when it ended, or never answered, with the end of its log.
    """
    deadline = time.monotonic() + timeout_s
    while not _answers(engine):
        alive = is_alive(process)
        if not alive or time.monotonic() > deadline:
            what = "does not answer" if alive else "ended while it started"
            lines = "\n".join(engine.log_file.read_text(errors="replace").splitlines()[-15:])
            raise SandboxError(f"dockerd {what}; the end of its log:\n{lines}", hint=f"the whole log is {engine.log_file}")
        time.sleep(0.1)


def _answers(engine: Engine) -> bool:
    try:
        server_version(engine)
    except SandboxError:
        return False
    return True


@contextlib.contextmanager
def running_engine(home: Path, environ: Mapping[str, str], dns: str | None = None) -> Iterator[Engine]:
    """Have an engine while the body runs; afterwards nothing of it is left.

    Args:
        home: Directory for its data, made and removed.
        environ: Environment; PATH and proxies are used.
        dns: The name server of all containers; None for those of the machine.

    Raises:
        SandboxError: when it cannot be had.

    Example:
        >>> with running_engine(Path("/var/tmp/engine"), os.environ) as engine:
        ...     subprocess.run(["docker", "-H", engine.host, "info"])
    """
    find_programs(environ)
    home = home.absolute()
    end_engine(home)
    try:
        home.mkdir(parents=True)
        engine = make_bridge(home)
        wait_until_it_answers(engine, start_engine(engine, environ, dns))
        yield engine
    finally:
        end_engine(home)


# --- its end ---


def end_engine(home: Path, *, keep_data: bool = False) -> bool:
    """End an engine with all its containers, dead or alive, and remove its mounts, bridges and files; say whether there was anything.

    Args:
        home: Directory of the engine.
        keep_data: Leave its images.

    Raises:
        SandboxError: when a process could not be ended.
    """
    home = home.absolute()
    identity, run = _identity(home), RUN / _identity(home)
    found = run.exists() or _has_bridge(identity)
    if found:
        _remove_containers(Engine(home, 0))
        # dockerd, containerd and its shims have this path in their command lines, which those of no other engine have.
        end(named_processes((DOCKERD,), str(run)), grace_s=10.0)
        end([*named_processes(("containerd",), str(run)), *group_members(identity)], grace_s=1.0)
        _remove_bridges(identity)
        _remove_groups(identity)
        _remove_run(run)
    if not keep_data:
        shutil.rmtree(home, ignore_errors=True)
    return found


def _remove_containers(engine: Engine) -> None:
    """Kill and remove containers, and user networks with their bridges, as long as dockerd can; the rest ends those of a dead one."""
    with contextlib.suppress(SandboxError):
        containers = _docker(engine, "ps", "--all", "--quiet", "--no-trunc").split()
        if containers:
            _docker(engine, "rm", "--force", "--volumes", *containers)
        networks = _docker(engine, "network", "ls", "--quiet", "--filter", "type=custom").split()
        if networks:
            _docker(engine, "network", "rm", *networks)


def _has_bridge(identity: str) -> bool:
    return (Path("/sys/class/net") / identity).exists()


def _remove_bridges(identity: str) -> None:
    """Remove the bridge, and those of user networks, which have addresses of the same block."""
    links = {row["ifname"]: [entry["local"] for entry in row.get("addr_info", ())] for row in _ip("address", "show")}
    own = [block for block in _blocks() for local in links.get(identity, ()) if ipaddress.IPv4Address(local) in block]
    for name, addresses in links.items():
        if name == identity or any(ipaddress.IPv4Address(local) in block for local in addresses for block in own):
            with contextlib.suppress(SandboxError):
                _call(["ip", "link", "delete", name])


def _remove_groups(identity: str) -> None:
    for top in (_CGROUPS / identity, *_CGROUPS.glob(f"*/{identity}*")):
        for directory, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                Path(directory).rmdir()


def _remove_run(run: Path) -> None:
    mounts = [Path(line.split()[1]) for line in Path("/proc/mounts").read_text().splitlines()]
    for point in (mount for mount in reversed(mounts) if mount.is_relative_to(run)):
        # Lazily: who still looks into it sees its files to the end. Not undone, what it shows would be removed with it.
        _call(["umount", "--lazy", str(point)])
    shutil.rmtree(run, ignore_errors=True)
    with contextlib.suppress(OSError):
        RUN.rmdir()
        # The last engine is gone: to remove a directory undoes what another namespace has mounted on it.
        for directory in _HIDDEN[1:]:
            with contextlib.suppress(OSError):
                Path(directory).rmdir()
