"""Lists of jobs: their rows, the filter, the watch, and its requests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from submit_tf_job import operations
from submit_tf_job.errors import ClusterUnavailable
from submit_tf_job.observation import JobState
from submit_tf_job.operations.listing import JobSelection, ListedJob, Listing, listed_job
from submit_tf_job.yarn.observed import AppReport
from submit_tf_job.yarn.states import AppState
from tests.fakes.resource_manager import FakeCluster

P, R, S, F, T = (
    JobState.PENDING,
    JobState.RUNNING,
    JobState.SUCCEEDED,
    JobState.FAILED,
    JobState.STOPPED,
)


def application(number: int = 1, **answer: Any) -> AppReport:
    plain = {
        "id": f"application_1_{number:04}",
        "name": "mnist",
        "user": "alice",
        "state": "RUNNING",
        "finalStatus": "UNDEFINED",
    }
    return AppReport.from_json({**plain, **answer})


def job(number: int = 1, state: JobState = R, **values: Any) -> ListedJob:
    return ListedJob("mnist", f"application_1_{number:04}", state, "alice", "default", **values)


@pytest.mark.parametrize(
    ("state", "final", "means"),
    [
        ("NEW", "UNDEFINED", P),
        ("ACCEPTED", "UNDEFINED", P),
        ("RUNNING", "UNDEFINED", R),
        ("FINISHED", "SUCCEEDED", S),
        ("FINISHED", "FAILED", F),
        ("FINISHED", "ENDED", T),
        ("FINISHED", "KILLED", T),
        ("FAILED", "FAILED", F),
        ("KILLED", "KILLED", T),
        ("DREAMING", "UNDEFINED", JobState.UNKNOWN),
    ],
)
def test_listed_job_state(state: str, final: str, means: JobState) -> None:
    assert listed_job(application(state=state, finalStatus=final)).state is means


def test_listed_job_of_an_application() -> None:
    row = listed_job(
        application(elapsedTime=61_500, runningContainers=3, allocatedMB=2048, queue="root.ml")
    )
    assert (row.elapsed_s, row.containers, row.memory_mib, row.queue) == (61, 3, 2048, "ml")
    over = listed_job(
        application(state="FINISHED", finalStatus="SUCCEEDED", runningContainers=-1, allocatedMB=-1)
    )
    assert (over.containers, over.memory_mib) == (None, None)


def test_job_selection_filters() -> None:
    apps = [
        application(1),
        application(2, state="FINISHED", finalStatus="FAILED", name="other"),
        application(3, state="ACCEPTED"),
    ]

    def ids(selection: JobSelection) -> list[str]:
        return [found.application_id[-1] for found in selection.jobs(apps)]

    assert ids(JobSelection()) == ["1", "2", "3"]
    assert ids(JobSelection(states=frozenset({F}))) == ["2"]
    assert ids(JobSelection(names=frozenset({"other", "application_1_0003"}))) == ["2", "3"]
    assert ids(JobSelection(limit=2)) == ["1", "2"]


class Looks:
    """Returns the prepared lists one after the other; sleeping moves the clock."""

    def __init__(self, *looks: tuple[ListedJob, ...] | Exception) -> None:
        self.now, self.sleeps, self._looks = 0.0, list[float](), iter(looks)
        self.listing = Listing(self._look, clock=lambda: self.now, sleep=self._sleep)

    def _look(self) -> tuple[ListedJob, ...]:
        found = next(self._looks)
        if isinstance(found, Exception):
            raise found
        return found

    def _sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds

    def changes(self, **options: Any) -> list[list[tuple[str, JobState]]]:
        watched = self.listing.watch(jitter=lambda: 0.5, **options)
        return [
            [(found.application_id[-1], found.state) for found in changed]
            for _jobs, changed in watched
        ]


def test_watch_yields_changed_jobs() -> None:
    old = job(9, S)
    first, then = (job(1), job(2, P), old), (job(1, S), job(2, R), old)
    looks = Looks(first, first, then, (job(1, S), job(2, S), job(3, S), old))
    assert looks.changes(every_s=5) == [
        [("1", R), ("2", P)],
        [],
        [("1", S), ("2", R)],
        [("2", S), ("3", S)],
    ]
    assert looks.sleeps == [5, 5, 5]


def test_watch_keeps_jobs_that_are_missing_for_a_moment() -> None:
    assert Looks((job(1),), (), (), (job(1),), (job(1, S),)).changes(every_s=5) == [
        [("1", R)],
        [],
        [],
        [],
        [("1", S)],
    ]
    forgotten = Looks((job(1),), *[()] * 10).changes(every_s=5)
    assert forgotten == [[("1", R)], *[[]] * 6, [("1", JobState.UNKNOWN)]]


def test_watch_retries_until_its_limit() -> None:
    away, told = ClusterUnavailable("away"), list[str]()
    looks = Looks((job(1),), away, away, (job(1, S),))
    assert looks.changes(on_trouble=lambda error: told.append(error.message)) == [
        [("1", R)],
        [("1", S)],
    ]
    assert told == ["away", "away"]
    with pytest.raises(ClusterUnavailable):
        Looks((job(1),), *[away] * 50).changes(patience_s=60)


def test_list_jobs_sends_one_request() -> None:
    cluster = FakeCluster()
    for number in range(30):
        cluster.yarn.submit_app("alice", {"name": f"job{number}"})
    client = cluster.client()
    connected = operations.Cluster(
        settings=None,  # type: ignore[arg-type]
        client=client,
        nodes=None,  # type: ignore[arg-type]
        clock=cluster.clock,
        sleep=cluster.clock.sleep,
    )
    before = len(cluster.network.log)
    found = operations.list_jobs(connected, JobSelection(user="alice"))
    assert len(found) == 30
    assert len(cluster.network.log) - before == 1


class Manager:
    """A ResourceManager's list of applications, with its filters."""

    def __init__(self, *apps: AppReport) -> None:
        self.there = {app.id: app for app in apps}
        self.asked: list[str] = []

    def deadline(self, _seconds: float) -> None:
        return None

    def apps(
        self,
        *,
        states: frozenset[AppState],
        finished_after_ms: int | None,
        **_given: Any,
    ) -> tuple[AppReport, ...]:
        self.asked.append("going on" if AppState.RUNNING in states else "over")
        return tuple(
            app
            for app in self.there.values()
            if app.state in states
            and (finished_after_ms is None or (app.finished_ms or 0) >= finished_after_ms)
        )

    def put(self, app: AppReport) -> None:
        self.there[app.id] = app


def ended(number: int, at_ms: int) -> AppReport:
    return application(number, state="FINISHED", finalStatus="SUCCEEDED", finishedTime=at_ms)


def test_watch_does_not_fetch_jobs_that_were_over_before() -> None:
    """10,000 ended ones are 14 MB in each response."""
    opened_ms = 10_000_000
    manager = Manager(ended(1, 1), ended(2, opened_ms - 1000), application(3), application(4))
    cluster: Any = SimpleNamespace(
        client=manager, wall=lambda: opened_ms / 1000, clock=float, sleep=lambda _s: None
    )
    looks = operations.open_listing(cluster, JobSelection()).watch(jitter=lambda: 0.5)

    def numbers() -> dict[int, JobState]:
        return {int(job.application_id[-4:]): job.state for job in next(looks)[0]}

    assert numbers() == {3: R, 4: R}
    assert numbers() == {3: R, 4: R}
    assert manager.asked == ["going on", "over", "going on"]
    manager.put(ended(3, opened_ms + 5))
    manager.put(application(5, state="ACCEPTED"))
    manager.put(ended(6, opened_ms + 6))  # began and ended between two looks
    assert numbers() == {3: S, 4: R, 5: P, 6: S}
    assert numbers() == {3: S, 4: R, 5: P, 6: S}
    assert manager.asked[3:] == ["going on", "over", "going on"]


def test_watch_of_a_selection_of_ended_jobs_asks_for_nothing_else() -> None:
    manager = Manager(ended(1, 5), application(2))
    cluster: Any = SimpleNamespace(client=manager, wall=lambda: 0.0, clock=float, sleep=float)
    selection = JobSelection(states=frozenset({S}))
    looks = operations.open_listing(cluster, selection).watch(until_over=False)
    assert next(looks)[0] == ()
    manager.put(ended(2, 6))
    assert [job.application_id[-1] for job in next(looks)[0]] == ["2"]
    assert manager.asked == ["over", "over"]
