"""REST, by programs that have nothing but HTTP: a job from POST to DELETE, and a gateway that is
killed in the middle of it.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import requests

from tests.clusters import Cluster
from tests.gateways import Gateway
from tests.promises.conftest import SMALL
from tests.proxy import Judge
from tests.tool import SUBMIT_S, Tool, gone

pytestmark = pytest.mark.cluster

JOB: dict[str, Any] = {
    "image": "library/python:3.11",
    "strategy": "single",
    "roles": {"worker": SMALL},
}


@pytest.fixture(scope="module")
def user(tool: Tool) -> str:
    """Return whose jobs the profile submits."""
    return str(tool("config", "show", "-o", "json").json["settings"]["user"]["value"])


@pytest.fixture(scope="module")
def gateway(tool: Tool, user: str, simple: Cluster) -> Iterator[Gateway]:
    made = Gateway(tool, user)
    yield made
    made.end()
    assert made.token not in made.log.read_text()


def post(gateway: Gateway, key: str, job: dict[str, Any]) -> requests.Response:
    return gateway.ask("POST", "/v1/jobs", json=job, headers={"Idempotency-Key": key})


def test_job_from_post_to_delete(gateway: Gateway, tool: Tool, user: str, unique: str) -> None:
    name = f"rest-{unique}"
    tool.jobs.append(name)
    command = "for n in 1 2 3 4; do echo line $n; sleep 1; done"
    posted = post(gateway, name, {**JOB, "name": name, "command": command})
    assert posted.status_code == 201, posted.text
    events = gateway.ask("GET", f"/v1/jobs/{name}/events", stream=True)
    logs = gateway.ask(
        "GET",
        f"/v1/jobs/{name}/logs?follow=true&file=stdout.txt",
        stream=True,
        headers={"Accept": "application/x-ndjson"},
    )
    lines = [json.loads(line) for line in logs.iter_lines()]
    texts = [line["text"] for line in lines if line["kind"] == "LogLine"]
    assert texts == [f"line {n}" for n in range(1, 5)], lines
    seen = [
        json.loads(line[6:])
        for line in events.iter_lines(decode_unicode=True)
        if line.startswith("data: ")
    ]
    last = seen[-1]
    assert (last["state"], last["confirmed"], last["user"]) == ("SUCCEEDED", True, user)
    assert gateway.ask("GET", f"/v1/jobs/{name}").json()["state"] == "SUCCEEDED"
    assert gateway.ask("DELETE", f"/v1/jobs/{name}").json()["deleted"] is True
    assert gateway.ask("DELETE", f"/v1/jobs/{name}").status_code == 404, "nothing is left to delete"
    gone(name)


def test_bad_job_and_stranger_get_a_problem(gateway: Gateway, unique: str) -> None:
    bad = post(gateway, f"bad-{unique}", {**JOB, "name": f"bad-{unique}", "memroy": 1})
    assert bad.status_code == 422, bad.text
    assert bad.headers["content-type"] == "application/problem+json"
    assert "memroy" in bad.text
    stranger = requests.get(
        f"{gateway.url}/v1/jobs", headers={"Authorization": "Bearer nobody"}, timeout=SUBMIT_S
    )
    assert stranger.status_code == 401


def test_killed_gateway_loses_nothing_and_makes_nothing_twice(
    gateway: Gateway, tool: Tool, simple: Cluster, unique: str
) -> None:
    """Killed at two moments of the same request; a scheduler repeats itself with its key."""
    name = f"once-{unique}"
    tool.jobs.append(name)
    job = {**JOB, "name": name, "command": "sleep 3600"}

    def quietly(call: Callable[[], object]) -> None:
        with contextlib.suppress(requests.RequestException):
            call()

    for delay_s in (0.5, 1.5):
        asking = threading.Thread(target=quietly, args=(lambda: post(gateway, name, job),))
        asking.start()
        time.sleep(delay_s)
        gateway.end()
        asking.join(SUBMIT_S)
        gateway.start()
    first = post(gateway, name, job)
    assert first.status_code in (200, 201), first.text
    again = post(gateway, name, job)
    assert again.json()["run"] == first.json()["run"]
    other = post(gateway, name, {**job, "command": "sleep 3601"})
    assert other.json()["code"] == "key-reused"
    live = Judge(simple).only_live(name)
    assert gateway.ask("GET", f"/v1/jobs/{name}").json()["application_id"] == live
    assert gateway.ask("DELETE", f"/v1/jobs/{name}?force=true").json()["deleted"] is True
    gone(name)


def test_same_key_at_two_gateways_is_one_run(
    gateway: Gateway, tool: Tool, user: str, simple: Cluster, unique: str
) -> None:
    """Two gateways of one cluster know nothing of each other, and are asked at the same moment."""
    name = f"two-{unique}"
    tool.jobs.append(name)
    directory = tool.cwd / f"other-{unique}"
    directory.mkdir()
    other = Gateway(replace(tool, cwd=directory), user)
    try:
        job = {**JOB, "name": name, "command": "sleep 3600"}
        with ThreadPoolExecutor() as pool:
            answers = list(pool.map(lambda at: post(at, name, job), (gateway, other) * 2))
        assert {answer.status_code for answer in answers} == {200, 201}, [a.text for a in answers]
        assert len({answer.json()["run"] for answer in answers}) == 1
        live = Judge(simple).only_live(name)
        told = [
            at.ask("GET", f"/v1/jobs/{name}").json()["application_id"] for at in (gateway, other)
        ]
        assert told == [live] * 2, [answer.json() for answer in answers]
        assert other.ask("DELETE", f"/v1/jobs/{name}?force=true").json()["deleted"] is True
    finally:
        other.end()
    gone(name)
