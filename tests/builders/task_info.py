"""The description of a task."""

from __future__ import annotations

from pathlib import Path

from submit_tf_job.container import contract
from submit_tf_job.container.info import Info

CONTAINER = "container_e17_1700000000000_0042_01_000003"


def task_info(cwd: Path, container: str = CONTAINER, run: str = "mnist-4abcdefg") -> Info:
    roles = {"worker": {"count": 2, "kind": "trains", "max_restarts": 0}}
    task = {
        "version": 1,
        "job": "mnist",
        "run": run,
        "deciding": "worker",
        "cluster_roles": ["worker"],
        "roles": roles,
    }
    return Info(task, {contract.ENV_INSTANCE: "worker-1", "CONTAINER_ID": container}, str(cwd))
