"""Job files of other systems on the real cluster, each to its verdict.

The programs are short and use no TensorFlow; the strategies' training is in test_profiles.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from xml.sax.saxutils import escape

import pytest

from tests.clusters import Cluster
from tests.tool import Result, Tool, gone

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


def chief_decides() -> str:
    """As Kubeflow's dist-mnist, whose workers wait for the coordinator for ever."""
    check = "import json, os; print({k: len(v) for k, v in json.loads(os.environ['TF_CONFIG'])['cluster'].items()})"
    replicas = {
        "Chief": replica(1, f'python3 -c "{check}"'),
        "PS": replica(1, FOR_EVER),
        "Worker": replica(2, f'[ "$TFJOB_INDEX" = 1 ] || {FOR_EVER}'),
    }
    return tfjob("chief-decides", replicas, runPolicy={"cleanPodPolicy": "Running"})


def worker_fails() -> str:
    replicas = {"Master": replica(1, "sleep 60"), "Worker": replica(1, "exit 7")}
    return tfjob("worker-fails", replicas)


def all_workers() -> str:
    script = '[ "$TFJOB_INDEX" = 0 ] || { sleep 3; exit 7; }'
    return tfjob("all-workers", {"Worker": replica(2, script)}, successPolicy="AllWorkers")


def tony_sidecar() -> str:
    """Beside a sidecar that fails."""
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
    return f"<configuration>\n{''.join(lines)}</configuration>\n"


# Its verdict's reason, and what is printed by whom; a file of XML is TonY's.
JOBS: dict[str, tuple[Callable[[], str], str, dict[str, tuple[str, ...]]]] = {
    "chief-decides": (chief_decides, "", {"chief": ("'chief': 1", "'ps': 1", "'worker': 2")}),
    "worker-fails": (worker_fails, "worker-0 exited with status 7", {}),
    "all-workers": (all_workers, "worker-1 exited with status 7", {}),
    "tony-sidecar": (
        tony_sidecar,
        "",
        {"chief": ("chief 0 2 1 true",), "worker": ("worker 0 2 1 None",)},
    ),
}


@pytest.fixture(scope="module")
def submitted(
    real_cluster: Cluster, session_environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Tool, dict[str, Future[Result]]]]:
    """All of them, together."""
    tool = Tool(session_environ, real_cluster.profile, tmp_path_factory.mktemp("dialects"))
    tool.jobs += JOBS
    with ThreadPoolExecutor(len(JOBS)) as pool:
        ends = {}
        for job, (text, _, _) in JOBS.items():
            file = tool.cwd / f"{job}.{'xml' if 'tony' in job else 'json'}"
            file.write_text(text())
            ends[job] = pool.submit(tool, "submit", file, "-o", "json")
        yield tool, ends
    tool.tidy()


@pytest.mark.parametrize("job", JOBS)
def test_job_of_another_system_has_its_verdict(
    submitted: tuple[Tool, dict[str, Future[Result]]], job: str
) -> None:
    tool, ends = submitted
    _, reason, printed = JOBS[job]
    done = ends[job].result()
    assert done.status == bool(reason), done.stderr
    state = "FAILED" if reason else "SUCCEEDED"
    assert (done.json["state"], done.json["confirmed"], done.json["reason"]) == (
        state,
        True,
        reason,
    )
    gone(job)
    for task, words in printed.items():
        output = tool("logs", job, task).stdout
        assert all(word in output for word in words), output
