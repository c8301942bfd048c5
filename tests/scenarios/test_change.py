"""`scale`, `restart`, `priority`, `move`, `extend`: what changes a job while it runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import World
from tests.world.transport import Answer

ROLES: dict[str, Any] = {
    "chief": {"memory": "1Gi"},
    "worker": {"memory": "1Gi", "instances": 2},
    "board": {"memory": "1Gi", "command": ["board"]},
}
ELASTIC: dict[str, Any] = {
    "retries": {"max": 2},
    "roles": {**ROLES, "worker": {"memory": "1Gi", "instances": {"min": 1, "max": 3}}},
}
CHANGES = [
    ("scale", "board=2"),
    ("restart", "board-0"),
    ("priority", "3"),
    ("move", "ml"),
    ("extend", "10m"),
]
SERVICE = "/app/v1/services/mnist-"
TORN = Answer.json({"diagnostics": "No content to map due to end-of-input"}, 500)


def change(world: World, words: tuple[str, ...], job: str = "mnist", *options: str) -> Any:
    return world(words[0], job, *words[1:], *options)


def writes(world: World) -> list[str]:
    """Return the methods of the requests that may have changed something."""
    return [method for method, _ in world.asked() if method != "GET"]


def count(world: World, role: str) -> int:
    spec = world.service
    return next(int(c["number_of_containers"]) for c in spec["components"] if c["name"] == role)


@pytest.mark.parametrize("words", CHANGES)
def test_change_refuses_another_users_job(world: World, words: tuple[str, ...]) -> None:
    app_id = world.submitted(roles=ROLES)
    world.asked()
    done = change(world, words, app_id, "--user", "bob")
    assert (done.status, done.out) == (4, "")
    assert "is a job of alice, and you are bob" in done.err
    assert writes(world) == []


@pytest.mark.parametrize("words", CHANGES)
def test_change_of_a_job_that_is_unknown_or_over(world: World, words: tuple[str, ...]) -> None:
    assert change(world, words).status == 5
    assert change(world, words, "application_1700000000000_0099").status == 5
    world.submitted(roles=ROLES)
    world("stop", "mnist")
    done = change(world, words)
    assert (done.status, "mnist is over (STOPPED)" in done.err) == (9, True), done.err


# --- scale ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "strategy", "said"),
    [
        ("wrker=2", "multi-worker", "has no role 'wrker'"),
        ("board=-1", "multi-worker", "'board=-1' is not ROLE=N"),
        ("chief=2", "multi-worker", "strategy multi-worker reads its members from TF_CONFIG"),
        ("worker=3", "multi-worker", "submit it again with --set roles.worker.instances=N"),
        ("worker=3", "custom", "the job waits for each of its tasks"),
    ],
)
def test_scale_refuses_tensorflow_roles(world: World, words: str, strategy: str, said: str) -> None:
    world.submitted(strategy=strategy, roles=ROLES)
    world.asked()
    done = world("scale", "mnist", words)
    assert (done.status, said in done.err, writes(world)) == (2, True, []), done.err


def test_scale_of_a_sidecar(world: World) -> None:
    world.submitted(roles=ROLES)
    done = world("scale", "mnist", "board=3", "--no-wait")
    assert (done.status, done.out) == (0, "Scaled board from 1 to 3 tasks\n")
    assert count(world, "board") == 3
    world.asked()
    assert world("scale", "mnist", "board=3").out == "board already has 3 tasks\n"
    assert writes(world) == []


def test_scale_waits_until_the_tasks_run(world: World) -> None:
    world.submitted(roles=ROLES)
    world.runs("board-0")
    world.cluster.clock.after(30, lambda: world.runs("board-1"))
    begun = world.cluster.clock()
    assert world("scale", "mnist", "board=2").status == 0
    assert world.cluster.clock() - begun >= 30
    late = world("scale", "mnist", "board=5")
    assert (late.status, "does not have 5 running tasks yet" in late.err) == (8, True)


def test_scale_of_an_elastic_role_keeps_to_its_bounds(world: World) -> None:
    world.submitted(**ELASTIC)
    for number in (0, 4):
        done = world("scale", "mnist", f"worker={number}")
        assert (done.status, done.out) == (2, "")
        assert f"worker={number}: the role is elastic, with 1 to 3 tasks" in done.err
    assert "witness cannot be scaled: by its exit" in world("scale", "mnist", "witness=2").err
    fewer = world("scale", "mnist", "worker=1", "--no-wait").out
    assert fewer == "Scaled worker from 3 to 1 tasks; all tasks start again without the others\n"
    more = world("scale", "mnist", "worker=3", "--no-wait").out
    assert more.startswith("Scaled worker from 1 to 3 tasks; the new ones join when")


@pytest.mark.parametrize(
    ("caps", "words", "said"),
    [
        ("tasks: 4", ("scale", "board=2"), "5 tasks, and caps.tasks allows 4 tasks (set by "),
        ("memory: 5Gi", ("scale", "board=3"), "6Gi, and caps.memory allows 5Gi"),
        ("gpus: 3", ("scale", "board=4"), "4 GPUs, and caps.gpus allows 3 GPUs"),
        ("lifetime: 10m", ("extend", "2h"), "caps.lifetime allows 10m"),
    ],
)
def test_changes_keep_to_the_caps_of_the_settings(
    world: World, caps: str, words: tuple[str, ...], said: str
) -> None:
    board = {**ROLES["board"], "gpus": 1}
    world.yarn.site.max_gpus = 8
    world.submitted(roles={**ROLES, "board": board}, lifetime="5m")
    settings = world.home / ".config/submit_tf_job/settings.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"caps: {{{caps}}}\n")
    world.asked()
    done = change(world, words)
    assert (done.status, said in done.err, writes(world)) == (9, True, []), done.err
    world.service["components"][-1]["number_of_containers"] = 9
    fewer = world("scale", "mnist", "board=8", "--no-wait")
    assert fewer.status == 0, "fewer tasks are always allowed"


def test_scale_of_a_job_that_ends_meanwhile(world: World) -> None:
    world.submitted(roles=ROLES)
    world.cluster.clock.after(5, lambda: world.ends("KILLED", "KILLED"))
    done = world("scale", "mnist", "board=2")
    assert (done.status, "mnist is over (STOPPED)" in done.err) == (9, True), done.err


def test_scale_where_another_command_scales_the_role_meanwhile(world: World) -> None:
    world.submitted(roles=ROLES)
    four = {"number_of_containers": 4}
    world.cluster.clock.after(1, lambda: world.service["components"][-1].update(four))
    done = world("scale", "mnist", "board=3")
    assert done.status == 9
    assert "another command has scaled board to 4 tasks" in done.err
    assert done.err.endswith("submit_tf_job scale mnist board=3\n")


def test_change_at_the_same_moment_as_another_is_sent_again(world: World) -> None:
    """The slower of two changes that write the stored service gets this."""
    path = "/user/alice/.yarn/services/mnist-4k3f7qa2/mnist-4k3f7qa2.json"
    words = (
        f"File does not exist: {path} (inode 16533) Holder DFSClient_NONMAPREDUCE_4657_33 does "
        f"not have any open files.\n\tat org.apache.hadoop.hdfs.server.namenode"
    )
    overwritten = Answer.json({"diagnostics": words}, 500)
    world.submitted(roles=ROLES)
    world.fails(3, "PUT", "", overwritten)
    world.fails(3, "GET", SERVICE, TORN)
    assert world("scale", "mnist", "board=3", "--no-wait").status == 0
    assert world.cluster.network.faults == []
    world.fails(99, "PUT", "", overwritten)
    done = world("scale", "mnist", "board=2", "--no-wait")
    assert (done.status, "Other commands are changing mnist-" in done.err) == (7, True), done


# --- restart --------------------------------------------------------------------------------------


def test_restart_ends_the_container_and_waits_for_the_next(world: World) -> None:
    board = {**ROLES["board"], "restart": "on-failure"}
    old = world.running("chief-0", "board-0", roles={**ROLES, "board": board})["board-0"]

    def replaced() -> None:
        world.yarn.containers["board"][0]["id"] = f"{old[:-1]}9"

    world.cluster.clock.after(20, replaced)
    done = world("restart", "mnist", "board-0")
    assert done.out == f"board-0 is started again; its container {old} was ended\n", done
    assert world.yarn.signals == [(old, "GRACEFUL_SHUTDOWN")]


@pytest.mark.parametrize(
    ("task", "changes", "said"),
    [
        ("board-7", {}, "mnist has no task 'board-7'"),
        ("chief-0", {}, "chief-0 decides the job"),
        ("worker-0", {}, "tasks of worker cannot be restarted under strategy multi-worker"),
        ("ps-0", {"strategy": "parameter-server"}, "cannot be restarted under strategy parameter-"),
        ("worker-0", {"strategy": "parameter-server"}, "--set roles.worker.restart=on-failure"),
        ("board-0", {}, "--set roles.board.restart=on-failure"),
        ("worker-0", ELASTIC, "worker-0 cannot start again alone: by `retries`"),
    ],
)
def test_restart_refuses_what_would_fail_the_job(
    world: World, task: str, changes: dict[str, Any], said: str
) -> None:
    """It hints only at what `validate` accepts."""
    roles = {**ROLES, "ps": {"memory": "1Gi"}} if changes.get("strategy") else ROLES
    world.running("chief-0", "worker-0", "board-0", "ps-0", **{"roles": roles, **changes})
    done = world("restart", "mnist", task)
    assert (done.status, said in done.err, world.yarn.signals) == (2, True, []), done.err
    if "--set" in said:
        option = said.partition("--set ")[2]
        assert world("validate", "mnist.yaml", "--set", option).status == 0


# --- priority, move, extend -----------------------------------------------------------------------


def test_priority(world: World) -> None:
    app_id = world.submitted()
    refused = world("priority", "mnist", "3")
    assert (refused.status, refused.out) == (9, "")
    assert "priority 3 exceeds the cluster maximum of 0; unchanged" in refused.err
    world.yarn.site.most_priority = 5
    assert world("priority", "mnist", "3").out == "mnist has priority 3 now\n"
    assert world.yarn.apps[app_id].priority == 3
    assert world("priority", "mnist", "3").out == "mnist has priority 3 already\n"


def test_submit_sets_the_priority_also_when_it_finds_its_job_again(world: World) -> None:
    world.yarn.site.most_priority = 10
    app = world.yarn.apps[world.submitted(priority=5)]
    assert app.priority == 5
    app.priority = 0  # its client died after the POST
    assert world("submit", "mnist.yaml", "-d").status == 0
    assert app.priority == 5


def test_submit_warns_where_the_cluster_does_not_set_the_priority(world: World) -> None:
    world.spec(priority=5)
    done = world("submit", "mnist.yaml", "-d", "-o", "json")
    [warning] = done.json["warnings"]
    assert (done.status, warning) == (
        0,
        "priority 5 was not set, and mnist runs without it: priority 5 exceeds the cluster maximum "
        "of 0; unchanged; to set it later: submit_tf_job priority mnist 5",
    )


def test_move(world: World) -> None:
    app_id = world.submitted()
    assert world("move", "mnist", "ml").out == "mnist is in queue ml now; it was in default\n"
    assert world.yarn.apps[app_id].queue == "ml"
    assert world("move", "mnist", "root.ml").out == "mnist is in queue root.ml already\n"
    assert world("move", "mnist", "nosuch").status == 9


def test_extend_never_shortens_and_says_until_when(world: World) -> None:
    app_id = world.submitted()
    app = world.yarn.apps[app_id]
    app.lifetime_s = None
    assert world("extend", "mnist", "10m").out == "mnist has no time limit\n"
    app.lifetime_s = 3600
    assert world("extend", "mnist", "10m").out.startswith("mnist may already run until ")
    assert world("extend", "mnist", "2h").out.startswith("mnist may now run until ")
    assert app.lifetime_s == pytest.approx(7200 + 10, abs=5)
    world.yarn.site.longest_s = 7300
    refused = world("extend", "mnist", "9h")
    assert (refused.status, "its queue limits the lifetime" in refused.err) == (9, True)


def test_delete_of_another_users_run_is_refused(world: World) -> None:
    first = world.submitted()
    world.ends()
    foreign = world("delete", first, "--user", "bob", "--force")
    assert (foreign.status, "lets only the owner delete it" in foreign.err) == (4, True)
