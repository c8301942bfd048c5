"""Roles of any name on a real cluster: their kinds, what ends the job, and the facts they get."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tool import (
    Tool,
    gone,
)

pytestmark = pytest.mark.cluster

SMALL: dict[str, Any] = {"memory": "256Mi"}
# reads a page of each server through the addresses in its environment
HEAD = """python3 - <<'END'
import os, time, urllib.request
for address in os.environ["TFJOB_HOSTS_READER"].split(","):
    for _ in range(100):
        try:
            urllib.request.urlopen("http://%s/" % address).read()
            break
        except OSError:
            time.sleep(0.2)
    else:
        raise SystemExit("no answer from " + address)
END
echo head=$TFJOB_RANK/$TFJOB_WORLD_SIZE own=$TFJOB_HOSTS_HEAD at=$TFJOB_ADDRESS"""
READER = "exec python3 -m http.server $TFJOB_PORT"
MEMBER = "sleep $((TFJOB_INDEX * 15)); echo member=$TFJOB_RANK/$TFJOB_WORLD_SIZE at=$TFJOB_ADDRESS"


def test_a_serving_role_is_ended_when_all_that_train_are_done(tool: Tool) -> None:
    roles = {
        "head": {**SMALL, "command": HEAD},
        "member": {**SMALL, "command": MEMBER, "instances": 2},
        "reader": {**SMALL, "command": READER, "instances": 2, "kind": "serves"},
    }
    spec = tool.spec("served", strategy="custom", ends_with="all-that-train", roles=roles)
    done = tool("submit", spec, "-o", "json")
    assert done.status == 0, done.stderr
    assert done.json["state"] == "SUCCEEDED"
    counts = done.json["roles"]
    assert (counts["member"]["succeeded"], counts["reader"]["ended"]) == (2, 2)
    gone("served")
    log = tool("logs", "served").stdout
    offline = tool("render", spec, "--task", "member-1", "-o", "json").json["environment"]
    address = offline["TFJOB_ADDRESS"]
    assert f"head=0/3 own={address} at={address}" in log
    for index in (0, 1):
        assert f"member={index + 1}/3 at={address}" in log
