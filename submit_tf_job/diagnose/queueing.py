"""Find why a queue delays a job: the state and limits of the queue, the limits of the user in it,
or ApplicationMasters that fill the queue or the whole cluster, so that no task gets a container.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from submit_tf_job.diagnose.amounts import clause, listed, plural, resource
from submit_tf_job.diagnose.capacity import key_of
from submit_tf_job.diagnose.cause import Cause
from submit_tf_job.diagnose.situation import PendingRequest, Situation, asks_of, free_of
from submit_tf_job.yarn.inspection import NO_RESOURCE, Partition, Queue, QueueResources
from submit_tf_job.yarn.observed import AppReport

# CSAMContainerLaunchDiagnosticsConstants, and the additions by LeafQueue.activateApplications.
_QUEUE_AM_LIMIT = "Queue's AM resource limit exceeded"
_USER_AM_LIMIT = "User's AM resource limit exceeded"
_DETAIL = r"{} = (<[^<>]*>)"
_OF_LABEL = re.compile(r"AM Partition = ([\w./-]+)")


def queue_causes(situation: Situation) -> Iterator[Cause]:
    """Yield the causes that lie in the queue's state and limits, or in the limits of its user."""
    queue = situation.queue
    if not situation.has_master:
        words = situation.app.diagnostics
        if _QUEUE_AM_LIMIT in words or _USER_AM_LIMIT in words:
            yield _am_limit(situation, queue, user=_QUEUE_AM_LIMIT not in words)
    line = situation.scheduler.line(queue)
    stopped = next((item for item in line if item.state in ("STOPPED", "DRAINING")), None)
    if stopped is not None:
        yield Cause(
            "queue-stopped",
            f"queue {stopped.path} is {stopped.state}: it takes no new jobs, and still "
            f"runs those that it has, this one too",
            "choose another `queue`; an administrator starts this one by state RUNNING in "
            "capacity-scheduler.xml and refreshQueues",
            {"queue": stopped.path, "state": stopped.state},
        )
    if not situation.has_master:
        yield from _parallel_limit(situation, line)
    for ask in situation.asks:
        yield from _share_causes(ask, situation, queue, line)


def _am_limit(situation: Situation, queue: Queue, *, user: bool) -> Cause:
    app, words = situation.app, situation.app.diagnostics
    running = [other for other in situation.neighbours if other.state.value == "RUNNING"]
    masters = [other for other in running if not user or other.user == app.user]
    code, whose, limited = "am-limit-queue", "ApplicationMasters", "Queue Resource Limit for AM"
    path, percent, have = queue.path or f"root.{app.queue}", "", ""
    label = named[1] if (named := _OF_LABEL.search(words)) else ""
    key = "maximum-am-resource-percent"
    if user:
        code, whose = "am-limit-user", f"the ApplicationMasters of user {app.user}"
        limited = "User AM Resource Limit of the queue"
        key += " or user-limit-factor"
    elif queue.am_percent is not None and not label:
        percent = f", {queue.am_percent:.0%} of the queue"
    if masters:
        verb = {1: "holds"}.get(len(masters), "hold")
        have = f"; {plural(len(masters), 'job')} {verb} it: {_names_of_apps(masters)}"
    limit, used = (
        _amount_in_diagnostics(words, limited),
        _amount_in_diagnostics(words, "Queue AM Resource Usage"),
    )
    asked = _amount_in_diagnostics(words, "AM Resource Request")
    return Cause(
        code,
        f"{whose} may use {_amount_or(limit, 'only a part')} of queue {app.queue}"
        f"{clause(' on nodes labelled {}', label)}{percent}; "
        f"{_amount_or(used, 'that', ['memory-mb'])} is in use and this job's "
        f"needs {_amount_or(asked, 'more')}{have}",
        f"wait until one of them ends or choose another `queue`; an administrator raises "
        f"yarn.scheduler.capacity.{path}.{key}",
        {
            "queue": path,
            "limit": limit and limit.to_json(),
            "used": used and used.to_json(),
            "asked": asked and asked.to_json(),
            "running": len(masters),
        },
    )


def _amount_in_diagnostics(words: str, name: str) -> QueueResources | None:
    found = re.search(_DETAIL.format(re.escape(name)), words)
    return QueueResources.from_text(found[1]) if found else None


def _amount_or(
    found: QueueResources | None, otherwise: str, only: Iterable[str] | None = None
) -> str:
    return otherwise if found is None else resource(found, only)


def _names_of_apps(apps: list[AppReport]) -> str:
    return listed([f"{app.name} of {app.user}" for app in apps])


def _parallel_limit(situation: Situation, line: tuple[Queue, ...]) -> Iterator[Cause]:
    running = [app for app in situation.neighbours if app.state.value == "RUNNING"]
    for queue in line:
        count, names = queue.active, ""
        if queue is line[0]:
            count, names = len(running), _names_of_apps(running)
        if queue.max_parallel is not None and count is not None and count >= queue.max_parallel:
            verb = {1: "runs"}.get(count, "run")
            yield Cause(
                "parallel-limit",
                f"queue {queue.path} runs at most {plural(queue.max_parallel, 'job')} at "
                f"once, and {count} {verb}{clause(': {}', names)}",
                "wait until one of them ends, or choose another `queue`; an administrator "
                "raises max-parallel-apps "
                "(maxRunningApps with the FairScheduler)",
                {"queue": queue.path, "limit": queue.max_parallel, "running": count},
            )


def _share_causes(
    ask: PendingRequest, situation: Situation, queue: Queue, line: tuple[Queue, ...]
) -> Iterator[Cause]:
    label = ask.label or queue.default_label
    for item in line:
        share = item.partition(label)
        if share.limit is None or not any(share.limit.to_json().values()):
            continue
        if not _is_limited_by_queue(item, situation) or (
            ask.each + (share.used or NO_RESOURCE)
        ).fits(share.limit):
            continue
        if ask.each.fits(share.limit):
            yield _queue_full(ask, situation, item, share)
        else:
            yield _too_small(ask, situation, item, share)
        return
    yield from _user_limit(ask, situation, queue)


def _is_limited_by_queue(queue: Queue, situation: Situation) -> bool:
    """Return whether the queue's own limit applies. The limit of the root queue is the cluster's
    capacity; for that the causes about nodes give a better explanation.
    """
    percent = queue.partition().max_percent
    is_whole_cluster = queue.path == "root" or (percent is not None and percent >= 100)
    return situation.nodes is None or not is_whole_cluster


def _size_key(situation: Situation, queue: Queue) -> str:
    """Return what an administrator changes to raise a queue's limit: a property of the capacity
    scheduler, or with another scheduler a line of its allocation file.
    """
    if not situation.scheduler.is_capacity:
        return f"maxResources of {queue.path} in the scheduler's allocation file"
    return f"yarn.scheduler.capacity.{queue.path}.maximum-capacity"


def _too_small(ask: PendingRequest, situation: Situation, queue: Queue, share: Partition) -> Cause:
    limit = share.limit or NO_RESOURCE
    kinds = ask.each.lacking(limit)
    advice = "choose another `queue`"
    if ask.roles:
        advice = f"lower {key_of(ask, kinds[0])}, or {advice}"
    return Cause(
        "queue-too-small",
        f"{ask.who} {ask.verb} for {resource(ask.each, kinds)} in one container, and queue "
        f"{queue.path} may have at most "
        f"{resource(limit, kinds)} in all: it can never start there",
        f"{advice}; an administrator raises {_size_key(situation, queue)}",
        {"queue": queue.path, "limit": limit.to_json(), "asked": ask.each.to_json()},
    )


def _queue_full(ask: PendingRequest, situation: Situation, queue: Queue, share: Partition) -> Cause:
    limit, used = share.limit or NO_RESOURCE, share.used or NO_RESOURCE
    kinds = (ask.each + used).lacking(limit)
    percent, other = "", " to another one"
    if share.max_percent is not None:
        percent = f" ({share.max_percent:.0f} % of the cluster)"
    users = [
        user
        for user in sorted(queue.users, key=lambda user: -user.used.memory_mib)
        if user.used.memory_mib
    ]
    holders = listed([f"user {user.name} has {resource(user.used, kinds)}" for user in users])
    elsewhere = _other_queue(ask, situation, queue)
    if elsewhere:
        other = f": {elsewhere} has room now"
    return Cause(
        "queue-full",
        f"queue {queue.path} is full: it uses {resource(used, kinds)} of at most "
        f"{resource(limit, kinds)}{percent}, "
        f"and {ask.who} {ask.verb} for "
        f"{resource(ask.each, kinds)}{clause(' each', ask.count > 1)}{clause('; {}', holders)}",
        f"wait until others are done, or set `queue`{other}; "
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


def _other_queue(ask: PendingRequest, situation: Situation, full: Queue) -> str | None:
    """Return another queue in which the container could run now, or None."""
    rooms = []
    for queue in situation.scheduler.queues:
        share = queue.partition(ask.label)
        outside = not f"{queue.path}.".startswith(f"{full.path}.")
        if (
            queue.is_leaf
            and outside
            and queue.state in (None, "RUNNING")
            and queue.may_use(ask.label)
            and share.limit is not None
        ):
            left = share.limit.minus(share.used or NO_RESOURCE)
            if ask.each.fits(left):
                rooms.append((left.memory_mib, queue.name))
    return max(rooms, default=(0, None))[1]


def _user_limit(ask: PendingRequest, situation: Situation, queue: Queue) -> Iterator[Cause]:
    """Yield the cause if the user has reached the limit, by the rule of
    CapacityScheduler.canAssignToUser: a user at the limit gets one more container, a user above it
    none.
    """
    user = queue.user(situation.app.user)
    if (
        user is None
        or user.limit is None
        or not user.used.memory_mib
        or not (over := user.used.lacking(user.limit))
    ):
        return
    factor = ""
    if queue.user_limit_factor is not None:
        factor = f" (user-limit-factor {queue.user_limit_factor:g})"
    yield Cause(
        "user-limit",
        f"user {user.name} has {resource(user.used, over)} of queue {queue.path}, more "
        f"than the {resource(user.limit, over)} that one user "
        f"may have of it at this moment{factor}; {ask.who} must wait",
        "end another of your jobs or choose another `queue`; an administrator raises "
        f"yarn.scheduler.capacity.{queue.path}.user-limit-factor or minimum-user-limit-percent",
        {
            "queue": queue.path,
            "user": user.name,
            "used": user.used.to_json(),
            "limit": user.limit.to_json(),
        },
    )


# --- ApplicationMasters alone: none of their jobs can ever start ---
#
# YARN starts ApplicationMasters as long as `maximum-am-resource-percent` allows. Where that is high
# and many jobs come at once, nothing is left for their containers, and no job ever ends.

# causes that say to wait for others, which do not end
REPLACED = frozenset(
    {
        "am-limit-queue",
        "am-limit-user",
        "queue-full",
        "user-limit",
        "no-room",
        "reserved",
        "others-ahead",
    }
)


def have_only_masters(apps: Sequence[AppReport]) -> bool:
    """Return whether several of the applications have containers, and all these containers are
    ApplicationMasters.
    """
    holding = [app for app in apps if app.running_containers]
    alone = all(app.state.value == "RUNNING" and app.running_containers == 1 for app in holding)
    return alone and len(holding) > 1


def masters_cause(situation: Situation) -> Iterator[Cause]:
    """Yield the cause if the whole cluster, or the job's queue or a queue above it, is filled with
    ApplicationMasters only.
    """
    queue = situation.queue
    apps = [app for app in situation.cluster_apps if app.running_containers]
    if not queue.path or not situation.nodes:
        return
    containers = sum(node.running_containers or 0 for node in situation.serving())
    offers = [free_of(node) or NO_RESOURCE for node in situation.serving()]
    if have_only_masters(apps) and len(apps) == containers and _none_fits(apps, offers):
        yield _masters_alone("this cluster", apps, situation, queue)
        return
    for item in situation.scheduler.line(queue):
        share = item.partition()
        inside = [app for app in apps if _is_below(app, item)]
        used = share.used or NO_RESOURCE
        if (
            share.limit is not None
            and have_only_masters(inside)
            and used.memory_mib == sum(app.allocated_mb or 0 for app in inside)
            and _none_fits(inside, [share.limit.minus(used)])
        ):
            yield _masters_alone(f"queue {item.path}", inside, situation, queue)
            return


def _is_below(app: AppReport, queue: Queue) -> bool:
    """Return whether an application is in a queue or below it; before Hadoop 3.4, YARN reports only
    the last element of the queue's path.
    """
    path = str(app.raw.get("queue") or "")
    return f"{path}.".startswith(f"{queue.path}.") or path == queue.name


def _none_fits(apps: Sequence[AppReport], offers: Sequence[QueueResources]) -> bool:
    """Return whether each application waits for containers, and there is room for none of these
    containers.
    """
    wanted = [asks_of(app, None) for app in apps]
    return all(wanted) and not any(
        ask.each.fits(offer) for asks in wanted for ask in asks for offer in offers
    )


def _masters_alone(
    what: str, apps: Sequence[AppReport], situation: Situation, queue: Queue
) -> Cause:
    own = [str(app.name) for app in apps if app.user == situation.app.user]
    return Cause(
        "masters-only",
        f"the ApplicationMasters of {len(apps)} jobs hold {what}, and none of these jobs has "
        f"another container: nothing will start until one of them is stopped",
        f"stop one of them{clause(': yours are {}', listed(own))}; an administrator lowers "
        f"yarn.scheduler.capacity.{queue.path}.maximum-am-resource-percent",
        {"queue": queue.path, "masters": len(apps), "jobs": [app.name for app in apps][:20]},
    )
