"""SIGTERM at any moment ends a gateway within its drain, whatever its threads do."""

from __future__ import annotations

import random
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from submit_tf_job import Client
from submit_tf_job.settings import load_settings
from tests.gateway.conftest import JOB, Process
from tests.world.served import Served

ROOT = Path(__file__).parents[2]


@pytest.fixture
def jobs(cluster: Served) -> list[str]:
    """Three jobs that run."""
    arguments = {"resource_managers": [cluster.url], "user": "alice"}
    settings = load_settings(arguments=arguments, environ={"HOME": "/nowhere"}, cwd=Path("/"))
    names = ["signals-a", "signals-b", "signals-c"]
    for name in names:
        Client(settings=settings).submit({**JOB, "name": name})
    return names


def _rounds(cluster: Served, jobs: list[str], count: int) -> None:
    options = ["--rm", cluster.url, "--jobs", ",".join(jobs), "--count", str(count)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.gateway.signals", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.match(rf"{count} signals, each ended", done.stdout), done.stderr[-3000:]


def test_sigterm_at_any_line_ends_a_gateway(cluster: Served, jobs: list[str]) -> None:
    _rounds(cluster, jobs, 8)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_sigterm_at_thousands_of_lines_ends_a_gateway(cluster: Served, jobs: list[str]) -> None:
    _rounds(cluster, jobs, 1000)


@pytest.mark.long
def test_sigterm_at_any_moment_ends_a_process(
    tmp_path: Path, cluster: Served, options: list[str], jobs: list[str]
) -> None:
    chance = random.Random(7)
    gateway = Process(tmp_path, *options, "--drain", "1s")
    for _ in range(100):
        held = []
        until = time.monotonic() + chance.uniform(0, 0.3)
        while time.monotonic() < until:
            kind = chance.choice(("events", "logs?follow=true"))
            head = f"GET /v1/jobs/{chance.choice(jobs)}/{kind} HTTP/1.1\r\nHost: localhost\r\n"
            head += f"Authorization: Bearer {gateway.token}\r\n\r\n"
            held.append(socket.create_connection(("127.0.0.1", gateway.port), timeout=600))
            held[-1].sendall(head.encode())
        assert gateway.end(signal.SIGTERM) == 0
        for one in held:
            one.close()
        gateway.start()
    gateway.end()
