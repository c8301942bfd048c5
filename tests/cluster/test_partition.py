"""The network between the tasks of a job is cut: a cluster in a network namespace of its own, whose
firewall drops what tasks send one another; the connections stay open, as on a switch that fails.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import clusters
from tests.tool import Tool, gone, held, release

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.long,
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("iptables") or not shutil.which("ip"),
        reason="needs root, iproute2 and iptables",
    ),
]

PORTS = (28100, 28140)
SMALL = {"memory": "256Mi"}
SANDBOX = f"partition-{os.getpid()}"


@dataclass
class Inside(Tool):
    """The tool in the namespace of its cluster."""

    inside: tuple[str, ...] = ()

    def argv(self, *arguments: object) -> list[str]:
        return [*self.inside, *super().argv(*arguments)]


@pytest.fixture(scope="module")
def inside(clusters_of_session: None) -> Iterator[tuple[str, ...]]:
    """A cluster in a namespace of its own; what comes before a command that is to run there."""
    words = ("ip", "netns", "exec", SANDBOX)
    sandbox = (*words, sys.executable, "-m", "submit_tf_job", "sandbox")
    subprocess.run(("ip", "netns", "add", SANDBOX), check=True)
    environ = clusters.environment()
    try:
        subprocess.run((*words, "ip", "link", "set", "lo", "up"), check=True)
        up = (*sandbox, "up", "--name", SANDBOX)
        subprocess.run(up, env=environ, check=True, timeout=clusters.UP_S, cwd="/")
        yield words
    finally:
        down = (*sandbox, "down", "--name", SANDBOX)
        subprocess.run(down, env=environ, timeout=clusters.UP_S, cwd="/")
        subprocess.run(("ip", "netns", "del", SANDBOX), check=True)


@pytest.fixture
def tool(inside: tuple[str, ...], tmp_path: Path) -> Iterator[Tool]:
    ports = {"SUBMIT_TF_JOB_PORTS_RANGE": f"{PORTS[0]}-{PORTS[1]}"}
    profile = f"sandbox-{SANDBOX}"
    made = Inside(clusters.environment() | ports, profile, tmp_path, inside=inside)
    yield made
    made.tidy()


@contextmanager
def cut(inside: tuple[str, ...]) -> Iterator[None]:
    """Drop everything that tasks send one another."""
    span = f"{PORTS[0]}:{PORTS[1]}"
    rules = [("INPUT", "-p", "tcp", side, span, "-j", "DROP") for side in ("--dport", "--sport")]
    for rule in rules:
        subprocess.run((*inside, "iptables", "-I", *rule), check=True)
    try:
        yield
    finally:
        for rule in rules:
            subprocess.run((*inside, "iptables", "-D", *rule), check=True)


def begins(tool: Tool, name: str, **keys: Any) -> None:
    spec = tool.spec(
        name,
        strategy="multi-worker",
        command=held(name),
        roles={"worker": {**SMALL, "instances": 3}},
        stop_grace="2s",
        **keys,
    )
    assert tool("submit", spec, "--detach").status == 0
    tool.until(name, lambda seen: seen["state"] == "RUNNING")


def ended(tool: Tool, name: str) -> dict[str, Any]:
    begun = time.monotonic()
    done = tool("wait", name, "-o", "json")
    print(f"{name}: {done.json['state']}, {time.monotonic() - begun:.0f} s: {done.json['reason']}")
    gone(name)
    return {"exit": done.status, **done.json}


def test_a_cut_shorter_than_grace_costs_nothing(tool: Tool, inside: tuple[str, ...]) -> None:
    begins(tool, "cut-short", grace="60s", retries=1)
    with cut(inside):
        time.sleep(20)
    release("cut-short", tasks=3)
    seen = ended(tool, "cut-short")
    assert (seen["exit"], seen["state"], seen["confirmed"]) == (0, "SUCCEEDED", True), seen
    assert seen["retries"]["used"] == 0, seen


def test_a_cut_longer_than_grace_fails_a_job_without_retries(
    tool: Tool, inside: tuple[str, ...]
) -> None:
    """On both sides of it, and the application ends."""
    begins(tool, "cut-long", grace="15s")
    with cut(inside):
        seen = ended(tool, "cut-long")
    assert (seen["exit"], seen["state"]) == (1, "FAILED"), seen
    assert "worker" in seen["reason"], seen


def test_a_training_with_retries_goes_on_after_a_cut(tool: Tool, inside: tuple[str, ...]) -> None:
    begins(tool, "cut-again", grace="15s", retries=1)
    with cut(inside):
        lost = tool.until("cut-again", lambda seen: seen["retries"]["used"] == 1)
        time.sleep(20)
    print(json.dumps(lost["retries"]))
    tool.until("cut-again", lambda seen: seen["state"] == "RUNNING")
    release("cut-again", tasks=3)
    seen = ended(tool, "cut-again")
    assert (seen["exit"], seen["state"], seen["confirmed"]) == (0, "SUCCEEDED", True), seen
    assert seen["retries"]["used"] == 1, seen
