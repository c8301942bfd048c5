"""Find the runs of a job, and its full name."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from submit_tf_job.errors import NoSuchJob, SubmitTFJobError, UsageError
from submit_tf_job.operations import run_records
from submit_tf_job.operations.cluster import Cluster, JobRef
from submit_tf_job.operations.record_files import RecordFiles
from submit_tf_job.operations.stored_services import stored_services
from submit_tf_job.yarn import service_properties
from submit_tf_job.yarn.observed import GOING_ON
from submit_tf_job.yarn.resource_manager import SERVICE_TYPE
from submit_tf_job.yarn.run_names import (
    is_run,
    job_of,
    may_be_short,
    means_run,
)

if TYPE_CHECKING:
    from submit_tf_job.yarn.observed import AppReport

_LOG = logging.getLogger(__name__)
APPLICATION_ID = r"application_\d+_\d+"
_NAME = r"[a-z0-9][a-z0-9-]*"  # of a service
_NAMES_S = 5.0  # for a hint


def find(cluster: Cluster, job: str | JobRef) -> JobRef:
    """Return the run that a user names by id, run or job. The look-up only reads; it raises the
    errors of `find_with_app`.
    """
    return find_with_app(cluster, job)[0]


def find_with_app(cluster: Cluster, job: str | JobRef) -> tuple[JobRef, AppReport | None]:
    """Return the run that a user names by its application id, its name, or the name of its job.

    This is the one place that decides which run is meant. The first source that knows the name
    wins: the ResourceManager, YARN's stored services on HDFS, the records of runs; all of them are
    only read. A job's name means its newest live run, or, if no run lives, its newest ended run. A
    `JobRef` is returned as it is.

    Returns:
        The run, and the ResourceManager's record of its application, if an application id was
        given, else None. The run's `name` is the job's name as the user gave it or as the run's
        record has it; with an application id only what the run's name shows of it, which may be a
        short form.

    Raises:
        NoSuchJob: No source knows the name; the ResourceManager does not know the application id,
            or it is not that of a YARN service; or another user owns it and the connection is only
            for the caller's own jobs (a security guard of the gateway).
        UsageError: `job` is not a valid name, such as the empty text of an unset shell variable.
    """
    if isinstance(job, JobRef):
        return job, None
    if re.fullmatch(APPLICATION_ID, job):
        return _by_id(cluster, job)
    if not re.fullmatch(_NAME, job):
        raise UsageError(
            f"{job!r} is neither the name of a job or run nor an application id",
            hint="a name has letters a-z, digits and '-'; submit_tf_job list shows them",
        )
    found, apps = _listed_run(cluster, job)
    found = found or _stored_run(cluster, job) or _recorded_run(cluster, job)
    if found is None:
        raise NoSuchJob(f"There is no job {job}.", hint=_similar_names(cluster, job, apps))
    return found, None  # a list may be cached


def _by_id(cluster: Cluster, app_id: str) -> tuple[JobRef, AppReport]:
    app = cluster.client.app(app_id)
    if app is None or (cluster.own_jobs_only and app.user != cluster.settings.user):
        raise NoSuchJob(
            f"YARN does not know {app_id}",
            hint="it forgets finished applications after a while; try the job's name",
        )
    if app.type not in (None, SERVICE_TYPE):
        raise NoSuchJob(f"{app_id} is an application of type {app.type}, not a service of YARN")
    app = application_that_stays(cluster, app)
    run = app.name or app_id
    return JobRef(job_of(run), app.id, run), app


def application_that_stays(cluster: Cluster, app: AppReport) -> AppReport:
    """Return the application that runs, or has run, the run of an application: another one of its
    name if YARN has accepted two POSTs of it, and this one was withdrawn or could not start
    (hadoop-facts.md#two-posts-of-one-name); else, and if the others cannot be listed, `app` itself.
    """
    if not (app.withdrawn or app.overwritten) or app.user is None:
        return app
    from submit_tf_job.yarn.submission_steps import that_stays

    try:
        deadline = cluster.client.deadline(_NAMES_S)
        named = cluster.client.apps(user=app.user, tags=[f"name: {app.name}"], deadline=deadline)
    except SubmitTFJobError as error:
        _LOG.info("other applications of %s: %s", app.name, error.message)
        return app
    return that_stays(app, named)


def _listed_run(cluster: Cluster, job: str) -> tuple[JobRef | None, Sequence[AppReport]]:
    """Return the newest live run that the ResourceManager lists, or if no run lives the newest
    ended one; and the applications among which it was searched.

    For a run's own name these are the user's applications with that name; for a job, the live
    ones, or all applications if no live one belongs to the job.
    """
    tags = (f"name: {job}",) if is_run(job) else ()
    apps: Sequence[AppReport] = ()
    for states in [()] if tags else [GOING_ON, ()]:
        apps = cluster.client.apps(user=cluster.settings.user, states=states, tags=tags)
        meant = [app for app in apps if means_run(job, app.name)]
        if meant:
            live = [app for app in meant if not app.ended]
            stayed = [app for app in meant if not (app.withdrawn or app.overwritten)]
            newest, others = (live or stayed or meant)[0], tuple(app.name or "" for app in live[1:])
            run = newest.name or job
            return JobRef(job_of(job), newest.id, run, others), apps
    return None, apps


def _stored_run(cluster: Cluster, job: str) -> JobRef | None:
    """Return the newest run that only YARN's stored copies on HDFS still have; None if there is
    none or they cannot be read.
    """
    stored = stored_services(cluster)
    if stored is None:
        return None
    with suppress(SubmitTFJobError):
        for item in stored.listed():
            if means_run(job, item.name):
                found = stored.copy_of(item.name)
                if found is not None and found.app_id is not None:
                    return JobRef(job_of(job), found.app_id, item.name)
    return None


def _recorded_run(cluster: Cluster, job: str) -> JobRef | None:
    """Return the newest run that only the records in the staging directory still have; None if
    there is none or they cannot be read.
    """
    with suppress(SubmitTFJobError):
        for found in run_records.recorded_runs(cluster, job, 1):
            return JobRef(found["name"], found["application_id"], found["run"])
    return None


def _similar_names(cluster: Cluster, job: str, own: Sequence[AppReport]) -> str:
    """Return a hint for an unknown name: the user's jobs with similar names, another user's job
    with exactly this name, or why the job has no readable record. "" if there is no hint.
    """
    names = list(dict.fromkeys(job_of(app.name) for app in own if app.name))
    with suppress(SubmitTFJobError):
        names += [other for other in RecordFiles.of(cluster).jobs() if other not in names]
    longer = [other for other in names if other.startswith(job)]
    if job in names:
        return "its records were removed, are damaged, or are of a newer version"
    near = dict.fromkeys([*difflib.get_close_matches(job, names, n=3), *longer])
    if near:
        return f"did you mean {' or '.join(list(near)[:3])}?"
    if cluster.own_jobs_only:
        return ""
    with suppress(SubmitTFJobError):
        deadline = cluster.client.deadline(_NAMES_S)
        for app in cluster.client.apps(states=GOING_ON, deadline=deadline):
            if means_run(job, app.name):
                return f"{app.user} runs a job of that name, as {app.id}"
    return ""


def live_runs(cluster: Cluster, job: str) -> tuple[JobRef, ...]:
    """Return the live runs of the user's job, the oldest first."""
    from submit_tf_job.yarn import exactly_once

    found = exactly_once.live_apps(cluster.client, cluster.settings.user, job)
    return tuple(JobRef(job, app.id, app.name or job) for app in found)


def properties_of_run(cluster: Cluster, run: str) -> Mapping[str, str]:
    """Return the properties of a run's service: from YARN's copy on HDFS; if that cannot be read,
    from the services API, which returns them only while the run lives; {} without HDFS, if the
    services API does not return them either.

    Raises:
        SubmitTFJobError: With HDFS: the properties can be read neither from the copy nor from the
            services API.
    """
    stored = stored_services(cluster)
    unread: SubmitTFJobError | None = None
    if stored is not None:
        try:
            return stored.properties(run)
        except SubmitTFJobError as error:
            unread = error
    with suppress(SubmitTFJobError):
        found = cluster.client.get_service(run).properties
        if service_properties.SUBMISSION in found:
            return found
    if unread is not None:
        raise unread
    return {}


def full_name(cluster: Cluster, run: str) -> str:
    """Return the full name of a run's job. A run's name may contain a short form of the job's name;
    then the full name is read from the run's service or its record.
    """
    head = job_of(run)
    if not may_be_short(head):
        return head
    name: object = None
    with suppress(SubmitTFJobError):
        name = properties_of_run(cluster, run).get(service_properties.JOB)
    with suppress(SubmitTFJobError):  # a deleted run has a record
        name = name or (run_records.read(cluster, run) or {}).get("name")
    return str(name or head)
