"""A job held against the nodes and the queue before the POST: what is read, refused and said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from submit_tf_job.errors import AuthError, ClusterUnavailable, Refused, SubmitTFJobError
from submit_tf_job.jobspec.job import ImagePolicy, Strategy
from submit_tf_job.operations.cluster import Cluster
from submit_tf_job.operations.room import check_room
from submit_tf_job.plan import Plan, plan
from submit_tf_job.settings import load_settings
from submit_tf_job.yarn.observed import Node
from tests.golden.fixed import SITE, make_job, make_role

T = TypeVar("T")
NODE = Node("n:1", "n", "n:2", "RUNNING", used_memory_mib=512, available_memory_mib=1024)


class Client:
    """A ResourceManager with one node of 1.5 GiB, 1 GiB of it free."""

    def __init__(self, problem: SubmitTFJobError | None = None, **answer: Any) -> None:
        self.asked: list[str] = []
        self.problem, self.answer = problem, answer

    def nodes(self) -> tuple[Node, ...]:
        return self._answer("nodes", (NODE,))

    def scheduler(self) -> dict[str, Any]:
        return self._answer("scheduler", self.answer)

    def _answer(self, name: str, value: T) -> T:
        self.asked.append(name)
        if self.problem:
            raise self.problem
        return value


def cluster_of(client: Client, **arguments: Any) -> Cluster:
    given = {"resource_managers": ["http://rm:8088"], "user": "alice", **arguments}
    settings = load_settings(arguments=given, environ={"HOME": "/nonexistent"}, cwd=Path("/"))
    known: Any = SimpleNamespace(nodes=client.nodes, scheduler=client.scheduler)
    return Cluster(settings, known, None, None, None)  # type: ignore[arg-type]


def planned(workers: int, **changes: Any) -> Plan:
    job = make_job(make_role("chief"), make_role("worker", instances=workers))
    return plan(replace(job, image_policy=ImagePolicy.WARN, **changes), SITE)


def test_check_room_refuses_what_can_never_start() -> None:
    client = Client()
    with pytest.raises(Refused) as caught:
        check_room(planned(3), cluster_of(client))
    assert caught.value.message == (
        "roles.worker.memory: the job needs 2 GiB at once (chief 1 x 512 MiB and worker 3 x "
        "512 MiB) and its ApplicationMaster, and 1 node has 1536 MiB in all"
    )
    assert "capacity_check: warn" in caught.value.hint
    assert client.asked == ["nodes"]


def test_check_room_says_what_cannot_start_now() -> None:
    assert check_room(planned(1), cluster_of(Client())) == (
        "it cannot start now, and waits: the job needs 1 GiB at once (chief 1 x 512 MiB and "
        "worker 1 x 512 MiB) and its ApplicationMaster, and 1 node has 1 GiB free now",
    )


def test_check_room_warns_on_clusters_that_grow() -> None:
    (said,) = check_room(planned(3), cluster_of(Client(), capacity_check="warn"))
    assert said.startswith("it cannot start before the cluster grows: the job needs 2 GiB at once")


def test_check_room_off_sends_nothing() -> None:
    client = Client()
    assert check_room(planned(3), cluster_of(client, capacity_check="off")) == ()
    assert client.asked == []


def test_check_room_sends_nothing_for_one_task() -> None:
    client = Client()
    single = make_job(make_role("worker", memory_mib=9999), strategy=Strategy.SINGLE)
    single = replace(single, image_policy=ImagePolicy.WARN)
    assert check_room(plan(single, SITE), cluster_of(client)) == ()
    assert client.asked == []


def test_check_room_reads_the_queues_of_a_job_with_a_queue() -> None:
    client = Client(type="odd")
    check_room(planned(1, queue="ml"), cluster_of(client))
    assert sorted(client.asked) == ["nodes", "scheduler"]


@pytest.mark.parametrize("problem", [AuthError("403"), ClusterUnavailable("no answer")])
def test_check_room_leaves_an_unreadable_cluster_to_the_post(problem: SubmitTFJobError) -> None:
    assert check_room(planned(3, queue="ml"), cluster_of(Client(problem))) == ()
