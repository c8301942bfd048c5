"""`status`, `wait`, `stop` and `delete` on a simulated YARN: their words and exit statuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders.command_line import Done
from tests.world import TASKS, World

FAILURE = {
    "task": "worker-1",
    "status": 3,
    "reason": "command",
    "message": "worker-1 exited with status 3",
    "host": "node1",
    "last_lines": ["Traceback"],
}


def succeed(world: World, chief: str) -> None:
    world.reports(chief, "succeeded", outcome={"status": 0})
    world.ends()


def fail(world: World, chief: str) -> None:
    world.reports(chief, "failed", first_failure=FAILURE, outcome={"status": 1})
    world.ends("FAILED")


def kill(world: World, _chief: str) -> None:
    world.ends("KILLED", "KILLED")


ENDS = [(succeed, 0, "SUCCEEDED"), (fail, 1, "FAILED"), (kill, 3, "STOPPED")]


def first_line(done: Done) -> str:
    return done.out.splitlines()[0]


def test_status_of_a_job_that_runs(world: World) -> None:
    world.running()
    seen = world("status", "mnist", "-o", "json")
    assert seen.status == 0, seen.err
    assert (seen.json["application_id"], seen.json["state"]) == (world.application, "RUNNING")
    by_id = world("status", world.application)
    assert (by_id.status, first_line(by_id), by_id.err) == (0, "mnist  RUNNING for 10s", "")


def test_status_of_an_application_asks_for_it_once(world: World) -> None:
    application = world.submitted()
    for words in (("status", application), ("describe", application)):
        world.asked()
        assert world(*words).status == 0
        assert world.asked().count(("GET", f"/ws/v1/cluster/apps/{application}")) == 1, words


@pytest.mark.parametrize(("end", "status", "state"), ENDS)
def test_wait_exits_with_the_jobs_status_and_prints_each_change_once(
    world: World, end: Callable[[World, str], None], status: int, state: str
) -> None:
    chief = world.running()["chief-0"]
    world.cluster.clock.after(60, lambda: end(world, chief))
    done = world("wait", "mnist", "--timeout", "2h")
    assert done.status == status, done
    assert first_line(done).startswith(f"mnist  {state}")
    states = [line.split()[1] for line in done.err.splitlines() if line[:2].isdigit()]
    assert states == ["RUNNING", state]
    assert world("wait", "mnist", "-q").err == ""
    seen = world("status", "mnist")
    assert (seen.status, first_line(seen)[: len(f"mnist  {state}")]) == (0, f"mnist  {state}")


def test_wait_for_ready(world: World) -> None:
    world.submitted()
    chief = world.runs(*TASKS)["chief-0"]
    world.reports(chief, "waiting", arrived=2, missing=["worker-1"])
    arrived = {"roles": {"worker": {"wanted": 2, "running": 2}}}
    world.cluster.clock.after(20, lambda: world.reports(chief, "running", **arrived))
    done = world("wait", "mnist", "--for", "ready", "-o", "json")
    assert (done.status, done.json["state"]) == (0, "RUNNING")
    world.reports(chief, "waiting", arrived=2)
    failed = {"first_failure": FAILURE, "outcome": {"status": 1}}
    world.cluster.clock.after(20, lambda: world.reports(chief, "failed", **failed))
    world.cluster.clock.after(90, lambda: fail(world, chief))  # YARN ends it later
    assert world("wait", "mnist", "--for", "ready").status == 1, "it will never be"


def test_wait_timeout(world: World) -> None:
    world.running()
    done = world("wait", "mnist", "--timeout", "5s")
    assert (done.status, done.out) == (8, "")
    assert done.err.splitlines()[-2:] == [
        "error: stopped following after 5 s; mnist may still be running",
        "  hint: submit_tf_job wait mnist, or submit_tf_job stop mnist",
    ]


def test_the_end_names_where_the_outputs_are(world: World) -> None:
    outputs = [
        {"name": "model", "uri": "hdfs:///models/m", "tasks": 1},
        {"name": "shards", "uri": "hdfs:///shards", "tasks": 3},
        {"name": "events", "uri": "hdfs:///events", "tasks": 0},
    ]
    chief = world.running()["chief-0"]
    world.reports(chief, "succeeded", outcome={"status": 0}, outputs=outputs)
    world.ends()
    told = [
        "  output       model  hdfs:///models/m",
        "  output       shards  hdfs:///shards  (of 3 tasks)",
        "  output       events  hdfs:///events  (written by the program itself)",
    ]
    for verb in ("wait", "status", "describe"):
        lines = world(verb, "mnist").out.splitlines()
        assert [line for line in lines if "output" in line] == told
    found = world("status", "mnist", "-o", "json").json["outputs"]
    assert [one["uri"] for one in found] == ["hdfs:///models/m", "hdfs:///shards", "hdfs:///events"]


def test_wait_reports_an_outage_once(world: World) -> None:
    chief = world.running()["chief-0"]
    world.cluster.clock.after(10, lambda: world.cluster.kill_active(back_s=60))
    world.cluster.clock.after(120, lambda: succeed(world, chief))
    done = world("wait", "mnist")
    assert done.status == 0, done
    assert done.err.count("the cluster does not answer; still trying") == 1
    assert done.err.count("the cluster answers again") == 1


def test_stop_and_delete(world: World) -> None:
    world.running()
    refused = world("delete", "mnist")
    assert refused.status == 6, refused
    stopped = world("stop", "mnist")
    assert stopped.status == 0, stopped
    assert first_line(stopped).startswith("mnist  STOPPED")
    assert world("stop", "mnist", "-o", "json").json["state"] == "STOPPED"
    deleted = world("delete", "mnist")
    assert deleted.out == f"deleted: {world.name}\n"
    assert "list, status and logs show it until YARN forgets its application" in deleted.err
    again = world("delete", "mnist", "-o", "json")
    assert (again.status, again.json["deleted"]) == (0, False)
    for verb in ("status", "describe"):
        assert world(verb, "mnist").status == 0, "the cluster still knows it"
    assert world("list", "-o", "json").json["jobs"][0]["run"] == world.name


def test_stop_with_an_invalid_grace(world: World) -> None:
    world.running()
    done = world("stop", "mnist", "--grace", "soon")
    assert done.status == 2
    assert done.err.startswith("error: --grace: ")
    assert world("status", "mnist", "-o", "json").json["state"] == "RUNNING"


@pytest.mark.parametrize("verb", ["status", "wait", "stop", "describe", "logs", "events"])
def test_verb_of_a_job_that_does_not_exist(world: World, verb: str) -> None:
    done = world(verb, "nosuch")
    assert (done.status, done.out) == (5, "")
    assert "nosuch" in done.err


def test_words_of_servers_are_escaped(world: World) -> None:
    world.running()
    [app] = [app for app in world.cluster.yarn.apps.values() if not app.over]
    world.cluster.node.logs.clear()
    words: Any = "\x1b]0;evil\x07"
    world.cluster.yarn.end(app, "FAILED", "FAILED", words)
    done = world("status", "mnist")
    assert "\\x1b]0;evil\\x07" in done.out
    assert "\x1b" not in done.out


@pytest.mark.parametrize("ran", [False, True], ids=["not seen before", "its tasks ran"])
def test_status_of_a_job_whose_node_does_not_answer_says_so(world: World, ran: bool) -> None:
    world.submitted()
    chief = world.runs("chief-0", "worker-0", "worker-1")["chief-0"]
    world.passes(100)
    if ran:
        world.reports(chief, "running")
    for words in ("status", "describe"):
        world.fails(9, "GET", "/ws/v1/node/containers", "refused")
        done = world(words, "mnist")
        assert done.out.startswith("mnist  RUNNING"), done
        assert "its node does not answer" in done.out
        assert "waits because" not in done.out
        told = world(words, "mnist", "-o", "json").json
        assert (told["state"], told["pending"]) == ("RUNNING", [])
        assert "its node does not answer" in told["reason"]
    world.cluster.network.faults.clear()
    assert world("status", "mnist").out.startswith("mnist  RUNNING" if ran else "mnist  STARTING")
