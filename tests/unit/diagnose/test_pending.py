"""Why a job waits: each row of pending.yaml, from responses of real ResourceManagers (Hadoop 3.4.2)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from submit_tf_job.diagnose.pending import CODES, diagnose
from submit_tf_job.diagnose.situation import LateTask, Situation, asks_of, placements_of
from submit_tf_job.yarn.inspection import Scheduler
from submit_tf_job.yarn.observed import AppReport, ObservedService
from submit_tf_job.yarn.observed_cluster import AppAttempt, Node

ROWS = yaml.safe_load(Path(__file__).with_name("pending.yaml").read_text("utf-8"))
PAGE = Path(__file__).parents[3] / "docs/troubleshooting.md"
APP: dict[str, Any] = {"id": "application_1_0002", "name": "big", "user": "alice", "priority": 0}
APP |= {"queue": "root.ml", "state": "ACCEPTED", "startedTime": 2000, "elapsedTime": 6000}
QUEUE = {
    "type": "capacitySchedulerLeafQueueInfo",
    "state": "RUNNING",
    "nodeLabels": ["*"],
    "maxParallelApps": 2147483647,
    "userLimitFactor": 10.0,
    "configuredMaxAMResourceLimit": 0.05,
    "orderingPolicyInfo": "fifo",
}
NODE = {"state": "RUNNING", "rack": "/default-rack", "usedVirtualCores": 1}
NODE |= {"availableVirtualCores": 15}


def amount(memory_mib: int, vcores: int = 1, gpus: int | None = None) -> dict[str, Any]:
    found = {"memory-mb": memory_mib, "vcores": vcores}
    found |= {} if gpus is None else {"yarn.io/gpu": gpus}
    named = [{"name": name, "value": value} for name, value in found.items()]
    information = {"resourceInformation": named}
    return {"memory": memory_mib, "vCores": vcores, "resourceInformations": information}


def scheduler(**of_ml: Any) -> dict[str, Any]:
    """Return the answer of a CapacityScheduler with two queues."""
    root = {"type": "capacityScheduler", "queueName": "root", "queuePath": "root"}
    queues = [queue("ml", **of_ml), queue("default")]
    return {**root, "maxCapacity": 100.0, "queues": {"queue": queues}}


def queue(
    name: str, used: int = 0, limit: int = 12288, percent: float = 100.0, **more: Any
) -> dict[str, Any]:
    most = {"absoluteMaxCapacity": percent, "effectiveMaxResource": amount(limit, 16)}
    capacity = {"partitionName": "", "absoluteCapacity": 50.0, **most}
    users = [
        {"username": user, **{key: amount(mib, 4) for key, mib in values.items()}}
        for user, values in more.pop("users", {}).items()
    ]
    return {
        **QUEUE,
        "queueName": name,
        "queuePath": f"root.{name}",
        "capacities": {"queueCapacitiesByPartition": [capacity]},
        "resources": {"resourceUsagesByPartition": [{"partitionName": "", "used": amount(used)}]},
        "users": {"user": users},
        **more,
    }


def node(
    number: int, free: int = 12288, used: int = 0, gpus: Any = (None, None), **more: Any
) -> Node:
    host = f"node{number}"
    memory = {"usedMemoryMB": used, "availMemoryMB": free}
    names = {"id": f"{host}:45454", "nodeHostName": host}
    resources = {"usedResource": amount(used, 1, gpus[1])}
    resources["availableResource"] = amount(free, 15, gpus[0])
    return Node.from_json({**NODE, **names, **memory, **resources, **more})


def other(number: int, *, master: bool = False, **more: Any) -> AppReport:
    """Return another application of the queue: a whole one, or an ApplicationMaster alone."""
    known: dict[str, Any] = {"id": f"application_1_{number + 10:04}", "name": "a1"}
    known["state"] = "RUNNING"
    if master:
        ask = {"numContainers": 1, "resourceName": "*", "capability": {"memory": 256, "vCores": 1}}
        known |= {"runningContainers": 1, "allocatedMB": 512, "resourceRequests": [ask]}
    return AppReport.from_json({**APP, "startedTime": 1000, **known, **more})


def service(count: int, **policy: Any) -> ObservedService:
    """Return a service whose role worker lacks containers."""
    constraint = {"scope": "NODE", "target_tags": ["worker"], **policy}
    placed = {"placement_policy": {"constraints": [constraint]}} if policy else {}
    size = {"memory": "2048", "cpus": 1}
    worker = {"name": "worker", "number_of_containers": count, "resource": size, **placed}
    return ObservedService.from_json({"name": "big", "state": "STARTED", "components": [worker]})


def situation(row: dict[str, Any]) -> Situation:
    """Read what the cluster says in a row."""
    asks, late = row.get("asks"), row.get("late", ())
    state = {} if asks is None and not late else {"state": "RUNNING"}
    requests: list[dict[str, Any]] = []
    if asks is None and not late and "attempt" not in row:
        requests = [{"numContainers": 1, "resourceName": "*", "capability": amount(512)}]
    elif asks:
        size = amount(256, 1, 1) if "gpus" in asks else amount(2048, 1, 0)
        star = {"resourceName": "*", "capability": size, "numContainers": asks["worker"]}
        requests = [star, {**star, "resourceName": "/default-rack"}, {**star, "numContainers": 0}]
    app = AppReport.from_json({**APP, **state, "resourceRequests": requests, **row.get("app", {})})
    seen = service((asks or {}).get("worker", 1), **row.get("placed", {}))
    others: Any = {
        name: tuple(other(number, **more) for number, more in enumerate(row.get(name, ())))
        for name in ("neighbours", "cluster_apps")
    }
    names = ("exclusive", "tries", "placement_handler", "activities", "has_image")
    return Situation(
        app,
        asks_of(app, seen) if asks != {} and not late else (),
        Scheduler.from_json(row.get("scheduler", scheduler(**row.get("queue", {})))),
        tuple(node(number, **more) for number, more in enumerate(row.get("nodes", [{}]), 1)),
        placements=placements_of(seen) if "placed" in row else (),
        attempt=AppAttempt.from_json(row["attempt"]) if "attempt" in row else None,
        late=tuple(LateTask(*values) for values in late),
        **others,
        **{name: row[name] for name in names if name in row},
    )


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_diagnose_names_what_a_job_waits_for(row: dict[str, Any]) -> None:
    causes = diagnose(situation(row))
    codes = [cause.code for cause in causes]
    assert set(codes) <= set(CODES)
    assert codes == row.get("codes", codes)
    assert codes[0] == row.get("first", codes[0])
    assert row.get("not") not in codes
    assert row.get("sentence", "") in causes[0].sentence, causes[0].sentence
    assert row.get("last", "") in causes[-1].sentence, causes[-1].sentence
    assert row.get("hint", "") in causes[0].hint, causes[0].hint
    assert row.get("without", "\0") not in causes[0].sentence + causes[0].hint
    assert causes[0].facts.items() >= row.get("facts", {}).items()


def test_diagnose_without_data() -> None:
    assert [cause.code for cause in diagnose(Situation(AppReport.from_json(APP)))] == ["am-waiting"]


def test_asks_of_reads_the_service_without_requests() -> None:
    app = AppReport.from_json({**APP, "state": "RUNNING"})
    [ask] = asks_of(app, service(2))
    assert (ask.who, ask.each.memory_mib) == ("2 containers of worker", 2048)


def test_codes_of_waiting_jobs_are_documented_in_order() -> None:
    page = PAGE.read_text("utf-8")
    section = page[page.index("## Why a job waits") :].partition("\n## ")[0]
    assert tuple(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)) == CODES
