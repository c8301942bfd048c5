"""A real YARN cluster on this machine: ZooKeeper, HDFS, ResourceManager, NodeManager and Registry
DNS, one JVM each; with Kerberos, a second ResourceManager and TLS where requested.
"""

from submit_tf_job.sandbox.lifecycle import Sandbox
from submit_tf_job.sandbox.state import (
    SandboxDirs,
    SandboxOptions,
    SandboxState,
    SandboxStatus,
    StartedSandbox,
    parse_modes,
)

__all__ = [
    "Sandbox",
    "SandboxDirs",
    "SandboxOptions",
    "SandboxState",
    "SandboxStatus",
    "StartedSandbox",
    "parse_modes",
]
