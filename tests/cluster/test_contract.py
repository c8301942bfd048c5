"""A real YARN does what the simulated one of the other tests does, and a thing that only it can."""

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
import requests
from requests.adapters import HTTPAdapter

from submit_tf_job.operations.stored_services import StoredServices
from submit_tf_job.storage import open_storage
from submit_tf_job.yarn.auth import SimpleAuth
from submit_tf_job.yarn.exactly_once import submit
from submit_tf_job.yarn.nodemanager import NodeManagers
from submit_tf_job.yarn.records import dumps
from submit_tf_job.yarn.resource_manager import ResourceManager
from tests.builders.services import service_of
from tests.clusters import Cluster
from tests.world.contract import Contract, Lasting, running, shown, submission, until
from tests.world.transport import connection_broke

pytestmark = pytest.mark.cluster

T = TypeVar("T")
STILL_S = 20  # HDFS takes a DataNode that is silent for longer for dead
WRITTEN = b"hello\nEnd of LogType:stdout.txt.\n\xff no newline at the end"
SAYS = r"printf 'hello\nEnd of LogType:stdout.txt.\n\377 no newline at the end'"


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

    def __init__(self, info: Cluster, directory: Path) -> None:
        self.info = info
        self.directory = directory
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
        ends: bool = False,
        memory: str = "128",
        queue: str | None = None,
    ) -> str:
        until = f"until [ -e {self.directory / name} ]; do sleep 0.1; done"
        command = f"( {SAYS}; {until if ends else 'exec sleep 3600'} )"
        return dumps(service_of(name, submission, command, memory=memory, queue=queue))

    def release(self, name: str) -> None:
        (self.directory / name).touch()

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

        def containers() -> list[str | None]:
            components = self.client.get_service(name).components
            return [one.id for component in components for one in component.containers]

        cid = str(until(self, containers)[0])
        until(
            self,
            lambda: {file.name: file.size for file in nodes.list_logs(address, cid)},
            lambda sizes: sizes.get("stdout.txt") == len(WRITTEN),
        )
        return address, cid, WRITTEN


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Let a process stand still, for `STILL_S` at most."""
    timer = threading.Timer(STILL_S, os.kill, (pid, signal.SIGCONT))
    os.kill(pid, signal.SIGSTOP)
    timer.start()
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
        timer.cancel()


def seen_within(world: RealWorld, look: Callable[[], T | None]) -> T | None:
    """Look for `STILL_S` at most until something is there."""
    deadline = world.client.deadline(STILL_S)
    while (seen := look()) is None and deadline.left_s:
        world.client.sleep(0.5)
    return seen


@pytest.fixture
def world(real_cluster: Cluster, tmp_path: Path) -> Iterator[RealWorld]:
    made = RealWorld(real_cluster, tmp_path)
    yield made
    for name in made.names:
        made.client.delete_service(name)


@pytest.fixture(scope="module")
def lasting(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lasting]:
    made = RealWorld(real_cluster, tmp_path_factory.mktemp("lasting"))
    name = made.name()
    yield name, running(made, name)
    made.client.delete_service(name)


class TestReal(Contract):
    """The real cluster keeps the contract."""

    @pytest.mark.alone  # nobody else can write to this HDFS meanwhile
    def test_the_stored_service_is_empty_while_a_post_writes_it(self, world: RealWorld) -> None:
        """And a submission that looks at it then is told apart from another one all the same."""
        stored = world.stored()
        for _ in range(10):
            name = world.name()
            body = world.body(name, "s1")
            with ThreadPoolExecutor() as pool:
                with stopped(world.info.pid_of("datanode")):  # the file exists, and has no content
                    posted = pool.submit(world.client.post_service, body)
                    torn = seen_within(world, partial(stored.copy_of, name))
                app_id = posted.result()
            if torn is not None and torn.torn:
                break
        assert torn is not None
        assert (torn.torn, torn.key, torn.app_id) == (True, "", None)
        found = submit(world.client, submission(world, name, body), stored=stored)
        assert (found.adopted, found.application_id) == (True, app_id)


def test_the_service_configuration_is_merged_into_every_component(world: RealWorld) -> None:
    name = world.name()
    submit(world.client, submission(world, name, world.body(name, "s1")))
    seen: Any = shown(world, name).raw
    for component in seen["components"]:
        assert component["configuration"]["properties"]["submit_tf_job.submission-id"] == "s1"
