"""`stacks`: a worker that stands still among others that wait for it."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import Cluster
from tests.tool import SUBMIT_S, Tool

pytestmark = pytest.mark.cluster

TRAIN = """
import os, sys
import tensorflow as tf
from tensorflow.python.eager import context

# TensorFlow gives a silent worker up within half a minute, which a busy machine needs to look
configure = context.Context.configure_coordination_service

def patiently(self, *words, **keys):
    return configure(self, *words, **dict(keys, heartbeat_timeout_in_ms=300000))

context.Context.configure_coordination_service = patiently
strategy = tf.distribute.MultiWorkerMirroredStrategy()

@tf.function
def step():
    def add():
        return tf.distribute.get_replica_context().all_reduce("sum", tf.constant(1.0))
    return strategy.run(add)

step()
with open(os.path.join(sys.argv[1], os.environ["TFJOB_INDEX"]), "w") as out:
    out.write(str(os.getpid()))
while True:
    step()
"""


def begin(tool: Tool, name: str, **keys: Any) -> Path:
    """Start three workers; return the directory with a file for each, once all of them train."""
    program, where = tool.cwd / f"{name}.py", tool.cwd / f"{name}-pids"
    program.write_text(TRAIN)
    where.mkdir()
    spec = tool.spec(
        name,
        files=[str(program)],
        command=f"exec python3 {name}.py {where}",
        strategy="multi-worker",
        roles={"worker": {"instances": 3, "memory": "1Gi"}},
        **keys,
    )
    assert tool("submit", spec, "--detach").status == 0
    tool("wait", name, "--for", "ready", "--timeout", "10m")
    end = time.monotonic() + SUBMIT_S
    while len([path for path in where.iterdir() if path.stat().st_size]) < 3:
        assert time.monotonic() < end, tool("status", name)
        time.sleep(0.2)
    return where


def test_stacks_name_the_frozen_worker_among_three(tool: Tool, real_cluster: Cluster) -> None:
    assert real_cluster
    where = begin(tool, "frozen")
    alike = tool("stacks", "frozen", "-o", "json").json
    assert [task["where"].partition(" (")[2][:10] for task in alike["tasks"]] == ["frozen.py:"] * 3
    assert any("quick_execute" in task["text"] for task in alike["tasks"])
    pid = int((where / "2").read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        found = tool("stacks", "frozen", "-o", "json").json
    finally:
        with suppress(ProcessLookupError):  # YARN has ended it with the job
            os.kill(pid, signal.SIGCONT)
    assert found["differs"] == found["tasks"][0]["task"] == "worker-2"
    assert found["tasks"][0]["where"].startswith(f"process {pid} is stopped by a signal")
    kept = tool("logs", "frozen", "worker-0", "--file", "stacks.txt", "--no-prefix")
    assert kept.stdout.startswith("=== 20"), kept
    tool("stop", "frozen")


def test_a_training_with_a_frozen_worker_fails_by_its_name(
    tool: Tool, real_cluster: Cluster
) -> None:
    assert real_cluster
    where = begin(tool, "still", stall_timeout={"after": "40s", "then": "fail"})
    pid = int((where / "2").read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        ended = tool("wait", "still", "-o", "json", "--timeout", "10m").json
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    assert (ended["state"], ended["failure"]["reason"]) == ("FAILED", "stalled"), ended
    said = f"worker-2 stands elsewhere than the rest: process {pid} is stopped by a signal"
    assert said in ended["reason"]
    assert ended["failure"]["task"] == "worker-2"
