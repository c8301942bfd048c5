"""The table of a sandbox's daemons, with program, health check, memory, mode and ports of each
daemon.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.addresses import first_port
from submit_tf_job.sandbox.engine import DOCKERD, server_version
from submit_tf_job.sandbox.hardening import KDC_MAIN
from submit_tf_job.sandbox.state import DOMAIN, NODEMANAGERS, Mode, SandboxState
from submit_tf_job.sandbox.web import NotWell, get_json, send

_ANSWER_S = 3.0


@dataclass(frozen=True)
class Daemon:
    """One daemon.

    Attributes:
        main: The daemon's main class, or its program.
        health: Raises NotWell unless the daemon is healthy.
        heap: The daemon's -Xmx; "" if it is not a JVM.
        mode: The mode in which a sandbox has the daemon. None means every sandbox, with two
            exceptions: a sandbox has only as many NodeManagers as nodes, and no Registry DNS if
            names are not resolved.
        ports: The purposes of the ports at which the daemon listens (TCP; for `dns`, also UDP).
        offset: The place of the daemon's first port in a sandbox's block of ports.
    """

    main: str
    health: Callable[[SandboxState], None]
    heap: str = ""
    mode: Mode | None = None
    ports: tuple[str, ...] = ()
    offset: int = 0


# --- health checks ---


def _dockerd_health(state: SandboxState) -> None:
    try:
        server_version(state.engine)
    except SandboxError as problem:
        raise NotWell(str(problem)) from None


def _jmx_bean(state: SandboxState, purpose: str, name: str) -> Mapping[str, object]:
    url = f"http://{state.hdfs_host}:{state.ports[purpose]}/jmx?qry={name}"
    beans = get_json(url, state).get("beans")
    if not isinstance(beans, list) or not beans or not isinstance(beans[0], dict):
        raise NotWell(f"{name} is not there yet")
    return beans[0]


def _namenode_health(state: SandboxState) -> None:
    info = _jmx_bean(state, "namenode_http", "Hadoop:service=NameNode,name=NameNodeInfo")
    if info.get("Safemode") != "":
        raise NotWell(str(info.get("Safemode")))
    url = f"{state.namenode_url}/webhdfs/v1/?op=GETFILESTATUS&user.name={state.user}"
    status, body = send("GET", url, state)
    if status != 200:
        raise NotWell(f"WebHDFS answers {status}: {body[:200].decode(errors='replace')}")


def _datanode_health(state: SandboxState) -> None:
    info = _jmx_bean(state, "datanode_http", "Hadoop:service=DataNode,name=DataNodeInfo")
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


def _ha_role(state: SandboxState, url: str) -> str:
    try:
        return _ha_state(state, url)
    except NotWell as problem:
        return str(problem)


def _rm_health(number: int, state: SandboxState) -> None:
    """Check that a ResourceManager is active and serves the services API; or, of two, that exactly
    one is active, and this one is it or is standby.
    """
    url = state.rm_urls[number]
    role = _ha_state(state, url)
    if role == "ACTIVE":
        get_json(f"{url}/app/v1/services/version", state)
    other_leads = state.ha and _ha_role(state, state.rm_urls[1 - number]) == "ACTIVE"
    if (role == "ACTIVE") == other_leads:
        raise NotWell(f"it is {role}, and {'two are' if other_leads else 'none is'} ACTIVE")


def _nm_health(node: int, state: SandboxState) -> None:
    if problem := _unhealthy_reason(node, state):
        raise NotWell(f"it calls itself unhealthy: {problem}")


def _unhealthy_reason(node: int, state: SandboxState) -> str:
    """Return why a NodeManager reports its node as unhealthy; "" if the node is healthy."""
    info = get_json(f"{state.nm_urls[node - 1]}/ws/v1/node/info", state)["nodeInfo"]
    return "" if info.get("nodeHealthy") else str(info.get("healthReport") or None)


def _zookeeper_health(state: SandboxState) -> None:
    """Check ZooKeeper's health with its command `ruok`."""
    port = state.ports["zookeeper"]
    with _open_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"ruok")
        answer = connection.recv(16)
    if answer != b"imok":
        raise NotWell(f"port {port} answers {answer!r} instead of imok")


def _kdc_health(state: SandboxState) -> None:
    """Check that the KDC accepts connections."""
    host, _, port = state.kdc_address.partition(":")
    with _open_connection((host, int(port))):
        pass


@contextlib.contextmanager
def _open_connection(address: tuple[str, int]) -> Iterator[socket.socket]:
    try:
        with socket.create_connection(address, timeout=_ANSWER_S) as connection:
            yield connection
    except OSError as error:
        raise NotWell(f"port {address[1]} does not answer: {error}") from None


def _registrydns_health(state: SandboxState) -> None:
    """Check that Registry DNS answers a query for the SOA record of its zone."""
    from dns.exception import DNSException
    from dns.message import make_query
    from dns.query import udp

    try:
        query, where = make_query(DOMAIN, "SOA"), state.dns_address
        answer = udp(query, where, timeout=_ANSWER_S, port=state.dns_port)
    except (DNSException, OSError) as error:
        raise NotWell(f"{state.dns_server} does not answer: {error}") from None
    if answer.rcode() or not answer.answer:
        raise NotWell(f"it does not know its zone {DOMAIN} (code {int(answer.rcode())})")


# --- the table ---

_HADOOP = "org.apache.hadoop"
_RM = f"{_HADOOP}.yarn.server.resourcemanager.ResourceManager"
NODEMANAGER_MAIN = f"{_HADOOP}.yarn.server.nodemanager.NodeManager"
_NN = f"{_HADOOP}.hdfs.server.namenode.NameNode"
_DN = f"{_HADOOP}.hdfs.server.datanode.DataNode"
_ZK = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
REGISTRY_DNS_MAIN = f"{_HADOOP}.registry.server.dns.RegistryDNSServer"

_NN_PORTS = ("namenode", "namenode_http")
_DN_PORTS = ("datanode", "datanode_http", "datanode_ipc")
_RM_PORTS = ("rm_scheduler", "rm_tracker", "rm", "rm_admin", "rm_http")
_RM2_PORTS = ("rm2_scheduler", "rm2_tracker", "rm2", "rm2_admin", "rm2_http")
_NM_PORTS = ("nm", "nm_localizer", "nm_http")

# In the order in which they are shown and started; also the names that `logs` accepts.
TABLE: Mapping[str, Daemon] = {
    "dockerd": Daemon(DOCKERD, _dockerd_health, mode="docker"),
    "kdc": Daemon(KDC_MAIN, _kdc_health, "", "kerberos", ("kdc",), 15),
    "zookeeper": Daemon(_ZK, _zookeeper_health, "128m", None, ("zookeeper",), 0),
    "namenode": Daemon(_NN, _namenode_health, "384m", None, _NN_PORTS, 1),
    "datanode": Daemon(_DN, _datanode_health, "256m", None, _DN_PORTS, 3),
    "resourcemanager": Daemon(_RM, partial(_rm_health, 0), "512m", None, _RM_PORTS, 6),
    "resourcemanager2": Daemon(_RM, partial(_rm_health, 1), "512m", "ha", _RM2_PORTS, 16),
    # Nodes differ in their addresses and have the same ports.
    **{
        name: Daemon(NODEMANAGER_MAIN, partial(_nm_health, node), "384m", None, _NM_PORTS, 11)
        for node, name in enumerate(NODEMANAGERS, 1)
    },
    "registrydns": Daemon(REGISTRY_DNS_MAIN, _registrydns_health, "128m", None, ("dns",), 14),
}


def names_of(state: SandboxState) -> tuple[str, ...]:
    """Return the names of a sandbox's daemons."""
    absent = {*NODEMANAGERS[state.nodes :], *(() if state.dns else ("registrydns",))}
    return tuple(
        name
        for name, daemon in TABLE.items()
        if daemon.mode in (None, *state.modes) and name not in absent
    )


def block_ports(block: int) -> dict[str, int]:
    """Return the ports of a block by purpose."""
    return {
        purpose: first_port(block) + daemon.offset + place
        for daemon in TABLE.values()
        for place, purpose in enumerate(daemon.ports)
    }


def daemon_ports(name: str, state: SandboxState) -> tuple[int, ...]:
    """Return the ports that a daemon listens on."""
    ports = {**state.ports, "dns": state.dns_port}
    return tuple(ports[purpose] for purpose in TABLE[name].ports)


def check_daemon(name: str, state: SandboxState) -> None:
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
    """Check that a NodeManager is a running node of the ResourceManager, and that no NodeManager of
    another sandbox is registered.

    Raises:
        NotWell: The NodeManager is missing, or a NodeManager of another sandbox is registered.
    """
    found = get_json(f"{_active_url(state)}/ws/v1/cluster/nodes", state)
    nodes = (found.get("nodes") or {}).get("node") or []
    running = {node.get("id") for node in nodes if node.get("state") == "RUNNING"}
    if state.node_ids[state.nodemanagers[name] - 1] not in running:
        raise NotWell("the NodeManager is not registered with the ResourceManager")
    for other in running - set(state.node_ids):
        raise NotWell(f"a foreign NodeManager, {other}, has joined the ResourceManager")


def _active_url(state: SandboxState) -> str:
    return next(
        (url for url in state.rm_urls if not state.ha or _ha_role(state, url) == "ACTIVE"),
        state.rm_urls[0],
    )


def gave_up(state: SandboxState) -> list[str]:
    """Return the NodeManagers that report their nodes as unhealthy until they are restarted; none
    in a sandbox without Docker.

    LinuxContainerExecutor makes them do so when a container ends with the exit status 22 or 24.
    """
    found = []
    for name, node in state.nodemanagers.items() if state.docker else ():
        with suppress(NotWell, KeyError):
            if state.is_alive(name) and "unrecoverable exception" in _unhealthy_reason(node, state):
                found.append(name)
    return found
