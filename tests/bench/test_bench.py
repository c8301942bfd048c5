"""Guards of what does not depend on the machine: sizes exactly, start-up as a ratio of CPU times
with generous slack, imports by name.
"""

from __future__ import annotations

import pytest

from tests.bench.measure import Samples
from tests.bench.operate import measure_fleet
from tests.bench.other_tasks import notice_silence, simulate
from tests.bench.startup import ASKING, GOAL, measure_startup

SLACK = 1.5


@pytest.fixture(scope="module")
def startup() -> Samples:
    return measure_startup(rounds=8)


@pytest.mark.parametrize("command", ASKING)
def test_command_that_asks_costs_little_more_than_a_request(startup: Samples, command: str) -> None:
    assert startup.cpu_ratio(command, "hello, GET") <= GOAL * SLACK


def test_a_thousand_jobs_cost_one_request_for_each_look_and_no_memory() -> None:
    found = measure_fleet(1000, looks=25)
    # the first look asks for the ResourceManager's clock and for ended ones, too
    assert found.requests == found.looks + 2
    # One look at a thousand jobs is more than that; the server in this very process may hold an
    # answer just now.
    assert found.grown < 1_000_000, "what is kept of a look is replaced by the next"


def test_simulated_other_tasks_start_and_come_back() -> None:
    crowd = simulate(20)
    assert 0 < crowd.again < crowd.sent, "a task that runs is not sent the addresses again"


def test_one_silent_task_of_five_hundred_is_noticed() -> None:
    """Its connection stays open, and the others ping."""
    grace_s, ping_s = 4.0, 2.0
    took_s = notice_silence(500, grace_s, ping_s)
    assert grace_s + ping_s <= took_s < grace_s + 30
