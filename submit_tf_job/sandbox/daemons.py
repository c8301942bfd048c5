"""Start the sandbox's daemons, wait until they are healthy, and end every process of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from submit_tf_job import waiting
from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.addresses import PORTS, PRIVATE_MOUNTS, port_is_free
from submit_tf_job.sandbox.docker import NETWORK, dockerd_options, exposed
from submit_tf_job.sandbox.engine import (
    DOCKERD,
    ensure_network,
    expose,
    server_version,
    start_engine,
)
from submit_tf_job.sandbox.hadoop_config import OPENS
from submit_tf_job.sandbox.hardening import (
    KDC_MAIN,
    find_programs,
    java_options,
    kdc_argv,
    kdc_environment,
)
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
from submit_tf_job.sandbox.state import (
    NODEMANAGERS,
    Layout,
    SandboxState,
    node_host,
    save_state,
)
from submit_tf_job.sandbox.web import (
    NotWell,
    ask_dns,
    ask_kdc,
    ask_zookeeper,
    get_json,
    prepare_hdfs,
    send,
)

_FORMAT_TIMEOUT_S = 120.0

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


@dataclass(frozen=True)
class Daemon:
    """Main class, memory and health check of one daemon.

    Attributes:
        main: Its main class, or its program.
        heap: Its -Xmx; None if it is not a JVM.
        health: Raises NotWell unless the daemon is healthy.
    """

    name: str
    main: str
    heap: str | None
    health: Callable[[SandboxState], None]


def _dockerd_health(state: SandboxState) -> None:
    try:
        server_version(state.engine)
    except SandboxError as problem:
        raise NotWell(str(problem)) from None


def _bean(state: SandboxState, purpose: str, name: str) -> Mapping[str, object]:
    url = f"http://{state.hdfs_host}:{state.ports[purpose]}/jmx?qry={name}"
    beans = get_json(url, state).get("beans")
    if not isinstance(beans, list) or not beans or not isinstance(beans[0], dict):
        raise NotWell(f"{name} is not there yet")
    return beans[0]


def _namenode_health(state: SandboxState) -> None:
    info = _bean(state, "namenode_http", "Hadoop:service=NameNode,name=NameNodeInfo")
    if info.get("Safemode") != "":
        raise NotWell(str(info.get("Safemode")))
    url = f"{state.namenode_url}/webhdfs/v1/?op=GETFILESTATUS&user.name={state.user}"
    status, body = send("GET", url, state)
    if status != 200:
        raise NotWell(f"WebHDFS answers {status}: {body[:200].decode(errors='replace')}")


def _datanode_health(state: SandboxState) -> None:
    info = _bean(state, "datanode_http", "Hadoop:service=DataNode,name=DataNodeInfo")
    actors = json.loads(str(info.get("BPServiceActorInfo") or "[]"))
    if not any(
        actor.get("ActorState") == "RUNNING" and int(actor.get("LastHeartbeat", 99)) < 10
        for actor in actors
    ):
        raise NotWell("it is not registered with the NameNode")


def _ha_state(state: SandboxState, url: str) -> str:
    info = get_json(f"{url}/ws/v1/cluster/info", state)["clusterInfo"]
    if info.get("state") != "STARTED" or info.get("haState") not in ("ACTIVE", "STANDBY"):
        raise NotWell(f"it is {info.get('state')}, {info.get('haState')}")
    return str(info["haState"])


def _role(state: SandboxState, url: str) -> str:
    try:
        return _ha_state(state, url)
    except NotWell as problem:
        return str(problem)


def _resourcemanager_health(number: int, state: SandboxState) -> None:
    """Check that one of two ResourceManagers is active and serves services, and the other is
    standby.
    """
    url = state.rm_urls[number]
    role = _ha_state(state, url)
    if role == "ACTIVE":
        get_json(f"{url}/app/v1/services/version", state)
    other_leads = state.ha and _role(state, state.rm_urls[1 - number]) == "ACTIVE"
    if (role == "ACTIVE") == other_leads:
        raise NotWell(f"it is {role}, and {'two are' if other_leads else 'none is'} ACTIVE")


def _nodemanager_health(node: int, state: SandboxState) -> None:
    if problem := _unhealthy(node, state):
        raise NotWell(f"it calls itself unhealthy: {problem}")


def _unhealthy(node: int, state: SandboxState) -> str:
    """Return what a NodeManager says where it calls its node unhealthy, else ""."""
    info = get_json(f"{state.nm_urls[node - 1]}/ws/v1/node/info", state)["nodeInfo"]
    return "" if info.get("nodeHealthy") else str(info.get("healthReport") or None)


def gave_up(state: SandboxState) -> list[str]:
    """Return the NodeManagers that have declared their nodes unhealthy until they are restarted.

    LinuxContainerExecutor does so when a container ends with 22 or 24.
    """
    found = []
    for name, node in state.nodemanagers.items() if state.docker else ():
        with suppress(NotWell, KeyError):
            if state.is_alive(name) and "unrecoverable exception" in _unhealthy(node, state):
                found.append(name)
    return found


_HADOOP = "org.apache.hadoop"
_RM = f"{_HADOOP}.yarn.server.resourcemanager.ResourceManager"
_NM = f"{_HADOOP}.yarn.server.nodemanager.NodeManager"
_NN, _DN = (f"{_HADOOP}.hdfs.server.{name}" for name in ("namenode.NameNode", "datanode.DataNode"))
_ZK = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_DNS = f"{_HADOOP}.registry.server.dns.RegistryDNSServer"

_ROWS = (
    Daemon("dockerd", DOCKERD, None, _dockerd_health),
    Daemon("kdc", KDC_MAIN, None, ask_kdc),
    Daemon("zookeeper", _ZK, "128m", ask_zookeeper),
    Daemon("namenode", _NN, "384m", _namenode_health),
    Daemon("datanode", _DN, "256m", _datanode_health),
    Daemon("resourcemanager", _RM, "512m", partial(_resourcemanager_health, 0)),
    Daemon("resourcemanager2", _RM, "512m", partial(_resourcemanager_health, 1)),
    *(
        Daemon(name, _NM, "384m", partial(_nodemanager_health, node))
        for node, name in enumerate(NODEMANAGERS, 1)
    ),
    Daemon("registrydns", _DNS, "128m", ask_dns),
)
TABLE = {daemon.name: daemon for daemon in _ROWS}


def daemon_ports(name: str, state: SandboxState) -> tuple[int, ...]:
    """Return the ports that a daemon listens on."""
    ports = {**state.ports, "dns": state.dns_port}
    purposes = PORTS.get("nodemanager" if name in NODEMANAGERS else name, ())
    return tuple(ports[purpose] for purpose in purposes)


def check(name: str, state: SandboxState) -> None:
    """Check one daemon's health.

    Raises:
        NotWell: The daemon is not healthy; the message has the reason.
    """
    if not state.is_alive(name):
        raise NotWell("it is not running")
    try:
        TABLE[name].health(state)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise NotWell(f"it answers something unexpected: {error!r}") from None


def check_registered(name: str, state: SandboxState) -> None:
    """Check that a NodeManager is a running node of the ResourceManager, and no other sandbox's is.

    Raises:
        NotWell: It is missing, or there is one of another sandbox.
    """
    found = get_json(f"{_active(state)}/ws/v1/cluster/nodes", state)
    nodes = (found.get("nodes") or {}).get("node") or []
    running = {node.get("id") for node in nodes if node.get("state") == "RUNNING"}
    if state.node_ids[state.nodemanagers[name] - 1] not in running:
        raise NotWell("the NodeManager is not registered with the ResourceManager")
    for other in running - set(state.node_ids):
        raise NotWell(f"a foreign NodeManager, {other}, has joined the ResourceManager")


def _active(state: SandboxState) -> str:
    return next(
        (url for url in state.rm_urls if not state.ha or _role(state, url) == "ACTIVE"),
        state.rm_urls[0],
    )


def environment(state: SandboxState, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the daemons: a short list, independent of the user's shell.

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


def conf_dir(name: str, state: SandboxState) -> Path:
    """Return a daemon's configuration directory: shared, except that each of two ResourceManagers,
    and each NodeManager after the first, has its own.
    """
    number = {"resourcemanager": 1, "resourcemanager2": 2}.get(name)
    if state.ha and number:
        return state.layout.rm_conf(number)
    return state.layout.of_node(state.nodemanagers.get(name, 1), "conf")


def _java(state: SandboxState, daemon: Daemon) -> list[str]:
    layout = state.layout
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
    if state.native and daemon.name in state.nodemanagers:
        argv.append(f"-Djava.library.path={state.native}")
    return [
        *argv,
        "-cp",
        f"{conf_dir(daemon.name, state)}:{layout.webroot}:{state.jars}/*",
        daemon.main,
    ]


def start(name: str, state: SandboxState, environ: Mapping[str, str]) -> Process:
    """Start one daemon and return its process at once, before it is healthy.

    Raises:
        SandboxError: It could not be started.
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
    argv = _java(state, TABLE[name])
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
    argv = [*_java(state, TABLE["namenode"]), "-format", "-force", "-nonInteractive"]
    done = run(argv, environment(state, environ), cwd=layout.home, timeout_s=_FORMAT_TIMEOUT_S)
    with layout.log("namenode").open("a") as log:
        log.write(done.stdout + done.stderr)
    if done.returncode != 0:
        raise SandboxError(
            f"namenode could not format HDFS (exit status {done.returncode}); the end of "
            f"its log:\n{end_of_log(layout.log('namenode'))}"
        )


def end_of_log(path: Path) -> str:
    """Return what a failed daemon wrote last."""
    return "\n".join(last_lines(path, 30))


def last_lines(path: Path, lines: int) -> list[str]:
    """Return the last lines of a log file; none where it cannot be read."""
    try:
        with path.open("rb") as handle:
            handle.seek(0, os.SEEK_END)
            handle.seek(max(0, handle.tell() - 1000 * lines))
            text = handle.read().decode(errors="replace")
    except OSError:
        return []
    every = text.splitlines()
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
        names: The daemons to start; the others already run.
        state: The sandbox.
        environ: Environment of the caller.
        progress: Called with one line per step.

    Raises:
        SandboxError: A daemon failed; the message has its name and the end of its log. The
            processes that this call started have been ended.
    """
    names = tuple(names)
    progress(f"starting {', '.join(names)}")
    started: list[Process] = []
    try:
        if "kdc" in names:
            # The other daemons log in when they start, and end if that fails.
            state = _start("kdc", state, environ, started)
            _wait("kdc", state, needed=("kdc",))
        # Formatting takes seconds; meanwhile the daemons that do not need HDFS start.
        for name in (name for name in names if name not in ("kdc", *_HDFS)):
            state = _start(name, state, environ, started)
        if "namenode" in names:
            format_namenode(state, environ)
        for name in (name for name in names if name in _HDFS):
            state = _start(name, state, environ, started)
        wait_until_well(state, progress)
    except BaseException:
        end(started, grace_s=0)
        raise
    return state


def containers_of(layout: Layout, node: int) -> list[Process]:
    """Find the processes of one node's containers, with and without Docker."""
    directories = (layout.of_node(node, "nm-local"), layout.of_node(node, "nm-local", exposed=True))
    return [process for path in directories for process in container_processes(path)]


def _start(
    name: str, state: SandboxState, environ: Mapping[str, str], started: list[Process]
) -> SandboxState:
    if name in state.nodemanagers and not state.recovery:
        # It would not recover the containers of the previous NodeManager.
        end(containers_of(state.layout, state.nodemanagers[name]), grace_s=1.0)
    process = start(name, state, environ)
    started.append(process)
    state = state.with_daemon(name, process)
    save_state(state)
    return state


def wait_until_well(state: SandboxState, progress: Progress) -> None:
    """Wait until every daemon is healthy, HDFS has its directories, and the nodes are registered.

    Raises:
        SandboxError: A daemon ended or did not become healthy; the message has its name and the end
            of its log.
    """
    if state.docker:
        _wait("dockerd", state)
        ensure_network(state.engine, NETWORK)
    for name in _HDFS:
        _wait(name, state)
    if not state.ready:
        progress("HDFS is up")
        prepare_hdfs(state)
    for name in state.daemon_names:
        _wait(name, state)
    for name in state.nodemanagers:
        _wait(name, state, check_registered)


def _wait(
    name: str,
    state: SandboxState,
    check: Callable[[str, SandboxState], None] = check,
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
        for other in needed or state.daemon_names:
            if other in state.daemons and not state.is_alive(other):
                raise _failure(other, "ended while it started", state)
    within_s = waiting.SANDBOX_IS_WELL.within_s
    raise _failure(name, f"is not healthy after {within_s:.0f} s: {problem}", state)


def _failure(name: str, what: str, state: SandboxState) -> SandboxError:
    log = state.layout.log(name)
    return SandboxError(
        f"{name} {what}; the end of its log:\n{end_of_log(log)}",
        hint=f"the whole log is {log}",
    )
