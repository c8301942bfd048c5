"""A separate Docker Engine beside the machine's own Docker; it is removed completely at the end.

The engine has a separate socket, data directory, bridge, addresses, control group and
configuration. It changes no firewall rules and no kernel settings, because those apply to the whole
machine. Therefore containers on its bridge can connect only to this machine and to one another;
with `--network host` there is no such limit.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox import processes
from submit_tf_job.sandbox.processes import (
    Process,
    end,
    find_program,
    group_members,
    launch,
    named_processes,
    path_with_sbin,
    reserve,
)

DOCKERD = "dockerd"

# Variables that dockerd gets from the caller.
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_PASSED = (*_PROXIES, *map(str.lower, _PROXIES), "SSL_CERT_FILE", "SSL_CERT_DIR")

# Short, because a socket's path has at most 107 bytes, and containerd creates sockets below.
RUN = Path("/run/submit_tf_job")
_CGROUPS = Path("/sys/fs/cgroup")
_BRIDGED = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
# The last /16 but one of Docker's range for networks: Docker allocates from the other end, and
# clouds use 172.31.
_RANGE = ipaddress.IPv4Network("172.30.0.0/16")
_BLOCKS = list(_RANGE.subnets(new_prefix=22))
# Starts dockerd in a separate mount namespace: its mounts end with its processes; its engine id,
# its plug-ins' sockets and those of containerd's shims are separate from the machine's; and it
# cannot find and use the machine's containerd.
_HIDDEN = ("/etc/docker", "/run/docker", "/run/containerd")
_PRIVATE = (
    f"for d in {' '.join(_HIDDEN)}; do mkdir -p $d && mount -t tmpfs -o mode=700 tmpfs $d || "
    f'exit 1; done; exec "$@"'
)


class Engine:
    """The Docker Engine of one sandbox; all its names and paths are made from its directory and the
    number of its network. Nothing is created or started by this class.

    Attributes:
        home: The directory of the engine's images, containers and log.
        number: The number of the engine's block of addresses.
        identity: The name of the engine's bridge and of its control group.
        run: The directory of the engine's sockets and of the state of its processes.
        host: The value for `docker -H` and DOCKER_HOST.
        block: All addresses of the engine: those of the bridge, then those of user networks.
        subnet: The addresses of containers on the bridge.
        address: The address that this machine has on the bridge.
        data: The directory of images and containers.
    """

    def __init__(self, home: Path, number: int) -> None:
        self.home = home
        self.number = number
        self.identity = f"tfj{hashlib.sha256(str(home.absolute()).encode()).hexdigest()[:8]}"
        self.run = RUN / self.identity
        self.host = f"unix://{self.run / 'docker.sock'}"
        self.block = _BLOCKS[number]
        self.subnet = next(self.block.subnets(new_prefix=24))
        self.address = str(self.subnet[1])
        self.data = home / "data"


def find_programs(environ: Mapping[str, str]) -> str:
    """Check that the programs that an engine needs are installed; return Docker's command line.

    Raises:
        SandboxError: A program is missing, or the user is not root.
    """
    if os.geteuid() != 0:
        raise SandboxError(
            "a Docker Engine can be started by root only",
            hint="run it as root, or leave docker out",
        )
    why = "a Docker Engine is started of the distribution's package"
    hint = (
        "install it (Debian, Ubuntu: apt-get install docker.io iptables iproute2); "
        "nothing of it has to run"
    )
    for name in (DOCKERD, "containerd", "runc", "iptables", "ip", "mount", "unshare"):
        find_program(name, environ, why, hint)
    return find_program("docker", environ, why, hint)


def call(argv: Sequence[str]) -> str:
    """Run a program and return its output, like `processes.call`, but with an environment that is
    always the same.
    """
    return processes.call(argv, {"PATH": path_with_sbin(os.environ), "LANG": "C.UTF-8"})


def _docker_command(engine: Engine, *words: str) -> str:
    # A fixed environment and an explicit address: the user's DOCKER_HOST or context would select
    # another engine.
    return call(["docker", "-H", engine.host, "--config", str(engine.run / "cli"), *words])


# --- its bridge ---


def make_bridge(home: Path) -> Engine:
    """Choose addresses that nothing on this machine uses, and create a bridge with them.

    Args:
        home: Directory of the engine.

    Raises:
        SandboxError: All addresses are in use, or the bridge cannot be created.
    """
    first = int(Engine(home, 0).identity[3:], 16)
    for step in range(len(_BLOCKS)):
        engine = Engine(home, (first + step) % len(_BLOCKS))
        held = reserve(f"network.{engine.number}")
        if held is None:
            continue
        with held:
            if _is_free(engine):
                restore_bridge(engine)
                return engine
    raise SandboxError(
        f"no free addresses for a Docker network in {_RANGE}",
        hint="`ip route` shows what uses them",
    )


def restore_bridge(engine: Engine) -> None:
    """Create an engine's bridge if it does not exist. A bridge outlives dockerd, so that servers
    on its address continue to work.

    Raises:
        SandboxError: The bridge cannot be created, or its addresses are in use meanwhile.
    """
    if _has_bridge(engine.identity):
        return
    if not _is_free(engine):
        raise SandboxError(
            f"the addresses {engine.block} are in use by now",
            hint="`sandbox down` and `sandbox up`; `ip route` shows by what",
        )
    call(["ip", "link", "add", engine.identity, "type", "bridge"])
    address = f"{engine.address}/{engine.subnet.prefixlen}"
    try:
        call(["ip", "address", "add", address, "dev", engine.identity])
        call(["ip", "link", "set", engine.identity, "up"])
    except SandboxError:
        call(["ip", "link", "delete", engine.identity])
        raise


def expose(engine: Engine, directories: Mapping[str, Path]) -> None:
    """Mount directories at a path that is the same for root, for containers and for the users in
    them: `engine.run` / name.

    The original path of a directory cannot be used: other users may have no access to a parent of
    it (such as a home directory), on this machine or in an image that has a directory with the same
    path.

    Raises:
        SandboxError: The directories cannot be mounted.
    """
    _make_run(engine)
    for name, directory in directories.items():
        target = engine.run / name
        target.mkdir(exist_ok=True)
        if not target.is_mount():
            call(["mount", "--bind", str(directory), str(target)])


def _make_run(engine: Engine) -> None:
    for directory in (RUN, engine.run):
        directory.mkdir(exist_ok=True)
        directory.chmod(0o711)


def _is_free(engine: Engine) -> bool:
    return not any(route.overlaps(engine.block) for route in _used_networks() if route.prefixlen)


def _used_networks() -> Iterator[ipaddress.IPv4Network]:
    for route in _ip_objects("route", "show", "table", "all"):
        with contextlib.suppress(ValueError):
            yield ipaddress.IPv4Network(route.get("dst", ""))


def _ip_objects(*words: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(call(["ip", "-json", "-4", *words]) or "[]")
    return rows


# --- dockerd ---


def _dockerd_argv(engine: Engine, mark: str, dns: str | None, options: Sequence[str]) -> list[str]:
    """Return dockerd's command line.

    Args:
        engine: The engine.
        mark: The label that marks dockerd's command line as the sandbox's.
        dns: The name server of all containers; None for the machine's name servers.
        options: Further options of dockerd.
    """
    pools = list(engine.block.subnets(new_prefix=24))[1:]
    own = engine.run
    return [
        DOCKERD,
        *("-H", engine.host),
        *("--data-root", str(engine.data), "--exec-root", str(own / "exec")),
        *("--pidfile", str(own / "dockerd.pid")),
        # Not the machine's daemon.json.
        *("--config-file", str(own / "daemon.json")),
        *("--bridge", engine.identity, "--iptables=false", "--ip-forward=false", "--ip-masq=false"),
        *(word for pool in pools for word in ("--default-address-pool", f"base={pool},size=26")),
        *(("--dns", dns) if dns else ()),
        # A separate control group identifies its containers, even when dockerd is dead.
        *("--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", f"/{engine.identity}"),
        *("--shutdown-timeout", "3", "--label", mark),
        *options,
    ]


def start_engine(
    engine: Engine,
    environ: Mapping[str, str],
    mark: str,
    log: Path,
    dns: str | None = None,
    options: Sequence[str] = (),
) -> Process:
    """Start dockerd on the bridge, and return its process without waiting until it is ready.

    Args:
        engine: The engine, whose bridge exists.
        environ: The caller's environment, of which dockerd gets the proxies, SSL_CERT_FILE and
            SSL_CERT_DIR.
        mark: The label that marks dockerd's command line as the sandbox's.
        log: The file for dockerd's output.
        dns: The name server of all containers; None for the machine's name servers.
        options: Further options of dockerd.

    Raises:
        SandboxError: dockerd could not be started.
    """
    # What a killed dockerd leaves does not answer the next one.
    end(named_processes("containerd", str(engine.run)), grace_s=1.0)
    engine.data.mkdir(parents=True, exist_ok=True)
    _make_run(engine)
    (engine.run / "daemon.json").write_text("{}\n")
    # Its pid file may hold a PID that belongs to another process by now.
    (engine.run / "dockerd.pid").unlink(missing_ok=True)
    variables = {name: environ[name] for name in _PASSED if name in environ}
    variables |= {"PATH": path_with_sbin(environ), "LANG": "C.UTF-8", "HOME": str(engine.home)}
    private = ["unshare", "-m", "--propagation", "slave", "/bin/sh", "-c", _PRIVATE, "sh"]
    argv = [*private, *_dockerd_argv(engine, mark, dns, options)]
    return launch(argv, variables, engine.home, log)


def server_version(engine: Engine) -> str:
    """Return the engine's version.

    Raises:
        SandboxError: The engine does not respond.
    """
    return _docker_command(engine, "version", "--format", "{{.Server.Version}}").strip()


def ensure_network(engine: Engine, name: str) -> None:
    """Create a user network if it does not exist.

    Raises:
        SandboxError: The network cannot be created.
    """
    if name not in _docker_command(engine, "network", "ls", "--format", "{{.Name}}").split():
        _docker_command(engine, "network", "create", name)


def bridge_problem(engine: Engine) -> str:
    """Return why containers on the engine's bridge cannot connect to one another; "" if they can,
    or if the firewall rules cannot be read.

    Docker without --iptables=false sets the policy of iptables' chain FORWARD to DROP, for the
    whole machine. If the kernel passes bridged packets to iptables (br_netfilter), this policy
    disconnects the containers of every other bridge. The sandbox changes no firewall rules, so it
    only reports this.
    """
    try:
        if not int(_BRIDGED.read_text()):
            return ""
        policy, *rules = call(["iptables", "-S", "FORWARD"]).splitlines()
    except (OSError, SandboxError):
        return ""
    wanted = f"FORWARD -i {engine.identity} -o {engine.identity} -j ACCEPT"
    if not policy.endswith(" DROP") or f"-A {wanted}" in rules:
        return ""
    return (
        f"the policy of iptables' chain FORWARD is DROP, as another Docker Engine sets it. "
        f"`iptables -I {wanted}` lets their packets pass; or use network: host"
    )


# --- its end ---


def end_engine(home: Path) -> bool:
    """End an engine with all its containers, and remove its mounts and bridges, but not its images;
    return whether any of these existed.

    Args:
        home: Directory of the engine.

    Raises:
        SandboxError: A process could not be ended, or a mount could not be removed.
    """
    engine = Engine(home.absolute(), 0)
    identity, sockets = engine.identity, engine.run
    found = sockets.exists() or _has_bridge(identity)
    if found:
        _remove_containers(engine)
        # The command lines of dockerd, containerd and its shims contain this path, those of other
        # engines do not.
        end(named_processes(DOCKERD, str(sockets)), grace_s=10.0)
        rest = named_processes("containerd", str(sockets))
        end([*rest, *group_members(identity)], grace_s=1.0)
        _remove_bridges(identity)
        _remove_groups(identity)
        _remove_run(sockets)
    return found


def _remove_containers(engine: Engine) -> None:
    """Kill and remove containers, and remove user networks with their bridges; do nothing if
    dockerd does not respond (`end_engine` then ends the processes and removes the bridges).
    """
    with contextlib.suppress(SandboxError):
        containers = _docker_command(engine, "ps", "--all", "--quiet", "--no-trunc").split()
        if containers:
            _docker_command(engine, "rm", "--force", "--volumes", *containers)
        networks = _docker_command(
            engine, "network", "ls", "--quiet", "--filter", "type=custom"
        ).split()
        if networks:
            _docker_command(engine, "network", "rm", *networks)


def _has_bridge(identity: str) -> bool:
    return (Path("/sys/class/net") / identity).exists()


def _remove_bridges(identity: str) -> None:
    """Remove the engine's bridge and the bridges of user networks, whose addresses are in the same
    block.
    """
    blocks = {
        row["ifname"]: {_block_of(entry["local"]) for entry in row.get("addr_info", ())} - {None}
        for row in _ip_objects("address", "show")
    }
    own = blocks.get(identity, set())
    for name, its in blocks.items():
        if name == identity or own & its:
            with contextlib.suppress(SandboxError):
                call(["ip", "link", "delete", name])


def _block_of(local: str) -> ipaddress.IPv4Network | None:
    return next((block for block in _BLOCKS if ipaddress.IPv4Address(local) in block), None)


def _remove_groups(identity: str) -> None:
    for top in (_CGROUPS / identity, *_CGROUPS.glob(f"*/{identity}*")):
        for directory, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                Path(directory).rmdir()


def _remove_run(sockets: Path) -> None:
    mounts = [Path(line.split()[1]) for line in Path("/proc/mounts").read_text().splitlines()]
    for point in (mount for mount in reversed(mounts) if mount.is_relative_to(sockets)):
        # Lazily: processes that still use the mount keep its files. Without the unmount, rmtree
        # would delete the mounted files.
        call(["umount", "--lazy", str(point)])
    shutil.rmtree(sockets, ignore_errors=True)
    with contextlib.suppress(OSError):
        RUN.rmdir()
        # This was the last engine. Removing a directory detaches mounts on it in other namespaces.
        for directory in _HIDDEN[1:]:
            with contextlib.suppress(OSError):
                Path(directory).rmdir()
