"""Find out whether the command of a task ever listened for other tasks, or connected to another
task.

The tasks of a distributed training do so: with TensorFlow each task listens at its own port; with
PyTorch and JAX all tasks connect to the port of rank 0. A program that uses no distribution
strategy trains a separate copy of the model in each task, without any connection.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from submit_tf_job.container import contract
from submit_tf_job.container.info import Info
from submit_tf_job.container.tfconfig import split_instance

STRATEGIES = ("multi-worker", "parameter-server", "estimator", "torch", "jax")
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")  # of the container's network, or of its node's
CONNECTED, LISTENS = "01", "0A"  # include/net/tcp_states.h
LONG_ENOUGH_S = 20.0  # a shorter command may have met others between two checks
CHECKS = 3
SHARE = 0.01  # of CPU time, for tables of nodes with many connections


def has_peer_traffic(
    own: int, others: Collection[int], tables: Sequence[str] = TABLES
) -> bool | None:
    """Return whether a task listens at its port, or has a connection to another task of the job;
    None if the tables cannot be read.

    Args:
        own: The port of this task.
        others: The ports of the other tasks.
        tables: The kernel's tables (proc(5)).
    """
    was_read = False
    for table in tables:
        try:
            with open(table, encoding="ascii") as file:
                rows = [_ports_and_state(line) for line in file.readlines()[1:]]
        except (OSError, ValueError):
            continue
        was_read = True
        for here, there, state in rows:
            if state == LISTENS and here == own:
                return True
            if state == CONNECTED and (here == own or there in others):
                return True
    return False if was_read else None


def _ports_and_state(line: str) -> tuple[int, int, str]:
    local, remote, state = line.split(None, 4)[1:4]
    return int(local.rpartition(":")[2], 16), int(remote.rpartition(":")[2], 16), state


class PeerTraffic:
    """Checks at intervals whether one command listens for other tasks, or is connected to one."""

    def __init__(self, info: Info, now: float) -> None:
        task = info.task
        self.expected = (
            task.get("strategy") in STRATEGIES
            and info.role_kind(info.role) == contract.KIND_TRAINS
            and len(info.addressed_tasks()) > 1
            and "horovod" not in task.get("variables", ())  # whose ports only it knows
        )
        self.own = info.port(info.role, info.index)
        names = set(info.addressed_tasks()) - {info.name} if self.expected else ()
        self.others = {info.port(*split_instance(name)) for name in names}
        self.long_enough_s = float(task.get("meeting_s", LONG_ENOUGH_S))
        self.started = self.next_check = now
        self.checks, self.has_traffic = 0, False

    def check(self, now: float) -> None:
        """Check the kernel's tables, if a check is due."""
        if not self.expected or self.has_traffic or now < self.next_check:
            return
        began = time.process_time()
        found = has_peer_traffic(self.own, self.others)
        self.next_check = now + (time.process_time() - began) / SHARE
        self.checks += found is not None
        self.has_traffic = bool(found)

    def result(self, now: float) -> bool | None:
        """Return whether a check has found the command listening for other tasks, or connected to
        one; None if there were too few checks to tell, or the command is not expected to do so.
        """
        sure = self.checks >= CHECKS and now - self.started >= self.long_enough_s
        return self.has_traffic or (False if sure else None)
