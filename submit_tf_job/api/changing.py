"""start, scale, restart, set_priority, move, extend: what changes a job without ending it.

Each is idempotent (what is so already is left alone), waits for its effect unless told not to, and touches only the caller's own jobs: the
services API knows a service by its user and name, so another user's job of the same name would be changed in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from submit_tf_job.api.cluster import Cluster, JobRef, find
from submit_tf_job.errors import AuthError, DeadlinePassed, NoSuchJob, Refused, UsageError

if TYPE_CHECKING:
    from submit_tf_job.description import Task
    from submit_tf_job.observation import JobReport
    from submit_tf_job.yarn.observed import AppReport, ObservedComponent, ObservedService

__all__ = ["Change", "extend", "move", "restart", "scale", "set_priority", "start"]

EFFECT_S = 120.0
_POLL_S = 0.5
_LIVE = frozenset({"READY", "RUNNING_BUT_UNREADY"})


@dataclass(frozen=True)
class Change:
    """What became of a change.

    Attributes:
        verb: `start`, `scale`, `restart`, `priority`, `move` or `extend`.
        changed: False where it was so already.
        message: One sentence for a person.
        value: What holds now: a count, a container's id, a priority, a queue, seconds.
    """

    verb: str
    ref: JobRef
    changed: bool
    message: str
    value: object = None


def start(cluster: Cluster, job: str, *, wait: bool = True) -> Change:
    """Run a stopped or finished job once more, as YARN has stored it: the same service as a new application.

    Args:
        wait: Return when YARN has accepted the new application.

    Raises:
        NoSuchJob: There is no such service.
    """
    from submit_tf_job.yarn.stopping import held_by

    ref = find(cluster, job)
    if ref.application_id:
        _own(cluster, _app(cluster, ref.application_id))
    service, app = held_by(cluster.client, ref.name, user=cluster.settings.user)
    if app is not None:
        return Change("start", JobRef(ref.name, app.id), False, f"{ref.name} runs already, as {app.id}", app.id)
    started = cluster.client.start_service(ref.name) or ""
    if wait:
        _until(cluster, lambda: _started(cluster, ref.name, started, before=service.id), f"{ref.name} is not there yet")
    started = started or _started(cluster, ref.name, "", before=service.id) or ""
    return Change("start", JobRef(ref.name, started or None), True, f"{ref.name} is started again, as {started}", started or None)


def _started(cluster: Cluster, name: str, app_id: str, *, before: str | None) -> str | None:
    if app_id:
        return app_id if cluster.client.app(app_id) is not None else None
    found = cluster.client.apps(user=cluster.settings.user, name=name, limit=1)
    return found[0].id if found and found[0].id != before else None


def scale(cluster: Cluster, job: str, role: str, count: int, *, wait: bool = True) -> Change:
    """Change the number of a role's tasks while the job runs.

    Only sidecars: TensorFlow's strategies fix their members when they start (TF_CONFIG is read once), so a worker that is added would
    never be called, and one that is taken away would fail the job.

    Args:
        role: The role.
        count: How many tasks it is to have, at least 0.
        wait: Return when so many of its containers run.

    Raises:
        UsageError: There is no such role, or TensorFlow knows of it.
        Refused: The job does not run.
    """
    if count < 0:
        raise UsageError(f"{role}={count}: a role cannot have fewer than 0 tasks")
    ref, service = _running(cluster, job)
    component = _component(service, role)
    _refuse_members(service, component.name)
    if component.number_of_containers == count:
        return Change("scale", ref, False, f"{role} has {count} tasks already", count)
    cluster.client.flex(ref.name, component.name, count)
    if wait:
        _until(cluster, lambda: _has(cluster, ref.name, component.name, count), f"{role} does not have {count} running tasks yet")
    return Change("scale", ref, True, f"{role} has {count} tasks now; it had {component.number_of_containers}", count)


def _refuse_members(service: ObservedService, role: str) -> None:
    from submit_tf_job import contract
    from submit_tf_job.job import TRAINING_ROLES

    strategy = service.properties.get(contract.PROPERTY_STRATEGY)
    if strategy is not None and role in TRAINING_ROLES:
        raise UsageError(
            f"{role} cannot be scaled while the job runs: strategy {strategy} reads its members from TF_CONFIG once, at its start",
            hint=f"stop the job and submit it again with --set roles.{role}.instances=N; its last checkpoint is where it goes on",
        )


def _has(cluster: Cluster, name: str, role: str, count: int) -> bool:
    component = _component(cluster.client.get_service(name), role)
    return component.number_of_containers == count and sum(c.state.value in _LIVE for c in component.containers) == count


def restart(cluster: Cluster, job: str, task: str, *, wait: bool = True) -> Change:
    """End one task so that YARN starts it again, in a new container.

    Args:
        task: Such as `worker-1`.
        wait: Return when its new container runs.

    Raises:
        UsageError: There is no such task, or the job would end with it.
        Refused: The job does not run.
    """
    from submit_tf_job import contract
    from submit_tf_job.api.looking import in_detail
    from submit_tf_job.description import tasks_of

    ref, service = _running(cluster, job)
    seen = in_detail(cluster, ref).seen
    tasks = {found.name: found for found in tasks_of(seen)}
    if task not in tasks:
        raise UsageError(f"{ref.name} has no task {task!r}", hint=_near(task, tasks))
    found = tasks[task]
    _refuse_restart(found, _component(service, found.role), service.properties.get(contract.PROPERTY_DECIDING), seen.report)
    if not found.container_id:
        raise Refused(f"{task} has no container yet")
    cluster.client.signal_container(found.container_id, "GRACEFUL_SHUTDOWN")
    if wait:
        _until(cluster, lambda: _replaced(cluster, ref.name, found), f"{task} has no new container yet")
    return Change("restart", ref, True, f"{task} is started again; its container {found.container_id} was ended", task)


def _refuse_restart(task: Task, component: ObservedComponent, deciding: str | None, report: JobReport | None) -> None:
    if task.name == deciding:
        raise UsageError(
            f"{task.name} decides the job, and the job would end with it", hint="stop the job and submit it again, or: submit_tf_job start"
        )
    if component.restart_policy not in ("ON_FAILURE", "ALWAYS"):
        raise UsageError(
            f"YARN would not start {task.name} again: roles.{task.role}.restart is not set, and the job would fail",
            hint=f"give the role restarts when you submit the job: --set roles.{task.role}.restart=on-failure",
        )
    most = (report.raw.get("roles") or {}).get(task.role, {}).get("max_restarts") if report else None
    if isinstance(most, int) and task.restarts >= most:
        raise UsageError(f"{task.name} has used up its {most} restarts (roles.{task.role}.restart), and the job would fail")


def _replaced(cluster: Cluster, name: str, task: Task) -> bool:
    component = _component(cluster.client.get_service(name), task.role)
    return any(c.instance == task.name and c.id != task.container_id and c.state.value in _LIVE for c in component.containers)


def set_priority(cluster: Cluster, job: str, priority: int) -> Change:
    """Change a job's priority within its queue; higher goes first.

    Raises:
        NoSuchJob: There is no such job, or it is over.
    """
    if priority < 0:
        raise UsageError(f"a priority is 0 or more, not {priority}")
    ref, app = _live_app(cluster, job)
    before = app.priority
    if before == priority:
        return Change("priority", ref, False, f"{ref.name} has priority {priority} already", priority)
    now = cluster.client.set_priority(app.id, priority)
    clipped = "" if now == priority else f"; {priority} is more than yarn.cluster.max-application-priority allows"
    return Change("priority", ref, now != before, f"{ref.name} has priority {now} now{clipped}", now)


def move(cluster: Cluster, job: str, queue: str, *, wait: bool = True) -> Change:
    """Move a job to another queue, with all of its containers.

    Args:
        queue: Its name, or its path.
        wait: Return when the ResourceManager shows it there.

    Raises:
        NoSuchJob: There is no such job, or it is over.
        Refused: The queue will not have it.
    """
    ref, app = _live_app(cluster, job)
    if app.queue == queue.rpartition(".")[2]:
        return Change("move", ref, False, f"{ref.name} is in queue {queue} already", app.queue)
    cluster.client.move_app(app.id, queue)
    if wait:
        _until(cluster, lambda: _app(cluster, app.id).queue == queue.rpartition(".")[2], f"{ref.name} is not in queue {queue} yet")
    return Change("move", ref, True, f"{ref.name} is in queue {queue} now; it was in {app.queue}", queue)


def extend(cluster: Cluster, job: str, seconds: float) -> Change:
    """Let a running job live for at least so many seconds from now; a longer limit, or none, is left alone.

    Raises:
        NoSuchJob: There is no such job.
        Refused: The job does not run, or its queue limits the lifetime to less.
    """
    ref, _service = _running(cluster, job)
    before = _remaining_s(cluster, ref)
    if before is None or before >= seconds:
        what = "has no limit" if before is None else f"may run for another {before} s already"
        return Change("extend", ref, False, f"{ref.name} {what}", before)
    cluster.client.set_lifetime(ref.name, int(seconds))
    now = _remaining_s(cluster, ref)
    if now is not None and now < seconds - 60:
        raise Refused(
            f"{ref.name} may run for {now} s only: its queue limits the lifetime of an application",
            hint="ask the cluster's administrator for maximum-application-lifetime, or move the job to another queue",
        )
    return Change("extend", ref, True, f"{ref.name} may run for another {now} s", now)


def _remaining_s(cluster: Cluster, ref: JobRef) -> int | None:
    app = _app(cluster, ref.application_id or "")
    kept = [limit.remaining_s for limit in app.timeouts if limit.type == "LIFETIME" and limit.remaining_s is not None]
    return kept[0] if kept and kept[0] >= 0 else None


# --- which job, and whose ---


def _app(cluster: Cluster, app_id: str) -> AppReport:
    app = cluster.client.app(app_id)
    if app is None:
        raise NoSuchJob(f"the ResourceManager knows no {app_id}")
    return app


def _own(cluster: Cluster, app: AppReport) -> AppReport:
    me = cluster.settings.user
    if app.user not in (None, me):
        raise AuthError(f"{app.id} is a job of {app.user}, and you are {me}", hint=f"if you may act for {app.user}: --user {app.user}")
    return app


def _live_app(cluster: Cluster, job: str) -> tuple[JobRef, AppReport]:
    """Find the application that runs or waits under a name or an id."""
    ref = find(cluster, job)
    app_id = ref.application_id or cluster.client.get_service(ref.name).id
    found = cluster.client.app(app_id) if app_id else None
    if found is None:
        waiting = [app for app in cluster.client.apps(user=cluster.settings.user, name=ref.name) if not app.ended]
        if not waiting:
            raise Refused(f"{ref.name} does not run")
        found = waiting[0]
    if found.ended:
        raise Refused(f"{ref.name} is over ({found.final_status.value})", hint=f"to run it again: submit_tf_job start {ref.name}")
    return JobRef(ref.name, found.id), _own(cluster, found)


def _running(cluster: Cluster, job: str) -> tuple[JobRef, ObservedService]:
    """Find a job whose ApplicationMaster answers: the services API changes no other."""
    ref, app = _live_app(cluster, job)
    service = cluster.client.get_service(ref.name)
    if service.id not in (None, app.id):
        raise NoSuchJob(f"{ref.name} is another application now: {service.id}, not {app.id}")
    if not service.components:
        raise Refused(f"{ref.name} is {app.state.value}; its ApplicationMaster does not answer yet", hint="try again in some seconds")
    return ref, service


def _component(service: ObservedService, role: str) -> ObservedComponent:
    for component in service.components:
        if component.name == role:
            return component
    names = [component.name for component in service.components]
    raise UsageError(f"{service.name} has no role {role!r}", hint=_near(role, names))


def _near(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    names = list(known)
    close = get_close_matches(word, names, n=1)
    return f"did you mean {close[0]}?" if close else f"it has {', '.join(names[:20])}"


def _until(cluster: Cluster, holds: Callable[[], object], otherwise: str) -> None:
    """Poll until something holds.

    Raises:
        DeadlinePassed: It did not within `EFFECT_S`.
    """
    end = cluster.clock() + EFFECT_S
    while not holds():
        if cluster.clock() >= end:
            raise DeadlinePassed(f"{otherwise}, {EFFECT_S:g} s after it was asked for", hint="it may still come")
        cluster.sleep(_POLL_S)
