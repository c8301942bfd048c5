"""The situation of a waiting job: its pending requests, and the cluster's state at that moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from submit_tf_job.diagnose.amounts import plural
from submit_tf_job.yarn.inspection import NO_RESOURCE, Queue, QueueResources, Scheduler
from submit_tf_job.yarn.observed import (
    Answer,
    AppReport,
    ObservedService,
    items,
    text_of,
    whole_of,
)
from submit_tf_job.yarn.observed_cluster import AppAttempt, Node

APPLICATION_MASTER = "the ApplicationMaster"
_NO_QUEUE = Queue("", "", is_leaf=True)
NO_SCHEDULER = Scheduler("")


@dataclass(frozen=True)
class PendingRequest:
    """Pending containers of one kind: the application has requested them, and YARN has not
    allocated them yet.

    Attributes:
        roles: The roles for which they are; () for the ApplicationMaster.
        count: Number of containers.
        each: Size of one container, after rounding by YARN.
        label: Required node label; "" for no label.
    """

    roles: tuple[str, ...]
    count: int
    each: QueueResources
    label: str = ""

    @property
    def who(self) -> str:
        """The containers, as the subject of a sentence."""
        if not self.roles:
            return APPLICATION_MASTER
        return f"{plural(self.count, 'container')} of {' and '.join(self.roles)}"

    @property
    def verb(self) -> str:
        """The verb `ask`, singular or plural as `who` requires."""
        return "ask" if self.roles and self.count > 1 else "asks"


@dataclass(frozen=True)
class PlacementRequest:
    """A role's placement constraint in the service.

    Attributes:
        role: The role.
        count: Number of the role's containers.
        type: `AFFINITY` or `ANTI_AFFINITY`; "" if the constraint names none.
        scope: `NODE` or `RACK`; "" if the constraint names none.
        partitions: The node labels of the constraint.
    """

    role: str
    count: int
    type: str
    scope: str
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True)
class LateTask:
    """A task that has a container and has not reported to the deciding task yet.

    Attributes:
        waiting_s: Seconds since its container was launched, or since the task was lost; None if
            that is not known.
        node_state: The container's state on its NodeManager; "" if the state could not be read.
        started: Whether its launch script has run; None if that could not be read.
        lost: Whether the task had reported from this container, and was lost after that
            (`retries`).
    """

    task: str
    host: str | None
    waiting_s: float | None
    node_state: str = ""
    started: bool | None = None
    lost: bool = False


@dataclass(frozen=True)
class Situation:
    """The data about a waiting job; None or an empty value stands for data that could not be read.

    Attributes:
        nodes: The NodeManagers in every state, including lost ones.
        neighbours: The other applications of the same queue that have not ended.
        cluster_apps: All applications that have not ended, with their requests; read only if the
            applications of the queue have no containers except their ApplicationMasters.
        exclusive: Each node label, and whether the nodes with the label run only containers that
            request it.
        attempt: The last attempt of the ApplicationMaster.
        tries: The number of the ApplicationMaster's attempts.
        placement_handler: `yarn.resourcemanager.placement-constraints.handler`.
        has_image: Whether the job's tasks run in images.
        activities: The scheduler's diagnostics of the application, with their counts.
    """

    app: AppReport
    asks: tuple[PendingRequest, ...] = ()
    scheduler: Scheduler = NO_SCHEDULER
    nodes: tuple[Node, ...] | None = None
    neighbours: tuple[AppReport, ...] = ()
    cluster_apps: tuple[AppReport, ...] = ()
    exclusive: Mapping[str, bool] = field(default_factory=dict)
    attempt: AppAttempt | None = None
    tries: int = 0
    placements: tuple[PlacementRequest, ...] = ()
    placement_handler: str | None = None
    late: tuple[LateTask, ...] = ()
    activities: Mapping[str, int] = field(default_factory=dict)
    has_image: bool = True

    @property
    def is_master_back(self) -> bool:
        """Whether the last ApplicationMaster is running, and has been running for longer than a
        start takes.
        """
        started = self.attempt.started_ms if self.attempt else None
        now = (self.app.started_ms or 0) + (self.app.elapsed_ms or 0)
        return self.app.state.value == "RUNNING" and bool(started) and now > (started or 0) + 60_000

    @property
    def queue(self) -> Queue:
        """The job's queue, as the scheduler describes it; a queue without a path if the scheduler
        does not describe it.
        """
        name = text_of(self.app.raw, "queue") or self.app.queue
        return self.scheduler.find(name) or _NO_QUEUE

    @property
    def waiting_s(self) -> float:
        """Seconds since the job was accepted, by the ResourceManager's clock."""
        return (self.app.elapsed_ms or 0) / 1000

    @property
    def has_master(self) -> bool:
        """Whether the job's ApplicationMaster has a container."""
        return self.app.state.value == "RUNNING" or (
            self.attempt is not None and self.attempt.container_id is not None
        )

    def serving(self, label: str | None = None) -> tuple[Node, ...]:
        """Return the nodes in service; with `label`, only those that can run a container with that
        label.
        """
        running = tuple(node for node in self.nodes or () if node.state == "RUNNING")
        return tuple(
            node for node in running if label is None or suits_label(node, label, self.exclusive)
        )


def suits_label(node: Node, label: str, exclusive: Mapping[str, bool]) -> bool:
    """Return whether a node runs containers that ask for a label; "" stands for no label. A label
    that `exclusive` does not have counts as exclusive.

    Args:
        exclusive: Each node label, and whether the nodes with the label run only containers that
            ask for it.
    """
    if label:
        return label in node.labels
    return all(not item or exclusive.get(item) is False for item in node.labels)


def free_of(node: Node) -> QueueResources | None:
    """Return the free resources of a node; None if they are unknown."""
    if node.available_memory_mib is None:
        return None
    more = {name: max(0, amount) for name, amount in node.available_additional.items()}
    cores = max(0, node.available_vcores or 0)
    return QueueResources(max(0, node.available_memory_mib), cores, more)


def total_of(node: Node) -> QueueResources:
    """Return the total resources of a node, with no memory if they are unknown."""
    free, used = free_of(node), node.used_memory_mib
    sum_of_memory = used + free.memory_mib if free is not None and used is not None else 0
    both = QueueResources(0, node.used_vcores or 0, node.used_additional) + (free or NO_RESOURCE)
    stated = node.total_additional
    names = {**stated, **both.additional}
    more = {name: max(stated.get(name, 0), both.amount(name)) for name in names}
    return QueueResources(node.total_memory_mib or sum_of_memory, both.vcores, more)


def asks_of(app: AppReport, service: ObservedService | None) -> tuple[PendingRequest, ...]:
    """Return the pending containers of an application: from the ResourceManager's list; or, for a
    running application with an empty list, the containers that its service lacks.
    """
    lacking = tuple(_components_lacking(service)) if service else ()
    listed = tuple(_listed_requests(app, lacking))
    if listed or app.state.value != "RUNNING":
        return listed
    return tuple(PendingRequest((name,), count, each) for name, count, each in lacking)


def _listed_requests(
    app: AppReport, lacking: tuple[tuple[str, int, QueueResources], ...]
) -> Iterator[PendingRequest]:
    has_master = app.state.value == "RUNNING"
    for request in app.resource_requests:
        count = whole_of(request, "numContainers") or 0
        each = QueueResources.from_json(request.get("capability"))
        # Requests for a host or rack duplicate the one for `*`; scheduling requests have no host.
        if count < 1 or each is None or text_of(request, "resourceName") not in (None, "*"):
            continue
        label = text_of(request, "nodeLabelExpression") or ""
        yield PendingRequest(
            roles=_roles_of(each, lacking) if has_master else (),
            count=count,
            each=each,
            label=label.replace("<DEFAULT_PARTITION>", ""),
        )


def _components_lacking(service: ObservedService) -> Iterator[tuple[str, int, QueueResources]]:
    """Yield each component that has fewer containers than requested, with the number of missing
    containers, and their size.
    """
    stated = {text_of(item, "name"): item for item in items(service.raw.get("components"))}
    for component in service.components:
        count = (component.number_of_containers or 0) - len(component.containers)
        if count > 0:
            yield component.name, count, _container_size(stated.get(component.name, {}))


def _container_size(component: Answer) -> QueueResources:
    """Return the size of a component's containers. In YARN's JSON their memory is a text."""
    resource = component.get("resource")
    if not isinstance(resource, Mapping):
        return NO_RESOURCE
    more = resource.get("additional")
    extra = (
        {str(name): whole_of(item, "value") or 0 for name, item in more.items()}
        if isinstance(more, Mapping)
        else {}
    )
    return QueueResources(whole_of(resource, "memory") or 0, whole_of(resource, "cpus") or 0, extra)


def _roles_of(
    each: QueueResources, lacking: tuple[tuple[str, int, QueueResources], ...]
) -> tuple[str, ...]:
    """Return the roles to which a request belongs. YARN does not report them, and rounds sizes up,
    so they are inferred from the size.
    """
    fitting = [
        (name, size)
        for name, _, size in lacking
        if size.memory_mib <= each.memory_mib and size.additional == each.additional
    ]
    largest = max((size.memory_mib for _, size in fitting), default=0)
    return tuple(name for name, size in fitting if size.memory_mib == largest) or tuple(
        name for name, _, _ in lacking
    )


def placements_of(service: ObservedService | None) -> tuple[PlacementRequest, ...]:
    """Return the placement constraints of the roles with missing containers."""
    lacking = {name for name, _, _ in _components_lacking(service)} if service else set()
    return tuple(
        placement
        for item in items(service.raw.get("components") if service else None)
        for placement in _placement_requests(item, lacking)
    )


def _placement_requests(component: Answer, lacking: set[str]) -> Iterator[PlacementRequest]:
    name, policy = text_of(component, "name") or "", component.get("placement_policy")
    if name not in lacking or not isinstance(policy, Mapping):
        return
    for constraint in items(policy.get("constraints")):
        partitions = constraint.get("node_partitions")
        yield PlacementRequest(
            role=name,
            count=whole_of(component, "number_of_containers") or 0,
            type=(text_of(constraint, "type") or "").upper(),
            scope=(text_of(constraint, "scope") or "").upper(),
            partitions=tuple(str(item) for item in partitions)
            if isinstance(partitions, list)
            else (),
        )
