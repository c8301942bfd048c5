"""How a task finds the deciding one, without connections."""

from __future__ import annotations

import errno
import selectors
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from submit_tf_job.container import contract
from submit_tf_job.container.follower import ANSWER_S, Follower
from submit_tf_job.container.info import Info
from submit_tf_job.container.wire import TABLE_LIMIT, Channel
from tests.unit.container.descriptions import NoSignals, description, role


class Opened(Follower):
    """Notes the ports that it tries, and connects to nothing."""

    def __init__(self, info: Info, signals: Any) -> None:
        super().__init__(info, signals)
        self.ports, self.tried = [7001, 7002, 7003], list[int]()
        self.ends: list[socket.socket] = []

    def _open(self) -> None:
        self.tried.append(self.ports[self.port_index])
        mine, other = socket.socketpair()
        self.ends += [mine, other]
        self.channel, self.since = Channel(mine, TABLE_LIMIT), 1000.0
        self.connected = self.welcomed = False
        self.selector.register(mine, selectors.EVENT_READ, self._ready)


@pytest.fixture
def follower() -> Iterator[Opened]:
    """A worker that has been told the deciding task's address."""
    task = description({"chief": role(1, "trains"), "worker": role(1, "trains")})
    env = {contract.ENV_INSTANCE: "worker-0", contract.ENV_HOSTNAME: "worker-0.mnist.alice.lan"}
    signals = NoSignals()
    made = Opened(Info(task, env, "/nowhere"), signals)
    made._connect("chief-0", "10.0.0.1")
    yield made
    made.selector.close()
    for sock in [*made.ends, signals.reader, signals.writer]:
        sock.close()


def test_address_that_does_not_answer_is_looked_up_before_its_next_port(follower: Opened) -> None:
    follower.resolver.busy = 1  # no look-up by itself
    follower.tick(1000.0 + ANSWER_S + 0.1)
    assert (follower.tried, follower.channel) == ([7001], None)
    follower._connect("chief-0", "10.0.0.2")
    assert (follower.tried, follower.address) == ([7001, 7002], "10.0.0.2")


def test_host_that_is_unreachable_is_looked_up_before_its_next_port(follower: Opened) -> None:
    follower._not_connected(errno.EHOSTUNREACH)
    follower._drop()
    assert (follower.tried, follower.channel, follower.deaf) == ([7001], None, 0)


def test_address_that_refuses_is_tried_at_its_other_ports_at_once(follower: Opened) -> None:
    for _ in follower.ports:
        follower._not_connected(errno.ECONNREFUSED)
        follower._drop()
    assert (follower.tried, follower.channel, follower.deaf) == ([7001, 7002, 7003], None, 3)


def test_silence_of_the_deciding_task_is_part_of_grace(follower: Opened) -> None:
    follower.welcomed = follower.connected = True
    follower.resolver.busy = 1
    follower.heard = follower.pinged = 1000.0
    follower.tick(1015.1)
    assert follower.channel is None
    noticed = follower.next_try - 0.1
    assert noticed - follower.lost_at == pytest.approx(follower.silent_s())
