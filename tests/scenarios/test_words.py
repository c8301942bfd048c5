"""What commands say of a job whose tasks stand still, are awaited, or cannot be asked."""

from __future__ import annotations

import re
import signal
import time
from datetime import datetime
from typing import Any

import pytest

from tests.world import World

NOW = 2_000_000_000.0
STILL = {"task": "worker-1", "step": 3, "since": NOW - 190}
LATE = "silent"  # a request that gets no answer in time


def reports(world: World, state: str = "running", **values: Any) -> str:
    """Let the deciding task of a job of two workers report; return its container."""
    roles = {"chief": {"wanted": 1, "arrived": 1, "running": 1}}
    chief = world.running()["chief-0"]
    world.reports(chief, state, **{"roles": roles, "updated_at": NOW, **values})
    return chief


def test_an_interrupt_tells_the_state(world: World) -> None:
    world.yarn.full = True
    world.submitted()
    world.cluster.clock.after(5, lambda: signal.raise_signal(signal.SIGINT))
    done = world("wait", "mnist")
    assert done.status == 130
    assert "Job mnist is still pending. Reattach: submit_tf_job wait mnist" in done.err


def test_a_task_that_stands_still_is_named(world: World) -> None:
    standstill = {"all": False, "count": 1, "since": NOW - 190, "tasks": [STILL], "others_step": 40}
    reports(world, standstill=standstill)
    words = "worker-1 has printed nothing for 3 min, since step 3; the others are at step 40"
    status = world("status", "mnist")
    assert f"  standstill   {words}" in status.out.splitlines()
    assert "only `lifetime` ends it" in status.out
    assert words in world("describe", "mnist").out
    assert words in world("wait", "mnist", "--timeout", "1s").err
    assert world("status", "mnist", "-o", "json").json["standstill"] == {
        "tasks": ["worker-1"],
        "count": 1,
        "since": NOW - 190,
        "everything": False,
        "step": 3,
        "others_step": 40,
    }


def test_a_job_in_which_nothing_moves_says_for_how_long(world: World) -> None:
    since = NOW - 47 * 60
    both = [{**STILL, "since": since}, {"task": "chief-0", "step": None, "since": since - 100}]
    standstill = {"all": True, "count": 2, "since": since, "tasks": both, "others_step": None}
    reports(world, standstill=standstill)
    assert "no task has printed anything for 45 min" in world("status", "mnist").out


def test_finishing_says_for_whom_and_until_when(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    noon = datetime(2026, 5, 4, 12, 34).astimezone().timestamp()
    monkeypatch.setattr(time, "time", lambda: noon)  # the same day, whenever the test runs
    reports(world, "finishing", awaited={"tasks": ["worker-1"], "count": 1, "until": noon})
    assert "  finishing    waiting for worker-1 until 12:34" in world("status", "mnist").out
    said = world("wait", "mnist", "--timeout", "1s").err
    assert "FINISHING  waiting for worker-1 until 12:34" in said
    assert world("status", "mnist", "-o", "json").json["awaited"]["tasks"] == ["worker-1"]


def test_status_shows_the_newest_checkpoint(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    at = time.time()
    monkeypatch.setattr(time, "time", lambda: at + 250)
    newest = {"uri": "hdfs:///c", "name": "ckpt-1200", "step": 1200, "at": at}
    reports(world, "running", checkpoint=newest)
    assert "  checkpoint   ckpt-1200, 4 min ago, at hdfs:///c" in world("status", "mnist").out


def test_a_silent_application_master_is_named_and_the_rest_is_told(world: World) -> None:
    reports(world)
    world.fails(9, "GET", "/app/v1/services/", LATE)
    done = world("status", "mnist")
    assert (done.status, done.out.split()[0]) == (0, "mnist")
    assert "the ResourceManager answers, and the ApplicationMaster does not" in done.out
    assert "No ResourceManager" not in done.out + done.err


ENDED = "its ApplicationMaster has ended, and YARN starts it again; "
RESTARTED = "after a restart its ApplicationMaster does not list its containers yet; "


@pytest.mark.parametrize(
    ("state", "live", "diagnostics", "told"),
    [
        ("ACCEPTED", 0, "", ENDED + "no task has a container"),
        ("ACCEPTED", 1, "", ENDED + "tasks that run, if any, go on"),
        ("ACCEPTED", 3, "", ENDED + "its tasks go on"),
        ("RUNNING", 1, "", ""),
        ("RUNNING", 3, "", RESTARTED + "its tasks go on"),
        ("RUNNING", 1, "Attempt recovered after RM restart", RESTARTED + "tasks that run, if any,"),
    ],
)
def test_of_an_application_master_that_is_started_again_only_what_is_known_is_told(
    world: World, state: str, live: int, diagnostics: str, told: str
) -> None:
    """Nothing of a job that found no room has ever run, in no attempt."""
    app = world.yarn.apps[world.submitted()]
    world.yarn.containers = {name: [] for name in world.yarn.containers}
    app.state, app.attempts, app.counted, app.words = state, 2, live, diagnostics
    done = world("status", "mnist")
    assert told in done.out, done.out
    assert "STARTING" in done.out.splitlines()[0]
    assert told or "go on" not in done.out


def test_a_report_of_a_container_that_has_ended_is_not_told_as_running(world: World) -> None:
    reports(world, updated_at=world.cluster.clock.epoch_ms() / 1000 - 300)
    before = world("status", "mnist").out
    assert "mnist  RUNNING" in before, "an old report alone says nothing"
    assert re.search(r"^  chief +\d", before, re.MULTILINE)
    world.yarn.containers["chief"][0]["state"] = "FAILED"
    done = world("status", "mnist")
    assert "mnist  RUNNING" not in done.out
    assert not re.search(r"^  chief +\d", done.out, re.MULTILINE), "its tasks as it saw them"
    assert world("status", "mnist", "-o", "json").json["roles"] == {}
    assert "the container of chief-0 has ended without a last word" in done.out


def test_a_silent_node_of_a_running_job_is_named(world: World) -> None:
    reports(world)
    world.yarn.service_state = "STABLE"
    world.fails(9, "GET", "/ws/v1/node/", LATE)
    done = world("status", "mnist")
    assert "mnist  RUNNING" in done.out
    assert "not known at this moment: how its tasks stand: " in done.out


def test_logs_go_on_where_a_restarted_resource_manager_lists_no_job_yet(world: World) -> None:
    chief, clock = world.running("chief-0")["chief-0"], world.cluster.clock
    apps = dict(world.yarn.apps)
    world.writes(chief, "stdout.txt", "before\n")
    clock.after(5, lambda: world.cluster.kill_active(back_s=40))
    clock.after(40, world.yarn.apps.clear)
    clock.after(65, lambda: world.yarn.apps.update(apps))
    clock.after(66, lambda: world.writes(chief, "stdout.txt", "after\n"))
    clock.after(90, world.ends)
    done = world("logs", "mnist", "chief-0", "-f", "--no-prefix")
    assert (done.status, done.out.split()) == (0, ["before", "after"]), done.err
