"""A sandbox's state, of which a test says only what matters to it."""

from __future__ import annotations

from typing import Any

from submit_tf_job.sandbox.ports import block_ports
from submit_tf_job.sandbox.state import State

__all__ = ["state_of"]


def state_of(**changes: Any) -> State:
    """Return the state of a sandbox that Ann started."""
    values: dict[str, Any] = {
        "name": "one",
        "hadoop_version": "3.4.2",
        "hadoop_home": None,
        "jars": "/jars",
        "tarball": None,
        "java_home": "/jvm",
        "user": "ann",
        "block": 3,
        "ports": block_ports(3),
        "resolver": "direct",
        "dns_address": "127.0.0.1",
        "dns_port": block_ports(3)["dns"],
        "hosts_file": False,
        "container_path": (),
        "memory_mib": 1024,
        "vcores": 1,
        "profile_path": "/p",
        "recovery": True,
    }
    return State(**{**values, **changes})
