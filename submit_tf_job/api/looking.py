"""status, describe, follow, list_jobs, fleet: how jobs stand."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from submit_tf_job import contract
from submit_tf_job.api.cluster import Cluster, JobRef, find
from submit_tf_job.errors import ClusterUnavailable, JobFailed, JobStopped, NoSuchJob, SubmitTFJobError
from submit_tf_job.settings import Settings

if TYPE_CHECKING:
    from submit_tf_job.description import Event, Limit, Link, Task
    from submit_tf_job.fleet import Fleet, ListedJob, Selection
    from submit_tf_job.observation import Evidence, Observation, Verdict
    from submit_tf_job.watch import Look, Observer
    from submit_tf_job.yarn.observed import AppAttempt
    from submit_tf_job.yarn.records import AppReport

__all__ = [
    "Description",
    "describe",
    "error_of",
    "fleet",
    "follow",
    "following",
    "in_detail",
    "last_lines",
    "list_jobs",
    "observe",
    "status",
]


ANSWER_S = 10.0  # a watch says so when the cluster has not answered for as long


def observe(cluster: Cluster, ref: JobRef, *, bootstrap: bool | None = None, answer_s: float | None = None) -> Observer:
    """Prepare to look at a job."""
    from submit_tf_job.watch import Observer

    return Observer(
        cluster.client,
        cluster.nodes,
        ref.name,
        ref.application_id,
        bootstrap=bootstrap,
        clock=cluster.clock,
        user=cluster.settings.user,
        answer_s=answer_s,
        read_finished=lambda app: _read_finished(cluster.settings, app),
    )


def _read_finished(settings: Settings, app: AppReport) -> tuple[Evidence, bytes | None]:
    from submit_tf_job.observation import Evidence

    conf: Path | None = settings["hadoop_conf"]
    if conf is None:
        return Evidence.UNREADABLE, None
    from submit_tf_job.leftovers import read_report

    return read_report(app, conf, settings.user, as_proxy=settings.as_proxy)


def status(cluster: Cluster, job: str) -> Look:
    """Look at a job once.

    Raises:
        NoSuchJob: There is no such job.
    """
    from submit_tf_job.observation import verdict
    from submit_tf_job.watch import Look

    seen = observe(cluster, find(cluster, job)).look()
    return Look(seen, verdict(seen))


def follow(
    cluster: Cluster,
    ref: JobRef,
    *,
    until: Callable[[Look], bool] = lambda look: look.verdict.state.is_final,
    bootstrap: bool | None = None,
    timeout_s: float | None = None,
    details_every_s: float | None = None,
    on_look: Callable[[Look], None] = lambda _look: None,
    on_trouble: Callable[[ClusterUnavailable], None] = lambda _error: None,
) -> Look:
    """Watch a job until something is true of it, or it is over.

    Args:
        ref: The job.
        until: What is waited for.
        bootstrap: Whether it runs under our bootstrap; None to find out.
        timeout_s: Seconds after which to give up; None for no limit.
        details_every_s: How often to ask where each task runs and since when; None where that does not matter.
        on_look: Told of every look.
        on_trouble: Told of every look that failed.

    Raises:
        DeadlinePassed: `timeout_s` passed.
        ClusterUnavailable: The cluster was out of reach for longer than `timeouts.unreachable`.
    """
    from submit_tf_job.watch import paced

    steps = following(
        cluster,
        ref,
        until=until,
        bootstrap=bootstrap,
        timeout_s=timeout_s,
        details_every_s=details_every_s,
        on_look=on_look,
        on_trouble=on_trouble,
    )
    return paced(steps, cluster.sleep)


def following(
    cluster: Cluster,
    ref: JobRef,
    *,
    until: Callable[[Look], bool],
    bootstrap: bool | None = None,
    timeout_s: float | None = None,
    details_every_s: float | None = None,
    on_look: Callable[[Look], None] = lambda _look: None,
    on_trouble: Callable[[ClusterUnavailable], None] = lambda _error: None,
) -> Generator[float, None, Look]:
    """Watch a job as `follow` does, for callers who wait in their own way: yields the seconds to wait before each next step."""
    from submit_tf_job.watch import Pace, Patience, watching

    settings = cluster.settings
    return watching(
        _looker(observe(cluster, ref, bootstrap=bootstrap, answer_s=ANSWER_S), details_every_s, cluster.clock),
        until,
        on_look=on_look,
        on_trouble=on_trouble,
        deadline_s=timeout_s,
        pace=Pace(first_s=settings["poll.min"], longest_s=settings["poll.max"]),
        patience=Patience(settings["timeouts.unreachable"]),
        clock=cluster.clock,
    )


def error_of(look: Look) -> SubmitTFJobError | None:
    """Return the error that a job's end is, or None where it succeeded or is not over."""
    from submit_tf_job.observation import JobState

    found: Verdict = look.verdict
    name = look.seen.name
    if found.state is JobState.FAILED:
        return JobFailed(f"{name} failed: {found.reason}", hint=found.hint)
    if found.state is JobState.STOPPED:
        return JobStopped(f"{name}: {found.reason}", hint=found.hint)
    if found.state is JobState.UNKNOWN:
        return NoSuchJob(f"{name}: {found.reason}", hint=found.hint)
    return None


def _looker(observer: Observer, details_every_s: float | None, clock: Callable[[], float]) -> Callable[[], Observation]:
    detailed_at = float("-inf")

    def look() -> Observation:
        nonlocal detailed_at
        detailed = details_every_s is not None and clock() - detailed_at >= details_every_s
        if detailed:
            detailed_at = clock()
        return observer.look(detailed=detailed)

    return look


def last_lines(cluster: Cluster, look: Look, *, most: int, file: str = "stdout.txt") -> dict[str, str]:
    """Read the last log line of each running task.

    Args:
        look: Says where they run.
        most: At most so many tasks.
        file: The log file.
    """
    from submit_tf_job.api.reading import tail_of
    from submit_tf_job.description import tasks_of

    app = look.seen.app
    if app is None:
        return {}
    running = [task for task in tasks_of(look.seen) if task.container_id and task.host and task.state in ("running", "ready")]
    found = {t.name: tail_of(cluster, app, t.container_id or "", file, host=t.host, lines=3, max_bytes=4096) for t in running[:most]}
    shown = {name: [line for line in lines if not line.startswith(contract.PROGRESS_MARK)] for name, lines in found.items()}
    return {name: lines[-1] for name, lines in shown.items() if lines}


@dataclass(frozen=True)
class Description:
    """A job in detail."""

    look: Look
    attempts: tuple[AppAttempt, ...]

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks, whether or not they have a container."""
        from submit_tf_job.description import tasks_of

        return tasks_of(self.look.seen)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The time limits that YARN keeps."""
        from submit_tf_job.description import limits_of

        return limits_of(self.look.seen)

    @property
    def links(self) -> tuple[Link, ...]:
        """What the roles serve."""
        from submit_tf_job.description import links_of

        return links_of(self.look.seen)

    @property
    def events(self) -> tuple[Event, ...]:
        """What is known to have happened, in order of time."""
        from submit_tf_job.description import events_of

        return events_of(self.look.seen, self.attempts)


def describe(cluster: Cluster, job: str) -> Description:
    """Look at a job in detail: three or four requests, however many tasks it has.

    Raises:
        NoSuchJob: There is no such job.
    """
    look = in_detail(cluster, find(cluster, job))
    app = look.seen.application_id
    return Description(look, cluster.client.app_attempts(app) if app else ())


def in_detail(cluster: Cluster, ref: JobRef) -> Look:
    """Look at a job once, with what the services API says of its containers."""
    from submit_tf_job.observation import verdict
    from submit_tf_job.watch import Look

    seen = observe(cluster, ref).look(detailed=True)
    return Look(seen, verdict(seen))


def list_jobs(cluster: Cluster, selection: Selection, *, now_ms: int | None = None, answer_s: float | None = None) -> tuple[ListedJob, ...]:
    """List jobs with one request, however many there are.

    Args:
        selection: Which.
        now_ms: This moment, for `selection.within_s`.
        answer_s: Seconds to look for a ResourceManager that answers; None for `timeouts.failover`.
    """
    within = None if selection.within_s is None else int((now_ms or time.time() * 1000) - selection.within_s * 1000)
    deadline = None if answer_s is None else cluster.client.deadline(answer_s)
    states = selection.yarn_states
    apps = cluster.client.apps(user=selection.user, queue=selection.queue, states=states, started_after_ms=within, deadline=deadline)
    return selection.jobs(apps)


def fleet(cluster: Cluster, selection: Selection) -> Fleet:
    """Prepare to watch many jobs: one request for each look."""
    from submit_tf_job.fleet import Fleet

    now_ms = int(time.time() * 1000)  # a job does not leave the selection by growing old
    return Fleet(lambda: list_jobs(cluster, selection, now_ms=now_ms, answer_s=ANSWER_S), clock=cluster.clock, sleep=cluster.sleep)
