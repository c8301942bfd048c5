"""What only a diagnosis asks of a cluster: nodes that are gone, labels, who else is in a queue, the scheduler's notes, configurations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from submit_tf_job.yarn.client import Client, Deadline
from submit_tf_job.yarn.observed import Answer, AppReport, Node, items, text_of
from submit_tf_job.yarn.queues import Scheduler
from submit_tf_job.yarn.trouble import Trouble

__all__ = [
    "NodeContainer",
    "all_nodes",
    "app_activities",
    "configuration",
    "label_exclusivity",
    "node_container",
    "queue_apps",
    "scheduler",
]

_WS = "/ws/v1/cluster"
# NodeState; without the query the ResourceManager leaves out those that are gone.
_EVERY_NODE_STATE = "NEW,RUNNING,UNHEALTHY,DECOMMISSIONED,LOST,REBOOTED,DECOMMISSIONING,SHUTDOWN"
_WAITING = "waiting for "  # "… the next allocation", "… display": notes are switched on by asking for them, and come later


@dataclass(frozen=True)
class NodeContainer:
    """A container as its NodeManager sees it; `log_files` is None where it does not list them."""

    state: str
    log_files: frozenset[str] | None


def scheduler(client: Client, *, deadline: Deadline | None = None) -> Scheduler:
    """Return the scheduler and its queues."""
    return Scheduler.from_json(client.scheduler(deadline=deadline))


def all_nodes(client: Client, *, deadline: Deadline | None = None) -> tuple[Node, ...]:
    """Return every NodeManager that the ResourceManager remembers, in service or not."""
    answer = _answer(client, f"{_WS}/nodes", {"states": _EVERY_NODE_STATE}, deadline)
    return tuple(Node.from_json(item) for item in items(answer.get("nodes"), "node"))


def label_exclusivity(client: Client, *, deadline: Deadline | None = None) -> Mapping[str, bool]:
    """Return the cluster's node labels, and whether nodes of that label are kept for those who ask for it."""
    answer = _answer(client, f"{_WS}/get-node-labels", {}, deadline)
    found: dict[str, bool] = {}
    inner = answer.get("nodeLabelsInfo")
    for item in items(inner if isinstance(inner, Mapping) else answer, "nodeLabelInfo"):
        name = text_of(item, "name")
        if name and name != "<DEFAULT_PARTITION>":
            found[name] = str(item.get("exclusivity")).lower() != "false"
    return found


def queue_apps(client: Client, queue: str, *, deadline: Deadline | None = None) -> tuple[AppReport, ...]:
    """Return the applications of a queue that are not over, of every user and type."""
    params = {"queue": queue, "states": "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING", "deSelects": "resourceRequests"}
    answer = _answer(client, f"{_WS}/apps", params, deadline)
    found = [AppReport.from_json(item) for item in items(answer.get("apps"), "app")]
    last = queue.rpartition(".")[2]
    return tuple(app for app in found if app.queue == last and not app.ended)


def app_activities(client: Client, app_id: str, *, deadline: Deadline | None = None) -> Mapping[str, int]:
    """Return what the scheduler noted while it passed an application over, and how often; asking switches the notes on for a while."""
    answer = _answer(client, f"{_WS}/scheduler/app-activities/{app_id}", {"maxTime": "10"}, deadline)
    notes = Counter(_diagnostics(answer.get("appActivities")))
    return {text: count for text, count in notes.items() if not text.startswith(_WAITING)}


def _diagnostics(value: object) -> Iterator[str]:
    """Collect the notes of the innermost steps: what stands above them only repeats them."""
    if isinstance(value, list):
        for item in value:
            yield from _diagnostics(item)
    elif isinstance(value, Mapping):
        below = [text for item in value.values() for text in _diagnostics(item)]
        own = text_of(value, "diagnostic")
        yield from below or ([" ".join(own.split())[:200]] if own else [])


def configuration(client: Client, base: str | None = None, *, deadline: Deadline | None = None) -> Mapping[str, str]:
    """Return the configuration that a daemon says it has, empty where it does not say.

    Args:
        client: Whom to ask through.
        base: The daemon's address as the ResourceManager lists it, `http://host:port`; the active ResourceManager where None.
        deadline: For the whole call.
    """
    if base is None:
        return _properties(_answer(client, "/conf", {}, deadline))
    outcome = client.funnel.fetch(base, "/conf", deadline=deadline)
    if isinstance(outcome, Trouble) or outcome.status != 200 or "json" not in outcome.content_type:
        return {}
    return _properties(outcome.json_object())


def _properties(answer: Answer) -> dict[str, str]:
    found = {text_of(item, "key"): text_of(item, "value") for item in items(answer.get("properties"))}
    return {name: value for name, value in found.items() if name is not None and value is not None}


def node_container(client: Client, base: str, container_id: str, *, deadline: Deadline | None = None) -> NodeContainer | None:
    """Return what a NodeManager says of a container, None where it says nothing."""
    outcome = client.funnel.fetch(base, f"/ws/v1/node/containers/{container_id}", deadline=deadline)
    if isinstance(outcome, Trouble) or outcome.status != 200 or "json" not in outcome.content_type:
        return None
    container = outcome.json_object().get("container")
    if not isinstance(container, Mapping):
        return None
    files = container.get("containerLogFiles")
    return NodeContainer(text_of(container, "state") or "", frozenset(map(str, files)) if isinstance(files, list) else None)


def _answer(client: Client, path: str, params: Mapping[str, str], deadline: Deadline | None) -> Answer:
    """Read one answer; a ResourceManager that does not know the question has nothing to say."""
    reply = client.funnel.request("GET", path, params=params, deadline=deadline)
    return reply.json_object() if reply.status == 200 and "json" in reply.content_type else {}
