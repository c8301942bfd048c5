"""find_link, is_reachable, log_page, tunnel_command: the web faces of a job."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from submit_tf_job import contract
from submit_tf_job.api.cluster import Cluster, find
from submit_tf_job.api.looking import in_detail
from submit_tf_job.errors import Refused, SubmitTFJobError, UsageError

if TYPE_CHECKING:
    from submit_tf_job.description import Link
    from submit_tf_job.observation import Observation

__all__ = ["find_link", "is_reachable", "log_page", "tunnel_command"]

CONNECT_S = 2.0


def find_link(cluster: Cluster, job: str, role: str, port: str | None = None) -> Link:
    """Find what a role serves.

    Args:
        role: The role, or one of its tasks.
        port: Name of the port, where the role has several.

    Raises:
        NoSuchJob: There is no such job.
        Refused: It does not run, or the role has no container yet.
        UsageError: It has no such role or port, or there are several.
    """
    from submit_tf_job.description import links_of, tasks_of

    seen = in_detail(cluster, find(cluster, job)).seen
    if seen.app is None or seen.app.ended:
        raise Refused(f"{seen.name} does not run; nothing is served any more", hint=f"what it wrote: submit_tf_job logs {seen.name} {role}")
    roles = {task.role for task in tasks_of(seen)}
    own = [link for link in links_of(seen) if role in (link.task, link.task.rpartition("-")[0])]
    if not own:
        raise _why_none(seen.name, role, roles)
    named = [link for link in own if port in (None, link.name)]
    if not named:
        raise UsageError(f"{role} has no port {port!r}", hint=f"it has {', '.join(sorted({link.name for link in own}))}")
    names = {link.name for link in named}
    if len(names) > 1:
        raise UsageError(f"{role} serves several ports", hint=f"name one with --port: {', '.join(sorted(names))}")
    return named[0]


def _why_none(name: str, role: str, roles: set[str]) -> SubmitTFJobError:
    if role not in roles and role.rpartition("-")[0] not in roles:
        return UsageError(f"{name} has no role {role!r}", hint=f"it has {', '.join(sorted(roles))}")
    return Refused(
        f"{role} of {name} serves no ports, or has no container yet",
        hint=f"say in the job spec what it serves: roles.{role.rpartition('-')[0] or role}.ports: {{http: 6006}}",
    )


def log_page(cluster: Cluster, seen: Observation) -> str | None:
    """Find the NodeManager's page of the deciding task's logs; None while that task has no container, or its node is not listed."""
    from submit_tf_job.description import tasks_of

    deciding = seen.service.properties.get(contract.PROPERTY_DECIDING) if seen.service else None
    task = next((task for task in tasks_of(seen) if task.name == deciding and task.container_id), None)
    if task is None or seen.app is None:
        return None
    base = cluster.nodes.page_of(task.host or "")
    return base and f"{base}/node/containerlogs/{task.container_id}/{seen.app.user}"


def is_reachable(link: Link, timeout_s: float = CONNECT_S) -> bool:
    """Say whether something listens there, as seen from this machine."""
    try:
        socket.create_connection((link.host, link.port), timeout=timeout_s).close()
    except OSError:
        return False
    return True


def tunnel_command(link: Link, *, via: str | None = None, local_port: int | None = None) -> tuple[list[str], str]:
    """Compose the ssh command that brings a link to this machine, and the address to open then.

    Args:
        link: What to reach.
        via: `[user@]host` that can reach it; None for the task's own node.
        local_port: Port on this machine; None for the same one.
    """
    port = local_port or link.port
    through, target = (via, link.host) if via else (link.host, "localhost")
    scheme = link.url.partition(":")[0]
    return ["ssh", "-N", "-L", f"{port}:{target}:{link.port}", through], f"{scheme}://localhost:{port}"
