"""Whole jobs on the real cluster: each ends as it must, with the right verdict and exit status, and
leaves no process. The same on this machine without a cluster, as processes and in containers.

The strategies that are not here are in test_profiles, on this cluster and on others.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from submit_tf_job.sandbox import SandboxInfo
from tests.cluster.conftest import (
    SPECS,
)
from tests.conftest import DockerHost
from tests.tool import (
    Result,
    Tool,
    gone,
)

pytestmark = pytest.mark.cluster


def run(
    tool: Tool, where: str, spec: Path, job: str, tensorflow: Path, request: pytest.FixtureRequest
) -> Result:
    """Run a job spec on YARN, as processes, or in containers; TensorFlow is this machine's in all
    three.
    """
    if where == "yarn":
        tool.jobs.append(job)
        return tool("submit", spec, "--name", job, "-o", "json")
    words = ["local", spec, "--name", job, "-o", "json"]
    if where == "process":
        return replace(
            tool, environ={**tool.environ, "PATH": f"{tensorflow / 'bin'}:{os.environ['PATH']}"}
        )(*words)
    docker: DockerHost = request.getfixturevalue("docker")
    packages = next((tensorflow / "lib").glob("python3.*/site-packages"))
    # containers have a /tmp each; tests of root's run in them as nobody
    shared = tool.cwd / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    words += ["--docker", "--set", f"mounts=['{packages}:/tensorflow', '{shared}:/shared:rw']"]
    words += ["--set", "env.PYTHONPATH=/tensorflow", "--set", "env.MODEL_DIR=/shared"]
    done = replace(tool, environ={**tool.environ, "SUBMIT_TF_JOB_DOCKER_HOST": docker.host})(*words)
    docker.is_clean()
    return done


EVERYWHERE = ("yarn", "process", "docker")
STRATEGIES = [
    *(("custom", where) for where in EVERYWHERE),
    ("estimator", "yarn"),
    *(
        pytest.param(name, where, marks=pytest.mark.long)
        for name in ("single", "parameter-server")
        for where in EVERYWHERE
    ),
    *(pytest.param("estimator", where, marks=pytest.mark.long) for where in ("process", "docker")),
]


@pytest.mark.parametrize(("name", "where"), STRATEGIES)
def test_strategies_train_and_end(
    tool: Tool, name: str, where: str, tensorflow: Path, request: pytest.FixtureRequest
) -> None:
    job = f"test-{name}"
    done = run(tool, where, SPECS / f"{name}.yaml", job, tensorflow, request)
    assert done.status == 0, done.stderr
    result = done.json
    assert (result["state"], result["confirmed"], result["reason"]) == ("SUCCEEDED", True, "")
    assert result["tasks"]["missing"] == []
    gone(job)


@pytest.mark.parametrize("where", EVERYWHERE)
def test_a_task_that_fails_ends_the_job_everywhere(
    tool: Tool, where: str, tensorflow: Path, request: pytest.FixtureRequest
) -> None:
    command = 'if [ "$TFJOB_INDEX" = 1 ]; then sleep 1; echo out of luck >&2; exit 7; fi; sleep 600'
    spec = tool.spec(
        "unlucky",
        strategy="multi-worker",
        command=command,
        roles={"worker": {"memory": "256Mi", "instances": 2}},
    )
    done = run(tool, where, spec, "unlucky", tensorflow, request)
    assert done.status == 1, done
    assert (done.json["state"], done.json["reason"]) == ("FAILED", "worker-1 exited with status 7")
    assert (done.json["failure"]["task"], done.json["failure"]["status"]) == ("worker-1", 7)
    gone("unlucky")


def test_a_detached_job_ends_by_itself_and_tells_its_verdict_later(tool: Tool) -> None:
    spec = tool.spec(
        "detached",
        strategy="multi-worker",
        command="sleep 2; echo done",
        roles={"chief": {"memory": "256Mi"}, "worker": {"memory": "256Mi", "instances": 2}},
    )
    submitted = tool("submit", spec, "--detach", "-o", "json")
    assert submitted.status == 0, submitted.stderr
    application = submitted.json["application_id"]
    gone_by = tool.until(
        "detached", lambda seen: seen["state"] in ("SUCCEEDED", "FAILED"), timeout=90
    )
    assert gone_by["state"] == "SUCCEEDED", gone_by
    assert gone_by["application_id"] == application
    assert tool("wait", "detached").status == 0
    by_id = tool("status", application, "-o", "json").json
    assert by_id["state"] == "SUCCEEDED"


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


def test_what_is_rendered_is_what_yarn_was_given(tool: Tool, real_cluster: SandboxInfo) -> None:
    """The bytes on HDFS are YARN's own, but each value that was rendered must stand in them."""
    spec = tool.spec(
        "exact",
        strategy="single",
        command=[
            "sh",
            "-c",
            'printf \'%s\' "$ODD" > odd.txt; test "$(cat odd.txt)" = "$ODD" && test "$0" '
            "= '${USER} {{x}} <LOG_DIR>'",
            "${USER} {{x}} <LOG_DIR>",
        ],
        env={"ODD": "a\"b'c\\d$HOME `id` ${COMPONENT_NAME} {{y}} }} <CPS> ü"},
        roles={"worker": {"memory": "256Mi"}},
    )
    done = tool("submit", spec)
    assert done.status == 0, done.stderr + done.stdout


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
