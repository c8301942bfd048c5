"""The clock of the user's machine decides nothing: it may be wrong by days."""

from __future__ import annotations

import os

import pytest

from tests.scenarios.conftest import ME
from tests.world import World

HOUR_S, DAY_S = 3600.0, 86400.0
OFF = [-8 * DAY_S, -HOUR_S, 0.0, HOUR_S, 8 * DAY_S]


def wrong(world: World, off_s: float) -> World:
    world.clock_off_s = off_s
    return world


@pytest.mark.parametrize("off_s", OFF)
def test_submit_again_is_not_kept_waiting(kept: World, off_s: float) -> None:
    kept.submitted()
    kept.hdfs(ME)
    kept.ends("FAILED")
    kept.passes(740)  # the ResourceManager leads for 14 minutes
    begun = kept.cluster.clock()
    done = wrong(kept, off_s)("submit", kept.home / "mnist.yaml", "-d")
    assert (done.status, len(kept.yarn.apps)) == (0, 2), done
    assert kept.cluster.clock() - begun < 10, done.err


@pytest.mark.parametrize("date_off_s", [None, -DAY_S])
def test_submit_waits_for_a_leader_whose_age_is_unknown_and_no_longer(
    kept: World, date_off_s: float | None
) -> None:
    kept.submitted()
    kept.hdfs(ME)
    kept.ends("FAILED")
    kept.passes(740)
    kept.cluster.network.masters.date_off_s = date_off_s
    begun = kept.cluster.clock()
    done = kept("submit", kept.home / "mnist.yaml", "-d")
    assert (done.status, len(kept.yarn.apps)) == (0, 2), done
    assert 60 < kept.cluster.clock() - begun < 80


@pytest.mark.parametrize("off_s", OFF)
def test_list_since_counts_from_the_time_of_the_cluster(world: World, off_s: float) -> None:
    world.submitted("early")
    world.passes(2 * HOUR_S)
    world.submitted("late")
    done = wrong(world, off_s)("list", "--since", "1h", "-o", "json")
    assert [job["name"] for job in done.json["jobs"]] == ["late"]


@pytest.mark.parametrize("off_s", OFF)
@pytest.mark.parametrize(("days", "deleted"), [(6, 0), (8, 1)])
def test_a_key_is_kept_for_seven_days_of_the_cluster(
    kept: World, off_s: float, days: int, deleted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBMIT_TF_JOB_KEEP_RUNS", "1")
    spec = kept.spec()
    for number in range(2):
        done = kept("submit", spec, "-d", "--submission-id", f"night-{number}", "-o", "json")
        kept.application, kept.name = done.json["application_id"], done.json["run"]
        kept.passes(10)
        kept.hdfs(ME)
        kept.ends()
        at_s = kept.cluster.clock.epoch_ms() / 1000
        os.utime(kept.home / f"{ME}/.yarn/services/{kept.name}", (at_s, at_s))
    kept.passes(days * DAY_S)
    wrong(kept, off_s)
    assert len(kept("staging", "gc", "--dry-run", "-o", "json").json["runs"]) == deleted
