"""The scheduler's account of its queues, read leniently: CapacityScheduler in full, FairScheduler and FifoScheduler as far as they say.

Percentages are of the whole cluster (Hadoop's `absolute…`), amounts of the queue's own partition of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from submit_tf_job.yarn.observed import Answer, items, text_of, whole_of

__all__ = ["NO_RESOURCE", "Partition", "Queue", "QueueUser", "Resource", "Scheduler"]


@dataclass(frozen=True)
class Resource:
    """An amount of memory, cores and whatever else a cluster counts."""

    memory_mib: int = 0
    vcores: int = 0
    additional: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: object) -> Resource | None:
        """Read a ResourceInfo; None where there is none."""
        if not isinstance(value, Mapping):
            return None
        memory, vcores = whole_of(value, "memory"), whole_of(value, "vCores")
        if memory is None and vcores is None:
            return None
        return cls(memory or 0, vcores or 0, _additional(value))

    @classmethod
    def from_text(cls, text: str) -> Resource | None:
        """Read what Hadoop's diagnostics write: `<memory:512, vCores:1, yarn.io/gpu: 3>`."""
        amounts = {name: int(value) for name, value in re.findall(r"([\w./-]+):\s*(\d+)", text)}
        if "memory" not in amounts:
            return None
        return cls(amounts.pop("memory"), amounts.pop("vCores", 0), amounts)

    def amount(self, name: str) -> int:
        """Return how much there is of one kind, by YARN's name for it."""
        return {"memory-mb": self.memory_mib, "vcores": self.vcores}.get(name, self.additional.get(name, 0))

    def lacking(self, offer: Resource) -> tuple[str, ...]:
        """Return of what an offer has too little for this."""
        names = ("memory-mb", "vcores", *self.additional)
        return tuple(name for name in names if self.amount(name) > offer.amount(name))

    def fits(self, offer: Resource) -> bool:
        """Whether an offer is enough for this."""
        return not self.lacking(offer)

    def __add__(self, other: Resource) -> Resource:
        names = {**self.additional, **other.additional}
        more = {name: self.amount(name) + other.amount(name) for name in names}
        return Resource(self.memory_mib + other.memory_mib, self.vcores + other.vcores, more)

    def minus(self, other: Resource) -> Resource:
        """Return what is left of this after another amount is taken; never less than nothing."""
        more = {name: max(0, value - other.amount(name)) for name, value in self.additional.items()}
        return Resource(max(0, self.memory_mib - other.memory_mib), max(0, self.vcores - other.vcores), more)

    def to_json(self) -> dict[str, int]:
        """Render by YARN's names."""
        return {"memory-mb": self.memory_mib, "vcores": self.vcores, **self.additional}


NO_RESOURCE = Resource()


@dataclass(frozen=True)
class Partition:
    """A queue's share of one node label; "" is the nodes without one.

    Attributes:
        share_percent: What the queue is promised.
        max_percent: What it may have at most.
        used_percent: What it has.
        guaranteed: What it is promised, as an amount.
        limit: What it may have at most, as an amount.
        am_limit: What ApplicationMasters may have of it.
        user_am_limit: What the ApplicationMasters of one user may have.
    """

    name: str = ""
    share_percent: float | None = None
    max_percent: float | None = None
    used_percent: float | None = None
    guaranteed: Resource | None = None
    limit: Resource | None = None
    used: Resource | None = None
    reserved: Resource | None = None
    pending: Resource | None = None
    am_limit: Resource | None = None
    am_used: Resource | None = None
    user_am_limit: Resource | None = None


@dataclass(frozen=True)
class QueueUser:
    """One user of a queue; `limit` is what the scheduler lets the user have at this moment."""

    name: str
    used: Resource = NO_RESOURCE
    limit: Resource | None = None
    am_used: Resource | None = None
    active: int = 0
    pending: int = 0
    user_am_limit: Resource | None = None

    @classmethod
    def from_json(cls, answer: Answer) -> QueueUser:
        """Read one element of `users.user`."""
        usages = _by_partition(answer, "resources", "resourceUsagesByPartition")
        return cls(
            name=text_of(answer, "username") or "",
            used=Resource.from_json(answer.get("resourcesUsed")) or NO_RESOURCE,
            limit=Resource.from_json(answer.get("userResourceLimit")),
            am_used=Resource.from_json(answer.get("AMResourceUsed")),
            active=whole_of(answer, "numActiveApplications") or 0,
            pending=whole_of(answer, "numPendingApplications") or 0,
            user_am_limit=Resource.from_json(usages.get("", {}).get("amLimit")),
        )


@dataclass(frozen=True)
class Queue:
    """One queue.

    Attributes:
        path: From the root, such as `root.ml`.
        state: RUNNING, STOPPED, DRAINING, or None where the scheduler has no such word.
        labels: Node labels that the queue may use; `*` is all.
        default_label: Label of containers that ask for none.
        am_percent: Share of the queue that ApplicationMasters may have, 0 to 1.
        max_parallel: Applications that may run at once; None where there is no limit.
        user_limit_factor: How many times its share one user may have.
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
    pending: int | None = None
    max_applications: int | None = None
    max_parallel: int | None = None
    am_percent: float | None = None
    user_limit_percent: float | None = None
    user_limit_factor: float | None = None
    raw: Answer = field(default_factory=dict, repr=False, compare=False)

    def partition(self, label: str = "") -> Partition:
        """Return the share of a label, an empty one where the queue has none."""
        return self.partitions.get(label) or Partition(label)

    def user(self, name: str | None) -> QueueUser | None:
        """Return what the queue says of a user."""
        return next((user for user in self.users if user.name == name), None)

    def may_use(self, label: str) -> bool:
        """Whether the queue may use the nodes of a label."""
        return not label or "*" in self.labels or label in self.labels

    def has_share(self, label: str) -> bool:
        """Whether anything of a label's nodes is the queue's; a queue without lists labels that jobs asked it for, at 0 % (seen)."""
        return label in self.partitions and self.partitions[label].max_percent != 0


@dataclass(frozen=True)
class Scheduler:
    """A scheduler and all of its queues, parents before children."""

    type: str
    queues: tuple[Queue, ...] = ()

    @classmethod
    def from_json(cls, info: Answer) -> Scheduler:
        """Read `scheduler.schedulerInfo` of any scheduler."""
        kind = text_of(info, "type") or "unknown"
        if "fair" in kind.lower():
            root = info.get("rootQueue")
            return cls(kind, tuple(_fair(root, "")) if isinstance(root, Mapping) else ())
        if "fifo" in kind.lower():
            return cls(kind, (_fifo(info),))
        return cls(kind, tuple(_capacity(info, "")))

    @property
    def is_capacity(self) -> bool:
        """Whether it is the CapacityScheduler."""
        return "capacity" in self.type.lower()

    def find(self, queue: str | None) -> Queue | None:
        """Return a queue by its path or its last name; None where the scheduler shows no such queue."""
        if len(self.queues) == 1 and not self.queues[0].path.count("."):
            return self.queues[0]  # the FifoScheduler has only one, whatever it is called
        by_path = next((item for item in self.queues if item.path == queue), None)
        name = (queue or "").rpartition(".")[2]
        return by_path or next((item for item in self.queues if item.is_leaf and item.name == name), None)

    def line(self, queue: Queue) -> tuple[Queue, ...]:
        """Return a queue and its parents, itself first."""
        above = [item for item in self.queues if queue.path.startswith(f"{item.path}.")]
        return (queue, *reversed(above))


def _capacity(info: Answer, above: str) -> Iterator[Queue]:
    name = text_of(info, "queueName") or "root"
    path = text_of(info, "queuePath") or (f"{above}.{name}" if above else name)
    children = items(info.get("queues"), "queue")
    labels = info.get("nodeLabels")
    yield Queue(
        name=name,
        path=path,
        is_leaf=not children,
        state=text_of(info, "state"),
        partitions=_partitions(info),
        users=tuple(QueueUser.from_json(item) for item in items(info.get("users"), "user")),
        labels=tuple(str(label) for label in labels) if isinstance(labels, list) else (str(labels),) if labels else (),
        default_label=text_of(info, "defaultNodeLabelExpression") or "",
        active=whole_of(info, "numActiveApplications"),
        pending=whole_of(info, "numPendingApplications"),
        max_applications=whole_of(info, "maxApplications"),
        max_parallel=_limit(whole_of(info, "maxParallelApps")),
        am_percent=_float(info, "configuredMaxAMResourceLimit"),
        user_limit_percent=_float(info, "userLimit"),
        user_limit_factor=_float(info, "userLimitFactor"),
        raw=info,
    )
    for child in children:
        yield from _capacity(child, path)


def _partitions(info: Answer) -> dict[str, Partition]:
    capacities = _by_partition(info, "capacities", "queueCapacitiesByPartition")
    usages = _by_partition(info, "resources", "resourceUsagesByPartition")
    capacities.setdefault("", info)  # Hadoop before partitions, and the root: the same fields stand at the queue itself
    return {label: _partition(label, capacities.get(label, {}), usages.get(label, {}), info) for label in {**capacities, **usages}}


def _partition(label: str, capacity: Answer, usage: Answer, queue: Answer) -> Partition:
    whole = queue if not label else {}
    return Partition(
        name=label,
        share_percent=_first(_float(capacity, "absoluteCapacity"), _float(whole, "capacity")),
        max_percent=_first(_float(capacity, "absoluteMaxCapacity"), _float(whole, "maxCapacity")),
        used_percent=_first(_float(capacity, "absoluteUsedCapacity"), _float(whole, "usedCapacity")),
        guaranteed=Resource.from_json(capacity.get("effectiveMinResource") or whole.get("minEffectiveCapacity")),
        limit=Resource.from_json(capacity.get("effectiveMaxResource") or whole.get("maxEffectiveCapacity")),
        used=Resource.from_json(usage.get("used") or whole.get("resourcesUsed")),
        reserved=Resource.from_json(usage.get("reserved")),
        pending=Resource.from_json(usage.get("pending")),
        am_limit=Resource.from_json(usage.get("amLimit") or whole.get("AMResourceLimit")),
        am_used=Resource.from_json(usage.get("amUsed") or whole.get("usedAMResource")),
        user_am_limit=Resource.from_json(usage.get("userAmLimit") or whole.get("userAMResourceLimit")),
    )


def _by_partition(answer: Answer, group: str, key: str) -> dict[str, Answer]:
    return {text_of(item, "partitionName") or "": item for item in items(answer.get(group), key)}


def _fair(info: Answer, above: str) -> Iterator[Queue]:
    name = text_of(info, "queueName") or "root"  # it is the whole path
    path = name if "." in name or not above else f"{above}.{name}"
    below = info.get("childQueues")
    children = items(below, "queue") if isinstance(below, Mapping) else items(below)
    limit = Resource.from_json(info.get("maxResources"))
    share = Partition(
        guaranteed=Resource.from_json(info.get("fairResources") or info.get("steadyFairResources")),
        limit=limit,
        used=Resource.from_json(info.get("usedResources")),
        am_limit=Resource.from_json(info.get("amMaxResources")),
        am_used=Resource.from_json(info.get("amUsedResources")),
    )
    yield Queue(
        name=path.rpartition(".")[2],
        path=path,
        is_leaf=not children,
        partitions={"": share},
        active=whole_of(info, "numActiveApps"),
        pending=whole_of(info, "numPendingApps"),
        max_parallel=_limit(whole_of(info, "maxApps")),
        raw=info,
    )
    for child in children:
        yield from _fair(child, path)


def _fifo(info: Answer) -> Queue:
    total = Resource(whole_of(info, "totalNodeCapacity") or 0)
    share = Partition(limit=total, used=Resource(whole_of(info, "usedNodeCapacity") or 0))
    return Queue(name="default", path="default", is_leaf=True, state=text_of(info, "qstate"), partitions={"": share}, raw=info)


def _limit(value: int | None) -> int | None:
    return None if value is None or value >= 2**31 - 1 else value  # Integer.MAX_VALUE is Hadoop's word for no limit


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _float(answer: Answer, key: str) -> float | None:
    value = answer.get(key)
    try:
        return float(value) if isinstance(value, (int, float, str)) else None
    except ValueError:
        return None


def _additional(value: Answer) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in items(value.get("resourceInformations"), "resourceInformation"):
        name, amount = text_of(item, "name"), whole_of(item, "value")
        if name and amount and name not in ("memory-mb", "vcores"):
            found[name] = amount
    return found
