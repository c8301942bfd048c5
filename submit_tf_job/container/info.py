"""Who this task is, and what the job looks like: the task description joined with what YARN put into the environment."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
import uuid

from submit_tf_job import contract, tfconfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PREFIX = "[submit_tf_job] "


def say(text: str) -> None:
    """Tell a person, on the task's stderr; a full disk is no reason to end a training."""
    with contextlib.suppress(OSError):
        os.write(2, (PREFIX + text + "\n").encode("utf-8", "replace"))


class Problem(Exception):
    """Why the command cannot run; becomes the task's outcome."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        """Keep exit status, reason (a word of the report) and one sentence."""
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class Info:
    """The task description and this task's place in it.

    Raises:
        ValueError: The identity cannot be read, or is not part of the job.
    """

    def __init__(self, task: Mapping[str, Any], env: Mapping[str, str], cwd: str) -> None:
        """Read the description `task` and the environment of the container."""
        if task["version"] != contract.TASK_VERSION:
            raise ValueError("task description of version %r, this bootstrap reads %d" % (task["version"], contract.TASK_VERSION))
        label, _, suffix = env.get(contract.ENV_HOSTNAME, "").partition(".")
        self.task, self.env, self.cwd = task, env, cwd
        self.roles: Mapping[str, Any] = task["roles"]
        self.role, self.index = tfconfig.split_instance(env.get(contract.ENV_INSTANCE) or label)
        self.name = "%s-%d" % (self.role, self.index)
        self.counts = {name: int(role["count"]) for name, role in self.roles.items()}
        if self.index >= self.counts.get(self.role, 0) and not self.may_grow(self.role):
            raise ValueError("this container is %s, but the job has %d of role %r" % (self.name, self.counts.get(self.role, 0), self.role))
        self.submission = str(task["submission"])
        self.suffix = (suffix or task.get("host_suffix") or "").lower()
        self.decides = (self.role, self.index) == (task["deciding"], 0)
        self.deciding = "%s-0" % task["deciding"]
        self.total = sum(self.counts.values())
        self.run = uuid.uuid4().hex[:12]  # tells a process that came back from one that was started again
        self.attempt = 0
        self.credentials: list[dict[str, Any]] = []  # what is no secret in them
        self.started = time.monotonic()
        self.wall = time.time() - self.started
        self.node = env.get("NM_HOST") or socket.gethostname()
        self.container = env.get("CONTAINER_ID", "")
        logs = env.get("LOG_DIRS", "").split(",")[0] or env.get("LOG_DIR", "")
        self.log_dir = logs if os.path.isdir(logs) else ""
        self.settle_s = float(task.get("settle_s", 2.0))
        self.stop_grace_s = float(task.get("stop_grace_s", 5.0))

    def may_grow(self, role: str) -> bool:
        """Say whether a role may get tasks that the description does not count: TensorFlow knows nothing of sidecars."""
        return role in self.roles and self.roles[role]["duty"] == contract.DUTY_SIDECAR

    def duty(self, role: str, index: int) -> str:
        """Say what a task is for; only the first task of the deciding role decides."""
        duty: str = self.roles[role]["duty"]
        if role == self.task["deciding"] and index > 0 and duty == contract.DUTY_DECIDES:
            return contract.DUTY_TRAINS
        return duty

    def host(self, task: str) -> str:
        """Return the registry's name of a task such as `worker-3`."""
        if not self.suffix:
            raise Problem(
                contract.EXIT_BOOTSTRAP_ERROR,
                "bootstrap-error",
                "the names of the other tasks are unknown: %s is not set" % contract.ENV_HOSTNAME,
            )
        return ("%s.%s" % (task, self.suffix)).lower()

    def port(self, role: str, index: int) -> int:
        """Return the port of a task."""
        return tfconfig.task_port(self.task["ports"], self.counts, self.submission, role, index)

    def cluster(self) -> dict[str, int]:
        """Return the roles of the cluster spec with their counts."""
        return tfconfig.cluster_counts(self.counts, self.task["cluster_roles"])

    def tf_config(self, table: Mapping[str, list[str]] | None) -> str:
        """Build TF_CONFIG from names, or from addresses where `table` has them."""

        def address(role: str, index: int) -> str:
            host = table[role][index] if table else self.host("%s-%d" % (role, index))
            return "%s:%d" % (host, self.port(role, index))

        legacy = bool(self.task.get("legacy_master"))
        return tfconfig.tf_config(self.counts, self.task["cluster_roles"], self.role, self.index, address, legacy)

    def application(self) -> str:
        """Return the application's part of the container's id, or "" where YARN gave none (entry-point mode)."""
        return "_".join(self.container.split("_")[-4:-2])


def signal_name(number: int) -> str:
    """Return `SIGKILL` for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def describe(info: Info, code: int) -> dict[str, Any]:
    """Turn a child's return code (negative: a signal) into a record."""
    if code >= 0:
        return {"status": code, "signal": None, "reason": "exited", "message": "%s ended with status %d" % (info.name, code)}
    hint = " (often a memory limit)" if code == -9 else ""
    text = "%s was killed by %s%s" % (info.name, signal_name(-code), hint)
    return {"status": 128 - code, "signal": -code, "reason": "killed", "message": text}


def exit_status(status: int) -> int:
    """Return the status that YARN may see."""
    return contract.EXIT_RESERVED_STATUS if status in contract.NEVER_PASSED_ON else status & 255
