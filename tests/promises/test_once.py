"""One submission is one application: the client is killed around its POST, answers are lost, and
six clients submit at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import Cluster
from tests.promises.conftest import SMALL
from tests.proxy import Fault, Judge, Proxy
from tests.tool import SUBMIT_S, Tool, until

pytestmark = pytest.mark.cluster

SERVICES = "/app/v1/services"


@pytest.fixture
def proxy(simple: Cluster) -> Iterator[Proxy]:
    with Proxy(str(simple.info["rm_url"])).listening() as made:
        yield made


@pytest.fixture
def judge(simple: Cluster) -> Judge:
    return Judge(simple)


def tiny(tool: Tool, name: str) -> Path:
    """Write a job that stays until it is deleted."""
    return tool.spec(name, strategy="single", command="sleep 3600", roles={"worker": SMALL})


def submitted(tool: Tool, path: Path) -> dict[str, Any]:
    """Give the command again, without a proxy."""
    done = tool("submit", path, "--detach", "-o", "json")
    assert done.status == 0, done
    return done.json


@pytest.mark.parametrize("held", ["hold-request", "hold"])
def test_client_killed_around_its_post_finds_its_job(
    tool: Tool, proxy: Proxy, judge: Judge, unique: str, held: str
) -> None:
    """`hold-request`: the POST has not arrived; `hold`: it has, and its answer has not."""
    name = f"{held}-{unique}"
    path = tiny(tool, name)
    proxy.faults[:] = [Fault(held, "POST", path=SERVICES)]
    process = tool.start("submit", path, "--rm", proxy.url)
    assert proxy.held.wait(SUBMIT_S), proxy.seen
    process.kill()
    process.communicate()
    before = judge.applications(name)
    assert len(before) == (1 if held == "hold" else 0)
    found = submitted(tool, path)
    assert found["adopted"] is bool(before)
    assert judge.applications(name) == [found["application_id"]]
    tool("delete", name, "--force")


def test_client_killed_as_soon_as_its_application_exists(
    tool: Tool, judge: Judge, unique: str
) -> None:
    name = f"born-{unique}"
    path = tiny(tool, name)
    process = tool.start("submit", path)
    until(lambda: judge.applications(name), "no application", within_s=SUBMIT_S, pause_s=0.02)
    process.kill()
    process.communicate()
    found = submitted(tool, path)
    assert (found["adopted"], judge.applications(name)) == (True, [found["application_id"]])
    tool("delete", name, "--force")


def test_lost_answer_is_not_posted_twice(
    tool: Tool, proxy: Proxy, judge: Judge, unique: str
) -> None:
    name = f"lost-{unique}"
    path = tiny(tool, name)
    proxy.faults[:] = [Fault("lost", "POST", path=SERVICES)]
    done = tool("submit", path, "--detach", "-o", "json", "--rm", proxy.url)
    assert done.status == 0, done
    assert judge.only_live(name) == done.json["application_id"]
    tool("delete", name, "--force")


def test_six_clients_at_once_have_one_job(tool: Tool, judge: Judge, unique: str) -> None:
    """And another job of its name is refused, as long as it lives."""
    name = f"six-{unique}"
    path = tiny(tool, name)
    clients = [tool.start("submit", path, "--detach", "-o", "json") for _ in range(6)]
    ends = [(client.communicate(timeout=SUBMIT_S), client.returncode) for client in clients]
    assert [status for _, status in ends] == [0] * 6, ends
    assert len({json.loads(out)["run"] for (out, _), _ in ends}) == 1, ends
    live, posted = judge.only_live(name), judge.applications(name)
    first = submitted(tool, path)
    assert first["application_id"] == tool.status(name)["application_id"] == live, ends
    other = tool.spec(name, strategy="single", command="sleep 5", roles={"worker": SMALL})
    refused = tool("submit", other)
    assert (refused.status, first["run"] in refused.stderr) == (6, True), refused.stderr
    assert first["application_id"] in refused.stderr
    assert tool("delete", name).status == 6
    assert judge.applications(name) == posted
    assert tool("status", name, "-o", "json").json["state"] in ("PENDING", "STARTING", "RUNNING")
    assert tool("delete", name, "--force").status == 0
