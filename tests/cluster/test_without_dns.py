"""Clusters without Registry DNS: `sandbox up --no-dns`, and jobs whose tasks meet on HDFS."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import clusters
from tests.clusters import ROOT, Cluster
from tests.tool import Tool

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
def without_dns(*options: str) -> Iterator[Cluster]:
    """Start a sandbox without Registry DNS, and take it down at the end."""
    with clusters.own("nodns", "--no-dns", *options) as cluster:
        assert cluster.info["dns_server"] is None
        assert "registrydns" not in cluster.info["started"]
        yield cluster


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


@pytest.mark.usefixtures("clusters_of_session")
def test_tasks_train_without_registry_dns(tensorflow: Path, tmp_path: Path) -> None:
    with without_dns("--container-path", str(tensorflow / "bin")) as info:
        trains(Tool(clusters.environment(), info.profile, tmp_path), "nameless")


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a Docker Engine")
def test_tasks_meet_with_delegation_tokens_in_docker(tensorflow: Path, tmp_path: Path) -> None:
    packages = next((tensorflow / "lib").glob("python3.*/site-packages"))
    with without_dns("--profile", "kerberos+docker", "--mount", str(tensorflow)) as info:
        build = [sys.executable, str(ROOT / "docker" / "build"), "--packages", "base", "no-exec"]
        environ = {**clusters.environment(), "DOCKER_HOST": info.info["docker"]["host"]}
        subprocess.run(build, env=environ, check=True, timeout=900)
        trains(
            Tool(clusters.environment(), info.profile, tmp_path),
            "on-bridge",
            image="submit_tf_job/base:1",
            network="bridge",
            mounts=[f"{packages}:/opt/tensorflow"],
            env={"PYTHONPATH": "/opt/tensorflow"},
        )
