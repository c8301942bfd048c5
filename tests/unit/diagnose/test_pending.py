"""Why a job waits: each cause from responses of real ResourceManagers (Hadoop 3.4.2), shortened."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.diagnose.cause import Cause
from submit_tf_job.diagnose.pending import CODES, diagnose
from submit_tf_job.diagnose.situation import (
    LateTask,
    PendingRequest,
    PlacementRequest,
    Situation,
    asks_of,
    placements_of,
)
from submit_tf_job.yarn.observed import AppAttempt, AppReport, Node, ObservedService
from submit_tf_job.yarn.queues import QueueResources, Scheduler

ROOT = Path(__file__).parents[3]


def amount(memory_mib: int, vcores: int = 1, gpus: int | None = None) -> dict[str, Any]:
    more = [] if gpus is None else [{"name": "yarn.io/gpu", "value": gpus}]
    information = [
        {"name": "memory-mb", "value": memory_mib},
        {"name": "vcores", "value": vcores},
        *more,
    ]
    return {
        "memory": memory_mib,
        "vCores": vcores,
        "resourceInformations": {"resourceInformation": information},
    }


def queue(
    name: str,
    *,
    used: int = 0,
    limit: int = 12288,
    percent: float = 100.0,
    users: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    return {
        "type": "capacitySchedulerLeafQueueInfo",
        "queueName": name,
        "queuePath": f"root.{name}",
        "state": "RUNNING",
        "nodeLabels": ["*"],
        "maxParallelApps": 2147483647,
        "userLimitFactor": 10.0,
        "configuredMaxAMResourceLimit": 0.05,
        "orderingPolicyInfo": "fifo",
        "capacities": {
            "queueCapacitiesByPartition": [
                {
                    "partitionName": "",
                    "absoluteCapacity": 50.0,
                    "absoluteMaxCapacity": percent,
                    "effectiveMaxResource": amount(limit, 16),
                }
            ]
        },
        "resources": {
            "resourceUsagesByPartition": [{"partitionName": "", "used": amount(used, 3)}]
        },
        "users": {"user": [{"username": name, **values} for name, values in (users or {}).items()]},
        **more,
    }


def scheduler(*queues: dict[str, Any]) -> Scheduler:
    root = {
        "type": "capacityScheduler",
        "queueName": "root",
        "queuePath": "root",
        "maxCapacity": 100.0,
        "queues": {"queue": list(queues)},
    }
    return Scheduler.from_json(root)


def node(
    host: str = "node1",
    *,
    free: int = 12288,
    used: int = 0,
    gpus: tuple[int, int] | None = None,
    **more: Any,
) -> Node:
    free_gpus, used_gpus = gpus or (None, None)
    return Node.from_json(
        {
            "id": f"{host}:45454",
            "nodeHostName": host,
            "state": "RUNNING",
            "rack": "/default-rack",
            "usedMemoryMB": used,
            "availMemoryMB": free,
            "usedVirtualCores": 1,
            "availableVirtualCores": 15,
            "usedResource": amount(used, 1, used_gpus),
            "availableResource": amount(free, 15, free_gpus),
            **more,
        }
    )


def app(state: str = "ACCEPTED", **more: Any) -> AppReport:
    return AppReport.from_json(
        {
            "id": "application_1_0002",
            "name": "big",
            "user": "alice",
            "queue": "root.ml",
            "state": state,
            "priority": 0,
            "startedTime": 2000,
            "elapsedTime": 6000,
            **more,
        }
    )


MASTER = PendingRequest((), 1, QueueResources(512, 1))
WORKER = PendingRequest(("worker",), 2, QueueResources(2048, 1))


def first(situation: Situation) -> Cause:
    causes = diagnose(situation)
    assert all(cause.code in CODES for cause in causes)
    return causes[0]


def one(situation: Situation) -> Cause:
    (cause,) = diagnose(situation)
    return cause


def test_codes_of_waiting_jobs_are_documented_in_order() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    section = page[page.index("## Why a job waits") :].partition("\n## ")[0]
    assert tuple(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)) == CODES


# --- queues ---------------------------------------------------------------------------------------

AM_WORDS = (
    "[Sat Nov 21 15:14:44 +0000 2026] Application is added to the scheduler and is not "
    "yet activated. {} AM resource limit exceeded.  "
    "Details : AM Partition = <DEFAULT_PARTITION>; AM Resource Request = <memory:512, "
    "vCores:1>; Queue Resource Limit for AM = "
    "<memory:640, vCores:1>; User AM Resource Limit of the queue = <memory:384, vCores:1>; "
    "Queue AM Resource Usage = <memory:512, vCores:1>; "
)
RUNNING = AppReport.from_json(
    {
        "id": "application_1_0001",
        "name": "a1",
        "user": "alice",
        "queue": "ml",
        "state": "RUNNING",
        "startedTime": 1000,
    }
)


def waiting(**more: Any) -> Situation:
    return Situation(
        **{
            "app": app(),
            "asks": (MASTER,),
            "scheduler": scheduler(queue("ml"), queue("default")),
            "nodes": (node(),),
            **more,
        }
    )


def test_diagnose_am_limit_of_a_queue() -> None:
    cause = one(waiting(app=app(diagnostics=AM_WORDS.format("Queue's")), neighbours=(RUNNING,)))
    assert cause.code == "am-limit-queue"
    assert cause.sentence == (
        "ApplicationMasters may use 640 MiB and 1 core of queue ml, 5% of the queue; 512 "
        "MiB is in use and this job's needs 512 MiB and "
        "1 core; 1 job holds it: a1 of alice"
    )
    assert "yarn.scheduler.capacity.root.ml.maximum-am-resource-percent" in cause.hint
    assert cause.facts["limit"] == {"memory-mb": 640, "vcores": 1}


def test_diagnose_am_limit_of_a_user() -> None:
    cause = one(waiting(app=app(diagnostics=AM_WORDS.format("User's"))))
    assert (cause.code, cause.facts["limit"]) == ("am-limit-user", {"memory-mb": 384, "vcores": 1})


def _master(number: int, **more: Any) -> AppReport:
    """An application that has its ApplicationMaster alone, and asks for a container (seen on
    3.4.2, with 16 of them on 16 cores).
    """
    asks = [{"numContainers": 1, "resourceName": "*", "capability": {"memory": 256, "vCores": 1}}]
    return AppReport.from_json(
        {
            "id": f"application_1_000{number}",
            "name": f"s-{number}",
            "user": "alice",
            "queue": "root.ml",
            "state": "RUNNING",
            "runningContainers": 1,
            "allocatedMB": 512,
            "resourceRequests": asks,
            **more,
        }
    )


FULL = node(free=0, used=1024, numContainers=2, availableVirtualCores=0)
TWO = (_master(1), _master(2))


def test_diagnose_masters_that_hold_everything() -> None:
    words = app(diagnostics=AM_WORDS.format("Queue's"))
    cause = one(waiting(app=words, nodes=(FULL,), neighbours=TWO, cluster_apps=TWO))
    assert (cause.code, cause.facts["masters"]) == ("masters-only", 2)
    assert cause.sentence == (
        "the ApplicationMasters of 2 jobs hold this cluster, and none of these jobs has another "
        "container: nothing will start until one of them is stopped"
    )
    assert cause.hint.startswith("stop one of them: yours are s-1 and s-2; an administrator lowers")
    small = scheduler(queue("ml", used=1024, limit=1100, percent=9.0))
    elsewhere = node(free=9000, used=4000, numContainers=9)
    cause = one(waiting(scheduler=small, nodes=(elsewhere,), neighbours=TWO, cluster_apps=TWO))
    assert "hold queue root.ml" in cause.sentence


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes": (node(free=0, used=9999, numContainers=3, availableVirtualCores=0),)},
        {"nodes": (node(free=256, used=1024, numContainers=2),)},
        {"cluster_apps": (_master(1), _master(2, runningContainers=2))},
        {"cluster_apps": (_master(1), _master(2, resourceRequests=[]))},
        {"cluster_apps": (_master(1), _master(2, state="ACCEPTED"))},
        {"cluster_apps": (_master(1), _master(2, runningContainers=0))},
    ],
    ids=["others", "room", "has a container", "asks for none", "has not started", "one"],
)
def test_diagnose_masters_that_will_go_on(changes: dict[str, Any]) -> None:
    situation = waiting(**{"nodes": (FULL,), "neighbours": TWO, "cluster_apps": TWO, **changes})
    assert "masters-only" not in {cause.code for cause in diagnose(situation)}


def test_diagnose_full_queue() -> None:
    users = {"bob": {"resourcesUsed": amount(4608, 3)}}
    full = scheduler(
        queue("ml", used=4608, limit=6144, percent=50.0, users=users), queue("default")
    )
    cause = one(waiting(app=app("RUNNING"), asks=(WORKER,), scheduler=full))
    assert cause.code == "queue-full"
    assert cause.sentence == (
        "queue root.ml is full: it uses 4608 MiB of at most 6 GiB (50 % of the cluster), "
        "and 2 containers of worker ask for 2 GiB each; "
        "user bob has 4608 MiB"
    )
    assert "default has room now" in cause.hint
    assert cause.facts["room_in"] == "default"


def test_diagnose_queue_that_is_too_small() -> None:
    small = scheduler(queue("ml", limit=1024, percent=10.0))
    cause = one(waiting(app=app("RUNNING"), asks=(WORKER,), scheduler=small))
    assert cause.code == "queue-too-small"
    assert cause.hint.startswith("lower roles.worker.memory, or choose another `queue`")


def test_diagnose_user_above_the_limit() -> None:
    users = {"alice": {"resourcesUsed": amount(3584, 4), "userResourceLimit": amount(3072, 4)}}
    cause = one(waiting(scheduler=scheduler(queue("ml", users=users))))
    assert cause.code == "user-limit"
    assert "user alice has 3584 MiB of queue root.ml, more than the 3 GiB" in cause.sentence


def test_diagnose_user_at_the_limit() -> None:
    users = {"alice": {"resourcesUsed": amount(3072, 4), "userResourceLimit": amount(3072, 4)}}
    assert one(waiting(scheduler=scheduler(queue("ml", users=users)))).code == "am-waiting"


def test_diagnose_parallel_limit() -> None:
    cause = one(waiting(scheduler=scheduler(queue("ml", maxParallelApps=1)), neighbours=(RUNNING,)))
    assert cause.sentence == "queue root.ml runs at most 1 job at once, and 1 runs: a1 of alice"


def test_diagnose_draining_queue() -> None:
    codes = [
        cause.code
        for cause in diagnose(waiting(scheduler=scheduler(queue("ml", state="DRAINING"))))
    ]
    assert codes == ["queue-stopped", "am-waiting"]


def test_diagnose_earlier_jobs_of_a_fifo_queue() -> None:
    pending = {"resourceUsagesByPartition": [{"partitionName": "", "pending": amount(4096, 2)}]}
    other = AppReport.from_json({**RUNNING.raw, "resourceInfo": pending})
    assert (
        one(waiting(neighbours=(other,))).sentence
        == "1 job of queue ml that waits for containers too is before it: a1 of alice"
    )
    assert one(waiting(neighbours=(RUNNING,))).code == "am-waiting"
    fair = scheduler(queue("ml", orderingPolicyInfo="fair"))
    assert one(waiting(neighbours=(other,), scheduler=fair)).code == "am-waiting"


# --- nodes ----------------------------------------------------------------------------------------


def starting(*nodes: Node, ask: PendingRequest = WORKER, **more: Any) -> Situation:
    return waiting(**{"app": app("RUNNING"), "asks": (ask,), "nodes": nodes, **more})


def test_diagnose_without_nodes() -> None:
    cause = one(waiting(nodes=(node(state="SHUTDOWN"), node("node2", state="LOST"))))
    assert (cause.code, cause.sentence) == (
        "no-nodes",
        "no NodeManager is in service: 1 LOST and 1 SHUTDOWN",
    )


def test_diagnose_unhealthy_nodes() -> None:
    cause = one(
        waiting(nodes=(node(state="UNHEALTHY", healthReport="ERROR the disk /data1 is full\n"),))
    )
    assert (
        cause.sentence
        == "no node is fit for service (1 UNHEALTHY); node1 says: ERROR the disk /data1 is full"
    )


def test_diagnose_no_node_with_enough_free() -> None:
    cause = one(starting(node(free=1024, used=11264), node("node2", free=1536, used=1024)))
    assert cause.code == "no-room"
    assert cause.sentence == (
        "2 containers of worker ask for 2 GiB in one container, and the node with most "
        "free has 1536 MiB, 2560 MiB on all 2 nodes together"
    )
    assert cause.hint == "wait until others are done, or lower roles.worker.memory"


def test_diagnose_container_larger_than_every_node() -> None:
    cause = first(starting(node(free=1024, used=512)))
    assert cause.code == "container-too-large"
    assert cause.sentence.endswith("the largest node has 1536 MiB in all: it can never start")


GPU = PendingRequest(("worker",), 1, QueueResources(256, 1, {"yarn.io/gpu": 1}))


def test_diagnose_gpus() -> None:
    assert one(starting(node(gpus=(0, 2)), ask=GPU)).sentence == (
        "1 container of worker asks for 1 yarn.io/gpu on one node; 0 of 2 are free, at "
        "most 0 on one node"
    )
    assert one(starting(node(gpus=(0, 0)), ask=GPU)).code == "gpu-none"
    assert one(starting(node(gpus=(1, 1)), ask=GPU)).code == "containers-coming"


def test_diagnose_refused_request() -> None:
    words = (
        "Invalid resource request! Cannot allocate containers as requested resource is "
        "greater than maximum allowed allocation."
    )
    codes = [
        cause.code
        for cause in diagnose(
            starting(node(gpus=(0, 0)), ask=GPU, app=app("RUNNING", diagnostics=words))
        )
    ]
    assert codes == ["gpu-none", "request-refused"]


def test_diagnose_labels() -> None:
    wish = PlacementRequest("worker", 1, "AFFINITY_WITH_CARDINALITY", "NODE", ("fast",))
    none = one(starting(node(), asks=(), placements=(wish,)))
    assert (
        none.sentence
        == "worker must have nodes labelled fast, and none in service is; no node in service "
        "has a label"
    )
    unshared = one(
        starting(node(), node("node2", nodeLabels=["fast"]), asks=(), placements=(wish,))
    )
    assert (unshared.code, unshared.facts["queue"]) == ("label-not-allowed", "root.ml")
    by_queue = one(waiting(scheduler=scheduler(queue("ml", defaultNodeLabelExpression="fast"))))
    assert "yarn.scheduler.capacity.root.ml.default-node-label-expression" in by_queue.hint


def test_diagnose_exclusive_and_shared_labels() -> None:
    labelled = node(nodeLabels=["fast"])
    assert one(starting(labelled, exclusive={"fast": True})).code == "label-unknown"
    assert one(starting(labelled, exclusive={"fast": False})).code == "containers-coming"


def test_diagnose_placement() -> None:
    wish = PlacementRequest("worker", 4, "ANTI_AFFINITY", "NODE")
    assert one(starting(node(), node("node2"), placements=(wish,))).sentence == (
        "worker wants each of its 4 tasks on a node of its own, and there are 2 nodes"
    )
    assert (
        first(starting(node(), placements=(wish,), placement_handler="disabled")).code
        == "placement-disabled"
    )


def test_diagnose_reservation() -> None:
    cause = diagnose(
        starting(node(free=1024, used=11264), app=app("RUNNING", reservedMB=2048, reservedVCores=1))
    )[1]
    assert (
        cause.sentence
        == "YARN keeps 2 GiB and 1 core of a node for it, and waits until that much is free there"
    )


# --- time -----------------------------------------------------------------------------------------


def test_diagnose_application_master_that_starts() -> None:
    attempt = AppAttempt(
        "appattempt_1_0002_000001",
        "LAUNCHED",
        "container_1_0002_01_000001",
        "node1:45454",
        logs_link="http://node1:8042/logs",
    )
    assert one(waiting(attempt=attempt, asks=())).sentence == (
        "its ApplicationMaster has a container on node1 and has not registered yet, 6 s "
        "after the job was accepted"
    )
    slow = one(waiting(app=app(elapsedTime=60_000), attempt=attempt, asks=()))
    assert slow.hint == "its log may say why: http://node1:8042/logs"


def test_diagnose_tasks_with_containers() -> None:
    pulled, started = (
        LateTask("worker-0", "node1", 43.0, "RUNNING", False),
        LateTask("worker-1", "node2", 12.0, "RUNNING", True),
    )
    causes = diagnose(starting(node(), asks=(), late=(pulled, started)))
    assert [cause.code for cause in causes] == ["image-or-files", "task-not-arrived"]
    assert causes[0].sentence.startswith(
        "worker-0 on node1, for 43 s, has a container and has not started: the image"
    )


def test_diagnose_speaks_of_an_image_only_where_one_is_pulled() -> None:
    brought = LateTask("worker-0", "node1", 95.0, "LOCALIZING", False)
    (cause,) = diagnose(starting(node(), asks=(), late=(brought,)))
    assert cause.sentence.endswith("their files and packages are being brought to the node")
    assert "image" not in cause.hint
    plain = replace(
        starting(node(), asks=(), late=(LateTask("worker-0", "node1", 43.0, "RUNNING", False),)),
        has_image=False,
    )
    (cause,) = diagnose(plain)
    assert "image" not in cause.sentence + cause.hint


def test_diagnose_forgets_an_application_master_that_came_back() -> None:
    back = AppAttempt.from_json({"id": 2, "startTime": 1_000})
    late = LateTask("worker-0", "node1", 43.0, "RUNNING", True)
    base = starting(node(), asks=(), late=(late,))
    now_ms = (base.app.started_ms or 0) + (base.app.elapsed_ms or 0)
    for started_ms, codes in (
        (now_ms - 900_000, ["task-not-arrived"]),
        (now_ms - 5_000, ["am-restarted", "task-not-arrived"]),
    ):
        attempt = replace(back, started_ms=started_ms)
        found = diagnose(replace(base, attempt=attempt, tries=2))
        assert [cause.code for cause in found] == codes


def test_diagnose_lost_tasks_that_yarn_has_not_replaced() -> None:
    lost = LateTask("worker-0", "node1", 43.0, lost=True)
    (cause,) = diagnose(starting(node(), asks=(), late=(lost,)))
    assert (cause.code, cause.sentence) == (
        "task-not-replaced",
        "worker-0 on node1, for 43 s, has been lost, and YARN has no new container for it yet",
    )


def test_diagnose_adds_preemptions_and_restarts() -> None:
    found = diagnose(waiting(app=app(numNonAMContainerPreempted=2), tries=2))
    assert [cause.code for cause in found] == ["preempted", "am-restarted", "am-waiting"]


def test_diagnose_without_obstacle() -> None:
    assert one(waiting()).code == "am-waiting"
    unexplained = one(waiting(app=app(elapsedTime=600_000, diagnostics="hm")))
    assert (unexplained.code, unexplained.sentence[-16:]) == ("unexplained", "YARN reports: hm")
    noted = one(starting(node(), activities={"Queue hits max-capacity limit": 8}))
    assert noted.sentence == "the scheduler passes it over: Queue hits max-capacity limit (8 times)"


def test_diagnose_without_data() -> None:
    assert one(Situation(app())).code == "am-waiting"


# --- what is asked for ----------------------------------------------------------------------------

SERVICE = ObservedService.from_json(
    {
        "name": "big",
        "state": "STARTED",
        "components": [
            {
                "name": "main",
                "number_of_containers": 1,
                "resource": {"memory": "256", "cpus": 1},
                "containers": [{"id": "c"}],
            },
            {
                "name": "worker",
                "number_of_containers": 3,
                "resource": {"memory": "2000", "cpus": 1},
                "containers": [{"id": "d"}],
                "placement_policy": {
                    "constraints": [
                        {"type": "ANTI_AFFINITY", "scope": "NODE", "target_tags": ["worker"]}
                    ]
                },
            },
        ],
    }
)
REQUEST = {
    "priority": 1,
    "resourceName": "*",
    "capability": amount(2048, 1, 0),
    "numContainers": 2,
    "nodeLabelExpression": "",
}


def test_asks_of_names_the_roles() -> None:
    beside = [{**REQUEST, "resourceName": "/default-rack"}, {**REQUEST, "numContainers": 0}]
    assert asks_of(app("RUNNING", resourceRequests=[REQUEST, *beside]), SERVICE) == (WORKER,)
    assert WORKER.who == "2 containers of worker"


def test_asks_of_before_the_application_master() -> None:
    assert asks_of(
        app(resourceRequests=[{**REQUEST, "capability": amount(512), "numContainers": 1}]), None
    ) == (MASTER,)


def test_asks_of_reads_the_service_without_requests() -> None:
    assert asks_of(app("RUNNING"), SERVICE) == (
        PendingRequest(("worker",), 2, QueueResources(2000, 1)),
    )
    assert placements_of(SERVICE) == (PlacementRequest("worker", 3, "ANTI_AFFINITY", "NODE"),)


# --- other schedulers, words ----------------------------------------------------------------------


def test_diagnose_with_the_fair_scheduler() -> None:
    ml = {
        "queueName": "root.ml",
        "maxApps": 1,
        "maxResources": amount(4096),
        "usedResources": amount(3072),
        "numActiveApps": 1,
    }
    found = Scheduler.from_json(
        {
            "type": "fairScheduler",
            "rootQueue": {"queueName": "root", "childQueues": {"queue": [ml]}},
        }
    )
    ours = found.find("ml")
    assert ours is not None
    assert (ours.path, ours.max_parallel, ours.partition().limit) == (
        "root.ml",
        1,
        QueueResources(4096, 1),
    )
    full = one(waiting(app=app("RUNNING"), asks=(WORKER,), scheduler=found))
    assert full.code == "queue-full"
    assert full.hint.endswith(
        "an administrator raises maxResources of root.ml in the scheduler's allocation file"
    )


def test_diagnose_with_the_fifo_scheduler() -> None:
    found = Scheduler.from_json(
        {
            "type": "fifoScheduler",
            "qstate": "RUNNING",
            "totalNodeCapacity": 8192,
            "usedNodeCapacity": 1024,
        }
    )
    ours = found.find("whatever")
    assert ours is not None
    assert ours.partition().used == QueueResources(1024)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"type": 3},
        {"queues": {"queue": "x"}},
        {"type": "fairScheduler", "rootQueue": []},
        {"users": 7},
    ],
)
def test_diagnose_of_unexpected_json(answer: dict[str, Any]) -> None:
    situation = waiting(scheduler=Scheduler.from_json(answer))
    assert first(situation).code == "am-waiting"
