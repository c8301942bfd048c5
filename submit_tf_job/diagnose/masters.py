"""Find that ApplicationMasters alone hold a cluster or a queue: none of their jobs can ever start.

YARN starts ApplicationMasters as long as `maximum-am-resource-percent` allows. Where that is high
and many jobs come at once, nothing is left for their containers, and no job ever ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from submit_tf_job.diagnose.amounts import clause, listed
from submit_tf_job.diagnose.cause import Cause
from submit_tf_job.diagnose.situation import Situation, asks_of, free_of
from submit_tf_job.yarn.observed import AppReport
from submit_tf_job.yarn.queues import NO_RESOURCE, Queue, QueueResources

__all__ = ["REPLACED", "are_alone", "masters_cause"]

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


def are_alone(apps: Sequence[AppReport]) -> bool:
    """Return whether several applications have containers, all ApplicationMasters'."""
    holding = [app for app in apps if app.running_containers]
    alone = all(app.state.value == "RUNNING" and app.running_containers == 1 for app in holding)
    return alone and len(holding) > 1


def masters_cause(situation: Situation) -> Iterator[Cause]:
    """Yield the cause if ApplicationMasters alone hold the cluster, or one of the job's queues."""
    queue, apps = situation.queue, situation.cluster_apps
    if queue is None or situation.scheduler is None or not situation.nodes:
        return
    containers = sum(node.running_containers or 0 for node in situation.serving())
    offers = [free_of(node) or NO_RESOURCE for node in situation.serving()]
    if are_alone(apps) and len(_holding(apps)) == containers and _none_fits(apps, offers):
        yield _cause("this cluster", apps, situation, queue)
        return
    for item in situation.scheduler.line(queue):
        share = item.partition()
        inside = [app for app in apps if _is_below(app, item)]
        used = share.used or NO_RESOURCE
        if (
            share.limit is not None
            and are_alone(inside)
            and used.memory_mib == sum(app.allocated_mb or 0 for app in inside)
            and _none_fits(inside, [share.limit.minus(used)])
        ):
            yield _cause(f"queue {item.path}", inside, situation, queue)
            return


def _is_below(app: AppReport, queue: Queue) -> bool:
    """Return whether an application is in a queue; before Hadoop 3.4 YARN names the leaf alone."""
    path = str(app.raw.get("queue") or "")
    return f"{path}.".startswith(f"{queue.path}.") or path == queue.name


def _holding(apps: Sequence[AppReport]) -> list[AppReport]:
    return [app for app in apps if app.running_containers]


def _none_fits(apps: Sequence[AppReport], offers: Sequence[QueueResources]) -> bool:
    """Return whether each application waits for containers, and none of them finds room."""
    wanted = [asks_of(app, None) for app in _holding(apps)]
    return all(wanted) and not any(
        ask.each.fits(offer) for asks in wanted for ask in asks for offer in offers
    )


def _cause(what: str, apps: Sequence[AppReport], situation: Situation, queue: Queue) -> Cause:
    holding = _holding(apps)
    own = [str(app.name) for app in holding if app.user == situation.app.user]
    return Cause(
        "masters-only",
        f"the ApplicationMasters of {len(holding)} jobs hold {what}, and none of these jobs has "
        f"another container: nothing will start until one of them is stopped",
        f"stop one of them{clause(': yours are {}', listed(own))}; an administrator lowers "
        f"yarn.scheduler.capacity.{queue.path}.maximum-am-resource-percent",
        {"queue": queue.path, "masters": len(holding), "jobs": [app.name for app in holding][:20]},
    )
