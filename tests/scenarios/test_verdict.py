"""One verdict for one run: by every verb, at every moment, from the evidence of that moment."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

import submit_tf_job
from tests.world import RM, World
from tests.world.transport import Answer

SPEC = "mnist.yaml"
SCRIPT = {"launch_container.sh": "exec python3 bootstrap.zip\n", "prelaunch.out": "Launching\n"}
GOOD: dict[str, Any] = {"state": "succeeded", "outcome": {"status": 0}}
WAITS = "the cluster has collected its logs"


def started(world: World, *, files: dict[str, str] | None = None, **said: Any) -> str:
    """Let a job run whose chief wrote this; return the chief's container."""
    world.submitted()
    chief = world.runs("chief-0")["chief-0"]
    world.hdfs()
    for name, text in {"stdout.txt": "", **(files or {})}.items():
        world.writes(chief, name, text)
    if said:
        world.reports(chief, said.pop("state"), **said)
    return chief


def container_ends(world: World, state: str = "SUCCEEDED") -> None:
    world.yarn.containers["chief"][0]["state"] = state


def over(world: World) -> None:
    container_ends(world)
    ends(world)


def ends(world: World, final: str = "SUCCEEDED") -> None:
    """End the application; its NodeManager still has the logs."""
    world.cluster.yarn.aggregation = "NOT_START"
    world.ends(final)


def seen(world: World, *words: str) -> tuple[str, bool | None]:
    found = world(*(words or ("status", world.application)), "-o", "json").json
    return found["state"], found["confirmed"]


def states(world: World) -> set[str]:
    """Return the states that all verbs say, each as in a process of its own."""
    handle = submit_tf_job.Client(resource_managers=[RM]).attach("mnist")
    of_verbs = [
        seen(world, *words)[0]
        for words in (
            ("status", world.application),
            ("status", "mnist"),
            ("describe", world.application),
            ("wait", "mnist"),
            ("submit", SPEC, "--once"),
        )
    ]
    return {*of_verbs, handle.status().state.value}


@pytest.mark.parametrize(
    ("files", "said", "state"),
    [({}, {}, "FAILED"), (SCRIPT, GOOD, "SUCCEEDED"), (SCRIPT, {}, "FAILED")],
    ids=["an entrypoint swallows the command", "good", "the bootstrap is killed"],
)
def test_every_verb_gives_one_verdict_at_every_moment(
    world: World, files: dict[str, str], said: dict[str, Any], state: str
) -> None:
    started(world, files=files, **said)
    over(world)
    assert states(world) == {state}, "before the logs are collected, its NodeManager has them"
    world.collects()
    assert states(world) == {state}, "from the collected logs alone"
    world.passes(86400)
    assert states(world) == {state}


def test_a_command_that_follows_from_the_start_says_what_later_ones_do(world: World) -> None:
    world.spec()

    def starts() -> None:
        world.of_the_live_one()
        started_there = world.runs("chief-0")["chief-0"]
        world.writes(started_there, "stdout.txt", "")
        world.hdfs()

    clock = world.cluster.clock
    clock.after(10, starts)
    clock.after(15, lambda: container_ends(world))
    clock.after(19, lambda: ends(world))
    clock.after(50, world.collects)
    done = world("submit", SPEC)
    assert (done.status, "its command never ran" in done.out) == (1, True), done
    assert states(world) == {"FAILED"}


@pytest.mark.parametrize(("said", "state"), [({}, "FAILED"), (GOOD, "SUCCEEDED")])
def test_every_verb_waits_for_logs_that_are_not_collected(
    world: World, said: dict[str, Any], state: str
) -> None:
    started(world, **said)
    ends(world)
    kept = dict(world.cluster.node.logs)
    world.cluster.node.logs.clear()
    assert seen(world) == ("FINISHING", None)
    assert WAITS in world("status", "mnist").out

    def collected() -> None:
        world.cluster.node.logs.update(kept)
        world.collects()

    early = world("wait", "mnist", "--timeout", "10s")
    assert (early.status, WAITS in early.err) == (8, True), early
    world.cluster.clock.after(100, collected)
    assert seen(world, "wait", "mnist")[0] == state, "a wait takes as long as the cluster does"
    assert states(world) == {state}


def test_every_verb_of_a_job_whose_logs_are_lost(world: World) -> None:
    started(world, **GOOD)
    ends(world)
    world.cluster.node.logs.clear()
    begun = world.cluster.clock()
    assert seen(world, "wait", "mnist") == ("SUCCEEDED", False)
    assert 170 < world.cluster.clock() - begun < 220
    assert states(world) == {"SUCCEEDED"}


def test_no_verb_says_failed_while_a_node_manager_deletes_logs(world: World) -> None:
    started(world, files=SCRIPT, **GOOD)
    over(world)
    for file in list(world.cluster.node.logs):
        del world.cluster.node.logs[file]
        assert seen(world)[0] != "FAILED", file


def test_status_without_hadoop_conf_reads_the_node_manager(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(world, **GOOD)
    monkeypatch.delenv("SUBMIT_TF_JOB_HADOOP_CONF")
    ends(world)
    assert seen(world) == ("SUCCEEDED", True), "the deciding task alone writes a report"


def test_every_verb_says_failed_of_a_job_that_a_client_gave_up(world: World) -> None:
    """Its only container has failed before the bootstrap ran, and YARN does not see that."""
    started(world, state="waiting", arrived=0, missing=["chief-0"])
    container_ends(world, "FAILED")
    done = world("wait", "mnist")
    assert done.status == 1, done
    assert "the container of chief-0 failed before its bootstrap could run" in done.out
    assert world.yarn.apps[world.application].state == "KILLED"
    world.collects()
    assert states(world) == {"FAILED"}
    assert [job["state"] for job in world("list", "-o", "json").json["jobs"]] == ["FAILED"]


@pytest.mark.parametrize(("word", "status"), [("succeeded", 0), ("failed", 3)])
def test_follower_ends_what_is_left_of_a_job_and_keeps_its_verdict(
    world: World, word: str, status: int
) -> None:
    """Its report is over, and YARN still waits for a container that it cannot start."""
    failure = {"task": "chief-0", "status": 3, "message": "exit 3"} if status else None
    over = {"outcome": {"status": status}, "ended_at": 1.0, "first_failure": failure}
    started(world, files=SCRIPT, state=word, **over)
    container_ends(world)
    found = world("describe", "mnist", "-o", "json").json
    assert found["state"] == "FINISHING"
    assert found["reason"].startswith("it is over; YARN still wants a container for worker-")
    begun = world.cluster.clock()
    assert seen(world, "wait", "mnist") == (word.upper(), True)
    assert 60 < world.cluster.clock() - begun < 120
    app = world.yarn.apps[world.application]
    assert (app.state, word in app.words) == ("KILLED", True)
    assert states(world) == {word.upper()}
    world.collects()
    assert states(world) == {word.upper()}


@pytest.mark.parametrize("arrived", [1, 2])
def test_a_job_that_succeeds_wants_no_container_for_past_tasks(world: World, arrived: int) -> None:
    """The ApplicationMaster lists ended containers no more, and is about to end."""
    roles = {"chief": {"wanted": 1, "arrived": 1}, "worker": {"wanted": 2, "arrived": arrived}}
    states = zip(("worker-0", "worker-1"), ("ended", "absent"), strict=True)
    tasks = [{"task": task, "state": state} for task, state in states]
    started(world, roles=roles, tasks=tasks if arrived == 1 else [], ended_at=1.0, **GOOD)
    found = world("status", "mnist", "-o", "json").json
    missing = "it is over; YARN still wants a container for worker-1"
    assert (found["state"], found["reason"]) == ("FINISHING", missing if arrived == 1 else "")


# --- what is read while the job runs --------------------------------------------------------------

FAILURE = {"task": "chief-0", "status": 1, "message": "chief-0 ended with exit status 1"}


def test_status_of_a_container_that_has_not_reported(world: World) -> None:
    chief = started(world)
    container_ends(world, "READY")
    assert seen(world)[0] == "STARTING"
    world.writes(chief, "job-report.json", "{")
    assert seen(world)[0] == "STARTING"
    for state in ("running", "finishing"):
        world.reports(chief, state)
        assert seen(world)[0] == state.upper()


@pytest.mark.parametrize("status", [404, 503])
def test_a_follower_keeps_the_last_report_while_the_node_is_away(world: World, status: int) -> None:
    chief = started(world, state="running")
    clock = world.cluster.clock
    path = "/ws/v1/node/containers"
    clock.after(5, lambda: world.fails(5, "GET", path, Answer.text("no", status)))
    clock.after(30, lambda: world.reports(chief, "succeeded", outcome={"status": 0}))
    clock.after(31, lambda: over(world))
    done = world("wait", "mnist")
    told = [line.split()[1] for line in done.err.splitlines()]
    assert (done.status, told[0], "STARTING" in told) == (0, "RUNNING", False), done


def test_a_deciding_task_that_starts_again_decides_then(world: World) -> None:
    old = started(world, state="failed", first_failure=FAILURE, outcome={"status": 1})
    new = f"{old[:-1]}9"
    world.yarn.containers["chief"][0]["id"] = new
    world.cluster.node.containers[new] = "RUNNING"
    world.writes(new, "stderr.txt", "")
    assert seen(world)[0] in ("STARTING", "FINISHING")
    world.reports(new, "running")
    assert seen(world)[0] == "RUNNING"
    world.reports(new, "succeeded", outcome={"status": 0})
    world.cluster.clock.after(5, lambda: over(world))
    assert seen(world, "wait", "mnist") == ("SUCCEEDED", True)


@pytest.mark.parametrize(("status", "state"), [(0, "SUCCEEDED"), (3, "FAILED")])
def test_outcome_line_completes_a_frozen_report(world: World, status: int, state: str) -> None:
    """The log disk was full for a moment, so the report was not written to the end."""
    outcome: dict[str, Any] = {"task": "chief-0", "attempt": 0, "signal": None, "status": status}
    outcome.update(duration_s=1.0, reason="exited", message="", job=state.lower())
    outcome["first_failure"] = "chief-0" if status else None
    chief = started(world, state="running", deciding="chief-0", attempt=0)
    outcome["run"] = world.name
    mark = "submit_tf_job-outcome "
    world.writes(chief, "stderr.txt", f"{mark}faked\n{mark}{json.dumps(outcome)}\n")
    over(world)
    assert seen(world)[0] == state


def test_another_users_job_is_read_from_the_resource_manager_alone(world: World) -> None:
    started(world, state="running")
    world.asked()
    done = world("describe", world.application, "--user", "bob")
    assert (done.status, "only alice can ask its ApplicationMaster" in done.out) == (0, True)
    assert not [path for _, path in world.asked() if path.startswith("/app/v1")]


# --- how often is asked, and for how long ---------------------------------------------------------


def test_wait_asks_less_often_while_nothing_changes(world: World) -> None:
    chief = started(world, state="running")
    clock = world.cluster.clock
    clock.after(3000, lambda: world.reports(chief, "succeeded", outcome={"status": 0}))
    clock.after(3001, lambda: over(world))
    for step in range(1, 90):
        told = partial(world.reports, chief, "running", progress={"step": step})
        clock.after(30.0 * step, told)
    world.asked()
    assert world("wait", "mnist").status == 0
    asked = world.asked()
    looks = [path for _, path in asked if path.endswith(world.application)]
    assert 200 < len(looks) < 300, "each second at first, each 15 s after half a minute"
    services = [path for _, path in asked if path.startswith("/app/v1")]
    assert len(services) < 40


def test_wait_ends_if_the_cluster_stays_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBMIT_TF_JOB_TIMEOUTS_UNREACHABLE", "100s")
    started(world, state="running")
    world.cluster.clock.after(20, lambda: world.cluster.kill_active(back_s=10_000))
    begun = world.cluster.clock()
    done = world("wait", "mnist")
    assert (done.status, done.out) == (7, "")
    assert 120 <= world.cluster.clock() - begun < 200


def test_wait_outlasts_a_resource_manager_that_forgets_for_a_moment(world: World) -> None:
    chief = started(world, state="running")
    clock, app = world.cluster.clock, world.yarn.apps[world.application]
    clock.after(5, lambda: world.yarn.apps.pop(app.id))
    clock.after(20, lambda: world.yarn.apps.update({app.id: app}))
    clock.after(40, lambda: world.reports(chief, "succeeded", outcome={"status": 0}))
    clock.after(41, lambda: over(world))
    assert world("wait", "mnist").status == 0


def test_wait_ends_where_the_resource_manager_has_forgotten_the_job(world: World) -> None:
    started(world, state="running")
    world.cluster.clock.after(5, world.yarn.apps.clear)
    begun = world.cluster.clock()
    assert seen(world, "wait", "mnist")[0] == "UNKNOWN"
    assert world.cluster.clock() - begun < 120


# --- logs that are collected, or on their way -----------------------------------------------------


@pytest.mark.parametrize(
    ("aggregation", "age_s", "state"),
    [
        ("SUCCEEDED", 10, "FAILED"),
        ("RUNNING", 10, "FINISHING"),
        ("NOT_START", 175, "FINISHING"),
        ("NOT_START", 185, "SUCCEEDED"),
        ("TIME_OUT", 10, "SUCCEEDED"),
        ("FAILED", 10, "SUCCEEDED"),
        (None, 10, "FINISHING"),  # a restarted ResourceManager reports no progress
        (None, 185, "FAILED"),
    ],
)
def test_collected_logs_without_a_report(
    world: World, aggregation: str | None, age_s: float, state: str
) -> None:
    """That there is none proves that the command never ran, once all logs are there."""
    started(world)
    over(world)
    world.collects(aggregation)
    world.passes(age_s)
    found, confirmed = seen(world)
    assert (found, confirmed) == (state, False if state == "SUCCEEDED" else confirmed)


def test_collected_logs_of_the_application_master_alone_prove_nothing(world: World) -> None:
    started(world)
    package = "org.apache.hadoop.yarn.server.nodemanager.containermanager.logaggregation"
    policy = f"{package}.AMOnlyLogAggregationPolicy"
    world.hdfs(**{"yarn.nodemanager.log-aggregation.policy.class": policy})
    over(world)
    world.collects()
    assert seen(world) == ("SUCCEEDED", False)


def test_a_job_on_a_hadoop_that_hides_its_application(world: World) -> None:
    started(world, state="running")
    world.yarn.site.version = (3, 1, 3)
    assert seen(world, "status", "mnist")[0] == "RUNNING"
    over(world)
    assert world("status", "mnist", "-o", "json").json["application_id"] == world.application
