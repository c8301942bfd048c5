"""docs/verdict.md: each row of its table that a real cluster can produce."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest
import requests

from tests.clusters import Cluster
from tests.promises.conftest import SMALL, Fleet, readable
from tests.tool import SUBMIT_S, Result, Tool, bootstrap_of, gone

pytestmark = pytest.mark.cluster

PAIR = {"chief": SMALL, "worker": SMALL}
FOREVER = "sleep 3600"


def alone(command: object, **more: Any) -> dict[str, Any]:
    """Return a job of one task."""
    return {"strategy": "single", "command": command, "roles": {"worker": SMALL}, **more}


@pytest.fixture(scope="module")
def ends(fleet: Fleet, tool: Tool) -> Mapping[str, Future[Result]]:
    """All jobs of this file that end by themselves."""

    def python(name: str, text: str) -> str:
        path = tool.cwd / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(readable(path))

    worker_1 = 'if [ "$TFJOB_INDEX" = 1 ]; then echo cannot >&2; exit 7; fi; sleep 3600'
    three = {"strategy": "multi-worker", "roles": {"worker": {**SMALL, "instances": 2}}}
    swallows = python("swallows", "exit 0")
    after = python("after", '/usr/bin/python3 "$@"; exit 9')
    before = python(
        "before", 'case "$TFJOB_INSTANCE" in worker-*) exit 7;; esac; exec /usr/bin/python3 "$@"'
    )
    return fleet(
        {
            "succeeds": {"strategy": "multi-worker", "roles": PAIR, "command": "sleep 1"},
            "exits-7": {**three, "command": worker_1},
            "never-ran": alone("true", python=swallows),
            "contradicted": alone("true", python=after),
            "no-python": {
                "strategy": "multi-worker",
                "roles": PAIR,
                "command": FOREVER,
                "python": before,
            },
            "lifetime": alone(FOREVER, lifetime="20s"),
            "sidecar": {
                "strategy": "custom",
                "roles": {
                    "chief": {**SMALL, "command": "sleep 4"},
                    "web": {**SMALL, "kind": "sidecar", "command": "exit 3"},
                },
            },
        }
    )


@pytest.mark.parametrize(
    ("name", "status", "state", "confirmed", "final_status", "reason"),
    [
        ("succeeds", 0, "SUCCEEDED", True, "SUCCEEDED", ""),
        ("exits-7", 1, "FAILED", True, "FAILED", "worker-1 exited with status 7"),
        ("never-ran", 1, "FAILED", False, "SUCCEEDED", "its command never ran"),
        ("contradicted", 1, "FAILED", False, "FAILED", "reports success, but YARN reports FAILED"),
        ("no-python", 1, "FAILED", None, "KILLED", "worker-0 failed before its bootstrap"),
        ("lifetime", 3, "STOPPED", True, "KILLED", "lifetime"),
        ("sidecar", 0, "SUCCEEDED", True, "SUCCEEDED", ""),
    ],
)
def test_verdict_of_job_that_ends(
    ends: Mapping[str, Future[Result]],
    tool: Tool,
    name: str,
    status: int,
    state: str,
    confirmed: bool | None,
    final_status: str,
    reason: str,
) -> None:
    done = ends[name].result()
    assert done.status == status, (done.stdout, done.stderr)
    told = done.json
    assert (told["state"], told["yarn"]["final_status"]) == (state, final_status), told
    assert reason in told["reason"], told["reason"]
    assert confirmed in (None, told["confirmed"]), told
    later = tool("wait", told["application_id"], "-o", "json")
    assert (later.status, later.json["state"], later.json["reason"]) == (
        status,
        state,
        told["reason"],
    )
    gone(told["name"])


@pytest.fixture(scope="module")
def running(tool: Tool, unique: str) -> Mapping[str, dict[str, Any]]:
    """Jobs that a test ends, all in state RUNNING."""
    specs = {
        "stopped": {"strategy": "multi-worker", "roles": PAIR, "command": FOREVER},
        "killed-app": alone(FOREVER),
        "killed-task": {"strategy": "multi-worker", "roles": PAIR, "command": FOREVER},
        "failed-first": {
            "strategy": "multi-worker",
            "grace": "60s",
            "command": f'trap "" TERM; if [ $TFJOB_ROLE = worker ]; then exit 4; fi; {FOREVER}',
            "roles": PAIR,
        },
    }
    paths = {name: tool.spec(f"{name}-{unique}", **spec) for name, spec in specs.items()}
    for path in paths.values():
        assert tool("submit", path, "--detach", "-q").status == 0
    return {
        name: tool.until(
            f"{name}-{unique}", lambda seen: seen["state"] not in ("PENDING", "STARTING")
        )
        for name in specs
    }


def test_failure_tells_the_last_words(ends: Mapping[str, Future[Result]], tool: Tool) -> None:
    told = ends["exits-7"].result().json
    assert (told["failure"]["task"], told["failure"]["status"]) == ("worker-1", 7)
    assert "cannot" in told["failure"]["last_lines"]
    text = tool("wait", told["name"]).stdout
    assert "cannot" in text
    assert "exit status 7" in text


def test_stopped_job_is_stopped(tool: Tool, running: Mapping[str, dict[str, Any]]) -> None:
    name = running["stopped"]["name"]
    assert tool.stop(name, "-o", "json").json["state"] == "STOPPED"
    assert tool.stop(name).status == 0, "stopping is idempotent"
    assert tool("wait", name).status == 3
    gone(name)


def test_application_killed_in_yarn_is_stopped_by_whom(
    tool: Tool, simple: Cluster, running: Mapping[str, dict[str, Any]]
) -> None:
    job = running["killed-app"]
    url = f"{simple.info['rm_url']}/ws/v1/cluster/apps/{job['application_id']}/state"
    user = {"user.name": job["user"]}
    answer = requests.put(url, json={"state": "KILLED"}, params=user, timeout=SUBMIT_S)
    assert answer.status_code in (200, 202), answer.text
    done = tool("wait", job["name"], "-o", "json")
    assert (done.status, done.json["state"], done.json["yarn"]["final_status"]) == (
        3,
        "STOPPED",
        "KILLED",
    )
    gone(job["name"])


def test_killed_task_fails_job_and_is_named(
    tool: Tool, running: Mapping[str, dict[str, Any]]
) -> None:
    name = running["killed-task"]["name"]
    os.kill(bootstrap_of(name, "worker-0"), signal.SIGKILL)
    done = tool("wait", name, "-o", "json")
    assert (done.status, done.json["state"], done.json["failure"]["task"]) == (
        1,
        "FAILED",
        "worker-0",
    )
    tool.collected(name)
    assert tool.root_cause(name)["code"] == "killed"
    gone(name)


def test_stop_after_a_failure_is_still_that_failure(
    tool: Tool, running: Mapping[str, dict[str, Any]]
) -> None:
    name = running["failed-first"]["name"]
    tool.until(name, lambda seen: seen["failure"] is not None)
    tool("stop", name)
    done = tool("wait", name, "-o", "json")
    assert (done.status, done.json["state"], done.json["reason"]) == (
        1,
        "FAILED",
        "worker-0 exited with status 4",
    )
    gone(name)


def test_unknown_job_and_unknown_application(tool: Tool) -> None:
    for verb in ("status", "wait", "stop"):
        assert tool(verb, "no-such-job").status == 5
    assert tool("status", "application_1_0001").status == 5


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no-queue": ({"queue": "nosuch"}, "nosuch"),
    "too-large": ({"roles": {"worker": {"memory": "999Gi"}}}, ":7:5: roles.worker.memory: "),
    "too-many": (
        {
            "strategy": "multi-worker",
            "roles": {"chief": SMALL, "worker": {"memory": "13Gi", "instances": 4}},
        },
        ":9:5: roles.worker.memory: the job needs",
    ),
    "no-gpus": ({"roles": {"worker": {**SMALL, "gpus": 1}}}, "roles.worker.gpus: "),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_job_leaves_its_name_free(
    tool: Tool, simple: Cluster, unique: str, case: str
) -> None:
    change, words = REFUSED[case]
    refused = tool("submit", tool.spec(f"{case}-{unique}", **{**alone("true"), **change}))
    assert (refused.status, refused.stdout) == (9, ""), refused
    assert words in refused.stderr
    deleted = tool("delete", f"{case}-{unique}")
    if case == "no-queue":  # YARN lists that as an application that failed
        info = requests.get(f"{simple.rm_url}/ws/v1/cluster/info", timeout=SUBMIT_S).json()
        old = info["clusterInfo"]["hadoopVersion"].startswith(("3.1.", "3.2."))
        # there it is a stored service without an application (hadoop-facts.md#names-that-stay-taken)
        assert deleted.status == (6 if old else 0), deleted
    else:
        assert deleted.status == 5, deleted
