"""The event loop of the tasks of a job with `retries`, without connections."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable
from typing import Any

import pytest

from submit_tf_job.container import contract
from submit_tf_job.container.info import Info
from submit_tf_job.container.retrying.agents import MOVED, RetryingFollower
from submit_tf_job.container.wire import Channel
from tests.unit.container.descriptions import description, role
from tests.unit.container.test_decider import NoSignals


class Elsewhere:
    """Finds the deciding task at another address."""

    busy = False

    def __init__(self) -> None:
        self.looks = 0

    def sought(self, info: Info) -> str:
        return info.deciding

    def start(self, hosts: list[str], found: Callable[[str, str | None], None]) -> None:
        self.looks += 1
        found(hosts[0], "10.0.0.2")


@pytest.mark.parametrize("name", ["worker-0", "witness-0"])
def test_each_task_leaves_a_deciding_task_that_yarn_has_started_elsewhere(name: str) -> None:
    roles = {"chief": role(1, "trains"), "worker": role(1, "trains")}
    task = description({**roles, "witness": role(1, "sidecar")}, retries={"max": 1, "on": ["lost"]})
    env = {contract.ENV_INSTANCE: name, contract.ENV_HOSTNAME: f"{name}.mnist.alice.lan"}
    signals: Any = NoSignals()
    follower = RetryingFollower(Info(task, env, "/nowhere"), signals)
    resolver: Any = Elsewhere()
    follower.resolver, follower.address = resolver, "10.0.0.1"
    ours, theirs = socket.socketpair()
    follower.channel = Channel(ours, 1000)
    follower.selector.register(ours, selectors.EVENT_READ, follower._ready)
    follower.welcomed = follower.connected = True
    try:
        now = follower.heard = follower.info.started + 1
        for look in range(MOVED):
            assert follower.welcomed, look
            follower.heard = now
            follower.tick(now)
            now += follower.place_s
        assert not follower.welcomed
        assert resolver.looks == MOVED
    finally:
        theirs.close()
        follower.selector.close()
        signals.reader.close()
        signals.writer.close()
