"""Requests that only a diagnosis needs: nodes in every state, node labels, other applications in a
queue, scheduler activities, configurations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from submit_tf_job.yarn.observed import Answer, AppReport, Node, items, text_of
from submit_tf_job.yarn.queues import Scheduler
from submit_tf_job.yarn.resource_manager import Deadline, ResourceManager
from submit_tf_job.yarn.response import Reply
from submit_tf_job.yarn.transport_errors import TransportError

_WS = "/ws/v1/cluster"
# NodeState; without this query the ResourceManager omits nodes that are not active.
_EVERY_NODE_STATE = "NEW,RUNNING,UNHEALTHY,DECOMMISSIONED,LOST,REBOOTED,DECOMMISSIONING,SHUTDOWN"
# "… the next allocation", "… display": the request enables the recording, and results come later
_WAITING = "waiting for "


@dataclass(frozen=True)
class NodeContainer:
    """A container as its NodeManager reports it; `log_files` is None if not listed."""

    state: str
    log_files: frozenset[str] | None


def scheduler(client: ResourceManager, *, deadline: Deadline | None = None) -> Scheduler:
    """Return the scheduler and its queues."""
    return Scheduler.from_json(client.scheduler(deadline=deadline))


def all_nodes(client: ResourceManager, *, deadline: Deadline | None = None) -> tuple[Node, ...]:
    """Return every NodeManager that the ResourceManager lists, in service or not."""
    answer = _answer(client, f"{_WS}/nodes", {"states": _EVERY_NODE_STATE}, deadline)
    return tuple(Node.from_json(item) for item in items(answer.get("nodes"), "node"))


def label_exclusivity(
    client: ResourceManager, *, deadline: Deadline | None = None
) -> Mapping[str, bool]:
    """Return the cluster's node labels, and whether each label is exclusive: only containers that
    request it run on its nodes.
    """
    answer = _answer(client, f"{_WS}/get-node-labels", {}, deadline)
    found: dict[str, bool] = {}
    inner = answer.get("nodeLabelsInfo")
    if not isinstance(inner, Mapping):
        inner = answer
    for item in items(inner, "nodeLabelInfo"):
        name = text_of(item, "name")
        if name and name != "<DEFAULT_PARTITION>":
            found[name] = str(item.get("exclusivity")).lower() != "false"
    return found


def queue_apps(
    client: ResourceManager, queue: str, *, deadline: Deadline | None = None
) -> tuple[AppReport, ...]:
    """Return the applications of a queue that have not ended, of every user and type, without
    their requests.
    """
    only = {"queue": queue, "deSelects": "resourceRequests"}
    last = queue.rpartition(".")[2]
    return tuple(app for app in live_apps(client, only, deadline=deadline) if app.queue == last)


def live_apps(
    client: ResourceManager, only: Mapping[str, str], *, deadline: Deadline | None = None
) -> tuple[AppReport, ...]:
    """Return the applications that have not ended, of every user and type, as `only` filters."""
    params = {"states": "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING", **only}
    answer = _answer(client, f"{_WS}/apps", params, deadline)
    found = [AppReport.from_json(item) for item in items(answer.get("apps"), "app")]
    return tuple(app for app in found if not app.ended)


def app_activities(
    client: ResourceManager, app_id: str, *, deadline: Deadline | None = None
) -> Mapping[str, int]:
    """Return the scheduler's reasons for not allocating containers to an application, with counts;
    the request enables their recording for a short time.
    """
    answer = _answer(
        client, f"{_WS}/scheduler/app-activities/{app_id}", {"maxTime": "10"}, deadline
    )
    notes = Counter(_diagnostics(answer.get("appActivities")))
    return {text: count for text, count in notes.items() if not text.startswith(_WAITING)}


def _diagnostics(value: object) -> Iterator[str]:
    """Yield the diagnostics of the innermost steps, which the outer ones repeat."""
    if isinstance(value, list):
        for item in value:
            yield from _diagnostics(item)
    elif isinstance(value, Mapping):
        below = [text for item in value.values() for text in _diagnostics(item)]
        own = " ".join((text_of(value, "diagnostic") or "").split())[:200]
        yield from below or filter(None, [own])


def configuration(
    client: ResourceManager, base: str | None = None, *, deadline: Deadline | None = None
) -> Mapping[str, str]:
    """Return the configuration that a daemon reports; empty if it reports none.

    Args:
        client: Client for the requests.
        base: The daemon's address as the ResourceManager lists it, `http://host:port`; None for the
            active ResourceManager.
        deadline: For the whole call.
    """
    if base is None:
        answer = _answer(client, "/conf", {}, deadline)
    else:
        answer = _object_in(client.fetch(base, "/conf", deadline=deadline))
    found = {
        text_of(item, "key"): text_of(item, "value") for item in items(answer.get("properties"))
    }
    return {name: value for name, value in found.items() if name is not None and value is not None}


def node_container(
    client: ResourceManager, base: str, container_id: str, *, deadline: Deadline | None = None
) -> NodeContainer | None:
    """Return a container as its NodeManager reports it, or None without a usable response."""
    outcome = client.fetch(base, f"/ws/v1/node/containers/{container_id}", deadline=deadline)
    container = _object_in(outcome).get("container")
    if not isinstance(container, Mapping):
        return None
    files = container.get("containerLogFiles")
    return NodeContainer(
        text_of(container, "state") or "",
        frozenset(map(str, files)) if isinstance(files, list) else None,
    )


def _answer(
    client: ResourceManager, path: str, params: Mapping[str, str], deadline: Deadline | None
) -> Answer:
    """Send a GET and return the JSON response; empty if the ResourceManager does not support it."""
    return _object_in(client.request("GET", path, params=params, deadline=deadline))


def _object_in(outcome: Reply | TransportError) -> Answer:
    """Return the JSON object of a response; an empty one without a usable response."""
    if isinstance(outcome, TransportError):
        return {}
    usable = outcome.status == 200 and "json" in outcome.content_type
    return outcome.json_object() if usable else {}
