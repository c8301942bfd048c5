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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox import config, daemons, ports
from submit_tf_job.sandbox.hdfs import prepare_hdfs
from submit_tf_job.sandbox.jars import JarSet, ensure_jars, jars_of_home
from submit_tf_job.sandbox.java import find_java_home
from submit_tf_job.sandbox.locks import file_lock
from submit_tf_job.sandbox.model import (
    DAEMONS,
    DaemonStatus,
    SandboxDirs,
    SandboxInfo,
    SandboxOptions,
    SandboxStatus,
    check_name,
    profile_name,
)
from submit_tf_job.sandbox.processes import Process, container_processes, end, is_alive, marked_processes
from submit_tf_job.sandbox.profile import remove_profile, write_profile
from submit_tf_job.sandbox.resolver import choose_resolver, hosts_file_text
from submit_tf_job.sandbox.state import Layout, State, load_state, save_state
from submit_tf_job.sandbox.versions import DEFAULT_VERSION
from submit_tf_job.sandbox.web import NotWell

__all__ = ["Sandbox"]

_START_TIMEOUT_S = 180.0
_LOCK_TIMEOUT_S = 300.0

Progress = Callable[[str], None]


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
                self._end_everything()
                shutil.rmtree(self._layout.home, ignore_errors=True)
                state, started = self._first_start(options, environ, progress), DAEMONS
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
            ended = self._end_everything()
            with contextlib.suppress(SandboxError):
                state = load_state(self._layout)
                if state is not None:
                    remove_profile(Path(state.profile_path))
            remove_profile(self._profile_path())
            if not keep:
                self._remove_home()
        return there or ended

    def status(self) -> SandboxStatus:
        """Return what is there now, daemon by daemon.

        Raises:
            SandboxError: when the state file cannot be read.
        """
        state = load_state(self._layout)
        if state is None:
            return SandboxStatus(self.name, "down")
        rows = tuple(self._daemon_status(name, state) for name in DAEMONS)
        if not any(row.alive for row in rows):
            return SandboxStatus(self.name, "down", rows)
        return SandboxStatus(self.name, "up" if all(row.healthy for row in rows) else "degraded", rows, self._info(state))

    def logs(self, daemon: str, tail: int | None = None) -> str:
        """Return a daemon's log.

        Args:
            daemon: One of `DAEMONS`.
            tail: Only so many of its last lines.

        Raises:
            SandboxError: when there is no such daemon or no such log.
        """
        if daemon not in DAEMONS:
            raise SandboxError(f"there is no daemon {daemon!r}", hint=f"daemons are {', '.join(DAEMONS)}")
        path = self._layout.log(daemon)
        if not path.is_file():
            raise SandboxError(f"the sandbox {self.name} has no log of {daemon}", hint="`sandbox up` first")
        return path.read_text(errors="replace") if tail is None else daemons.log_tail(path, tail)

    def _lock(self, progress: Progress) -> contextlib.AbstractContextManager[None]:
        path = self._dirs.state_dir.absolute() / f"{self.name}.lock"
        return file_lock(path, _LOCK_TIMEOUT_S, lambda: progress(f"another process is working on the sandbox {self.name}"))

    def _profile_path(self) -> Path:
        return self._dirs.config_dir.absolute() / "profiles.d" / f"{profile_name(self.name)}.yaml"

    def _first_start(self, options: SandboxOptions, environ: Mapping[str, str], progress: Progress) -> State:
        _check_path(self._layout.home)
        user = _user_name()
        java_home = find_java_home(environ)
        jars = self._jars(options, environ, progress)
        first_block = zlib.crc32(f"{user} {self._layout.home}".encode()) % ports.BLOCKS
        with ports.pick_block(first_block) as block:
            resolver, why_not = choose_resolver(options.resolver or "auto", block, environ)
            if why_not:
                progress(f"containers will not find names by the system's resolver: {why_not}")
            hosts = hosts_file_text()
            block_ports = ports.block_ports(block)
            state = State(
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
                dns_address=ports.dns_address(block) if resolver == "system" else "127.0.0.1",
                dns_port=53 if resolver == "system" else block_ports["dns"],
                hosts_file=hosts is not None,
                container_path=tuple(str(path.absolute()) for path in options.container_path or ()),
                memory_mib=options.memory_mib or 12288,
                vcores=options.vcores or 16,
                profile_path=str(self._profile_path()),
                # The NodeManager's recovery store is leveldb, whose native library exists for this processor only.
                recovery=platform.machine() in ("x86_64", "AMD64"),
            )
            self._write_files(state, hosts)
            save_state(self._layout, state)
            state = self._start(DAEMONS, state, environ, progress)
        state = replace(state, ready=True)
        save_state(self._layout, state)
        return state

    def _jars(self, options: SandboxOptions, environ: Mapping[str, str], progress: Progress) -> JarSet:
        if options.hadoop_home is None:
            return ensure_jars(options.hadoop_version or DEFAULT_VERSION, self._dirs.cache_dir.absolute(), environ, progress)
        jars = jars_of_home(options.hadoop_home.absolute(), self._layout.home / "jars")
        if options.hadoop_version not in (None, jars.version):
            raise SandboxError(f"{options.hadoop_home} holds Hadoop {jars.version}, not {options.hadoop_version}")
        return jars

    def _write_files(self, state: State, hosts: str | None) -> None:
        layout = self._layout
        layout.make()
        for name, text in config.daemon_files(state, layout).items():
            (layout.conf / name).write_text(text)
        for name, text in config.client_files(state).items():
            (layout.client_conf / name).write_text(text)
        if hosts is not None:
            (layout.conf / "hosts").write_text(hosts)
        if state.resolver == "system":
            (layout.conf / "resolv.conf").write_text(config.resolv_conf(state, Path("/etc/resolv.conf").read_text(errors="replace")))

    def _heal(self, state: State, environ: Mapping[str, str], progress: Progress) -> tuple[State, tuple[str, ...]]:
        dead = tuple(name for name in DAEMONS if not _alive(state, name))
        if not dead:
            self._wait_for_all(state)
            return state, ()
        if state.hadoop_home is None:
            ensure_jars(state.hadoop_version, Path(state.jars).parent.parent, environ, progress)
        with ports.keep_block(state.block, timeout_s=5.0):
            for name in dead:
                self._refuse_taken_ports(name, state)
            state = self._start(dead, state, environ, progress)
        return state, dead

    def _refuse_taken_ports(self, name: str, state: State) -> None:
        address = {"dns": state.dns_address}
        for purpose in daemons.TABLE[name].ports:
            port = state.dns_port if purpose == "dns" else state.ports[purpose]
            if not ports.port_is_free(port, address.get(purpose, "")):
                raise SandboxError(
                    f"{name} is dead and cannot be started again: another process listens on its port {port}",
                    hint="end that process, or `sandbox down` and `sandbox up`",
                )

    def _start(self, names: Iterable[str], state: State, environ: Mapping[str, str], progress: Progress) -> State:
        """Start daemons together and wait until the whole sandbox is well; on any failure end what was started."""
        names = tuple(names)
        started: list[Process] = []

        def start(name: str, state: State) -> State:
            process = daemons.start(name, state, self._layout, environ)
            started.append(process)
            state = state.with_daemon(name, process)
            save_state(self._layout, state)
            return state

        progress(f"starting {', '.join(names)}")
        try:
            # Formatting takes seconds, in which the daemons that do not need HDFS come up.
            for name in (name for name in names if name not in ("namenode", "datanode")):
                state = start(name, state)
            if "namenode" in names:
                daemons.format_namenode(state, self._layout, environ)
            for name in (name for name in names if name in ("namenode", "datanode")):
                state = start(name, state)
            self._wait_for_all(state, progress)
        except BaseException:
            end(started, grace_s=0)
            if not state.ready:
                self._end_everything()
            raise
        return state

    def _wait_for_all(self, state: State, progress: Progress = _silent) -> None:
        """Wait until every daemon is well, HDFS has its directories, and the node is registered."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        self._wait(("namenode", "datanode"), state, deadline)
        if not state.ready:
            progress("HDFS is up")
            prepare_hdfs(state, self._layout)
        self._wait(DAEMONS, state, deadline)
        while True:
            try:
                daemons.check_registered(state)
                return
            except NotWell as problem:
                self._give_up_or_sleep("nodemanager", state, str(problem), deadline)

    def _wait(self, names: Iterable[str], state: State, deadline: float) -> None:
        for name in names:
            while True:
                try:
                    daemons.check(name, state)
                    break
                except NotWell as problem:
                    self._give_up_or_sleep(name, state, str(problem), deadline)

    def _give_up_or_sleep(self, name: str, state: State, problem: str, deadline: float) -> None:
        # Whichever daemon has died is the one to name, not the one that waits for it.
        for other in DAEMONS:
            if other in state.daemons and not _alive(state, other):
                raise self._failure(other, "ended while it started")
        if time.monotonic() > deadline:
            raise self._failure(name, f"is not well after {_START_TIMEOUT_S:.0f} s: {problem}")
        time.sleep(0.1)

    def _failure(self, name: str, what: str) -> SandboxError:
        log = self._layout.log(name)
        return SandboxError(f"{name} {what}; the end of its log:\n{daemons.log_tail(log)}", hint=f"the whole log is {log}")

    def _end_everything(self) -> bool:
        """End the sandbox's processes, known or not to its state file; say whether there were any."""
        running = marked_processes(self._layout.home, {daemon.main: daemon.name for daemon in daemons.TABLE.values()})
        by_name = {name: [process for process, other in running.items() if other == name] for name in DAEMONS}
        # The NodeManager ends its containers itself if it is asked to.
        end(by_name.pop("nodemanager", []), grace_s=5.0)
        # Registry DNS does not end on SIGTERM, and even less once ZooKeeper is gone.
        end(by_name.pop("registrydns", []), grace_s=0.5)
        end((process for processes in by_name.values() for process in processes), grace_s=3.0)
        found = bool(running)
        # A container that is being killed may have just started another process.
        for _ in range(5):
            containers = container_processes(self._layout.nm_local)
            if not containers:
                break
            found = True
            end(containers, grace_s=1.0)
        return found

    def _remove_home(self) -> None:
        shutil.rmtree(self._layout.home, ignore_errors=True)
        if self._layout.home.exists():
            raise SandboxError(f"{self._layout.home} could not be removed completely", hint="look at what is in it, and remove it")

    def _daemon_status(self, name: str, state: State) -> DaemonStatus:
        process = state.daemons.get(name)
        alive = _alive(state, name)
        reason = ""
        if not alive:
            reason = "it is not running"
        else:
            try:
                daemons.check(name, state)
            except NotWell as problem:
                reason = str(problem)
        listens = tuple(state.dns_port if purpose == "dns" else state.ports[purpose] for purpose in daemons.TABLE[name].ports)
        return DaemonStatus(name, process.pid if process else None, alive, not reason, reason, listens, self._layout.log(name))

    def _info(self, state: State) -> SandboxInfo:
        return SandboxInfo(
            name=self.name,
            profile=profile_name(self.name),
            profile_path=Path(state.profile_path),
            hadoop_version=state.hadoop_version,
            user=state.user,
            home=self._layout.home,
            client_conf=self._layout.client_conf,
            hdfs_uri=f"hdfs://localhost:{state.ports['namenode']}",
            rm_url=f"http://localhost:{state.ports['rm_http']}",
            nm_url=f"http://localhost:{state.ports['nm_http']}",
            namenode_url=f"http://localhost:{state.ports['namenode_http']}",
            dns_server=f"{state.dns_address}:{state.dns_port}",
            resolver=state.resolver,
            ports=state.ports,
        )


def _alive(state: State, name: str) -> bool:
    process = state.daemons.get(name)
    return process is not None and is_alive(process)


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
    }
    for what, (asked, running) in asked_and_running.items():
        if asked is not None and asked != running:
            raise SandboxError(
                f"the sandbox {state.name} is up with {what} {_show(running)}, not {_show(asked)}",
                hint="`sandbox down` it first, or give another name to have both",
            )


def _show(value: object) -> str:
    return ":".join(map(str, value)) or "(none)" if isinstance(value, tuple) else str(value)
