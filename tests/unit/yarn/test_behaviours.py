"""The simulated YARN keeps the contract of tests/world/contract.py, as a real one does."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

import pytest

from submit_tf_job.errors import NoSuchJob, UsageError
from submit_tf_job.operations.stored_services import StoredServices
from submit_tf_job.yarn.exactly_once import Submitted, submit
from submit_tf_job.yarn.records import dumps
from submit_tf_job.yarn.resource_manager import ResourceManager
from tests.builders.services import service_of
from tests.world.cluster import FakeCluster
from tests.world.contract import (
    ADDRESS,
    Contract,
    Lasting,
    StandbyContract,
    running,
    shown,
    submission,
)
from tests.world.network import Waiter
from tests.world.storage import Hdfs
from tests.world.transport import Asked, says_nothing
from tests.world.weather import Fault
from tests.world.yarn import FOREVER


@dataclass
class FakeWorld:
    """The simulated cluster, and how to play with it."""

    cluster: FakeCluster
    user: str = "alice"
    numbers: count[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.client = self.cluster.client(self.user)
        self.cluster.yarn.aggregation = "SUCCEEDED"

    def name(self) -> str:
        return f"job{next(self.numbers)}"

    def body(
        self,
        name: str,
        submission: str,
        *,
        ends: bool = False,
        memory: str = "128",
        queue: str | None = None,
    ) -> str:
        self.cluster.yarn.site.job_s = (3.0, 3.0) if ends else FOREVER
        return dumps(service_of(name, submission, "sleep 1", memory=memory, queue=queue))

    def release(self, name: str) -> None:
        """Nothing: in virtual time it lasts as long as the looks of a test, and ends by itself."""

    def fault(self, kind: str, method: str) -> None:
        answer = says_nothing() if kind == "error-after" else None
        kind = {"gateway": "over", "error-after": "over"}.get(kind, kind)
        self.cluster.network.faults.append(Fault(kind, method, answer=answer))

    def stored(self) -> StoredServices:
        return StoredServices(lambda: Hdfs(self.cluster.yarn, lambda _what: None), self.user)

    def active(self) -> str:
        return f"http://{self.cluster.yarn.servers[0].address}"

    def asks_standby(self, path: str) -> tuple[int, str, str]:
        network, asked = (
            self.cluster.network,
            Asked("GET", path.partition("?")[0], {}, b"", self.user),
        )
        standby, waits = self.cluster.yarn.servers[1], Waiter(self.cluster.clock)
        answer = network.ask(waits, standby.address, asked, 3.0, 30.0)
        said = answer.body.decode().splitlines()[0]
        return answer.status, answer.headers.get("Location", ""), said

    def stranger(self) -> ResourceManager:
        return self.cluster.client("nohome")

    def log_of(self, name: str) -> tuple[str, str, bytes]:
        container = "container_e04_1700000000000_0001_01_000002"
        written = b"hello\nEnd of LogType:stdout.txt.\n\xff" + secrets.token_bytes(5)
        self.cluster.node.logs[container, "stdout.txt"] = written
        self.cluster.node.containers[container] = "RUNNING"
        return ADDRESS, container, written


class TestStandby(StandbyContract):
    """A standby of the simulation."""

    @pytest.fixture
    def world(self) -> FakeWorld:
        return FakeWorld(FakeCluster(2))


class TestSimulation(Contract):
    """The simulation, with each version of Hadoop."""

    @pytest.fixture(
        params=[(3, 4, 2), (3, 3, 5), (3, 2, 1), (3, 1, 3)],
        ids=lambda version: ".".join(map(str, version)),
    )
    def world(self, request: pytest.FixtureRequest) -> FakeWorld:
        return FakeWorld(FakeCluster(version=request.param))

    @pytest.fixture
    def lasting(self, world: FakeWorld) -> Lasting:
        name = world.name()
        return name, running(world, name)

    def test_what_a_post_needs_is_prepared_once_and_not_for_a_submission_that_is_found(
        self, world: FakeWorld
    ) -> None:
        name = world.name()
        prepared: list[int] = []
        body = world.body(name, "s1")

        def post(before: Callable[[int], None]) -> Submitted:
            return submit(world.client, replace(submission(world, name, body), prepare=before))

        def not_there(_number: int) -> None:
            raise UsageError("an input is not there")

        with pytest.raises(UsageError, match="an input is not there"):
            post(not_there)
        with pytest.raises(NoSuchJob):
            world.client.get_service(name)
        world.fault("lost", "POST")
        first = post(prepared.append)
        shown(world, name)
        assert post(not_there).application_id == first.application_id
        assert prepared == [0]
