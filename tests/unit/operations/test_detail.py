"""Tasks, limits, links and events of a status."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from submit_tf_job.diagnose.cause import Diagnosis
from submit_tf_job.observation import JobStatus
from submit_tf_job.operations.detail import (
    PUBLISH_ENV,
    Link,
    StartTimes,
    TaskDetail,
    events_of,
    limits_of,
    links_of,
    start_of,
    tasks_of,
)
from submit_tf_job.operations.links import tunnel_command
from submit_tf_job.report.detail_text import description_lines
from submit_tf_job.report.job_text import link_lines
from submit_tf_job.yarn.observed import AppAttempt, AppReport, ObservedService
from tests.fakes.statuses import app, report


def service(*components: dict[str, Any]) -> ObservedService:
    return ObservedService.from_json(
        {
            "name": "mnist",
            "id": "application_1_0001",
            "state": "STABLE",
            "components": list(components),
        }
    )


def component(
    name: str, *containers: dict[str, Any], wanted: int = 1, network: str = "host", ports: str = ""
) -> dict[str, Any]:
    properties = {"submit_tf_job.ports": ports} if ports else {}
    configuration = {
        "properties": properties,
        "env": {"YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK": network},
    }
    return {
        "name": name,
        "number_of_containers": wanted,
        "containers": list(containers),
        "configuration": configuration,
    }


ID = "container_1_0001_01_%06d"


def container(instance: str, number: int = 2, **answer: Any) -> dict[str, Any]:
    plain = {
        "id": ID % number,
        "component_instance_name": instance,
        "state": "READY",
        "bare_host": "node1",
    }
    return {**plain, "ip": "172.18.0.5", "launch_time": 1_000 * number, **answer}


def seen(record: AppReport | None = None, **values: Any) -> JobStatus:
    return JobStatus("mnist", "application_1_0001", record or app("RUNNING", "UNDEFINED"), **values)


def test_tasks_of_a_job_without_report() -> None:
    found = tasks_of(seen(service=service(component("worker", container("worker-0"), wanted=3))))
    assert [(task.name, task.state, task.host) for task in found] == [
        ("worker-0", "ready", "node1"),
        ("worker-1", "waiting", None),
        ("worker-2", "waiting", None),
    ]


def test_tasks_of_prefers_the_report() -> None:
    entry = {
        "task": "worker-0",
        "state": "failed",
        "attempt": 2,
        "status": 3,
        "host": "n7",
        "address": "10.0.0.7",
        "container": "c7",
    }
    said = report(
        "running",
        roles={"worker": {"wanted": 2}},
        tasks=[entry, {"task": "worker-1", "state": "absent"}],
    )
    yarn = service(
        component(
            "worker", container("worker-0"), container("worker-1", 3, bare_host="node3"), wanted=2
        )
    )
    first, second = tasks_of(seen(report=said, service=yarn))
    assert first == TaskDetail(
        "worker-0", "failed", "n7", "10.0.0.7", "c7", 2000, restarts=2, status=3
    )
    assert (second.state, second.host, second.launched_ms) == ("ready", "node3", 3000)


LOST = {"task": "worker-0", "state": "absent", "host": "node1", "container": ID % 2}


def test_tasks_of_a_lost_task_that_yarn_has_not_replaced() -> None:
    yarn = service(component("worker", container("worker-0")))
    (task, _) = tasks_of(seen(report=report("waiting", tasks=[LOST]), service=yarn))
    assert (task.state, task.host, task.container_id) == ("lost", "node1", ID % 2)


def test_tasks_of_a_lost_task_that_yarn_has_replaced() -> None:
    yarn = service(
        component("worker", container("worker-0"), container("worker-0", 7, bare_host="node2"))
    )
    (task, _) = tasks_of(seen(report=report("waiting", tasks=[LOST]), service=yarn))
    assert (task.state, task.host, task.container_id) == ("ready", "node2", ID % 7)


def test_tasks_of_uses_the_last_container() -> None:
    yarn = service(
        component("worker", container("worker-0", 5), container("worker-0", 2, state="FAILED"))
    )
    (task,) = tasks_of(seen(service=yarn))
    assert (task.container_id, task.state) == ("container_1_0001_01_000005", "ready")


@pytest.mark.parametrize("tasks", [None, "x", [1, "y"], {}])
def test_detail_of_an_invalid_report(tasks: Any) -> None:
    assert [
        task.name for task in tasks_of(seen(report=report("running", tasks=tasks, events=tasks)))
    ] == ["worker-0", "worker-1"]


@pytest.mark.parametrize(("network", "host"), [("host", "node1"), ("bridge", "172.18.0.5")])
def test_links_of_containers(network: str, host: str) -> None:
    yarn = service(
        component(
            "board", container("board-0"), network=network, ports="http=6006,https=8443,odd,=3"
        ),
        component("worker"),
    )
    links = links_of(seen(service=yarn))
    assert [(link.task, link.name, link.url) for link in links] == [
        ("board-0", "http", f"http://{host}:6006"),
        ("board-0", "https", f"https://{host}:8443"),
    ]
    assert links_of(seen(app(), service=yarn)) == ()
    assert {link.via for link in links} == {"" if network == "host" else "node1"}


def test_links_of_published_ports_name_the_node() -> None:
    board = component(
        "board", container("board-0"), network="bridge", ports="http=6006,api=80,grpc=auto"
    )
    board["configuration"]["env"][PUBLISH_ENV] = "16006:6006,:80,odd,1:2:3,18500:8500"
    served = [{"task": "board-0", "host": "node1", "ports": {"grpc": 8500}}]
    links = links_of(seen(service=service(board), report=report("running", served=served)))
    assert [(link.name, link.url, link.via) for link in links] == [
        ("http", "http://node1:16006", ""),
        ("api", "http://172.18.0.5:80", "node1"),
        ("grpc", "http://node1:18500", ""),
    ]


def test_link_lines_name_the_node_of_a_docker_address() -> None:
    links = (
        Link("board-0", "http", "node1", 80, "http://node1:80"),
        Link("board-1", "http", "172.18.0.5", 80, "http://172.18.0.5:80", "node1"),
    )
    assert list(link_lines(links)) == [
        "board-0 http  http://node1:80",
        "board-1 http  http://172.18.0.5:80  (reached from node1; elsewhere: "
        "submit_tf_job tunnel JOB board-1)",
    ]


def test_tunnel_command_goes_through_the_node_of_a_docker_address() -> None:
    link = Link("board-0", "http", "172.18.0.5", 6006, "http://172.18.0.5:6006", "node1")
    assert tunnel_command(link)[0] == ["ssh", "-N", "-L", "6006:172.18.0.5:6006", "node1"]
    assert tunnel_command(link, via="edge")[0] == [
        "ssh",
        "-N",
        "-L",
        "6006:172.18.0.5:6006",
        "edge",
    ]
    assert tunnel_command(Link("board-0", "http", "node1", 80, "http://node1:80"))[0][-2:] == [
        "80:localhost:80",
        "node1",
    ]


def test_links_of_reported_ports_are_those_that_were_bound() -> None:
    board = component(
        "board", container("board-0"), container("board-1", 3), ports="http=auto,api=80"
    )
    yarn = service(board, component("worker"))
    assert [link.url for link in links_of(seen(service=yarn))] == ["http://node1:80"] * 2
    served = [
        {"task": "board-0", "host": "node1", "ports": {"http": 24001, "api": 80}},
        {"task": "board-1", "host": "node1", "ports": {"http": 24002}},
        {"task": "board-2", "host": "node7", "ports": {"http": 24003}},  # not yet in YARN's list
    ]
    links = links_of(seen(service=yarn, report=report("running", served=served)))
    assert {(link.task, link.url) for link in links if link.name == "http"} == {
        ("board-0", "http://node1:24001"),
        ("board-1", "http://node1:24002"),
        ("board-2", "http://node7:24003"),
    }


@pytest.mark.parametrize(
    "served",
    [
        None,
        7,
        [7],
        [{"task": "a-0", "host": "evil.example/x?", "ports": {"http": 1}}],
        [{"task": "a-0", "host": "n", "ports": {"http": 70000, "x": True, "y": "80"}}],
        [{"task": "a-0", "host": "", "ports": {"http": 80}}],
    ],
)
def test_links_of_invalid_addresses(served: Any) -> None:
    assert links_of(seen(report=report("running", served=served))) == ()


def test_links_of_a_task_that_was_started_again_are_of_its_last_container() -> None:
    again = component(
        "board",
        container("board-0", 5, bare_host="node2"),
        container("board-0", 2),
        ports="http=80",
    )
    assert [link.url for link in links_of(seen(service=service(again)))] == ["http://node2:80"]


STARTED = replace(app("RUNNING", "UNDEFINED"), started_ms=10_000)


def test_start_of_has_the_three_parts_of_the_start() -> None:
    times = {"launched_at": 12.5, "arrived_at": 13.0, "at": 13.25, "by_address": 2}
    status = seen(STARTED, report=report(start=times))
    assert start_of(status) == StartTimes(2.5, 0.5, 0.25, 2)
    lines = description_lines(status, Diagnosis(), now_ms=0)
    assert (
        "start  2.5 s until YARN had started every task, 0.5 s until all had found the deciding "
        "task, 0.2 s until the programs started; 2 tasks known by address"
    ) in lines


def test_start_of_a_later_generation_counts_from_the_failure_before() -> None:
    times = {"launched_at": 112.5, "arrived_at": 113.0, "at": 113.25, "by_address": 0}
    past = [{"generation": 0, "task": "worker-0", "at": 110.0}]
    rule = {"max": 3, "used": 1}
    said = report(start=times, generation=1, generations=past, retries=rule)
    status = seen(STARTED, report=said)
    assert start_of(status) == StartTimes(2.5, 0.5, 0.25, 0, generation=1)
    lines = description_lines(status, Diagnosis(), now_ms=0)
    assert any(line.startswith("start of generation 1  2.5 s until YARN had") for line in lines)
    past = [{"generation": 0, "task": "worker-0", "at": 120.0}]
    again = report(start=times, generation=1, generations=past, retries=rule)
    assert start_of(seen(STARTED, report=again)) is None


@pytest.mark.parametrize("times", [None, "x", {"at": 1}, {"launched_at": "a", "arrived_at": 1}])
def test_start_of_an_invalid_report(times: Any) -> None:
    status = seen(STARTED, report=report(start=times))
    assert start_of(status) is None


def test_limits_of_a_lifetime() -> None:
    timeouts = {
        "timeout": [
            {
                "type": "LIFETIME",
                "expiryTime": "2026-05-04T09:30:00Z",
                "remainingTimeInSeconds": 599,
            },
            {"type": "OTHER"},
        ]
    }
    limited = AppReport.from_json(
        {"id": "application_1_0001", "state": "RUNNING", "timeouts": timeouts}
    )
    (limit,) = limits_of(seen(limited))
    assert (limit.name, limit.remaining_s, limit.ends_at) == (
        "lifetime",
        599,
        "2026-05-04T09:30:00Z",
    )
    unlimited = {
        "timeout": {"type": "LIFETIME", "expiryTime": "UNLIMITED", "remainingTimeInSeconds": -1}
    }
    assert (
        limits_of(seen(AppReport.from_json({"id": "a", "state": "RUNNING", "timeouts": unlimited})))
        == ()
    )


def test_events_of_are_in_order_of_time() -> None:
    record = replace(app(), started_ms=1000, finished_ms=9000)
    attempts = (
        AppAttempt("a1", "FAILED", node_id="node1:8041", started_ms=1500, finished_ms=4000),
        AppAttempt("a2", "FINISHED", started_ms=4500),
    )
    said = report(events=[{"at": 2.5, "text": "worker-0 is here"}, {"at": "soon"}, 7])
    job = seen(record, report=said, service=service(component("worker", container("worker-0"))))
    found = events_of(replace(job, attempts=attempts))
    assert [(event.at_ms, event.source) for event in found] == [
        (1000, "yarn"), (1500, "yarn"), (2000, "yarn"), (2500, "job"), (4000, "yarn"), (4500, "yarn"), (9000, "yarn"),
    ]  # fmt: skip
    assert found[1].text == "attempt 1 of the ApplicationMaster starts on node1"
