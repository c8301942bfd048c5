"""stop, delete: what ends a job; owner: whose it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from submit_tf_job.api.cluster import Cluster, JobRef, find
from submit_tf_job.api.identity import forget_keytabs
from submit_tf_job.api.looking import status
from submit_tf_job.api.staging import forget_files
from submit_tf_job.errors import AuthError, NameTaken, NoSuchJob, SubmitTFJobError

if TYPE_CHECKING:
    from submit_tf_job.watch import Look

__all__ = ["delete", "owner", "stop"]


def stop(cluster: Cluster, job: str, *, wait: bool = True) -> Look:
    """Stop a job; a job that is over stays as it is.

    Args:
        wait: Return only when YARN says that it is over.
    """
    from submit_tf_job.yarn.stopping import stop as stop_service

    ref = find(cluster, job)
    name = None if ref.application_id else ref.name
    app = stop_service(cluster.client, user=cluster.settings.user, name=name, app_id=ref.application_id, wait=wait)
    return status(cluster, app.id if app else ref.name)


def delete(
    cluster: Cluster, job: str, *, force: bool = False, on_trouble: Callable[[SubmitTFJobError], None] = lambda _error: None
) -> bool:
    """Forget a job, free its name, and remove the files and the keytab that were staged for it; say whether there was one.

    Args:
        force: Stop it first where it is running.
        on_trouble: Told where files or a keytab may be left on HDFS.

    Raises:
        NameTaken: It is still running, and `force` was not given.
        NoSuchJob: An application id was given, of an earlier run than the one that has the name now.
        AuthError: It is somebody else's.
    """
    ref = find(cluster, job)
    deleted = _delete(cluster, job, ref, force)
    try:
        forget_keytabs(ref.name, cluster.settings)
    except SubmitTFJobError as error:
        on_trouble(error)
    try:
        forget_files(ref.name, cluster.settings)
    except SubmitTFJobError as error:
        on_trouble(error)
    return deleted


def _delete(cluster: Cluster, job: str, ref: JobRef, force: bool) -> bool:
    from submit_tf_job.yarn import stopping

    theirs = owner(cluster, job) if ref.application_id else None
    if theirs is not None and theirs != cluster.settings.user:  # the services API would take this user's own service of the same name
        raise AuthError(
            f"{job} is a job of {theirs}, and you are {cluster.settings.user}: YARN lets nobody else free its name",
            hint=f"stop it, or if you may act for {theirs}: --user {theirs}",
        )
    if force and not ref.application_id:
        return stopping.delete(cluster.client, ref.name, user=cluster.settings.user)
    try:
        service, app = stopping.held_by(cluster.client, ref.name, user=cluster.settings.user)
    except NoSuchJob:
        return False
    if ref.application_id and service.id not in (None, ref.application_id):
        raise NoSuchJob(
            f"{job} is an earlier run of {ref.name}, whose name belongs to {service.id} now; there is nothing of it to delete",
            hint=f"to delete the run that is there: submit_tf_job delete {ref.name}",
        )
    if app is not None and not force:
        raise NameTaken(f"{ref.name} is still running as {app.id}", hint=f"stop it first: submit_tf_job stop {ref.name}; or give --force")
    return stopping.delete(cluster.client, ref.name, user=cluster.settings.user)


def owner(cluster: Cluster, job: str) -> str | None:
    """Say whose job is meant; a name always means one's own.

    Raises:
        NoSuchJob: There is no such application.
    """
    app_id = find(cluster, job).application_id
    app = cluster.client.app(app_id) if app_id else None
    return app.user if app else None
