"""Tasks, limits, links and events out of what was seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from submit_tf_job.description import Task, events_of, limits_of, links_of, tasks_of
from submit_tf_job.observation import Observation
from submit_tf_job.yarn.observed import AppAttempt, AppReport, ObservedService
from tests.unit.test_observation import app, report


def service(*components: dict[str, Any]) -> ObservedService:
    return ObservedService.from_json({"name": "mnist", "id": "application_1_0001", "state": "STABLE", "components": list(components)})


def component(name: str, *containers: dict[str, Any], wanted: int = 1, network: str = "host", ports: str = "") -> dict[str, Any]:
    properties = {"submit_tf_job.ports": ports} if ports else {}
    configuration = {"properties": properties, "env": {"YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK": network}}
    return {"name": name, "number_of_containers": wanted, "containers": list(containers), "configuration": configuration}


def container(instance: str, number: int = 2, **answer: Any) -> dict[str, Any]:
    plain = {"id": f"container_1_0001_01_{number:06}", "component_instance_name": instance, "state": "READY", "bare_host": "node1"}
    return {**plain, "ip": "172.18.0.5", "launch_time": 1_000 * number, **answer}


def seen(record: AppReport | None = None, **values: Any) -> Observation:
    return Observation("mnist", "application_1_0001", record or app("RUNNING", "UNDEFINED"), **values)


def test_tasks_by_yarn_alone() -> None:
    found = tasks_of(seen(service=service(component("worker", container("worker-0"), wanted=3))))
    assert [(task.name, task.state, task.host) for task in found] == [
        ("worker-0", "ready", "node1"),
        ("worker-1", "waiting", None),
        ("worker-2", "waiting", None),
    ]


def test_the_deciding_task_knows_better() -> None:
    entry = {"task": "worker-0", "state": "failed", "attempt": 2, "status": 3, "host": "n7", "address": "10.0.0.7", "container": "c7"}
    said = report("running", roles={"worker": {"wanted": 2}}, tasks=[entry, {"task": "worker-1", "state": "absent"}])
    yarn = service(component("worker", container("worker-0"), container("worker-1", 3, bare_host="node3"), wanted=2))
    first, second = tasks_of(seen(report=said, service=yarn))
    assert first == Task("worker-0", "failed", "n7", "10.0.0.7", "c7", 2000, restarts=2, status=3)
    assert (second.state, second.host, second.launched_ms) == ("ready", "node3", 3000)


def test_the_last_container_of_a_task_counts() -> None:
    yarn = service(component("worker", container("worker-0", 5), container("worker-0", 2, state="FAILED")))
    (task,) = tasks_of(seen(service=yarn))
    assert (task.container_id, task.state) == ("container_1_0001_01_000005", "ready")


@pytest.mark.parametrize("tasks", [None, "x", [1, "y"], {}])
def test_an_odd_report_is_no_defect(tasks: Any) -> None:
    assert [task.name for task in tasks_of(seen(report=report("running", tasks=tasks, events=tasks)))] == ["worker-0", "worker-1"]


@pytest.mark.parametrize(("network", "host"), [("host", "node1"), ("bridge", "172.18.0.5")])
def test_links(network: str, host: str) -> None:
    yarn = service(component("board", container("board-0"), network=network, ports="http=6006,https=8443,odd,=3"), component("worker"))
    links = links_of(seen(service=yarn))
    assert [(link.task, link.name, link.url) for link in links] == [
        ("board-0", "http", f"http://{host}:6006"),
        ("board-0", "https", f"https://{host}:8443"),
    ]
    assert links_of(seen(app(), service=yarn)) == ()


def test_limits() -> None:
    timeouts = {"timeout": [{"type": "LIFETIME", "expiryTime": "2026-05-04T09:30:00Z", "remainingTimeInSeconds": 599}, {"type": "OTHER"}]}
    limited = AppReport.from_json({"id": "application_1_0001", "state": "RUNNING", "timeouts": timeouts})
    (limit,) = limits_of(seen(limited))
    assert (limit.name, limit.remaining_s, limit.ends_at) == ("lifetime", 599, "2026-05-04T09:30:00Z")
    unlimited = {"timeout": {"type": "LIFETIME", "expiryTime": "UNLIMITED", "remainingTimeInSeconds": -1}}
    assert limits_of(seen(AppReport.from_json({"id": "a", "state": "RUNNING", "timeouts": unlimited}))) == ()


def test_events_in_order_of_time() -> None:
    record = replace(app(), started_ms=1000, finished_ms=9000)
    attempts = [
        AppAttempt("a1", "FAILED", node_id="node1:8041", started_ms=1500, finished_ms=4000),
        AppAttempt("a2", "FINISHED", started_ms=4500),
    ]
    said = report(events=[{"at": 2.5, "text": "worker-0 is here"}, {"at": "soon"}, 7])
    found = events_of(seen(record, report=said, service=service(component("worker", container("worker-0")))), attempts)
    assert [(event.at_ms, event.source) for event in found] == [
        (1000, "yarn"), (1500, "yarn"), (2000, "yarn"), (2500, "job"), (4000, "yarn"), (4500, "yarn"), (9000, "yarn"),
    ]  # fmt: skip
    assert found[1].text == "attempt 1 of the ApplicationMaster starts on node1"
