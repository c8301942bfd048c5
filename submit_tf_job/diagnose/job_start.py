"""Whether a job would start now, and what it would wait for: pure functions of what the
ResourceManager reports at one moment, by the rules of `fit` and `capacity`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from submit_tf_job.diagnose import fit
from submit_tf_job.diagnose.amounts import clause, memory, plural
from submit_tf_job.diagnose.room import ClusterState, JobStart, is_in_queue
from submit_tf_job.diagnose.situation import free_of, suits_label, total_of
from submit_tf_job.host.units import duration_text
from submit_tf_job.jobspec.job import Job, RoleKind
from submit_tf_job.plan import Site
from submit_tf_job.yarn.inspection import NO_RESOURCE, Queue, QueueResources, Scheduler
from submit_tf_job.yarn.observed import AppReport, items

MASTER_MIB = 1024  # yarn.service.am-resource.memory
_MOST_STEPS, _MOST_SEARCHED = 20_000, 60  # of the search, and tasks that are searched for


class _Asked(NamedTuple):
    """A container that a job needs at the start; `apart` means that no two containers of its role
    may share a node.
    """

    role: str
    size: QueueResources
    label: str
    apart: bool = False


def start_of_job(job: Job, site: Site, state: ClusterState, user: str, step_mib: int) -> JobStart:
    """Return whether a job would start now, or what it would wait for.

    Args:
        job: The job.
        site: The cluster's facts.
        state: What the ResourceManager reports.
        user: The user who would submit the job.
        step_mib: The step of memory in MiB: YARN gives only multiples of this amount.
    """
    scheduler, gpu_resource = state.scheduler, site.gpu_resource
    queue = scheduler.find(job.queue or "default")
    larger = fit.larger_than_queue(job, site, queue) if queue else ()
    for found in (*fit.fits_never(job, gpu_resource, state.nodes, scheduler), *larger):
        return JobStart("never", found.sentence)
    asked, hidden = _comparable_containers(
        list(_containers_of(job, gpu_resource, queue, step_mib)), state
    )
    if queue and (refused := _refusal_of_queue(asked, queue, scheduler)):
        return JobStart("never", refused)
    all_labels = {one.label for one in asked}
    if short := _missing_amount(asked, state):
        return _start_that_waits(f"it waits for {short[0]}", {short[1]}, state)
    if sentence := fit.fits_not_now(job, gpu_resource, state.nodes, scheduler):
        return _start_that_waits(f"it waits: {sentence}", all_labels, state)
    if queue and (lacking := _shortage_of_queue(asked, queue, scheduler, user)):
        return _start_that_waits(f"it waits for {lacking}", all_labels, state)
    placed = can_place(asked, state, with_cores=False)
    if placed is False:
        why = "it waits for room: what is free is spread over nodes that are too small for it"
        return _start_that_waits(why, all_labels, state)
    if hidden:
        return JobStart("unknown", f"there is room, and no node tells its {hidden}")
    return _now_unless(job, asked, state, queue, placed)


def _comparable_containers(asked: list[_Asked], state: ClusterState) -> tuple[list[_Asked], str]:
    """Leave out kinds of devices that no node reports (`fit`; Hadoop 3.1.0 reports no devices at
    all); also return the name of such a kind.
    """
    known = {
        name for node in state.nodes for name, count in total_of(node).to_json().items() if count
    }
    hidden = next((name for one in asked for name in one.size.additional if name not in known), "")
    kept = [
        one._replace(
            size=QueueResources(
                one.size.memory_mib,
                one.size.vcores,
                {name: count for name, count in one.size.additional.items() if name in known},
            )
        )
        for one in asked
    ]
    return kept, hidden


def _now_unless(
    job: Job, asked: list[_Asked], state: ClusterState, queue: Queue | None, placed: bool | None
) -> JobStart:
    """Return that the job starts now; or, with the reason, that this is unknown. `placed` is the
    result of `can_place` without cores.
    """
    waiting = [a for a in state.apps if a.state.value != "RUNNING" and queue]
    ahead = [app for app in waiting if queue and is_in_queue(app, queue)]
    placements = [role.placement for role in job.roles.values() if role.placement]
    if any(one.together or one.attributes or one.spread == "rack" for one in placements):
        return JobStart("unknown", "there is room, if its placement allows it")
    if placed is None or any(free_of(node) is None for node in state.serving):
        return JobStart("unknown", "nothing is known to be in its way")
    if ahead:
        who, verb = plural(len(ahead), "job"), "waits" if len(ahead) == 1 else "wait"
        return JobStart("unknown", f"there is room, and {who} of its queue {verb} before it")
    if can_place(asked, state, with_cores=True) is not True:
        return JobStart("unknown", "there is room, if the scheduler does not count CPUs")
    return JobStart("now", "it would start now")


def _containers_of(
    job: Job, gpu_resource: str, queue: Queue | None, step_mib: int
) -> Iterator[_Asked]:
    """Yield the containers that the job needs to start, with its ApplicationMaster."""
    default = queue.default_label if queue else ""

    def rounded(mib: int) -> int:
        return -(-mib // step_mib) * step_mib

    yield _Asked("", QueueResources(rounded(MASTER_MIB), 1), default)
    for role in job.roles.values():
        if role.kind is RoleKind.SIDECAR:
            continue
        more = {role.gpu_resource or gpu_resource: role.gpus} if role.gpus else {}
        size = QueueResources(rounded(role.memory_mib), role.cpus, more)
        placement = role.placement
        label = (placement and placement.partition) or default
        apart = bool(placement and placement.spread == "node")
        yield from [_Asked(role.name, size, label, apart)] * role.least


def _refusal_of_queue(asked: Sequence[_Asked], queue: Queue, scheduler: Scheduler) -> str:
    for item in scheduler.line(queue):
        if item.state in ("STOPPED", "DRAINING"):
            return f"queue {item.path} is {item.state}: it takes no new jobs"
    for label in sorted({one.label for one in asked if one.label}):
        if scheduler.is_capacity and not (queue.may_use(label) and queue.has_share(label)):
            return f"queue {queue.path} has no share of the nodes labelled {label}"
    return ""


def _missing_amount(asked: Sequence[_Asked], state: ClusterState) -> tuple[str, str] | None:
    """Return the amount that is missing in the whole cluster, such as `3 GPUs on label a100`, and
    the label; None if nothing is missing.
    """
    for label in dict.fromkeys(one.label for one in asked):
        nodes = [node for node in state.serving if suits_label(node, label, state.exclusive)]
        free = sum((free_of(node) or NO_RESOURCE for node in nodes), NO_RESOURCE)
        needed = sum((one.size for one in asked if one.label == label), NO_RESOURCE)
        where = clause(" on label {}", label)
        for name, count in needed.additional.items():
            if count > free.amount(name):
                noun = "GPU" if name == "yarn.io/gpu" else name
                return f"{plural(count - free.amount(name), noun)}{where}", label
        if needed.memory_mib > free.memory_mib:
            return f"{memory(needed.memory_mib - free.memory_mib)} of memory{where}", label
    return None


def _shortage_of_queue(
    asked: Sequence[_Asked], queue: Queue, scheduler: Scheduler, user: str
) -> str:
    for label in dict.fromkeys(one.label for one in asked):
        needed = sum(one.size.memory_mib for one in asked if one.label == label)
        for item in scheduler.line(queue):
            share = item.partition(label)
            if share.limit is None or share.limit.memory_mib <= 0:
                continue
            left = share.limit.memory_mib - (share.used or NO_RESOURCE).memory_mib
            if needed > left:
                return f"{memory(needed - max(0, left))} of queue {item.path}"
    mine = queue.user(user)
    if mine and mine.limit and mine.used.memory_mib and mine.used.lacking(mine.limit):
        return f"other jobs of user {user}, who is over the limit in queue {queue.path}"
    if queue.max_parallel is not None and (queue.active or 0) >= queue.max_parallel:
        return f"one of the {queue.max_parallel} jobs that queue {queue.path} runs at once"
    return ""


def _start_that_waits(why: str, labels: set[str], state: ClusterState) -> JobStart:
    """Build the `JobStart` of a job that has to wait for resources. The wait is estimated as the
    shortest remaining lifetime of the jobs that have containers on nodes with one of `labels`.

    Args:
        why: Which resources are missing: the beginning of the sentence.
    """
    left = [
        limit.remaining_s
        for app in state.apps
        for limit in app.timeouts
        if limit.type == "LIFETIME"
        and limit.remaining_s is not None
        and limit.remaining_s >= 0
        and _holds_some(app, labels)
    ]
    first = min(left, default=None)
    ends = "; none of the jobs that hold it has a lifetime"
    if first is not None:
        ends = f"; the first to end does so in {duration_text(first)} (its lifetime)"
    if not any(_holds_some(app, labels) for app in state.apps):
        ends = ""
    return JobStart("waits", f"{why}{ends}", first)


def _holds_some(app: AppReport, labels: set[str]) -> bool:
    usage = app.raw.get("resourceInfo")
    used = items(usage.get("resourceUsagesByPartition")) if isinstance(usage, Mapping) else ()
    held = {
        str(item.get("partitionName") or "")
        for item in used
        if (QueueResources.from_json(item.get("used")) or NO_RESOURCE).memory_mib
    }
    return bool(held & labels) if used else (app.allocated_mb or 0) > 0


# --- placing containers on nodes ---


def can_place(asked: Sequence[_Asked], state: ClusterState, *, with_cores: bool) -> bool | None:
    """Return whether the free nodes can hold all containers at once, in some distribution; None if
    the search, which is limited, does not tell.

    Args:
        asked: The containers.
        state: What the ResourceManager reports. Nodes whose free resources are unknown hold
            nothing.
        with_cores: Whether cores count, too; the default calculator of the CapacityScheduler
            ignores them.
    """
    free = [free_of(node) for node in state.serving]
    rooms = [_counted_amount(one, with_cores) for one in free if one is not None]
    nodes = [node for node, one in zip(state.serving, free, strict=True) if one is not None]
    order = sorted(asked, key=lambda one: (one.role, one.label))
    order.sort(
        key=lambda one: (sum(one.size.additional.values()), one.size.memory_mib), reverse=True
    )
    order = [one._replace(size=_counted_amount(one.size, with_cores)) for one in order]
    suits = {
        label: [at for at, node in enumerate(nodes) if suits_label(node, label, state.exclusive)]
        for label in {one.label for one in asked}
    }
    if _placed_greedily(order, list(rooms), suits):
        return True
    if len(order) > _MOST_SEARCHED:
        return None
    return _PlacementSearch(order, rooms, suits).place(0, -1)


def _counted_amount(amount: QueueResources, with_cores: bool) -> QueueResources:
    return amount if with_cores else QueueResources(amount.memory_mib, 0, amount.additional)


def _placed_greedily(
    order: Sequence[_Asked], rooms: list[QueueResources], suits: Mapping[str, Sequence[int]]
) -> bool:
    used: dict[str, set[int]] = {}
    for one in order:
        taken = used.setdefault(one.role, set())
        fitting = [at for at in suits[one.label] if one.size.fits(rooms[at])]
        free = [at for at in fitting if not one.apart or at not in taken]
        if not free:
            return False
        best = min(free, key=lambda at: (sum(rooms[at].additional.values()), rooms[at].memory_mib))
        rooms[best] = rooms[best].minus(one.size)
        taken.add(best)
    return True


class _PlacementSearch:
    """Tries every distribution of containers over nodes; containers of one role are placed in the
    order of the nodes.
    """

    def __init__(
        self,
        order: Sequence[_Asked],
        rooms: Sequence[QueueResources],
        suits: Mapping[str, Sequence[int]],
    ) -> None:
        self.steps = 0
        self._order, self._rooms, self._suits = order, list(rooms), suits

    def place(self, number: int, before: int) -> bool | None:
        """Return whether the containers from index `number` on can be placed; None if the limit of
        steps is reached. `before` is the node of the previous container, -1 if that is of another
        kind.
        """
        if number == len(self._order):
            return True
        one, sure = self._order[number], True
        for at in self._suits[one.label]:
            if at < before + one.apart or not one.size.fits(self._rooms[at]):
                continue
            self.steps += 1
            if self.steps > _MOST_STEPS:
                return None
            room = self._rooms[at]
            self._rooms[at] = room.minus(one.size)
            same = number + 1 < len(self._order) and self._order[number + 1] == one
            found = self.place(number + 1, at if same else -1)
            self._rooms[at] = room
            if found:
                return True
            sure = sure and found is False
        return False if sure else None
