"""The clock of the user's machine decides nothing: it may be wrong by days."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

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


# --- durations, at each door ---

JUMPS = [-DAY_S, -HOUR_S, HOUR_S, DAY_S]
DOORS = {
    "list": ["list"],
    "status": ["status"],
    "describe": ["describe"],
    "history": ["history"],
    "usage": ["usage"],
    "compare": ["compare"],
}


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield all numbers of a JSON value with their paths."""
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in items:
            yield from numbers(one, f"{path}.{key}")
    elif isinstance(value, (int, float)):
        yield path, value


def trains(world: World, node_off_s: float = 0.0) -> None:
    """Let a job train, whose deciding task's node has a clock of its own."""
    chief = world.running("chief-0")["chief-0"]
    world.passes(120)
    began = world.yarn.apps[world.application].started_ms / 1000 + 20 + node_off_s
    start = {"launched_at": began + 1, "arrived_at": began + 5, "at": began + 10}
    told: dict[str, Any] = {"started_at": began, "updated_at": began + 100, "start": start}
    told["progress"] = {"step": 3, "at": began + 90, "metrics": {"loss": 0.5}}
    task = {"task": "chief-0", "state": "running", "host": "node1", "container": chief}
    told |= {"events": [{"at": began + 20, "text": "an event"}], "tasks": [task]}
    told["deciding"] = "chief-0"
    world.reports(chief, "running", **told)
    usage = {"version": 1, "run": world.name, "started_at": began, "updated_at": began + 100}
    series = [{"name": "loss", "kind": "metric", "points": [[1, 1, 0.5], [90, 3, 0.25]]}]
    world.writes(chief, "job-usage.json", {**usage, "series": series})


@pytest.mark.parametrize("over", [False, True])
@pytest.mark.parametrize("jump_s", JUMPS)
@pytest.mark.parametrize("whose", ["the user's", "the node's", "YARN's"])
def test_no_duration_is_negative_and_no_curve_lost(
    kept: World, whose: str, jump_s: float, over: bool
) -> None:
    trains(kept, jump_s if whose == "the node's" else 0.0)
    if whose == "the user's":
        wrong(kept, jump_s)
    elif whose == "YARN's":
        kept.cluster.clock.jumped_s = jump_s
    if over:
        kept.ends()
    for door, words in DOORS.items():
        name = [] if door == "list" else ["mnist"]
        done = kept(*words, *name, "-o", "json")
        assert done.status in (0, 1), done
        negative = [(path, value) for path, value in numbers(done.json) if value < 0]
        assert not negative, (door, negative)
        shown = kept(*words, *name).out
        assert not re.search(r"(?<![\w-])-\d", shown), shown
    [curve] = kept("usage", "mnist", "-o", "json").json["series"]
    assert len(curve["points"]) == 2


@pytest.mark.parametrize("over", [False, True])
@pytest.mark.parametrize("off_s", [0.0, *JUMPS])
def test_a_timeline_is_told_by_the_clock_of_yarn(kept: World, off_s: float, over: bool) -> None:
    trains(kept, off_s)
    if over:
        kept.ends()
    found = kept("describe", "mnist", "-o", "json").json
    app = kept.yarn.apps[kept.application]
    moments = [datetime.fromisoformat(one["from_at"]) for one in found["timeline"]]
    assert moments == sorted(moments)
    assert moments[0].timestamp() * 1000 == pytest.approx(app.started_ms, abs=1000)
    assert (moments[-1] - moments[0]).total_seconds() < 200
    assert {part["part"] for part in found["timeline"]} >= {"waited", "trained"}
    events = [one["text"] for one in kept("events", "mnist", "-o", "json").json["events"]]
    assert "submitted" in events[0]
    assert events[-1].endswith("SUCCEEDED" if over else "an event")


@pytest.fixture
def local_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that sets this machine's time zone."""

    def set_zone(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


# zone, when its summer time ends or begins, and how the moments half an hour (Lord Howe: a
# quarter) before and after it are shown
CHANGES = [
    ("America/New_York", "2026-11-01T06:00", 1800, "01:30 EDT", "01:30 EST"),
    ("Europe/Berlin", "2026-10-25T01:00", 1800, "02:30 CEST", "02:30 CET"),
    ("Australia/Lord_Howe", "2026-04-04T15:00", 900, "01:45 +11", "01:45 +1030"),
    ("America/New_York", "2026-03-08T07:00", 1800, "01:30", "03:30"),
    ("Australia/Lord_Howe", "2026-10-03T15:30", 900, "01:45", "02:45"),
    ("UTC", "2026-11-01T06:00", 1800, "05:30", "06:30"),
]


@pytest.mark.parametrize(("zone", "change", "off_s", "before", "after"), CHANGES)
def test_times_around_the_end_and_the_beginning_of_summer_time(
    kept: World, local_zone: Any, zone: str, change: str, off_s: int, before: str, after: str
) -> None:
    local_zone(zone)
    at_s = datetime.fromisoformat(f"{change}+00:00").timestamp()
    clock = kept.cluster.clock
    clock.jumped_s += at_s - 3600 - clock.epoch_ms() / 1000
    chief = kept.running(lifetime="20m")["chief-0"]
    begun_s = clock.epoch_ms() / 1000
    for moment, words in ((at_s - off_s, before), (at_s + off_s, after)):
        seconds = round(moment + 30 - clock.epoch_ms() / 1000)
        done = kept("extend", "mnist", f"{seconds}s")
        assert f"{words} (" in done.out + done.err, (words, done)
        lines = kept("describe", "mnist").out
        assert re.search(rf"at [-\d]+ {words[:5]}:\d\d{re.escape(words[5:])}\n", lines), lines
    ending = datetime.fromisoformat(f"{change}+00:00").timestamp() + off_s
    clock.sleep(ending - clock.epoch_ms() / 1000 - 60)
    ran_s = clock.epoch_ms() / 1000 - begun_s
    [row] = kept("list", "-o", "json").json["jobs"]
    assert row["elapsed_s"] == pytest.approx(ran_s, abs=30)
    assert [job["name"] for job in kept("list", "--since", "3h", "-o", "json").json["jobs"]]
    assert not kept("list", "--since", "30m", "-o", "json").json["jobs"]
    kept.reports(chief, "succeeded", outcome={"status": 0})
    kept.ends()
    assert kept("wait", "mnist").status == 0
    [run] = kept("history", "mnist", "-o", "json").json["runs"]
    assert run["duration_s"] == pytest.approx(ran_s, abs=60)
    assert run["end"]["finished_at"] - run["submission"]["at"] == pytest.approx(ran_s, abs=60)
