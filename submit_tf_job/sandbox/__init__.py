"""A real YARN cluster on this machine: ZooKeeper, HDFS, ResourceManager, NodeManager and Registry
DNS, one JVM each; with Kerberos, a second ResourceManager and TLS where requested.
"""

from submit_tf_job.sandbox.lifecycle import Sandbox
from submit_tf_job.sandbox.options import (
    ALL_DAEMONS,
    DAEMONS,
    MODES,
    DaemonStatus,
    Mode,
    SandboxDirs,
    SandboxOptions,
    SandboxStatus,
    StartedSandbox,
    parse_modes,
    profile_name,
)
from submit_tf_job.sandbox.saved_state import SandboxState
from submit_tf_job.sandbox.versions import DEFAULT_VERSION, MAVEN_VERSIONS

__all__ = [
    "ALL_DAEMONS",
    "DAEMONS",
    "DEFAULT_VERSION",
    "MAVEN_VERSIONS",
    "MODES",
    "DaemonStatus",
    "Mode",
    "Sandbox",
    "SandboxDirs",
    "SandboxOptions",
    "SandboxState",
    "SandboxStatus",
    "StartedSandbox",
    "parse_modes",
    "profile_name",
]
