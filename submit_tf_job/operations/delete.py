"""Delete the runs of a job, with the files that were staged for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from submit_tf_job.errors import AuthError, NameTaken, NoSuchJob, SubmitTFJobError
from submit_tf_job.operations.cluster import Cluster, JobRef
from submit_tf_job.operations.retention import ended_runs, forget_run, stored_texts
from submit_tf_job.operations.runs import find
from submit_tf_job.operations.staging import forget_files
from submit_tf_job.operations.stop import FAILED_BEFORE, held_container, stop_run
from submit_tf_job.operations.stored_services import stored_services
from submit_tf_job.yarn.exactly_once import live_apps
from submit_tf_job.yarn.run_names import is_run_of


def delete(
    cluster: Cluster,
    job: str,
    *,
    force: bool = False,
    on_trouble: Callable[[SubmitTFJobError], None] = lambda _error: None,
) -> tuple[str, ...]:
    """Delete every ended run of a job, or a single run given by its own name or application id, and
    the files that were staged for the deleted runs; return the names of the deleted runs.

    Args:
        cluster: The cluster.
        job: Name of the job or run, or an application id.
        force: Stop a live run first.
        on_trouble: Called with the error if staged files or a keytab may be left on HDFS.

    Raises:
        NameTaken: A run is alive, and `force` was not given; or another client may be submitting
            one.
        NoSuchJob: There is no such job, and nothing is stored for it that could be deleted.
        AuthError: The job belongs to another user.
        AnswerLost: A DELETE may or may not have taken effect.
        DeadlinePassed: With `force`: YARN has not ended a live run within two minutes.
    """
    name, only, unknown = job, "", None
    try:
        ref = find(cluster, job)
    except NoSuchJob as error:  # a service that never got an application is no job, and is deleted
        unknown = error
    else:
        _check_owner(cluster, job, ref)
        name, only = ref.name, "" if job == ref.name else ref.run
    for app in live_apps(cluster.client, cluster.settings.user, name):
        if only in ("", app.name):
            _end_live(cluster, JobRef(name, app.id, app.name or name), force)
    runs = (only,) if only else ended_runs(cluster, name)
    texts, posted_ms = stored_texts(cluster, runs)
    # before the DELETE, whose answer may be lost: a run that is not stored is not found again
    for run in runs:
        _forget_or_report(partial(forget_run, cluster, name, run), on_trouble)
    deleted = tuple(run for run in runs if cluster.client.delete_service(run))
    if not only:
        _forget_or_report(partial(_forget_files, cluster, name, texts, posted_ms), on_trouble)
    if unknown is not None and not deleted:
        raise unknown
    return deleted


def _forget_files(cluster: Cluster, name: str, services: str, posted_ms: int) -> None:
    """Remove a job's staged files, unless a run is alive or is being submitted."""
    stored = stored_services(cluster)
    names = [app.name or "" for app in live_apps(cluster.client, cluster.settings.user, name)]
    names += stored.names() if stored else []
    if not any(is_run_of(run, name) for run in names):
        forget_files(name, cluster.settings, services, posted_ms)


def _forget_or_report(
    forget: Callable[[], None], on_trouble: Callable[[SubmitTFJobError], None]
) -> None:
    try:
        forget()
    except SubmitTFJobError as error:
        on_trouble(error)


def _end_live(cluster: Cluster, ref: JobRef, force: bool) -> None:
    held = held_container(cluster, ref)
    if force:
        stop_run(cluster, ref, reason=FAILED_BEFORE if held else "")
        return
    what, verb = "is still running", "stop"
    if held:
        what, verb = f"has failed, and the container of {held.task} is held", "release"
    raise NameTaken(
        f"{ref.name} {what}, as {ref.run} ({ref.application_id})",
        hint=f"{verb} it first: submit_tf_job {verb} {ref.run}; or give --force",
    )


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
    """Return the user who submitted an application, given its id. Return None if the
    ResourceManager does not know the id. For a job's name also return None: a name always means a
    job of the caller.
    """
    app = cluster.client.app(job) if job.startswith("application_") else None
    return app.user if app else None
