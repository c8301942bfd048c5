"""A sandbox's state, of which a test says only what matters to it."""

from __future__ import annotations

from typing import Any

from submit_tf_job.sandbox.daemons import block_ports
from submit_tf_job.sandbox.state import SandboxState


def state_of(**changes: Any) -> SandboxState:
    """Return the state of a sandbox that Ann started."""
    values: dict[str, Any] = {"name": "one", "user": "ann", "profile_path": "/p"}
    values |= {"hadoop_version": "3.4.2", "jars": "/jars", "tarball": None}
    values |= {"java_home": "/jvm", "block": 3, "ports": block_ports(3), "resolver": "direct"}
    values |= {"hosts_file": False}
    return SandboxState(**{**values, **changes})
