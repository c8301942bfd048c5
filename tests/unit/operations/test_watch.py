"""Watching: the pace, the patience, the deadline; on a clock that only moves when somebody sleeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submit_tf_job.errors import AuthError, BadAnswer, ClusterUnavailable, DeadlinePassed, NoSuchJob
from submit_tf_job.observation import Evidence, JobState, Observation
from submit_tf_job.watch import Look, Pace, Patience, paced, watching
from tests.unit.test_observation import app, report

RUNNING = Observation("mnist", "application_1_0001", app("RUNNING", "UNDEFINED"))
DONE = replace(RUNNING, app=app(), report=report(), evidence=Evidence.READ)
AWAITED = replace(RUNNING, app=app(), evidence=Evidence.COLLECTED_SOON)
AWAY = ClusterUnavailable("No ResourceManager answers")


def arrived(number: int) -> Observation:
    return replace(RUNNING, report=report("waiting", arrived=number), evidence=Evidence.READ)


class Scene:
    """A clock, what is seen at each look, and everything that happened."""

    def __init__(self, *scenes: Observation | Exception, then: Observation | Exception = DONE, look_s: float = 0.0) -> None:
        self.now = 1000.0
        self.look_s = look_s
        self.sleeps: list[float] = []
        self.looked_at: list[float] = []
        self.told: list[JobState] = []
        self.troubles: list[str] = []
        self._scenes: Iterator[Observation | Exception] = iter(scenes)
        self._then = then

    def look(self) -> Observation:
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

    def watch(self, until: Callable[[Look], bool] = lambda _look: False, **given: Any) -> Look:
        steps = watching(
            self.look,
            until,
            on_look=lambda look: self.told.append(look.verdict.state),
            on_trouble=lambda error: self.troubles.append(error.message),
            clock=lambda: self.now,
            **{"jitter": lambda: 0.5, **given},
        )
        return paced(steps, self.sleep)


# --- when it ends -----------------------------------------------------------------------------------------------------


def test_a_job_that_is_over_ends_the_watch() -> None:
    scene = Scene(RUNNING, RUNNING)
    assert scene.watch().seen == DONE
    assert scene.told == [JobState.STARTING, JobState.STARTING, JobState.SUCCEEDED]
    assert len(scene.sleeps) == 2


def test_what_is_waited_for_ends_the_watch_at_once() -> None:
    scene = Scene(arrived(0), arrived(2), RUNNING)
    found = scene.watch(lambda look: look.seen.report is not None and look.seen.report.arrived == 2)
    assert found.seen == arrived(2)
    assert len(scene.looked_at) == 2


@pytest.mark.parametrize(("state", "final"), [("FAILED", "FAILED"), ("KILLED", "KILLED"), ("FINISHED", "ENDED"), ("FINISHED", "FAILED")])
def test_every_end_is_an_end(state: str, final: str) -> None:
    scene = Scene(then=replace(RUNNING, app=app(state, final)))
    assert scene.watch().verdict.state.is_final
    assert scene.sleeps == []


def test_a_job_that_nobody_knows_any_more_is_over_after_a_while() -> None:
    """A ResourceManager that recovers its state knows nothing for a moment."""
    gone = replace(RUNNING, app=None)
    scene = Scene(RUNNING, then=gone)
    assert scene.watch(patience=Patience(forgotten_s=30)).verdict.state is JobState.UNKNOWN
    assert 30 <= scene.now - 1000 < 35
    assert Scene(RUNNING, *[gone] * 20, RUNNING, *[gone] * 20).watch().verdict.state is JobState.SUCCEEDED


def test_other_errors_are_not_borne() -> None:
    for error in (NoSuchJob("gone"), AuthError("no"), ValueError("defect")):
        with pytest.raises(type(error)):
            Scene(RUNNING, error).watch()


# --- the second witness comes with the logs ---------------------------------------------------------------------------


def test_logs_that_are_being_collected_are_waited_for() -> None:
    scene = Scene(RUNNING, AWAITED, AWAITED)
    assert scene.watch().seen == DONE
    assert len(scene.looked_at) == 4


def test_but_not_for_ever() -> None:
    scene = Scene(then=AWAITED)
    found = scene.watch(patience=Patience(logs_s=60))
    assert (found.seen, found.verdict.confirmed) == (AWAITED, False)
    assert 60 <= scene.now - 1000 < 75


def test_a_deadline_that_passes_meanwhile_is_no_deadline_of_the_job() -> None:
    scene = Scene(RUNNING, then=AWAITED)
    assert scene.watch(deadline_s=10).seen == AWAITED
    assert scene.now - 1000 == pytest.approx(10)


# --- the pace ---------------------------------------------------------------------------------------------------------


def test_it_looks_quickly_at_first_and_ever_more_politely() -> None:
    scene = Scene(*[RUNNING] * 45)
    scene.watch()
    assert scene.sleeps[:30] == [1.0] * 30
    assert scene.sleeps[30:38] == pytest.approx([1.5, 2.25, 3.375, 5.0625, 7.59375, 11.390625, 15.0, 15.0])
    assert scene.sleeps[38:] == [15.0] * 7


def test_whatever_changes_makes_it_quick_again() -> None:
    changes: list[Observation] = [
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


def test_progress_alone_does_not() -> None:
    steps = [replace(RUNNING, report=report("running", progress={"step": n}), evidence=Evidence.READ) for n in range(45)]
    scene = Scene(*steps)
    scene.watch()
    assert scene.sleeps[-1] == 15.0


def test_an_own_pace() -> None:
    scene = Scene(*[RUNNING] * 5)
    scene.watch(pace=Pace(first_s=2, longest_s=3, eager_s=4, growth=2))
    assert scene.sleeps == [2, 2, 3, 3, 3]


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=40))
def test_many_watchers_never_look_at_the_same_moment(numbers: list[float]) -> None:
    jitter = iter(numbers)
    scene = Scene(*[RUNNING] * len(numbers))
    scene.watch(jitter=lambda: next(jitter))
    for wait, number in zip(scene.sleeps, numbers, strict=True):
        assert 0.8 <= wait <= 15 * 1.2
        pause = wait / (0.8 + 0.4 * number)
        assert 0.999 < pause < 15.001


# --- the deadline -----------------------------------------------------------------------------------------------------


def test_the_deadline() -> None:
    scene = Scene(then=RUNNING)
    with pytest.raises(DeadlinePassed) as error:
        scene.watch(deadline_s=90)
    assert error.value.message == "the deadline of 90 s passed"
    assert scene.now - 1000 == pytest.approx(90)
    assert scene.looked_at[-1] == pytest.approx(90), "the last look is at the deadline itself"


def test_a_deadline_of_nothing_is_one_look() -> None:
    assert Scene().watch(deadline_s=0).seen == DONE
    scene = Scene(then=RUNNING)
    with pytest.raises(DeadlinePassed):
        scene.watch(deadline_s=0)
    assert scene.looked_at == [0]


def test_slow_looks_count_too() -> None:
    scene = Scene(then=RUNNING, look_s=40)
    with pytest.raises(DeadlinePassed):
        scene.watch(deadline_s=100)
    assert len(scene.looked_at) == 3


def test_the_deadline_holds_while_the_cluster_is_away() -> None:
    scene = Scene(RUNNING, then=AWAY)
    with pytest.raises(DeadlinePassed):
        scene.watch(deadline_s=60)


# --- patience ---------------------------------------------------------------------------------------------------------


def test_an_unreachable_cluster_is_borne() -> None:
    scene = Scene(RUNNING, AWAY, BadAnswer("no JSON"), AWAY)
    assert scene.watch().seen == DONE
    assert scene.troubles == [AWAY.message, "no JSON", AWAY.message]
    assert scene.told == [JobState.STARTING, JobState.SUCCEEDED]


def test_patience_has_an_end() -> None:
    scene = Scene(RUNNING, then=AWAY)
    with pytest.raises(ClusterUnavailable) as error:
        scene.watch(patience=Patience(unreachable_s=100))
    assert error.value is AWAY
    assert 100 < scene.now - 1000 < 120


def test_an_answer_renews_it() -> None:
    away: list[Observation | Exception] = [AWAY] * 9
    scene = Scene(*[*away, RUNNING] * 20)
    assert scene.watch(patience=Patience(unreachable_s=100)).seen == DONE
    assert scene.now - 1000 > 190


def test_a_cluster_that_comes_back_is_not_slept_through() -> None:
    quiet: list[Observation | Exception] = [RUNNING] * 60
    scene = Scene(*quiet, AWAY, AWAY, RUNNING, RUNNING)
    scene.watch()
    assert scene.sleeps[59] == 15.0, "nothing had changed for long"
    assert scene.sleeps[60:] == [1.0, 1.0, 1.0, 1.0]


def test_a_cluster_that_never_answered_is_given_up_too() -> None:
    with pytest.raises(ClusterUnavailable):
        Scene(then=AWAY).watch(patience=Patience(unreachable_s=5))
