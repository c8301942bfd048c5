"""End every process of a sandbox."""

from __future__ import annotations

from submit_tf_job.sandbox import daemons
from submit_tf_job.sandbox.engine import end_engine
from submit_tf_job.sandbox.options import ALL_DAEMONS, MAX_NODES, NODEMANAGERS
from submit_tf_job.sandbox.processes import Process, container_processes, end, marked_processes
from submit_tf_job.sandbox.saved_state import Layout

__all__ = ["containers", "end_everything"]


def containers(layout: Layout, node: int) -> list[Process]:
    """Find the processes of one node's containers, with and without Docker."""
    directories = (layout.nm_local(node), layout.exposed_to(node, "nm-local"))
    return [process for path in directories for process in container_processes(path)]


def _every_container(layout: Layout) -> list[Process]:
    nodes = [node for node in range(1, MAX_NODES + 1) if layout.nm_local(node).exists()]
    return [process for node in nodes for process in containers(layout, node)]


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
    for _ in range(5):
        left = _every_container(layout)
        if not left:
            break
        found = True
        end(left, grace_s=1.0)
    return end_engine(layout.docker) or found
