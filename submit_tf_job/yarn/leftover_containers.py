"""Find containers that still run after the end of their application.

The ResourceManager reports an application as ended when its ApplicationMaster has unregistered, and
drops its containers. The NodeManagers end them when that process has exited: 24 to 35 s later with
Hadoop's defaults, while the tasks continue to run (seen on 3.4.2). A container may also stay in the
state KILLING, if its process does not exit at the STOPSIGNAL of the image. Only the NodeManagers
report this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from submit_tf_job import waiting
from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.yarn.nodemanager import NodeManagers
from submit_tf_job.yarn.resource_manager import ResourceManager

__all__ = ["Remaining", "places_of", "remaining", "wait_until_gone"]

MOST_NODES = 200  # maximum number of nodes to query; for a larger job, the first ones
_SMALL_CLUSTER = 50  # nodes; up to this size all are queried if the job's own are unknown
# States of ContainerImpl in which its process may still run.
_LIVE = frozenset(
    {"RUNNING", "KILLING", "RELAUNCHING", "REINITIALIZING", "PAUSING", "PAUSED", "RESUMING"}
)


@dataclass(frozen=True, order=True)
class Remaining:
    """A container that still runs on its node although its application has ended."""

    container_id: str
    node: str
    state: str

    def __str__(self) -> str:
        return f"{self.container_id} on {self.node} ({self.state})"


def places_of(client: ResourceManager, app_id: str) -> tuple[str, ...]:
    """Return the web addresses of the nodes that run containers of an application.

    For an application that has ended, return all nodes of a small cluster. A request that fails
    adds no address, because the stop must not be delayed.
    """
    try:
        found: tuple[str, ...] = ()
        for last in client.app_attempts(app_id)[-1:]:
            found = client.attempt_containers(app_id, last.id or "")
        if not found:
            found = tuple(node.http_address for node in client.nodes() if node.http_address)
            if len(found) > _SMALL_CLUSTER:
                return ()
        return tuple(dict.fromkeys(found))[:MOST_NODES]
    except SubmitTFJobError:
        return ()


def remaining(nodes: NodeManagers, app_id: str, places: Iterable[str]) -> tuple[Remaining, ...]:
    """Return the containers of an application that still run on these nodes; nodes that do not
    respond are skipped.
    """
    found: list[Remaining] = []
    # container_1700000000000_0001_01_000002, with or without the epoch before it
    part = f"_{app_id.removeprefix('application_')}_"
    for place in places:
        try:
            listed = nodes.containers(place)
        except SubmitTFJobError:
            continue
        found += [
            Remaining(id_, place, state) for id_, state in listed if part in id_ and state in _LIVE
        ]
    return tuple(sorted(found))


def wait_until_gone(
    client: ResourceManager,
    nodes: NodeManagers,
    app_id: str,
    places: Iterable[str],
    *,
    on_wait: Callable[[tuple[Remaining, ...]], None] = lambda _found: None,
) -> tuple[Remaining, ...]:
    """Wait until all containers have ended, and return those that still run at the end of that.

    Args:
        client: Its clock is used.
        nodes: The NodeManagers.
        app_id: The application.
        places: Web addresses of its nodes.
        on_wait: Called once with the containers that still run at the first check, if any.
    """
    asked, left = tuple(places), tuple[Remaining, ...]()
    for number in waiting.CONTAINERS_ARE_GONE.attempts(client.clock, client.sleep):
        left = remaining(nodes, app_id, asked)
        if not left:
            break
        if not number:
            on_wait(left)
        asked = tuple(dict.fromkeys(found.node for found in left))
    return left
