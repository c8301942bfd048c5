"""The Python interface: the examples of docs/python.md as they stand there, and what they do not
show.
"""

from __future__ import annotations

import contextlib
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job import Client, JobFailed, JobState, JobStopped, NoSuchJob, Status
from submit_tf_job.errors import DeadlinePassed

pytestmark = pytest.mark.cluster

PAGE = Path(__file__).parents[2] / "docs/python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
JOB: dict[str, Any] = {
    "image": "library/python:3.11",
    "strategy": "single",
    "roles": {"worker": {"memory": "128Mi"}},
}
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


def test_a_handle_from_submission_to_deletion(client: Client) -> None:
    job = {**JOB, "name": "handled", "command": "echo one; echo two; sleep 600"}
    handle = client.submit(job)
    try:
        assert not handle.adopted
        assert client.submit(job).adopted, "the same call again finds its own job"
        changes: list[Status] = []
        running = handle.wait(
            120, until=lambda seen: seen.state is JobState.RUNNING, on_change=changes.append
        )
        assert (running.state, running.is_over) == (JobState.RUNNING, False)
        assert changes[-1].state is JobState.RUNNING
        assert [line.text for line in handle.logs("worker-0", tail=1, files=["stdout.txt"])] == [
            "two"
        ]
        with pytest.raises(DeadlinePassed):
            handle.wait(0.5)
        assert handle.application_id in [
            job.application_id for job in client.jobs(states=frozenset({JobState.RUNNING}))
        ]
        attached = client.attach("handled")
        assert attached.status().application_id == handle.application_id
        assert attached.stop().state is JobState.STOPPED
        with pytest.raises(JobStopped):
            handle.result(60)
    finally:
        assert handle.delete(force=True)
    assert not handle.delete()
    with pytest.raises(NoSuchJob):
        client.attach("handled")


def test_one_client_and_several_threads(client: Client) -> None:
    """Each thread has a job of its own; one of them fails."""
    ends: dict[str, object] = {}

    def run(number: int) -> None:
        handle = client.submit({**JOB, "name": f"thread-{number}", "command": f"exit {number}"})
        try:
            ends[handle.name] = handle.result(240).state
        except JobFailed as error:
            ends[handle.name] = error.message
        finally:
            handle.delete(force=True)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert ends["thread-0"] is JobState.SUCCEEDED
    assert "worker-0" in str(ends["thread-1"])
    assert "worker-0" in str(ends["thread-2"])
