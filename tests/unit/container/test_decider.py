"""The deciding task's event loop, without connections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from submit_tf_job.container import contract
from submit_tf_job.container import rendezvous as states
from submit_tf_job.container.decider import Decider
from submit_tf_job.container.info import Info
from tests.unit.container.descriptions import NoSignals, description, role


@pytest.fixture
def decider() -> Iterator[Decider]:
    """The deciding task of a job with one worker."""
    task = description({"chief": role(1, "trains"), "worker": role(1, "trains")})
    env = {contract.ENV_INSTANCE: "chief-0", contract.ENV_HOSTNAME: "chief-0.mnist.alice.lan"}
    signals: Any = NoSignals()
    made = Decider(Info(task, env, "/nowhere"), signals)
    yield made
    made.selector.close()
    signals.reader.close()
    signals.writer.close()


def test_decider_is_idle_while_tasks_run_whose_names_were_never_found(decider: Decider) -> None:
    now = decider.looked = decider.info.started
    decider.unasked = []
    decider._found("worker-0", None)
    assert decider.tick(now)  # the name is looked up again soon
    decider.job.phase, decider.stage = states.RUNNING, (states.RUNNING, 0)
    assert not decider.tick(now + 2)


@pytest.mark.parametrize(
    ("grace_s", "ping_s", "expected"), [(30, 5, 9), (30, 8, 15), (10, 5, 5), (30, 0.25, 0)]
)
def test_silent_s_counts_from_the_first_missing_ping_and_leaves_half_of_grace(
    decider: Decider, grace_s: float, ping_s: float, expected: float
) -> None:
    decider.info.task = {**decider.info.task, "grace_s": grace_s}
    decider.ping_s = ping_s
    assert decider.silent_s() == expected


def test_two_tasks_ping_every_five_seconds_and_ten_thousand_every_eight(decider: Decider) -> None:
    assert decider.ping_s == 5
    task = description({"chief": role(1, "trains"), "worker": role(9999, "trains")})
    env = {contract.ENV_INSTANCE: "chief-0", contract.ENV_HOSTNAME: "chief-0.mnist.alice.lan"}
    assert Decider(Info(task, env, "/nowhere"), decider.signals).ping_s == 8
