"""Programs of other systems' Python interfaces, on a real YARN."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from submit_tf_job import Client
from submit_tf_job.compat import tensorflowonspark
from submit_tf_job.compat.horovod_runner import HorovodRunner
from submit_tf_job.compat.kubeflow import TrainingClient
from submit_tf_job.settings import Settings

SIZED: dict[str, Any] = {
    "image": "library/python:3.11",
    "roles": {"worker": {"memory": "256Mi"}},
}


@pytest.fixture
def client(cluster_settings: Settings) -> Iterator[Client]:
    with Client(settings=cluster_settings) as made:
        yield made


def meet(word: str) -> list[str]:
    """Exchange a word by the store that Horovod's processes meet at, as Gloo does."""
    import http.client

    env = os.environ
    place = env["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(env["HOROVOD_GLOO_RENDEZVOUS_PORT"])

    def ask(method: str, path: str, body: bytes | None = None) -> bytes:
        for _attempt in range(600):
            try:
                connection = http.client.HTTPConnection(*place, timeout=30)
                connection.request(method, path, body)
                answer = connection.getresponse()
                if answer.status == 200:
                    return answer.read()
            except OSError:
                pass
            time.sleep(0.1)
        raise RuntimeError(f"no answer to {path}")

    ask("PUT", f"/own/{env['HOROVOD_RANK']}", word.encode() + env["HOROVOD_RANK"].encode())
    return [ask("GET", f"/own/{rank}").decode() for rank in range(int(env["HOROVOD_SIZE"]))]


def map_fun(args: dict[str, Any], ctx: Any) -> dict[str, Any]:
    # no assert: pytest rewrites it, and containers have no pytest
    if ctx.job_name == "ps":
        time.sleep(600)
    if json.loads(os.environ["TF_CONFIG"])["environment"] != "cloud":
        raise ValueError("TensorFlow 1 would start no server")
    if len(ctx.cluster_spec["worker"]) != args["workers"]:
        raise ValueError(f"{ctx.cluster_spec} has not {args['workers']} workers")
    return {"number": ctx.executor_id, "role": ctx.job_name}


@pytest.mark.cluster
def test_horovod_runner_returns_what_rank_0_returned(client: Client) -> None:
    assert HorovodRunner(np=2, job=SIZED, client=client).run(meet, word="rank") == [
        "rank0",
        "rank1",
    ]


@pytest.mark.long
@pytest.mark.cluster
def test_tfcluster_calls_a_function_with_its_context(client: Client) -> None:
    job = {**SIZED, "roles": {"worker": {"memory": "256Mi"}, "ps": {"memory": "256Mi"}}}
    tensorflowonspark.run(None, map_fun, {"workers": 2}, 3, 1, job=job, client=client).shutdown()
    cluster = tensorflowonspark.run(None, map_fun, {"workers": 3}, 3, 1, job=job, client=client)
    with pytest.raises(ValueError, match="has not 3 workers"):
        cluster.shutdown(timeout=240)


@pytest.mark.cluster
def test_training_client_creates_follows_reads_and_deletes_a_tfjob(client: Client) -> None:
    container = {
        "name": "tensorflow",
        "image": "library/python:3.11",
        "command": ["sh", "-c", "echo seen by $TFJOB_ROLE-$TFJOB_INDEX"],
        "resources": {"limits": {"memory": "256Mi"}},
    }
    replica = {"template": {"spec": {"containers": [container]}}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "of-kubeflow"},
        "spec": {
            "tfReplicaSpecs": {
                "Chief": {"replicas": 1, **replica},
                "Worker": {"replicas": 1, **replica},
            }
        },
    }
    seen: list[str] = []
    training = TrainingClient(client=client)
    training.create_job(job)
    found = training.wait_for_job_conditions(
        "of-kubeflow",
        wait_timeout=240,
        callback=lambda job: seen.append(job.status.conditions[-1].type),
    )
    assert training.is_job_succeeded(job=found)
    assert seen[-1] == "Succeeded"
    assert training.is_job_succeeded("of-kubeflow")
    assert "of-kubeflow" in [job.metadata.name for job in training.list_jobs()]
    assert training.get_job_pod_names("of-kubeflow") == ["chief-0", "worker-0"]
    logs, _events = training.get_job_logs("of-kubeflow", is_master=False)
    assert {task: "seen by" in text for task, text in logs.items()} == {
        "chief-0": True,
        "worker-0": True,
    }
    training.delete_job("of-kubeflow")
    with pytest.raises(RuntimeError):
        training.get_job("of-kubeflow")
