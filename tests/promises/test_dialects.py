"""Job files and a command line of four other systems, each to its verdict."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from xml.sax.saxutils import escape

import pytest

from tests.tool import Result, Tool, gone

pytestmark = pytest.mark.cluster

IMAGE = "library/python:3.11"
CLUSTER = "import json, os; c = json.loads(os.environ['TF_CONFIG']); print(c['cluster'].keys())"


def replica(count: int, script: str) -> dict[str, Any]:
    container = {
        "name": "tensorflow",
        "image": IMAGE,
        "command": ["bash", "-c", script],
        "resources": {"limits": {"memory": "256Mi"}},
    }
    return {"replicas": count, "template": {"spec": {"containers": [container]}}}


def tfjob(name: str) -> str:
    replicas = {"PS": replica(1, "sleep 3600"), "Worker": replica(2, f'python3 -c "{CLUSTER}"')}
    spec = {"tfReplicaSpecs": replicas}
    head = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name}}
    return json.dumps({**head, "spec": spec})


def tony(name: str) -> str:
    check = "import json, os; print(json.loads(os.environ['CLUSTER_SPEC']).keys())"
    properties = {
        "tony.application.name": name,
        "tony.chief.instances": "1",
        "tony.worker.instances": "1",
        "tony.docker.enabled": "true",
        "tony.docker.containers.image": IMAGE,
        "tony.containers.command": f'python3 -c "{check}"',
        "tony.chief.memory": "256m",
        "tony.worker.memory": "256m",
    }
    rows = (
        f"<property><name>{key}</name><value>{escape(value)}</value></property>"
        for key, value in properties.items()
    )
    return f"<configuration>{''.join(rows)}</configuration>"


def yarnfile(name: str) -> str:
    """Return a service whose loader decides, and fails."""
    decides = {"yarn.service.container-state-report-as-service-state": "true"}
    shared = {
        "number_of_containers": 1,
        "artifact": {"id": IMAGE, "type": "DOCKER"},
        "resource": {"cpus": 1, "memory": "256"},
        "restart_policy": "NEVER",
    }
    loader = {"launch_command": "exit 5", "configuration": {"properties": decides}}
    parts = [
        {**shared, "name": "store", "launch_command": "sleep 3600"},
        {**shared, "name": "loader", **loader},
    ]
    return json.dumps({"name": name, "components": parts})


def submarine(name: str) -> list[str]:
    """Return the command line of Apache Submarine's client."""
    small = "memory=256M,vcores=1"
    words = ["yarn", "jar", "submarine.jar", "job", "run", "--name", name, "--docker_image", IMAGE]
    words += ["--num_workers", "2", "--worker_resources", small]
    words += ["--worker_launch_cmd", f'python3 -c "{CLUSTER}"']
    return [*words, "--num_ps", "1", "--ps_resources", small, "--ps_launch_cmd", "sleep 3600"]


@pytest.fixture(scope="module")
def ends(tool: Tool, unique: str) -> Iterator[Mapping[str, Future[Result]]]:
    """All four, submitted together: name → its end."""
    pool = ThreadPoolExecutor(4)
    texts = {"tfjob": (tfjob, "json"), "tony": (tony, "xml"), "yarnfile": (yarnfile, "json")}
    ended = {}
    for system, (text, ending) in texts.items():
        job = f"{system}-{unique}"
        tool.jobs.append(job)
        (tool.cwd / f"{system}.{ending}").write_text(text(job))
        ended[system] = pool.submit(tool, "submit", f"{system}.{ending}", "-o", "json")
    job = f"submarine-{unique}"
    tool.jobs.append(job)
    converted = tool("convert", "--", *submarine(job))
    assert converted.status == 0, converted.stderr
    (tool.cwd / "submarine.yaml").write_text(converted.stdout)
    ended["submarine"] = pool.submit(tool, "submit", "submarine.yaml", "-o", "json")
    yield ended
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize(
    ("system", "status", "reason", "task", "words"),
    [
        ("tfjob", 0, "", "worker-1", "ps"),
        ("tony", 0, "", "worker-0", "chief"),
        ("yarnfile", 1, "loader-0 exited with status 5", "", ""),
        ("submarine", 0, "", "worker-0", "ps"),
    ],
)
def test_job_of_another_system_as_it_is(
    ends: Mapping[str, Future[Result]],
    tool: Tool,
    system: str,
    status: int,
    reason: str,
    task: str,
    words: str,
) -> None:
    done = ends[system].result()
    assert done.status == status, done.stderr
    assert (done.json["reason"], done.json["confirmed"]) == (reason, True)
    gone(done.json["name"])
    if task:
        tool.collected(done.json["name"])
        assert words in tool("logs", done.json["name"], task).stdout
