"""Bring a sandbox up, heal it, look at it, and take it down."""

from __future__ import annotations

import contextlib
import os
import platform
import pwd
import re
import shutil
import time
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox import config, daemons, docker, ports
from submit_tf_job.sandbox.access import require_gssapi
from submit_tf_job.sandbox.certificates import make_certificates
from submit_tf_job.sandbox.engine import end_engine, make_bridge, restore_bridge
from submit_tf_job.sandbox.hardening import RM_IDS
from submit_tf_job.sandbox.jars import JarSet, ensure_jars, jars_of_home
from submit_tf_job.sandbox.java import find_java_home
from submit_tf_job.sandbox.kdc import find_programs, make_kdc, principal_of
from submit_tf_job.sandbox.locks import file_lock
from submit_tf_job.sandbox.model import (
    ALL_DAEMONS,
    REALM,
    DaemonStatus,
    KerberosInfo,
    Resolver,
    SandboxDirs,
    SandboxInfo,
    SandboxOptions,
    SandboxStatus,
    check_name,
    profile_name,
)
from submit_tf_job.sandbox.native import ensure_native
from submit_tf_job.sandbox.profile import remove_profile, write_profile
from submit_tf_job.sandbox.resolver import choose_resolver, hosts_file_text
from submit_tf_job.sandbox.shutdown import end_everything
from submit_tf_job.sandbox.startup import Progress, alive, refuse_taken_ports, start_daemons, wait_until_well
from submit_tf_job.sandbox.state import Layout, State, load_state, save_state
from submit_tf_job.sandbox.versions import DEFAULT_VERSION, line_of
from submit_tf_job.sandbox.web import NotWell

__all__ = ["Sandbox"]

_LOCK_TIMEOUT_S = 300.0

# Nominal: what the NodeManager offers, whatever the machine has.
_MEMORY_MIB = 12288
_VCORES = 16


def _silent(_: str) -> None: ...


class Sandbox:
    """One sandbox of this machine, by name.

    Example:
        >>> sandbox = Sandbox("default", SandboxDirs.standard(os.environ))
        >>> info = sandbox.up(SandboxOptions(), os.environ, print)
        >>> sandbox.down()
    """

    def __init__(self, name: str, dirs: SandboxDirs) -> None:
        check_name(name)
        self.name = name
        self._dirs = dirs
        self._layout = Layout(dirs.state_dir.absolute() / name)

    def up(self, options: SandboxOptions, environ: Mapping[str, str], progress: Progress = _silent) -> SandboxInfo:
        """Start the sandbox, or only what of it is dead; return when everything is well.

        Args:
            options: What is asked of the sandbox; must not contradict a sandbox that is there already.
            environ: Environment; JAVA_HOME, PATH and a few more are used, nothing else reaches the daemons.
            progress: Called with one line per step.

        Raises:
            SandboxError: naming the daemon that did not start, with the end of its log; what this call started has been ended again.
        """
        begun = time.monotonic()
        with self._lock(progress):
            state = load_state(self._layout)
            if state is not None and state.ready:
                _refuse_changes(state, options)
                state, started = self._heal(state, environ, progress)
            else:
                end_everything(self._layout)
                shutil.rmtree(self._layout.home, ignore_errors=True)
                state = self._first_start_or_nothing(options, environ, progress)
                started = state.daemon_names
            write_profile(state, self._layout)
        return replace(self._info(state), started=tuple(started), seconds=time.monotonic() - begun)

    def down(self, *, keep: bool = False, progress: Progress = _silent) -> bool:
        """End every process of the sandbox, containers too, and remove its files and its profile.

        Args:
            keep: Leave configuration, data and logs; a later `up` continues with them.
            progress: Called with one line per step.

        Returns:
            Whether there was anything to end or to remove.

        Raises:
            SandboxError: when a process could not be ended.
        """
        with self._lock(progress):
            there = self._layout.home.exists()
            ended = end_everything(self._layout)
            with contextlib.suppress(SandboxError):
                state = load_state(self._layout)
                if state is not None:
                    remove_profile(Path(state.profile_path))
            remove_profile(self._profile_path())
            if not keep:
                self._remove_home()
                self._lock_path.unlink(missing_ok=True)
        return there or ended

    def status(self) -> SandboxStatus:
        """Return what is there now, daemon by daemon.

        Raises:
            SandboxError: when the state file cannot be read.
        """
        state = load_state(self._layout)
        if state is None:
            return SandboxStatus(self.name, "down")
        rows = tuple(self._daemon_status(name, state) for name in state.daemon_names)
        if not any(row.alive for row in rows):
            return SandboxStatus(self.name, "down", rows)
        return SandboxStatus(self.name, "up" if all(row.healthy for row in rows) else "degraded", rows, self._info(state))

    def logs(self, daemon: str, tail: int | None = None) -> str:
        """Return a daemon's log.

        Args:
            daemon: One of `ALL_DAEMONS`.
            tail: Only so many of its last lines.

        Raises:
            SandboxError: when there is no such daemon or no such log.
        """
        if daemon not in ALL_DAEMONS:
            raise SandboxError(f"there is no daemon {daemon!r}", hint=f"daemons are {', '.join(ALL_DAEMONS)}")
        path = self._layout.log(daemon)
        if not path.is_file():
            raise SandboxError(f"the sandbox {self.name} has no log of {daemon}", hint="`sandbox up` first")
        return path.read_text(errors="replace") if tail is None else daemons.log_tail(path, tail)

    @property
    def _lock_path(self) -> Path:
        return self._dirs.state_dir.absolute() / f"{self.name}.lock"

    def _lock(self, progress: Progress) -> contextlib.AbstractContextManager[None]:
        return file_lock(self._lock_path, _LOCK_TIMEOUT_S, lambda: progress(f"another process is working on the sandbox {self.name}"))

    def _profile_path(self) -> Path:
        return self._dirs.config_dir.absolute() / "profiles.d" / f"{profile_name(self.name)}.yaml"

    def _first_start_or_nothing(self, options: SandboxOptions, environ: Mapping[str, str], progress: Progress) -> State:
        try:
            return self._first_start(options, environ, progress)
        except BaseException:
            end_engine(self._layout.docker, keep_data=True)
            # With a state file there are logs to look at; without one there is nothing worth keeping.
            if not self._layout.state_file.exists():
                shutil.rmtree(self._layout.home, ignore_errors=True)
            raise

    def _first_start(self, options: SandboxOptions, environ: Mapping[str, str], progress: Progress) -> State:
        _check_path(self._layout.home)
        user = _user_name()
        java_home = find_java_home(environ)
        docker.check_options(options, environ)
        native = self._prepare_kerberos(options, environ, progress)
        jars = self._jars(options, environ, progress)
        # Mostly the same ports for the same sandbox.
        first_block = zlib.crc32(f"{user} {self._layout.home}".encode()) % ports.BLOCKS
        with ports.pick_block(first_block) as block:
            resolver: Resolver = "system"
            if "docker" not in (options.modes or ()):
                resolver, why_not = choose_resolver(options.resolver or "auto", block, environ)
                if why_not:
                    progress(f"containers will not find names by the system's resolver: {why_not}")
            hosts = hosts_file_text()
            state = self._new_state(options, user, java_home, jars, block, resolver, hosts is not None)
            state = self._with_docker(replace(state, native=native), options)
            self._write_files(state, hosts, environ)
            save_state(self._layout, state)
            if state.docker:
                docker.write_programs(state, self._layout, environ)
            state = start_daemons(state.daemon_names, state, self._layout, environ, progress)
        state = replace(state, ready=True)
        save_state(self._layout, state)
        return state

    def _with_docker(self, state: State, options: SandboxOptions) -> State:
        """Choose addresses for the Docker Engine; HDFS and Registry DNS have the one that its containers can reach."""
        if not state.docker:
            return state
        engine = make_bridge(self._layout.docker)
        if not ports.port_is_free(53, engine.address):
            raise SandboxError(
                f"port 53 of {engine.address} is in use, by a DNS server that listens on every address",
                hint="have that server listen on the addresses that it serves",
            )
        executor = options.container_executor
        return replace(
            state,
            network=engine.number,
            dns_address=engine.address,
            gpus=options.gpus or 0,
            executor=str(executor.absolute()) if executor else None,
            mounts=options.mounts or (),
        )

    def _prepare_kerberos(self, options: SandboxOptions, environ: Mapping[str, str], progress: Progress) -> str | None:
        """Find what Kerberos needs, before anything is made; return the directory of libhadoop.so."""
        if "kerberos" not in (options.modes or ()):
            return None
        version = options.hadoop_version or DEFAULT_VERSION
        if options.hadoop_home is None and not line_of(version).am_java_opts:
            raise SandboxError(
                f"a sandbox with Kerberos cannot be had of Hadoop {version}: its ApplicationMaster cannot be told where Kerberos is",
                hint="choose 3.3.5 or 3.4.2, or leave kerberos out",
            )
        require_gssapi()
        find_programs(environ)
        return str(ensure_native(options.hadoop_home, self._dirs.cache_dir.absolute(), environ, progress))

    def _new_state(
        self, options: SandboxOptions, user: str, java_home: Path, jars: JarSet, block: int, resolver: Resolver, hosts_file: bool
    ) -> State:
        block_ports = ports.block_ports(block)
        system = resolver == "system"
        return State(
            name=self.name,
            hadoop_version=jars.version,
            hadoop_home=str(options.hadoop_home.absolute()) if options.hadoop_home else None,
            jars=str(jars.directory),
            tarball=str(jars.tarball) if jars.tarball else None,
            java_home=str(java_home),
            user=user,
            block=block,
            ports=block_ports,
            resolver=resolver,
            dns_address=ports.dns_address(block) if system else "127.0.0.1",
            dns_port=53 if system else block_ports["dns"],
            hosts_file=hosts_file,
            container_path=tuple(str(path.absolute()) for path in options.container_path or ()),
            memory_mib=options.memory_mib or _MEMORY_MIB,
            vcores=options.vcores or _VCORES,
            profile_path=str(self._profile_path()),
            home=str(self._layout.home),
            modes=options.modes or (),
            # The NodeManager's recovery store is leveldb, whose native library exists for this processor only.
            recovery=platform.machine() in ("x86_64", "AMD64"),
        )

    def _jars(self, options: SandboxOptions, environ: Mapping[str, str], progress: Progress) -> JarSet:
        if options.hadoop_home is None:
            return ensure_jars(options.hadoop_version or DEFAULT_VERSION, self._dirs.cache_dir.absolute(), environ, progress)
        jars = jars_of_home(options.hadoop_home.absolute(), self._layout.home / "jars")
        if options.hadoop_version not in (None, jars.version):
            raise SandboxError(f"{options.hadoop_home} holds Hadoop {jars.version}, not {options.hadoop_version}")
        return jars

    def _write_files(self, state: State, hosts: str | None, environ: Mapping[str, str]) -> None:
        layout = self._layout
        layout.make()
        if state.secure:
            make_kdc(state, layout, environ)
        if state.tls:
            make_certificates(state, layout, environ)
        directories = {layout.conf: None, **({layout.rm_conf(n): rm_id for n, rm_id in enumerate(RM_IDS, 1)} if state.ha else {})}
        for directory, rm_id in directories.items():
            directory.mkdir(exist_ok=True)
            for name, text in config.daemon_files(state, layout, rm_id).items():
                (directory / name).write_text(text)
        for name, text in config.client_files(state).items():
            (layout.client_conf / name).write_text(text)
        if hosts is not None:
            (layout.conf / "hosts").write_text(hosts)
        if state.resolver == "system" and not state.docker:
            (layout.conf / "resolv.conf").write_text(config.resolv_conf(state, Path("/etc/resolv.conf").read_text(errors="replace")))

    def _heal(self, state: State, environ: Mapping[str, str], progress: Progress) -> tuple[State, tuple[str, ...]]:
        dead = _dead(state)
        try:
            return self._start_again(dead, state, environ, progress), dead
        except SandboxError:
            # A process that was killed takes a moment to go, and may have been looked at before.
            died = _dead(state)
            if died == dead:
                raise
            return self._start_again(died, state, environ, progress), died

    def _start_again(self, dead: tuple[str, ...], state: State, environ: Mapping[str, str], progress: Progress) -> State:
        if not dead:
            wait_until_well(state, self._layout, _silent)
            return state
        if state.secure:
            require_gssapi()
        if state.hadoop_home is None:
            ensure_jars(state.hadoop_version, Path(state.jars).parent.parent, environ, progress)
        with ports.keep_block(state.block, timeout_s=5.0):
            if "dockerd" in dead:
                restore_bridge(state.engine)  # after `down --keep` the others' address is not there
            for name in dead:
                refuse_taken_ports(name, state)
            return start_daemons(dead, state, self._layout, environ, progress)

    def _remove_home(self) -> None:
        shutil.rmtree(self._layout.home, ignore_errors=True)
        if self._layout.home.exists():
            raise SandboxError(f"{self._layout.home} could not be removed completely", hint="look at what is in it, and remove it")

    def _daemon_status(self, name: str, state: State) -> DaemonStatus:
        process = state.daemons.get(name)
        reason = ""
        try:
            daemons.check(name, state)
        except NotWell as problem:
            reason = str(problem)
        # It may have died of the same cause, and in the same moment, as the answer.
        is_there = alive(state, name)
        if not is_there:
            reason = "it is not running"
        pid = process.pid if process else None
        return DaemonStatus(name, pid, is_there, not reason, reason, daemons.daemon_ports(name, state), self._layout.log(name))

    def _info(self, state: State) -> SandboxInfo:
        return SandboxInfo(
            name=self.name,
            profile=profile_name(self.name),
            profile_path=Path(state.profile_path),
            hadoop_version=state.hadoop_version,
            user=state.user,
            home=self._layout.home,
            client_conf=self._layout.client_conf,
            hdfs_uri=state.hdfs_uri,
            rm_url=state.rm_urls[0],
            rm_urls=state.rm_urls,
            nm_url=state.nm_url,
            namenode_url=state.namenode_url,
            dns_server=f"{state.dns_address}:{state.dns_port}",
            resolver=state.resolver,
            ports=state.ports,
            modes=state.modes,
            ca_file=self._layout.ca_file if state.tls else None,
            kerberos=self._kerberos_info(state) if state.secure else None,
            docker=docker.docker_info(state) if state.docker else None,
        )

    def _kerberos_info(self, state: State) -> KerberosInfo:
        layout = self._layout
        return KerberosInfo(REALM, f"127.0.0.1:{state.ports['kdc']}", layout.krb5_conf, layout.keytabs, principal_of(state.user))


def _dead(state: State) -> tuple[str, ...]:
    return tuple(name for name in state.daemon_names if not alive(state, name))


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise SandboxError(f"the user id {os.geteuid()} has no name on this machine, and Hadoop cannot log in without one") from None


def _check_path(home: Path) -> None:
    """Refuse a directory whose path Hadoop would take apart: lists are split at commas, classpaths at colons, URIs need no escapes."""
    if not re.fullmatch(r"[A-Za-z0-9/._@+=-]+", str(home)):
        raise SandboxError(f"Hadoop cannot work in {home}", hint="use a directory whose path has only letters, digits and / . _ @ + = -")


def _refuse_changes(state: State, options: SandboxOptions) -> None:
    """Refuse options that a running sandbox was not started with.

    Raises:
        SandboxError: naming the first one.
    """
    container_path = None if options.container_path is None else tuple(str(path.absolute()) for path in options.container_path)
    asked_and_running = {
        "Hadoop": (options.hadoop_version, state.hadoop_version),
        "the Hadoop home": (str(options.hadoop_home.absolute()) if options.hadoop_home else None, state.hadoop_home),
        "the containers' path": (container_path, state.container_path),
        "the resolver": (None if options.resolver == "auto" else options.resolver, state.resolver),
        "memory": (options.memory_mib, state.memory_mib),
        "vcores": (options.vcores, state.vcores),
        "GPUs": (options.gpus, state.gpus),
        "the container-executor": (
            str(options.container_executor.absolute()) if options.container_executor else None,
            state.executor or "of its own",
        ),
        "mounts": (options.mounts, state.mounts),
        "the profile": (None if options.modes is None else "+".join(options.modes) or "simple", "+".join(state.modes) or "simple"),
    }
    for what, (asked, running) in asked_and_running.items():
        if asked is not None and asked != running:
            raise SandboxError(
                f"the sandbox {state.name} is up with {what} {_show(running)}, not {_show(asked)}",
                hint="`sandbox down` it first, or give another name to have both",
            )


def _show(value: object) -> str:
    return ":".join(map(str, value)) or "(none)" if isinstance(value, tuple) else str(value)
