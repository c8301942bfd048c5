"""Start the sandbox's daemons, and wait until they are healthy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from submit_tf_job import waiting
from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.addresses import PRIVATE_MOUNTS, port_is_free
from submit_tf_job.sandbox.daemons import (
    TABLE,
    check_daemon,
    check_registered,
    daemon_ports,
    names_of,
)
from submit_tf_job.sandbox.docker import NETWORK, dockerd_options, exposed
from submit_tf_job.sandbox.engine import ensure_network, expose, start_engine
from submit_tf_job.sandbox.hadoop_config import OPENS, conf_dir
from submit_tf_job.sandbox.hardening import find_programs, java_options, kdc_argv, kdc_environment
from submit_tf_job.sandbox.jars import line_of
from submit_tf_job.sandbox.processes import (
    Process,
    container_processes,
    end,
    launch,
    marker,
    path_with_sbin,
    run,
)
from submit_tf_job.sandbox.state import Layout, SandboxState, node_host, save_state
from submit_tf_job.sandbox.web import NotWell, prepare_hdfs

_FORMAT_TIMEOUT_S = 600.0  # four seconds on an idle machine

# Small heaps and one compiler tier: six JVMs share the machine with the jobs. The list is the same
# from JDK 8 to 22.
_JVM = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    OPENS,
    "-Djava.net.preferIPv4Stack=true",
    "-Djava.awt.headless=true",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Xshare:auto",
)

# Starts the NodeManager in a separate mount namespace, so that containers (which inherit it)
# resolve names through Registry DNS and the host does not. Every step is an exec: the process whose
# PID is stored becomes the JVM.
_PRIVATE_RESOLVER = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'


def environment(state: SandboxState, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the daemons: a short list of variables, which does not depend on
    the user's shell.

    HADOOP_USER_NAME, for example, would make another user the HDFS superuser; JAVA_TOOL_OPTIONS or
    CLASSPATH would affect every JVM.
    """
    kept = ("HOME", "USER", "LOGNAME", "TZ", "LD_LIBRARY_PATH")
    homes = ("HADOOP_YARN_HOME", "HADOOP_HOME", "HADOOP_COMMON_HOME", "HADOOP_HDFS_HOME")
    path = [*state.container_path, environ.get("PATH") or os.defpath]
    result = {
        **{name: environ[name] for name in kept if name in environ},
        "PATH": os.pathsep.join(path),
        "LANG": "C.UTF-8",
        "JAVA_HOME": state.java_home,
        "HADOOP_CONF_DIR": str(state.layout.conf),
        **dict.fromkeys(homes, state.hadoop_home or str(state.layout.home)),
    }
    if not line_of(state.hadoop_version).am_java_opts:
        result["JDK_JAVA_OPTIONS"] = OPENS
    return result


def _java_command(name: str, state: SandboxState) -> list[str]:
    layout, daemon = state.layout, TABLE[name]
    argv = [
        f"{state.java_home}/bin/java",
        *_JVM,
        f"-Xmx{daemon.heap}",
        marker(layout.home),
        f"-Dhadoop.log.dir={layout.run / 'log'}",
    ]
    if state.hosts_file:
        argv.append(f"-Djdk.net.hosts.file={layout.conf / 'hosts'}")
    argv += java_options(state)
    if state.native and name in state.nodemanagers:
        argv.append(f"-Djava.library.path={state.native}")
    return [
        *argv,
        "-cp",
        f"{conf_dir(name, state)}:{layout.webroot}:{state.jars}/*",
        daemon.main,
    ]


def start(name: str, state: SandboxState, environ: Mapping[str, str]) -> Process:
    """Start one daemon and return its process without waiting until it is healthy.

    Raises:
        SandboxError: The daemon could not be started.
    """
    layout = state.layout
    variables = environment(state, environ)
    if name == "dockerd":
        expose(state.engine, exposed(state))
        dns = state.dns_address if state.dns else None
        mark, log = marker(layout.home), layout.log(name)
        return start_engine(state.engine, environ, mark, log, dns, dockerd_options(state))
    if name == "kdc":
        find_programs(environ)
        variables |= {**kdc_environment(layout), "PATH": path_with_sbin(variables)}
        argv = kdc_argv(layout, marker(layout.home))
        return launch(argv, variables, layout.home, layout.log(name))
    variables["HADOOP_CONF_DIR"] = str(conf_dir(name, state))
    node = state.nodemanagers.get(name)
    if state.docker and node:  # every container inherits the value
        variables["HADOOP_CONF_DIR"] = str(layout.of_node(node, "conf", exposed=True))
    argv = _java_command(name, state)
    if name == "zookeeper":
        argv.append(str(layout.conf / "zoo.cfg"))
    if node and state.resolver == "system" and not state.docker:
        conf = str(layout.conf / "resolv.conf")
        argv = [*PRIVATE_MOUNTS, "/bin/sh", "-c", _PRIVATE_RESOLVER, "sh", conf, *argv]
    return launch(argv, variables, layout.home, layout.log(name))


def format_namenode(state: SandboxState, environ: Mapping[str, str]) -> None:
    """Create an empty HDFS, unless one exists.

    Raises:
        SandboxError: The NameNode could not format its directory.
    """
    layout = state.layout
    if (layout.namenode / "current" / "VERSION").is_file():
        return
    argv = [*_java_command("namenode", state), "-format", "-force", "-nonInteractive"]
    done = run(argv, environment(state, environ), cwd=layout.home, timeout_s=_FORMAT_TIMEOUT_S)
    with layout.log("namenode").open("a") as log:
        log.write(done.stdout + done.stderr)
    if done.returncode != 0:
        raise SandboxError(
            f"namenode could not format HDFS (exit status {done.returncode}); the end of "
            f"its log:\n{end_of_log(layout.log('namenode'))}"
        )


def end_of_log(path: Path) -> str:
    """Return the last lines that a failed daemon wrote."""
    return "\n".join(last_lines(path, 30))


def last_lines(path: Path, lines: int) -> list[str]:
    """Return the last lines of a log file; none if the file cannot be read."""
    try:
        every = path.read_text(errors="replace").splitlines()
    except OSError:
        return []
    return every[max(0, len(every) - lines) :]


# --- all daemons ---

Progress = Callable[[str], None]

_HDFS = ("namenode", "datanode")


def refuse_taken_ports(name: str, state: SandboxState) -> None:
    """Refuse to start a daemon whose ports another process uses.

    Raises:
        SandboxError: A port is in use; the message names it.
    """
    # Nodes differ in their addresses and have the same ports.
    nodes = {nodemanager: node_host(node) for nodemanager, node in state.nodemanagers.items()}
    address = {"registrydns": state.dns_address, **nodes}.get(name, "")
    for port in daemon_ports(name, state):
        for _ in waiting.SANDBOX_PORT_IS_FREE.attempts():
            if port_is_free(port, address):
                break
        else:
            raise SandboxError(
                f"{name} is dead and cannot be started again: another process listens on "
                f"its port {port}",
                hint="end that process, or `sandbox down` and `sandbox up`",
            )


def start_daemons(
    names: Iterable[str], state: SandboxState, environ: Mapping[str, str], progress: Progress
) -> SandboxState:
    """Start daemons and wait until the whole sandbox is healthy.

    Args:
        names: The daemons to start; all other daemons run already.
        state: The sandbox.
        environ: Environment of the caller.
        progress: Called with one line per step.

    Raises:
        SandboxError: A daemon failed; the message has its name and the end of its log. The
            processes that this call started have been ended.

    Returns:
        The state with the processes that were started; it was saved, too.
    """
    names = tuple(names)
    progress(f"starting {', '.join(names)}")
    started: list[Process] = []
    try:
        if "kdc" in names:
            # The other daemons log in when they start, and end if that fails.
            state = _start_named("kdc", state, environ, started)
            _wait_for_daemon("kdc", state, needed=("kdc",))
        # Formatting takes seconds; meanwhile the daemons that do not need HDFS start.
        for name in (name for name in names if name not in ("kdc", *_HDFS)):
            state = _start_named(name, state, environ, started)
        if "namenode" in names:
            format_namenode(state, environ)
        for name in (name for name in names if name in _HDFS):
            state = _start_named(name, state, environ, started)
        wait_until_well(state, progress)
    except BaseException:
        end(started, grace_s=0)
        raise
    return state


def containers_of(layout: Layout, node: int) -> list[Process]:
    """Find the processes of one node's containers, with and without Docker."""
    directories = (layout.of_node(node, "nm-local"), layout.of_node(node, "nm-local", exposed=True))
    return [process for path in directories for process in container_processes(path)]


def _start_named(
    name: str, state: SandboxState, environ: Mapping[str, str], started: list[Process]
) -> SandboxState:
    if name in state.nodemanagers and not state.recovery:
        # It would not recover the containers of the previous NodeManager.
        end(containers_of(state.layout, state.nodemanagers[name]), grace_s=1.0)
    process = start(name, state, environ)
    started.append(process)
    state = replace(state, daemons={**state.daemons, name: process})
    save_state(state)
    return state


def wait_until_well(state: SandboxState, progress: Progress) -> None:
    """Wait until every daemon is healthy and the nodes are registered; at the first start, create
    the directories on HDFS. With Docker, also create the user network if it does not exist.

    Raises:
        SandboxError: A daemon ended or did not become healthy; the message has its name and the end
            of its log.
    """
    if state.docker:
        _wait_for_daemon("dockerd", state)
        ensure_network(state.engine, NETWORK)
    for name in _HDFS:
        _wait_for_daemon(name, state)
    if not state.ready:
        progress("HDFS is up")
        prepare_hdfs(state)
    for name in names_of(state):
        _wait_for_daemon(name, state)
    for name in state.nodemanagers:
        _wait_for_daemon(name, state, check_registered)


def _wait_for_daemon(
    name: str,
    state: SandboxState,
    check: Callable[[str, SandboxState], None] = check_daemon,
    needed: Iterable[str] | None = None,
) -> None:
    problem = ""
    for _ in waiting.SANDBOX_IS_WELL.attempts():
        try:
            check(name, state)
        except NotWell as error:
            problem = str(error) or "unknown"
        else:
            return
        # The error names the daemon that has ended, not the one that waits for it.
        for other in needed or names_of(state):
            if other in state.daemons and not state.is_alive(other):
                raise _start_failure(other, "ended while it started", state)
    within_s = waiting.SANDBOX_IS_WELL.within_s
    raise _start_failure(name, f"is not healthy after {within_s:.0f} s: {problem}", state)


def _start_failure(name: str, what: str, state: SandboxState) -> SandboxError:
    log = state.layout.log(name)
    return SandboxError(
        f"{name} {what}; the end of its log:\n{end_of_log(log)}",
        hint=f"the whole log is {log}",
    )
