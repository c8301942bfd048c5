"""Guards of what does not depend on the machine: sizes exactly, start-up as a ratio of CPU times
with generous slack, imports by name.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.followers import notice_silence, simulate
from tests.bench.measure import Samples, clean_environment
from tests.bench.operate import measure_fleet
from tests.bench.size import SIZE_GOAL, posted_bytes
from tests.bench.startup import ASKING, GOAL, SPEC, measure_startup, resource_manager

SLACK = 1.25


@pytest.fixture(scope="module")
def startup() -> Samples:
    return measure_startup(rounds=8)


@pytest.mark.parametrize("command", ASKING)
def test_a_command_that_asks_costs_little_more_than_one_request(
    startup: Samples, command: str
) -> None:
    assert startup.cpu_ratio(command, "hello, GET") <= GOAL * SLACK


def test_ten_thousand_workers_are_posted_in_as_many_bytes_as_ten() -> None:
    few, many = posted_bytes(10), posted_bytes(10_000)
    assert few <= many <= few * SIZE_GOAL
    assert many - few < 64, "the difference is digits"


# What a command must not import, because others need it and it does not.
HEAVY = (
    "rich",
    "jsonschema",
    "fsspec",
    "hdfs_native",
    "requests_kerberos",
    "asyncio",
    "concurrent.futures",
    "submit_tf_job.sandbox",
    "submit_tf_job.container.main",
)


@pytest.mark.parametrize(
    ("arguments", "needless"),
    [
        (
            ["version"],
            (
                *HEAVY,
                "requests",
                "yaml",
                "submit_tf_job.plan",
                "submit_tf_job.jobspec",
            ),
        ),
        (
            ["render", str(SPEC)],
            (
                *(name for name in HEAVY if name != "jsonschema"),
                "requests",
                "urllib3",
            ),
        ),
        (
            ["status", "mnist"],
            (
                *HEAVY,
                "submit_tf_job.diagnose.cause",
                "submit_tf_job.jobspec",
                "submit_tf_job.logs",
                "submit_tf_job.plan",
                "submit_tf_job.storage",
                "submit_tf_job.yarn.records",
            ),
        ),
    ],
    ids=["version", "render", "status"],
)
def test_a_command_imports_nothing_that_it_does_not_need(
    arguments: list[str], needless: tuple[str, ...], tmp_path: Path
) -> None:
    program = (
        # what typer imports (before 0.17: rich) is hello world's, too
        "import sys, typer; floor = set(sys.modules)\n"
        "from submit_tf_job.cli import main; main(sys.argv[1:]); print('\\n' + ' "
        "'.join(set(sys.modules) - floor))"
    )
    with resource_manager() as url:
        environ = clean_environment(tmp_path) | {
            "SUBMIT_TF_JOB_RESOURCE_MANAGERS": url,
            "SUBMIT_TF_JOB_USER": "alice",
        }
        argv = [sys.executable, "-c", program, *arguments]
        done = subprocess.run(
            argv, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
    assert done.returncode == 0, done.stderr
    modules = set(done.stdout.splitlines()[-1].split())
    assert sorted(modules & set(needless)) == []


def test_a_thousand_jobs_cost_one_request_for_each_look_and_no_memory() -> None:
    found = measure_fleet(1000, looks=25)
    assert found.requests == found.looks
    # One look at a thousand jobs is more than that; the server in this very process may hold an
    # answer just now.
    assert found.grown < 1_000_000, "what is kept of a look is replaced by the next"


def test_simulated_followers_start_and_come_back() -> None:
    crowd = simulate(20)
    assert 0 < crowd.again < crowd.sent, "a task that runs is not sent the addresses again"


def test_one_silent_follower_of_five_hundred_is_noticed() -> None:
    """Its connection stays open, and the others ping."""
    grace_s, ping_s = 4.0, 2.0
    took_s = notice_silence(500, grace_s, ping_s)
    assert grace_s + ping_s <= took_s < grace_s + 30
