"""Whatever happens to a job's containers, its application ends (docs/internals/endings.md)."""

from __future__ import annotations

from collections import Counter

import pytest

from submit_tf_job.container.rendezvous import states
from tests.unit.container.ending_world import World, play


def check(world: World) -> None:
    """Look at the end of a history."""
    if world.final is None:
        # nothing says what ran before; `lifetime` ends it
        assert world.retries
        assert world.followed
    if world.final and not world.started_after_end:
        assert world.verdict == states.SUCCEEDED, "a failure that is told as a success"


@pytest.mark.parametrize("seeds", [150, pytest.param(10_150, marks=pytest.mark.long)])
@pytest.mark.parametrize("followed", [False, True], ids=["by itself", "followed"])
def test_every_application_ends(followed: bool, seeds: int) -> None:
    """On Hadoop 3.3 and later by itself; on 3.1 and 3.2 because somebody follows the job."""
    found: Counter[str] = Counter()
    for seed in range(seeds):
        world = play(seed, ends_by_mark=not followed, followed=followed)
        try:
            check(world)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None
        end = {None: "never", True: "succeeded", False: "failed"}[world.final]
        found[end + (" by a follower" if world.netted else "")] += 1
    assert found["succeeded"] > 10
    assert found["failed"] > 10
    assert (found["failed by a follower"] > 10) is followed
