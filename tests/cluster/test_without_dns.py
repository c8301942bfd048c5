"""Clusters without Registry DNS: `sandbox up --no-dns`, and jobs whose tasks meet on HDFS."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.sandbox import Sandbox, SandboxOptions
from submit_tf_job.sandbox.options import Mode
from tests.cluster.conftest import Tool
from tests.fakes.sandbox import sandbox_dirs

pytestmark = pytest.mark.cluster

# fails unless it knows all tasks by addresses, and reaches them by TensorFlow's collectives
TRAIN = """
import ipaddress, json, os
members = json.loads(os.environ["TF_CONFIG"])["cluster"].values()
known = [address for addresses in members for address in addresses]
known += [os.environ["TFJOB_ADDRESS"], *os.environ["TFJOB_HOSTS_WORKER"].split(",")]
for address in known:
    ipaddress.ip_address(address.rpartition(":")[0])
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
ones = strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.constant(1.0)))
print("replicas that met:", int(ones), flush=True)
"""
TASK = {"memory": "1Gi"}


@contextmanager
def without_dns(
    environ: dict[str, str], tensorflow: Path, modes: tuple[Mode, ...] = ()
) -> Iterator[tuple[Sandbox, str]]:
    """Start a sandbox without Registry DNS, and take it down at the end; yields its profile."""
    made = Sandbox(f"test{os.getpid()}-nodns-{'-'.join(modes) or 'plain'}", sandbox_dirs(environ))
    options = SandboxOptions(resolver="none", modes=modes)
    if "docker" not in modes:
        options = SandboxOptions(resolver="none", modes=modes, container_path=(tensorflow / "bin",))
    try:
        info = made.up(options, environ, print)
        assert (info.dns_server, "registrydns" in info.started) == (None, False)
        yield made, info.profile
    finally:
        made.down()


def trains(tool: Tool, name: str, **more: Any) -> None:
    """Run a job of two tasks that train together, and know one another by addresses."""
    (tool.cwd / "train.py").write_text(TRAIN)
    task = {**TASK, "command": "python3 train.py"}
    roles = {"chief": task, "worker": task}
    spec = tool.spec(name, strategy="multi-worker", files=["train.py"], roles=roles, **more)
    done = tool("submit", spec, "-o", "json")
    printed = tool("logs", name).stdout
    assert (done.status, done.json["state"]) == (0, "SUCCEEDED"), (done, printed)
    assert printed.count("replicas that met: 2") == 2
    start = tool("describe", name, "-o", "json").json["start"]
    assert start["by_address"] == 2


def test_tasks_train_without_registry_dns(
    session_environ: dict[str, str], tensorflow: Path, tmp_path: Path
) -> None:
    with without_dns(session_environ, tensorflow) as (_, profile):
        tool = Tool(session_environ, profile, tmp_path)
        trains(tool, "nameless")
