"""The event loop of the tasks of a job with `retries`, without connections."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from submit_tf_job.container import contract
from submit_tf_job.container import rendezvous as states
from submit_tf_job.container.info import Info
from submit_tf_job.container.meeting.place import Finder
from submit_tf_job.container.retrying.agents import MOVED, RetryingDecider, RetryingFollower
from submit_tf_job.container.wire import Channel
from tests.unit.container.descriptions import NoSignals, description, role


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


class OneName:
    """A resolver that knows one address."""

    busy = 0

    def __init__(self) -> None:
        self.address: str | None = "10.0.0.1"
        self.asked = 0

    def sought(self, info: Info) -> str:
        return info.host(info.deciding)

    def start(self, names: list[str], found: Callable[[str, str | None], None]) -> None:
        for name in names:
            self.asked += 1
            found(name, self.address)


@pytest.fixture
def names() -> OneName:
    return OneName()


@pytest.fixture
def decider(names: OneName) -> Iterator[RetryingDecider]:
    """A deciding task that has lost its only worker, and waits for it."""
    task = description(
        {"chief": role(1, "trains"), "worker": role(1, "trains")},
        retries={"max": 3, "on": ["lost"]},
    )
    env = {contract.ENV_INSTANCE: "chief-0", contract.ENV_HOSTNAME: "chief-0.mnist.alice.lan"}
    signals: Any = NoSignals()
    made = RetryingDecider(Info(task, env, "/nowhere"), signals)
    made.finder = names  # type: ignore[assignment]
    made.addresses["chief-0"] = made.job.me.address = "10.0.0.1"
    made.job.generations.learn(1, [])
    assert made.job.phase == states.WAITING
    yield made
    made.selector.close()
    signals.reader.close()
    signals.writer.close()


def look(decider: RetryingDecider, times: int) -> bool:
    """Look at its name so often; return whether it knows that it is replaced."""
    for _ in range(times):
        decider._check_place(decider.placed + 15.0)
    return decider.job.superseded


def test_deciding_task_leaves_once_its_name_is_twice_at_another_address(
    decider: RetryingDecider, names: OneName
) -> None:
    assert not look(decider, 5)
    names.address = "10.0.0.2"
    assert not look(decider, 1)
    assert look(decider, 1)
    assert decider.tick(decider.info.started) is False
    assert decider.exit == contract.EXIT_DECIDER_LOST


@pytest.mark.parametrize("address", [None, "", "10.0.0.1"])
def test_deciding_task_stays_while_dns_does_not_have_another_address(
    decider: RetryingDecider, names: OneName, address: str | None
) -> None:
    names.address = address
    assert not look(decider, 5)
    names.address = "10.0.0.2"
    assert not look(decider, 1)
    names.address = address
    assert not look(decider, 3)


def test_deciding_task_whose_name_never_was_its_address_is_not_replaced_by_that(
    decider: RetryingDecider, names: OneName
) -> None:
    """DNS may still have the former container, or an address of another network."""
    decider.addresses["chief-0"] = names.address = "10.9.9.9"
    assert not look(decider, 5)
    assert names.asked == 0


def test_deciding_task_without_registry_dns_looks_where_the_others_do(names: OneName) -> None:
    rule = {
        "protocol": "http",
        "addresses": ["127.0.0.1:9"],
        "path": "/tmp/meeting",
        "user": "alice",
        "dns": False,
    }
    task = description(
        {"chief": role(1, "trains"), "worker": role(1, "trains")},
        retries={"max": 3, "on": ["lost"]},
        meeting=rule,
    )
    env = {contract.ENV_INSTANCE: "chief-0", contract.ENV_HOSTNAME: "chief-0.mnist.alice.lan"}
    signals: Any = NoSignals()
    made = RetryingDecider(Info(task, env, "/nowhere"), signals)
    try:
        assert isinstance(made.finder, Finder)
        made.finder = names  # type: ignore[assignment]
        assert not look(made, 3)
        assert names.asked == 0  # it has not said where it is
        made.announced, made.job.me.address = "10.0.0.1", "10.7.7.7"
        assert not look(made, 3)
        names.address = "10.0.0.2"
        assert look(made, 2)
    finally:
        made.selector.close()
        signals.reader.close()
        signals.writer.close()
