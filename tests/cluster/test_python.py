"""The Python interface: the examples of docs/python.md as they stand there, and Kubeflow's client."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

from submit_tf_job import Client, NoSuchJob
from submit_tf_job.compat.kubeflow import TrainingClient

pytestmark = pytest.mark.cluster

PAGE = Path(__file__).parents[2] / "docs/python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
TRAIN = """
name: train
image: library/python:3.11
strategy: multi-worker
command: echo 'TFJOB_PROGRESS {"step":1,"total":1}'; echo done
roles:
  worker: {instances: 1, memory: 128Mi}
"""


@pytest.mark.long
def test_the_examples_of_the_page(
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.yaml").write_text(TRAIN)
    try:
        for block in BLOCKS:
            exec(compile(block, str(PAGE), "exec"), {"__name__": "example"})
    finally:
        for name in ("train", "twice", "inline"):
            with contextlib.suppress(NoSuchJob):
                client.attach(name).delete(force=True)
    said = capsys.readouterr().out
    assert "train application_" in said
    assert "SUCCEEDED" in said
    assert "worker-0 done" in said
    assert re.search(r"inline failed: .*3.* 1\n", said), said


def test_training_client_creates_follows_reads_and_deletes_a_tfjob(client: Client) -> None:
    container = {
        "name": "tensorflow",
        "image": "library/python:3.11",
        "command": ["sh", "-c", "echo seen"],
        "resources": {"limits": {"memory": "256Mi"}},
    }
    replica = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "of-kubeflow"},
        "spec": {"tfReplicaSpecs": {"Chief": replica, "Worker": replica}},
    }
    training = TrainingClient(client=client)
    training.create_job(job)
    found = training.wait_for_job_conditions("of-kubeflow", wait_timeout=240)
    assert training.is_job_succeeded(job=found)
    assert training.get_job_pod_names("of-kubeflow") == ["chief-0", "worker-0"]
    logs, _events = training.get_job_logs("of-kubeflow", is_master=False)
    assert ["seen" in logs[task] for task in ("chief-0", "worker-0")] == [True, True]
    training.delete_job("of-kubeflow")
    assert training.is_job_succeeded("of-kubeflow"), "the ResourceManager still lists it"
