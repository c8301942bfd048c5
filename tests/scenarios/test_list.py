"""`list` and `watch` of many jobs: their rows, filters and requests."""

from __future__ import annotations

import pytest

import submit_tf_job
from tests.world import RM, World

APPS = "/ws/v1/cluster/apps"


def ended(world: World, name: str, final: str = "SUCCEEDED", user: str = "alice") -> None:
    app = world.yarn.submit_app(user, {"name": name})
    world.yarn.end(app, "FINISHED", final)


def rows(world: World, *options: str) -> dict[str, str]:
    """Return the state of each job of a list, the newest first."""
    found = world("list", *options, "-o", "json").json["jobs"]
    return {job["name"]: job["state"] for job in found}


@pytest.mark.parametrize(
    ("state", "final", "means"),
    [
        ("NEW", "UNDEFINED", "PENDING"),
        ("ACCEPTED", "UNDEFINED", "PENDING"),
        ("RUNNING", "UNDEFINED", "RUNNING"),
        ("FINISHED", "SUCCEEDED", "SUCCEEDED"),
        ("FINISHED", "FAILED", "FAILED"),
        ("FINISHED", "ENDED", "STOPPED"),
        ("FINISHED", "KILLED", "STOPPED"),
        ("FAILED", "FAILED", "FAILED"),
        ("KILLED", "KILLED", "STOPPED"),
        ("DREAMING", "UNDEFINED", "UNKNOWN"),
    ],
)
def test_list_says_a_state(world: World, state: str, final: str, means: str) -> None:
    app = world.yarn.submit_app("alice", {"name": "mnist"})
    app.state, app.final = state, final
    assert rows(world) == {"mnist": means}


def test_list_filters(world: World) -> None:
    ended(world, "old", "FAILED")
    ended(world, "theirs", user="bob")
    world.submitted()
    world.yarn.full = True
    world.yarn.submit_app("alice", {"name": "queued", "queue": "ml"})
    assert rows(world) == {"mnist": "RUNNING", "queued": "PENDING", "old": "FAILED"}
    assert set(rows(world, "--all-users")) == {"mnist", "queued", "theirs", "old"}
    assert set(rows(world, "--owner", "bob")) == {"theirs"}
    assert set(rows(world, "--state", "failed")) == {"old"}
    assert set(rows(world, "--state", "active", "--limit", "1")) == {"queued"}
    assert set(rows(world, "--queue", "ml")) == {"queued"}
    assert set(rows(world, "--since", "99999d")) == {"mnist", "queued", "old"}, "before 1970"
    for wrong in (("--state", "odd"), ("--owner", "a", "--all-users"), ("--since", "soon")):
        assert world("list", *wrong).status == 2


def test_jobs_are_chosen_by_patterns_of_their_names(world: World) -> None:
    for name in ("hpo-1", "hpo-2", "other"):
        ended(world, name)
    client = submit_tf_job.Client(resource_managers=[RM], user="alice")
    for names, chosen in {"hpo-*": {"hpo-1", "hpo-2"}, "hpo-[2]": {"hpo-2"}, "hpo": set()}.items():
        assert {job.name for job in client.jobs(names=[names])} == chosen


def test_list_has_columns(world: World) -> None:
    app_id = world.submitted()
    heading, row = world("list").out.splitlines()
    assert heading.split()[:3] == ["NAME", "STATE", "QUEUE"]
    assert row.split()[:3] == ["mnist", "RUNNING", "default"]
    assert row.endswith(app_id)
    assert "no jobs" in world("list", "--owner", "bob").out


def test_list_sends_one_request(world: World) -> None:
    for number in range(15):
        ended(world, f"job{number}", "FAILED")
        world.passes(0.1)
        world.yarn.submit_app("alice", {"name": f"job{number}"})
    assert len(rows(world)) == 15
    assert world.asked() == [("GET", APPS)]


def test_list_says_a_name_that_is_shortened_in_the_name_of_its_run(world: World) -> None:
    name = "recommendations-of-the-whole-catalogue-of-all-shops"
    world.submitted(name)
    assert not world.name.startswith(name), "no short form"
    world.hdfs()
    assert rows(world) == {name: "RUNNING"}
    world.cluster.clock.after(30, world.ends)
    assert {line.split()[0] for line in world("watch").out.splitlines()} == {name}
    assert world("list").out.splitlines()[1].startswith(f"{name}  SUCCEEDED ")
    assert set(rows(world, "--runs")) == {name}


# --- watch ----------------------------------------------------------------------------------------


def test_watch_of_all_jobs_prints_each_change_until_all_are_over(world: World) -> None:
    """10,000 jobs that were over before are 14 MB in each response, and are not asked for."""
    ended(world, "old")
    first = world.submitted()
    world.yarn.full = True
    other = world.yarn.submit_app("alice", {"name": "other"})
    world.cluster.clock.after(30, lambda: world.yarn.end(other, "FINISHED", "FAILED"))
    world.cluster.clock.after(60, lambda: world.cluster.kill_active(back_s=30))
    world.cluster.clock.after(120, world.ends)
    world.asked()
    done = world("watch")
    assert done.status in (0, 1), done
    lines = [line.split() for line in done.out.splitlines()]
    told = [(words[0], words[1]) for words in lines]
    # if a look falls between the start of the ResourceManager and the ApplicationMaster's return
    again = [("mnist", "PENDING"), ("mnist", "RUNNING")]
    assert told[:3] == [("other", "PENDING"), ("mnist", "RUNNING"), ("other", "FAILED")], done.out
    assert told[3:] in ([("mnist", "SUCCEEDED")], [*again, ("mnist", "SUCCEEDED")]), done.out
    assert "still trying: " in done.err
    assert first in done.out
    assert len(world.asked()) < 60


def test_watch_keeps_a_job_that_is_missing_for_a_moment(world: World) -> None:
    """A ResourceManager that recovers its state lists fewer."""
    app = world.yarn.apps[world.submitted()]
    world.cluster.clock.after(10, lambda: world.yarn.apps.pop(app.id))
    world.cluster.clock.after(25, lambda: world.yarn.apps.update({app.id: app}))
    world.cluster.clock.after(60, world.ends)
    done = world("watch")
    assert [line.split()[1] for line in done.out.splitlines()] == ["RUNNING", "SUCCEEDED"], done
    world.yarn.full = True
    app = world.yarn.submit_app("alice", {"name": "lost"})
    world.cluster.clock.after(20, lambda: world.yarn.apps.pop(app.id))
    assert world("watch").out.splitlines()[-1].split()[1] == "UNKNOWN"
