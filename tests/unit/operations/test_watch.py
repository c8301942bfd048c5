"""Following a job: the pace, the limits, the deadline; sleeping moves the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.errors import AuthError, BadAnswer, ClusterUnavailable, DeadlinePassed, NoSuchJob
from submit_tf_job.observation import Evidence, JobState, JobStatus
from submit_tf_job.operations.watch import Pace, Patience, watching
from tests.fakes.statuses import app, report

RUNNING = JobStatus("mnist", "application_1_0001", app("RUNNING", "UNDEFINED"))
DONE = replace(RUNNING, app=app(), report=report(), evidence=Evidence.READ)
AWAITED = replace(RUNNING, app=app(), evidence=Evidence.COLLECTED_SOON)
AWAY = ClusterUnavailable("No ResourceManager answers")


def arrived(number: int) -> JobStatus:
    return replace(RUNNING, report=report("waiting", arrived=number), evidence=Evidence.READ)


class Scene:
    """A clock, the prepared statuses, and a record of what happened."""

    def __init__(
        self,
        *scenes: JobStatus | Exception,
        then: JobStatus | Exception = DONE,
        look_s: float = 0.0,
    ) -> None:
        self.now = 1000.0
        self.look_s = look_s
        self.sleeps: list[float] = []
        self.looked_at: list[float] = []
        self.told: list[JobState] = []
        self.troubles: list[str] = []
        self._scenes: Iterator[JobStatus | Exception] = iter(scenes)
        self._then = then

    def look(self) -> JobStatus:
        self.looked_at.append(self.now - 1000)
        self.now += self.look_s
        seen = next(self._scenes, self._then)
        if isinstance(seen, Exception):
            raise seen
        return seen

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.sleeps.append(seconds)
        self.now += seconds

    def watch(
        self, until: Callable[[JobStatus], bool] = lambda _status: False, **given: Any
    ) -> JobStatus:
        steps = watching(
            self.look,
            until,
            on_status=lambda look: self.told.append(look.verdict.state),
            on_trouble=lambda error: self.troubles.append(error.message),
            clock=lambda: self.now,
            **{"jitter": lambda: 0.5, **given},
        )
        while True:
            try:
                pause_s = next(steps)
            except StopIteration as end:
                last: JobStatus = end.value
                return last
            self.sleep(pause_s)


# --- when it ends ---------------------------------------------------------------------------------


def test_watching_ends_when_the_job_is_over() -> None:
    scene = Scene(RUNNING, RUNNING)
    assert scene.watch() == DONE
    assert scene.told == [JobState.STARTING, JobState.STARTING, JobState.SUCCEEDED]
    assert len(scene.sleeps) == 2


def test_watching_ends_when_until_holds() -> None:
    scene = Scene(arrived(0), arrived(2), RUNNING)
    found = scene.watch(lambda look: look.report is not None and look.report.arrived == 2)
    assert found == arrived(2)
    assert len(scene.looked_at) == 2


@pytest.mark.parametrize(
    ("state", "final"),
    [("FAILED", "FAILED"), ("KILLED", "KILLED"), ("FINISHED", "ENDED"), ("FINISHED", "FAILED")],
)
def test_watching_ends_for_every_final_state(state: str, final: str) -> None:
    scene = Scene(then=replace(RUNNING, app=app(state, final)))
    assert scene.watch().verdict.state.is_final
    assert scene.sleeps == []


def test_watching_ends_for_a_forgotten_application() -> None:
    """A ResourceManager that recovers its state has no record for a moment."""
    gone = replace(RUNNING, app=None)
    scene = Scene(RUNNING, then=gone)
    assert scene.watch(patience=Patience(forgotten_s=30)).verdict.state is JobState.UNKNOWN
    assert 30 <= scene.now - 1000 < 35
    assert (
        Scene(RUNNING, *[gone] * 20, RUNNING, *[gone] * 20).watch().verdict.state
        is JobState.SUCCEEDED
    )


def test_watching_raises_other_errors() -> None:
    for error in (NoSuchJob("gone"), AuthError("no"), ValueError("defect")):
        with pytest.raises(type(error)):
            Scene(RUNNING, error).watch()


# --- the outcome in the collected logs ------------------------------------------------------------


def test_logs_wait_for_the_collection() -> None:
    scene = Scene(RUNNING, AWAITED, AWAITED)
    assert scene.watch() == DONE
    assert len(scene.looked_at) == 4


def test_an_application_that_has_ended_is_not_forgotten_while_its_logs_are_collected() -> None:
    """For a moment after a failover the new leader does not return some applications."""
    gone = replace(RUNNING, app=None)
    assert Scene(*[AWAITED] * 40, gone, AWAITED).watch() == DONE
    scene = Scene(AWAITED, then=gone)
    found = scene.watch(patience=Patience(verdict_s=200))
    assert found.verdict.state is JobState.SUCCEEDED
    assert 200 <= scene.now - 1000 < 220


def test_watching_limits_the_wait_for_logs() -> None:
    scene = Scene(then=AWAITED)
    found = scene.watch(patience=Patience(verdict_s=200))
    assert (found, found.verdict.state) == (
        replace(AWAITED, evidence=Evidence.UNREADABLE),
        JobState.SUCCEEDED,
    )
    assert found.verdict.confirmed is False
    assert 200 <= scene.now - 1000 < 220
    assert set(scene.told) == {JobState.FINISHING}


@pytest.mark.parametrize(
    ("final", "evidence"),
    [("FAILED", Evidence.COLLECTED_SOON), ("SUCCEEDED", Evidence.OUT_OF_REACH)],
)
def test_watching_waits_less_for_logs_that_only_explain(final: str, evidence: Evidence) -> None:
    scene = Scene(then=replace(RUNNING, app=app("FINISHED", final), evidence=evidence))
    assert scene.watch(patience=Patience(logs_s=60)).verdict.state is JobState(final)
    assert 60 <= scene.now - 1000 < 75


def test_watching_deadline_after_a_failure() -> None:
    awaited = replace(AWAITED, app=app("FINISHED", "FAILED"))
    scene = Scene(RUNNING, then=awaited)
    assert scene.watch(deadline_s=10).verdict.state is JobState.FAILED
    assert scene.now - 1000 == pytest.approx(10)


def test_watching_deadline_before_a_success_is_confirmed() -> None:
    scene = Scene(RUNNING, then=AWAITED)
    with pytest.raises(
        DeadlinePassed,
        match=r"the deadline of 10 s passed: YARN reports SUCCEEDED; .* collected its logs",
    ) as passed:
        scene.watch(deadline_s=10)
    assert (
        passed.value.hint
        == "submit_tf_job wait mnist returns the verdict once the logs are collected"
    )


def test_watching_does_not_call_until_after_the_end() -> None:
    found = Scene(AWAITED, AWAITED).watch(lambda look: look.verdict.state is JobState.FINISHING)
    assert found.verdict.state is JobState.SUCCEEDED


# --- the pace -------------------------------------------------------------------------------------


def test_pace_grows_while_nothing_changes() -> None:
    scene = Scene(*[RUNNING] * 45)
    scene.watch()
    assert scene.sleeps[:30] == [1.0] * 30
    assert scene.sleeps[30:38] == pytest.approx(
        [1.5, 2.25, 3.375, 5.0625, 7.59375, 11.390625, 15.0, 15.0]
    )
    assert scene.sleeps[38:] == [15.0] * 7


def test_pace_is_short_after_a_change() -> None:
    changes: list[JobStatus] = [
        RUNNING,
        replace(RUNNING, app=app("ACCEPTED", "UNDEFINED")),
        arrived(0),
        arrived(1),
        replace(RUNNING, report=report("running"), evidence=Evidence.READ),
    ]
    for change in changes[1:]:
        scene = Scene(*[RUNNING] * 40, change, change)
        scene.watch()
        assert scene.sleeps[39] > 5
        assert scene.sleeps[40:] == [1.0, 1.0]


def test_pace_ignores_progress() -> None:
    steps = [
        replace(RUNNING, report=report("running", progress={"step": n}), evidence=Evidence.READ)
        for n in range(45)
    ]
    scene = Scene(*steps)
    scene.watch()
    assert scene.sleeps[-1] == 15.0


def test_watching_with_another_pace() -> None:
    scene = Scene(*[RUNNING] * 5)
    scene.watch(pace=Pace(first_s=2, longest_s=3, eager_s=4, growth=2))
    assert scene.sleeps == [2, 2, 3, 3, 3]


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=40))
def test_watching_spreads_its_requests(numbers: list[float]) -> None:
    jitter = iter(numbers)
    scene = Scene(*[RUNNING] * len(numbers))
    scene.watch(jitter=lambda: next(jitter))
    for wait, number in zip(scene.sleeps, numbers, strict=True):
        assert 0.8 <= wait <= 15 * 1.2
        pause = wait / (0.8 + 0.4 * number)
        assert 0.999 < pause < 15.001


# --- the deadline ---------------------------------------------------------------------------------


def test_watching_deadline() -> None:
    scene = Scene(then=RUNNING)
    with pytest.raises(DeadlinePassed) as error:
        scene.watch(deadline_s=90)
    assert error.value.message == "the deadline of 90 s passed"
    assert scene.now - 1000 == pytest.approx(90)
    assert scene.looked_at[-1] == pytest.approx(90), "the last look is at the deadline itself"


def test_watching_deadline_of_zero_observes_once() -> None:
    assert Scene().watch(deadline_s=0) == DONE
    scene = Scene(then=RUNNING)
    with pytest.raises(DeadlinePassed):
        scene.watch(deadline_s=0)
    assert scene.looked_at == [0]


def test_watching_deadline_includes_slow_observations() -> None:
    scene = Scene(then=RUNNING, look_s=40)
    with pytest.raises(DeadlinePassed):
        scene.watch(deadline_s=100)
    assert len(scene.looked_at) == 3


def test_watching_deadline_while_the_cluster_is_unreachable() -> None:
    scene = Scene(RUNNING, then=AWAY)
    with pytest.raises(DeadlinePassed):
        scene.watch(deadline_s=60)


# --- a cluster that does not respond --------------------------------------------------------------


def test_watching_retries_an_unreachable_cluster() -> None:
    scene = Scene(RUNNING, AWAY, BadAnswer("no JSON"), AWAY)
    assert scene.watch() == DONE
    assert scene.troubles == [AWAY.message, "no JSON", AWAY.message]
    assert scene.told == [JobState.STARTING, JobState.SUCCEEDED]


def test_watching_raises_after_its_limit() -> None:
    scene = Scene(RUNNING, then=AWAY)
    with pytest.raises(ClusterUnavailable) as error:
        scene.watch(patience=Patience(unreachable_s=100))
    assert error.value is AWAY
    assert 100 < scene.now - 1000 < 120


def test_watching_limit_begins_again_after_a_response() -> None:
    away: list[JobStatus | Exception] = [AWAY] * 9
    scene = Scene(*[*away, RUNNING] * 20)
    assert scene.watch(patience=Patience(unreachable_s=100)) == DONE
    assert scene.now - 1000 > 190


def test_watching_retries_soon_after_an_error() -> None:
    quiet: list[JobStatus | Exception] = [RUNNING] * 60
    scene = Scene(*quiet, AWAY, AWAY, RUNNING, RUNNING)
    scene.watch()
    assert scene.sleeps[59] == 15.0, "nothing had changed for long"
    assert scene.sleeps[60:] == [1.0, 1.0, 1.0, 1.0]


def test_watching_raises_where_no_request_succeeded() -> None:
    with pytest.raises(ClusterUnavailable):
        Scene(then=AWAY).watch(patience=Patience(unreachable_s=5))
