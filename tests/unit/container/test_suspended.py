"""Jobs whose deciding task is suspended while other things happen, in virtual time."""

from __future__ import annotations

import pytest

from tests.examples import examples
from tests.unit.container.suspended_world import play


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [examples(250), pytest.param(6000, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["", "retries", "elastic"])
def test_suspended_deciding_task_names_the_true_cause_and_fails_no_healthy_job(
    kind: str, seeds: int
) -> None:
    for seed in range(seeds):
        world, wrong = play(seed, **({kind: True} if kind else {}))
        assert not wrong, "\n".join([f"seed {seed}: {wrong}", *world.said])
