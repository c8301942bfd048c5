"""A name's former application: whoever takes the name waits until its ApplicationMaster has
exited.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from submit_tf_job import operations
from submit_tf_job.errors import DeadlinePassed
from submit_tf_job.settings import load_settings
from submit_tf_job.yarn.former import finishing, wait_until_left
from submit_tf_job.yarn.records import dumps
from submit_tf_job.yarn.stopping import delete, stop
from tests.fakes.resource_manager import FakeCluster
from tests.fakes.services import service_of

SPEC = (
    b"name: mnist\nimage: python:3.11\nstrategy: custom\ncommand: sleep 600\nroles: {chief: "
    b"{memory: 1Gi}}\n"
)


class Stage:
    """Alice's job `mnist` on a fake cluster whose ApplicationMasters live on for `am_exits_s` after
    their end.
    """

    def __init__(
        self, am_exits_s: float = 28.0, version: tuple[int, ...] = (3, 4, 2), submit_s: str = "300s"
    ) -> None:
        self.fake = FakeCluster(version=version)
        self.fake.yarn.am_exits_s = am_exits_s
        self.client = self.fake.client("alice")
        arguments = {
            "user": "alice",
            "resource_managers": ["http://rm1:8088"],
            "dns.domain": "lan",
            "timeouts.submit": submit_s,
        }
        self.settings = load_settings(
            arguments=arguments, environ={"HOME": "/nonexistent"}, cwd=Path("/")
        )
        self.cluster = operations.Cluster(
            settings=self.settings,
            client=self.client,
            nodes=None,  # type: ignore[arg-type]
            clock=self.fake.clock,
            sleep=self.fake.clock.sleep,
        )
        self.said: list[str] = []
        self.first = self.client.post_service(dumps(service_of("mnist", "s1", "sleep 60"))) or ""
        self.fake.clock.sleep(10)
        stop(self.client, user="alice", name="mnist")
        self.ended_at = self.fake.clock.now

    def submit(self, *, replace: bool = False) -> operations.Submission:
        job = operations.load_job(Path("job.yaml"), self.settings, text=SPEC)
        return operations.submit(
            operations.make_plan(job, self.settings),
            self.cluster,
            replace=replace,
            on_wait=self.said.append,
        )

    def took_s(self) -> float:
        return self.fake.clock.now - self.ended_at

    def settle(self) -> None:
        self.fake.clock.sleep(120)


@pytest.mark.parametrize(
    "version", [(3, 1, 3), (3, 3, 5), (3, 4, 2)], ids=["3.1.3", "3.3.5", "3.4.2"]
)
def test_submit_with_replace_waits_for_the_former_application_master(
    version: tuple[int, ...],
) -> None:
    stage = Stage(version=version)
    done = stage.submit(replace=True)
    assert not done.adopted
    assert stage.took_s() >= 28
    stage.settle()
    assert stage.fake.yarn.nameless == []
    [line] = stage.said
    if version < (3, 2):
        # Without HDFS, 3.1 shows no application of the service, so a POST may be at work on it.
        # When none can be, the application has left.
        assert "until no submission of mnist can be under way" in line
    else:
        assert stage.first in line
        assert "mnist" in line


def test_submit_after_delete_waits_for_the_former_application_master() -> None:
    stage = Stage()
    assert delete(stage.client, "mnist", user="alice")
    stage.submit()
    stage.settle()
    assert stage.fake.yarn.nameless == []


def test_submit_does_not_wait_where_the_application_master_has_exited() -> None:
    stage = Stage()
    stage.fake.clock.sleep(60)
    begun = stage.fake.clock.now
    stage.submit(replace=True)
    assert stage.fake.clock.now - begun < 5
    assert stage.said == []


def test_submit_adopts_its_running_job_without_waiting() -> None:
    stage = Stage()
    delete(stage.client, "mnist", user="alice")
    first = stage.submit()
    stage.fake.clock.sleep(10)
    stage.fake.yarn.apps[stage.first].finishing = True
    again = stage.submit()
    assert (again.adopted, again.ref.application_id) == (True, first.ref.application_id)
    assert len(stage.said) == 1


def test_start_waits_for_the_former_application_master() -> None:
    stage = Stage()
    started = operations.start(stage.cluster, "mnist", on_wait=stage.said.append)
    assert started.changed
    stage.settle()
    assert stage.fake.yarn.nameless == []
    assert len(stage.said) == 1


def test_submit_fails_where_the_application_master_never_exits() -> None:
    stage = Stage(am_exits_s=100_000, submit_s="90s")
    with pytest.raises(
        DeadlinePassed, match=rf"the name mnist is not free yet: {stage.first} is over"
    ) as caught:
        stage.submit(replace=True)
    assert "nothing was submitted" in caught.value.hint
    assert 85 <= stage.took_s() <= 130
    assert stage.fake.yarn.live("alice", "mnist") == []


def test_finishing_of_a_killed_application_is_empty() -> None:
    """The ResourceManager cleans up after a killed application before it shows KILLED."""
    stage = Stage()
    stage.settle()
    delete(stage.client, "mnist", user="alice")
    killed = stage.submit().ref.application_id or ""
    stage.client.kill_app(killed)
    stage.fake.clock.sleep(5)
    assert finishing(stage.client, "mnist", user="alice") == ()


def test_finishing_ignores_other_users_and_names() -> None:
    stage = Stage()
    assert [app.id for app in finishing(stage.client, "mnist", user="alice")] == [stage.first]
    assert finishing(stage.client, "mnist", user="bob") == ()
    assert finishing(stage.client, "other", user="alice") == ()
    wait_until_left(stage.client, "other", user="alice", within_s=0.0)
