"""`describe`, `events`, `open`, `tunnel`: tasks, limits, links and what happened."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import World

BOARD: dict[str, Any] = {
    "memory": "1Gi",
    "command": ["board"],
    "ports": {"http": 6006, "https": 8443},
}
ROLES: dict[str, Any] = {
    "chief": {"memory": "1Gi"},
    "worker": {"memory": "1Gi", "instances": 2},
    "board": BOARD,
}


def tasks(world: World) -> dict[str, dict[str, Any]]:
    done = world("describe", "mnist", "-o", "json")
    return {task["task"]: task for task in done.json["task_list"]}


def links(world: World) -> set[tuple[str, str, str]]:
    found = world("describe", "mnist", "-o", "json").json["links"]
    return {(link["task"], link["name"], link["url"]) for link in found}


def test_tasks_of_a_job_without_report(world: World) -> None:
    world.submitted()
    world.runs("worker-0")
    assert {name: (task["state"], task["host"]) for name, task in tasks(world).items()} == {
        "chief-0": ("waiting", None),
        "worker-0": ("ready", "node1"),
        "worker-1": ("waiting", None),
    }


def test_tasks_are_as_the_report_says_and_else_as_yarn_says(world: World) -> None:
    chief = world.running()["chief-0"]
    failed = {"task": "worker-0", "state": "failed", "attempt": 2, "status": 3, "host": "n7"}
    entries = [{**failed, "container": "c7"}, {"task": "worker-1", "state": "absent"}]
    world.reports(chief, "running", tasks=entries)
    found = tasks(world)
    values = ("state", "host", "container_id", "restarts", "status")
    assert [found["worker-0"][value] for value in values] == ["failed", "n7", "c7", 2, 3]
    assert (found["worker-1"]["state"], found["worker-1"]["host"]) == ("ready", "node1")
    lines = world("describe", "mnist").out.splitlines()
    first = lines[lines.index("tasks") + 2].split()
    assert first[:3] + first[4:] == ["worker-0", "failed", "n7", "2", "3", "c7"], "troubles first"


def test_a_lost_task_until_yarn_has_replaced_it(world: World) -> None:
    containers = world.running()
    lost = {"task": "worker-0", "state": "absent", "container": containers["worker-0"]}
    world.reports(containers["chief-0"], "waiting", tasks=[lost])
    assert tasks(world)["worker-0"]["state"] == "lost"
    old = world.yarn.containers["worker"][0]
    new = {**old, "id": f"{old['id'][:-1]}9", "launch_time": 10, "bare_host": "node2"}
    world.yarn.containers["worker"].insert(0, new)
    task = tasks(world)["worker-0"]
    assert (task["state"], task["container_id"], task["host"]) == ("ready", new["id"], "node2")


@pytest.mark.parametrize(
    "value",
    [None, 7, "x", [1, "y"], {}, [{"task": "a-0", "host": "evil.example/x?", "ports": {"x": 1}}]],
)
def test_a_report_without_sense_is_ignored(world: World, value: Any) -> None:
    chief = world.running()["chief-0"]
    whole = dict.fromkeys(("tasks", "events", "served", "start", "generations"), value)
    world.reports(chief, "running", **whole)
    seen = world("describe", "mnist", "-o", "json")
    assert (seen.status, seen.json["links"], seen.json["start"]) == (0, [], None), seen.err
    assert len(seen.json["task_list"]) >= 3
    assert world("events", "mnist").status == 0


def test_links_on_the_host_network_are_those_that_were_bound(world: World) -> None:
    ports = {"http": "auto", "https": 8443}
    chief = world.running("chief-0", "board-0", roles={**ROLES, "board": {**BOARD, "ports": ports}})
    assert links(world) == {("board-0", "https", "https://node1:8443")}
    served = [
        {"task": "board-0", "host": "node1", "ports": {"http": 24001, "https": 8443}},
        {"task": "board-1", "host": "node7", "ports": {"http": 24003}},  # not yet in YARN's list
        {"task": "board-2", "host": "n", "ports": {"http": 70000, "x": True, "y": "80"}},
    ]
    world.reports(chief["chief-0"], "running", served=served)
    assert links(world) == {
        ("board-0", "http", "http://node1:24001"),
        ("board-0", "https", "https://node1:8443"),
        ("board-1", "http", "http://node7:24003"),
    }
    world.ends()
    assert links(world) == set()


def test_links_in_a_docker_network_name_the_node(world: World) -> None:
    world.running("chief-0", "board-0", roles=ROLES)
    spec = world.service["components"][-1]
    network = "YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK"
    published = "YARN_CONTAINER_RUNTIME_DOCKER_PORTS_MAPPING"
    spec["configuration"]["env"] = {network: "bridge", published: "16006:6006,:80,odd,1:2:3"}
    world.yarn.containers["board"][0]["ip"] = "172.18.0.5"
    assert links(world) == {
        ("board-0", "http", "http://node1:16006"),
        ("board-0", "https", "https://172.18.0.5:8443"),
    }
    lines = world("describe", "mnist").out.splitlines()
    far = "  board-0 https  https://172.18.0.5:8443  (reached from node1; elsewhere: "
    assert f"{far}submit_tf_job tunnel JOB board-0)" in lines
    tunnel = world("tunnel", "mnist", "board", "--port", "https", "-q").out
    assert tunnel == "ssh -N -L 8443:172.18.0.5:8443 node1\n"
    edge = world("tunnel", "mnist", "board", "--port", "https", "--via", "edge", "-q").out
    assert edge == "ssh -N -L 8443:172.18.0.5:8443 edge\n"
    near = world("tunnel", "mnist", "board", "--port", "http", "-q").out
    assert near == "ssh -N -L 16006:localhost:16006 node1\n"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("board",), 2, "board serves several ports"),
        (("board", "--port", "x"), 2, "board has no port 'x'"),
        (("chief",), 9, "chief of mnist serves no ports"),
        (("nosuch",), 2, "mnist has no role 'nosuch'"),
        (("board", "--port", "http"), 0, "http://node1:6006"),
    ],
)
def test_open(
    world: World, words: tuple[str, ...], status: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("submit_tf_job.operations.links.is_reachable", lambda *_given: True)
    world.running("chief-0", "board-0", roles=ROLES)
    done = world("open", "mnist", *words)
    assert (done.status, said in done.out + done.err) == (status, True), done


def test_start_times_and_limit(world: World) -> None:
    chief = world.running(lifetime="1h")["chief-0"]
    began = world.yarn.apps[world.application].started_ms / 1000
    times = {"launched_at": began + 2.5, "arrived_at": began + 3, "at": began + 3.25}
    world.reports(chief, "running", start={**times, "by_address": 2})
    done = world("describe", "mnist")
    assert (
        "start  2.5 s until YARN had started every task, 0.5 s until all had found the deciding "
        "task, 0.2 s until the programs started"
    ) in done.out.splitlines()
    assert "lifetime  ends in 59m" in done.out
    [limit] = world("describe", "mnist", "-o", "json").json["limits"]
    assert (limit["name"], 3500 < limit["remaining_s"] <= 3600) == ("lifetime", True)
    past = [{"generation": 0, "task": "worker-0", "at": began + 1}]
    retried = {"generation": 1, "generations": past, "retries": {"max": 3, "used": 1}}
    world.reports(chief, "running", start={**times, "by_address": 0}, **retried)
    assert "start of generation 1  1.5 s until YARN had" in world("describe", "mnist").out
    past[0]["at"] = began + 9  # the next generation has been called, and has not started
    world.reports(chief, "running", start={**times, "by_address": 0}, **retried)
    assert world("describe", "mnist", "-o", "json").json["start"] is None


def test_events_are_in_order_of_time(world: World) -> None:
    chief = world.running()["chief-0"]
    began_ms = world.yarn.apps[world.application].started_ms
    for number, row in enumerate(world.yarn.containers["worker"]):
        row["launch_time"] = began_ms + 1000 * (number + 1)
    said = [{"at": began_ms / 1000 + 1.5, "text": "worker-0 is here"}, {"at": "soon"}, 7]
    world.reports(chief, "running", events=said)
    done = world("events", "mnist", "-o", "json")
    assert [event["text"] for event in done.json["events"]] == [
        f"{world.application} is submitted to queue default by alice",
        "worker-0 is launched on node1",
        "worker-0 is here",
        "worker-1 is launched on node1",
    ]
    assert len(world("events", "mnist").out.splitlines()) == 4
    world.ends()
    over = world("events", "mnist", "-o", "json").json["events"]
    assert over[-1]["text"] == "the application is FINISHED, its final status SUCCEEDED"


# --- which tasks a waiting job waits for ----------------------------------------------------------


def late(world: World) -> list[str]:
    found = world("describe", "mnist", "-o", "json").json["pending"]
    return [cause["sentence"] for cause in found if "worker-0" in str(cause)]


RETRIED: dict[str, Any] = {
    "generation": 1,
    "generations": [{"generation": 0, "task": "worker-0", "message": "worker-0 was lost"}],
    "retries": {"max": 3, "used": 1},
}


@pytest.mark.parametrize(
    ("state", "container", "is_late"),
    [("", "", True), ("restarting", "its own", False), ("absent", "its own", True)],
)
def test_a_task_that_has_not_reported_is_late(
    world: World, state: str, container: str, is_late: bool
) -> None:
    containers = world.running()
    began_ms = world.yarn.apps[world.application].started_ms
    world.yarn.containers["worker"][0]["launch_time"] = began_ms + 5000
    entry = {"task": "worker-0", "state": state, "container": containers["worker-0"]}
    again = {**RETRIED, "tasks": [entry]} if state else {}
    for past in again.get("generations", []):
        past["at"] = began_ms / 1000 + 20
    world.reports(containers["chief-0"], "waiting", arrived=2, missing=["worker-0"], **again)
    world.passes(90)
    assert bool(late(world)) is is_late, world("describe", "mnist").out
