"""Determine why a job waits: the causes for a given situation, the most important first, by pure
functions.

Causes that never end come before causes that end when other jobs end; and causes that an
administrator or a change of the job spec can remove come before causes that end by themselves.
Every sentence contains the cluster's own numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from submit_tf_job.diagnose.amounts import clause, listed, plural, seconds
from submit_tf_job.diagnose.capacity import capacity_causes
from submit_tf_job.diagnose.cause import Cause
from submit_tf_job.diagnose.queueing import REPLACED, masters_cause, queue_causes
from submit_tf_job.diagnose.situation import LateTask, Situation
from submit_tf_job.yarn.inspection import QueueResources
from submit_tf_job.yarn.observed import AppReport, items, text_of, whole_of

# All codes, the most important first.
CODES = (
    "label-unknown",
    "label-not-allowed",
    "placement-disabled",
    "placement-impossible",
    "gpu-none",
    "container-too-large",
    "queue-too-small",
    "request-refused",
    "no-nodes",
    "nodes-unhealthy",
    "masters-only",
    "parallel-limit",
    "am-limit-queue",
    "am-limit-user",
    "queue-full",
    "user-limit",
    "gpu-busy",
    "no-room",
    "reserved",
    "preempted",
    "am-restarted",
    "am-starting",
    "image-or-files",
    "task-not-replaced",
    "task-not-arrived",
    "others-ahead",
    "queue-stopped",
    "scheduler-says",
    "am-waiting",
    "containers-coming",
    "unexplained",
)
# an idle cluster takes 1 to 10 s to start an ApplicationMaster, and as long again for containers
NORMAL_S = 30.0
_NORMAL = frozenset({"am-waiting", "am-starting", "containers-coming"})
UNEXPLAINED = _NORMAL | {"unexplained"}  # says only that it waits
# reported along with another cause, never alone
_MINOR = frozenset({"preempted", "am-restarted", "queue-stopped"})


def diagnose(situation: Situation) -> tuple[Cause, ...]:
    """Return the causes for which a job waits; at least one.

    Args:
        situation: What was read about a job that waits for its ApplicationMaster, for containers,
            or for reports of its tasks.
    """
    rules: tuple[Callable[[Situation], Iterator[Cause]], ...] = (
        _refused_request,
        capacity_causes,
        queue_causes,
        masters_cause,
        _restarts_of_master,
        _master_starting,
        _late_tasks,
        _jobs_ahead,
    )
    found = {(cause.code, cause.sentence): cause for rule in rules for cause in rule(situation)}
    if any(cause.code == "masters-only" for cause in found.values()):
        found = {key: cause for key, cause in found.items() if cause.code not in REPLACED}
    causes = list(found.values())
    if all(cause.code in _MINOR for cause in causes):
        causes += _remaining_causes(situation)
    return tuple(sorted(causes, key=lambda cause: CODES.index(cause.code)))


def is_normal(cause: Cause, waiting_s: float) -> bool:
    """Return whether it is normal to wait for this cause for so many seconds, so that the user need
    not see it.
    """
    return cause.code in _NORMAL and waiting_s < NORMAL_S


def _refused_request(situation: Situation) -> Iterator[Cause]:
    """Yield the cause if the ResourceManager rejects a request at every heartbeat of the
    ApplicationMaster (hadoop-facts.md#requests-that-are-never-granted).
    """
    for line in map(str.strip, situation.app.diagnostics.splitlines()):
        if "Invalid resource request" in line:
            yield Cause(
                "request-refused",
                f"the ResourceManager refuses the containers that the job asks for: "
                f"{line.partition(', please note')[0][:400]}",
                "ask for less in memory, cpus or gpus of the role; the job can only be "
                "stopped and submitted anew",
                {"diagnostics": line},
            )
            return


def _restarts_of_master(situation: Situation) -> Iterator[Cause]:
    raw = situation.app.raw
    lost = whole_of(raw, "numNonAMContainerPreempted") or 0
    masters = whole_of(raw, "numAMContainerPreempted") or 0
    if lost or masters:
        yield Cause(
            "preempted",
            f"YARN has taken {plural(lost + masters, 'container')} back from it for queues "
            f"that were below their share",
            "it gets new ones when there is room; a queue with a larger share, or with "
            "preemption disabled, is spared this",
            {"containers": lost, "application_masters": masters},
        )
    if situation.tries > 1 and not situation.is_master_back:
        yield Cause(
            "am-restarted",
            f"its ApplicationMaster has failed or was lost "
            f"{'once' if situation.tries == 2 else f'{situation.tries - 1} times'} "
            "and is started again",
            "the ResourceManager's diagnostics of the application, and the log of the "
            "earlier attempt, say why",
            {"attempts": situation.tries},
        )


def _master_starting(situation: Situation) -> Iterator[Cause]:
    if (
        situation.app.state.value == "RUNNING"
        or not situation.has_master
        or situation.attempt is None
    ):
        return
    attempt, age = situation.attempt, situation.waiting_s
    node = (attempt.node_id or "a node").partition(":")[0]
    hint = "it takes 3 to 15 s on a quiet cluster" if age < NORMAL_S else _log_hint(situation)
    yield Cause(
        "am-starting",
        f"its ApplicationMaster has a container on {node} and has not registered yet, "
        f"{seconds(age)} after the job was accepted",
        hint,
        {"container_id": attempt.container_id, "node": attempt.node_id, "waiting_s": age},
    )


def _log_hint(situation: Situation) -> str:
    where = (
        situation.attempt.logs_link if situation.attempt else None
    ) or situation.app.am_container_logs
    return (
        f"its log may say why: {where}" if where else "the log of its first container may say why"
    )


def _late_tasks(situation: Situation) -> Iterator[Cause]:
    """Yield the causes for tasks that have a container and have not reported. A task that was lost
    waits for YARN; a task whose launch script has not run, for its node; any other, for its own
    program.
    """
    waiting = [task for task in situation.late if not task.started and not task.lost]
    what, hint = "the container is being started", "its node is slow, or has much to do"
    if any(task.node_state.startswith("LOCALIZ") for task in waiting):
        what = "their files and packages are being brought to the node"
        hint = "a node fetches what was staged from HDFS once, the next job finds it there"
    elif situation.has_image:
        what = "the image is being pulled, or the container started"
        hint = (
            "a first pull of a large image takes minutes; pull it on the nodes beforehand, or use "
            "a smaller one"
        )
    yield from _late_cause(
        "task-not-replaced",
        [task for task in situation.late if task.lost],
        "been lost, and YARN has no new container for {it} yet",
        "YARN asks for one when it knows that the former has ended: for a node that fell silent "
        "after yarn.nm.liveness-monitor.expiry-interval-ms (mostly 10 min)",
    )
    yield from _late_cause(
        "image-or-files", waiting, f"a container and {{have}} not started: {what}", hint
    )
    yield from _late_cause(
        "task-not-arrived",
        [task for task in situation.late if task.started and not task.lost],
        "been started and {have} not arrived",
        "is there Python 3.6 or later in the image, and can the container resolve the deciding "
        "task's name? its log says",
    )


def _late_cause(code: str, tasks: list[LateTask], what: str, hint: str) -> Iterator[Cause]:
    if not tasks:
        return
    have, it = ("has", "it") if len(tasks) == 1 else ("have", "them")
    oldest = max((task.waiting_s for task in tasks if task.waiting_s is not None), default=None)
    hosts = sorted({task.host for task in tasks if task.host})
    names = [task.task for task in tasks]
    age = "" if oldest is None else f", for {seconds(oldest)},"
    yield Cause(
        code,
        f"{listed(names)}{clause(' on {}', listed(hosts))}{age} {have} "
        f"{what.format(have=have, it=it)}",
        hint,
        {"tasks": names, "hosts": hosts},
    )


def _jobs_ahead(situation: Situation) -> Iterator[Cause]:
    """Yield the cause if earlier jobs wait, too: a FIFO queue gives containers to its jobs in their
    order (RESPECT_FIFO).
    """
    if "fair" in (text_of(situation.queue.raw, "orderingPolicyInfo") or "").lower():
        return
    mine = _rank_in_queue(situation.app)
    ahead = [
        other
        for other in situation.neighbours
        if _rank_in_queue(other) < mine
        and (other.state.value == "ACCEPTED" or _lacks_containers(other))
    ]
    if ahead:
        are = "is" if len(ahead) == 1 else "are"
        yield Cause(
            "others-ahead",
            f"{plural(len(ahead), 'job')} of queue {situation.app.queue} that "
            f"{'waits' if len(ahead) == 1 else 'wait'} for containers too "
            f"{are} before it: {listed([f'{other.name} of {other.user}' for other in ahead])}",
            "wait until they have what they need, or choose another `queue`",
            {
                "count": len(ahead),
                "applications": [other.id for other in ahead[:20]],
                "priority": whole_of(situation.app.raw, "priority") or 0,
            },
        )


def _rank_in_queue(app: AppReport) -> tuple[int, int]:
    return -(whole_of(app.raw, "priority") or 0), app.started_ms or 0


def _lacks_containers(app: AppReport) -> bool:
    """Return whether a running application waits for containers, according to its pending
    amounts.
    """
    usage = app.raw.get("resourceInfo")
    partitions = items(usage.get("resourceUsagesByPartition")) if isinstance(usage, Mapping) else ()
    pending = [QueueResources.from_json(item.get("pending")) for item in partitions]
    return any(amount is not None and amount.memory_mib for amount in pending)


def _remaining_causes(situation: Situation) -> Iterator[Cause]:
    """Yield the causes for a job that nothing in the cluster's state prevents from starting."""
    words = [
        f"{text} ({plural(count, 'time')})"
        for text, count in sorted(situation.activities.items(), key=lambda item: -item[1])
    ]
    if words:
        yield Cause(
            "scheduler-says",
            f"the scheduler passes it over: {listed(words)}",
            "",
            {"activities": dict(situation.activities)},
        )
        return
    age, has_master = situation.waiting_s, situation.app.state.value == "RUNNING"
    facts: dict[str, object] = {"waiting_s": age}
    if has_master:
        yield Cause(
            "containers-coming",
            "its ApplicationMaster runs, and nothing is seen that keeps its containers away",
            "",
            facts,
        )
    elif age < NORMAL_S:
        yield Cause(
            "am-waiting",
            f"accepted {seconds(age)} ago; YARN has room for it and starts its "
            f"ApplicationMaster within seconds",
            "",
            facts,
        )
    else:
        said = " ".join(situation.app.diagnostics.split())[:300]
        yield Cause(
            "unexplained",
            f"accepted {seconds(age)} ago, and nothing is seen that keeps its "
            f"ApplicationMaster away{clause('; YARN reports: {}', said)}",
            "an administrator finds more in the ResourceManager's log",
            {**facts, "diagnostics": situation.app.diagnostics},
        )
