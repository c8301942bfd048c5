"""Which tasks a waiting job waits for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from submit_tf_job.diagnose.situation import Late
from submit_tf_job.observation import JobStatus
from submit_tf_job.operations.why import _late
from submit_tf_job.yarn.observed import ObservedService
from tests.fakes.running_job import Stage
from tests.fakes.statuses import app, report

CONTAINER = "container_1_0001_01_000002"


def waiting(**said: Any) -> JobStatus:
    """A job that waits for worker-0, whose container was launched 90 s ago."""
    container = {
        "id": CONTAINER,
        "component_instance_name": "worker-0",
        "state": "READY",
        "bare_host": "node1",
        "launch_time": 10_000,
    }
    worker = {"name": "worker", "number_of_containers": 1, "containers": [container]}
    service = {"name": "mnist", "id": "application_1_0001", "components": [worker]}
    running = replace(app("RUNNING", "UNDEFINED"), started_ms=10_000, elapsed_ms=90_000)
    return JobStatus(
        "mnist",
        "application_1_0001",
        running,
        service=ObservedService.from_json(service),
        report=report("waiting", missing=["worker-0"], **said),
    )


def late(status: JobStatus) -> list[Late]:
    cluster = Stage().alice
    assert status.app
    return list(_late(cluster, status, status.app, (), cluster.client.deadline(1)))


def test_task_that_never_reported_is_late_since_its_launch() -> None:
    assert late(waiting()) == [Late("worker-0", "node1", 90.0)]


def test_task_that_was_lost_awaits_a_new_container_since_then() -> None:
    entry = {"task": "worker-0", "state": "absent", "host": "node1", "container": CONTAINER}
    past = [{"generation": 0, "task": "worker-0", "at": 60.0}]
    rule = {"max": 3, "used": 1}
    status = waiting(tasks=[entry], generation=1, generations=past, retries=rule)
    assert late(status) == [Late("worker-0", "node1", 40.0, lost=True)]


def test_task_that_ends_its_command_for_the_next_generation_is_not_late() -> None:
    entry = {"task": "worker-0", "state": "restarting", "host": "node1", "container": CONTAINER}
    past = [{"generation": 0, "task": "worker-1", "at": 60.0}]
    rule = {"max": 3, "used": 1}
    assert late(waiting(tasks=[entry], generation=1, generations=past, retries=rule)) == []


def test_task_whose_new_container_has_started_is_late_as_any() -> None:
    entry = {"task": "worker-0", "state": "absent", "host": "node2", "container": "container_1"}
    past = [{"generation": 0, "task": "worker-0", "at": 60.0}]
    rule = {"max": 3, "used": 1}
    status = waiting(tasks=[entry], generation=1, generations=past, retries=rule)
    assert late(status) == [Late("worker-0", "node1", 90.0)]
