"""Many jobs at once: one list call per look, however many there are.

A list shows YARN's word alone: reading each job's own report would cost a request per job. `status` asks both witnesses.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from submit_tf_job.errors import ClusterUnavailable
from submit_tf_job.observation import JobState
from submit_tf_job.yarn.observed import AppReport
from submit_tf_job.yarn.states import AppState, FinalStatus

__all__ = ["Fleet", "ListedJob", "Selection", "listed_job"]

_ENDS = {FinalStatus.SUCCEEDED: JobState.SUCCEEDED, FinalStatus.FAILED: JobState.FAILED}
_YARN_STATES = {
    JobState.PENDING: frozenset({AppState.NEW, AppState.NEW_SAVING, AppState.SUBMITTED, AppState.ACCEPTED}),
    JobState.RUNNING: frozenset({AppState.RUNNING}),
    JobState.SUCCEEDED: frozenset({AppState.FINISHED}),
    JobState.FAILED: frozenset({AppState.FINISHED, AppState.FAILED}),
    JobState.STOPPED: frozenset({AppState.FINISHED, AppState.KILLED}),
}
FORGOTTEN_S = 30.0
LISTED_STATES = tuple(_YARN_STATES)


@dataclass(frozen=True)
class ListedJob:
    """One row of a list.

    Attributes:
        state: By YARN's word alone; RUNNING covers the start and the end of a job, too.
        containers: Containers that it holds now; None once it is over.
        memory_mib: Memory of these containers in MiB.
        elapsed_s: Seconds from submission to the end, or until now.
    """

    name: str
    application_id: str
    state: JobState
    user: str | None
    queue: str | None
    submitted_ms: int | None = None
    finished_ms: int | None = None
    elapsed_s: int | None = None
    containers: int | None = None
    memory_mib: int | None = None


@dataclass(frozen=True)
class Selection:
    """Which jobs are meant.

    Attributes:
        user: Whose; None for everybody's.
        queue: In which queue.
        states: In which states; none for all.
        within_s: Submitted in the last so many seconds; None for any age.
        limit: At most so many, the newest.
        names: Of these names or application ids; none for all.
    """

    user: str | None = None
    queue: str | None = None
    states: frozenset[JobState] = frozenset()
    within_s: float | None = None
    limit: int | None = None
    names: frozenset[str] = frozenset()

    @property
    def yarn_states(self) -> frozenset[AppState]:
        """What the ResourceManager is asked for; it knows fewer words."""
        return frozenset(found for state in self.states for found in _YARN_STATES[state])

    def jobs(self, apps: Iterable[AppReport]) -> tuple[ListedJob, ...]:
        """Pick the jobs among applications, the newest first."""
        found = (listed_job(app) for app in apps)
        return tuple(job for job in found if self._fits(job))[: self.limit]

    def _fits(self, job: ListedJob) -> bool:
        return (not self.states or job.state in self.states) and (
            not self.names or not self.names.isdisjoint((job.name, job.application_id))
        )


def listed_job(app: AppReport) -> ListedJob:
    """Read one application of a list."""
    return ListedJob(
        name=app.name or app.id,
        application_id=app.id,
        state=_state(app),
        user=app.user,
        queue=app.queue,
        submitted_ms=app.started_ms,
        finished_ms=app.finished_ms,
        elapsed_s=app.elapsed_ms // 1000 if app.elapsed_ms is not None else None,
        containers=None if app.ended else _positive(app.running_containers),
        memory_mib=None if app.ended else _positive(app.allocated_mb),
    )


def _state(app: AppReport) -> JobState:
    if app.state is AppState.FINISHED:
        return _ENDS.get(app.final_status, JobState.STOPPED)
    if app.state is AppState.UNKNOWN:
        return JobState.UNKNOWN
    ends = {AppState.FAILED: JobState.FAILED, AppState.KILLED: JobState.STOPPED, AppState.RUNNING: JobState.RUNNING}
    return ends.get(app.state, JobState.PENDING)


def _positive(number: int | None) -> int | None:
    return number if number is not None and number >= 0 else None  # the RM writes -1 for "nothing to say"


class Fleet:
    """Watches a selection of jobs: keeps one row for each that is listed, and nothing of the looks before."""

    def __init__(self, look: Callable[[], tuple[ListedJob, ...]], *, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        """Prepare to look.

        Args:
            look: Lists the jobs, with one request.
            clock: Monotonic seconds.
            sleep: Waits for seconds.
        """
        self._look, self._clock, self._sleep = look, clock, sleep
        self._seen: dict[str, ListedJob] = {}
        self._over: frozenset[str] | None = None  # what was over before the first look
        self._missing: dict[str, float] = {}  # since when jobs that are not over have not been listed

    def watch(
        self,
        *,
        every_s: float = 5.0,
        patience_s: float = 900.0,
        until_over: bool = True,
        on_trouble: Callable[[ClusterUnavailable], None] = lambda _error: None,
        jitter: Callable[[], float] = random.random,
    ) -> Iterator[tuple[tuple[ListedJob, ...], tuple[ListedJob, ...]]]:
        """Yield, after each look, the jobs, but those that were over before the first one, and those of them that have changed.

        Args:
            every_s: Seconds between two looks.
            patience_s: Seconds for which a cluster may be out of reach.
            until_over: End when every job is over; else go on for ever.
            on_trouble: Told of every look that failed.
            jitter: A number in [0, 1): many watchers must not look at the same moment.

        Raises:
            ClusterUnavailable: No ResourceManager answered for longer than `patience_s`.
        """
        answered = self._clock()
        while True:
            try:
                jobs = self._look()
            except ClusterUnavailable as error:
                if self._clock() - answered > patience_s:
                    raise
                on_trouble(error)
            else:
                answered = self._clock()
                jobs = self._with_missing_ones(self._without_old_ones(jobs))
                yield jobs, self._changed(jobs)
                if until_over and all(job.state.is_final for job in jobs):
                    return
            self._sleep(every_s * (0.8 + 0.4 * jitter()))

    def _without_old_ones(self, jobs: tuple[ListedJob, ...]) -> tuple[ListedJob, ...]:
        """Leave out what was over before the first look."""
        if self._over is None:
            self._over = frozenset(job.application_id for job in jobs if job.state.is_final)
        return tuple(job for job in jobs if job.application_id not in (self._over or ()))

    def _with_missing_ones(self, jobs: tuple[ListedJob, ...]) -> tuple[ListedJob, ...]:
        """Keep what was there and is not over: a ResourceManager that recovers its state lists less for a moment (seen)."""
        listed, now = {job.application_id for job in jobs}, self._clock()
        missing = [job for job in self._seen.values() if job.application_id not in listed and not job.state.is_final]
        self._missing = {job.application_id: self._missing.get(job.application_id, now) for job in missing}
        forgotten = {app_id for app_id, since in self._missing.items() if now - since >= FORGOTTEN_S}
        return (*jobs, *(replace(job, state=JobState.UNKNOWN) if job.application_id in forgotten else job for job in missing))

    def _changed(self, jobs: tuple[ListedJob, ...]) -> tuple[ListedJob, ...]:
        """Compare with the look before."""
        changed = tuple(job for job in jobs if self._is_news(job))
        self._seen = {job.application_id: job for job in jobs}
        return changed

    def _is_news(self, job: ListedJob) -> bool:
        before = self._seen.get(job.application_id)
        return before is None or (before.state, before.containers, before.queue) != (job.state, job.containers, job.queue)
