"""A real YARN cluster on this machine: ZooKeeper, HDFS, ResourceManager, NodeManager and Registry
DNS, one JVM each; with Kerberos, a second ResourceManager and TLS where requested.
"""

from submit_tf_job.sandbox.lifecycle import Sandbox
from submit_tf_job.sandbox.options import (
    ALL_DAEMONS,
    DAEMONS,
    MODES,
    DaemonStatus,
    DockerInfo,
    KerberosInfo,
    Mode,
    SandboxDirs,
    SandboxInfo,
    SandboxOptions,
    SandboxStatus,
    parse_modes,
    profile_name,
)
from submit_tf_job.sandbox.versions import DEFAULT_VERSION, MAVEN_VERSIONS

__all__ = [
    "ALL_DAEMONS",
    "DAEMONS",
    "DEFAULT_VERSION",
    "MAVEN_VERSIONS",
    "MODES",
    "DaemonStatus",
    "DockerInfo",
    "KerberosInfo",
    "Mode",
    "Sandbox",
    "SandboxDirs",
    "SandboxInfo",
    "SandboxOptions",
    "SandboxStatus",
    "parse_modes",
    "profile_name",
]
