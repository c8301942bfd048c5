"""What the tasks are told of their job."""

from __future__ import annotations

from typing import Any


def role(count: int, role_kind: str, **extra: Any) -> dict[str, Any]:
    return {
        "count": count,
        "kind": role_kind,
        "command": ["true"],
        "env": {},
        "max_restarts": 0,
        "tolerate": 0,
        "gpus": 0,
        **extra,
    }


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
