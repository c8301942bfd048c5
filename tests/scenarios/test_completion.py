"""Completion of jobs, tasks and roles: from the cluster, silently and in bounded time."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from submit_tf_job.errors import ClusterUnavailable
from tests.builders.command_line import Cli
from tests.world import RM, World


@pytest.fixture
def shell(world: World, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that asks for the completions of a line, as fish does."""
    monkeypatch.setitem(sys.modules, "rich", None)  # as completion does in its own process
    monkeypatch.setattr("submit_tf_job.cli.completion.ANSWER_S", 60)
    monkeypatch.setenv("SUBMIT_TF_JOB_RESOURCE_MANAGERS", RM)
    monkeypatch.setenv("_SUBMIT_TF_JOB_COMPLETE", "complete_fish")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")

    def offered(line: str) -> list[str]:
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", f"submit_tf_job {line}")
        done = cli()
        assert done.err == ""
        return sorted(filter(None, (text.partition("\t")[0] for text in done.out.splitlines())))

    def submitted(**changes: Any) -> None:
        monkeypatch.delenv("_SUBMIT_TF_JOB_COMPLETE")
        world.submitted(**changes)
        monkeypatch.setenv("_SUBMIT_TF_JOB_COMPLETE", "complete_fish")

    offered.submitted = submitted  # type: ignore[attr-defined]
    return offered


def test_completion_of_jobs_tasks_and_roles(shell: Any) -> None:
    roles = {"chief": {"memory": "1Gi"}, "board": {"memory": "1Gi", "instances": 2, "command": "b"}}
    shell.submitted(strategy="custom", roles=roles)
    assert shell("status ") == ["mnist"]
    assert shell("status x") == []
    assert shell("restart mnist ") == ["board-0", "board-1", "chief-0"]
    assert shell("logs mnist board") == ["board", "board-0", "board-1"]
    assert shell("logs mnist a") == ["am"]
    assert shell("scale mnist ") == [], "neither a chief nor another role that trains"


def test_completion_offers_the_roles_that_can_be_scaled(world: World, shell: Any) -> None:
    sized = {"memory": "1Gi"}
    monitor = {**sized, "instances": 1, "command": "b"}
    workers = {**sized, "instances": {"min": 1, "max": 4}}
    shell.submitted(strategy="torch", retries=2, roles={"worker": workers, "monitor": monitor})
    assert "witness" in {component["name"] for component in world.service["components"]}
    assert shell("scale mnist ") == ["monitor=", "worker="]


@pytest.mark.parametrize("line", ["status ", "restart mnist ", "logs mnist ", "list --profile "])
def test_completion_offers_nothing_after_errors(world: World, shell: Any, line: str) -> None:
    (world.home / "submit_tf_job.yaml").write_text("profiles: [\n")
    assert shell(line) == []


@pytest.mark.parametrize("how", ["slow", "down", "asks for a password"])
def test_completion_of_a_silent_cluster(
    world: World, shell: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    asked, answered, go_on = threading.Event(), threading.Event(), threading.Event()
    if how == "slow":
        monkeypatch.setattr("submit_tf_job.cli.completion.ANSWER_S", 0.1)

    def send(*_given: object, **_named: object) -> Any:
        asked.set()
        if how == "slow":
            go_on.wait(60)
        answered.set()
        raise ClusterUnavailable("down")

    world.cluster.connection.send = send  # type: ignore[method-assign]
    if how == "asks for a password":
        path = world.home / ".config/submit_tf_job/settings.yaml"
        path.parent.mkdir(parents=True)
        path.touch(0o600)
        path.write_text("credentials: {command: [cat]}\nauth: bearer\n")
    assert shell("status ") == []
    if how == "slow":  # on a busy machine it is asked after the completion has ended
        assert asked.wait(60)
        assert not answered.is_set(), "the answer was waited for"
    go_on.set()
    assert asked.is_set() is (how != "asks for a password")
