"""Find the runs of a job; delete ended runs, and keep as many as the settings say."""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from submit_tf_job.errors import NameTaken, NoSuchJob, SubmitTFJobError, UsageError
from submit_tf_job.operations import run_records
from submit_tf_job.operations.cluster import Cluster, JobRef, staging_root, storage_of
from submit_tf_job.operations.record_files import RecordFiles
from submit_tf_job.operations.stored_services import stored_services
from submit_tf_job.yarn import service_properties
from submit_tf_job.yarn.observed import GOING_ON
from submit_tf_job.yarn.resource_manager import SERVICE_TYPE
from submit_tf_job.yarn.run_names import (
    is_run,
    is_run_of,
    job_of,
    may_be_short,
    means_run,
    run_name,
)

if TYPE_CHECKING:
    from submit_tf_job.operations.stored_services import StoredServices
    from submit_tf_job.plan import Plan
    from submit_tf_job.storage import Stat
    from submit_tf_job.yarn.observed import AppReport
    from submit_tf_job.yarn.submission_steps import StoredRun

_LOG = logging.getLogger(__name__)
APPLICATION_ID = r"application_\d+_\d+"
_NAME = r"[a-z0-9][a-z0-9-]*"  # of a service
_NAMES_S = 5.0  # for a hint
_RETIRED_AT_ONCE, _LOOKED_AT = 3, 10  # one submission is not delayed by more
# a scheduler asks again for what it submitted within this time (docs/schedulers.md)
KEY_KEPT_S = 7 * 86400.0


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

    found = exactly_once.live_runs(cluster.client, cluster.settings.user, job)
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


# --- the ends of runs ---


def ended_runs(cluster: Cluster, job: str) -> tuple[str, ...]:
    """Return the names of a job's runs that are stored and have ended, the newest first; without
    HDFS, of those that the ResourceManager lists.

    Raises:
        NameTaken: Another client may be submitting a run at this moment.
    """
    stored = stored_services(cluster)
    if stored is None:
        apps = cluster.client.apps(user=cluster.settings.user)
        ended = {app.name: None for app in apps if app.ended and is_run_of(app.name, job)}
        return tuple(name for name in ended if name)
    return tuple(
        item.name
        for item in stored.listed()
        if is_run_of(item.name, job)
        and _stored_end_ms(cluster, item.name, stored.copy_of(item.name)) is not None
    )


def _stored_end_ms(cluster: Cluster, run: str, found: StoredRun | None) -> int | None:
    """Return when a stored run ended, 0 if the time is not known; None if nothing is stored of it
    (`found` is None), while an application of the run is alive or may still start, or while a
    restarted ResourceManager may not list it yet.

    Raises:
        NameTaken: Another client may be submitting the run at this moment.
    """
    from submit_tf_job.yarn.submission_steps import IN_FLIGHT_S

    if found is None:
        return None
    if found.app_id is None:
        live = cluster.client.apps(
            user=cluster.settings.user, states=GOING_ON, tags=(f"name: {run}",)
        )
        if not live and found.age_s < IN_FLIGHT_S:
            raise NameTaken(
                f"{run} may be being submitted at this moment",
                hint=f"try again in {IN_FLIGHT_S - found.age_s:.0f} s",
            )
        return None if live else 0
    app = cluster.client.app(found.app_id)
    if app is None:
        return None if is_recovering(cluster) else 0
    return app.finished_ms or 0 if app.ended else None


def is_recovering(cluster: Cluster) -> bool:
    """Return whether the ResourceManager may have started just now, so that it does not list all
    applications yet. True if that is not known.

    Raises:
        ClusterUnavailable: No ResourceManager answered.
    """
    from submit_tf_job.yarn.submission_steps import RECOVERS_S

    return cluster.client.cluster_info().is_recovering(RECOVERS_S) is not False


def stored_texts(cluster: Cluster, runs: Iterable[str]) -> tuple[str, int]:
    """Return the stored services of runs, as far as they can be read, and the time when YARN stored
    the newest of them, in milliseconds by the clock of HDFS; "" and 0 if none can be read.
    """
    stored = stored_services(cluster)
    found: list[str] = []
    posted_ms = 0
    if stored is None:
        return "", posted_ms
    for run in runs:
        with suppress(SubmitTFJobError):
            found.append(json.dumps(stored.content(run)))
            posted_ms = max(posted_ms, stored.written_ms(run))
    return "\n".join(found), posted_ms


def retire(cluster: Cluster, stored: StoredServices, job: str, newest: str) -> None:
    """Delete a few of a job's oldest ended runs beyond `keep_runs` of the settings, after a
    submission of the run `newest`, and remove the jars of the run before it if that has ended. The
    newest ended run is always kept; errors are only logged.
    """
    try:
        retention, keep = _Retention(cluster, stored), cluster.settings.keep_runs
        earlier = _newest_first(
            cluster,
            [item for item in stored.listed() if is_run_of(item.name, job) and item.name != newest],
        )
        retention.remove_jars(earlier[:1])
        # never the newest that has ended; the run that was just submitted counts, too
        retention.delete(job, earlier[max(keep - 1, 1) :], _RETIRED_AT_ONCE)
    except SubmitTFJobError as error:
        _LOG.info("earlier runs of %s: %s", job, error.message)


def retire_all(cluster: Cluster, *, dry_run: bool) -> tuple[str, ...]:
    """Delete the ended runs of all jobs beyond `keep_runs` of the settings, and the jars of the
    ended runs that are kept. Return the names of the deleted runs, or in a dry run of those that
    would be deleted; () without HDFS.

    Raises:
        SubmitTFJobError: HDFS or the ResourceManager does not answer, or refuses.
    """
    stored = stored_services(cluster)
    if stored is None:
        return ()
    jobs: dict[str, list[Stat]] = {}
    for item in stored.listed():
        if is_run(item.name):
            jobs.setdefault(job_of(item.name), []).append(item)
    before, retention = stored.names(), _Retention(cluster, stored)
    would: list[str] = []
    for job, items in jobs.items():
        newest_first = _newest_first(cluster, items)
        ended = (at for at, item in enumerate(newest_first) if retention.has_ended(item.name))
        beyond = newest_first[max(cluster.settings.keep_runs, next(ended, 0) + 1) :]
        if dry_run:
            would += retention.deletable(beyond, len(items))
            continue
        retention.remove_jars(newest_first)
        retention.delete(job, beyond, len(items))
    return tuple(sorted(would if dry_run else before - stored.names()))


class _Retention:
    """Decides which stored runs have ended and may be deleted; each run is read once."""

    def __init__(self, cluster: Cluster, stored: StoredServices) -> None:
        self._cluster, self._stored = cluster, stored
        self._read: dict[str, tuple[StoredRun, int] | None] = {}

    def remove_jars(self, items: Sequence[Stat]) -> None:
        """Remove the ApplicationMaster's libraries that YARN stored for those of the runs that have
        ended.
        """
        for item in items:
            if self.has_ended(item.name):
                self._stored.remove_jars(item.name)

    def delete(self, job: str, beyond: Sequence[Stat], most: int) -> None:
        """Delete the oldest ended runs of `beyond`, which are the runs beyond `keep_runs` from new
        to old; `most` of them at most.
        """
        gone = 0
        for run in self.deletable(beyond, most):
            forget_run(self._cluster, job, run)  # first: what is not stored is not found again
            gone += self._cluster.client.delete_service(run)
            if gone == most:
                return

    def deletable(self, beyond: Sequence[Stat], most: int) -> Iterator[str]:
        """Yield the oldest ended runs of `beyond` that need not be kept (`_is_kept`). Only the
        `most` oldest ones are examined, but at least ten.
        """
        for item in tuple(reversed(beyond))[: max(most, _LOOKED_AT)]:
            ended = self._ended_run(item.name)
            if ended and not self._is_kept(item, *ended):
                yield item.name

    def has_ended(self, run: str) -> bool:
        """Return whether a stored run has ended."""
        return self._ended_run(run) is not None

    def _ended_run(self, run: str) -> tuple[StoredRun, int] | None:
        """Return a run that has ended, and when it ended; None for a run that has not."""
        if run not in self._read:
            found, self._read[run] = self._stored.copy_of(run), None
            with suppress(NameTaken):
                end_ms = _stored_end_ms(self._cluster, run, found)
                if found is not None and end_ms is not None:
                    self._read[run] = found, end_ms
        return self._read[run]

    def _is_kept(self, item: Stat, found: StoredRun, end_ms: int) -> bool:
        """Return whether an ended run must stay. It must stay if its idempotency key is not always
        run again (`Again`) and it ended less than a week ago: its stored service then refuses a
        second run. It must also stay while it is so new that a late POST of it may still arrive,
        which would run it again.
        """
        from submit_tf_job.yarn.submission_steps import IN_FLIGHT_S

        now_ms = self._cluster.client.now_ms()
        if now_ms is None or now_ms - item.modified_ms < IN_FLIGHT_S * 1000:
            return True
        if now_ms - max(item.modified_ms, end_ms) >= KEY_KEPT_S * 1000:
            return False
        return service_properties.AGAIN in found.properties


def _newest_first(cluster: Cluster, items: Sequence[Stat]) -> Sequence[Stat]:
    """Sort stored runs by the start of their applications, the newest first. The time of a run's
    directory is not used first, because it also changes when something is removed there.

    The ResourceManager has forgotten the oldest runs, and knows nothing of runs whose POST failed;
    these are sorted by the time of the directory.
    """
    tags = [f"name: {item.name}" for item in items]
    apps = cluster.client.apps(user=cluster.settings.user, tags=tags) if items else ()
    started = {app.name: app.started_ms or 0 for app in apps}
    return sorted(
        items, key=lambda item: (started.get(item.name, 0), item.modified_ms), reverse=True
    )


def forget_run(cluster: Cluster, job: str, run: str) -> None:
    """Remove the staged files of one run: its keytab, the lists of its sharded inputs, and the
    directory in which its tasks found one another. Do nothing without a staging directory.

    Raises:
        SubmitTFJobError: HDFS cannot be reached, or the removal failed.
    """
    from submit_tf_job.plan.delivery import Stage
    from submit_tf_job.storage import NoSuchPath

    root = staging_root(cluster.settings)
    if root is None:
        return
    stage = Stage.of(root, job)
    storage = storage_of(cluster.settings, stage.files)
    for directory in (stage.keytabs, stage.lists, stage.meeting):
        with suppress(NoSuchPath):
            for item in storage.list_dir(directory):
                if item.name == run or item.name.startswith(f"{run}-"):
                    storage.remove(item.path, recursive=True)


# --- what a key was used for before ---------------------------------------------------------------


_NUMBERS = 4  # numbers of a key whose runs are looked for: the first, and those after spoiled ones


def has_run_of_key(cluster: Cluster, planned: Plan) -> bool:
    """Return whether the first run of a plan's idempotency key is stored (without HDFS: listed by
    the ResourceManager), alive or over; False if the cluster cannot tell.
    """
    with suppress(SubmitTFJobError):
        return planned.run in _known_runs(cluster)
    return False


def other_job_of_key(cluster: Cluster, planned: Plan) -> str | None:
    """Return the name of another job for which a plan's idempotency key was used before, as far as
    that job's runs are stored (without HDFS: listed); None if there is none.

    A run's name ends with a hash of its key. If the run's name may contain only a short form of its
    job's name, the full name is read from the run's service.

    Raises:
        SubmitTFJobError: The runs cannot be listed.
    """
    for name in _known_runs(cluster):
        job = full_name(cluster, name)
        if job != planned.job.name and name.rpartition("-")[2] in (
            run_name(job, planned.site.user, planned.key, number).rpartition("-")[2]
            for number in range(_NUMBERS)
        ):
            return job
    return None


def is_of_content(cluster: Cluster, planned: Plan, run: str) -> bool:
    """Return whether a run of the plan's idempotency key has the same job and files as the plan,
    according to the run's service or its record; True if neither tells.
    """
    told: object = None
    with suppress(SubmitTFJobError):
        told = properties_of_run(cluster, run).get(service_properties.CONTENT)
    if told is None:
        with suppress(SubmitTFJobError):
            record = run_records.read(cluster, run) or {}
            told = record.get("submission", {}).get("content")
    return told in (None, planned.content)


def _known_runs(cluster: Cluster) -> frozenset[str]:
    """Return the names of the user's services that are stored; without HDFS, of the user's
    applications that the ResourceManager lists.
    """
    stored = stored_services(cluster)
    if stored is not None:
        return stored.names()
    return frozenset(app.name or "" for app in cluster.client.apps(user=cluster.settings.user))
