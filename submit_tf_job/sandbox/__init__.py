"""A real YARN cluster on this machine: ZooKeeper, HDFS, ResourceManager, NodeManager and Registry
DNS, one JVM each; with Kerberos, a second ResourceManager and TLS where requested.
"""

from submit_tf_job.sandbox.lifecycle import Sandbox
from submit_tf_job.sandbox.options import (
    SandboxDirs,
    SandboxOptions,
    SandboxStatus,
    StartedSandbox,
    parse_modes,
)
from submit_tf_job.sandbox.saved_state import SandboxState

__all__ = [
    "Sandbox",
    "SandboxDirs",
    "SandboxOptions",
    "SandboxState",
    "SandboxStatus",
    "StartedSandbox",
    "parse_modes",
]
