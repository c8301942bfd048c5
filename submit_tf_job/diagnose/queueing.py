"""Why a queue lets a job wait: its state, its limits, and those of a user in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from submit_tf_job.diagnose.model import Cause
from submit_tf_job.diagnose.room import key_of
from submit_tf_job.diagnose.situation import Ask, Situation
from submit_tf_job.diagnose.words import listed, plural, resource
from submit_tf_job.yarn.observed import AppReport
from submit_tf_job.yarn.queues import NO_RESOURCE, Partition, Queue, Resource

__all__ = ["queue_causes"]

# CSAMContainerLaunchDiagnosticsConstants, and what LeafQueue.activateApplications adds to them.
_QUEUE_AM_LIMIT = "Queue's AM resource limit exceeded"
_USER_AM_LIMIT = "User's AM resource limit exceeded"
_DETAIL = r"{} = (<[^>]*>)"


def queue_causes(situation: Situation) -> Iterator[Cause]:
    """Say what the queue's own limits keep from the job."""
    queue = situation.queue
    if not situation.has_master:
        yield from _am_limits(situation, queue)
    if queue is None or situation.scheduler is None:
        return
    line = situation.scheduler.line(queue)
    stopped = next((item for item in line if item.state in ("STOPPED", "DRAINING")), None)
    if stopped is not None:
        yield Cause(
            "queue-stopped",
            f"queue {stopped.path} is {stopped.state}: it takes no new jobs, and still runs those that it has, this one too",
            "choose another `queue`; an administrator starts this one by state RUNNING in capacity-scheduler.xml and refreshQueues",
            {"queue": stopped.path, "state": stopped.state},
        )
    if not situation.has_master:
        yield from _parallel(situation, line)
    for ask in situation.asks:
        yield from _shares(ask, situation, queue, line)


def _am_limits(situation: Situation, queue: Queue | None) -> Iterator[Cause]:
    words = situation.app.diagnostics
    if _QUEUE_AM_LIMIT in words or _USER_AM_LIMIT in words:
        yield _am_limit(situation, queue, user=_QUEUE_AM_LIMIT not in words)


def _am_limit(situation: Situation, queue: Queue | None, *, user: bool) -> Cause:
    words, name = situation.app.diagnostics, situation.app.queue
    asked = _detail(words, "AM Resource Request")
    limit = _detail(words, "User AM Resource Limit of the queue" if user else "Queue Resource Limit for AM")
    used = _detail(words, "Queue AM Resource Usage")
    masters = [app for app in situation.neighbours if app.state.value == "RUNNING" and (not user or app.user == situation.app.user)]
    percent = f", {queue.am_percent:.0%} of the queue" if queue and queue.am_percent is not None else ""
    whose = f"the ApplicationMasters of user {situation.app.user}" if user else "ApplicationMasters"
    have = f"; {plural(len(masters), 'job')} {'holds' if len(masters) == 1 else 'hold'} it: {_names(masters)}" if masters else ""
    key = "maximum-am-resource-percent"
    path = queue.path if queue else f"root.{name}"
    return Cause(
        "am-limit-user" if user else "am-limit-queue",
        f"{whose} may use {resource(limit) if limit else 'only a part'} of queue {name}{'' if user else percent}; "
        f"{resource(used, ['memory-mb']) if used else 'that'} is in use and this job's needs {resource(asked) if asked else 'more'}{have}",
        f"wait until one of them ends or choose another `queue`; an administrator raises yarn.scheduler.capacity.{path}.{key}"
        + (" or user-limit-factor" if user else ""),
        {
            "queue": path,
            "limit": limit.to_json() if limit else None,
            "used": used.to_json() if used else None,
            "asked": asked.to_json() if asked else None,
            "running": len(masters),
        },
    )


def _detail(words: str, name: str) -> Resource | None:
    found = re.search(_DETAIL.format(re.escape(name)), words)
    return Resource.from_text(found[1]) if found else None


def _names(apps: list[AppReport]) -> str:
    return listed([f"{app.name} of {app.user}" for app in apps])


def _parallel(situation: Situation, line: tuple[Queue, ...]) -> Iterator[Cause]:
    running = [app for app in situation.neighbours if app.state.value == "RUNNING"]
    for queue in line:
        count = len(running) if queue is line[0] else queue.active
        if queue.max_parallel is not None and count is not None and count >= queue.max_parallel:
            yield Cause(
                "parallel-limit",
                f"queue {queue.path} runs at most {plural(queue.max_parallel, 'job')} at once, and {count} "
                f"{'runs' if count == 1 else 'run'}{f': {_names(running)}' if queue is line[0] else ''}",
                "wait until one of them ends, or choose another `queue`; an administrator raises max-parallel-apps "
                "(maxRunningApps with the FairScheduler)",
                {"queue": queue.path, "limit": queue.max_parallel, "running": count},
            )


def _shares(ask: Ask, situation: Situation, queue: Queue, line: tuple[Queue, ...]) -> Iterator[Cause]:
    label = ask.label or queue.default_label
    for item in line:
        share = item.partition(label)
        if share.limit is None or not any(share.limit.to_json().values()):
            continue
        if not _limits(item, situation) or (ask.each + (share.used or NO_RESOURCE)).fits(share.limit):
            continue
        yield _full(ask, situation, item, share) if ask.each.fits(share.limit) else _too_small(ask, situation, item, share)
        return
    yield from _user_limit(ask, situation, queue)


def _limits(queue: Queue, situation: Situation) -> bool:
    """Whether the limit is the queue's own: the root's is the cluster, where the nodes' room says more."""
    return situation.nodes is None or not (queue.path == "root" or _is_whole_cluster(queue))


def _is_whole_cluster(queue: Queue) -> bool:
    percent = queue.partition().max_percent
    return percent is not None and percent >= 100


def _size_key(situation: Situation, queue: Queue) -> str:
    """Name what an administrator gives a queue more by."""
    if situation.scheduler is not None and not situation.scheduler.is_capacity:
        return f"maxResources of {queue.path} in the scheduler's allocation file"
    return f"yarn.scheduler.capacity.{queue.path}.maximum-capacity"


def _too_small(ask: Ask, situation: Situation, queue: Queue, share: Partition) -> Cause:
    limit = share.limit or NO_RESOURCE
    kinds = ask.each.lacking(limit)
    return Cause(
        "queue-too-small",
        f"{ask.who} {ask.verb} for {resource(ask.each, kinds)} in one container, and queue {queue.path} may have at most "
        f"{resource(limit, kinds)} in all: it can never start there",
        (f"lower {key_of(ask, kinds[0])}, or choose" if ask.roles else "choose")
        + f" another `queue`; an administrator raises {_size_key(situation, queue)}",
        {"queue": queue.path, "limit": limit.to_json(), "asked": ask.each.to_json()},
    )


def _full(ask: Ask, situation: Situation, queue: Queue, share: Partition) -> Cause:
    limit, used = share.limit or NO_RESOURCE, share.used or NO_RESOURCE
    kinds = (ask.each + used).lacking(limit)
    percent = f" ({share.max_percent:.0f} % of the cluster)" if share.max_percent is not None else ""
    users = [user for user in sorted(queue.users, key=lambda user: -user.used.memory_mib) if user.used.memory_mib]
    holders = listed([f"user {user.name} has {resource(user.used, kinds)}" for user in users])
    elsewhere = _elsewhere(ask, situation, queue)
    return Cause(
        "queue-full",
        f"queue {queue.path} is full: it uses {resource(used, kinds)} of at most {resource(limit, kinds)}{percent}, "
        f"and {ask.who} {ask.verb} for {resource(ask.each, kinds)}{' each' if ask.count > 1 else ''}{f'; {holders}' if holders else ''}",
        f"wait until others are done, or set `queue`{f': {elsewhere} has room now' if elsewhere else ' to another one'}; "
        f"an administrator raises {_size_key(situation, queue)}",
        {
            "queue": queue.path,
            "used": used.to_json(),
            "limit": limit.to_json(),
            "asked": ask.each.to_json(),
            "users": {user.name: user.used.to_json() for user in users[:20]},
            "room_in": elsewhere,
        },
    )


def _elsewhere(ask: Ask, situation: Situation, full: Queue) -> str | None:
    """Find another queue that could take the container now."""
    rooms = []
    for queue in situation.scheduler.queues if situation.scheduler else ():
        share = queue.partition(ask.label)
        outside = not f"{queue.path}.".startswith(f"{full.path}.")
        if queue.is_leaf and outside and queue.state in (None, "RUNNING") and queue.may_use(ask.label) and share.limit is not None:
            left = share.limit.minus(share.used or NO_RESOURCE)
            if ask.each.fits(left):
                rooms.append((left.memory_mib, queue.name))
    return max(rooms)[1] if rooms else None


def _user_limit(ask: Ask, situation: Situation, queue: Queue) -> Iterator[Cause]:
    """Compare as CapacityScheduler does (canAssignToUser): whoever is above the limit gets nothing more; at it, one container more."""
    user = queue.user(situation.app.user)
    if user is None or user.limit is None or not user.used.memory_mib or not (over := user.used.lacking(user.limit)):
        return
    factor = f" (user-limit-factor {queue.user_limit_factor:g})" if queue.user_limit_factor is not None else ""
    yield Cause(
        "user-limit",
        f"user {user.name} has {resource(user.used, over)} of queue {queue.path}, more than the {resource(user.limit, over)} that one user "
        f"may have of it at this moment{factor}; {ask.who} must wait",
        "end another of your jobs or choose another `queue`; an administrator raises "
        f"yarn.scheduler.capacity.{queue.path}.user-limit-factor or minimum-user-limit-percent",
        {"queue": queue.path, "user": user.name, "used": user.used.to_json(), "limit": user.limit.to_json()},
    )
