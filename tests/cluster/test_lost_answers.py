"""A real ResourceManager behind a proxy that loses, cuts, delays and repeats; and a client that is
killed: one job for one submission.
"""

from __future__ import annotations

import json
import random
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import Cluster
from tests.proxy import Fault, Judge, Proxy
from tests.tool import (
    Result,
    Tool,
)

pytestmark = pytest.mark.cluster

KINDS = (
    "unsent",
    "cut-request",
    "lost",
    "cut-head",
    "cut-body",
    "reset",
    "delay",
    "gateway",
    "twice",
    "twice-late",
    "twice-at-once",
)
SERVICES = "/app/v1/services"
STEPS = {
    "submit": (("POST", SERVICES), ("POST", ""), ("GET", "")),
    "status": (("GET", ""),),
    "stop": (("PUT", SERVICES), ("GET", "")),
    "delete": (("DELETE", SERVICES), ("GET", "")),
}
UNFINISHED = (7, 8)  # the cluster could not be reached, the deadline passed: the same command again
ROUNDS = 5


@pytest.fixture
def proxy(real_cluster: Cluster) -> Iterator[Proxy]:
    with Proxy(real_cluster.rm_url).listening() as made:
        yield made


@pytest.fixture
def judge(real_cluster: Cluster) -> Judge:
    return Judge(real_cluster)


def tiny(tool: Tool, command: str = "true") -> tuple[str, Path]:
    name = f"lost-{secrets.token_hex(3)}"
    return name, tool.spec(
        name, strategy="single", command=command, roles={"worker": {"memory": "256Mi", "cpus": 1}}
    )


@dataclass
class Stubborn:
    """A user who gives a command again until it has an answer; at every step something may get
    lost.
    """

    tool: Tool
    proxy: Proxy
    dice: random.Random
    loses_deletes: bool = False  # a DELETE whose answer is lost is waited for, for three minutes

    def __call__(self, verb: str, *arguments: object, first: Fault | None = None) -> Result:
        steps = STEPS[verb]
        if verb == "delete" and not self.loses_deletes:
            steps = STEPS["status"]
        for attempt in range(ROUNDS):
            wanted = self.dice.randint(0, 2) if attempt < ROUNDS - 1 else 0
            faults = [self._fault(*self.dice.choice(steps)) for _ in range(wanted)]
            faults += [first] if first is not None and attempt == 0 else []
            told = [
                f"{fault.kind} {fault.method} {fault.path} after {fault.after}" for fault in faults
            ]
            self.proxy.faults[:], self.proxy.seen[:] = faults, []
            done = self.tool(verb, *arguments, "--rm", self.proxy.url, timeout=700.0)
            print(
                f"{verb} {arguments[0]}: {done.status} in {done.seconds:.1f} s; {told}; "
                f"{self.proxy.seen[-15:]}"
            )
            if done.status not in UNFINISHED:
                return done
        pytest.fail(f"{verb} found no end")

    def _fault(self, method: str, path: str) -> Fault:
        return Fault(
            self.dice.choice(KINDS), method, self.dice.randint(0, 2) if method == "GET" else 0, path
        )


@pytest.mark.parametrize(
    "submissions",
    [5, pytest.param(len(KINDS), marks=[pytest.mark.long, pytest.mark.timeout(4000)])],
)
def test_whatever_gets_lost_one_submission_is_one_job(
    tool: Tool, proxy: Proxy, judge: Judge, submissions: int
) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    again = Stubborn(tool, proxy, dice, loses_deletes=submissions > 5)
    kinds = dice.sample(KINDS, len(KINDS))
    for number in range(submissions):
        name, path = tiny(tool, "true" if number == 0 else "exec sleep 300")

        done = again(
            "submit",
            path,
            "--detach",
            "-o",
            "json",
            first=Fault(kinds[number], "POST", path=SERVICES),
        )
        assert done.status == 0, done
        [app] = judge.applications(name)
        assert app == done.json["application_id"], done
        seen = again("status", name, "-o", "json").json
        assert seen["application_id"] == app
        told = seen["state"] in ("SUCCEEDED", "FAILED", "STOPPED")
        assert told <= judge.ended(app), seen
        if number == 0:  # this one is let run to its end
            tool.until(name, lambda seen: seen["state"] == "SUCCEEDED")
            once = again("submit", path, "--once", "--detach", "-o", "json").json
            assert once["adopted"] is True
        elif number == 1:
            stopped = again("stop", name, "-o", "json").json
            assert (stopped["state"], judge.ended(app)) == ("STOPPED", True)
        assert again("delete", name, "--force").status == 0
        assert judge.applications(name) == [app]
        assert judge.ended(app)


def submitted(tool: Tool, path: Path) -> dict[str, Any]:
    done = tool("submit", path, "--detach", "-o", "json")
    assert done.status == 0, done
    return done.json


def page(status: str, text: str) -> bytes:
    """Write what something between the client and Hadoop answers in its place."""
    body = f"<html><head><title>{text}</title></head><body>{text}</body></html>".encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: "
        f"{len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


@pytest.mark.parametrize(
    ("first", "later"),
    [
        pytest.param("lost", page("401 Unauthorized", "Please log in"), id="401"),
        pytest.param(
            *("lost", page("403 Forbidden", "Forbidden")), id="403", marks=pytest.mark.long
        ),
        pytest.param(
            *("taken-page", page("200 OK", "Down for maintenance")),
            id="504-then-a-page",
            marks=pytest.mark.long,
        ),
        pytest.param("taken-page", page("404 Not Found", "No such page"), id="504-then-not-found"),
    ],
)
def test_an_accepted_job_lives_whatever_answers_after_its_post(
    tool: Tool, proxy: Proxy, judge: Judge, first: str, later: bytes
) -> None:
    name = f"lost-{secrets.token_hex(3)}"
    content = secrets.token_hex(90_000)  # staged on HDFS: the service would be too large
    roles = {"worker": {"memory": "256Mi", "cpus": 1, "files": ["data.txt"]}}
    path = tool.spec(
        name,
        strategy="single",
        command="sleep 20 && test $(cat data.txt | wc -c) -eq 180000",
        roles=roles,
    )
    (path.parent / "data.txt").write_text(content)
    proxy.faults[:] = [
        Fault(
            first,
            "POST",
            path=SERVICES,
            page=page("504 Gateway Time-out", "Time-out") if first == "taken-page" else b"",
        )
    ]
    taken = threading.Thread(target=all_answers_after_the_post, args=(proxy, later), daemon=True)
    taken.start()
    unknown = tool("submit", path, "--detach", "-o", "json", "--rm", proxy.url)
    assert unknown.status == 7, (unknown, proxy.seen)
    error = json.loads(unknown.stderr[unknown.stderr.index("{") :])
    assert error["retryable"] is True
    assert f"Whether {name} was submitted is not known" in error["message"]

    found = submitted(tool, path)
    assert found["adopted"] is True
    assert judge.applications(name) == [found["application_id"]]
    over = tool("wait", name, "-o", "json")
    assert (over.status, over.json["state"]) == (0, "SUCCEEDED"), "what it had staged was there"


def all_answers_after_the_post(proxy: Proxy, answer: bytes) -> None:
    """From the POST on, answer every other request so."""
    deadline = time.monotonic() + 60
    while not any(method == "POST" and path == SERVICES for method, path, _ in proxy.seen):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    proxy.faults += [Fault("page", "GET", page=answer) for _ in range(1000)]
