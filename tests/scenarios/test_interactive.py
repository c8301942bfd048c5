"""`notebook` and `tensorboard`: jobs that serve a page, on a simulated YARN."""

from __future__ import annotations

import json
import stat
from typing import Any

import pytest
import yaml

from tests.builders.command_line import Done
from tests.builders.host import hadoop_xml
from tests.world import World
from tests.world.storage import Hdfs

TOKEN = ".local/state/submit_tf_job/notebooks/notebook.token"
IMAGE = ("--image", "jupyter/tf:1")


@pytest.fixture
def staged(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return the world with a staging directory on this disk."""
    monkeypatch.setenv("SUBMIT_TF_JOB_STAGING", (world.home / "staging").as_uri())
    monkeypatch.setenv("SUBMIT_TF_JOB_DNS_DOMAIN", "example.com")
    return world


def served(world: World, task: str, *words: str) -> Done:
    """Run a command whose job serves a page 20 s later."""

    def serves() -> None:
        [app] = world.yarn.apps
        world.application = app
        [(_user, world.name)] = world.yarn.directories
        container = world.runs(task)[task]
        port = [{"task": task, "host": "node1", "ports": {"http": 20123}}]
        roles = {task.rpartition("-")[0]: {"wanted": 1, "running": 1}}
        world.reports(container, "running", served=port, wanted=1, arrived=1, roles=roles)

    world.cluster.clock.after(20, serves)
    return world(*words)


def test_notebook_is_a_job_whose_token_nobody_sees(staged: World) -> None:
    world = staged
    given = (*IMAGE, "--memory", "8Gi", "--lifetime", "2h")
    spec = yaml.safe_load(world("notebook", *given, "--gpus", "1", "--print").out)
    assert not (world.home / TOKEN).exists(), "nothing is made for --print"
    assert (spec["lifetime"], spec["image"], spec["stop_grace"]) == ("2h", "jupyter/tf:1", "30s")
    assert spec["roles"] == {"notebook": {"memory": "8Gi", "gpus": 1, "ports": {"http": "auto"}}}
    done = served(world, "notebook-0", "notebook", *given)
    assert done.out == "http://node1:20123\n", done.err
    assert f"its token is in {world.home / TOKEN}" in done.err
    assert "it does not answer from here yet" in done.err, "nothing listens on node1"
    assert "by Registry DNS: http://notebook-0.notebook-" in done.err
    assert "to end it: submit_tf_job stop notebook" in done.err
    token = (world.home / TOKEN).read_text().strip()
    assert stat.S_IMODE((world.home / TOKEN).stat().st_mode) == 0o600
    assert len(token) > 40
    assert token not in str(world.service)
    assert token not in done.out + done.err
    assert "JUPYTER_TOKEN=$(cat .jupyter-token)" in str(world.service)
    again = world("notebook", *given, "-o", "json").json
    assert (again["kind"], again["url"], again["run"]) == (
        "Served",
        "http://node1:20123",
        world.name,
    )
    assert (world.home / TOKEN).read_text().strip() == token


def test_notebook_without_staging_would_show_its_token(world: World) -> None:
    done = world("notebook", *IMAGE)
    assert done.status == 2
    assert "a notebook needs a staging directory" in done.err


def test_notebook_keeps_notebooks_where_there_is_hdfs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world.home / "core-site.xml").write_text("<configuration/>")
    monkeypatch.setenv("SUBMIT_TF_JOB_HADOOP_CONF", str(world.home))
    spec = yaml.safe_load(world("notebook", *IMAGE, "--print", "--user", "alice").out)
    [kept] = spec["outputs"].values()
    assert (kept["uri"], kept["collect"]) == ("hdfs:///user/alice/notebook/notebooks", ["*.ipynb"])


def test_notebooks_of_an_earlier_session_stay(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = hadoop_xml({"fs.defaultFS": "hdfs://nn.example.com:8020"})
    (world.home / "core-site.xml").write_text(core)
    monkeypatch.setenv("SUBMIT_TF_JOB_HADOOP_CONF", str(world.home))
    hdfs = Hdfs(world.yarn, lambda _what: None)
    monkeypatch.setattr("submit_tf_job.storage.open_storage", lambda *_given, **_named: hdfs)
    notebooks, files = "/user/alice/notebook/notebooks", world.yarn.files

    def ends() -> None:
        [app] = [app for app in world.yarn.apps.values() if not app.over]
        world.application, world.name = app.id, app.name
        world.ends()

    def output() -> dict[str, Any]:
        """Let a session begin and end; return its output."""
        world.cluster.clock.after(20, ends)
        world("notebook", *IMAGE)
        found = [json.loads(text) for path, text in files.items() if "/records/" in path and text]
        spec: dict[str, Any] = yaml.safe_load(found[-1]["submission"]["spec"])
        return dict(spec["outputs"]["notebooks"])

    assert output()["uri"] == f"hdfs://{notebooks}"
    assert output()["uri"] == f"hdfs://{notebooks}", "the first was stopped, and stored beside it"
    hdfs.mkdirs(notebooks)
    last = output()
    assert last["uri"] == f"hdfs://{notebooks}-2"
    assert "overwrite" not in last


def test_tensorboard_of_directories(world: World) -> None:
    uris = ("hdfs:///models/Mnist-1/events", "s3://bucket/x/events")
    spec = yaml.safe_load(world("tensorboard", *uris, *IMAGE, "--print").out)
    assert spec["inputs"] == {
        "events": {"uri": uris[0], "download": True},
        "events_1": {"uri": uris[1], "download": True},
    }
    assert spec["command"].startswith("exec tensorboard --logdir tfjob-inputs --port")


def test_tensorboard_shows_each_of_several_directories(world: World) -> None:
    long = "hdfs:///models/ranker-of-november-with-all-features"
    uris = ("hdfs:///a/logs", "hdfs:///a/logs_2", "hdfs:///b/logs", long, f"{long}/")
    done = world("tensorboard", *uris, *IMAGE, "--print")
    found = yaml.safe_load(done.out)["inputs"]
    assert [one["uri"] for one in found.values()] == [*uris]
    (world.home / "board.yaml").write_text(done.out)
    assert world("validate", str(world.home / "board.yaml")).status == 0


def test_tensorboard_of_a_job_that_is_over(staged: World) -> None:
    world = staged
    container = world.running()["chief-0"]
    outputs = [{"name": name, "uri": f"hdfs:///m/{name}", "tasks": 1} for name in ("model", "logs")]
    end = {"outputs": outputs, "outcome": {"status": 0}, "ended_at": 2e9}
    world.reports(container, "succeeded", **end)
    world.ends()
    assert world("status", "mnist").status == 0
    spec = yaml.safe_load(world("tensorboard", "mnist", *IMAGE, "--print").out)
    assert spec["inputs"] == {"mnist_logs": {"uri": "hdfs:///m/logs", "download": True}}
    assert world("tensorboard", "nothing", *IMAGE, "--print").status == 5


def test_tensorboard_of_a_job_without_a_record(staged: World) -> None:
    staged.submitted()
    for record in (staged.home / "staging/records/mnist").iterdir():
        record.unlink()
    done = staged("tensorboard", "mnist", *IMAGE, "--print")
    assert (done.status, done.err.splitlines()[0]) == (
        2,
        "error: mnist has no outputs that are known",
    )
