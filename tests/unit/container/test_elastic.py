"""Elastic roles: a training starts with fewer tasks, goes on without lost ones, and grows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from submit_tf_job.container.meeting import members as states
from tests.unit.container.descriptions import role
from tests.unit.container.lossy_world import play
from tests.unit.container.played import Played

REPLACED_S = 60.0  # how long a start waits for the container that replaces a lost one


class PlayedElastic(Played):
    """A job with an elastic role."""

    def come(self, *names: str, process: str = "r1") -> None:
        for name in names:
            assert self.hello(name, process, peer=name + process) == "welcome"
        self.job.unresolved.clear()

    def ready(self) -> None:
        """Every connected task has ended its command."""
        for m in self.job.members.values():
            if m.peer is not None or m is self.job.me:
                self.job.ready(m, 0)
        self.job.unresolved.clear()

    @property
    def present(self) -> list[int]:
        self.job.info.leave_out(self.job.left_out())
        return list(self.job.info.present("worker"))


def elastic(kind: str = "trains", most: int = 4, **extra: Any) -> PlayedElastic:
    roles = {
        "chief": role(1, "trains"),
        "worker": role(most, kind),
        "witness": role(1, "sidecar"),
    }
    rule = {"worker": {"min": 2, "grow_after_s": 300}}
    return PlayedElastic(roles, retries={"max": 3, "on": ["lost"]}, elastic=rule, **extra)


def test_starts_with_fewer_when_the_time_to_start_is_nearly_over() -> None:
    played = elastic()
    played.come("witness-0", "worker-0", "worker-3")
    assert played.after(800) == states.WAITING
    assert played.after(15) == states.RUNNING
    assert played.present == [0, 3]
    assert played.job.info.sizes == {"chief": 1, "worker": 2, "witness": 1}
    assert "worker trains with 2 of 4 tasks (at least 2)" in played.told
    assert played.job.more()["elastic"] == {"worker": {"min": 2, "max": 4, "now": 2}}


@pytest.mark.parametrize(("how", "starts"), [("silent", False), ("never", False), ("ended", True)])
def test_does_without_others_only_where_the_witness_is(how: str, starts: bool) -> None:
    """A deciding task that was cut off and replaced must not train on with what it has."""
    played = elastic()
    if how != "never":
        played.come("witness-0")
        played.job.gone(played.now, played.member("witness-0"), closed=how == "ended")
    played.come("worker-0", "worker-3")
    played.after(890)
    assert played.job.phase == (states.RUNNING if starts else states.WAITING)
    assert played.after(20) == (states.RUNNING if starts else states.ENDING)


def test_fails_with_too_few() -> None:
    played = elastic()
    played.come("witness-0", "worker-1")
    assert played.after(890) == states.WAITING
    assert played.after(15) == states.ENDING
    assert played.job.first
    assert played.job.first["reason"] == "peers-missing"
    assert "worker has 1 tasks, and needs at least 2" in played.told


def running(kind: str = "trains", *names: str) -> PlayedElastic:
    played = elastic(kind)
    played.come("witness-0", *(names or ("worker-0", "worker-1", "worker-2", "worker-3")))
    played.after(815)
    assert played.job.phase == states.RUNNING
    return played


def lose(played: PlayedElastic, name: str) -> None:
    played.job.gone(played.now, played.member(name), closed=True)
    played.after(10)
    played.after(3)


def test_goes_on_with_fewer_when_nothing_replaces_a_lost_one() -> None:
    played = running()
    lose(played, "worker-1")
    assert (played.job.phase, played.job.generation) == (states.WAITING, 1)
    played.ready()
    assert played.after(REPLACED_S - 5) == states.WAITING
    assert played.after(10) == states.RUNNING
    assert played.present == [0, 2, 3]


def test_waits_for_the_replacement_and_starts_at_once_when_it_has_come() -> None:
    played = running()
    lose(played, "worker-1")
    played.ready()
    played.come("worker-1", process="r2")
    assert played.after(2) == states.RUNNING
    assert played.present == [0, 1, 2, 3]


def test_does_not_wait_again_for_those_that_never_came() -> None:
    played = running("trains", "worker-0", "worker-2", "worker-3")
    lose(played, "worker-3")
    played.ready()
    played.come("worker-3", process="r2")
    assert played.after(2) == states.RUNNING
    assert played.present == [0, 2, 3]


def test_does_not_wait_for_a_task_that_yarn_took_on_purpose() -> None:
    played = running()
    played.member("worker-3").stopping = True
    played.job.gone(played.now, played.member("worker-3"), closed=True)
    played.after(35)
    played.after(10)
    assert played.job.generation == 1
    # a scaled job has not failed: it uses no retry
    assert played.job.generations.past[0]["kind"] == "shrunk"
    assert (played.job.generations.used, played.job.generations.resized) == (0, 1)
    played.ready()
    assert played.after(2) == states.RUNNING
    assert played.present == [0, 1, 2]


def test_a_task_that_yarn_takes_where_too_few_are_left_is_a_retry() -> None:
    played = running("trains", "worker-0", "worker-1")
    played.member("worker-1").stopping = True
    played.job.gone(played.now, played.member("worker-1"), closed=True)
    played.after(35)
    played.after(10)
    assert (played.job.generation, played.job.generations.used) == (1, 1)


def test_a_command_that_still_ends_is_waited_for() -> None:
    played = running()
    lose(played, "worker-1")
    played.job.ready(played.job.me, 0)
    assert played.after(REPLACED_S + 30) == states.WAITING
    played.ready()
    assert played.after(2) == states.RUNNING


def test_grows_when_the_training_has_gone_on_for_a_while() -> None:
    played = running("trains", "worker-0", "worker-3")
    start = played.now
    played.come("worker-1")
    assert played.member("worker-1").state == states.LEFT_OUT
    assert played.present == [0, 3]
    played.after(start + 295 - played.now)
    assert played.job.generation == 0
    played.after(10)
    assert (played.job.phase, played.job.generation) == (states.WAITING, 1)
    played.ready()
    assert played.after(2) == states.RUNNING
    assert played.present == [0, 1, 3]
    assert played.job.generations.used == 0
    assert played.job.more()["retries"] == {"max": 3, "used": 0, "refusal": ""}
    assert played.job.generations.past[0]["kind"] == "grown"


def test_does_not_grow_when_a_task_has_finished() -> None:
    played = running("trains", "worker-0", "worker-3")
    played.come("worker-1")
    played.done("worker-0", 0, generation=0)
    played.after(1000)
    assert played.job.generation == 0


def test_a_waiting_task_that_leaves_is_not_missed() -> None:
    played = running("trains", "worker-0", "worker-3")
    played.come("worker-1")
    played.job.gone(played.now, played.member("worker-1"), closed=True)
    played.after(1000)
    assert (played.job.phase, played.job.generation) == (states.RUNNING, 0)


def test_growth_uses_no_retry() -> None:
    played = running("trains", "worker-0", "worker-3")
    played.come("worker-1")
    played.after(400)
    played.ready()
    played.after(2)
    for retry in range(1, 4):
        lose(played, "worker-0")
        assert played.job.generations.used == retry
        played.ready()
        played.come("worker-0", process=f"r{retry + 1}")
        assert played.after(2) == states.RUNNING
    lose(played, "worker-0")
    assert played.job.verdict == states.FAILED
    assert "no retries are left" in played.job.refusal


def test_job_ends_without_those_that_are_left_out() -> None:
    played = running("trains", "worker-0", "worker-3")
    for name in ("worker-0", "worker-3", "chief-0"):
        played.done(name, 0, generation=0)
    played.after(1)
    played.after(1)
    assert played.job.verdict == states.SUCCEEDED
    assert not played.job.awaits_latecomers(played.now)


def test_a_task_that_serves_is_lost_and_taken_back_without_a_new_generation() -> None:
    played = running("serves")
    lose(played, "worker-1")
    assert (played.job.phase, played.job.generation) == (states.RUNNING, 0)
    assert played.member("worker-1").state == states.LEFT_OUT
    assert played.present == [0, 1, 2, 3]
    played.come("worker-1", process="r2")
    assert played.member("worker-1").state == states.ARRIVED
    assert played.job.generation == 0


def test_a_task_that_serves_and_ended_its_command_while_it_was_alone_starts_it_again() -> None:
    played = running("serves")
    m = played.member("worker-1")
    played.gone("worker-1")
    assert played.hello("worker-1", peer="again", state="running", gave_up=0) == "welcome"
    assert (m.state, played.job.phase) == (states.LEFT_OUT, states.RUNNING)
    played.job.ready(m, 4711)
    assert (m.state, m.port, played.job.generation) == (states.ARRIVED, 4711, 0)
    # its command has ended before it is back
    played.gone("worker-1")
    assert played.hello("worker-1", peer="later", gave_up=0) == "welcome"
    assert (m.state, played.job.generation) == (states.ARRIVED, 0)


def test_too_few_tasks_that_serve_start_again() -> None:
    played = running("serves", "worker-0", "worker-1")
    lose(played, "worker-1")
    assert (played.job.phase, played.job.generation) == (states.WAITING, 1)


@pytest.mark.slow
def test_histories_of_elastic_jobs_end_with_one_verdict() -> None:
    ends = [play(seed, elastic=True) for seed in range(200)]
    assert {verdict for verdict, _ in ends} == {states.SUCCEEDED, states.FAILED}
    changes = [b - a for _, world in ends for a, b in pairwise(world.sizes)]
    assert min(changes) < 0 < max(changes), "none shrank, or none grew"


@pytest.mark.long
def test_ten_thousand_histories_of_elastic_jobs() -> None:
    for seed in range(10_000):
        play(seed, elastic=True)
