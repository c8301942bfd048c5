"""Facts of the cluster that only a diagnosis needs: the scheduler's queues, nodes in every state,
node labels, other applications in a queue, scheduler activities, and configurations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from submit_tf_job.yarn.observed import (
    Answer,
    AppReport,
    items,
    number_of,
    object_of,
    text_of,
    whole_of,
)
from submit_tf_job.yarn.observed_cluster import Node, additional_of
from submit_tf_job.yarn.response import Reply, TransportError

if TYPE_CHECKING:
    from submit_tf_job.yarn.resource_manager import Deadline, ResourceManager

_WS = "/ws/v1/cluster"
# NodeState; without this query the ResourceManager omits nodes that are not active.
_EVERY_NODE_STATE = "NEW,RUNNING,UNHEALTHY,DECOMMISSIONED,LOST,REBOOTED,DECOMMISSIONING,SHUTDOWN"
# "… the next allocation", "… display": the request enables the recording, and results come later
_WAITING = "waiting for "
# "max memory" is what a container may grow to; a long fits
_AMOUNT = re.compile(r"(?<![\w./-])(?<!max )([\w./-]+):\s*(\d{1,18})(?!\d)")


class NodeContainer(NamedTuple):
    """A container as its NodeManager reports it; `log_files` is None if the NodeManager does not
    list them.
    """

    state: str
    log_files: frozenset[str] | None


def scheduler(client: ResourceManager, *, deadline: Deadline | None = None) -> Scheduler:
    """Return the scheduler and its queues."""
    return Scheduler.from_json(client.scheduler(deadline=deadline))


def all_nodes(client: ResourceManager, *, deadline: Deadline | None = None) -> tuple[Node, ...]:
    """Return every NodeManager that the ResourceManager lists, including nodes that are not in
    service; () if its response is not usable.
    """
    answer = _get_object(client, f"{_WS}/nodes", {"states": _EVERY_NODE_STATE}, deadline)
    return tuple(Node.from_json(item) for item in items(answer.get("nodes"), "node"))


def label_exclusivity(
    client: ResourceManager, *, deadline: Deadline | None = None
) -> Mapping[str, bool]:
    """Return the cluster's node labels, and whether each label is exclusive: only containers that
    request it run on its nodes. Empty if the ResourceManager's response is not usable.
    """
    answer = _get_object(client, f"{_WS}/get-node-labels", {}, deadline)
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
    their resource requests; () if the ResourceManager's response is not usable. Queues are compared
    by the last element of their paths.
    """
    only = {"queue": queue, "deSelects": "resourceRequests"}
    last = queue.rpartition(".")[2]
    return tuple(app for app in live_apps(client, only, deadline=deadline) if app.queue == last)


def live_apps(
    client: ResourceManager, only: Mapping[str, str], *, deadline: Deadline | None = None
) -> tuple[AppReport, ...]:
    """Return the applications that have not ended, of every user and type, filtered by the query
    `only`; () if the ResourceManager's response is not usable.
    """
    params = {"states": "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING", **only}
    answer = _get_object(client, f"{_WS}/apps", params, deadline)
    found = [AppReport.from_json(item) for item in items(answer.get("apps"), "app")]
    return tuple(app for app in found if not app.ended)


def app_activities(
    client: ResourceManager, app_id: str, *, deadline: Deadline | None = None
) -> Mapping[str, int]:
    """Return the scheduler's reasons for not allocating containers to an application, with their
    counts; empty if it has recorded none yet, or the response is not usable. The request also
    switches on the recording of such reasons for a short time.
    """
    answer = _get_object(
        client, f"{_WS}/scheduler/app-activities/{app_id}", {"maxTime": "10"}, deadline
    )
    notes = Counter(_innermost_diagnostics(answer.get("appActivities")))
    return {text: count for text, count in notes.items() if not text.startswith(_WAITING)}


def _innermost_diagnostics(value: object) -> Iterator[str]:
    """Yield the diagnostics of the innermost steps; outer steps only repeat them."""
    if isinstance(value, list):
        for item in value:
            yield from _innermost_diagnostics(item)
    elif isinstance(value, Mapping):
        below = [text for item in value.values() for text in _innermost_diagnostics(item)]
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
        answer = _get_object(client, "/conf", {}, deadline)
    else:
        answer = _object_in(client.fetch(base, "/conf", deadline=deadline))
    found = {
        text_of(item, "key"): text_of(item, "value") for item in items(answer.get("properties"))
    }
    return {name: value for name, value in found.items() if name is not None and value is not None}


def node_property(
    client: ResourceManager, base: str, name: str, *, deadline: Deadline | None = None
) -> str | None:
    """Return one property of a NodeManager's configuration, defaults included; None if the
    NodeManager does not report the property (hadoop-facts.md#one-property-of-a-daemon).
    """
    outcome = client.fetch(base, "/conf", params={"name": name}, deadline=deadline)
    return text_of(object_of(_object_in(outcome), "property"), "value")


def node_container(
    client: ResourceManager, base: str, container_id: str, *, deadline: Deadline | None = None
) -> NodeContainer | None:
    """Return a container as its NodeManager reports it; None if there is no usable response."""
    outcome = client.fetch(base, f"/ws/v1/node/containers/{container_id}", deadline=deadline)
    container = _object_in(outcome).get("container")
    if not isinstance(container, Mapping):
        return None
    files = container.get("containerLogFiles")
    return NodeContainer(
        text_of(container, "state") or "",
        frozenset(map(str, files)) if isinstance(files, list) else None,
    )


def _get_object(
    client: ResourceManager, path: str, params: Mapping[str, str], deadline: Deadline | None
) -> Answer:
    """Send a GET and return the JSON response; empty if the ResourceManager does not support the
    request, or the response is not usable otherwise.
    """
    return _object_in(client.request("GET", path, params=params, deadline=deadline))


def _object_in(outcome: Reply | TransportError) -> Answer:
    """Return the JSON object of a response; an empty object if the response is not usable."""
    if isinstance(outcome, TransportError):
        return {}
    usable = outcome.status == 200 and "json" in outcome.content_type
    return outcome.json_object() if usable else {}


# --- the scheduler's queues -----------------------------------------------------------------------

# Parsed leniently: all fields of the CapacityScheduler, and those that FairScheduler and
# FifoScheduler report. Percentages refer to the whole cluster (Hadoop's `absolute…`), amounts to
# the queue's own partition of it.


@dataclass(frozen=True)
class QueueResources:
    """Amounts of memory, cores and other countable resources."""

    memory_mib: int = 0
    vcores: int = 0
    additional: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: object) -> QueueResources | None:
        """Parse a ResourceInfo object; None if it is missing, or has neither memory nor cores."""
        if not isinstance(value, Mapping):
            return None
        memory, vcores = whole_of(value, "memory"), whole_of(value, "vCores")
        if memory is None and vcores is None:
            return None
        return cls(
            memory or 0,
            vcores or 0,
            {name: most for name, most in additional_of(value).items() if most},
        )

    @classmethod
    def from_text(cls, text: str) -> QueueResources | None:
        """Parse an amount in Hadoop's diagnostics: `<memory:512, vCores:1, yarn.io/gpu: 3>`; None
        if there is no memory in it.
        """
        amounts = {name: int(value) for name, value in _AMOUNT.findall(text)}
        if "memory" not in amounts:
            return None
        return cls(amounts.pop("memory"), amounts.pop("vCores", 0), amounts)

    def amount(self, name: str) -> int:
        """Return the amount of one resource, by YARN's name for it."""
        return {"memory-mb": self.memory_mib, "vcores": self.vcores}.get(
            name, self.additional.get(name, 0)
        )

    def lacking(self, offer: QueueResources) -> tuple[str, ...]:
        """Return the names of the resources of which `offer` has less than this amount."""
        names = ("memory-mb", "vcores", *self.additional)
        return tuple(name for name in names if self.amount(name) > offer.amount(name))

    def fits(self, offer: QueueResources) -> bool:
        """Return whether `offer` has at least this amount of every resource."""
        return not self.lacking(offer)

    def __add__(self, other: QueueResources) -> QueueResources:
        names = {**self.additional, **other.additional}
        more = {name: self.amount(name) + other.amount(name) for name in names}
        return QueueResources(self.memory_mib + other.memory_mib, self.vcores + other.vcores, more)

    def minus(self, other: QueueResources) -> QueueResources:
        """Return this amount minus another amount; no resource becomes less than 0."""
        more = {name: max(0, value - other.amount(name)) for name, value in self.additional.items()}
        return QueueResources(
            max(0, self.memory_mib - other.memory_mib), max(0, self.vcores - other.vcores), more
        )

    def to_json(self) -> dict[str, int]:
        """Return the amounts by YARN's names for the resources."""
        return {"memory-mb": self.memory_mib, "vcores": self.vcores, **self.additional}


NO_RESOURCE = QueueResources()


@dataclass(frozen=True)
class Partition:
    """A queue's share of the nodes with one node label, or of the nodes without a label. Unknown
    values are None.

    Attributes:
        max_percent: Maximum share, in percent.
        limit: Maximum amount.
        used: The amount that the queue's applications use.
    """

    max_percent: float | None = None
    limit: QueueResources | None = None
    used: QueueResources | None = None


class QueueUser(NamedTuple):
    """One user of a queue; `limit` is the limit that the scheduler currently sets for the user."""

    name: str
    used: QueueResources = NO_RESOURCE
    limit: QueueResources | None = None

    @classmethod
    def from_json(cls, answer: Answer) -> QueueUser:
        """Parse one element of `users.user`."""
        return cls(
            name=text_of(answer, "username") or "",
            used=QueueResources.from_json(answer.get("resourcesUsed")) or NO_RESOURCE,
            limit=QueueResources.from_json(answer.get("userResourceLimit")),
        )


@dataclass(frozen=True)
class Queue:
    """One queue of the scheduler.

    Attributes:
        path: The queue's path from the root, such as `root.ml`.
        state: RUNNING, STOPPED, DRAINING, or None if the scheduler has no queue states.
        partitions: Node label, or "" for the nodes without a label → the queue's share of them.
        labels: Node labels that the queue may use; `*` means all.
        default_label: Node label for containers that request no label.
        active: Number of applications that the scheduler counts as active; None if unknown.
        am_percent: Maximum share of the queue for ApplicationMasters, 0 to 1.
        max_parallel: Maximum number of running applications; None for no limit.
        user_limit_factor: Maximum share of one user, as a multiple of the queue's share.
        largest: The largest container that the queue allocates; None if the scheduler does not
            report it.
        lifetime_max_s: Seconds after which YARN ends each application of the queue; None for no
            limit.
        lifetime_default_s: The same for applications that ask for no lifetime.
    """

    name: str
    path: str
    is_leaf: bool
    state: str | None = None
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    users: tuple[QueueUser, ...] = ()
    labels: tuple[str, ...] = ()
    default_label: str = ""
    active: int | None = None
    max_parallel: int | None = None
    am_percent: float | None = None
    user_limit_factor: float | None = None
    largest: QueueResources | None = None
    lifetime_max_s: int | None = None
    lifetime_default_s: int | None = None
    raw: Answer = field(default_factory=dict, repr=False, compare=False)

    def partition(self, label: str = "") -> Partition:
        """Return the queue's share of the nodes with a label; an empty share if the queue has
        none.
        """
        return self.partitions.get(label) or Partition()

    def user(self, name: str | None) -> QueueUser | None:
        """Return the entry of a user of the queue, or None."""
        return next((user for user in self.users if user.name == name), None)

    def may_use(self, label: str) -> bool:
        """Return whether the queue may use the nodes of a label; always true for "", no label."""
        return not label or "*" in self.labels or label in self.labels

    def has_share(self, label: str) -> bool:
        """Return whether the queue has a share of the nodes with a label; a share of unknown size
        counts. A queue without a share also lists a label that one of its jobs requested, with 0 %.
        """
        return label in self.partitions and self.partitions[label].max_percent != 0


@dataclass(frozen=True)
class Scheduler:
    """A scheduler and its queues, parents before children."""

    type: str
    queues: tuple[Queue, ...] = ()

    @classmethod
    def from_json(cls, info: Answer) -> Scheduler:
        """Parse `scheduler.schedulerInfo` of any scheduler."""
        kind = text_of(info, "type") or "unknown"
        if "fair" in kind.lower():
            root = info.get("rootQueue")
            return cls(kind, tuple(_fair_queues(root, "")) if isinstance(root, Mapping) else ())
        if "fifo" in kind.lower():
            return cls(kind, (_fifo_queue(info),))
        return cls(kind, tuple(_capacity_queues(info, "")))

    @property
    def is_capacity(self) -> bool:
        """Whether the scheduler is the CapacityScheduler."""
        return "capacity" in self.type.lower()

    def find(self, queue: str | None) -> Queue | None:
        """Return a queue by its path, or a leaf queue by the last element of its path; None if the
        scheduler does not list the queue. The FifoScheduler's only queue is returned for any name.
        """
        if len(self.queues) == 1 and not self.queues[0].path.count("."):
            return self.queues[0]  # the FifoScheduler has only one queue, of any name
        by_path = next((item for item in self.queues if item.path == queue), None)
        name = (queue or "").rpartition(".")[2]
        return by_path or next(
            (item for item in self.queues if item.is_leaf and item.name == name), None
        )

    def line(self, queue: Queue) -> tuple[Queue, ...]:
        """Return a queue and all its parents, in order from the queue up to the root."""
        above = [item for item in self.queues if queue.path.startswith(f"{item.path}.")]
        return (queue, *reversed(above))


def _capacity_queues(info: Answer, above: str) -> Iterator[Queue]:
    name = text_of(info, "queueName") or "root"
    path = text_of(info, "queuePath") or f"{above}.{name}".removeprefix(".")
    children = items(info.get("queues"), "queue")
    labels = info.get("nodeLabels") or []
    if not isinstance(labels, list):
        labels = [labels]
    yield Queue(
        name=name,
        path=path,
        is_leaf=not children,
        state=text_of(info, "state"),
        partitions=_partitions_of(info),
        users=tuple(QueueUser.from_json(item) for item in items(info.get("users"), "user")),
        labels=tuple(map(str, labels)),
        default_label=text_of(info, "defaultNodeLabelExpression") or "",
        active=whole_of(info, "numActiveApplications"),
        max_parallel=_limit_or_none(whole_of(info, "maxParallelApps")),
        am_percent=number_of(info, "configuredMaxAMResourceLimit"),
        user_limit_factor=number_of(info, "userLimitFactor"),
        largest=QueueResources.from_json(info.get("maximumAllocation")),
        lifetime_max_s=_positive_or_none(whole_of(info, "maxApplicationLifetime")),
        lifetime_default_s=_positive_or_none(whole_of(info, "defaultApplicationLifetime")),
        raw=info,
    )
    for child in children:
        yield from _capacity_queues(child, path)


def _partitions_of(info: Answer) -> dict[str, Partition]:
    capacities = _by_partition(info, "capacities", "queueCapacitiesByPartition")
    usages = _by_partition(info, "resources", "resourceUsagesByPartition")
    # Hadoop versions before partitions, and the root: the queue itself has these fields
    capacities.setdefault("", info)
    return {
        label: _partition_of(label, capacities.get(label, {}), usages.get(label, {}), info)
        for label in {**capacities, **usages}
    }


def _partition_of(label: str, capacity: Answer, usage: Answer, queue: Answer) -> Partition:
    whole: Answer = {} if label else queue
    return Partition(
        max_percent=_first_known(
            number_of(capacity, "absoluteMaxCapacity"), number_of(whole, "maxCapacity")
        ),
        limit=QueueResources.from_json(
            capacity.get("effectiveMaxResource") or whole.get("maxEffectiveCapacity")
        ),
        used=QueueResources.from_json(usage.get("used") or whole.get("resourcesUsed")),
    )


def _by_partition(answer: Answer, group: str, key: str) -> dict[str, Answer]:
    return {text_of(item, "partitionName") or "": item for item in items(answer.get(group), key)}


def _fair_queues(info: Answer, above: str) -> Iterator[Queue]:
    name = text_of(info, "queueName") or "root"  # the whole path
    path = name
    if above and "." not in name:
        path = f"{above}.{name}"
    below = info.get("childQueues")
    if isinstance(below, Mapping):
        below = below.get("queue")
    children = items(below)
    limit = QueueResources.from_json(info.get("maxResources"))
    share = Partition(
        limit=limit,
        used=QueueResources.from_json(info.get("usedResources")),
    )
    yield Queue(
        name=path.rpartition(".")[2],
        path=path,
        is_leaf=not children,
        partitions={"": share},
        active=whole_of(info, "numActiveApps"),
        max_parallel=_limit_or_none(whole_of(info, "maxApps")),
        largest=QueueResources.from_json(info.get("maxContainerAllocation")),
        raw=info,
    )
    for child in children:
        yield from _fair_queues(child, path)


def _fifo_queue(info: Answer) -> Queue:
    # It limits nothing: `totalNodeCapacity` is the memory of all nodes, and says nothing of cores.
    share = Partition(used=QueueResources(whole_of(info, "usedNodeCapacity") or 0))
    return Queue(
        name="default",
        path="default",
        is_leaf=True,
        state=text_of(info, "qstate"),
        partitions={"": share},
        raw=info,
    )


def _limit_or_none(value: int | None) -> int | None:
    if value is None or value >= 2**31 - 1:  # Integer.MAX_VALUE means no limit
        return None
    return value


def _positive_or_none(value: int | None) -> int | None:
    return value if value is not None and value > 0 else None  # -1 for no limit


def _first_known(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)
