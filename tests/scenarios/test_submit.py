"""`submit` on a simulated YARN: what it posts, prints and returns."""

from __future__ import annotations

import json

from tests.world import World

SPEC = "mnist.yaml"


def test_submit_posts_what_render_prints_and_follows_to_the_end(world: World) -> None:
    world.spec()
    world.cluster.yarn.job_s = 30
    rendered = world("render", SPEC)
    done = world("submit", SPEC, "--timeout", "15m")
    posted = world.cluster.yarn.services["alice", "mnist"].spec
    assert posted == json.loads(rendered.out)
    [app] = world.cluster.yarn.apps.values()
    assert done.err.splitlines()[:3] == [
        f"Submitted mnist ({app.id})",
        "  submit_tf_job watch mnist    submit_tf_job logs mnist -f",
        f"  http://rm1:8088/cluster/app/{app.id}",
    ]
    assert done.out.splitlines()[0].startswith("mnist  SUCCEEDED after ")


def test_submit_detached(world: World) -> None:
    world.spec()
    done = world("submit", SPEC, "--detach", "--submission-id", "run-7")
    [app] = world.cluster.yarn.apps.values()
    assert (done.status, done.out) == (0, f"{app.id}\n")
    assert world.cluster.yarn.services["alice", "mnist"].spec["version"] == "run-7"
    again = world("submit", SPEC, "-d", "-q", "--submission-id", "run-7", "-o", "json")
    assert (again.status, again.err) == (0, "")
    told = {
        "kind": "Submission",
        "name": "mnist",
        "application_id": app.id,
        "submission": "run-7",
        "adopted": True,
        "warnings": [],
    }
    assert told.items() <= again.json.items()
    assert len(world.cluster.yarn.apps) == 1


def test_submit_finds_a_detached_job_which_has_a_lifetime(world: World) -> None:
    world.spec()
    rendered = json.loads(world("render", SPEC).out)
    assert world("submit", SPEC, "--detach").status == 0
    posted = world.cluster.yarn.services["alice", "mnist"].spec
    assert posted == {**rendered, "lifetime": 30 * 86400}
    world.cluster.clock.after(20, world.ends)
    world("submit", SPEC)
    assert len(world.cluster.yarn.apps) == 1


def test_submit_verbose_prints_the_submission_id(world: World) -> None:
    world.spec()
    done = world("submit", SPEC, "--detach", "-v")
    version = world.cluster.yarn.services["alice", "mnist"].spec["version"]
    assert f", submission {version}" in done.err.splitlines()[0]


def test_submit_again_adopts_the_job(world: World) -> None:
    world.submitted()
    world.cluster.clock.after(20, world.ends)
    done = world("submit", SPEC)
    assert f"mnist was submitted before ({world.application})" in done.err.splitlines()
    assert len(world.cluster.yarn.apps) == 1


def test_submit_of_another_job_of_a_living_name_is_refused(world: World) -> None:
    world.submitted()
    world.spec(command=["python", "other.py"])
    done = world("submit", SPEC)
    assert (done.status, done.out) == (6, "")
    assert world.application in done.err
    assert len(world.cluster.yarn.apps) == 1


def test_submit_of_an_invalid_job_spec_sends_no_request(world: World) -> None:
    world.spec(image="Library/TF:2")
    done = world("submit", SPEC)
    assert (done.status, done.out, world.cluster.yarn.apps) == (2, "", {})
    assert done.err.startswith("mnist.yaml:2:1: image: 'Library/TF:2' is not an image name")
    assert world.cluster.yarn.serial == 0


def test_submit_with_logs_shows_the_output(world: World) -> None:
    world.submitted()
    chief = world.runs("chief-0", "worker-0", "worker-1")["chief-0"]
    world.reports(chief, "running")
    text = b"Epoch 1/3\n1/2 [=>]\r2/2 [==] FAILED \x1b[1mtests\x1b[0m\n"
    world.cluster.clock.after(20, lambda: world.writes(chief, "stdout.txt", text))
    world.cluster.clock.after(90, lambda: world.reports(chief, "succeeded", outcome={"status": 0}))
    world.cluster.clock.after(91, world.ends)
    done = world("submit", SPEC, "--logs")
    lines = [line for line in done.err.splitlines() if line.startswith("chief-0 | ")]
    assert lines == ["chief-0 | Epoch 1/3", "chief-0 | 2/2 [==] FAILED tests"], done.err
