"""Stop a run. YARN responds before the application has ended, so its state is polled.

Containers can outlive their application: `remaining` requests them from the NodeManagers.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from submit_tf_job import waiting
from submit_tf_job.errors import (
    BadAnswer,
    DeadlinePassed,
    NoSuchJob,
    Refused,
    SubmitTFJobError,
)
from submit_tf_job.yarn.errors import ServiceTorn, ServiceUnreadable
from submit_tf_job.yarn.nodemanager import NodeManagers
from submit_tf_job.yarn.observed import AppReport, ServiceState
from submit_tf_job.yarn.resource_manager import (
    SERVICE_TYPE,
    Deadline,
    ResourceManager,
)

# a healthy application has ended 2 s after PUT STOPPED: hadoop-facts.md#stopping
KILL_AFTER_S = 30.0


def stop(
    client: ResourceManager,
    app: AppReport,
    *,
    user: str,
    wait: bool = True,
    reason: str = "",
) -> AppReport | None:
    """Stop a run; do nothing for a run that has ended.

    Args:
        client: The cluster, as the user.
        app: The run's application.
        user: The user. Only the user's own service is stopped through the services API; any other
            application is killed.
        wait: Whether to wait for the application's end.
        reason: If not "", kill the application at once, with this text in its diagnostics.

    Returns:
        The application as last read; None if the ResourceManager has no record of it any more.

    Raises:
        DeadlinePassed: when the application has not ended in time.
    """
    if app.ended:
        return app
    deadline = client.deadline(waiting.APPLICATION_HAS_ENDED.within_s)
    own_service = app.type == SERVICE_TYPE and app.user == user and not reason
    if not (own_service and _ask_service(client, app, deadline)):
        client.kill_app(app.id, reason=reason, deadline=deadline)
    if not wait:
        return app
    return wait_until_ended(client, app.id, deadline=deadline, kill_after_s=KILL_AFTER_S)


def wait_until_ended(
    client: ResourceManager, app_id: str, *, deadline: Deadline, kill_after_s: float | None = None
) -> AppReport | None:
    """Poll an application until it has ended; kill it after `kill_after_s` seconds (None for
    never).

    Returns:
        The ended application; None if the ResourceManager has no record of it any more.

    Raises:
        DeadlinePassed: when the application has not ended in time.
    """
    kill_at, state = client.clock() + (math.inf if kill_after_s is None else kill_after_s), ""
    for _ in waiting.APPLICATION_HAS_ENDED.attempts(
        client.clock, client.sleep, within_s=deadline.left_s
    ):
        app = client.app(app_id, deadline=deadline)
        if app is None or app.ended:
            return app
        state = app.state.value
        if client.clock() >= kill_at:
            client.kill_app(app_id, deadline=deadline)
            kill_at = math.inf
    raise DeadlinePassed(
        f"{app_id} has not ended in time; it is {state}.", details={"application_id": app_id}
    )


def _ask_service(client: ResourceManager, app: AppReport, deadline: Deadline) -> bool:
    """Request the stop of the service if this application runs it, and return whether YARN stops
    it; if not, only a kill can end the application.
    """
    name = app.name or ""
    with contextlib.suppress(NoSuchJob, Refused, BadAnswer):
        try:
            service = client.get_service(name, deadline=deadline)
            foreign = service.id not in (None, app.id)
            never_to_run = service.id is None and service.state is ServiceState.STOPPED
            if foreign or never_to_run:
                return False
        except ServiceTorn:
            return False
        except ServiceUnreadable:
            pass
        return client.stop_service(name, deadline=deadline)
    return False


# --- containers that are left ---------------------------------------------------------------------

# The ResourceManager reports an application as ended when its ApplicationMaster has unregistered,
# and drops its containers. The NodeManagers end them when that process has exited: 24 to 35 s later
# with Hadoop's defaults, while the tasks continue to run (seen on 3.4.2). A container may also stay
# in the state KILLING, if its process does not exit at the STOPSIGNAL of the image. Only the
# NodeManagers report this.


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

    For an application that has ended, its nodes are not known any more: return all nodes if the
    cluster has at most 50, else none. At most 200 addresses are returned; none if a request fails,
    because the stop must not be delayed.
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
    """Wait until all containers have ended, for up to 60 s; return the containers that still run
    then.

    Args:
        client: The client whose clock is used.
        nodes: The NodeManagers.
        app_id: The application.
        places: Web addresses of the application's nodes.
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
