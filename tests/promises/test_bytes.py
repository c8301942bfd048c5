"""`render` prints the exact bytes that `submit` posts, and YARN delivers them exactly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters import Cluster
from tests.promises.conftest import SMALL
from tests.proxy import Proxy
from tests.tool import Tool

pytestmark = pytest.mark.cluster

ODD = "a\"b'c\\d$HOME `id` ${COMPONENT_NAME} {{y}} }} <CPS> <LOG_DIR> ü\nsecond line"
SECOND = "${USER} {{x}} <LOG_DIR> \t'"


@pytest.fixture
def proxy(simple: Cluster) -> Iterator[Proxy]:
    with Proxy(str(simple.info["rm_url"])).listening() as made:
        yield made


def spec(tool: Tool, name: str) -> Path:
    """Write a job whose environment and arguments are hard to quote; it checks both."""
    script = 'test "$0" = "$ODD" && test "$1" = "$SECOND"'
    return tool.spec(
        name,
        strategy="multi-worker",
        command=["sh", "-c", script, ODD, SECOND],
        env={"ODD": ODD, "SECOND": SECOND},
        roles={"chief": SMALL, "worker": {**SMALL, "instances": 2}},
    )


def test_submit_posts_the_bytes_that_render_prints(tool: Tool, proxy: Proxy, unique: str) -> None:
    path = spec(tool, f"exact-{unique}")
    rendered = tool("render", path, "--detach")
    assert rendered.status == 0, rendered.stderr
    done = tool("submit", path, "--detach", "-o", "json", "--rm", proxy.url)
    assert done.status == 0, done.stderr
    [posted] = [body for path, body in proxy.posted if path == "/app/v1/services"]
    assert posted.decode() == rendered.stdout
    ended = tool("wait", done.json["name"], "-o", "json")
    assert (ended.status, ended.json["reason"]) == (0, ""), "its values arrived exactly"
