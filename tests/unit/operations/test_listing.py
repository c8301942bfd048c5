"""Lists of jobs: their rows, the filter, the watch, and its requests."""

from __future__ import annotations

from typing import Any

import pytest

from submit_tf_job import operations
from submit_tf_job.errors import ClusterUnavailable
from submit_tf_job.observation import JobState
from submit_tf_job.operations.listing import JobSelection, ListedJob, Listing, listed_job
from submit_tf_job.yarn.observed import AppReport
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
