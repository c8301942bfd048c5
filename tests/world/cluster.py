"""A YARN without sockets, whose time passes when a client waits."""

from __future__ import annotations

import random
from typing import Any

from submit_tf_job.operations.cluster import Cluster
from submit_tf_job.settings import Settings
from submit_tf_job.yarn.auth import SimpleAuth
from submit_tf_job.yarn.resource_manager import ResourceManager, Timeouts
from tests.world.clock import Clock
from tests.world.network import Connection, Network, Waiter
from tests.world.node_manager import NodeManager
from tests.world.weather import Weather
from tests.world.yarn import FOREVER, Site, Yarn


class Steady(random.Random):
    """Chance that always does the same: every step takes its usual time."""

    def random(self) -> float:
        return 0.5

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2

    def choice(self, seq: Any) -> Any:
        return seq[0]


class FakeCluster:
    """A cluster, and the clients that talk to it.

    Args:
        servers: How many ResourceManagers it has; the first one leads.
        version: Hadoop's version.
        clock: Its time.
    """

    def __init__(
        self, servers: int = 1, *, version: tuple[int, ...] = (3, 4, 2), clock: Clock | None = None
    ) -> None:
        self.clock, always = clock or Clock(), Steady()
        random.seed(0)  # the pauses of a watch: no look falls between two events by luck
        site = Site(version, servers, 0.0, False, (0.3, 0.3), queue_s=(0.2, 0.2), job_s=FOREVER)
        self.yarn = Yarn(self.clock, always, site)
        self.yarn.service_state, self.yarn.aggregation = "STARTED", None
        self.node = self.yarn.node = NodeManager("node1:8042")
        self.network = Network(self.yarn, always, Weather())
        self.network.servers[self.node.address] = self.node
        self.scheme = "http"  # of the ResourceManagers, or of what is in front of them
        self.connection = Connection(self.network, lambda: Waiter(self.clock))

    def client(
        self, user: str = "alice", as_user: str | None = None, *, timeouts: Timeouts | None = None
    ) -> ResourceManager:
        """Return a client of all ResourceManagers."""
        return ResourceManager(
            [f"{self.scheme}://{one.address}" for one in self.yarn.servers],
            SimpleAuth(user, as_user),
            timeouts=timeouts,
            clock=self.clock,
            sleep=self.clock.sleep,
            jitter=lambda: 0.5,
            resolve=lambda host: frozenset({host}),
            adapter=self.connection,
        )

    def connect(
        self, settings: Settings, client: ResourceManager | None = None, **more: Any
    ) -> Cluster:
        """Return what `operations.cluster.connect` returns, on this cluster."""
        client = client or self.client(settings.login, settings.as_user)
        return Cluster(settings, client, self.clock, self.clock.sleep, **more)

    def kill_active(self, *, back_s: float = 9.0) -> None:
        """Kill the ResourceManager that leads; another takes over, or it comes back itself."""
        if self.yarn.active:
            self.yarn.crash(self.yarn.active, back_s)
