"""Stop a job, delete it and free its name, and return its owner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from submit_tf_job.errors import (
    AuthError,
    DeadlinePassed,
    NameTaken,
    NoSuchJob,
    Refused,
    SubmitTFJobError,
    UsageError,
)
from submit_tf_job.operations.cluster import Cluster, JobRef, find, stored_copy
from submit_tf_job.operations.keytabs import forget_keytabs
from submit_tf_job.operations.saving import end_gracefully, stated_grace_s
from submit_tf_job.operations.staging import forget_files
from submit_tf_job.operations.status import status

if TYPE_CHECKING:
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.yarn.observed import AppReport, ObservedService
    from submit_tf_job.yarn.remains import Remaining

__all__ = ["delete", "owner", "stop"]

# With Hadoop's defaults an ApplicationMaster exits up to 35 s later, and Docker gives a container
# 10 s.
CONTAINERS_S = 60.0
_NAMED = 5


def stop(
    cluster: Cluster,
    job: str,
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
        Refused: With `grace_s`: its tasks cannot be asked to save (see `saving.end_gracefully`).
        DeadlinePassed: YARN reports the end of the job, but its containers are still alive.
    """
    from submit_tf_job.yarn.remains import places_of, wait_until_gone
    from submit_tf_job.yarn.stopping import stop as stop_service

    if grace_s is not None and grace_s < 0:
        raise UsageError(f"grace_s={grace_s}: a time to save is 0 seconds or more")
    ref = find(cluster, job)
    if grace_s:
        end_gracefully(cluster, ref, grace_s, on_wait)
    elif grace_s is None and wait and not reason:
        _end_as_stated(cluster, ref, on_wait)
    name = None if ref.application_id else ref.name
    places: list[str] = []

    def note_places(app: AppReport) -> None:
        if wait and containers:
            places.extend(places_of(cluster.client, app.id))

    app = stop_service(
        cluster.client,
        user=cluster.settings.user,
        name=name,
        app_id=ref.application_id,
        wait=wait,
        reason=reason,
        before=note_places,
    )
    if app is not None and places:
        left = wait_until_gone(
            cluster.client,
            cluster.nodes,
            app.id,
            places,
            within_s=CONTAINERS_S,
            on_wait=lambda found: on_wait(
                f"{ref.name} is over for YARN; waiting until its nodes have ended "
                f"{len(found)} of its containers"
            ),
        )
        if left:
            raise _alive(ref.name, app.id, left)
    if app is None:
        return status(cluster, ref.name)
    return status(cluster, app.id)


def _end_as_stated(cluster: Cluster, ref: JobRef, on_wait: Callable[[str], None]) -> None:
    """Give the tasks `stop_grace` of the job spec to save; say so where that is not possible."""
    grace_s = stated_grace_s(cluster, ref)
    if not grace_s:
        return
    try:
        end_gracefully(cluster, ref, grace_s, on_wait)
    except Refused as error:
        on_wait(f"{ref.name}: its tasks get no time to save: {error.message}")


def _alive(name: str, app_id: str, left: Sequence[Remaining]) -> DeadlinePassed:
    some = "; ".join(map(str, left[:_NAMED]))
    if len(left) > _NAMED:
        some += f" and {len(left) - _NAMED} more"
    count = "1 container of it is" if len(left) == 1 else f"{len(left)} containers of it are"
    return DeadlinePassed(
        f"{name} is over for YARN ({app_id}), but {count} still alive {CONTAINERS_S:g} s "
        f"later: {some}",
        hint="give the same command again to look again. RUNNING: its ApplicationMaster has "
        "not exited. KILLING: the process ignores "
        "the signals that it gets (look at the STOPSIGNAL of its image), and must be "
        "ended on its node",
        details={
            "application_id": app_id,
            "containers": [{"id": c.container_id, "node": c.node, "state": c.state} for c in left],
        },
    )


def delete(
    cluster: Cluster,
    job: str,
    *,
    force: bool = False,
    on_trouble: Callable[[SubmitTFJobError], None] = lambda _error: None,
    on_wait: Callable[[str], None] = lambda _line: None,
) -> bool:
    """Delete a job, free its name, and remove its staged files and keytab; return whether it
    existed.

    Files that another submission of the name may have staged in the last minutes are kept.

    Args:
        force: Stop the job first if it is running.
        on_trouble: Called with the error if files or a keytab may be left on HDFS.
        on_wait: Called with one line while waiting for a possible submission of the name.

    Raises:
        NameTaken: The job is still running, and `force` was not given.
        NoSuchJob: The application id is that of an earlier run than the one that has the name now.
        AuthError: The job belongs to another user.
        DeadlinePassed: The job was not deleted in time.
    """
    ref = find(cluster, job)
    deleted, service = _delete(cluster, job, ref, force, on_wait)
    if not _is_free(cluster, ref.name):
        return deleted  # another submission has the name now, and needs the staged files
    for forget in (forget_keytabs, forget_files):
        try:
            forget(ref.name, cluster.settings, service, cluster.wall())
        except SubmitTFJobError as error:  # noqa: PERF203 - two
            on_trouble(error)
    return deleted


def _delete(
    cluster: Cluster, job: str, ref: JobRef, force: bool, on_wait: Callable[[str], None]
) -> tuple[bool, str]:
    """Delete the service; return whether it existed, and its stored copy as text."""
    from submit_tf_job.yarn import stopping

    theirs = owner(cluster, job)
    # the services API would take this user's own service of the same name
    if theirs is not None and theirs != cluster.settings.user:
        raise AuthError(
            f"{job} is a job of {theirs}, and you are {cluster.settings.user}: YARN lets "
            f"only the owner free its name",
            hint=f"stop it, or if you may act for {theirs}: --user {theirs}",
        )
    copy, text = stored_copy(cluster.settings, ref.name), ""

    def check(service: ObservedService | None, app: AppReport | None) -> None:
        nonlocal text
        named = service and service.id
        if ref.application_id and named not in (None, ref.application_id):
            raise NoSuchJob(
                f"{job} is an earlier run of {ref.name}, whose name belongs to {named} "
                f"now; there is nothing of it to delete",
                hint=f"to delete the run that is there: submit_tf_job delete {ref.name}",
            )
        if app is not None and not force:
            raise NameTaken(
                f"{ref.name} is still running as {app.id}",
                hint=f"stop it first: submit_tf_job stop {ref.name}; or give --force",
            )
        if copy is not None:
            text = copy.text()

    user = cluster.settings.user
    deleted = stopping.delete(
        cluster.client, ref.name, user=user, copy=copy, check=check, on_wait=on_wait
    )
    return bool(deleted), text


def _is_free(cluster: Cluster, name: str) -> bool:
    """Return whether a name has neither a service nor an application; False if that is unknown."""
    client = cluster.client
    try:
        client.get_service(name)
    except NoSuchJob:
        with suppress(SubmitTFJobError):
            apps = client.apps(user=cluster.settings.user, name=name)
            return all(app.ended for app in apps)
    except SubmitTFJobError:
        pass
    return False


def owner(cluster: Cluster, job: str) -> str | None:
    """Return the user of an application id; None for a name, which is always the caller's.

    Raises:
        NoSuchJob: The application does not exist.
    """
    app_id = find(cluster, job).application_id
    app = app_id and cluster.client.app(app_id)
    if not app:
        return None
    return app.user
