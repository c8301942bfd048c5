"""A real YARN cluster on this machine: ZooKeeper, HDFS, ResourceManager, NodeManager and Registry DNS, one JVM each."""

from submit_tf_job.sandbox.lifecycle import Sandbox
from submit_tf_job.sandbox.model import (
    DAEMONS,
    DaemonStatus,
    SandboxDirs,
    SandboxInfo,
    SandboxOptions,
    SandboxStatus,
    profile_name,
)
from submit_tf_job.sandbox.versions import DEFAULT_VERSION, MAVEN_VERSIONS

__all__ = [
    "DAEMONS",
    "DEFAULT_VERSION",
    "MAVEN_VERSIONS",
    "DaemonStatus",
    "Sandbox",
    "SandboxDirs",
    "SandboxInfo",
    "SandboxOptions",
    "SandboxStatus",
    "profile_name",
]
