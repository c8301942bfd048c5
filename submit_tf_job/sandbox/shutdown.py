"""End every process of a sandbox."""

from __future__ import annotations

from submit_tf_job.sandbox import daemons
from submit_tf_job.sandbox.engine import end_engine
from submit_tf_job.sandbox.model import ALL_DAEMONS
from submit_tf_job.sandbox.processes import container_processes, end, marked_processes
from submit_tf_job.sandbox.state import Layout

__all__ = ["end_everything"]


def end_everything(layout: Layout) -> bool:
    """End a sandbox's processes, known or not to its state file; say whether there were any.

    Raises:
        SandboxError: when a process could not be ended.
    """
    running = marked_processes(layout.home, {daemon.main: daemon.name for daemon in daemons.TABLE.values()})
    by_name = {name: [process for process, other in running.items() if other == name] for name in ALL_DAEMONS}
    # Both ResourceManagers have one main class, and end together.
    # The NodeManager ends its containers itself if it is asked to.
    end(by_name.pop("nodemanager"), grace_s=5.0)
    # Registry DNS does not end on SIGTERM, and even less once ZooKeeper is gone.
    end(by_name.pop("registrydns"), grace_s=0.5)
    # dockerd is needed until its containers are gone.
    by_name.pop("dockerd")
    end((process for processes in by_name.values() for process in processes), grace_s=3.0)
    found = bool(running)
    # A container that is being killed may have just started another process.
    for _ in range(5):
        containers = [*container_processes(layout.nm_local), *container_processes(layout.exposed / "nm-local")]
        if not containers:
            break
        found = True
        end(containers, grace_s=1.0)
    return end_engine(layout.docker, keep_data=True) or found
