"""scale, restart, set_priority, move, extend: change a job without ending it.

Each of these functions but `restart` is idempotent. They wait for their effect, unless `wait` is
False, and change only the caller's own jobs: the services API finds a service by user and name.
Given the name of another user's job, the API would change the caller's job of the same name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from submit_tf_job import waiting
from submit_tf_job.errors import (
    AuthError,
    DeadlinePassed,
    NoSuchJob,
    Refused,
    SubmitTFJobError,
    UsageError,
)
from submit_tf_job.host.units import local_time
from submit_tf_job.observation import deciding_role_of, deciding_task_of
from submit_tf_job.operations import run_records
from submit_tf_job.operations.cluster import Cluster, JobRef, caps_of
from submit_tf_job.operations.description import tasks_of
from submit_tf_job.operations.listing import listed_job
from submit_tf_job.operations.read_status import read_status
from submit_tf_job.operations.runs import find
from submit_tf_job.yarn import service_properties

if TYPE_CHECKING:
    from submit_tf_job.job_report import JobReport
    from submit_tf_job.operations.description import TaskDetail
    from submit_tf_job.yarn.observed import AppReport, ObservedComponent, ObservedService

# An ApplicationMaster takes over a new number of containers some milliseconds after the response.
_TAKEN_OVER_S = 5.0
_LIVE = frozenset({"READY", "RUNNING_BUT_UNREADY"})


@dataclass(frozen=True)
class Change:
    """The result of a change.

    Attributes:
        verb: `scale`, `restart`, `priority`, `move` or `extend`.
        changed: False if nothing had to be changed.
        message: One sentence for the user.
        ref: The run.
        value: The current value: the number of tasks, the name of the restarted task, the priority,
            the queue, or the remaining seconds of the lifetime (None for no limit).
    """

    verb: str
    ref: JobRef
    changed: bool
    message: str
    value: object = None


def scale(cluster: Cluster, job: str, role: str, count: int, *, wait: bool = True) -> Change:
    """Change the number of a role's tasks while the job runs.

    Only sidecars and elastic roles can be scaled: TensorFlow's strategies read TF_CONFIG once, when
    they start. The strategies would never use an added worker, and the loss of a removed worker
    would fail the job. In an elastic role, all tasks start again when tasks are added or removed.

    Args:
        cluster: The cluster.
        job: Name of the job or run, or an application id.
        role: The role.
        count: The new number of tasks, at least 0.
        wait: Whether to wait until this number of its containers runs.

    Raises:
        UsageError: `count` is negative; the role does not exist, or is neither a sidecar nor
            elastic; or the role is elastic and `count` is below its minimum or above its maximum.
        NoSuchJob: The job does not exist.
        AuthError: The job belongs to another user.
        Refused: The job does not run, its ApplicationMaster does not answer yet, the job would
            exceed one of the `caps` of the settings, or another command has set a different number
            meanwhile.
        DeadlinePassed: The containers do not run within two minutes.
    """
    from submit_tf_job.container import contract

    if count < 0:
        raise UsageError(f"{role}={count}: a role cannot have fewer than 0 tasks")
    ref, _, service = _find_running(cluster, job)
    component = _component_of_role(service, role)
    elastic = _is_elastic(component, count)
    if not elastic:
        _refuse_members(service, component)
    if component.number_of_containers == count:
        return Change("scale", ref, False, f"{role} already has {count} tasks", count)
    more = count - (component.number_of_containers or 0)
    if more > 0:
        sizes = [(c.number_of_containers or 0, c) for c in service.components]
        sizes.append((more, component))
        _check_cap(cluster, "tasks", sum(tasks for tasks, _ in sizes))
        _check_cap(cluster, "gpus", sum(tasks * each.gpus for tasks, each in sizes))
        _check_cap(cluster, "memory", sum(tasks * (c.memory_mib or 0) for tasks, c in sizes))
    cluster.client.flex(ref.run, component.name, count)
    if wait:
        _await_count(cluster, ref, component.name, count)
    said = f"Scaled {role} from {component.number_of_containers} to {count} tasks"
    if elastic and _kind_of(service, component) == contract.KIND_TRAINS:
        said += _NEXT_START[more > 0]
    return Change("scale", ref, True, said, count)


_NEXT_START = {
    True: "; the new ones join when all tasks start again, `grow_after` after the last start",
    False: "; all tasks start again without the others",
}


def _is_elastic(component: ObservedComponent, count: int) -> bool:
    """Return whether a role is elastic and can have `count` tasks; False if it is not elastic.

    Raises:
        UsageError: The role is elastic, and cannot have this number of tasks.
    """
    bounds = component.properties.get(service_properties.INSTANCES)
    if not bounds:
        return False
    least, _, most = bounds.partition("-")
    if int(least) <= count <= int(most):
        return True
    raise UsageError(
        f"{component.name}={count}: the role is elastic, with {least} to {most} tasks",
        hint="other numbers need another submission, with other `instances`",
    )


def scalable_roles(service: ObservedService) -> list[str]:
    """Return the roles whose number of tasks can be changed: sidecars and elastic roles."""
    found = []
    for component in service.components:
        with suppress(UsageError):
            if service_properties.INSTANCES not in component.properties:
                _refuse_members(service, component)
            found.append(component.name)
    return found


def _refuse_members(service: ObservedService, component: ObservedComponent) -> None:
    from submit_tf_job.container import contract
    from submit_tf_job.jobspec.job import TRAINING_ROLES, Strategy

    role, strategy = component.name, service.properties.get(service_properties.STRATEGY)
    if role == contract.WITNESS_ROLE:
        raise UsageError(
            f"{role} cannot be scaled: by its exit status YARN learns how the job ended",
            hint="scale a sidecar, or an elastic role",
        )
    if _kind_of(service, component) in (None, contract.KIND_SIDECAR):
        return
    why = f"under strategy {strategy} it is not a sidecar, and the job waits for each of its tasks"
    if role in TRAINING_ROLES and strategy != Strategy.CUSTOM.value:
        why = f"strategy {strategy} reads its members from TF_CONFIG once, at its start"
    raise UsageError(
        f"{role} cannot be scaled while the job runs: {why}", hint=_how_to_resubmit(role)
    )


def _how_to_resubmit(role: str) -> str:
    if role == "chief":
        return "a job has one chief"
    return (
        f"stop the job and submit it again with --set roles.{role}.instances=N; it resumes from "
        f"its last checkpoint. A role with instances: {{min, max}} can be scaled"
    )


def _has_retries(service: ObservedService) -> bool:
    """Return whether the job has `retries`, so that all its tasks start again after a failure. In
    such a job YARN restarts the deciding task, too, which it never does in other jobs.
    """
    role = deciding_role_of(service)
    return any(
        component.name == role and component.restart_policy == "ON_FAILURE"
        for component in service.components
    )


def _kind_of(service: ObservedService, component: ObservedComponent) -> str | None:
    """Return what a role does in its job (`RoleKind`), such as `sidecar`; None if the service has a
    strategy that this version does not know.
    """
    from submit_tf_job.jobspec.job import Strategy
    from submit_tf_job.jobspec.rules import default_kind

    strategy = service.properties.get(service_properties.STRATEGY)
    if strategy not in {known.value for known in Strategy}:
        return None
    default = default_kind(Strategy(strategy), component.name, deciding_role_of(service))
    return component.properties.get(service_properties.KIND, default.value)


def _await_count(cluster: Cluster, ref: JobRef, role: str, count: int) -> None:
    """Wait until a role has a number of running tasks.

    Raises:
        Refused: The job has ended, or another command has set a different number.
        DeadlinePassed: The role does not have this number of running tasks in time.
    """
    taken_over = cluster.clock() + _TAKEN_OVER_S

    def has_them() -> bool:
        service = cluster.client.get_service(ref.run)
        if not service.components:
            _live_app(cluster, ref.application_id)  # it may have ended meanwhile
            return False
        component = _component_of_role(service, role)
        if component.number_of_containers == count:
            return sum(c.state.value in _LIVE for c in component.containers) == count
        if cluster.clock() >= taken_over:
            raise Refused(
                f"another command has scaled {role} to {component.number_of_containers} tasks "
                f"meanwhile, so it does not get {count}",
                hint=f"to scale it again: submit_tf_job scale {ref.name} {role}={count}",
            )
        return False

    _wait_until(cluster, has_them, f"{role} does not have {count} running tasks yet")


def restart(cluster: Cluster, job: str, task: str, *, wait: bool = True) -> Change:
    """End one task so that YARN starts it again, in a new container. Each call ends the task anew.

    Args:
        cluster: The cluster.
        job: Name of the job or run, or an application id.
        task: A task, such as `worker-1`.
        wait: Whether to wait until its new container runs.

    Raises:
        NoSuchJob: The job does not exist, or the task's container has just ended.
        AuthError: The job belongs to another user.
        UsageError: The task does not exist; it cannot be restarted alone, because the job has
            `retries`; or the job would end or fail with it.
        Refused: The job does not run, the task has no container yet, or Hadoop is older than 3.3.
        DeadlinePassed: The new container does not run within two minutes.
    """
    ref, _, service = _find_running(cluster, job)
    seen = read_status(cluster, ref, detail=True)
    tasks = {found.name: found for found in tasks_of(seen)}
    if task not in tasks:
        raise UsageError(f"{ref.name} has no task {task!r}", hint=_similar_names(task, tasks))
    found = tasks[task]
    if _has_retries(service):
        raise UsageError(
            f"{task} cannot start again alone: by `retries` of {ref.name} all tasks start again",
            hint=f"to run all of them again from the last checkpoint: submit_tf_job stop "
            f"{ref.name}, then submit it again",
        )
    _refuse_restart(found, service, seen.report)
    if not found.container_id:
        raise Refused(f"{task} has no container yet")
    cluster.client.signal_container(found.container_id, "GRACEFUL_SHUTDOWN")
    if wait:
        none = f"{task} has no new container yet"
        _wait_until(cluster, lambda: _has_new_container(cluster, ref.run, found), none)
    said = f"{task} is started again; its container {found.container_id} was ended"
    return Change("restart", ref, True, said, task)


def _refuse_restart(task: TaskDetail, service: ObservedService, report: JobReport | None) -> None:
    component = _component_of_role(service, task.role)
    if task.name == deciding_task_of(service):
        raise UsageError(
            f"{task.name} decides the job, and the job would end with it",
            hint="stop the job and submit it again",
        )
    if component.restart_policy not in ("ON_FAILURE", "ALWAYS"):
        raise UsageError(
            f"YARN would not start {task.name} again: roles.{task.role}.restart is not "
            f"set, and the job would fail",
            hint=_instead_of_restart(component, service),
        )
    counts = report.roles.get(task.role) if report else None
    most = counts.max_restarts if counts else None
    if most is not None and task.restarts >= most:
        raise UsageError(
            f"{task.name} has used up its {most} restarts (roles.{task.role}.restart), and "
            f"the job would fail"
        )


def _instead_of_restart(component: ObservedComponent, service: ObservedService) -> str:
    """Return the hint for a role whose tasks YARN does not restart.

    It never suggests a restart policy that a job spec must not have.
    """
    from submit_tf_job.jobspec.job import RoleKind, Strategy
    from submit_tf_job.jobspec.rules import restart_refusal

    role, stated = component.name, component.properties.get(service_properties.KIND)
    kind = next((known for known in RoleKind if known.value == stated), None)
    named = service.properties.get(service_properties.STRATEGY)
    strategy = next((known for known in Strategy if known.value == named), None)
    if restart_refusal(strategy, role, deciding_role_of(service), kind):
        return (
            f"tasks of {role} cannot be restarted under strategy {named}: stop the job and "
            f"submit it again"
        )
    return f"give the role restarts when you submit the job: --set roles.{role}.restart=on-failure"


def _has_new_container(cluster: Cluster, run: str, task: TaskDetail) -> bool:
    component = _component_of_role(cluster.client.get_service(run), task.role)
    return any(
        c.instance == task.name and c.id != task.container_id and c.state.value in _LIVE
        for c in component.containers
    )


def set_priority(cluster: Cluster, job: str, priority: int) -> Change:
    """Change a job's priority within its queue; higher priorities are scheduled first.

    Raises:
        UsageError: The priority is negative.
        NoSuchJob: The job does not exist.
        AuthError: The job belongs to another user.
        Refused: The job is over, or the priority is above the cluster's maximum.
    """
    if priority < 0:
        raise UsageError(f"a priority is 0 or more, not {priority}")
    ref, app = _live_app(cluster, job)
    before = app.priority
    if before == priority:
        return Change(
            "priority", ref, False, f"{ref.name} has priority {priority} already", priority
        )
    now = cluster.client.set_priority(app.id, priority)
    if now != priority:
        state = "unchanged" if before in (None, now) else f"{ref.name} has priority {now}"
        raise Refused(
            f"priority {priority} exceeds the cluster maximum of {now}; {state}",
            hint="The cluster's administrator sets yarn.cluster.max-application-priority.",
            details={"priority": now},
        )
    return Change("priority", ref, True, f"{ref.name} has priority {now} now", now)


def apply_priority(cluster: Cluster, ref: JobRef, priority: int) -> str:
    """Set the priority of a job that YARN has just accepted, unless the job is already over. The
    job may also be an adopted one: a run whose client died after the POST, before it set the
    priority.

    Returns:
        "" if the priority was set, or if the job is over; else the reason why not, and the job runs
        without the priority.
    """
    try:
        if not _app_of_caller(cluster, ref.application_id).ended:
            set_priority(cluster, ref.application_id, priority)
    except SubmitTFJobError as error:
        return (
            f"priority {priority} was not set, and {ref.name} runs without it: "
            f"{str(error).rstrip('.')}; to set it later: "
            f"submit_tf_job priority {ref.name} {priority}"
        )
    return ""


def move(cluster: Cluster, job: str, queue: str, *, wait: bool = True) -> Change:
    """Move a job with all of its containers to another queue.

    Args:
        cluster: The cluster.
        job: Name of the job or run, or an application id.
        queue: The queue's name or path.
        wait: Whether to wait until the ResourceManager shows the job in the new queue.

    Raises:
        NoSuchJob: The job does not exist.
        AuthError: The job belongs to another user.
        Refused: The job is over, or the queue does not accept it.
        DeadlinePassed: The job is not in the new queue within two minutes.
    """
    ref, app = _live_app(cluster, job)
    if app.queue == queue.rpartition(".")[2]:
        return Change("move", ref, False, f"{ref.name} is in queue {queue} already", app.queue)
    cluster.client.move_app(app.id, queue)
    if wait:
        _wait_until(
            cluster,
            lambda: _app_of_caller(cluster, app.id).queue == queue.rpartition(".")[2],
            f"{ref.name} is not in queue {queue} yet",
        )
    said = f"{ref.name} is in queue {queue} now; it was in {app.queue}"
    return Change("move", ref, True, said, queue)


def extend(cluster: Cluster, job: str, seconds: float) -> Change:
    """Extend a running job's lifetime to at least a number of seconds from now; never shorten it. A
    job without a time limit keeps none.

    Raises:
        NoSuchJob: The job does not exist.
        AuthError: The job belongs to another user.
        Refused: The job does not run, or the `caps` of the settings do not allow it; or its queue
            limits the lifetime to less, and the job then has the longest lifetime that the queue
            allows.
        SubmitTFJobError: The run's record cannot be written; nothing was changed.
    """
    ref, app, _service = _find_running(cluster, job)
    before = app.lifetime_left_s
    if before is None:
        return Change("extend", ref, False, f"{ref.name} has no time limit", before)
    if before >= seconds:
        said = f"{ref.name} may already run {_until_words(before, cluster.wall())}"
        return Change("extend", ref, False, said, before)
    _check_cap(cluster, "lifetime", (app.elapsed_ms or 0) // 1000 + int(seconds))
    _set_lifetime(cluster, ref, before, int(seconds))
    now = _app_of_caller(cluster, app.id).lifetime_left_s
    if now is not None and now < seconds - 60:
        run_records.extend(cluster, ref.run, now)
        raise Refused(
            f"{ref.name} may only run {_until_words(now, cluster.wall())}: its queue limits the "
            f"lifetime of an application",
            hint="ask the cluster's administrator for maximum-application-lifetime, or move "
            "the job to another queue",
        )
    what = (
        "no time limit now" if now is None else f"may now run {_until_words(now, cluster.wall())}"
    )
    return Change("extend", ref, True, f"{ref.name} {what}", now)


def _until_words(seconds: float, now: float) -> str:
    """Format the end of a time limit: the local time, and the remaining time. `now` is in seconds
    since 1970.
    """
    from submit_tf_job.diagnose.amounts import seconds as words

    return f"until {local_time(now + seconds, now)} ({words(seconds)} from now)"


def _check_cap(cluster: Cluster, name: str, asked: int) -> None:
    """Raise `Refused` if a change of a running job would exceed a cap of the settings."""
    from submit_tf_job.plan.check import shown

    for cap in caps_of(cluster.settings):
        if cap.name == name and asked > cap.most:
            raise Refused(
                f"with it the job would have {shown(name, asked)}, and caps.{name} allows "
                f"{shown(name, cap.most)} (set by {cap.origin})"
            )


def _set_lifetime(cluster: Cluster, ref: JobRef, before_s: int, seconds: int) -> None:
    """Set a run's lifetime, and what its record says of it. If YARN does not take the new one, the
    record gets back the seconds that are left, `before_s`: the tasks save by the record.
    """
    begun = cluster.clock()
    run_records.extend(cluster, ref.run, seconds)
    try:
        cluster.client.set_lifetime(ref.run, seconds)
    except SubmitTFJobError:
        left_s: int | None = max(0, before_s - math.ceil(cluster.clock() - begun))
        with suppress(SubmitTFJobError):  # YARN may have taken it, and the answer was lost
            left_s = _app_of_caller(cluster, ref.application_id).lifetime_left_s
        with suppress(SubmitTFJobError):
            run_records.extend(cluster, ref.run, left_s)
        raise


# --- find the job and check its owner ---


def _app_of_caller(cluster: Cluster, app_id: str) -> AppReport:
    app = cluster.client.app(app_id)
    if app is None:
        raise NoSuchJob(f"the ResourceManager does not list {app_id}")
    return app


def _live_app(cluster: Cluster, job: str) -> tuple[JobRef, AppReport]:
    """Return the user's running or waiting run with a name or an id.

    Raises:
        NoSuchJob: The job does not exist.
        AuthError: The job belongs to another user.
        Refused: The job is over, or the ResourceManager does not list it.
    """
    ref, me = find(cluster, job), cluster.settings.user
    found = cluster.client.app(ref.application_id)
    if found is None:
        raise Refused(f"{ref.name} does not run")
    if found.ended:
        raise Refused(
            f"{ref.name} is over ({listed_job(found).state.value})",
            hint="to run it again: submit_tf_job submit, with its job spec",
        )
    if found.user not in (None, me):
        raise AuthError(
            f"{found.id} is a job of {found.user}, and you are {me}",
            hint=f"if you may act for {found.user}: --user {found.user}",
        )
    return ref, found


def _find_running(cluster: Cluster, job: str) -> tuple[JobRef, AppReport, ObservedService]:
    """Return a run whose ApplicationMaster responds: only such a run can be changed by the services
    API.

    Raises:
        Refused: The ApplicationMaster does not respond yet; also the errors of `_live_app`.
    """
    ref, app = _live_app(cluster, job)
    service = cluster.client.get_written_service(ref.run)
    if not service.components:
        raise Refused(
            f"{ref.name} is {app.state.value}; its ApplicationMaster does not answer yet",
            hint="try again in some seconds",
        )
    return ref, app, service


def _component_of_role(service: ObservedService, role: str) -> ObservedComponent:
    for component in service.components:
        if component.name == role:
            return component
    names = [component.name for component in service.components]
    raise UsageError(f"{service.name} has no role {role!r}", hint=_similar_names(role, names))


def _similar_names(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    names = list(known)
    for close in get_close_matches(word, names, n=1):
        return f"did you mean {close}?"
    return f"it has {', '.join(names[:20])}"


def _wait_until(cluster: Cluster, holds: Callable[[], object], otherwise: str) -> None:
    """Poll until `holds` returns a true value. `otherwise` begins the message of the error.

    Raises:
        DeadlinePassed: It did not within two minutes.
    """
    from submit_tf_job.yarn.errors import ServiceUnreadable

    wait = waiting.CHANGE_HAS_EFFECT
    for _ in wait.attempts(cluster.clock, cluster.sleep):
        # another command may be changing the job at this moment
        with suppress(ServiceUnreadable):
            if holds():
                return
    raise DeadlinePassed(
        f"{otherwise}, {wait.within_s:g} s after it was asked for", hint="it may still come"
    )
