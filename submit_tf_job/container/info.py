"""The identity of this task and its job: the task description, combined with YARN's environment."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from submit_tf_job.container import contract, tfconfig

PREFIX = "[submit_tf_job] "


def log(text: str) -> None:
    """Write a line to the task's stderr; errors such as a full disk are ignored."""
    with contextlib.suppress(OSError):
        os.write(2, (PREFIX + text + "\n").encode("utf-8", "replace"))


def log_hold(info: Info, for_s: float) -> None:
    """Write to the log of a held container for how long it stays, and where its directory is."""
    text = "the job failed; this container stays for %d s (`hold_on_failure`), its directory is %s"
    log(text % (for_s, info.cwd))


class BootstrapProblem(Exception):
    """The reason why the command cannot run; it becomes the task's outcome."""

    def __init__(self, message: str, reason: str = "bootstrap-error") -> None:
        """Keep one sentence, and the reason: a code for the report, which also decides the exit
        status.
        """
        super().__init__(message)
        self.message, self.reason = message, reason
        self.status = contract.STATUS_OF_REASON.get(reason, contract.EXIT_BOOTSTRAP_ERROR)


def problem_of(error: Exception) -> BootstrapProblem:
    """Return an exception as the reason why a task ends. Of any but a `BootstrapProblem`, the log
    gets the traceback.
    """
    if isinstance(error, BootstrapProblem):
        return error
    # the module traceback cannot be imported while there are too many open files
    sys.__excepthook__(type(error), error, error.__traceback__)
    with contextlib.suppress(OSError):  # of a full disk
        sys.stderr.flush()  # Python before 3.9 would print it after the outcome line
    return BootstrapProblem(f"the bootstrap failed: {error!r}")


class Info:
    """The task description and this task's identity.

    Raises:
        ValueError: The identity is unreadable or not part of the job.
    """

    def __init__(self, task: Mapping[str, Any], env: Mapping[str, str], cwd: str) -> None:
        """Parse the description `task` and the environment of the container."""
        label, _, suffix = env.get(contract.ENV_HOSTNAME, "").partition(".")
        self.task, self.env, self.cwd = task, env, cwd
        self.roles: Mapping[str, Any] = task["roles"]
        self.role, self.index = tfconfig.split_instance(env.get(contract.ENV_INSTANCE) or label)
        self.name = f"{self.role}-{self.index}"
        self.counts = {name: int(role["count"]) for name, role in self.roles.items()}
        if self.index >= self.counts.get(self.role, 0) and not self.may_grow(self.role):
            text = "this container is %s, but the job has %d of role %r"
            raise ValueError(text % (self.name, self.counts.get(self.role, 0), self.role))
        self.run = str(task["run"])
        self.suffix = (suffix or task.get("host_suffix") or "").lower()
        self.decides = (self.role, self.index) == (task["deciding"], 0)
        self.deciding = f"{task['deciding']}-0"
        self.total = sum(self.counts.values())
        # distinguishes a reconnecting process from a restarted one
        self.process = os.urandom(6).hex()
        self.attempt = 0
        # the image, if the NodeManager ignored it and runs a plain process
        self.ignored_image = ""
        self.gpus: list[str] = []  # the models of those that this task sees
        self.credentials: list[dict[str, Any]] = []  # descriptions of credentials, without secrets
        # addresses that the deciding task gives instead of names, by task
        self.hosts: dict[str, str] = {}
        # ports that were taken instead of those that follow from the run's name, by task
        self.ports: dict[str, int] = {}
        self.served: dict[str, int] = {}  # the ports that this task serves, by name
        self._present: dict[str, list[int]] = {}  # of the roles that lack tasks
        self.warnings: list[str] = []  # warnings for the deciding task's report
        # whether tasks find the deciding one without Registry DNS, and programs get no names
        self.by_place = "meeting" in task and not task["meeting"]["dns"]
        self.started = time.monotonic()
        self.wall = time.time() - self.started
        self.node = env.get("NM_HOST") or socket.gethostname()
        self.container = env.get("CONTAINER_ID", "")
        logs = env.get("LOG_DIRS", "").split(",")[0] or env.get("LOG_DIR", "")
        self.log_dir = logs if os.path.isdir(logs) else ""
        # one of them and `grace` pass until a node that died silently is noticed: with ten
        # thousand tasks less than a minute
        self.ping_s = max(float(task.get("ping_s", 5.0)), self.total / 1250.0)
        self.settle_s = float(task.get("settle_s", 2.0))
        self.stop_grace_s = float(task.get("stop_grace_s", 5.0))

    def may_grow(self, role: str) -> bool:
        """Return whether a role may get more tasks than the task description counts.

        Only sidecars may, because TensorFlow's cluster does not contain them.
        """
        return role in self.roles and self.role_kind(role) == contract.KIND_SIDECAR

    @property
    def workdir(self) -> str:
        """The directory in which the command starts."""
        return os.path.join(self.cwd, self.roles[self.role].get("workdir", "")).rstrip("/") or "/"

    def role_kind(self, role: str) -> str:
        """Return the `kind` of a role, such as `contract.KIND_TRAINS`."""
        role_kind: str = self.roles[role]["kind"]
        return role_kind

    def leave_out(self, tasks: Mapping[str, Collection[int]]) -> None:
        """Hide tasks of elastic roles, given as role → indexes, from programs; tasks that were
        hidden before and are not among them are shown again. The ranks of the other tasks are
        consecutive.
        """
        self._present = {
            role: [index for index in range(self.counts[role]) if index not in left_out]
            for role, left_out in tasks.items()
        }

    def present(self, role: str) -> Sequence[int]:
        """Return the indexes of the tasks of a role that programs know, in order."""
        known = self._present.get(role)
        return range(self.counts[role]) if known is None else known

    @property
    def sizes(self) -> dict[str, int]:
        """The number of tasks of each role that programs know."""
        return {role: len(self.present(role)) for role in self.counts}

    @property
    def position(self) -> int:
        """The index of this task as programs know it: its place among the present tasks of its
        role.
        """
        if self.role not in self._present:
            return self.index
        return self._present[self.role].index(self.index)

    def host(self, task: str) -> str:
        """Return the registry's host name of a task such as `worker-3`.

        Raises:
            BootstrapProblem: The domain of the host names is not known.
        """
        if not self.suffix:
            text = "the names of the other tasks are unknown: %s is not set"
            raise BootstrapProblem(text % contract.ENV_HOSTNAME)
        return (f"{task}.{self.suffix}").lower()

    def port(self, role: str, index: int) -> int:
        """Return the port of a task: the one that it took because its own was in use, or else its
        own.
        """
        name = f"{role}-{index}"
        return self.ports.get(name) or self.port_of(name)

    def port_of(self, name: str) -> int:
        """Return the own port of the task `name`, which is computed from the run's name; if it is
        in use, the task takes another one.
        """
        role, index = tfconfig.split_instance(name)
        return tfconfig.task_port(self.task["ports"], self.counts, self.run, role, index)

    def place(self, role: str, position: int) -> tuple[str, int]:
        """Return host and port of a task: its host name, or its address if names are not used.

        Args:
            role: The task's role.
            position: The task's index in the cluster that the training program is told, in which
                elastic tasks that are left out are not counted.

        Raises:
            BootstrapProblem: Neither the task's address nor the domain of the host names is known.
        """
        index = self.present(role)[position]
        name = f"{role}-{index}"
        return self.hosts.get(name) or self.host(name), self.port(role, index)

    def address(self, role: str, position: int) -> str:
        """Return `place` as `host:port`, with an IPv6 address in brackets."""
        return host_port(*self.place(role, position))

    def addresses(self, role: str) -> list[str]:
        """Return `address` of each task of a role that programs know, in order."""
        return [self.address(role, position) for position in range(len(self.present(role)))]

    def addressed(self) -> list[str]:
        """Return the roles whose addresses programs get, sorted by name: all roles except
        sidecars.
        """
        return [r for r in sorted(self.roles) if self.role_kind(r) != contract.KIND_SIDECAR]

    def addressed_tasks(self) -> list[str]:
        """Return the tasks whose addresses programs get, in the same order in each task; tasks that
        are left out are not among them.
        """
        return [f"{role}-{i}" for role in self.addressed() for i in self.present(role)]

    def tf_config(self) -> str:
        """Return TF_CONFIG of this task; "" if TensorFlow needs none. The addresses in it may raise
        `BootstrapProblem`, as for `place`.
        """
        legacy = bool(self.task.get("legacy_master"))
        return tfconfig.tf_config(
            self.sizes, self.task["cluster_roles"], self.role, self.position, self.address, legacy
        )

    def application(self) -> str:
        """Return the part of the container id that names the application, such as
        `1700000000000_0001`; "" if there is no container id (entry-point mode).
        """
        return "_".join(self.container.split("_")[-4:-2])


def host_port(host: str, port: int) -> str:
    """Return `host:port`, with an IPv6 address in brackets."""
    return ("[%s]:%d" if ":" in host else "%s:%d") % (host, port)


def signal_name(number: int) -> str:
    """Return the name of a signal: `SIGKILL` for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def describe(info: Info, code: int, by_shell: bool = False) -> dict[str, Any]:
    """Convert a child's return code (negative: a signal) into a record: `status`, `signal`,
    `reason` and `message`.

    `by_shell` tells whether the child is a shell, whose exit status reports the signal that ended
    its program.
    """
    number = max(0, -code)
    if by_shell and code > 0:
        number = contract.signal_of_status(code)
    if not number:
        text = f"{info.name} exited with status {code}"
        return {"status": code, "signal": None, "reason": contract.REASON_EXITED, "message": text}
    reason = contract.reason_of_signal(number)
    ended = "crashed with" if reason == contract.REASON_CRASHED else "was killed by"
    text = f"{info.name} {ended} {signal_name(number)}"
    if number == signal.SIGKILL:
        text += " (often a memory limit)"
    return {"status": 128 + number, "signal": number, "reason": reason, "message": text}


def exit_status(status: int) -> int:
    """Return the exit status to pass to YARN: 95 in place of 22 and 24, which would mark the node
    as unhealthy.
    """
    return contract.EXIT_RESERVED_STATUS if status in contract.NEVER_PASSED_ON else status & 255
