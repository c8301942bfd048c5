"""What the tasks are told of their job."""

from __future__ import annotations

from typing import Any

from submit_tf_job.container import contract


def role(count: int, role_kind: str, **extra: Any) -> dict[str, Any]:
    usual = {"command": ["true"], "env": {}, "max_restarts": 0, "tolerate": 0, "gpus": 0}
    return {"count": count, "kind": role_kind, **usual, **extra}


def environment(name: str, container: str = "", node: str = "") -> dict[str, str]:
    """Return what YARN sets for a container with an address of its own."""
    found = {contract.ENV_INSTANCE: name, contract.ENV_HOSTNAME: f"{name}.mnist.alice.lan"}
    return {**found, "CONTAINER_ID": container, "NM_HOST": node}


def description(roles: dict[str, Any], **extra: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "job": "mnist",
        "run": "mnist-4abcdefg",
        "ports": {"mode": "own-address"},
        "deciding": next(name for name, r in roles.items() if r["kind"] == "trains"),
        "ends_with": "deciding-task",
        "cluster_roles": [name for name in ("chief", "worker", "ps") if name in roles],
        "start_timeout_s": 900,
        "finish_timeout_s": 600,
        "grace_s": 30,
        "roles": roles,
        **extra,
    }
