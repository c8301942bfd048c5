"""Signal the deciding task of a run, to stop the run or to take the stacks of its tasks; delete the
runs of a job, and return the owner of one.

At a graceful stop all tasks end their commands, which may save, before YARN stops the job.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from submit_tf_job import waiting
from submit_tf_job.container import contract
from submit_tf_job.errors import (
    AuthError,
    ClusterUnavailable,
    DeadlinePassed,
    NameTaken,
    NoSuchJob,
    Refused,
    SubmitTFJobError,
    UsageError,
)
from submit_tf_job.operations.cluster import Cluster, JobRef, stored_services
from submit_tf_job.operations.description import tasks_of
from submit_tf_job.operations.read_status import StatusReader, read_status
from submit_tf_job.operations.runs import (
    ended_runs,
    find,
    forget_run,
    stored_texts,
)
from submit_tf_job.operations.staging import forget_files
from submit_tf_job.yarn import service_properties
from submit_tf_job.yarn.exactly_once import live_runs
from submit_tf_job.yarn.run_names import is_run_of

if TYPE_CHECKING:
    from submit_tf_job.observation import JobReport, JobStatus
    from submit_tf_job.yarn.stopping import Remaining

_NAMED = 5
# The deciding task waits 20 s after each SIGQUIT (`container.child.PATIENCE_S`); a NodeManager gets
# a signal with its next heartbeat, by default after 1 s at most.
_RENEWED_EVERY_S = 5.0
_LOOK_S = 5.0  # a stop is not delayed longer by an ApplicationMaster that does not answer
_DUMP, _STOP = "OUTPUT_THREAD_DUMP", "GRACEFUL_SHUTDOWN"  # SIGQUIT, SIGTERM


def stop(
    cluster: Cluster,
    job: str | JobRef,
    *,
    wait: bool = True,
    containers: bool = True,
    grace_s: float | None = None,
    reason: str = "",
    on_wait: Callable[[str], None] = lambda _line: None,
) -> JobStatus:
    """Stop a job; do nothing for a job that is over.

    Args:
        wait: Return only when YARN reports that the job is over.
        grace_s: Seconds for the tasks to save and end before YARN stops the job; None for
            `stop_grace` of its spec, which applies only with `wait`.
        containers: With `wait`, also wait until its nodes report no live container.
        reason: Have YARN kill the job at once, with this text in its diagnostics.
        on_wait: Called with one line while its tasks save, and if the job is over for YARN while
            its containers are alive.

    Raises:
        UsageError: `grace_s` is negative.
        Refused: With `grace_s`: its tasks cannot be asked to save (the deciding task is
            not known, or Hadoop is too old).
        DeadlinePassed: YARN reports the end of the job, but its containers are still alive.
    """
    if grace_s is not None and grace_s < 0:
        raise UsageError(f"grace_s={grace_s}: a time to save is 0 seconds or more")
    ref = find(cluster, job)
    if grace_s:
        _end_gracefully(cluster, ref, grace_s, on_wait)
    elif grace_s is None and wait and not reason:
        _end_as_stated(cluster, ref, on_wait)
    _stop(cluster, ref, wait=wait, containers=wait and containers, reason=reason, on_wait=on_wait)
    return read_status(cluster, ref)


def _stop(
    cluster: Cluster,
    ref: JobRef,
    *,
    wait: bool = True,
    containers: bool = False,
    reason: str = "",
    on_wait: Callable[[str], None] = lambda _line: None,
) -> None:
    from submit_tf_job.yarn.stopping import places_of, wait_until_gone
    from submit_tf_job.yarn.stopping import stop as stop_service

    client, user = cluster.client, cluster.settings.user
    app = client.app(ref.application_id)
    if app is None:
        return
    places = places_of(client, app.id) if containers else ()
    stop_service(client, app, user=user, wait=wait, reason=reason)
    if not places:
        return
    left = wait_until_gone(
        client,
        cluster.nodes,
        app.id,
        places,
        on_wait=lambda found: on_wait(
            f"{ref.name} is over for YARN; waiting until its nodes have ended "
            f"{len(found)} of its containers"
        ),
    )
    if left:
        raise _alive(ref.name, app.id, left)


def _alive(name: str, app_id: str, left: Sequence[Remaining]) -> DeadlinePassed:
    some = "; ".join(map(str, left[:_NAMED]))
    if len(left) > _NAMED:
        some += f" and {len(left) - _NAMED} more"
    count = "1 container of it is" if len(left) == 1 else f"{len(left)} containers of it are"
    return DeadlinePassed(
        f"{name} is over for YARN ({app_id}), but {count} still alive "
        f"{waiting.CONTAINERS_ARE_GONE.within_s:g} s later: {some}",
        hint="give the same command again to look again. RUNNING: its ApplicationMaster has "
        "not exited. KILLING: the process ignores "
        "the signals that it gets (look at the STOPSIGNAL of its image), and must be "
        "ended on its node",
        details={
            "application_id": app_id,
            "containers": [{"id": c.container_id, "node": c.node, "state": c.state} for c in left],
        },
    )


# --- a graceful stop ---


def _end_as_stated(cluster: Cluster, ref: JobRef, on_wait: Callable[[str], None]) -> None:
    """Give the tasks `stop_grace` of the job spec to save; say so where that is not possible."""
    client = cluster.client
    try:
        service = client.get_service(ref.run, deadline=client.deadline(_LOOK_S))
    except SubmitTFJobError:
        return
    grace_s = float(service.properties.get(service_properties.STOP_GRACE) or 0)
    if not grace_s:
        return
    try:
        _end_gracefully(cluster, ref, grace_s, on_wait)
    except Refused as error:
        on_wait(f"{ref.name}: its tasks get no time to save: {error.message}")


def _end_gracefully(
    cluster: Cluster, ref: JobRef, grace_s: float, on_wait: Callable[[str], None]
) -> None:
    """Have all tasks of a job that train or evaluate save and end; return when they have.

    The deciding task gets SIGTERM through the ResourceManager, so that neither its network nor its
    node has to be reachable from here; it tells the others. Parameter servers and sidecars run on,
    until YARN stops them. Returns at once for a job whose commands do not run.

    Args:
        grace_s: Return after this many seconds at the latest.
        on_wait: Called with a line for the user.

    Raises:
        Refused: The deciding task is not known, or Hadoop is
            too old (before 3.3, YARN-8693).
    """
    reader = StatusReader(cluster, ref)
    seen = reader.read(detail=True)
    container = deciding_container(seen)
    if container is None:
        return
    due, signals = cluster.clock(), [_DUMP, _STOP]
    for _ in waiting.TASKS_HAVE_SAVED.attempts(cluster.clock, cluster.sleep, within_s=grace_s):
        if cluster.clock() >= due:
            due = cluster.clock() + _RENEWED_EVERY_S
            try:
                for name in signals:
                    cluster.client.signal_container(container, name)
                if len(signals) > 1:
                    on_wait(f"{ref.name}: its tasks have {grace_s:g} s to save and end")
                signals = [_DUMP]
            except NoSuchJob:
                return
            except Refused as error:
                raise Refused(error.message, hint=_by_hand(ref.name, container)) from None
            except ClusterUnavailable:
                pass  # the next one renews it
        try:
            seen = reader.read()
        except ClusterUnavailable:
            continue
        except NoSuchJob:
            return
        if seen.state.is_final or (seen.report is not None and seen.report.has_saved):
            return
    on_wait(f"{ref.name}: {_late(seen.report)} after {grace_s:g} s; YARN stops the job now")


def deciding_container(seen: JobStatus) -> str | None:
    """Return the container that gets the signals; None if nothing runs that could save."""
    name = seen.name
    if seen.state.is_final or seen.app is None or seen.app.state.value != "RUNNING":
        return None
    service = seen.service
    if seen.report is not None:
        begun = seen.report.state in ("running", "finishing", "stopped")
        return str(seen.report.raw.get("container") or "") or None if begun else None
    deciding = service.properties.get(service_properties.DECIDING) if service else None
    for task in tasks_of(seen):
        if task.name == deciding and task.container_id:
            return task.container_id
    why = f" ({seen.trouble})" if seen.trouble else ""
    raise Refused(
        f"{name}: the container of its deciding task is not known{why}",
        hint=f"try again, or stop it at once: submit_tf_job stop {name} --grace 0s",
    )


def _by_hand(name: str, container: str) -> str:
    command = f"yarn container -signal {container}"
    return (
        f"with Hadoop's command line: {command} {_DUMP} and {command} {_STOP}, then at most 20 "
        f"s later submit_tf_job stop {name} --grace 0s"
    )


def _late(report: JobReport | None) -> str:
    if report is None or not report.graceful:
        return "its tasks may still run"
    late = [str(name) for name in report.raw["saving"]]
    more = len(late) - _NAMED
    names = ", ".join(late[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"{names} had not ended"


# --- deleting ---


def delete(
    cluster: Cluster,
    job: str,
    *,
    force: bool = False,
    on_trouble: Callable[[SubmitTFJobError], None] = lambda _error: None,
) -> tuple[str, ...]:
    """Delete every ended run of a job, or one run by its own name or application id, with what was
    staged for it; return the names of the deleted runs.

    Args:
        force: Stop a live run first.
        on_trouble: Called with the error if files or a keytab may be left on HDFS.

    Raises:
        NameTaken: A run is alive, and `force` was not given; or one may be being submitted.
        NoSuchJob: There is no such job, and nothing of it is stored.
        AuthError: The job belongs to another user.
        AnswerLost: A DELETE may or may not have taken effect.
    """
    name, only, unknown = job, "", None
    try:
        ref = find(cluster, job)
    except NoSuchJob as error:  # a service that never got an application is no job, and is deleted
        unknown = error
    else:
        _check_owner(cluster, job, ref)
        name, only = ref.name, "" if job == ref.name else ref.run
    for app in live_runs(cluster.client, cluster.settings.user, name):
        if only in ("", app.name):
            _end_live(cluster, JobRef(name, app.id, app.name or name), force)
    runs = (only,) if only else ended_runs(cluster, name)
    texts, posted_ms = stored_texts(cluster, runs)
    # before the DELETE, whose answer may be lost: a run that is not stored is not found again
    for run in runs:
        _try(partial(forget_run, cluster, name, run), on_trouble)
    deleted = tuple(run for run in runs if cluster.client.delete_service(run))
    if not only:
        _try(partial(_forget_files, cluster, name, texts, posted_ms), on_trouble)
    if unknown is not None and not deleted:
        raise unknown
    return deleted


def _forget_files(cluster: Cluster, name: str, services: str, posted_ms: int) -> None:
    """Remove a job's staged files, unless a run is alive or is being submitted."""
    stored = stored_services(cluster)
    names = [app.name or "" for app in live_runs(cluster.client, cluster.settings.user, name)]
    names += stored.names() if stored else []
    if not any(is_run_of(run, name) for run in names):
        forget_files(name, cluster.settings, services, posted_ms, cluster.wall())


def _try(forget: Callable[[], None], on_trouble: Callable[[SubmitTFJobError], None]) -> None:
    try:
        forget()
    except SubmitTFJobError as error:
        on_trouble(error)


def _end_live(cluster: Cluster, ref: JobRef, force: bool) -> None:
    if not force:
        raise NameTaken(
            f"{ref.name} is still running, as {ref.run} ({ref.application_id})",
            hint=f"stop it first: submit_tf_job stop {ref.run}; or give --force",
        )
    _stop(cluster, ref)


def _check_owner(cluster: Cluster, job: str, ref: JobRef) -> None:
    theirs = owner(cluster, ref.application_id)
    # the services API would take this user's own service of the same name
    if theirs is not None and theirs != cluster.settings.user:
        raise AuthError(
            f"{job} is a job of {theirs}, and you are {cluster.settings.user}: YARN lets "
            f"only the owner delete it",
            hint=f"stop it, or if you may act for {theirs}: --user {theirs}",
        )


def owner(cluster: Cluster, job: str) -> str | None:
    """Return the user of an application id; None for a name, which is always the caller's, and if
    the ResourceManager does not know it.
    """
    app = cluster.client.app(job) if job.startswith("application_") else None
    return app.user if app else None


# --- the stacks of a running job ---


@dataclass(frozen=True)
class TaskStacks:
    """Where the processes of one task stand.

    Attributes:
        task: The task.
        host: Its node.
        where: The innermost frame of the program's own code, or why there is none.
        text: The stacks of all threads of its Python processes, as Python's faulthandler writes
            them; the task's log has it whole (`stacks.txt`).
    """

    task: str
    host: str
    where: str
    text: str


@dataclass(frozen=True)
class JobStacks:
    """Where the processes of a job's tasks stood.

    Attributes:
        ref: The run.
        at_ms: When they were taken.
        differs: The task that stands elsewhere than the others that train; None if there is none.
        tasks: The tasks; the one that differs first.
    """

    ref: JobRef
    at_ms: int
    differs: str | None
    tasks: tuple[TaskStacks, ...]


def take_stacks(cluster: Cluster, job: str | JobRef, task: str | None = None) -> JobStacks:
    """Have the Python processes of a running job write their stacks, and return them.

    The deciding task gets SIGQUIT through the ResourceManager, and asks all others; what it has
    collected is read from its node.

    Args:
        job: The job.
        task: Return those of this task only, such as `worker-1`; None for all.

    Raises:
        NoSuchJob: The job does not exist.
        UsageError: No such task runs.
        Refused: The job's commands do not run, or Hadoop is older than 3.3 (YARN-8693).
        DeadlinePassed: The deciding task has not written them within a minute.
    """
    ref = find(cluster, job)
    reader = StatusReader(cluster, ref)
    try:
        container = deciding_container(reader.read(detail=True))
    except Refused as error:
        raise Refused(error.message, hint="try again in a few seconds") from None
    if container is None:
        raise Refused(f"the commands of {ref.name} do not run, so they stand nowhere")
    before = _read(reader)
    try:
        cluster.client.signal_container(container, _DUMP)
    except NoSuchJob:
        raise Refused(f"{ref.name} has just ended") from None
    except Refused as error:
        logs = f"submit_tf_job logs {ref.name} --file {contract.STACKS_FILE}"
        hint = f"{error.hint}, and 20 s later {logs}" if error.hint else ""
        raise Refused(error.message, hint=hint) from None
    for _ in waiting.STACKS_ARE_TAKEN.attempts(cluster.clock, cluster.sleep):
        found = _read(reader)
        if found and found != before:
            return _stacks(ref, found, task)
    raise DeadlinePassed(
        f"the deciding task of {ref.name} has not written the stacks of its tasks",
        hint="its node or container hangs, or an older submit_tf_job submitted the job",
    )


def _read(reader: StatusReader) -> dict[str, Any] | None:
    content = reader.read_from_deciding_task(contract.ALL_STACKS_FILE)
    found = json.loads(content) if content else None
    return found if isinstance(found, dict) else None


def _stacks(ref: JobRef, found: dict[str, Any], task: str | None) -> JobStacks:
    tasks = tuple(
        TaskStacks(*(str(one.get(key, "")) for key in ("task", "host", "where", "text")))
        for one in found["tasks"]
    )
    if task is not None:
        names = ", ".join(one.task for one in tasks[:20])
        tasks = tuple(one for one in tasks if one.task == task)
        if not tasks:
            raise UsageError(f"{ref.name} has no task {task!r} that runs", hint=f"it has {names}")
    return JobStacks(ref, int(found["at"] * 1000), found.get("differs"), tasks)
