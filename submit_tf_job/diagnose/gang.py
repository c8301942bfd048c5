"""Check whether all containers of a job fit into a cluster at once, before the job is posted.

A job starts when all its tasks but the sidecars have a container, so these and the
ApplicationMaster are needed at the same time. Only what is impossible for certain is `never`;
every comparison leaves out what a client cannot know, in the job's favour:

- YARN rounds containers up, and the size of the ApplicationMaster is a setting of the cluster; it
  counts as `_MASTER_MIB`.
- Cores are not compared: the default calculator of the CapacityScheduler ignores them.
- Containers without a label may run on labelled nodes, unless these are exclusive.
- Nodes out of service may come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from submit_tf_job.deferred import dataclass
from submit_tf_job.diagnose.amounts import clause, listed, memory, plural
from submit_tf_job.jobspec.job import Job, Role, RoleKind
from submit_tf_job.yarn.observed import Node
from submit_tf_job.yarn.queues import NO_RESOURCE, Queue, QueueResources, Scheduler

__all__ = ["Obstacle", "fits_never", "fits_not_now", "may_not_fit"]

_MASTER_MIB = 1


class Obstacle(NamedTuple):
    """Why a job does not fit.

    Attributes:
        path: Path of the job spec's value that asks for too much.
        sentence: What is asked for, and what there is.
    """

    path: str
    sentence: str


@dataclass(frozen=True)
class _Group:
    """The tasks of one role; `gpus` is 0 if GPUs cannot be compared."""

    role: Role
    gpus: int

    @property
    def mib(self) -> int:
        return self.role.memory_mib

    @property
    def count(self) -> int:
        return self.role.least

    @property
    def label(self) -> str:
        return (self.role.placement and self.role.placement.partition) or ""


class _Room(NamedTuple):
    """The amounts of one node that a check compares with."""

    mib: int
    gpus: int


@dataclass(frozen=True)
class _Scope:
    """Tasks, and the nodes on which they may run.

    Attributes:
        master_mib: Memory that the ApplicationMaster takes of the same nodes.
        who: The nodes, as the subject of a sentence with its verb.
    """

    groups: tuple[_Group, ...]
    rooms: tuple[_Room, ...]
    master_mib: int
    who: str


def may_not_fit(job: Job) -> bool:
    """Return whether a job needs to be compared with the cluster: it has several tasks, or a node
    label. One container is compared with the largest one in `plan/limits.py`.
    """
    groups = _groups(job)
    return sum(group.count for group in groups) > 1 or any(group.label for group in groups)


def fits_never(
    job: Job, gpu_resource: str, nodes: Sequence[Node], scheduler: Scheduler | None
) -> tuple[Obstacle, ...]:
    """Return why a job can never have all its containers at once, whatever else ends.

    Args:
        job: The job.
        gpu_resource: YARN's name for a GPU.
        nodes: The NodeManagers in every state.
        scheduler: The scheduler; None if it could not be read.
    """
    groups = _groups(job)
    if not job.bootstrap or not groups:
        return ()  # YARN starts one task after another, as others end
    found: list[Obstacle] = []
    left = [node for node in nodes if node.state != "DECOMMISSIONED"]
    totals = [(node, _total(node, gpu_resource)) for node in left]
    known = [(node, room) for node, room in totals if room is not None]
    if known and len(known) == len(totals):
        knows_gpus = any(room.gpus for _, room in known)
        found += _of_scopes(_scopes(groups, known, knows_gpus), "in all")
        found += _of_spread(groups, left)
    if all(node.state == "RUNNING" for node in left):
        found += _of_queue(job, groups, gpu_resource, nodes, scheduler)
    return tuple(dict.fromkeys(found))


def fits_not_now(
    job: Job, gpu_resource: str, nodes: Sequence[Node], scheduler: Scheduler | None
) -> str:
    """Return why a job cannot have all its containers now, and waits; "" if nothing is known to be
    in its way. The arguments are those of `fits_never`.
    """
    groups = _groups(job)
    running = [node for node in nodes if node.state == "RUNNING"]
    free = [(node, _free(node, gpu_resource)) for node in running]
    known = [(node, room) for node, room in free if room is not None]
    found: list[Obstacle] = []
    if known and len(known) == len(free):
        knows_gpus = any((_total(node, gpu_resource) or room).gpus for node, room in known)
        found += _of_scopes(_scopes(groups, known, knows_gpus), "free now")
    queue = scheduler.find(job.queue) if scheduler and job.queue else None
    if not found and scheduler and queue:
        found += _of_room_of_queue(groups, scheduler, queue)
    return next((obstacle.sentence for obstacle in found), "")


def _groups(job: Job) -> tuple[_Group, ...]:
    return tuple(
        _Group(role, role.gpus) for role in job.roles.values() if role.kind is not RoleKind.SIDECAR
    )


# --- nodes ---


def _total(node: Node, gpu_resource: str) -> _Room | None:
    used, free = node.used_memory_mib, node.available_memory_mib
    gpus = max(
        node.total_additional.get(gpu_resource, 0),
        node.used_additional.get(gpu_resource, 0) + node.available_additional.get(gpu_resource, 0),
    )
    if node.total_memory_mib:
        return _Room(node.total_memory_mib, gpus)
    if used is None or free is None or used + max(0, free) == 0:
        return None
    return _Room(used + max(0, free), gpus)


def _free(node: Node, gpu_resource: str) -> _Room | None:
    if node.available_memory_mib is None:
        return None
    gpus = node.available_additional.get(gpu_resource, 0)
    return _Room(max(0, node.available_memory_mib), max(0, gpus))


def _scopes(
    groups: tuple[_Group, ...], nodes: Sequence[tuple[Node, _Room]], knows_gpus: bool
) -> Iterator[_Scope]:
    """Yield all tasks with all nodes, then those of each label with the nodes of that label.

    Args:
        groups: The tasks.
        nodes: The nodes, each with the amounts that count.
        knows_gpus: Whether the nodes report GPUs, which Hadoop 3.1.0 does not.
    """
    if not knows_gpus:
        groups = tuple(_Group(group.role, 0) for group in groups)
    rooms = tuple(room for _, room in nodes)
    yield _Scope(groups, rooms, _MASTER_MIB, _have(len(rooms)))
    labelled = any(node.labels for node, _ in nodes)
    for label in dict.fromkeys(group.label for group in groups if group.label and labelled):
        rooms = tuple(room for node, room in nodes if label in node.labels)
        those = tuple(group for group in groups if group.label == label)
        yield _Scope(those, rooms, 0, _have(len(rooms), f" labelled {label}"))


def _of_scopes(scopes: Iterator[_Scope], when: str) -> Iterator[Obstacle]:
    """Yield the first obstacle of each scope."""
    for scope in scopes:
        obstacle = next((found for check in _CHECKS if (found := check(scope, when))), None)
        if obstacle:
            yield obstacle


def _memory(scope: _Scope, when: str) -> Obstacle | None:
    asked = sum(group.count * group.mib for group in scope.groups)
    there = sum(room.mib for room in scope.rooms)
    if asked + scope.master_mib <= there:
        return None
    more = clause(" and its ApplicationMaster", scope.master_mib)
    return Obstacle(
        _path(scope.groups, "memory"),
        f"the job needs {memory(asked)} at once ({_shown(scope.groups, _each_memory)}){more}, "
        f"and {scope.who} {memory(there)} {when}",
    )


def _gpus(scope: _Scope, when: str) -> Obstacle | None:
    groups = tuple(group for group in scope.groups if group.gpus)
    asked = sum(group.count * group.gpus for group in groups)
    there = sum(room.gpus for room in scope.rooms)
    if asked <= there:
        return None
    return Obstacle(
        _path(groups, "gpus"),
        f"the job needs {plural(asked, 'GPU')} at once ({_shown(groups, _each_gpus)}), and "
        f"{scope.who} {there} {when}",
    )


def _packing(scope: _Scope, when: str) -> Obstacle | None:
    """Return an obstacle if more tasks of at least some size exist than nodes can hold.

    A node of M MiB holds at most M // s containers of s MiB or more, and likewise of GPUs, however
    they are distributed. So the sum over all nodes bounds the number of tasks of that size.
    """
    sizes = sorted({group.mib for group in scope.groups}, reverse=True)
    counts = sorted({group.gpus for group in scope.groups}, reverse=True)
    for mib in sizes:
        for gpus in counts:
            large = tuple(g for g in scope.groups if g.mib >= mib and g.gpus >= gpus)
            tasks = sum(group.count for group in large)
            places = sum(_holds(room, mib, gpus) for room in scope.rooms)
            if tasks > places:
                each = memory(mib) + clause(" and {}", gpus and plural(gpus, "GPU"))
                return Obstacle(
                    _path(large, "instances"),
                    f"the job needs {plural(tasks, 'container')} of {each} or more at once "
                    f"({_shown(large, _each)}), and {scope.who} room for {places} such "
                    f"containers {when}",
                )
    return None


_CHECKS: tuple[Callable[[_Scope, str], Obstacle | None], ...] = (_memory, _gpus, _packing)


def _holds(room: _Room, mib: int, gpus: int) -> int:
    """Return how many containers of at least this size a node can hold."""
    by_memory = room.mib // max(1, mib)
    if gpus:
        return min(by_memory, room.gpus // gpus)
    return by_memory


def _of_spread(groups: tuple[_Group, ...], nodes: Sequence[Node]) -> Iterator[Obstacle]:
    for group in groups:
        placement = group.role.placement
        if placement and placement.spread == "node" and group.count > len(nodes):
            yield Obstacle(
                f"roles.{group.role.name}.placement",
                f"each of {plural(group.count, 'task')} of {group.role.name} needs a node of its "
                f"own, and there are {plural(len(nodes), 'node')}",
            )


# --- queues ---


def _of_queue(
    job: Job,
    groups: tuple[_Group, ...],
    gpu_resource: str,
    nodes: Sequence[Node],
    scheduler: Scheduler | None,
) -> Iterator[Obstacle]:
    """Yield the queue whose maximum the job exceeds.

    Only for a queue that the job names, as another one may be chosen by the cluster, and without
    node labels, which have maxima of their own.
    """
    queue = scheduler.find(job.queue) if scheduler and job.queue else None
    if not scheduler or queue is None or not queue.is_leaf or any(n.labels for n in nodes):
        return
    asked = sum((_size(group, gpu_resource) for group in groups), NO_RESOURCE)
    for item in scheduler.line(queue):
        limit = item.partition().limit
        if limit is not None and _exceeds(asked, limit, strict=not scheduler.is_capacity):
            yield Obstacle(
                "queue",
                f"the job needs {_three(asked)} at once, and queue {item.path} may have at most "
                f"{_three(limit)}",
            )
            return


def _exceeds(asked: QueueResources, limit: QueueResources, *, strict: bool) -> bool:
    """Return whether a queue can never have the amount.

    FairScheduler compares each resource (`FSQueue.fitsInMaxShare`). CapacityScheduler compares the
    larger shares only (`RegularContainerAllocator.checkHeadroom`), so a queue may exceed the
    maximum of one resource while it has room in another: impossible is what exceeds all.
    """
    names = [name for name in ("memory-mb", "vcores", *limit.additional) if limit.amount(name) > 0]
    more = [asked.amount(name) > limit.amount(name) for name in names]
    return bool(more) and (any(more) if strict else all(more))


def _of_room_of_queue(
    groups: tuple[_Group, ...], scheduler: Scheduler, queue: Queue
) -> Iterator[Obstacle]:
    asked = sum(group.count * group.mib for group in groups if not group.label)
    for item in scheduler.line(queue):
        share = item.partition()
        if share.limit is None or share.used is None:
            continue
        free = max(0, share.limit.memory_mib - share.used.memory_mib)
        if share.limit.memory_mib > 0 and asked + _MASTER_MIB > free:
            yield Obstacle(
                "queue",
                f"the job needs {memory(asked)} at once ({_shown(groups, _each_memory)}) and its "
                f"ApplicationMaster, and queue {item.path} may have {memory(free)} more now",
            )
            return


# --- sentences ---


def _size(group: _Group, gpu_resource: str) -> QueueResources:
    count = group.count
    more = {gpu_resource: count * group.gpus} if group.gpus else {}
    return QueueResources(count * group.mib, count * group.role.cpus, more)


def _path(groups: Sequence[_Group], key: str) -> str:
    largest = max(groups, key=lambda group: group.count * (group.mib + group.gpus))
    return f"roles.{largest.role.name}.{key}"


def _shown(groups: Sequence[_Group], each: Callable[[_Group], str]) -> str:
    return listed([f"{group.role.name} {group.count} x {each(group)}" for group in groups])


def _each_memory(group: _Group) -> str:
    return memory(group.mib)


def _each_gpus(group: _Group) -> str:
    return plural(group.gpus, "GPU")


def _each(group: _Group) -> str:
    return _each_memory(group) + clause(" and {}", group.gpus and _each_gpus(group))


def _have(nodes: int, which: str = "") -> str:
    verb = "has" if nodes == 1 else "have"
    return f"{plural(nodes, 'node')}{which} {verb}"


def _three(amount: QueueResources) -> str:
    words = [memory(amount.memory_mib), plural(amount.vcores, "core")]
    return listed([*words, *(f"{count} {name}" for name, count in amount.additional.items())], 9)
