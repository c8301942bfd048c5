"""Jobs whose deciding task is suspended while other things happen, in virtual time."""

from __future__ import annotations

import pytest

from tests.examples import examples
from tests.unit.container.suspended_world import play


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["", "retries", "elastic"])
def test_suspended_deciding_task_names_the_true_cause_and_fails_no_healthy_job(kind: str) -> None:
    for seed in range(examples(1000)):
        world, wrong = play(seed, **({kind: True} if kind else {}))
        assert not wrong, "\n".join([f"seed {seed}: {wrong}", *world.said])


@pytest.mark.long
@pytest.mark.parametrize("kind", ["", "retries", "elastic"])
def test_suspended_deciding_task_in_thousands_of_histories(kind: str) -> None:
    for seed in range(1000, 6000):
        world, wrong = play(seed, **({kind: True} if kind else {}))
        assert not wrong, "\n".join([f"seed {seed}: {wrong}", *world.said])
