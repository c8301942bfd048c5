"""List any number of jobs with one request to the ResourceManager, or two to select by their age.

A list has only YARN's states. A job's report is read by `status`, with one more request for each
job, because what the ResourceManager lists of a live application does not change with the verdict:
tags and name are those of the submission, progress is at least 100 from the start
(`ServiceScheduler.getProgress`), and diagnostics come with the end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from submit_tf_job.errors import ClusterUnavailable, NoSuchJob, SubmitTFJobError
from submit_tf_job.observation import GIVEN_UP, OVER, JobState
from submit_tf_job.operations.cluster import Cluster
from submit_tf_job.operations.run_records import asked_in_record
from submit_tf_job.operations.runs import full_name
from submit_tf_job.operations.stored_services import stored_services
from submit_tf_job.waiting import JOB_IS_FORGOTTEN_S, WATCH_ANSWERS_S
from submit_tf_job.yarn.observed import (
    FINAL_STATES,
    GOING_ON,
    AppReport,
    AppState,
    FinalStatus,
    ObservedComponent,
    ObservedService,
)
from submit_tf_job.yarn.rest import Deadline
from submit_tf_job.yarn.run_names import is_run, job_of, may_be_short, short_head

_ENDS = {FinalStatus.SUCCEEDED: JobState.SUCCEEDED, FinalStatus.FAILED: JobState.FAILED}
_YARN_STATES = {
    JobState.PENDING: frozenset(
        {AppState.NEW, AppState.NEW_SAVING, AppState.SUBMITTED, AppState.ACCEPTED}
    ),
    JobState.RUNNING: frozenset({AppState.RUNNING}),
    JobState.SUCCEEDED: frozenset({AppState.FINISHED}),
    JobState.FAILED: frozenset({AppState.FINISHED, AppState.FAILED, AppState.KILLED}),
    JobState.STOPPED: frozenset({AppState.FINISHED, AppState.KILLED}),
}

CLOCKS_DIFFER_MS = 600_000  # the clocks of ResourceManagers, at most
_LONGEST_SURE = 6  # characters of a name that is no short form
_NAMES_S = 3.0  # no full name is read after that time
PATIENCE_S = 900.0  # for which polls of an unreachable cluster are repeated
LISTED_STATES = tuple(_YARN_STATES)


@dataclass(frozen=True)
class ListedJob:
    """One row of a list: a job, or one run of it.

    Attributes:
        name: The job's name, as far as the run's name shows it; it may be a short form.
        state: The state as YARN tells it; RUNNING includes the start and the end of a job, and a
            job that has failed while a container of it is held (`hold_on_failure`).
        containers: The number of its containers; None if it is over.
        memory_mib: Memory of these containers in MiB; None if the job is over.
        elapsed_s: Seconds from submission to the end, or until now.
        run: The run's name.
        runs: How many runs of the job the ResourceManager lists; the row shows the newest live one,
            or else the newest.
    """

    name: str
    application_id: str
    run: str
    state: JobState
    user: str | None
    queue: str | None
    submitted_ms: int | None = None
    finished_ms: int | None = None
    elapsed_s: int | None = None
    containers: int | None = None
    memory_mib: int | None = None
    runs: int = 1

    def __repr__(self) -> str:
        return f"<job {self.name} {self.state.value} {self.application_id}>"

    @property
    def shown(self) -> tuple[object, ...]:
        """The fields that `watch` compares: it shows the job again when one of them changes."""
        return self.application_id, self.state, self.containers, self.queue


@dataclass(frozen=True)
class JobSelection:
    """The filter of a list.

    Attributes:
        user: The owner; None for all users.
        queue: The queue; None for all queues.
        states: The states; empty for all.
        within_s: Maximum age in seconds since submission; None for any age.
        limit: Maximum number of rows; the newest are returned.
        names: Names of jobs or runs, or application ids, or patterns of them with `*`, `?` and
            `[a-c]`; empty for all.
        every_run: Whether each run is a row; else each job is a row, which shows its newest live
            run, or else its newest run.
    """

    user: str | None = None
    queue: str | None = None
    states: frozenset[JobState] = frozenset()
    within_s: float | None = None
    limit: int | None = None
    names: frozenset[str] = frozenset()
    every_run: bool = False

    @property
    def yarn_states(self) -> frozenset[AppState]:
        """The states to request from the ResourceManager, which distinguishes fewer states than a
        list.
        """
        return frozenset(found for state in self.states for found in _YARN_STATES[state])

    def jobs(self, apps: Iterable[AppReport]) -> tuple[ListedJob, ...]:
        """Return the selected jobs among applications, the newest first. The names of the jobs are
        taken from the names of their runs, so they may be short forms.
        """
        jobs = [listed_job(app) for app in apps]
        rows = jobs if self.every_run else _newest_runs(jobs)
        return tuple(job for job in rows if self._is_selected(job))[: self.limit]

    def _is_selected(self, job: ListedJob) -> bool:
        return (not self.states or job.state in self.states) and (
            not self.names
            or not self.names.isdisjoint((job.name, job.run, job.application_id))
            or job.name in map(short_head, self.names)
            or any(
                fnmatchcase(name, pattern) for pattern in self.names for name in (job.name, job.run)
            )
        )


def _newest_runs(jobs: Iterable[ListedJob]) -> Iterator[ListedJob]:
    """Yield one row for each job: its newest run, a live one before those that have ended."""
    runs: dict[tuple[str | None, str], list[ListedJob]] = {}
    for job in jobs:
        runs.setdefault((job.user, job.name), []).append(job)
    for found in runs.values():
        first = next((job for job in found if not job.state.is_final), found[0])
        yield replace(first, runs=len(found))


def listed_job(app: AppReport) -> ListedJob:
    """Return the row for an application."""
    return ListedJob(
        name=job_of(app.name or app.id),
        application_id=app.id,
        run=app.name or app.id,
        state=_state_of(app),
        user=app.user,
        queue=app.queue,
        submitted_ms=app.started_ms,
        finished_ms=app.finished_ms,
        elapsed_s=app.elapsed_ms and app.elapsed_ms // 1000,
        containers=_held_amount(app, app.running_containers),
        memory_mib=_held_amount(app, app.allocated_mb),
    )


def _state_of(app: AppReport) -> JobState:
    if app.state is AppState.FINISHED:
        return _ENDS.get(app.final_status, JobState.STOPPED)
    if app.state is AppState.UNKNOWN:
        return JobState.UNKNOWN
    if app.state is AppState.KILLED and OVER + "succeeded" in app.diagnostics:
        return JobState.SUCCEEDED
    if app.state is AppState.KILLED and (
        GIVEN_UP in app.diagnostics or OVER + "failed" in app.diagnostics
    ):
        return JobState.FAILED
    ends = {
        AppState.FAILED: JobState.FAILED,
        AppState.KILLED: JobState.STOPPED,
        AppState.RUNNING: JobState.RUNNING,
    }
    return ends.get(app.state, JobState.PENDING)


def _held_amount(app: AppReport, number: int | None) -> int | None:
    if app.ended or number is None or number < 0:  # the RM writes -1 for "none"
        return None
    return number


class Listing:
    """Watches a selection of runs: one request for each poll, one more when a job may have ended,
    and some at the first poll.

    Each poll requests only the jobs that are not over. If a job is missing, it may have ended, so
    the ended jobs are requested, too. A ResourceManager keeps 10,000 ended applications by default,
    14 MB in each response.
    """

    def __init__(self, cluster: Cluster, selection: JobSelection) -> None:
        """Prepare a list of the selected jobs; no request is sent yet."""
        self._cluster, self._selection = cluster, replace(selection, every_run=True)
        # fixed at the first poll: a job stays in the selection while it is watched
        self._started_after_ms: int | None = None
        self._ended_after_ms: int | None = None
        self._going: frozenset[str] | None = None
        self._ended: tuple[AppReport, ...] = ()
        self._names = _FullNames(cluster)
        self._seen: dict[str, ListedJob] = {}
        self._over: frozenset[str] | None = None  # jobs that were over at the first poll
        # job → when it was first missing from the list before its end
        self._missing: dict[str, float] = {}

    def watch(
        self,
        *,
        every_s: float = 5.0,
        on_trouble: Callable[[ClusterUnavailable], None] = lambda _error: None,
    ) -> Iterator[tuple[tuple[ListedJob, ...], tuple[ListedJob, ...]]]:
        """Poll until all selected jobs are over. After each poll yield the jobs that were not over
        at the first poll, and which of these have changed.

        Args:
            every_s: Seconds between two polls.
            on_trouble: Called with every error that is retried.

        Raises:
            ClusterUnavailable: No ResourceManager answered for longer than a quarter of an hour.
        """
        clock = self._cluster.clock
        answered = clock()
        while True:
            try:
                jobs = self._poll_changes()
            except ClusterUnavailable as error:
                if clock() - answered > PATIENCE_S:
                    raise
                on_trouble(error)
            else:
                answered = clock()
                jobs = self._with_missing_ones(self._without_old_ones(jobs))
                yield jobs, self._changed_jobs(jobs)
                if all(job.state.is_final for job in jobs):
                    return
            spread = random.uniform(0.8, 1.2)  # noqa: S311 - many watchers send at different moments
            self._cluster.sleep(every_s * spread)

    def _without_old_ones(self, jobs: tuple[ListedJob, ...]) -> tuple[ListedJob, ...]:
        """Return the jobs without those that were over at the first poll."""
        if self._over is None:
            self._over = frozenset(job.application_id for job in jobs if job.state.is_final)
        return tuple(job for job in jobs if job.application_id not in (self._over or ()))

    def _with_missing_ones(self, jobs: tuple[ListedJob, ...]) -> tuple[ListedJob, ...]:
        """Return the jobs, with those added that were listed before and are not over: a
        ResourceManager that recovers its state lists fewer jobs for a moment
        (hadoop-facts.md#failover). One that has been missing for 30 s is in state UNKNOWN.
        """
        listed, now = {job.application_id for job in jobs}, self._cluster.clock()
        missing, before, self._missing = [], self._missing, {}
        for app_id, job in self._seen.items():
            if app_id not in listed and not job.state.is_final:
                since = self._missing[app_id] = before.get(app_id, now)
                if now - since >= JOB_IS_FORGOTTEN_S:
                    missing.append(replace(job, state=JobState.UNKNOWN))
                else:
                    missing.append(job)
        return (*jobs, *missing)

    def _changed_jobs(self, jobs: tuple[ListedJob, ...]) -> tuple[ListedJob, ...]:
        """Return the jobs that have changed since the previous poll."""
        before = {job.shown for job in self._seen.values()}
        self._seen = {job.application_id: job for job in jobs}
        return tuple(job for job in jobs if job.shown not in before)

    def _poll_changes(self) -> tuple[ListedJob, ...]:
        if self._ended_after_ms is None:
            now_ms = _now_ms(self._cluster, self._cluster.client.deadline(WATCH_ANSWERS_S))
            if self._selection.within_s is not None:
                self._started_after_ms = now_ms - int(self._selection.within_s * 1000)
            self._ended_after_ms = now_ms - CLOCKS_DIFFER_MS
        going = self._list_apps(GOING_ON, None)
        ids = frozenset(app.id for app in going)
        # None of them can be missing where only ended ones are selected.
        unseen = not GOING_ON & (self._selection.yarn_states or GOING_ON)
        if unseen or self._going is None or self._going - ids:
            self._ended = self._list_apps(FINAL_STATES, self._ended_after_ms)
        self._going = ids
        both = [*going, *(app for app in self._ended if app.id not in ids)]
        both.sort(key=lambda app: (app.started_ms or 0, app.id), reverse=True)
        return self._names.of(self._selection.jobs(both))

    def _list_apps(
        self, states: frozenset[AppState], finished_after_ms: int | None
    ) -> tuple[AppReport, ...]:
        wanted = states & (self._selection.yarn_states or states)
        if not wanted:
            return ()
        return self._cluster.client.apps(
            user=self._selection.user,
            queue=self._selection.queue,
            states=wanted,
            started_after_ms=self._started_after_ms,
            finished_after_ms=finished_after_ms,
            deadline=self._cluster.client.deadline(WATCH_ANSWERS_S),
        )


class _FullNames:
    """Looks up the full names of jobs, because a run's name may contain a short form of its job's
    name.

    Reads the services that YARN has stored on HDFS, if the address of HDFS is known, or the records
    of runs; for three seconds at most.

    A short form has 8 characters, or 7 if the fifth is a hyphen; nothing is read for other names.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._known = cluster, dict[str, str]()
        self._took_s = 0.0  # a file system that does not answer is not asked for each name

    def of(self, jobs: tuple[ListedJob, ...]) -> tuple[ListedJob, ...]:
        """Return the jobs with their full names. Jobs of other users, whose services cannot be
        read, and jobs for which the time is over keep the short name.
        """
        return tuple(
            replace(job, name=self._full_name_of(job)) if self._may_be_short(job) else job
            for job in jobs
        )

    def _may_be_short(self, job: ListedJob) -> bool:
        own = job.user == self._cluster.settings.user and is_run(job.run)
        return own and len(job.name) > _LONGEST_SURE and may_be_short(job.name)

    def _full_name_of(self, job: ListedJob) -> str:
        if job.name not in self._known and self._took_s < _NAMES_S:
            begun = self._cluster.clock()
            self._known[job.name] = full_name(self._cluster, job.run)
            self._took_s += self._cluster.clock() - begun
        return self._known.get(job.name, job.name)


def listed_jobs(
    cluster: Cluster, selection: JobSelection
) -> tuple[tuple[ListedJob, AppReport], ...]:
    """Return the selected runs and the ResourceManager's records of them, by one request for all
    runs (and one for the ResourceManager's time, if the runs are selected by age).
    """
    apps = _listed_apps(cluster, selection)
    by_id = {app.id: app for app in apps}
    return tuple((job, by_id[job.application_id]) for job in selection.jobs(apps))


def list_jobs(
    cluster: Cluster,
    selection: JobSelection,
    *,
    answer_s: float | None = None,
) -> tuple[ListedJob, ...]:
    """Return the selected jobs.

    Args:
        selection: The filter.
        answer_s: Time limit in seconds for a ResourceManager to respond. With such a limit no other
            source is read, so a job's name may be a short form. None for the limit
            `timeouts.failover`.

    Raises:
        ClusterUnavailable: No ResourceManager answered.
    """
    jobs = selection.jobs(_listed_apps(cluster, selection, answer_s))
    return jobs if answer_s is not None else _FullNames(cluster).of(jobs)


def _listed_apps(
    cluster: Cluster, selection: JobSelection, answer_s: float | None = None
) -> tuple[AppReport, ...]:
    """Return the applications that a selection may choose, by one request; by one more if it
    chooses by age.
    """
    within = None
    if selection.within_s is not None:
        now_ms = _now_ms(cluster, cluster.client.deadline(answer_s))
        within = now_ms - int(selection.within_s * 1000)
    return cluster.client.apps(
        user=selection.user,
        queue=selection.queue,
        states=selection.yarn_states,
        started_after_ms=within,
        deadline=cluster.client.deadline(answer_s),
    )


def _now_ms(cluster: Cluster, deadline: Deadline) -> int:
    """Return the time by the ResourceManager's clock; if that time is not known, by this machine's
    clock.

    Raises:
        ClusterUnavailable: No ResourceManager answered.
    """
    sent_s = cluster.client.cluster_info(deadline=deadline).sent_s
    return int((cluster.wall() if sent_s is None else sent_s) * 1000)


def gpus_of_run(cluster: Cluster, run: str) -> int | None:
    """Return the number of GPUs that a run asks for in all; 0 if YARN has no service of that name
    any more; None if the number is not known: the run waits or is over, and neither its service's
    copy on HDFS (`hadoop_conf`) nor its record in the staging directory can be read.

    Raises:
        ClusterUnavailable: No ResourceManager answered.
    """
    from submit_tf_job.yarn.errors import ServiceUnreadable

    try:
        components = cluster.client.get_service(run).components
    except NoSuchJob:
        return 0
    except ServiceUnreadable:
        components = ()
    if components:
        return _gpus_of_components(components)
    # The services API describes a job only while its ApplicationMaster runs (ServiceClient).
    stored = stored_services(cluster)
    with suppress(SubmitTFJobError):
        if stored:
            content = ObservedService.from_json(stored.content(run))
            return _gpus_of_components(content.components)
    asked = asked_in_record(cluster, run)
    return sum(one.gpus * one.tasks for one in asked.values()) if asked else None


def _gpus_of_components(components: Iterable[ObservedComponent]) -> int:
    return sum(one.gpus * (one.number_of_containers or 0) for one in components)
