"""Start daemons together, and wait until the whole sandbox is well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from time import monotonic, sleep

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox import daemons, ports
from submit_tf_job.sandbox.docker import NETWORK
from submit_tf_job.sandbox.engine import ensure_network
from submit_tf_job.sandbox.hdfs import prepare_hdfs
from submit_tf_job.sandbox.processes import Process, container_processes, end, is_alive
from submit_tf_job.sandbox.shutdown import end_everything
from submit_tf_job.sandbox.state import Layout, State, save_state
from submit_tf_job.sandbox.web import NotWell

__all__ = ["alive", "refuse_taken_ports", "start_daemons", "wait_until_well"]

START_TIMEOUT_S = 180.0

Progress = Callable[[str], None]

_HDFS = ("namenode", "datanode")
_LET_GO_S = 5.0


def alive(state: State, name: str) -> bool:
    """Say whether a daemon's process is there."""
    process = state.daemons.get(name)
    return process is not None and is_alive(process)


def refuse_taken_ports(name: str, state: State) -> None:
    """Refuse to start a daemon whose ports another process has taken meanwhile.

    Raises:
        SandboxError: naming the port.
    """
    for port in daemons.daemon_ports(name, state):
        if not _is_let_go(port, state.dns_address if name == "registrydns" else ""):
            raise SandboxError(
                f"{name} is dead and cannot be started again: another process listens on its port {port}",
                hint="end that process, or `sandbox down` and `sandbox up`",
            )


def _is_let_go(port: int, address: str) -> bool:
    """Wait for a port a moment: a killed process is dead before the last of its threads has gone, and its sockets go with that one."""
    deadline = monotonic() + _LET_GO_S
    while not ports.port_is_free(port, address):
        if monotonic() >= deadline:
            return False
        sleep(0.1)
    return True


def start_daemons(names: Iterable[str], state: State, layout: Layout, environ: Mapping[str, str], progress: Progress) -> State:
    """Start daemons and wait until the whole sandbox is well.

    Args:
        names: What to start; the others run already.
        state: The sandbox.
        layout: Its files.
        environ: Environment of the caller.
        progress: Called with one line per step.

    Raises:
        SandboxError: naming the daemon that failed, with the end of its log; what this call started has been ended again.
    """
    names = tuple(names)
    progress(f"starting {', '.join(names)}")
    started: list[Process] = []
    try:
        if "kdc" in names:
            # The others log in as they start, and end where they cannot.
            state = _start("kdc", state, layout, environ, started)
            _wait("kdc", partial(daemons.check, "kdc", state), state, layout, monotonic() + START_TIMEOUT_S, needed=("kdc",))
        # Formatting takes seconds, in which the daemons that do not need HDFS come up.
        for name in (name for name in names if name not in ("kdc", *_HDFS)):
            state = _start(name, state, layout, environ, started)
        if "namenode" in names:
            daemons.format_namenode(state, layout, environ)
        for name in (name for name in names if name in _HDFS):
            state = _start(name, state, layout, environ, started)
        wait_until_well(state, layout, progress)
    except BaseException:
        end(started, grace_s=0)
        if not state.ready:
            end_everything(layout)
        raise
    return state


def _start(name: str, state: State, layout: Layout, environ: Mapping[str, str], started: list[Process]) -> State:
    if name == "nodemanager" and not state.recovery:
        # It would not know the containers that its predecessor left.
        end(container_processes(layout.exposed / "nm-local" if state.docker else layout.nm_local), grace_s=1.0)
    process = daemons.start(name, state, layout, environ)
    started.append(process)
    state = state.with_daemon(name, process)
    save_state(layout, state)
    return state


def wait_until_well(state: State, layout: Layout, progress: Progress) -> None:
    """Wait until every daemon is well, HDFS has its directories, and the node is registered.

    Raises:
        SandboxError: naming the daemon that ended or never got well, with the end of its log.
    """
    deadline = monotonic() + START_TIMEOUT_S
    if state.docker:
        _wait("dockerd", partial(daemons.check, "dockerd", state), state, layout, deadline)
        ensure_network(state.engine, NETWORK)
    for name in _HDFS:
        _wait(name, partial(daemons.check, name, state), state, layout, deadline)
    if not state.ready:
        progress("HDFS is up")
        prepare_hdfs(state, layout)
    for name in state.daemon_names:
        _wait(name, partial(daemons.check, name, state), state, layout, deadline)
    _wait("nodemanager", partial(daemons.check_registered, state), state, layout, deadline)


def _wait(name: str, check: Callable[[], None], state: State, layout: Layout, deadline: float, needed: Iterable[str] | None = None) -> None:
    while problem := _problem(check):
        # Whichever daemon has ended is the one to name, not the one that waits for it.
        for other in needed or state.daemon_names:
            if other in state.daemons and not alive(state, other):
                raise _failure(other, "ended while it started", layout)
        if monotonic() > deadline:
            raise _failure(name, f"is not well after {START_TIMEOUT_S:.0f} s: {problem}", layout)
        sleep(0.1)


def _problem(check: Callable[[], None]) -> str:
    try:
        check()
    except NotWell as problem:
        return str(problem) or "unknown"
    return ""


def _failure(name: str, what: str, layout: Layout) -> SandboxError:
    log = layout.log(name)
    return SandboxError(f"{name} {what}; the end of its log:\n{daemons.failure_excerpt(log)}", hint=f"the whole log is {log}")
