"""Reserve the ports of a task, and choose free ones where they are in use."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Iterable, Iterator

from submit_tf_job.container import contract, tfconfig
from submit_tf_job.container.child import Signals
from submit_tf_job.container.dns_client import listening_socket
from submit_tf_job.container.info import BootstrapProblem, Info, log

# the ports to try where containers have addresses of their own
OWN = {"first": 20000, "last": 32767}
BACKLOG = 1024  # connections that the kernel keeps until they are accepted
PATIENCE_S = 2.0  # an earlier attempt of the same task may be about to end
CLAIM = "\0submit_tf_job-port-%d"


class Reservation:
    """A port that no other task of this package takes until the bootstrap ends.

    Until the command starts, a socket listens at the port. A claim, which is an abstract Unix
    socket, stays open longer: all containers on a node's host network share abstract sockets,
    whatever user they run as. The claim protects the port in the seconds in which a program loads
    its libraries and does not listen yet.
    """

    def __init__(self, port: int) -> None:
        """Reserve a port, with the socket options of TensorFlow's gRPC.

        These options are SO_REUSEADDR without SO_REUSEPORT.

        Raises:
            OSError: The port is in use.
        """
        self.port = port
        self._claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket = listening_socket()
        try:
            self._bind_claim()
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(("", port))  # peers are other hosts
            self.socket.listen(BACKLOG)
        except OSError:
            self.drop()
            raise

    def _bind_claim(self) -> None:
        try:
            self._claim.bind(CLAIM % self.port)
        except OSError as err:  # where abstract sockets are forbidden, the port has no claim
            if err.errno == errno.EADDRINUSE:
                raise

    def release(self) -> None:
        """Make the port free for the command; the claim stays."""
        self.socket.close()

    def drop(self) -> None:
        self.socket.close()
        self._claim.close()


def reserve(ports: list[int], whose: str, node: str, signals: Signals) -> Reservation:
    """Reserve the first port of `ports` that is free.

    For the first port, wait up to `PATIENCE_S` until it is free, unless a signal ends this task: an
    earlier attempt of the same task may still use it. `whose` and `node` name task and host in the
    error.

    Raises:
        BootstrapProblem: All ports are in use.
    """
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return Reservation(ports[0])
        except OSError as err:
            problem = err
        if time.monotonic() >= end or signals.stop():
            break
        time.sleep(0.1)
    found = _first_free(ports[1:])
    if found:
        return found
    text = "port %d of %s cannot be used on host %s: %s"
    text %= (ports[0], whose, node, problem.strerror or problem)
    if len(ports) > 1:
        text += f" (nor can {len(ports) - 1} others)"
    raise BootstrapProblem(text, "port-in-use")


def _first_free(ports: Iterable[int]) -> Reservation | None:
    for port in ports:
        try:
            return Reservation(port)
        except OSError:
            continue
    return None


def reserve_own(info: Info, signals: Signals) -> Reservation | None:
    """Reserve the port of this task: its own port, or another free one, which is noted in
    `info.ports`. Return None if no other task connects to this one.

    Raises:
        BootstrapProblem: No free port was found.
    """
    if info.total == 1 or info.role_kind(info.role) == contract.KIND_SIDECAR:
        return None
    own, rule = info.port_of(info.name), info.task["ports"]
    others = tfconfig.other_ports(rule, info.run, own, info.total)
    found = reserve([own, *others], info.name, info.node, signals)
    if found.port != own:
        info.ports[info.name] = found.port
        log(f"port {own} of this task is in use; port {found.port} is taken instead")
    return found


def serve(info: Info, reserved: int) -> tuple[dict[str, int], list[Reservation], list[str]]:
    """Choose a port for each name in the `ports` of this task's role. A fixed port is chosen even
    if it is in use.

    `reserved` is the port that is already reserved for the task; 0 if there is none.

    Returns:
        Port by name; the reservations; and a warning for each fixed port that is in use.

    Raises:
        BootstrapProblem: No free port was found.
    """
    found: dict[str, int] = {}
    held: list[Reservation] = []
    warnings: list[str] = []
    candidates = _candidate_ports(info)
    for name, wanted in info.roles[info.role].get("ports", {}).items():
        found[name] = wanted
        if wanted and wanted != reserved:
            try:
                held.append(Reservation(wanted))
            except OSError as err:
                if err.errno == errno.EADDRINUSE:
                    text = "port %d (%s) of %s is already in use on host %s; `ports: {%s: auto}` "
                    text += "takes a free port"
                    warnings.append(text % (wanted, name, info.name, info.node, name))
        elif not wanted:
            free = _first_free(candidates)
            if not free:
                text = "no free port was found for %s of %s on host %s"
                raise BootstrapProblem(text % (name, info.name, info.node), "port-in-use")
            held.append(free)
            found[name] = free.port
    return found, held, warnings


def _candidate_ports(info: Info) -> Iterator[int]:
    """Return the ports to try for `ports` with `auto`. On the host network they begin with the
    task's own port if the task is a sidecar, which has no other use for it; else after that port.

    A port that was chosen for one name is not tried for the next name.
    """
    rule = info.task["ports"]
    if rule["mode"] != "host":
        return iter(tfconfig.ports_from(OWN, OWN["first"], tfconfig.STRIDE, tfconfig.TRIES))
    start = info.port(info.role, info.index)
    if info.role_kind(info.role) != contract.KIND_SIDECAR:
        start += tfconfig.STRIDE
    return iter(tfconfig.ports_from(rule, start, tfconfig.STRIDE, tfconfig.TRIES))
