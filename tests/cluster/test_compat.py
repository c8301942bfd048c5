"""Programs of other systems' Python interfaces, on a real YARN."""

from __future__ import annotations

import pytest

from submit_tf_job import Client
from submit_tf_job.compat.kubeflow import TrainingClient


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
    assert training.is_job_succeeded("of-kubeflow"), "the ResourceManager still lists it"
    with pytest.raises(RuntimeError):
        training.get_job("of-nobody")
