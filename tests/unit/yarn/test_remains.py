"""Containers that outlive their application: what `stop` says while the nodes have not ended
them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from submit_tf_job import operations
from submit_tf_job.errors import DeadlinePassed
from submit_tf_job.observation import JobState, JobStatus
from submit_tf_job.settings import load_settings
from submit_tf_job.yarn.nodemanager import NodeManagers
from submit_tf_job.yarn.records import dumps
from submit_tf_job.yarn.remains import places_of, remaining
from tests.fakes.resource_manager import FakeCluster
from tests.fakes.services import service_of
from tests.fakes.transport import Answer, Asked, refused


class Stage:
    """Alice's job `mnist` runs on node1 with an ApplicationMaster and two tasks."""

    def __init__(self) -> None:
        self.fake = FakeCluster()
        client = self.fake.client("alice")
        settings = load_settings(
            arguments={"user": "alice", "resource_managers": ["http://rm1:8088"]},
            environ={"HOME": "/nonexistent"},
            cwd=Path("/"),
        )
        self.cluster = operations.Cluster(
            settings=settings,
            client=client,
            nodes=NodeManagers(client),
            clock=self.fake.clock,
            sleep=self.fake.clock.sleep,
        )
        self.id = client.post_service(dumps(service_of("mnist", "s1", "sleep 600"))) or ""
        self.fake.clock.sleep(10)
        number = self.id.partition("_")[2]
        self.containers = [f"container_e17_{number}_01_{i:06}" for i in (1, 2, 3)]
        other = "container_1699999999999_0001_01_000002"
        self.fake.node.containers = dict.fromkeys([*self.containers, other], "RUNNING")
        self.said: list[str] = []

    def set(self, state: str) -> None:
        self.fake.node.containers |= dict.fromkeys(self.containers, state)

    def stop(self, *, wait: bool = True) -> JobStatus:
        return operations.stop(self.cluster, "mnist", wait=wait, on_wait=self.said.append)


def test_stop_returns_when_the_nodes_have_ended_the_containers() -> None:
    stage = Stage()
    begun = stage.fake.clock.now
    stage.fake.clock.after(30, lambda: stage.set("DONE"))
    assert stage.stop().verdict.state is JobState.STOPPED
    assert 30 <= stage.fake.clock.now - begun < 40
    assert stage.said == [
        "mnist is over for YARN; waiting until its nodes have ended 3 of its containers"
    ]


def test_stop_fails_where_containers_stay_alive_and_names_them() -> None:
    stage = Stage()
    stage.fake.clock.after(3, lambda: stage.set("DONE"))
    stage.fake.clock.after(
        3, lambda: stage.fake.node.containers.update({stage.containers[1]: "KILLING"})
    )
    with pytest.raises(DeadlinePassed) as caught:
        stage.stop()
    assert caught.value.exit_status == 8
    killing = stage.containers[1]
    said = (
        f"mnist is over for YARN ({stage.id}), but 1 container of it is still alive 60 s "
        f"later: {killing} on node1:8042 (KILLING)"
    )
    assert caught.value.message == said
    assert caught.value.details["containers"] == [
        {"id": killing, "node": "node1:8042", "state": "KILLING"}
    ]


def test_stop_of_a_job_that_is_over_still_looks_for_its_containers() -> None:
    stage = Stage()
    stage.stop(wait=False)
    stage.fake.clock.sleep(20)
    with pytest.raises(DeadlinePassed, match="3 containers of it are still alive"):
        stage.stop()
    stage.set("DONE")
    assert stage.stop().verdict.state is JobState.STOPPED


def test_stop_without_waiting_asks_no_node() -> None:
    stage = Stage()
    stage.stop(wait=False)
    assert stage.said == []


def test_stop_believes_yarn_where_the_node_does_not_answer() -> None:
    stage, asked = Stage(), list[str]()

    class Dead:
        process = None

        def serve(self, request: Asked) -> Answer:
            asked.append(request.path)
            raise refused()

    stage.fake.network.servers[stage.fake.node.address] = Dead()
    assert stage.stop().verdict.state is JobState.STOPPED
    assert "/ws/v1/node/containers" in asked


def test_remaining_takes_no_other_applications_containers() -> None:
    stage = Stage()
    assert places_of(stage.cluster.client, stage.id) == ("node1:8042",)
    found = remaining(stage.cluster.nodes, stage.id, ["node1:8042"])
    assert [container.container_id for container in found] == stage.containers
    assert remaining(stage.cluster.nodes, "application_1600000000000_0001", ["node1:8042"]) == ()
