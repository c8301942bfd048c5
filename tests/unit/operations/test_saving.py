"""A stop with time to save: what is asked of which container, how often, and what is said."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from submit_tf_job.errors import ClusterUnavailable, NoSuchJob, Refused
from submit_tf_job.observation import Evidence, JobStatus
from submit_tf_job.operations import observer as observing
from submit_tf_job.operations.cluster import Cluster, JobRef
from submit_tf_job.operations.saving import end_gracefully, stated_grace_s
from tests.fakes.statuses import app, report

ID, DECIDER = "application_1_0001", "container_1_0001_01_000002"
BOTH = ["OUTPUT_THREAD_DUMP", "GRACEFUL_SHUTDOWN"]


def look(record: Any, **said: Any) -> JobStatus:
    return JobStatus(
        "mnist", ID, record, report=report(**said) if said else None, evidence=Evidence.READ
    )


def seen(state: str = "running", **said: Any) -> JobStatus:
    return look(app("RUNNING", "UNDEFINED"), state=state, container=DECIDER, **said)


class World:
    """A clock, a job that is looked at once a second, and a ResourceManager that takes signals."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, look_at: Callable[[float], JobStatus]
    ) -> None:
        self.now, self.sent, self.said = 0.0, list[tuple[float, str]](), list[str]()
        self.problem: Exception | None = None
        client = SimpleNamespace(signal_container=self.signal)
        known: Any = SimpleNamespace(client=client, clock=lambda: self.now, sleep=self.sleep)
        self.cluster: Cluster = known
        observer = SimpleNamespace(observe=lambda **_given: look_at(self.now))
        monkeypatch.setattr(observing, "observe", lambda *_given: observer)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def signal(self, container: str, name: str) -> None:
        assert container == DECIDER
        self.sent.append((self.now, name))
        if self.problem:
            raise self.problem

    def end(self, grace_s: float) -> None:
        end_gracefully(self.cluster, JobRef("mnist", None), grace_s, self.said.append)


def test_it_returns_when_all_have_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_at(now: float) -> JobStatus:
        if now < 7:
            return seen("stopped" if now else "running", saving=["chief-0"])
        return seen("stopped", saving=[], ended_at=1.0)

    world = World(monkeypatch, look_at)
    world.end(60)
    assert world.now == 7
    assert [name for _, name in world.sent] == [*BOTH, "OUTPUT_THREAD_DUMP"]
    assert world.said == ["mnist: its tasks have 60 s to save and end"]


def test_it_names_who_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"worker-{index}" for index in range(7)]
    world = World(monkeypatch, lambda _now: seen("stopped", saving=names))
    world.end(12)
    assert world.now == 12
    assert world.said[1] == (
        "mnist: worker-0, worker-1, worker-2, worker-3, worker-4 and 2 more had not ended after "
        "12 s; YARN stops the job now"
    )


def test_a_resource_manager_that_is_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, lambda _now: seen())
    world.problem = ClusterUnavailable("away")
    world.end(11)
    assert [at for at, _ in world.sent] == [0, 5, 10]


def test_first_signals_that_failed_are_repeated_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, lambda _now: seen())
    world.problem = ClusterUnavailable("away")
    original = world.sleep

    def back(seconds: float) -> None:
        world.problem = None
        original(seconds)

    world.cluster = SimpleNamespace(**{**vars(world.cluster), "sleep": back})  # type: ignore[assignment]
    world.end(8)
    assert [name for _, name in world.sent] == ["OUTPUT_THREAD_DUMP", *BOTH]


def test_a_container_that_is_gone_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, lambda _now: seen())
    world.problem = NoSuchJob("gone")
    world.end(60)
    assert world.now == 0


@pytest.mark.parametrize(
    "found",
    [look(app()), look(app("ACCEPTED", "UNDEFINED")), seen("waiting"), seen("preparing")],
)
def test_nothing_is_asked_of_a_job_whose_commands_do_not_run(
    monkeypatch: pytest.MonkeyPatch, found: JobStatus
) -> None:
    world = World(monkeypatch, lambda _now: found)
    world.end(60)
    assert (world.sent, world.said, world.now) == ([], [], 0)


def test_hadoop_that_cannot_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, lambda _now: seen())
    world.problem = Refused("This Hadoop cannot")
    with pytest.raises(Refused, match="This Hadoop cannot") as raised:
        world.end(60)
    assert f"yarn container -signal {DECIDER} GRACEFUL_SHUTDOWN" in raised.value.hint
    assert world.said == []


@pytest.mark.parametrize(
    ("properties", "grace_s"), [({}, 0.0), ({"submit_tf_job.stop-grace": "90"}, 90.0)]
)
def test_stop_grace_of_the_spec(properties: dict[str, str], grace_s: float) -> None:
    service = SimpleNamespace(properties=properties)
    client = SimpleNamespace(get_service=lambda _name, deadline: service, deadline=float)
    known: Any = SimpleNamespace(client=client)
    assert stated_grace_s(known, JobRef("mnist", None)) == grace_s


def test_stop_grace_of_a_job_that_cannot_be_read_is_none() -> None:
    def unreadable(_name: str, deadline: float) -> object:
        raise ClusterUnavailable("away")

    client = SimpleNamespace(get_service=unreadable, deadline=float)
    known: Any = SimpleNamespace(client=client)
    assert stated_grace_s(known, JobRef("mnist", None)) == 0
