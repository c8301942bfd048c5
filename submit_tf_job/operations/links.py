"""Find the web pages of a job's tasks: find_links, is_reachable, log_page, tunnel_command."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from submit_tf_job.diagnose.amounts import clause
from submit_tf_job.errors import Refused, SubmitTFJobError, UsageError
from submit_tf_job.operations.cluster import Cluster, JobRef
from submit_tf_job.operations.description import tasks_of
from submit_tf_job.operations.read_status import read_status
from submit_tf_job.operations.runs import find
from submit_tf_job.operations.task_links import Link, links_of
from submit_tf_job.yarn import service_properties

if TYPE_CHECKING:
    from submit_tf_job.observation import JobStatus

CONNECT_S = 2.0


def find_links(
    cluster: Cluster, job: str, role: str | None = None, port: str | None = None
) -> tuple[Link, ...]:
    """Return the links to the servers of a role's tasks, in the order of the tasks.

    Args:
        cluster: The cluster.
        job: Name of the job or run, or an application id.
        role: The role, or one of its tasks; None if only one role serves.
        port: Name of the port, if the role has several.

    Raises:
        NoSuchJob: The job does not exist.
        Refused: The job does not run; the role, or without `role` every role, serves no ports; or
            the role's tasks have not reported their addresses yet.
        UsageError: The role or port does not exist, or `role` or `port` is needed to select one of
            several.
    """
    seen = read_status(cluster, find(cluster, job), detail=True)
    if seen.app is None or seen.app.ended:
        raise Refused(
            f"{seen.name} does not run; nothing is served any more",
            hint=f"what it wrote: submit_tf_job logs {seen.name}{clause(' {}', role)}",
        )
    roles = {task.role for task in tasks_of(seen)}
    role = role or _only_role(seen, roles)
    own = [link for link in links_of(seen) if role in (link.task, link.task.rpartition("-")[0])]
    if not own:
        raise _why_none(seen, role, roles)
    named = [link for link in own if port in (None, link.name)]
    if not named:
        raise UsageError(
            f"{role} has no port {port!r}",
            hint=f"it has {', '.join(sorted({link.name for link in own}))}",
        )
    names = {link.name for link in named}
    if len(names) > 1:
        raise UsageError(
            f"{role} serves several ports", hint=f"name one with --port: {', '.join(sorted(names))}"
        )
    return tuple(sorted(named, key=lambda link: int(link.task.rpartition("-")[2] or 0)))


def _only_role(seen: JobStatus, roles: set[str]) -> str:
    """Return the role that serves ports, if there is exactly one.

    Raises:
        UsageError: Several roles serve ports.
        Refused: No role serves ports.
    """
    serving = sorted(c.name for c in seen.components if service_properties.PORTS in c.properties)
    if len(serving) == 1:
        return serving[0]
    if serving:
        raise UsageError(f"{seen.name} has several roles that serve", hint=", ".join(serving))
    raise Refused(
        f"no role of {seen.name} serves ports",
        hint=f"Add them to the job spec: roles.{min(roles, default='ROLE')}.ports: {{http: auto}}",
    )


def _why_none(seen: JobStatus, role: str, roles: set[str]) -> SubmitTFJobError:
    name, base = seen.name, role
    if role not in roles:
        base = role.rpartition("-")[0]
    if base not in roles:
        return UsageError(f"{name} has no role {role!r}", hint=f"it has {', '.join(sorted(roles))}")
    own = [one for one in seen.components if one.name == base]
    if any(service_properties.PORTS in one.properties for one in own):
        return Refused(
            f"{role} of {name} has not reported its address yet",
            hint="It does when its command starts; try again in a few seconds.",
        )
    return Refused(
        f"{role} of {name} serves no ports",
        hint=f"Add them to the job spec: roles.{base}.ports: {{http: auto}}",
    )


def log_page(cluster: Cluster, seen: JobStatus) -> str | None:
    """Return the address of the deciding task's logs on its NodeManager; None while the task has no
    container, if the ResourceManager does not list its node, or if the status does not tell which
    task that is.
    """
    tasks = (task for task in tasks_of(seen) if task.name == seen.deciding_task)
    task = next((task for task in tasks if task.container_id), None)
    if task is None or seen.app is None:
        return None
    base = cluster.nodes.page_of(task.host or "")
    return base and f"{base}/node/containerlogs/{task.container_id}/{seen.app.user}"


@dataclass(frozen=True)
class Links:
    """What a browser can show of a running job.

    Attributes:
        logs: The deciding task's logs on its NodeManager; None as for `log_page`.
        served: The links to the pages that tasks serve.
        serves: Whether the job spec has ports, even if no task has reported a port yet.
    """

    logs: str | None
    served: tuple[Link, ...]
    serves: bool


def all_links(cluster: Cluster, ref: JobRef) -> Links:
    """Return what a browser can show of a run."""
    seen = read_status(cluster, ref, detail=True)
    serves = any(service_properties.PORTS in one.properties for one in seen.components)
    return Links(log_page(cluster, seen), tuple(links_of(seen)), serves)


def is_reachable(link: Link) -> bool:
    """Return whether this machine can connect to the server of a link within two seconds."""
    try:
        socket.create_connection((link.host, link.port), timeout=CONNECT_S).close()
    except OSError:
        return False
    return True


def tunnel_command(
    link: Link, *, via: str | None = None, local_port: int | None = None
) -> tuple[list[str], str]:
    """Return the ssh command that forwards a link to this machine, and the forwarded address.

    Args:
        link: The link.
        via: `[user@]host`, a machine that can reach the link; None for the node of the task, which
            can also reach that node's Docker networks.
        local_port: Port on this machine; None for the same port.
    """
    port = local_port or link.port
    through, target = via or link.via, link.host
    if not through:
        through, target = link.host, "localhost"
    scheme = link.url.partition(":")[0]
    command = ["ssh", "-N", "-L", f"{port}:{target}:{link.port}", through]
    return command, f"{scheme}://localhost:{port}"
