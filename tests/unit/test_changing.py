"""Changes of a job: whose, which, and what is refused; the changes themselves are tried on a real cluster (tests/cluster)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job import api
from submit_tf_job.errors import AuthError, NameTaken, NoSuchJob, Refused, UsageError
from submit_tf_job.settings import load_settings
from submit_tf_job.yarn.records import Configuration, dumps
from tests.fakes.resource_manager import FakeCluster
from tests.unit.test_yarn_behaviours import service_of


class Stage:
    """A job `mnist` of alice on a fake cluster."""

    def __init__(self, **properties: str) -> None:
        self.fake = FakeCluster()
        service = service_of("mnist", "s1", "sleep 60")
        self.alice, self.bob = self._cluster("alice"), self._cluster("bob")
        self.id = self.alice.client.post_service(dumps(replace(service, configuration=Configuration(properties=properties)))) or ""
        self.fake.clock.sleep(10)

    def _cluster(self, user: str) -> api.Cluster:
        client = self.fake.client(user)
        settings = load_settings(
            arguments={"user": user, "resource_managers": ["http://rm1:8088"]}, environ={"HOME": "/nonexistent"}, cwd=Path("/")
        )
        return api.Cluster(settings=settings, client=client, nodes=None, clock=self.fake.clock, sleep=self.fake.clock.sleep)  # type: ignore[arg-type]


CALLS = [
    lambda cluster, job: api.start(cluster, job),
    lambda cluster, job: api.scale(cluster, job, "web", 2),
    lambda cluster, job: api.restart(cluster, job, "web-0"),
    lambda cluster, job: api.set_priority(cluster, job, 3),
    lambda cluster, job: api.move(cluster, job, "ml"),
    lambda cluster, job: api.extend(cluster, job, 600),
]


@pytest.mark.parametrize("call", CALLS)
def test_somebody_elses_job_is_left_alone(call: Any) -> None:
    stage = Stage()
    with pytest.raises(AuthError, match="is a job of alice, and you are bob"):
        call(stage.bob, stage.id)


@pytest.mark.parametrize("call", CALLS)
def test_there_must_be_a_job(call: Any) -> None:
    stage = Stage()
    with pytest.raises(NoSuchJob):
        call(stage.alice, "other")
    with pytest.raises(NoSuchJob):
        call(stage.alice, "application_1700000000000_0099")


@pytest.mark.parametrize("call", CALLS[1:])
def test_a_job_that_is_over_is_not_changed(call: Any) -> None:
    stage = Stage()
    stage.alice.client.stop_service("mnist")
    stage.fake.clock.sleep(10)
    with pytest.raises(Refused, match=r"mnist is over \(ENDED\)"):
        call(stage.alice, "mnist")


@pytest.mark.parametrize("version", [(3, 4, 2), (3, 1, 3)], ids=["3.4.2", "3.1.3"])
def test_what_waits_is_not_started(version: tuple[int, ...]) -> None:
    stage = Stage()
    stage.fake.yarn.version, stage.fake.yarn.hold_accepted = version, True
    stage.alice.client.stop_service("mnist")
    stage.fake.clock.sleep(10)
    waiting = api.start(stage.alice, "mnist")
    assert waiting.changed
    found = api.start(stage.alice, "mnist")
    assert (found.changed, found.ref.application_id) == (False, waiting.ref.application_id)
    with pytest.raises(NameTaken, match=f"^mnist is still running as {waiting.ref.application_id}$"):
        api.delete(stage.alice, "mnist")


def test_what_runs_is_not_started() -> None:
    stage = Stage()
    found = api.start(stage.alice, "mnist")
    assert (found.changed, found.ref.application_id) == (False, stage.id)
    stage.alice.client.stop_service("mnist")
    stage.fake.clock.sleep(10)
    again = api.start(stage.alice, "mnist")
    assert again.changed
    assert again.ref.application_id != stage.id
    assert len(stage.fake.yarn.apps) == 2


def test_scaling() -> None:
    stage = Stage(**{"submit_tf_job.strategy": "multi-worker"})
    names = [item["name"] for item in stage.fake.yarn.services["alice", "mnist"].spec["components"]]
    with pytest.raises(UsageError, match="has no role 'wrker'") as caught:
        api.scale(stage.alice, "mnist", "wrker", 2)
    assert names[0] in caught.value.hint
    with pytest.raises(UsageError, match="fewer than 0"):
        api.scale(stage.alice, "mnist", names[0], -1)


@pytest.mark.parametrize("role", ["chief", "worker", "ps", "evaluator"])
def test_tensorflow_fixes_its_members(role: str) -> None:
    stage = Stage(**{"submit_tf_job.strategy": "multi-worker"})
    stage.fake.yarn.services["alice", "mnist"].spec["components"][0]["name"] = role
    with pytest.raises(UsageError, match=f"{role} cannot be scaled while the job runs: strategy multi-worker reads its members"):
        api.scale(stage.alice, "mnist", role, 3)


def test_a_sidecar_is_scaled_once() -> None:
    stage = Stage(**{"submit_tf_job.strategy": "multi-worker"})
    component = stage.fake.yarn.services["alice", "mnist"].spec["components"][0]
    component["name"] = "board"
    assert api.scale(stage.alice, "mnist", "board", 3, wait=False).changed
    assert component["number_of_containers"] == 3
    assert not api.scale(stage.alice, "mnist", "board", 3).changed


@pytest.mark.parametrize("force", [False, True])
def test_an_earlier_run_is_not_deleted_in_place_of_the_one_that_has_the_name(force: bool) -> None:
    stage = Stage()
    stage.alice.client.stop_service("mnist")
    stage.fake.clock.sleep(10)
    again = api.start(stage.alice, "mnist").ref.application_id
    with pytest.raises(NoSuchJob, match=f"is an earlier run of mnist, whose name belongs to {again} now"):
        api.delete(stage.alice, stage.id, force=force)
    with pytest.raises(AuthError, match="YARN lets nobody else free its name"):
        api.delete(stage.bob, stage.id, force=force)
    assert api.delete(stage.alice, again or "", force=True)
    assert api.delete(stage.alice, "mnist") is False
