"""The daemons: how each is started, and how each is seen to be well."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.access import NoTicket, access_of
from submit_tf_job.sandbox.config import OPENS
from submit_tf_job.sandbox.docker import dockerd_options, exposed
from submit_tf_job.sandbox.engine import DOCKERD, expose, restore_bridge, server_version, start_engine
from submit_tf_job.sandbox.hardening import java_options
from submit_tf_job.sandbox.kdc import KDC_MAIN, kdc_argv, kdc_environment, kdc_path
from submit_tf_job.sandbox.model import DOMAIN
from submit_tf_job.sandbox.processes import Process, is_alive, launch, listens, marker
from submit_tf_job.sandbox.state import Layout, State
from submit_tf_job.sandbox.versions import line_of
from submit_tf_job.sandbox.web import NotWell, ask_dns, ask_zookeeper, get_json, send

__all__ = ["TABLE", "Daemon", "check", "check_registered", "environment", "format_namenode", "log_tail", "start"]

_FORMAT_TIMEOUT_S = 120.0

# Small heaps and one compiler tier: six JVMs share the machine with the jobs. The list is the same from JDK 8 to 22.
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

# The NodeManager in a mount namespace of its own, so that containers (which inherit it) ask Registry DNS and the host does not.
# Every step is an exec: the process whose number we hold becomes the JVM.
_PRIVATE_RESOLVER = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'

_RESOURCEMANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"


@dataclass(frozen=True)
class Daemon:
    """One daemon.

    Attributes:
        main: Its main class, or its program.
        heap: Its -Xmx; None where it is no JVM.
        ports: Purposes of the ports it listens on (TCP; `dns`: both).
        health: Raises NotWell unless the daemon is well.
    """

    name: str
    main: str
    heap: str | None
    ports: tuple[str, ...]
    health: Callable[[State], None]


def _kdc_health(state: State) -> None:
    login = access_of(state).login
    if login is None:
        raise NotWell("the sandbox is without Kerberos")
    try:
        login.ask_kdc()
    except NoTicket as problem:
        raise NotWell(str(problem)) from None


def _dockerd_health(state: State) -> None:
    try:
        server_version(state.engine)
    except SandboxError as problem:
        raise NotWell(str(problem)) from None


def _zookeeper_health(state: State) -> None:
    ask_zookeeper(state.ports["zookeeper"])


def _bean(state: State, purpose: str, name: str) -> Mapping[str, object]:
    beans = get_json(f"http://{state.hdfs_host}:{state.ports[purpose]}/jmx?qry={name}", access=access_of(state)).get("beans")
    if not isinstance(beans, list) or not beans or not isinstance(beans[0], dict):
        raise NotWell(f"{name} is not there yet")
    return beans[0]


def _namenode_health(state: State) -> None:
    info = _bean(state, "namenode_http", "Hadoop:service=NameNode,name=NameNodeInfo")
    if info.get("Safemode") != "":
        raise NotWell(str(info.get("Safemode")))
    url = f"{state.namenode_url}/webhdfs/v1/?op=GETFILESTATUS&user.name={state.user}"
    status, body = send("GET", url, access=access_of(state))
    if status != 200:
        raise NotWell(f"WebHDFS answers {status}: {body[:200].decode(errors='replace')}")


def _datanode_health(state: State) -> None:
    info = _bean(state, "datanode_http", "Hadoop:service=DataNode,name=DataNodeInfo")
    actors = json.loads(str(info.get("BPServiceActorInfo") or "[]"))
    if not any(actor.get("ActorState") == "RUNNING" and int(actor.get("LastHeartbeat", 99)) < 10 for actor in actors):
        raise NotWell("it is not registered with the NameNode")


def _ha_state(state: State, url: str) -> str:
    info = get_json(f"{url}/ws/v1/cluster/info", access=access_of(state))["clusterInfo"]
    if info.get("state") != "STARTED" or info.get("haState") not in ("ACTIVE", "STANDBY"):
        raise NotWell(f"it is {info.get('state')}, {info.get('haState')}")
    return str(info["haState"])


def _role(state: State, url: str) -> str:
    try:
        return _ha_state(state, url)
    except NotWell as problem:
        return str(problem)


def _resourcemanager_health(state: State, number: int = 0) -> None:
    """Of two ResourceManagers one must be active and serve services, and the other stand by."""
    url = state.rm_urls[number]
    role = _ha_state(state, url)
    if role == "ACTIVE":
        get_json(f"{url}/app/v1/services/version", access=access_of(state))
    elif not state.ha:
        raise NotWell(f"it is STARTED, {role}")
    other_leads = state.ha and _role(state, state.rm_urls[1 - number]) == "ACTIVE"
    if role == "ACTIVE" and other_leads:
        raise NotWell("both ResourceManagers are active")
    if role == "STANDBY" and not other_leads:
        raise NotWell("it is standby, and the other one is not active")


def _resourcemanager2_health(state: State) -> None:
    _resourcemanager_health(state, 1)


def _nodemanager_health(state: State) -> None:
    info = get_json(f"{state.nm_url}/ws/v1/node/info", access=access_of(state))["nodeInfo"]
    if not info.get("nodeHealthy"):
        raise NotWell(f"it calls itself unhealthy: {info.get('healthReport')}")


def _registrydns_health(state: State) -> None:
    answer = ask_dns(state.dns_address, state.dns_port, DOMAIN, "SOA")
    if answer.code != 0 or answer.count == 0:
        raise NotWell(f"it does not know its zone {DOMAIN} (code {answer.code})")


TABLE: Mapping[str, Daemon] = {
    daemon.name: daemon
    for daemon in (
        Daemon("dockerd", DOCKERD, None, (), _dockerd_health),
        Daemon("kdc", KDC_MAIN, None, ("kdc",), _kdc_health),
        Daemon("zookeeper", "org.apache.zookeeper.server.quorum.QuorumPeerMain", "128m", ("zookeeper",), _zookeeper_health),
        Daemon(
            "namenode",
            "org.apache.hadoop.hdfs.server.namenode.NameNode",
            "384m",
            ("namenode", "namenode_http"),
            _namenode_health,
        ),
        Daemon(
            "datanode",
            "org.apache.hadoop.hdfs.server.datanode.DataNode",
            "256m",
            ("datanode", "datanode_http", "datanode_ipc"),
            _datanode_health,
        ),
        Daemon(
            "resourcemanager",
            _RESOURCEMANAGER,
            "512m",
            ("rm_scheduler", "rm_tracker", "rm", "rm_admin", "rm_http"),
            _resourcemanager_health,
        ),
        Daemon(
            "resourcemanager2",
            _RESOURCEMANAGER,
            "512m",
            ("rm2_scheduler", "rm2_tracker", "rm2", "rm2_admin", "rm2_http"),
            _resourcemanager2_health,
        ),
        Daemon(
            "nodemanager",
            "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
            "384m",
            ("nm", "nm_localizer", "nm_http"),
            _nodemanager_health,
        ),
        Daemon("registrydns", "org.apache.hadoop.registry.server.dns.RegistryDNSServer", "128m", ("dns",), _registrydns_health),
    )
}


def daemon_ports(name: str, state: State) -> tuple[int, ...]:
    """Return the ports that a daemon listens on."""
    return tuple(state.dns_port if purpose == "dns" else state.ports[purpose] for purpose in TABLE[name].ports)


def check(name: str, state: State) -> None:
    """Ask one daemon whether it is well, and make sure that it is this sandbox's daemon that answers.

    Raises:
        NotWell: saying what is wrong.
    """
    process = state.daemons.get(name)
    if process is None or not is_alive(process):
        raise NotWell("it is not running")
    try:
        TABLE[name].health(state)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise NotWell(f"it answers something unexpected: {error!r}") from None
    for port in daemon_ports(name, state):
        if not listens(process, port):
            raise NotWell(f"another process listens on its port {port}")


def check_registered(state: State) -> None:
    """Check that the ResourceManager has exactly one working node, and that it is this sandbox's.

    Raises:
        NotWell: as long as that is not so.
    """
    nodes = (get_json(f"{_active(state)}/ws/v1/cluster/nodes", access=access_of(state)).get("nodes") or {}).get("node") or []
    ours = f"localhost:{state.ports['nm']}"
    if not any(node.get("id") == ours and node.get("state") == "RUNNING" for node in nodes):
        raise NotWell("the NodeManager is not registered with the ResourceManager")
    for node in nodes:
        if node.get("id") != ours and node.get("state") == "RUNNING":
            raise NotWell(f"a foreign NodeManager, {node.get('id')}, has joined the ResourceManager")


def _active(state: State) -> str:
    """Return the address of the ResourceManager that leads."""
    return next((url for url in state.rm_urls if not state.ha or _role(state, url) == "ACTIVE"), state.rm_urls[0])


def environment(state: State, layout: Layout, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the daemons: a short list, so that nothing of the user's shell changes what they do.

    HADOOP_USER_NAME, for one, would make somebody else the HDFS superuser; JAVA_TOOL_OPTIONS or CLASSPATH would reach every JVM.
    """
    kept = {name: environ[name] for name in ("HOME", "USER", "LOGNAME", "TZ", "LD_LIBRARY_PATH") if name in environ}
    homes = ("HADOOP_YARN_HOME", "HADOOP_HOME", "HADOOP_COMMON_HOME", "HADOOP_HDFS_HOME")
    path = [*state.container_path, environ.get("PATH") or os.defpath]
    result = {
        **kept,
        "PATH": os.pathsep.join(path),
        "LANG": "C.UTF-8",
        "JAVA_HOME": state.java_home,
        "HADOOP_CONF_DIR": str(layout.conf),
        **dict.fromkeys(homes, state.hadoop_home or str(layout.home)),
    }
    if not line_of(state.hadoop_version).am_java_opts:
        result["JDK_JAVA_OPTIONS"] = OPENS
    return result


def conf_dir(name: str, state: State, layout: Layout) -> Path:
    """Return a daemon's configuration directory: one for all, except that each of two ResourceManagers has its own."""
    if state.ha and name in ("resourcemanager", "resourcemanager2"):
        return layout.rm_conf(2 if name == "resourcemanager2" else 1)
    return layout.conf


def _java(state: State, layout: Layout, daemon: Daemon) -> list[str]:
    argv = [f"{state.java_home}/bin/java", *_JVM, f"-Xmx{daemon.heap}", marker(layout.home), f"-Dhadoop.log.dir={layout.run / 'log'}"]
    if state.hosts_file:
        argv.append(f"-Djdk.net.hosts.file={layout.conf / 'hosts'}")
    argv += java_options(state, layout)
    if state.native and daemon.name == "nodemanager":
        argv.append(f"-Djava.library.path={state.native}")
    return [*argv, "-cp", f"{conf_dir(daemon.name, state, layout)}:{layout.webroot}:{state.jars}/*", daemon.main]


def start(name: str, state: State, layout: Layout, environ: Mapping[str, str]) -> Process:
    """Start one daemon and return its process at once, long before it is well.

    Raises:
        SandboxError: when it could not be started at all.
    """
    variables = environment(state, layout, environ)
    if name == "dockerd":
        restore_bridge(state.engine)
        expose(state.engine, exposed(layout))
        return start_engine(state.engine, environ, state.dns_address, dockerd_options(state, environ))
    if name == "kdc":
        variables |= {**kdc_environment(layout), "PATH": kdc_path(variables["PATH"])}
        return launch(kdc_argv(layout, marker(layout.home), environ), variables, layout.home, layout.log(name))
    # The NodeManager's own value reaches every container.
    shown = state.docker and name == "nodemanager"
    variables["HADOOP_CONF_DIR"] = str(layout.exposed / "conf" if shown else conf_dir(name, state, layout))
    argv = _java(state, layout, TABLE[name])
    if name == "zookeeper":
        argv.append(str(layout.conf / "zoo.cfg"))
    if name == "nodemanager" and state.resolver == "system" and not state.docker:
        argv = [
            "unshare",
            "-m",
            "--propagation",
            "private",
            "/bin/sh",
            "-c",
            _PRIVATE_RESOLVER,
            "sh",
            str(layout.conf / "resolv.conf"),
            *argv,
        ]
    return launch(argv, variables, layout.home, layout.log(name))


def format_namenode(state: State, layout: Layout, environ: Mapping[str, str]) -> None:
    """Make an empty HDFS, unless there is one.

    Raises:
        SandboxError: when the NameNode could not format its directory.
    """
    if (layout.namenode / "current" / "VERSION").is_file():
        return
    argv = [*_java(state, layout, TABLE["namenode"]), "-format", "-force", "-nonInteractive"]
    with layout.log("namenode").open("ab") as log:
        try:
            done = subprocess.run(
                argv,
                cwd=layout.home,
                env=environment(state, layout, environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=_FORMAT_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SandboxError(f"formatting HDFS took longer than {_FORMAT_TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        words = failure_excerpt(layout.log("namenode"))
        raise SandboxError(f"namenode could not format HDFS (exit status {done.returncode}); the end of its log:\n{words}")


def log_tail(path: Path, lines: int = 25) -> str:
    """Return the last lines of a log file."""
    return "\n".join(_last_lines(path, lines))


def failure_excerpt(path: Path, lines: int = 25) -> str:
    """Return the end of a failed daemon's log, and before it the errors that its last words have pushed out of sight."""
    every = _last_lines(path, 600)
    tail, earlier = every[-lines:], every[:-lines]
    errors = [line for line in earlier if _ERROR.search(line)][-6:]
    return "\n".join([*errors, "...", *tail] if errors else tail)


_ERROR = re.compile(r"^Caused by:| (ERROR|FATAL) |^Exception in thread")


def _last_lines(path: Path, lines: int) -> list[str]:
    try:
        with path.open("rb") as handle:
            handle.seek(0, os.SEEK_END)
            handle.seek(max(0, handle.tell() - 1000 * lines))
            text = handle.read().decode(errors="replace")
    except OSError:
        return []
    return text.splitlines()[-lines:] if lines else []
