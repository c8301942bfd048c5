"""What a cluster does, asserted of the fake in test_behaviours.py and of a real one in tests/cluster:
the same bodies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import pytest

from submit_tf_job.container.contract import PROPERTY_SUBMISSION
from submit_tf_job.errors import AuthError, NameTaken, NoSuchJob, Refused
from submit_tf_job.yarn.deletion import StoredCopy, held_by
from submit_tf_job.yarn.nodemanager import (
    ContainerGone,
    NodeManagers,
    NodeUnreachable,
    NoSuchLogFile,
)
from submit_tf_job.yarn.observed import AppState, FinalStatus, ServiceState
from submit_tf_job.yarn.resource_manager import ResourceManager
from submit_tf_job.yarn.stopping import delete, stop, wait_until_ended
from submit_tf_job.yarn.submit import Submitted, submit

T = TypeVar("T")


ADDRESS = "node1:8042"


class World(Protocol):
    """A cluster, fake or real, and how to play with it."""

    client: ResourceManager
    user: str

    def name(self) -> str:
        """Return a fresh name; what bears it is deleted at the end."""

    def body(
        self,
        name: str,
        submission: str,
        *,
        seconds: float | None = None,
        memory: str = "128",
        queue: str | None = None,
    ) -> str:
        """Return a service of one container that ends well after so many seconds, or lasts."""

    def copy(self, name: str, submission: str) -> StoredCopy:
        """Return the stored copy of a service."""

    def fault(self, kind: str, method: str) -> None:
        """Let something go wrong with the next request."""

    def stranger(self) -> ResourceManager:
        """Return a client as a user without a home directory."""

    def log_of(self, name: str) -> tuple[str, str, bytes]:
        """Return a node's address, a container of the running service, and what it has written to
        stdout.txt.
        """


def until(world: World, holds: Callable[[], T | None], within_s: float = 60) -> T:
    """Wait until something holds."""
    deadline = world.client.deadline(within_s)
    while True:
        found = holds()
        if found:
            return found
        assert deadline.left_s, f"did not come to hold within {within_s} s"
        world.client.sleep(0.5)


def submitted(
    world: World,
    name: str,
    submission: str = "s1",
    *,
    seconds: float | None = None,
    reader: bool = False,
) -> Submitted:
    """Submit a service that ends well after so many seconds, or lasts."""
    return submit(
        world.client,
        world.body(name, submission, seconds=seconds),
        name=name,
        user=world.user,
        submission_id=submission,
        stored=world.copy(name, submission) if reader else None,
    )


def running(world: World, name: str) -> str:
    """Submit a lasting service and wait until it runs."""
    app_id = submitted(world, name).application_id
    until(world, lambda: world.client.get_service(name).version)
    return app_id


class YarnBehaviours:
    """Behaviours of YARN that this package relies on, and of this package on YARN."""

    def test_the_cluster_describes_itself(self, world: World) -> None:
        client = world.client
        info = client.cluster_info()
        assert (info.ha_state, info.state) == ("ACTIVE", "STARTED")
        assert info.version >= (3, 1)
        assert info.hadoop_version == client.services_version()
        assert [node.state for node in client.nodes()] == ["RUNNING"]
        assert client.maximum_resources().memory_mib
        assert client.scheduler()["type"] == "capacityScheduler"
        access = client.queue_access("default", world.user)
        assert access is not None
        assert access.allowed
        assert client.queue_access("nosuch", world.user) is None

    def test_a_service_shows_whose_it_is_only_while_it_runs(self, world: World) -> None:
        name = world.name()
        app_id = world.client.post_service(world.body(name, "s1", seconds=3))
        assert app_id is not None
        accepted = world.client.get_service(name)
        assert (accepted.state, accepted.version, accepted.properties, accepted.components) == (
            ServiceState.ACCEPTED,
            None,
            {},
            (),
        )
        seen = until(
            world,
            lambda: world.client.get_service(name)
            if world.client.get_service(name).version
            else None,
        )
        assert (seen.version, seen.properties[PROPERTY_SUBMISSION], seen.id) == ("s1", "s1", app_id)
        assert seen.state in (ServiceState.STARTED, ServiceState.STABLE)
        app = wait_until_ended(world.client, app_id, deadline=world.client.deadline(90))
        assert app is not None
        assert (app.state, app.final_status, app.queue, app.user) == (
            AppState.FINISHED,
            FinalStatus.SUCCEEDED,
            "default",
            world.user,
        )
        assert (app.tags, app.type, app.name) == ((f"name: {name}",), "yarn-service", name)
        over = world.client.get_service(name)
        assert (over.state, over.version, over.properties) == (ServiceState.STOPPED, None, {})
        if world.client.cluster_info().version >= (3, 2):
            assert (accepted.id, over.id) == (app_id, app_id)
        else:
            assert (accepted.id, over.id) == (None, None)

    def test_a_name_is_held_until_its_application_has_ended(self, world: World) -> None:
        name = world.name()
        app_id = submitted(world, name, seconds=3).application_id
        held = held_by(world.client, name, user=world.user)
        service, holder = held.service, held.app
        assert service is not None
        assert service.state is ServiceState.ACCEPTED
        assert holder is not None, (
            "Hadoop 3.1 does not show its id yet, and still it is no leftover"
        )
        assert holder.id == app_id
        wait_until_ended(world.client, app_id, deadline=world.client.deadline(90))
        assert held_by(world.client, name, user=world.user).app is None

    def test_applications_are_found_by_name(self, world: World) -> None:
        name, other = world.name(), world.name()
        first, second = (
            submitted(world, name).application_id,
            submitted(world, other).application_id,
        )
        assert [app.id for app in world.client.apps(user=world.user, name=name)] == [first]
        assert {first, second} <= {app.id for app in world.client.apps(user=world.user)}
        assert [app.id for app in world.client.apps(tags=[f"name: {other}"])] == [second]
        assert world.client.apps(user="nobody-of-that-name") == ()
        assert world.client.app("application_1500000000000_0001") is None
        assert world.client.app_attempts("application_1500000000000_0001") == ()
        assert len(world.client.app_attempts(first)) == 1

    def test_the_same_submission_again_is_the_same_application(self, world: World) -> None:
        name = world.name()
        first = submitted(world, name, seconds=5)
        assert not first.adopted
        again = submitted(world, name, seconds=5)
        assert again == Submitted(first.application_id, adopted=True)
        wait_until_ended(world.client, first.application_id, deadline=world.client.deadline(90))
        assert submitted(world, name, reader=True) == Submitted(
            first.application_id, adopted=True, finished=True
        )
        with pytest.raises(
            NameTaken,
            match=rf"(?m)^A job named {name}, which may be another submission, still holds the name: .*\.$",
        ):
            submitted(world, name)

    def test_another_submission_finds_the_name_taken(self, world: World) -> None:
        name = world.name()
        app_id = running(world, name)
        with pytest.raises(
            NameTaken,
            match=rf"(?m)^A different job named {name} is already running \(\d+s, {app_id}\)\.$",
        ) as caught:
            submitted(world, name, "s2")
        assert caught.value.details == {
            "application_id": app_id,
            "state": "RUNNING",
            "final_status": "UNDEFINED",
            "submission_id": "s1",
        }
        with pytest.raises(NameTaken, match=rf"(?m)^The name {name} is already taken\.$"):
            world.client.post_service(world.body(name, "s2"))

    @pytest.mark.parametrize("kind", ["reset", "truncate", "gateway", "error-after"])
    def test_a_lost_answer_is_looked_for(self, world: World, kind: str) -> None:
        name = world.name()
        world.fault(kind, "POST")
        done = submitted(world, name)
        assert (done.adopted, done.posts) == (True, 1)
        assert [app.id for app in world.client.apps(user=world.user, name=name)] == [
            done.application_id
        ]

    def test_a_lost_request_is_sent_again(self, world: World) -> None:
        name = world.name()
        world.fault("lost", "POST")
        done = submitted(world, name)
        assert (done.adopted, done.posts) == (False, 2)
        assert len(world.client.apps(user=world.user, name=name)) == 1

    @pytest.mark.parametrize(
        ("memory", "queue", "sentence"),
        [
            ("128", "nosuch", r"There is no queue nosuch\."),
            (
                "9999999",
                None,
                r"Component worker asks for 9999999 MiB per container; the largest here is \d+\.",
            ),
            ("2G", None, r'The cluster refused to submit: For input string: "2G"'),
        ],
    )
    def test_a_refused_submission_leaves_the_name_free(
        self, world: World, memory: str, queue: str | None, sentence: str
    ) -> None:
        name = world.name()
        body = world.body(name, "s1", memory=memory, queue=queue)
        with pytest.raises(Refused, match=f"(?m)^{sentence}$") as caught:
            submit(world.client, body, name=name, user=world.user, submission_id="s1")
        assert caught.value.details["status"] in (400, 500)
        with pytest.raises(NoSuchJob, match=rf"(?m)^No job named {name}\.$"):
            world.client.get_service(name)

    def test_an_unknown_field_is_named(self, world: World) -> None:
        name = world.name()
        body = world.body(name, "s1").replace('"version"', '"colour": "red",\n  "version"')
        with pytest.raises(
            Refused,
            match=r"(?m)^This cluster's services API does not know the field colour of Service\.$",
        ) as caught:
            submit(world.client, body, name=name, user=world.user, submission_id="s1")
        assert (caught.value.details["status"], caught.value.details["java_class"]) == (
            404,
            "UnrecognizedPropertyException",
        )

    def test_a_user_without_a_home_is_told(self, world: World) -> None:
        name = world.name()
        client = world.stranger()
        with pytest.raises(
            AuthError,
            match=r"(?m)^The user nohome has no home directory in HDFS, where YARN keeps services\.$",
        ) as caught:
            submit(client, world.body(name, "s1"), name=name, user="nohome", submission_id="s1")
        assert "\n" not in str(caught.value.details["said"])

    def test_stopping_ends_with_the_application(self, world: World) -> None:
        name = world.name()
        app_id = running(world, name)
        app = stop(world.client, user=world.user, name=name)
        assert app is not None
        assert (app.id, app.state, app.final_status) == (
            app_id,
            AppState.FINISHED,
            FinalStatus.ENDED,
        )
        assert app.diagnostics.startswith(f"Stopped by user {world.user}")
        assert stop(world.client, user=world.user, name=name) is not None
        assert world.client.stop_service(name) is False
        by_id = stop(world.client, user=world.user, app_id=app_id)
        assert by_id is not None
        assert by_id.ended

    def test_what_waits_in_its_queue_can_be_stopped(self, world: World) -> None:
        name = world.name()
        submitted(world, name)
        app = stop(world.client, user=world.user, name=name)
        assert app is not None
        assert app.ended

    def test_what_does_not_exist_cannot_be_stopped(self, world: World) -> None:
        name = world.name()
        with pytest.raises(NoSuchJob, match=rf"(?m)^No job named {name}\.$"):
            stop(world.client, user=world.user, name=name)
        with pytest.raises(
            NoSuchJob, match=r"(?m)^The cluster does not know application_1500000000000_0001\.$"
        ):
            stop(world.client, user=world.user, app_id="application_1500000000000_0001")
        with pytest.raises(NoSuchJob):
            world.client.stop_service(name)
        assert world.client.kill_app("application_1500000000000_0001") is False

    def test_deleting_frees_the_name(self, world: World) -> None:
        name = world.name()
        app_id = running(world, name)
        assert delete(world.client, name, user=world.user)
        app = world.client.app(app_id)
        assert app is not None
        assert app.ended
        assert not delete(world.client, name, user=world.user)
        assert not submitted(world, name, "s2").adopted

    def test_killing_is_final(self, world: World) -> None:
        name = world.name()
        app_id = running(world, name)
        assert world.client.kill_app(app_id)
        app = wait_until_ended(world.client, app_id, deadline=world.client.deadline(60))
        assert app is not None
        assert (app.state, app.final_status) == (AppState.KILLED, FinalStatus.KILLED)
        assert world.client.get_service(name).state is ServiceState.STOPPED
        assert world.client.kill_app(app_id)

    def test_a_stopped_service_can_be_started_again(self, world: World) -> None:
        name = world.name()
        first = running(world, name)
        with pytest.raises(
            Refused,
            match=rf"(?m)^The cluster refused to start {name}: Failed to start service {name}, because it already exists\.$",
        ):
            world.client.start_service(name)
        stop(world.client, user=world.user, name=name)
        second = world.client.start_service(name)
        assert second not in (None, first)
        with pytest.raises(NoSuchJob):
            world.client.start_service(world.name())

    def test_a_running_service_can_be_resized(self, world: World) -> None:
        name = world.name()
        running(world, name)
        world.client.flex(name, "worker", 2)
        assert until(
            world,
            lambda: [
                c for c in world.client.get_service(name).components if c.number_of_containers == 2
            ],
        )
        with pytest.raises(Refused, match=r"(?m)^The job has no role nosuch\.$"):
            world.client.flex(name, "nosuch", 2)
        stop(world.client, user=world.user, name=name)
        with pytest.raises(
            Refused, match=rf"(?m)^The job {name} is not running, so its size cannot change\.$"
        ):
            world.client.flex(name, "worker", 1)
        with pytest.raises(NoSuchJob):
            world.client.flex(world.name(), "worker", 1)

    def test_a_container_log_arrives_exactly_as_written(self, world: World) -> None:
        name = world.name()
        running(world, name)
        address, container, written = world.log_of(name)
        nodes = NodeManagers(world.client)
        files = {file.name: file.size for file in nodes.list_logs(address, container)}
        assert files["stdout.txt"] == len(written)
        whole = nodes.read_log(address, container, "stdout.txt")
        assert (whole.data, whole.length, whole.growing) == (written, len(written), True)
        assert nodes.read_log(address, container, "stdout.txt", tail_bytes=7).data == written[-7:]
        assert nodes.read_log(address, container, "stdout.txt", tail_bytes=0).data == b""
        assert nodes.read_log(address, container, "stdout.txt", tail_bytes=10**6).data == written
        with pytest.raises(
            NoSuchLogFile, match=rf"(?m)^{container} has no log file nosuch\.txt\.$"
        ):
            nodes.read_log(address, container, "nosuch.txt")
        sibling = container[:-1] + "9"  # never existed, but its application does
        assert nodes.list_logs(address, sibling) == ()
        with pytest.raises(NoSuchLogFile):
            nodes.read_log(address, sibling, "stdout.txt")
        unknown = "container_1500000000000_0001_01_000002"
        for ask in (
            lambda: nodes.list_logs(address, unknown),
            lambda: nodes.read_log(address, unknown, "stdout.txt"),
        ):
            with pytest.raises(
                ContainerGone,
                match=rf"(?m)^The NodeManager does not know {unknown}: it has not started, or it is over\.$",
            ):
                ask()

    def test_no_other_address_is_asked_for_logs(self, world: World) -> None:
        nodes = NodeManagers(world.client)
        with pytest.raises(
            NodeUnreachable,
            match=r"(?m)^169\.254\.169\.254:80 is not the address of one of this cluster's nodes\.$",
        ):
            nodes.list_logs("169.254.169.254:80", "container_1500000000000_0001_01_000001")
