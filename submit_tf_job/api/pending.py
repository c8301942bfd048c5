"""why_pending: ask the cluster what a job waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from submit_tf_job.api.cluster import Cluster
from submit_tf_job.errors import SubmitTFJobError

if TYPE_CHECKING:
    from submit_tf_job.diagnose.model import Cause
    from submit_tf_job.diagnose.situation import Late, Situation
    from submit_tf_job.watch import Look
    from submit_tf_job.yarn.client import Deadline
    from submit_tf_job.yarn.observed import AppReport, Node, ObservedContainer

__all__ = ["SOON_S", "is_waiting", "why_pending"]

SOON_S = 5.0  # younger than this, waiting is not worth a question
LATE_S = 10.0  # a task arrives 1 to 3 s after its container was started
TOTAL_S = 10.0
_ASKED_NODES = 3
_T = TypeVar("_T")


def is_waiting(look: Look) -> bool:
    """Whether a job has waited for long enough to ask why."""
    from submit_tf_job.observation import JobState

    app = look.seen.app
    return app is not None and look.verdict.state in (JobState.PENDING, JobState.STARTING) and (app.elapsed_ms or 0) >= SOON_S * 1000


def why_pending(cluster: Cluster, look: Look) -> tuple[Cause, ...]:
    """Say why a job waits for its ApplicationMaster, its containers or its tasks; what matters most comes first.

    What cannot be read is left out of the diagnosis; it never fails.

    Args:
        cluster: The cluster.
        look: The job as just seen.

    Returns:
        The causes; none for a job that waits for nothing.

    Example:
        >>> for cause in why_pending(cluster, status(cluster, "mnist")):  # doctest: +SKIP
        ...     print(cause.sentence)
    """
    from submit_tf_job.diagnose.pending import NORMAL_S, diagnose
    from submit_tf_job.observation import JobState

    if look.seen.app is None or look.verdict.state not in (JobState.PENDING, JobState.STARTING):
        return ()
    situation = _situation(cluster, look, look.seen.app)
    if situation.app.state.value == "RUNNING" and not (situation.asks or situation.late or situation.wishes):
        return ()
    causes = diagnose(situation)
    if situation.waiting_s >= NORMAL_S and any(cause.code in ("containers-coming", "unexplained") for cause in causes):
        return diagnose(_with_activities(cluster, situation))
    return causes


def _situation(cluster: Cluster, look: Look, app: AppReport) -> Situation:
    from submit_tf_job.diagnose.situation import Situation, asks_of, wishes_of
    from submit_tf_job.yarn import inspection

    client, deadline = cluster.client, cluster.client.deadline(TOTAL_S)
    service = look.seen.service
    nodes = _soft(lambda: inspection.all_nodes(client, deadline=deadline))
    attempts = _soft(lambda: client.app_attempts(app.id, deadline=deadline)) or ()
    wishes = wishes_of(service)
    asks = asks_of(app, service)
    labelled = any(node.labels for node in nodes or ()) or any(ask.label for ask in asks)
    queue = str(app.raw.get("queue") or app.queue)
    conf = _soft(lambda: inspection.configuration(client, deadline=deadline)) if wishes else None
    return Situation(
        app=app,
        asks=asks,
        scheduler=_soft(lambda: inspection.scheduler(client, deadline=deadline)),
        nodes=nodes,
        neighbours=_others(app, _soft(lambda: inspection.queue_apps(client, queue, deadline=deadline))),
        exclusive=(_soft(lambda: inspection.label_exclusivity(client, deadline=deadline)) or {}) if labelled else {},
        attempt=attempts[-1] if attempts else None,
        tries=len(attempts),
        wishes=wishes,
        placement_handler=conf.get("yarn.resourcemanager.placement-constraints.handler") if conf else None,
        late=tuple(_late(cluster, look, app, nodes or (), deadline)),
    )


def _soft(ask: Callable[[], _T]) -> _T | None:
    """Ask one thing; what cannot be had must not hide the rest."""
    try:
        return ask()
    except SubmitTFJobError:
        return None


def _others(app: AppReport, found: tuple[AppReport, ...] | None) -> tuple[AppReport, ...]:
    return tuple(other for other in found or () if other.id != app.id)


def _with_activities(cluster: Cluster, situation: Situation) -> Situation:
    """Add the scheduler's notes: the first question switches them on, and they come with the nodes' next heartbeats."""
    from dataclasses import replace

    from submit_tf_job.yarn.inspection import app_activities

    for pause_s in (0.0, 1.5):
        cluster.sleep(pause_s)
        notes = _soft(lambda: app_activities(cluster.client, situation.app.id, deadline=cluster.client.deadline(TOTAL_S)))
        if notes:
            return replace(situation, activities=notes)
    return situation


def _late(cluster: Cluster, look: Look, app: AppReport, nodes: tuple[Node, ...], deadline: Deadline) -> Iterator[Late]:
    """Find the tasks that have a container and have not arrived, and ask the nodes of the first few how far they are."""
    from submit_tf_job.diagnose.situation import Late
    from submit_tf_job.yarn.inspection import node_container

    now_ms = (app.started_ms or 0) + (app.elapsed_ms or 0)  # by the ResourceManager's clock, as launch times are
    scheme = cluster.client.funnel.rms.urls[0].partition("://")[0]
    for index, container in enumerate(_not_arrived(look)):
        waiting_s = max(0, now_ms - container.launch_time_ms) / 1000 if container.launch_time_ms else None
        if waiting_s is not None and waiting_s < LATE_S:
            continue
        bases = [f"{scheme}://{node.http_address}" for node in nodes if node.host == container.bare_host and node.http_address]
        asked = bases if container.id and index < _ASKED_NODES else []
        found = (node_container(cluster.client, base, str(container.id), deadline=deadline) for base in asked)
        seen = next((item for item in found if item is not None), None)
        yield Late(
            task=container.instance or container.id or "a task",
            host=container.bare_host,
            waiting_s=waiting_s,
            node_state=seen.state if seen else "",
            # launch_container.sh writes it first of all, inside the image.
            started="prelaunch.out" in seen.log_files if seen and seen.log_files is not None else None,
        )


def _not_arrived(look: Look) -> tuple[ObservedContainer, ...]:
    from submit_tf_job.observation import Evidence
    from submit_tf_job.yarn.records import ContainerState

    if look.seen.evidence is Evidence.NONE_EXPECTED:
        return ()
    report = look.seen.report
    missing = set(report.missing) if report else None
    alive = (ContainerState.RUNNING_BUT_UNREADY, ContainerState.READY)
    return tuple(c for c in look.seen.containers if c.state in alive and (missing is None or c.instance in missing))
