"""What a YARN does: the same bodies are asserted of the simulation (tests/unit/yarn) and of a real one
(tests/promises, tests/cluster/test_standby.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import pytest

from submit_tf_job.errors import AuthError, NameTaken, NoSuchJob, Refused
from submit_tf_job.operations.stored_services import StoredServices
from submit_tf_job.yarn.exactly_once import KeyedSubmission, Submitted, submit
from submit_tf_job.yarn.nodemanager import (
    ContainerGone,
    NodeManagers,
    NodeUnreachable,
    NoSuchLogFile,
)
from submit_tf_job.yarn.observed import (
    AppReport,
    AppState,
    FinalStatus,
    ServiceState,
)
from submit_tf_job.yarn.resource_manager import ResourceManager
from submit_tf_job.yarn.service_properties import SUBMISSION
from submit_tf_job.yarn.stopping import stop, wait_until_ended

T = TypeVar("T")
# Name and application of a running service that tests may share: they look at it, and do not end it.
Lasting = tuple[str, str]


ADDRESS = "node1:8042"
ASKS = "Component worker asks for"


class World(Protocol):
    """A cluster, simulated or real, and how to play with it."""

    client: ResourceManager
    user: str

    def name(self) -> str:
        """Return a fresh name; what bears it is deleted at the end."""

    def body(
        self,
        name: str,
        submission: str,
        *,
        ends: bool = False,
        memory: str = "128",
        queue: str | None = None,
    ) -> str:
        """Return a service of one container that lasts; or which ends well once it is released."""

    def release(self, name: str) -> None:
        """Let a service that `ends` do so."""

    def fault(self, kind: str, method: str) -> None:
        """Let something go wrong with the next request."""

    def stored(self) -> StoredServices:
        """Return YARN's copies of services."""

    def stranger(self) -> ResourceManager:
        """Return a client as a user without a home directory."""

    def log_of(self, name: str) -> tuple[str, str, bytes]:
        """Return a node's address, a container of the running service, and what it has written to
        stdout.txt.
        """


class Pair(Protocol):
    """Two ResourceManagers, simulated or real."""

    user: str

    def asks_standby(self, path: str) -> tuple[int, str, str]:
        """Ask a standby; return status, Location, and the first line of the answer."""

    def active(self) -> str:
        """Return the URL of the ResourceManager that leads."""


def until(
    world: World, look: Callable[[], T], holds: Callable[[T], object] = bool, within_s: float = 240
) -> T:
    """Look until something holds of what is seen; return that."""
    deadline = world.client.deadline(within_s)
    while not holds(seen := look()):
        assert deadline.left_s, f"did not come to hold within {within_s} s of {seen!r}"
        world.client.sleep(0.5)
    return seen


def shown(world: World, name: str) -> Any:
    """Wait until a service runs: its ApplicationMaster then tells its version."""
    return until(world, lambda: world.client.get_service(name), lambda seen: seen.version)


def submission(world: World, name: str, body: str, user: str | None = None) -> KeyedSubmission:
    """Return a submission whose first run has this name, and which is not run again."""
    return KeyedSubmission(
        job=name,
        user=user or world.user,
        key="s1",
        name_of=lambda number: f"{name}-{number}" if number else name,
        body_of=lambda number: body.replace(f'"{name}"', f'"{name}-{number}"') if number else body,
        has_several_runs=False,
        runs_again_after=lambda _app: False,
    )


def submitted(world: World, name: str, *, ends: bool = False) -> Submitted:
    """Submit a service that lasts, or ends once it is released."""
    return submit(world.client, submission(world, name, world.body(name, "s1", ends=ends)))


def running(world: World, name: str) -> str:
    """Submit a lasting service and wait until it runs."""
    app_id = submitted(world, name).application_id
    shown(world, name)
    return app_id


def raises(error: type[Exception], sentence: str) -> Any:
    """Expect an error whose message has this line."""
    return pytest.raises(error, match=f"(?m)^{sentence}$")


def known(world: World, app_id: str) -> AppReport:
    """Return an application that the ResourceManager knows."""
    app = world.client.app(app_id)
    assert app is not None
    return app


class Contract:
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
        app_id = world.client.post_service(world.body(name, "s1", ends=True))
        assert app_id is not None
        told = app_id if world.client.cluster_info().version >= (3, 2) else None
        accepted = world.client.get_service(name)
        if accepted.state is ServiceState.ACCEPTED:  # else it runs already
            assert (accepted.version, accepted.id) == (None, told)
            assert (accepted.properties, accepted.components) == ({}, ())

        seen = until(
            world,
            lambda: shown(world, name),
            lambda one: one.state in (ServiceState.STARTED, ServiceState.STABLE),
        )
        assert (seen.version, seen.properties[SUBMISSION], seen.id) == ("s1", "s1", app_id)
        world.release(name)
        app = wait_until_ended(world.client, app_id, deadline=world.client.deadline(240))
        assert app is not None
        assert (app.state, app.final_status) == (AppState.FINISHED, FinalStatus.SUCCEEDED)
        assert (app.queue, app.user) == ("default", world.user)
        assert (app.tags, app.type, app.name) == ((f"name: {name}",), "yarn-service", name)
        over = world.client.get_service(name)
        assert (over.state, over.version, over.properties) == (ServiceState.STOPPED, None, {})
        assert over.id == told

    def test_applications_are_found_by_name(self, world: World, lasting: Lasting) -> None:
        (name, first), other = lasting, world.name()
        second = submitted(world, other).application_id
        assert [app.id for app in world.client.apps(tags=[f"name: {name}"])] == [first]
        assert {first, second} <= {app.id for app in world.client.apps(user=world.user)}
        assert [app.id for app in world.client.apps(tags=[f"name: {other}"])] == [second]
        assert world.client.apps(user="nobody-of-that-name") == ()
        assert world.client.app("application_1500000000000_0001") is None
        assert world.client.app_attempts("application_1500000000000_0001") == ()
        assert len(world.client.app_attempts(first)) == 1

    def test_the_same_submission_again_is_the_same_application(self, world: World) -> None:
        name = world.name()
        first = submitted(world, name, ends=True)
        assert not first.adopted
        again = submitted(world, name, ends=True)
        assert (again.application_id, again.adopted) == (first.application_id, True)
        world.release(name)
        wait_until_ended(world.client, first.application_id, deadline=world.client.deadline(240))
        over = submitted(world, name)
        assert (over.application_id, over.adopted) == (first.application_id, True)

    def test_a_second_post_of_a_name_finds_it_taken(self, world: World, lasting: Lasting) -> None:
        name, _ = lasting
        with raises(NameTaken, rf"The name {name} is already taken\."):
            world.client.post_service(world.body(name, "s2"))

    @pytest.mark.parametrize("kind", ["cut", "truncated", "gateway", "error-after"])
    def test_a_lost_answer_is_looked_for(self, world: World, kind: str) -> None:
        name = world.name()
        world.fault(kind, "POST")
        done = submitted(world, name)
        assert done.adopted
        found = [app.id for app in world.client.apps(tags=[f"name: {name}"])]
        assert found == [done.application_id]

    def test_a_lost_request_is_sent_again(self, world: World) -> None:
        name = world.name()
        world.fault("lost", "POST")
        done = submitted(world, name)
        assert not done.adopted
        assert len(world.client.apps(tags=[f"name: {name}"])) == 1

    @pytest.mark.parametrize(
        ("memory", "queue", "sentence"),
        [
            ("128", "nosuch", r"There is no queue nosuch\."),
            ("9999999", None, rf"{ASKS} 9999999 MiB per container; the largest here is \d+\."),
            ("2G", None, r'The cluster refused to submit: For input string: "2G"'),
        ],
    )
    def test_a_refused_submission_runs_nothing(
        self, world: World, memory: str, queue: str | None, sentence: str
    ) -> None:
        name = world.name()
        body = world.body(name, "s1", memory=memory, queue=queue)
        with raises(Refused, sentence) as caught:
            submit(world.client, submission(world, name, body))
        assert caught.value.details["status"] in (400, 500)
        assert not [app for app in world.client.apps(tags=[f"name: {name}"]) if not app.ended]

    def test_an_unknown_field_is_named(self, world: World) -> None:
        name = world.name()
        body = world.body(name, "s1").replace('"version"', '"colour": "red",\n  "version"')
        unknown = r"This cluster's services API does not know the field colour of Service\."
        with raises(Refused, unknown) as caught:
            submit(world.client, submission(world, name, body))
        told = caught.value.details["status"], caught.value.details["java_class"]
        assert told == (404, "UnrecognizedPropertyException")

    def test_a_user_without_a_home_is_told(self, world: World) -> None:
        name = world.name()
        client = world.stranger()
        homeless = r"The user nohome has no home directory in HDFS, where YARN keeps services\."
        with raises(AuthError, homeless) as caught:
            submit(client, submission(world, name, world.body(name, "s1"), "nohome"))
        assert "\n" not in str(caught.value.details["said"])

    @pytest.mark.parametrize("runs", [True, False])
    def test_stopping_ends_with_the_application(self, world: World, runs: bool) -> None:
        name = world.name()
        app_id = running(world, name) if runs else submitted(world, name).application_id
        if runs:  # and is not killed, as by `stop` where its ApplicationMaster takes long
            assert world.client.stop_service(name)
            app = wait_until_ended(world.client, app_id, deadline=world.client.deadline(240))
            assert app is not None
            assert (app.state, app.final_status) == (AppState.FINISHED, FinalStatus.ENDED)
            assert app.diagnostics.startswith(f"Stopped by user {world.user}")
        else:
            app = stop(world.client, known(world, app_id), user=world.user)
            assert app is not None
            assert app.ended
        assert stop(world.client, app, user=world.user) == app
        assert world.client.stop_service(name) is False

    def test_what_does_not_exist_cannot_be_stopped(self, world: World) -> None:
        with pytest.raises(NoSuchJob):
            world.client.stop_service(world.name())
        assert world.client.kill_app("application_1500000000000_0001") is False

    def test_deleting_frees_the_name(self, world: World) -> None:
        name = world.name()
        app_id = running(world, name)
        assert world.client.delete_service(name)
        wait_until_ended(world.client, app_id, deadline=world.client.deadline(240))
        assert not world.client.delete_service(name)
        assert world.client.post_service(world.body(name, "s2"))

    def test_killing_is_final(self, world: World) -> None:
        name = world.name()
        app_id = running(world, name)
        assert world.client.kill_app(app_id)
        app = wait_until_ended(world.client, app_id, deadline=world.client.deadline(240))
        assert app is not None
        assert (app.state, app.final_status) == (AppState.KILLED, FinalStatus.KILLED)
        assert world.client.get_service(name).state is ServiceState.STOPPED
        assert world.client.kill_app(app_id)

    def test_a_running_service_can_be_resized(self, world: World) -> None:
        name = world.name()
        app_id = running(world, name)
        world.client.flex(name, "worker", 2)

        def sizes() -> set[int | None]:
            return {c.number_of_containers for c in world.client.get_service(name).components}

        until(world, sizes, lambda seen: 2 in seen)
        with raises(Refused, r"The job has no role nosuch\."):
            world.client.flex(name, "nosuch", 2)
        over = stop(world.client, known(world, app_id), user=world.user)
        assert over is not None
        assert over.ended
        with raises(Refused, rf"The job {name} is not running, so its size cannot change\."):
            world.client.flex(name, "worker", 1)
        with pytest.raises(NoSuchJob):
            world.client.flex(world.name(), "worker", 1)

    def test_it_tells_who_asks(self, world: World) -> None:
        assert world.client.who_am_i() == world.user

    def test_a_running_application_is_moved_and_keeps_to_the_highest_priority(
        self, world: World, lasting: Lasting
    ) -> None:
        _, app_id = lasting
        assert (world.client.move_app(app_id, "ml") or "").rpartition(".")[2] == "ml"
        assert (known(world, app_id).queue or "").rpartition(".")[2] == "ml"
        with pytest.raises(Refused, match="nosuch"):
            world.client.move_app(app_id, "nosuch")
        assert world.client.set_priority(app_id, 7) == 0
        with pytest.raises(NoSuchJob):
            world.client.move_app("application_1500000000000_0001", "ml")

    def test_a_running_service_gets_another_lifetime(self, world: World, lasting: Lasting) -> None:
        name, app_id = lasting
        world.client.set_lifetime(name, 3600)
        [limit] = known(world, app_id).timeouts
        assert 3000 < (limit.remaining_s or 0) <= 3600

    def test_a_container_is_signalled_where_hadoop_can(self, world: World) -> None:
        name = world.name()
        running(world, name)
        container = world.log_of(name)[1]
        absent = container[:-1] + "9"
        if world.client.cluster_info().version < (3, 3):
            with pytest.raises(Refused, match="YARN-8693"):
                world.client.signal_container(container, "OUTPUT_THREAD_DUMP")
            return
        world.client.signal_container(container, "OUTPUT_THREAD_DUMP")
        with pytest.raises(NoSuchJob, match=f"There is no container {absent} any more"):
            world.client.signal_container(absent, "OUTPUT_THREAD_DUMP")

    def test_a_container_log_arrives_exactly_as_written(
        self, world: World, lasting: Lasting
    ) -> None:
        name, _ = lasting
        address, container, written = world.log_of(name)
        nodes = NodeManagers(world.client)
        files = {file.name: file.size for file in nodes.list_logs(address, container)}
        assert files["stdout.txt"] == len(written)
        whole = nodes.read_log(address, container, "stdout.txt")
        assert (whole.data, whole.length, whole.growing) == (written, len(written), True)
        assert nodes.read_log(address, container, "stdout.txt", tail_bytes=7).data == written[-7:]
        assert nodes.read_log(address, container, "stdout.txt", tail_bytes=0).data == b""
        assert nodes.read_log(address, container, "stdout.txt", tail_bytes=10**6).data == written
        with raises(NoSuchLogFile, rf"{container} has no log file nosuch\.txt\."):
            nodes.read_log(address, container, "nosuch.txt")
        sibling = container[:-1] + "9"  # never existed, but its application does
        assert nodes.list_logs(address, sibling) == ()
        with pytest.raises(NoSuchLogFile):
            nodes.read_log(address, sibling, "stdout.txt")
        unknown = "container_1500000000000_0001_01_000002"
        gone = rf"The NodeManager does not know {unknown}: it has not started, or it is over\."
        with raises(ContainerGone, gone):
            nodes.list_logs(address, unknown)
        with raises(ContainerGone, gone):
            nodes.read_log(address, unknown, "stdout.txt")

    def test_no_other_address_is_asked_for_logs(self, world: World) -> None:
        nodes = NodeManagers(world.client)
        foreign = r"169\.254\.169\.254:80 is not the address of one of this cluster's nodes\."
        with raises(NodeUnreachable, foreign):
            nodes.list_logs("169.254.169.254:80", "container_1500000000000_0001_01_000001")

    def test_the_stored_copy_names_its_application_until_it_is_deleted(self, world: World) -> None:
        name, stored = world.name(), world.stored()
        assert stored.copy_of(name) is None
        app_id = submitted(world, name).application_id
        found = stored.copy_of(name)
        assert found is not None
        assert (found.key, found.app_id, found.torn) == ("s1", app_id, False)
        assert name in stored.names()
        assert world.client.delete_service(name)
        assert stored.copy_of(name) is None

    def test_logs_are_collected_when_the_application_is_over(self, world: World) -> None:
        app_id = running(world, world.name())
        app = known(world, app_id)
        assert app.log_aggregation_status in ("NOT_START", "RUNNING")
        stop(world.client, app, user=world.user)

        until(
            world,
            lambda: known(world, app_id),
            lambda over: over.log_aggregation_status == "SUCCEEDED",
        )


class StandbyContract:
    """What a standby answers, and where it sends a client."""

    @pytest.mark.parametrize("path", ["/ws/v1/cluster/apps", "/app/v1/services/nosuch"])
    def test_a_standby_names_the_one_that_leads(self, world: Pair, path: str) -> None:
        status, location, said = world.asks_standby(f"{path}?user.name={world.user}")
        assert (status, location) == (307, f"{world.active()}{path}?user.name={world.user}")
        assert said == f"This is standby RM. The redirect url is: {path}?user.name={world.user}"

    def test_a_standby_describes_itself(self, world: Pair) -> None:
        status, _, said = world.asks_standby(f"/ws/v1/cluster/info?user.name={world.user}")
        assert status == 200
        assert json.loads(said)["clusterInfo"]["haState"] == "STANDBY"
