"""Check, before a job is posted, whether it fits into a cluster: each container alone, and all
containers at the same time.

A job starts when all its tasks except the sidecars have a container, so these containers and the
ApplicationMaster's are needed at the same time. `never` is reported only for what is certainly
impossible. If a client cannot know something, the comparison assumes what favours the job:

- YARN rounds containers up, and the size of the ApplicationMaster is a setting of the cluster; it
  counts as `_MASTER_MIB`.
- The cores of nodes are not compared: the default calculator of the CapacityScheduler ignores them.
- Containers without a label may run on labelled nodes, unless these are exclusive.
- Nodes out of service may come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from submit_tf_job.diagnose.amounts import clause, listed, memory, plural, resource
from submit_tf_job.diagnose.situation import free_of, total_of
from submit_tf_job.errors import Refused
from submit_tf_job.host.units import duration_text, memory_text
from submit_tf_job.jobspec.job import Job, Role, RoleKind
from submit_tf_job.plan import Site
from submit_tf_job.yarn.inspection import NO_RESOURCE, Queue, QueueResources, Scheduler
from submit_tf_job.yarn.observed_cluster import MaximumResources, Node

_MASTER_MIB = 1


class Obstacle(NamedTuple):
    """Why a job does not fit.

    Attributes:
        path: Path of the job spec's value that asks for too much.
        sentence: What is asked for, and what there is.
        hint: What the user can do.
    """

    path: str
    sentence: str
    hint: str = "ask for less"


class _Group(NamedTuple):
    """The tasks of one role, with the amounts for one task. `gpus` is 0 if no node reports this
    kind of GPU (`resource`).
    """

    role: Role
    tasks: int
    mib: int
    gpus: int
    resource: str
    label: str


class _Scope(NamedTuple):
    """Tasks, and the nodes on which they may run.

    Attributes:
        master_mib: Memory that the ApplicationMaster takes on the same nodes.
        who: The nodes, as the subject of a sentence with its verb.
        when: Which state of the nodes is compared, as the end of a sentence.
    """

    groups: tuple[_Group, ...]
    rooms: tuple[QueueResources, ...]
    master_mib: int
    who: str
    when: str


def may_not_fit(job: Job) -> bool:
    """Return whether a job needs to be compared with the cluster: it has several tasks, or a node
    label. A single container is compared with the largest container by `check_largest`.
    """
    groups = _groups_of_job(job)
    return sum(group.tasks for group in groups) > 1 or any(map(_node_label, job.roles.values()))


def fits_never(
    job: Job, gpu_resource: str, nodes: Sequence[Node], scheduler: Scheduler | None
) -> tuple[Obstacle, ...]:
    """Return why a job can never have all its containers at the same time, even after all other
    jobs have ended; () if no obstacle is known.

    Args:
        job: The job.
        gpu_resource: YARN's name for a GPU, if a role states no other name.
        nodes: The NodeManagers in every state.
        scheduler: The scheduler; None if it could not be read.
    """
    groups = _groups_of_job(job, gpu_resource)
    left = [node for node in nodes if node.state != "DECOMMISSIONED"]
    found = list(_label_obstacles(job, left))
    if not groups or found:
        return tuple(found)
    known = [(node, total) for node in left if (total := total_of(node)).memory_mib]
    if known and len(known) == len(left):
        groups = _comparable_groups(groups, [room for _, room in known])
        found += _of_nodes(groups, known, "in all")
        found += _of_spread(groups, left)
    if all(node.state == "RUNNING" for node in left):
        found += _queue_obstacles(job, groups, nodes, scheduler)
    return tuple(dict.fromkeys(found))


def fits_not_now(
    job: Job, gpu_resource: str, nodes: Sequence[Node], scheduler: Scheduler | None
) -> str:
    """Return why a job cannot have all its containers now, so that it will wait; "" if no obstacle
    is known. The arguments are those of `fits_never`.
    """
    groups = _groups_of_job(job, gpu_resource)
    running = [node for node in nodes if node.state == "RUNNING"]
    known = [(node, free) for node in running if (free := free_of(node)) is not None]
    found: list[Obstacle] = []
    if known and len(known) == len(running):
        groups = _comparable_groups(groups, [total_of(node) for node in running])
        found += _of_nodes(groups, known, "free now")
    return next(
        (one.sentence for one in (*found, *_queue_space_obstacles(job, groups, scheduler))), ""
    )


def _groups_of_job(job: Job, gpu_resource: str = "") -> tuple[_Group, ...]:
    return tuple(
        _Group(
            role,
            role.least,
            role.memory_mib,
            role.gpus,
            role.gpu_resource or gpu_resource,
            _node_label(role),
        )
        for role in job.roles.values()
        if role.kind is not RoleKind.SIDECAR
    )


def _comparable_groups(
    groups: tuple[_Group, ...], rooms: Sequence[QueueResources]
) -> tuple[_Group, ...]:
    """Return the groups without the GPUs of kinds that no node reports; Hadoop 3.1.0 reports no
    GPUs at all.
    """
    known = {name for room in rooms for name, amount in room.additional.items() if amount}
    return tuple(group if group.resource in known else group._replace(gpus=0) for group in groups)


def _node_label(role: Role) -> str:
    return (role.placement and role.placement.partition) or ""


def _label_obstacles(job: Job, nodes: Sequence[Node]) -> Iterator[Obstacle]:
    """Yield the roles whose label no node has, including sidecars: no task of these roles can ever
    start.
    """
    known = sorted({label for node in nodes for label in node.labels})
    for role in job.roles.values() if nodes else ():
        label = _node_label(role)
        if label and label not in known:
            have = f"the labels of nodes are {listed(known)}" if known else "no node has a label"
            yield Obstacle(
                f"roles.{role.name}.placement.node_label",
                f"no node is labelled {label}; {have}",
                "correct node_label, or have an administrator label nodes",
            )


# --- nodes ---


def _of_nodes(
    groups: tuple[_Group, ...], nodes: Sequence[tuple[Node, QueueResources]], when: str
) -> Iterator[Obstacle]:
    """Yield the first obstacle for all tasks on all nodes; then, for each node label, the first
    obstacle for the tasks with that label.
    """
    for label in ("", *dict.fromkeys(group.label for group in groups if group.label)):
        rooms = tuple(room for node, room in nodes if not label or label in node.labels)
        those = tuple(group for group in groups if not label or group.label == label)
        verb = "has" if len(rooms) == 1 else "have"
        who = f"{plural(len(rooms), 'node')}{clause(' labelled {}', label)} {verb}"
        scope = _Scope(those, rooms, 0 if label else _MASTER_MIB, who, when)
        obstacle = _memory_obstacle(scope) or _gpu_obstacle(scope) or _packing_obstacle(scope)
        if obstacle:
            yield obstacle


def _memory_obstacle(scope: _Scope) -> Obstacle | None:
    asked = sum(group.tasks * group.mib for group in scope.groups)
    there = sum(room.memory_mib for room in scope.rooms)
    if asked + scope.master_mib <= there:
        return None
    more = clause(" and its ApplicationMaster", scope.master_mib)
    return Obstacle(
        _path_of_largest(scope.groups, "memory"),
        f"the job needs {memory(asked)} at once ({_by_role(scope.groups, _each_memory)}){more}, "
        f"and {scope.who} {memory(there)} {scope.when}",
    )


def _gpu_obstacle(scope: _Scope) -> Obstacle | None:
    for name in dict.fromkeys(group.resource for group in scope.groups if group.gpus):
        groups = tuple(group for group in scope.groups if group.gpus and group.resource == name)
        asked = sum(group.tasks * group.gpus for group in groups)
        there = sum(room.amount(name) for room in scope.rooms)
        if asked > there:
            return Obstacle(
                _path_of_largest(groups, "gpus"),
                f"the job needs {_gpus_in_words(asked, groups[0])} at once "
                f"({_by_role(groups, _each_gpus)}), and {scope.who} {there} {scope.when}",
            )
    return None


def _packing_obstacle(scope: _Scope) -> Obstacle | None:
    """Return an obstacle if, for any size, there are more tasks of at least that size than the
    nodes can hold.

    However containers are distributed, a node with M MiB holds at most M // s containers of s MiB
    or more; the same is true for GPUs. So the sum over all nodes is an upper bound for the number
    of tasks of that size.
    """
    sizes = sorted({group.mib for group in scope.groups}, reverse=True)
    counts = sorted({(group.gpus, group.resource) for group in scope.groups}, reverse=True)
    for mib in sizes:
        for gpus, name in counts:
            large = tuple(
                g
                for g in scope.groups
                if g.mib >= mib and (not gpus or (g.resource == name and g.gpus >= gpus))
            )
            tasks = sum(group.tasks for group in large)
            places = sum(_containers_held(room, mib, name, gpus) for room in scope.rooms)
            if tasks > places:
                each = memory(mib) + clause(" and {}", gpus and _gpus_in_words(gpus, large[0]))
                return Obstacle(
                    _path_of_largest(large, "instances"),
                    f"the job needs {plural(tasks, 'container')} of {each} or more at once "
                    f"({_by_role(large, _each_container)}), and {scope.who} room for {places} such "
                    f"containers {scope.when}",
                )
    return None


def _containers_held(room: QueueResources, mib: int, name: str, gpus: int) -> int:
    """Return how many containers of at least this size a node can hold."""
    by_memory = room.memory_mib // max(1, mib)
    if gpus:
        return min(by_memory, room.amount(name) // gpus)
    return by_memory


def _of_spread(groups: tuple[_Group, ...], nodes: Sequence[Node]) -> Iterator[Obstacle]:
    for group in groups:
        placement = group.role.placement
        if placement and placement.spread == "node" and group.tasks > len(nodes):
            yield Obstacle(
                f"roles.{group.role.name}.placement",
                f"each of {plural(group.tasks, 'task')} of {group.role.name} needs a node of its "
                f"own, and there are {plural(len(nodes), 'node')}",
            )


# --- queues ---


def _queue_obstacles(
    job: Job,
    groups: tuple[_Group, ...],
    nodes: Sequence[Node],
    scheduler: Scheduler | None,
) -> Iterator[Obstacle]:
    """Yield an obstacle if the job exceeds the maximum of its queue.

    This is checked only for a queue that the job names, because otherwise the cluster may choose
    another queue; and only without node labels, for which there are separate maxima.
    """
    queue = scheduler.find(job.queue) if scheduler and job.queue else None
    if not scheduler or queue is None or not queue.is_leaf or any(n.labels for n in nodes):
        return
    asked = sum(map(_size_of_group, groups), NO_RESOURCE)
    for item in scheduler.line(queue):
        limit = item.partition().limit
        if limit is not None and _exceeds_limit(asked, limit, strict=not scheduler.is_capacity):
            yield Obstacle(
                "queue",
                f"the job needs {resource(asked)} at once, and queue {item.path} may have at most "
                f"{resource(limit)}",
            )
            return


def _exceeds_limit(asked: QueueResources, limit: QueueResources, *, strict: bool) -> bool:
    """Return whether a queue with this limit can never have the amount that a job asks for.

    FairScheduler compares each resource (`FSQueue.fitsInMaxShare`). CapacityScheduler compares
    dominant shares only (`RegularContainerAllocator.checkHeadroom`), so a queue may exceed the
    limit of one resource while it has room in another; only an amount that exceeds the limit of
    every resource is then impossible.

    Args:
        asked: What the job asks for.
        limit: The queue's maximum; a resource with 0 is not compared.
        strict: Whether exceeding the limit of a single resource is enough, as for FairScheduler.
    """
    names = [name for name in ("memory-mb", "vcores", *limit.additional) if limit.amount(name) > 0]
    more = [asked.amount(name) > limit.amount(name) for name in names]
    return bool(more) and (any(more) if strict else all(more))


def _queue_space_obstacles(
    job: Job, groups: tuple[_Group, ...], scheduler: Scheduler | None
) -> Iterator[Obstacle]:
    """Yield an obstacle if the queue has no room for the job now."""
    queue = scheduler.find(job.queue) if scheduler and job.queue else None
    if not scheduler or queue is None:
        return
    asked = sum(group.tasks * group.mib for group in groups if not group.label)
    for item in scheduler.line(queue):
        share = item.partition()
        if share.limit is None or share.used is None:
            continue
        free = max(0, share.limit.memory_mib - share.used.memory_mib)
        if share.limit.memory_mib > 0 and asked + _MASTER_MIB > free:
            yield Obstacle(
                "queue",
                f"the job needs {memory(asked)} at once ({_by_role(groups, _each_memory)}) and its "
                f"ApplicationMaster, and queue {item.path} may have {memory(free)} more now",
            )
            return


# --- sentences ---


def _size_of_group(group: _Group) -> QueueResources:
    more = {group.resource: group.tasks * group.gpus} if group.gpus else {}
    return QueueResources(group.tasks * group.mib, group.tasks * group.role.cpus, more)


def _path_of_largest(groups: Sequence[_Group], key: str) -> str:
    largest = max(groups, key=lambda group: group.tasks * (group.mib + group.gpus))
    return f"roles.{largest.role.name}.{key}"


def _by_role(groups: Sequence[_Group], each: Callable[[_Group], str]) -> str:
    return listed([f"{group.role.name} {group.tasks} x {each(group)}" for group in groups])


def _each_memory(group: _Group) -> str:
    return memory(group.mib)


def _each_gpus(group: _Group) -> str:
    return _gpus_in_words(group.gpus, group)


def _gpus_in_words(number: int, group: _Group) -> str:
    """Return a number of GPUs in words; if the role states `gpu_resource`, with that name."""
    own = group.role.gpu_resource
    return f"{number} {own}" if own else plural(number, "GPU")


def _each_container(group: _Group) -> str:
    return _each_memory(group) + clause(" and {}", group.gpus and _each_gpus(group))


# --- one container, one queue ---


def check_largest(job: Job, site: Site, maximum: MaximumResources) -> None:
    """Raise `Refused` if a container would be larger than the largest container that the cluster
    allows.

    YARN checks memory and cores. With too many GPUs it accepts the job, which then never gets
    containers, or its ApplicationMaster fails without naming the resource
    (hadoop-facts.md#requests-that-are-never-granted).

    Raises:
        Refused: One or more roles request too much; the message has all of them.
    """
    problems = list(_exceeded_limits(job, site, maximum))
    if problems:
        raise Refused("\n".join(str(job.problem(path, message)) for path, message in problems))


def _exceeded_limits(job: Job, site: Site, maximum: MaximumResources) -> Iterator[tuple[str, str]]:
    for role in job.roles.values():
        name = role.gpu_resource or site.gpu_resource
        yield from _amounts_above(role, name, maximum, "here")
        if role.gpus and not maximum.additional.get(name):
            key = "gpu_resource" if role.gpu_resource else "gpus"
            yield f"roles.{role.name}.{key}", _not_offered(name, maximum)


def _amounts_above(
    role: Role, gpu_resource: str, maximum: MaximumResources, where: str
) -> Iterator[tuple[str, str]]:
    gpus = maximum.additional.get(gpu_resource)
    for key, asked, most, text, unit in (
        ("memory", role.memory_mib, maximum.memory_mib, memory_text, ""),
        ("cpus", role.cpus, maximum.vcores, str, " cores"),
        ("gpus", role.gpus, gpus or None, str, f" {gpu_resource}"),
    ):
        if most is not None and asked > most:
            yield (
                f"roles.{role.name}.{key}",
                f"{text(asked)} is more than the {text(most)}{unit} one container may have {where}",
            )


def larger_than_queue(job: Job, site: Site, queue: Queue) -> tuple[Obstacle, ...]:
    """Return each amount that is larger than the largest container of a queue. YARN accepts such a
    job, and then refuses the request for containers at every heartbeat (`maximum-allocation` of a
    queue).
    """
    if queue.largest is None:
        return ()
    most = queue.largest
    maximum = MaximumResources(most.memory_mib or None, most.vcores or None, most.additional)
    return tuple(
        Obstacle(path, sentence, "ask for less, or choose another `queue`")
        for role in job.roles.values()
        for path, sentence in _amounts_above(
            role, role.gpu_resource or site.gpu_resource, maximum, f"in queue {queue.path}"
        )
    )


def cut_by_queue(lifetime_s: int | None, queue: Queue) -> str:
    """Return how a queue limits the lifetime of a job that asks for this many seconds, or for no
    limit; "" if the queue does not limit it (CapacityScheduler.checkAndGetApplicationLifetime).
    """
    most, default = queue.lifetime_max_s, queue.lifetime_default_s
    if lifetime_s and most and lifetime_s > most:
        return (
            f"{duration_text(lifetime_s)} is more than queue {queue.path} allows: it ends every "
            f"job after {duration_text(most)} (maximum-application-lifetime); "
            "if that is too short, choose another `queue`"
        )
    if not lifetime_s and default:
        key = "maximum-application-lifetime" if default == most else "default-application-lifetime"
        return (
            f"none, and queue {queue.path} ends every such job after {duration_text(default)} "
            f"({key}); if that is too short, "
            + ("choose another `queue`" if default == most else "ask for one here")
        )
    return ""


def _not_offered(name: str, maximum: MaximumResources) -> str:
    others = sorted(other for other, amount in maximum.additional.items() if amount)
    if others:
        return f"this cluster offers no {name}, but {', '.join(others)}; set gpu_resource"
    return f"this cluster offers no {name}; leave gpus out, or set gpu_resource"
