"""Job files of other systems on the real cluster, each to its verdict.

The programs are short and use no TensorFlow; the strategies' training is in test_profiles.
"""

from __future__ import annotations

import json
from typing import Any
from xml.sax.saxutils import escape

import pytest

from tests.tool import (
    Tool,
    gone,
)

pytestmark = pytest.mark.cluster

IMAGE = "library/python:3.11"
FOR_EVER = "sleep 3600"


def replica(count: int, script: str) -> dict[str, Any]:
    container = {
        "name": "tensorflow",
        "image": IMAGE,
        "command": ["bash", "-c", script],
        "resources": {"limits": {"memory": "256Mi"}},
    }
    return {"replicas": count, "template": {"spec": {"containers": [container]}}}


def tfjob(name: str, replicas: dict[str, Any], **spec: Any) -> str:
    return json.dumps(
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": {"name": name},
            "spec": {**spec, "tfReplicaSpecs": replicas},
        }
    )


def submit(tool: Tool, job: str, name: str, text: str, status: int) -> dict[str, Any]:
    """Submit a file as it is; return the job's status at its end."""
    tool.jobs.append(job)
    (tool.cwd / name).write_text(text)
    done = tool("submit", name, "-o", "json")
    assert done.status == status, done.stderr
    gone(job)
    return done.json


def test_tfjob_ends_with_its_chief_beside_workers_that_serve(tool: Tool) -> None:
    """As Kubeflow's dist-mnist does, whose workers wait for the coordinator for ever."""
    check = "import json, os; print({k: len(v) for k, v in json.loads(os.environ['TF_CONFIG'])['cluster'].items()})"
    replicas = {
        "Chief": replica(1, f'python3 -c "{check}"'),
        "PS": replica(1, FOR_EVER),
        "Worker": replica(2, f'[ "$TFJOB_INDEX" = 1 ] || {FOR_EVER}'),
    }
    text = tfjob("chief-decides", replicas, runPolicy={"cleanPodPolicy": "Running"})
    found = submit(tool, "chief-decides", "t.json", text, 0)
    assert (found["state"], found["confirmed"], found["reason"]) == ("SUCCEEDED", True, "")
    assert found["roles"]["worker"]["succeeded"] == 1
    output = tool("logs", "chief-decides", "chief").stdout
    assert all(part in output for part in ("'chief': 1", "'ps': 1", "'worker': 2"))


def test_tfjob_fails_by_a_worker_that_fails_before_its_chief_succeeds(tool: Tool) -> None:
    replicas = {"Master": replica(1, "sleep 60"), "Worker": replica(1, "exit 7")}
    found = submit(tool, "worker-fails", "t.json", tfjob("worker-fails", replicas), 1)
    assert (found["state"], found["reason"]) == ("FAILED", "worker-0 exited with status 7")


def test_tfjob_of_all_workers_waits_for_the_last_and_fails_with_it(tool: Tool) -> None:
    script = '[ "$TFJOB_INDEX" = 0 ] || { sleep 3; exit 7; }'
    text = tfjob("all-workers", {"Worker": replica(2, script)}, successPolicy="AllWorkers")
    found = submit(tool, "all-workers", "t.json", text, 1)
    assert (found["state"], found["reason"]) == ("FAILED", "worker-1 exited with status 7")


def test_tony_job_succeeds_beside_a_sidecar_that_fails(tool: Tool) -> None:
    check = (
        "import json, os; e = os.environ; c = json.loads(e['CLUSTER_SPEC']); "
        "print(e['JOB_NAME'], e['TASK_INDEX'], e['TASK_NUM'], len(c['worker']), e.get('IS_CHIEF'))"
    )
    properties = {
        "tony.application.name": "tony_sidecar",
        "tony.chief.instances": "1",
        "tony.worker.instances": "1",
        "tony.reader.instances": "1",
        "tony.reader.command": "exit 3",
        "tony.application.untracked.jobtypes": "ps,reader",
        "tony.docker.enabled": "true",
        "tony.docker.containers.image": IMAGE,
        "tony.containers.command": f'sleep 2; python3 -c "{check}"',
        **{f"tony.{name}.memory": "256m" for name in ("chief", "worker", "reader")},
    }
    lines = (
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n"
        for name, value in properties.items()
    )
    text = f"<configuration>\n{''.join(lines)}</configuration>\n"
    found = submit(tool, "tony-sidecar", "tony.xml", text, 0)
    assert (found["state"], found["confirmed"]) == ("SUCCEEDED", True)
    output = tool("logs", "tony-sidecar", "chief").stdout
    assert "chief 0 2 1 true" in output
    assert "worker 0 2 1 None" in tool("logs", "tony-sidecar", "worker").stdout
