"""A real YARN does what the simulated one of the other tests does, and two things that only it can."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
import requests
from requests.adapters import HTTPAdapter

from submit_tf_job.errors import ClusterUnavailable
from submit_tf_job.operations.stored_services import StoredServices
from submit_tf_job.storage import open_storage
from submit_tf_job.yarn.auth import SimpleAuth
from submit_tf_job.yarn.exactly_once import submit
from submit_tf_job.yarn.nodemanager import NodeManagers
from submit_tf_job.yarn.records import dumps
from submit_tf_job.yarn.resource_manager import ResourceManager
from tests.builders.services import service_of
from tests.clusters import Cluster
from tests.world.contract import Contract, Lasting, running, submission, until
from tests.world.transport import connection_broke

pytestmark = pytest.mark.cluster

WRITTEN = b"hello\nEnd of LogType:stdout.txt.\n\xff no newline at the end"
LASTING = (
    r"( printf 'hello\nEnd of LogType:stdout.txt.\n\377 no newline at the end'; exec sleep 600 )"
)


class FaultyAdapter(HTTPAdapter):
    """The network, with faults on demand that look to the client as real ones do."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[tuple[str, str]] = []

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """Send a request and perhaps lose it, or its answer."""
        kind = next((kind for kind, method in self.faults if method == request.method), None)
        if kind is not None:
            self.faults.remove((kind, str(request.method)))
        if kind == "lost":
            raise connection_broke()
        response = super().send(request, stream, timeout, verify, cert, proxies)
        if kind in ("cut", "truncated"):
            response.close()
            raise connection_broke()
        if kind in ("gateway", "error-after"):
            response.close()
            response.status_code = 502 if kind == "gateway" else 500
            response.headers["Content-Type"] = (
                "text/html" if kind == "gateway" else "application/json"
            )
            response._content = (
                b"<title>Bad Gateway</title>"
                if kind == "gateway"
                else b'{"diagnostics": "it failed"}'
            )
            response.headers.pop("Content-Length", None)
        return response


class RealWorld:
    """A sandbox as a world."""

    def __init__(self, info: Cluster) -> None:
        self.info = info
        self.user = info.user
        self.adapter = FaultyAdapter()
        self.client = ResourceManager([info.rm_url], SimpleAuth(info.user), adapter=self.adapter)
        self.names: list[str] = []

    def name(self) -> str:
        self.names.append(f"yc-{secrets.token_hex(4)}")
        return self.names[-1]

    def body(
        self,
        name: str,
        submission: str,
        *,
        seconds: float | None = None,
        memory: str = "128",
        queue: str | None = None,
    ) -> str:
        command = LASTING if seconds is None else f"exec sleep {seconds}"
        return dumps(service_of(name, submission, command, memory=memory, queue=queue))

    def stored(self) -> StoredServices:
        """Return YARN's copies of services."""
        storage = open_storage(
            self.info.hdfs_uri, hadoop_conf=self.info.client_conf, user=self.user, timeout_s=30
        )
        return StoredServices(lambda: storage, self.user)

    def fault(self, kind: str, method: str) -> None:
        self.adapter.faults.append((kind, method))

    def stranger(self) -> ResourceManager:
        return ResourceManager([self.info.rm_url], SimpleAuth("nohome"))

    def log_of(self, name: str) -> tuple[str, str, bytes]:
        address = next(node.http_address for node in self.client.nodes())
        assert address is not None
        nodes = NodeManagers(self.client)

        def container() -> str | None:
            found = [
                one
                for component in self.client.get_service(name).components
                for one in component.containers
            ]
            return found[0].id if found else None

        cid = until(self, container)
        until(
            self,
            lambda: any(
                file.size == len(WRITTEN)
                for file in nodes.list_logs(address, cid)
                if file.name == "stdout.txt"
            ),
        )
        return address, cid, WRITTEN


@pytest.fixture
def world(simple: Cluster) -> Iterator[RealWorld]:
    made = RealWorld(simple)
    yield made
    for name in made.names:
        made.client.delete_service(name)


@pytest.fixture(scope="module")
def lasting(simple: Cluster) -> Iterator[Lasting]:
    made = RealWorld(simple)
    name = made.name()
    yield name, running(made, name)
    made.client.delete_service(name)


class TestReal(Contract):
    """The real cluster keeps the contract."""

    def test_the_stored_service_is_empty_while_a_post_writes_it(self, world: RealWorld) -> None:
        """And a submission that looks at it then is told apart from another one all the same."""
        cut, stored = False, world.stored()

        def look(name: str, poster: threading.Thread) -> None:
            nonlocal cut
            looked = world.stored()
            while poster.is_alive():
                found = None
                with suppress(ClusterUnavailable):  # HDFS may not bear to be asked just then
                    found = looked.read(name)
                if found is not None:
                    cut = cut or found.torn
                    assert found.torn or found.key == "s1"

        for _ in range(40):
            name = world.name()
            body = world.body(name, "s1", seconds=1)
            poster = threading.Thread(
                target=ResourceManager([world.info.rm_url], SimpleAuth(world.user)).post_service,
                args=(body,),
            )
            poster.start()
            with ThreadPoolExecutor() as pool:
                list(pool.map(look, [name] * 4, [poster] * 4))
            if cut:
                break
        assert cut
        assert submit(world.client, submission(world, name, body), stored=stored).adopted


def test_the_service_configuration_is_merged_into_every_component(world: RealWorld) -> None:
    name = world.name()
    submit(world.client, submission(world, name, world.body(name, "s1")))
    until(world, lambda: world.client.get_service(name).version)
    seen: Any = world.client.get_service(name).raw
    for component in seen["components"]:
        assert component["configuration"]["properties"]["submit_tf_job.submission-id"] == "s1"
