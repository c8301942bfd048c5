"""Start daemons together, wait until the whole sandbox is healthy, and end every process of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import quote, urlencode

from submit_tf_job import waiting
from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox import addresses, daemons
from submit_tf_job.sandbox.docker import NETWORK
from submit_tf_job.sandbox.engine import end_engine, ensure_network
from submit_tf_job.sandbox.hardening import GATEWAY, USERS
from submit_tf_job.sandbox.processes import Process, container_processes, end, marked_processes
from submit_tf_job.sandbox.state import (
    ALL_DAEMONS,
    MAX_NODES,
    NODEMANAGERS,
    Layout,
    SandboxState,
    node_host,
    save_state,
)
from submit_tf_job.sandbox.web import NotWell, send


def _containers(layout: Layout, node: int) -> list[Process]:
    """Find the processes of one node's containers, with and without Docker."""
    directories = (layout.of_node(node, "nm-local"), layout.of_node(node, "nm-local", exposed=True))
    return [process for path in directories for process in container_processes(path)]


def end_everything(layout: Layout) -> bool:
    """End a sandbox's processes, even without a state file; return whether any existed.

    Raises:
        SandboxError: A process could not be ended.
    """
    running = marked_processes(
        layout.home, {daemon.main: daemon.name for daemon in daemons.TABLE.values()}
    )
    by_name = {
        name: [process for process, other in running.items() if other == name]
        for name in ALL_DAEMONS
    }
    # Both ResourceManagers have one main class, and end together; the NodeManagers, too.
    # On SIGTERM a NodeManager ends its containers itself.
    of_nodes = [by_name.pop(name) for name in NODEMANAGERS]
    end((process for processes in of_nodes for process in processes), grace_s=5.0)
    # Registry DNS does not end on SIGTERM, least of all after ZooKeeper has ended.
    end(by_name.pop("registrydns"), grace_s=0.5)
    # dockerd is needed until its containers have ended.
    by_name.pop("dockerd")
    end((process for processes in by_name.values() for process in processes), grace_s=3.0)
    found = bool(running)
    # A container that is being killed may have just started another process.
    nodes = [node for node in range(1, MAX_NODES + 1) if layout.of_node(node, "nm-local").exists()]
    for _ in range(5):
        left = [process for node in nodes for process in _containers(layout, node)]
        if not left:
            break
        found = True
        end(left, grace_s=1.0)
    return end_engine(layout.docker) or found


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
    for port in daemons.daemon_ports(name, state):
        for _ in waiting.SANDBOX_PORT_IS_FREE.attempts():
            if addresses.port_is_free(port, address):
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
            daemons.format_namenode(state, environ)
        for name in (name for name in names if name in _HDFS):
            state = _start(name, state, environ, started)
        wait_until_well(state, progress)
    except BaseException:
        end(started, grace_s=0)
        if not state.ready:
            end_everything(state.layout)
        raise
    return state


def _start(
    name: str, state: SandboxState, environ: Mapping[str, str], started: list[Process]
) -> SandboxState:
    if name in state.nodemanagers and not state.recovery:
        # It would not recover the containers of the previous NodeManager.
        end(_containers(state.layout, state.nodemanagers[name]), grace_s=1.0)
    process = daemons.start(name, state, environ)
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
        _prepare_hdfs(state)
    for name in state.daemon_names:
        _wait(name, state)
    for name in state.nodemanagers:
        _wait(name, state, daemons.check_registered)


def _wait(
    name: str,
    state: SandboxState,
    check: Callable[[str, SandboxState], None] = daemons.check,
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
        f"{name} {what}; the end of its log:\n{daemons.end_of_log(log)}",
        hint=f"the whole log is {log}",
    )


# --- the directories of HDFS, made at the first start through WebHDFS, which needs no JVM ---


def _directories(state: SandboxState) -> list[tuple[str, str, str | None]]:
    """Return path, mode and owner of every directory to create, parents first.

    Every service AM writes below `<hadoop.tmp.dir>/.yarn/services` *in HDFS*. Otherwise the first
    user would own that tree, and a second user's containers would fail without a diagnostic.
    """
    services = state.layout.run / "tmp" / ".yarn" / "services"
    parents = [
        (str(parent), "755", None)
        for parent in reversed(services.parents)
        if str(parent) not in ("/", "/tmp")  # noqa: S108
    ]
    names = [state.user, state.submitter, *USERS]
    if state.secure:
        names.append(GATEWAY)
    users = [(f"/user/{user}", "755", user) for user in dict.fromkeys(names)]
    return [
        ("/tmp", "1777", None),  # noqa: S108
        ("/tmp/logs", "1777", None),  # noqa: S108
        ("/user", "755", None),
        *users,
        *parents,
        (str(services), "1777", None),
    ]


def _prepare_hdfs(state: SandboxState) -> None:
    """Create the directories, and for Hadoop versions that need it upload the service AM's classes.
    Repeating it changes nothing.

    Raises:
        SandboxError: The NameNode returns an error.
    """
    for path, mode, owner in _directories(state):
        _call(state, "PUT", path, {"op": "MKDIRS", "permission": mode})
        # MKDIRS does not change the mode of an existing directory, and applies the umask.
        _call(state, "PUT", path, {"op": "SETPERMISSION", "permission": mode})
        if owner:
            _call(state, "PUT", path, {"op": "SETOWNER", "owner": owner})
    if state.tarball:
        _upload(
            state, Path(state.tarball), f"/yarn-services/{state.hadoop_version}/service-dep.tar.gz"
        )


def _upload(state: SandboxState, source: Path, target: str) -> None:
    """Write the tarball; the services API accepts it only if everyone can read it and enter its
    parents.
    """
    parent = target.rpartition("/")[0]
    _call(state, "PUT", parent, {"op": "MKDIRS", "permission": "755"})
    query = {"op": "CREATE", "overwrite": "true", "permission": "755", "noredirect": "true"}
    location = str(json.loads(_call(state, "PUT", target, query))["Location"])
    try:
        with source.open("rb") as tarball:
            status, body = send("PUT", location, timeout_s=120, body=tarball)
    except NotWell as error:
        raise SandboxError(f"could not upload {source.name} to HDFS: {error}") from None
    if status != 201:
        said = body[:300].decode(errors="replace")
        raise SandboxError(f"could not upload {source.name} to HDFS: {status} {said}")


def _call(state: SandboxState, method: str, path: str, query: dict[str, str]) -> bytes:
    url = f"{state.namenode_url}/webhdfs/v1{quote(path)}?{urlencode({**query, 'user.name': state.user})}"  # noqa: E501
    try:
        status, body = send(method, url, state, timeout_s=30)
    except NotWell as error:
        raise SandboxError(f"could not prepare HDFS: {error}") from None
    if status not in (200, 201):
        raise SandboxError(
            f"could not prepare HDFS: {query['op']} {path}: {status} "
            f"{body[:300].decode(errors='replace')}"
        )
    return body
