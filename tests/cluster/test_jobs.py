"""Whole jobs on the real cluster that tests/promises does not have."""

from __future__ import annotations

import pytest

from tests.cluster.conftest import (
    SPECS,
)
from tests.tool import (
    Tool,
    gone,
)

pytestmark = pytest.mark.cluster


def test_an_estimator_trains_and_ends(tool: Tool) -> None:
    tool.jobs.append("test-estimator")
    spec = SPECS / "estimator.yaml"
    done = tool("submit", spec, "--name", "test-estimator", "-o", "json")
    assert done.status == 0, done.stderr
    assert (done.json["state"], done.json["confirmed"], done.json["tasks"]["missing"]) == (
        "SUCCEEDED",
        True,
        [],
    )
    gone("test-estimator")


def test_wait_for_ready(tool: Tool) -> None:
    spec = tool.spec(
        "ready", strategy="single", command="sleep 300", roles={"worker": {"memory": "256Mi"}}
    )
    assert tool("submit", spec, "--detach").status == 0
    waited = tool("wait", "ready", "--for", "ready", "-o", "json")
    assert (waited.status, waited.json["state"]) == (0, "RUNNING")
    late = tool("wait", "ready", "--timeout", "2s")
    assert late.status == 8
    assert late.stderr.splitlines()[-2:] == [
        "error: the deadline of 2 s passed; ready may still be running",
        "  hint: submit_tf_job wait ready, or submit_tf_job stop ready",
    ]
    stopped = tool("stop", "ready", "-o", "json")
    assert stopped.json["state"] == "STOPPED"
    assert tool("wait", "ready").status == 3
    gone("ready")


def test_without_bootstrap_the_environment_and_command_arrive_exactly(tool: Tool) -> None:
    odd = "a\"b'c\\d$HOME `id` ${COMPONENT_NAME} {{y}} }} <CPS> <LOG_DIR> ü\nsecond line"
    check = (
        "import json, os, sys; c = json.loads(os.environ['TF_CONFIG']); assert "
        "c['task']['type'] == 'worker', c;"
        " assert c['task']['index'] in (0, 1), c; assert len(c['cluster']['worker']) == 2;"
        " assert os.environ['ODD'] == sys.argv[1], (os.environ['ODD'], sys.argv[1])"
    )
    spec = tool.spec(
        "bare",
        strategy="multi-worker",
        bootstrap=False,
        tf_config="literal",
        command=["python3", "-c", check, odd],
        env={"ODD": odd},
        roles={"worker": {"memory": "256Mi", "instances": 2}},
    )
    done = tool("submit", spec, "-o", "json")
    assert done.status == 0, done.stderr + done.stdout
    assert done.json["evidence"] == "none-expected"
    assert (
        done.json["reason"]
        == "Not confirmed by the deciding task: without the bootstrap no task leaves an outcome"
    )
