"""`status` and `wait` on a simulated YARN."""

from __future__ import annotations

import pytest

from tests.world import World


def test_status_of_a_job_that_runs(world: World) -> None:
    app = world.submitted()
    containers = world.runs("chief-0", "worker-0", "worker-1")
    world.reports(containers["chief-0"], "running")
    seen = world("status", "mnist", "-o", "json")
    assert seen.status == 0, seen.err
    assert (seen.json["application_id"], seen.json["state"]) == (app, "RUNNING")


@pytest.mark.parametrize(
    ("state", "final", "status"), [("FINISHED", "FAILED", 1), ("KILLED", "KILLED", 3)]
)
def test_wait_ends_with_the_job(world: World, state: str, final: str, status: int) -> None:
    world.submitted()
    world.cluster.clock.after(30, lambda: world.ends(final, state))
    done = world("wait", "mnist", "-o", "json")
    assert done.status == status
