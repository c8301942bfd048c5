"""Start a sandbox, repair it, report its status, and remove it."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import time
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox import addresses, daemons, docker, hadoop_config
from submit_tf_job.sandbox.addresses import Resolver
from submit_tf_job.sandbox.daemons import NODEMANAGER_MAIN, REGISTRY_DNS_MAIN, TABLE, names_of
from submit_tf_job.sandbox.engine import (
    DOCKERD,
    bridge_problem,
    end_engine,
    make_bridge,
    restore_bridge,
)
from submit_tf_job.sandbox.hardening import find_programs, make_certificates, make_kdc
from submit_tf_job.sandbox.jars import (
    DEFAULT_VERSION,
    JarSet,
    ensure_jars,
    ensure_native,
    find_java_home,
    jars_of_home,
    line_of,
    version_of_home,
)
from submit_tf_job.sandbox.processes import end, lock, marked_processes
from submit_tf_job.sandbox.startup import (
    Progress,
    containers_of,
    last_lines,
    refuse_taken_ports,
    start_daemons,
    wait_until_well,
)
from submit_tf_job.sandbox.state import (
    MAX_NODES,
    DaemonStatus,
    Layout,
    SandboxDirs,
    SandboxOptions,
    SandboxState,
    SandboxStatus,
    StartedSandbox,
    check_name,
    load_state,
    profile_name,
    save_state,
)
from submit_tf_job.sandbox.web import NotWell, require_gssapi

_LOCK_TIMEOUT_S = 300.0


class Sandbox:
    """One sandbox of this machine, which its name identifies.

    Args:
        name: The sandbox's name.
        dirs: The directories of all sandboxes.
        environ: Environment. JAVA_HOME, PATH and a few other variables are used; the daemons
            inherit no other variables.
        progress: Called with one line per step.

    Raises:
        SandboxError: The name is not valid.

    Example:
        >>> dirs = SandboxDirs(Path("/srv/state"), Path("/srv/cache"), Path("/srv/config"))
        >>> sandbox = Sandbox("default", dirs, os.environ, print)
        >>> started = sandbox.up(SandboxOptions())
        >>> sandbox.down()
    """

    def __init__(
        self, name: str, dirs: SandboxDirs, environ: Mapping[str, str], progress: Progress
    ) -> None:
        check_name(name)
        self.name = name
        self._dirs = dirs
        self._environ = environ
        self._progress = progress
        self._layout = Layout(dirs.state_dir.resolve() / name)

    def up(self, options: SandboxOptions) -> StartedSandbox:
        """Start the sandbox, or those of its daemons that do not run, and write its settings
        profile; return when all daemons are healthy. A sandbox whose first `up` failed is removed
        and started anew.

        Args:
            options: The options; they must not differ from those of an existing sandbox.

        Raises:
            SandboxError: An option is not supported or differs, a program is missing, or a daemon
                did not start; the message then has its name and the end of its log. The processes
                that this call started have been ended.
        """
        begun = time.monotonic()
        with self._lock_home():
            state = load_state(self._layout)
            if state is not None and state.ready:
                _refuse_changes(state, options)
                state, started = self._restart_unhealthy(state)
            else:
                end_everything(self._layout)
                shutil.rmtree(self._layout.home, ignore_errors=True)
                state = self._first_start_or_nothing(options)
                started = names_of(state)
            hadoop_config.write_profile(state)
            if state.docker and (cut_off := bridge_problem(state.engine)):
                self._progress(
                    f"warning: containers on a bridge cannot reach one another: {cut_off}"
                )
        return StartedSandbox(state, tuple(started), time.monotonic() - begun)

    def down(self, *, keep: bool = False) -> bool:
        """End every process of the sandbox, including containers, and remove its files and its
        profile.

        Args:
            keep: Keep configuration, data and logs; a later `up` continues with them.

        Returns:
            Whether anything was ended or removed.

        Raises:
            SandboxError: A process could not be ended, a file could not be removed, or another
                process works on the sandbox.
        """
        with self._lock_home():
            there = self._layout.home.exists()
            ended = end_everything(self._layout)
            with contextlib.suppress(SandboxError):
                state = load_state(self._layout)
                if state is not None:
                    Path(state.profile_path).unlink(missing_ok=True)
            self._profile_path().unlink(missing_ok=True)
            if not keep:
                self._remove_home()
        return there or ended

    def status(self) -> SandboxStatus:
        """Return the status of each daemon.

        Raises:
            SandboxError: The state file cannot be read.
        """
        state = load_state(self._layout)
        if state is None:
            return SandboxStatus(self.name, "down")
        rows = tuple(self._daemon_status(name, state) for name in names_of(state))
        if not any(row.alive for row in rows):
            return SandboxStatus(self.name, "down", rows)
        health: Literal["up", "degraded"] = "degraded"
        if all(row.healthy for row in rows):
            health = "up"
        return SandboxStatus(self.name, health, rows, state)

    def logs(self, daemon: str, tail: int | None = None) -> str:
        """Return a daemon's log.

        Args:
            daemon: One of `daemons.TABLE`.
            tail: The number of last lines to return; None for all.

        Raises:
            SandboxError: The daemon or its log does not exist.
        """
        if daemon not in TABLE:
            raise SandboxError(
                f"there is no daemon {daemon!r}", hint=f"daemons are {', '.join(TABLE)}"
            )
        path = self._layout.log(daemon)
        if not path.is_file():
            raise SandboxError(
                f"the sandbox {self.name} has no log of {daemon}", hint="`sandbox up` first"
            )
        if tail is None:
            return path.read_text(errors="replace")
        return "\n".join(last_lines(path, tail))

    def _lock_home(self) -> contextlib.AbstractContextManager[None]:
        return lock(
            self._layout.home,
            _LOCK_TIMEOUT_S,
            lambda: self._progress(f"another process is working on the sandbox {self.name}"),
        )

    def _profile_path(self) -> Path:
        return self._dirs.config_dir.absolute() / "profiles.d" / f"{profile_name(self.name)}.yaml"

    def _first_start_or_nothing(self, options: SandboxOptions) -> SandboxState:
        try:
            return self._first_start(options)
        except BaseException:
            end_everything(self._layout)
            # With a state file the directory has logs of daemons; without one nothing is worth
            # keeping.
            if not self._layout.state_file.exists():
                shutil.rmtree(self._layout.home, ignore_errors=True)
            raise

    def _first_start(self, options: SandboxOptions) -> SandboxState:
        _check_path(self._layout.home)
        user = _user_name()
        java_home = find_java_home(self._environ)
        docker.check_options(options, self._environ)
        _check_container_path(options)
        _check_nodes(options)
        native = self._prepare_kerberos(options)
        jars = self._find_jars(options)
        # The same sandbox mostly gets the same ports.
        first_block = zlib.crc32(f"{user} {self._layout.home}".encode()) % addresses.BLOCKS
        with addresses.pick_block(first_block) as block:
            hosts = addresses.hosts_file_text()
            found = {
                "name": self.name,
                "hadoop_version": jars.version,
                "jars": str(jars.directory),
                "tarball": jars.tarball and str(jars.tarball),
                "java_home": str(java_home),
                "user": user,
                "block": block,
                "ports": daemons.block_ports(block),
                "resolver": self._choose_resolver(options, block),
                "hosts_file": hosts is not None,
                "profile_path": str(self._profile_path()),
                "home": str(self._layout.home),
                "native": native,
            }
            state = SandboxState(**{**options.chosen(), **found})
            if state.docker:
                state = _with_docker(state)
            _write_files(state, hosts, self._environ)
            save_state(state)
            if state.docker:
                docker.write_programs(state, self._environ)
            state = start_daemons(names_of(state), state, self._environ, self._progress)
        state = replace(state, ready=True)
        save_state(state)
        return state

    def _choose_resolver(self, options: SandboxOptions, block: int) -> Resolver:
        """Choose how containers resolve names; Docker containers have their own resolver
        configuration.
        """
        wanted = options.resolver or "auto"
        if wanted != "none" and "docker" in (options.modes or ()):
            return "system"
        resolver, why_not = addresses.choose_resolver(wanted, block, self._environ)
        if why_not:
            self._progress(f"containers will not find names by the system's resolver: {why_not}")
        return resolver

    def _prepare_kerberos(self, options: SandboxOptions) -> str | None:
        """Find the programs and libraries of Kerberos before anything is created; return the
        directory of libhadoop.so, or None for a sandbox without Kerberos.
        """
        if "kerberos" not in (options.modes or ()):
            return None
        version = options.hadoop_version or DEFAULT_VERSION
        if options.hadoop_home is not None:
            version = version_of_home(options.hadoop_home.absolute())
        if not line_of(version).am_java_opts:
            raise SandboxError(
                f"a sandbox with Kerberos cannot be had of Hadoop {version}: its "
                f"ApplicationMaster cannot be told where Kerberos is",
                hint="choose 3.3.5 or 3.4.2, or leave kerberos out",
            )
        require_gssapi()
        find_programs(self._environ)
        cache = self._dirs.cache_dir.absolute()
        return str(ensure_native(options.hadoop_home, cache, self._environ, self._progress))

    def _find_jars(self, options: SandboxOptions) -> JarSet:
        if options.hadoop_home is None:
            version = options.hadoop_version or DEFAULT_VERSION
            cache = self._dirs.cache_dir.absolute()
            return ensure_jars(version, cache, self._environ, self._progress)
        jars = jars_of_home(options.hadoop_home.absolute(), self._layout.home / "jars")
        if options.hadoop_version not in (None, jars.version):
            raise SandboxError(
                f"{options.hadoop_home} holds Hadoop {jars.version}, not {options.hadoop_version}"
            )
        return jars

    def _restart_unhealthy(self, state: SandboxState) -> tuple[SandboxState, tuple[str, ...]]:
        # Only a restart makes such a NodeManager healthy again.
        end((state.daemons[name] for name in daemons.gave_up(state)), grace_s=5.0)
        dead = _dead_daemons(state)
        try:
            return self._start_again(dead, state), dead
        except SandboxError:
            # A killed process takes a moment to end, so the first check may have found it alive.
            died = _dead_daemons(state)
            if died == dead:
                raise
            return self._start_again(died, state), died

    def _start_again(self, dead: tuple[str, ...], state: SandboxState) -> SandboxState:
        if not dead:
            wait_until_well(state, self._progress)
            return state
        if state.secure:
            require_gssapi()
        if "dockerd" in dead:
            restore_bridge(state.engine)  # removed by `down --keep`; other daemons listen on it
        for name in dead:
            refuse_taken_ports(name, state)
        return start_daemons(dead, state, self._environ, self._progress)

    def _remove_home(self) -> None:
        shutil.rmtree(self._layout.home, ignore_errors=True)
        if self._layout.home.exists():
            raise SandboxError(
                f"{self._layout.home} could not be removed completely",
                hint="look at what is in it, and remove it",
            )

    def _daemon_status(self, name: str, state: SandboxState) -> DaemonStatus:
        pid, reason = None, ""
        if name in state.daemons:
            pid = state.daemons[name].pid
        try:
            daemons.check_daemon(name, state)
        except NotWell as problem:
            reason = str(problem)
        # Check after the health check: the process may have ended during that check.
        is_there = state.is_alive(name)
        if not is_there:
            reason = "it is not running"
        ports, log = daemons.daemon_ports(name, state), self._layout.log(name)
        return DaemonStatus(name, pid, is_there, not reason, reason, ports, log)


def end_everything(layout: Layout) -> bool:
    """End a sandbox's processes, even without a state file; return whether any existed.

    Raises:
        SandboxError: A process could not be ended.
    """
    running = marked_processes(layout.home, [daemon.main for daemon in TABLE.values()])
    # On SIGTERM a NodeManager ends its containers itself. Registry DNS does not end on SIGTERM,
    # least of all after ZooKeeper has ended. dockerd is needed until its containers have ended.
    first = {NODEMANAGER_MAIN: 5.0, REGISTRY_DNS_MAIN: 0.5}
    for main, grace_s in first.items():
        end((process for process, its in running.items() if its == main), grace_s)
    rest = (process for process, its in running.items() if its not in (*first, DOCKERD))
    end(rest, grace_s=3.0)
    found = bool(running)
    # A container that is being killed may have just started another process.
    nodes = [node for node in range(1, MAX_NODES + 1) if layout.of_node(node, "nm-local").exists()]
    for _ in range(5):
        left = [process for node in nodes for process in containers_of(layout, node)]
        if not left:
            break
        found = True
        end(left, grace_s=1.0)
    return end_engine(layout.docker) or found


def _with_docker(state: SandboxState) -> SandboxState:
    """Choose addresses for the Docker Engine, create its bridge, and return the state with them.
    HDFS and Registry DNS listen at the address to which the engine's containers can connect.
    """
    engine = make_bridge(state.layout.docker)
    if state.dns and not addresses.port_is_free(53, engine.address):
        raise SandboxError(
            f"port 53 of {engine.address} is in use, by a DNS server that listens on every address",
            hint="have that server listen on the addresses that it serves",
        )
    return replace(state, network=engine.number)


def _write_files(state: SandboxState, hosts: str | None, environ: Mapping[str, str]) -> None:
    layout = state.layout
    layout.make(state.nodes)
    if state.secure:
        make_kdc(state, environ)
    if state.tls:
        make_certificates(state, environ)
    for daemon in names_of(state):
        directory = hadoop_config.conf_dir(daemon, state)
        directory.mkdir(exist_ok=True)
        for name, text in hadoop_config.daemon_files(daemon, state).items():
            (directory / name).write_text(text)
    for name, text in hadoop_config.client_files(state).items():
        (layout.client_conf / name).write_text(text)
    if hosts is not None:
        (layout.conf / "hosts").write_text(hosts)
    if state.resolver == "system" and not state.docker:
        (layout.conf / "resolv.conf").write_text(
            hadoop_config.resolv_conf(state, Path("/etc/resolv.conf").read_text(errors="replace"))
        )


def _dead_daemons(state: SandboxState) -> tuple[str, ...]:
    return tuple(name for name in names_of(state) if not state.is_alive(name))


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise SandboxError(
            f"the user id {os.geteuid()} has no name on this machine, and Hadoop cannot "
            f"log in without one"
        ) from None


def _check_path(home: Path) -> None:
    """Refuse a path that Hadoop would split: it splits lists at commas, and classpaths at colons.
    Characters that a URI would have to escape are refused, too.
    """
    if not re.fullmatch(r"[A-Za-z0-9/._@+=-]+", str(home)):
        raise SandboxError(
            f"Hadoop cannot work in {home}",
            hint="use a directory whose path has only letters, digits and / . _ @ + = -",
        )


def _check_container_path(options: SandboxOptions) -> None:
    for directory in options.container_path or ():
        if not directory.is_dir():
            raise SandboxError(
                f"{directory}, which is to be on the PATH of containers, is not a directory",
                hint="name one, such as the bin of a virtual environment",
            )


def _check_nodes(options: SandboxOptions) -> None:
    """Refuse several nodes with Kerberos or TLS: the principals and the certificate are for
    `localhost`.
    """
    if (options.nodes or 1) > 1 and {"kerberos", "tls"} & set(options.modes or ()):
        raise SandboxError(
            "several nodes cannot be combined with Kerberos or TLS, whose principals and "
            "certificate are for localhost",
            hint="leave --nodes out, or kerberos and tls",
        )


def _refuse_changes(state: SandboxState, options: SandboxOptions) -> None:
    """Refuse options that differ from those of the existing sandbox.

    Raises:
        SandboxError: An option differs; the message names the first one.
    """
    for name, asked in options.chosen().items():
        running = getattr(state, name)
        if asked not in (running, "auto"):
            raise SandboxError(
                f"the sandbox {state.name} was made with {_CALLED.get(name, name)} "
                f"{_shown_value(name, running)}, not {_shown_value(name, asked)}",
                hint="`sandbox down` removes it with its data; or give another name to have both",
            )


_CALLED = {
    "hadoop_version": "Hadoop",
    "hadoop_home": "the Hadoop home",
    "container_path": "the containers' path",
    "resolver": "the resolver",
    "modes": "the profile",
    "gpus": "GPUs:",
    "executor": "the container-executor",
    "default_timeouts": "default time-outs:",
    "nodes": "nodes:",
    "memory_mib": "memory in MiB:",
    "cpus": "cores:",
}


def _shown_value(name: str, value: object) -> str:
    if isinstance(value, tuple):
        return "+".join(map(str, value)) or ("simple" if name == "modes" else "none")
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value or "none")
