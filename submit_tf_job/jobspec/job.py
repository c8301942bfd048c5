"""The validated training job: what a job spec means once it has been read.

Plain frozen values. Each refuses what could never be right whatever the cluster (`ValueError` with a sentence); what depends on the
cluster is checked by `plan`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from submit_tf_job.errors import Problem
from submit_tf_job.jobdata import Input, Output

__all__ = [
    "Command",
    "DockerOptions",
    "Duration",
    "HadoopConf",
    "HostFile",
    "Job",
    "Kerberos",
    "Krb5Conf",
    "Mount",
    "OwnLogin",
    "PackageKind",
    "Packages",
    "Place",
    "Placement",
    "Restart",
    "Role",
    "ShippedFile",
    "Strategy",
    "TFConfigMode",
]

TRAINING_ROLES = ("chief", "worker", "ps", "evaluator")
Duration = int  # seconds


class Strategy(str, Enum):
    """How the tasks of a job train together."""

    SINGLE = "single"
    MULTI_WORKER = "multi-worker"
    PARAMETER_SERVER = "parameter-server"
    ESTIMATOR = "estimator"
    CUSTOM = "custom"


class TFConfigMode(str, Enum):
    """How a task gets its TF_CONFIG."""

    COUNTS = "counts"
    LITERAL = "literal"
    NONE = "none"


class Restart(str, Enum):
    """What becomes of a task whose command failed."""

    NEVER = "never"
    ON_FAILURE = "on-failure"


@dataclass(frozen=True)
class Place:
    """Where a value stands in the user's input."""

    source: str
    line: int = 0
    column: int = 0


@dataclass(frozen=True)
class Command:
    """A training command: a list is argv and never parsed again, a string is for bash.

    Exactly one of the two is set.
    """

    argv: tuple[str, ...] | None = None
    script: str | None = None

    def __post_init__(self) -> None:
        """Refuse a command that is both, or neither."""
        if (self.argv is None) == (self.script is None):
            raise ValueError("a command is either a list of arguments or a string for bash")

    def to_json(self) -> list[str] | str:
        """Render as the job spec writes it."""
        if self.argv is not None:
            return list(self.argv)
        return self.script or ""

    def __str__(self) -> str:
        if self.argv is not None:
            import shlex

            return shlex.join(self.argv)
        return self.script or ""


@dataclass(frozen=True)
class Mount:
    """A directory or file of the node, seen in the container."""

    source: str
    target: str
    read_only: bool = True

    def __str__(self) -> str:
        return f"{self.source}:{self.target}:{'ro' if self.read_only else 'rw'}"


@dataclass(frozen=True)
class HostFile:
    """A file of the submitting host, known by its content; it is read again when it is sent, and never held as a whole.

    Attributes:
        path: Where it is.
        size: Bytes.
        sha256: Of the content, or of its chunks where it is large (`specfile.digests.sha256_of`), in hexadecimal digits.
        stamp: What shows that it was changed since it was hashed: device, inode, times; see `stamp_of`.
    """

    path: Path = field(compare=False)
    size: int
    sha256: str
    stamp: tuple[int, ...] = field(default=(), compare=False, repr=False)

    @staticmethod
    def stamp_of(found: os.stat_result) -> tuple[int, ...]:
        """Take from a status what changes when a file is written to, or another takes its place."""
        return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


@dataclass(frozen=True)
class ShippedFile:
    """A file of the submitting host that every task finds in its working directory.

    Attributes:
        name: Path in the task's working directory, relative, with `/`.
        content: The bytes; where it is a large one, what is known of it.
        executable: Whether the owner may execute it.
        unpack: For an archive the directory of the task that it is unpacked into, for a wheel `contract.SITE_DIRECTORY`; else "".
    """

    name: str
    content: bytes | HostFile = field(repr=False)
    executable: bool = False
    unpack: str = ""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.content.size if isinstance(self.content, HostFile) else len(self.content)

    @cached_property
    def sha256(self) -> str:
        """Hash of the content, in hexadecimal digits."""
        return self.content.sha256 if isinstance(self.content, HostFile) else hashlib.sha256(self.content).hexdigest()


class PackageKind(str, Enum):
    """What an archive of Python packages holds."""

    SITE = "site"  # what wheels hold: site/ for PYTHONPATH, bin/ for PATH
    ENVIRONMENT = "environment"  # a whole environment, as conda-pack and venv-pack write it


@dataclass(frozen=True)
class Packages:
    """Python packages for images that lack them: one archive, unpacked once on each node.

    Attributes:
        archive: The .tar.gz or .zip.
        version: The Python that they were made for, as in 3.11; "" where any will do.
    """

    kind: PackageKind
    archive: HostFile
    version: str = ""


@dataclass(frozen=True)
class DockerOptions:
    """What Docker is told of a role's containers, beyond image, network and mounts.

    Attributes:
        entrypoint: Whether the image's own ENTRYPOINT starts the command, and no launch script of YARN's.
        accounts: Whether the node's users and groups are known in the container.
        tmpfs: Directories that are kept in memory.
        publish: Ports that the node passes on, `NODE:CONTAINER` or `:CONTAINER`; on bridge networks.
        runtime: OCI runtime, None for the node's own choice.
    """

    entrypoint: bool = False
    accounts: bool = False
    tmpfs: tuple[str, ...] = ()
    publish: tuple[str, ...] = ()
    runtime: str | None = None


@dataclass(frozen=True)
class Placement:
    """Where YARN is asked to put a role's tasks.

    Attributes:
        spread: "node" or "rack": no two tasks of the role on one.
        together: "node" or "rack": all tasks of the role on one.
        partition: Node label (partition) to run in.
        attributes: Node attributes, name to accepted values.
    """

    spread: str | None = None
    together: str | None = None
    partition: str | None = None
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class Role:
    """One task group: all tasks of one TensorFlow role, or a sidecar.

    Attributes:
        instances: Number of tasks, at least 1.
        memory_mib: Memory of one task in MiB.
        ports: Ports a sidecar serves, by name; shown as links.
        max_restarts: How often each failed task of the role may be started again.
        tolerate: How many tasks of the role may fail for good without failing the job.
    """

    name: str
    instances: int
    command: Command
    image: str
    memory_mib: int
    cpus: int = 1
    gpus: int = 0
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    files: tuple[ShippedFile, ...] = ()
    mounts: tuple[Mount, ...] = ()
    placement: Placement | None = None
    restart: Restart = Restart.NEVER
    max_restarts: int = 0
    tolerate: int = 0
    ports: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    docker: DockerOptions = DockerOptions()

    @property
    def is_sidecar(self) -> bool:
        """Whether TensorFlow does not know of this role."""
        return self.name not in TRAINING_ROLES


class OwnLogin(str, Enum):
    """When the tasks of a job log in with its keytab instead of living on YARN's delegation tokens."""

    AUTO = "auto"  # where the job may outlive its tokens
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True)
class Krb5Conf:
    """How krb5.conf reaches the containers.

    Attributes:
        kind: "inline" (sent with the job), "node" (a file of the node, mounted read-only) or "image" (whatever the image has).
        location: The file of the node.
        content: For inline: the file, what it includes put in.
    """

    kind: str = "image"
    location: str = ""
    content: bytes = b""


@dataclass(frozen=True)
class Kerberos:
    """Who the job is on a cluster with Kerberos.

    Attributes:
        principal: Service principal of the ApplicationMaster; `_HOST` in it stands for the host that it runs on.
        keytab: `hdfs://…`, `file:///…` (on every node), or the path on this host where `secret` came from.
        secret: The bytes of a keytab of this host, which is staged for the job; never in the service or a log.
        krb5_conf: How krb5.conf reaches the containers.
        login: When the tasks log in themselves.
    """

    principal: str
    keytab: str
    secret: bytes | None = field(default=None, repr=False)
    krb5_conf: Krb5Conf = Krb5Conf()
    login: OwnLogin = OwnLogin.AUTO


@dataclass(frozen=True)
class HadoopConf:
    """How the Hadoop configuration reaches the containers.

    Attributes:
        kind: "inline" (sent with the service), "archive" (an archive on HDFS) or "node" (a directory of the node, mounted read-only).
        location: The archive's URI or the directory; "" for inline.
        files: For inline: the XML files, by name.
    """

    kind: str
    location: str = ""
    files: tuple[ShippedFile, ...] = ()


@dataclass(frozen=True)
class Job:
    """One training job, independent of any cluster.

    Attributes:
        roles: By name, in the job spec's order.
        description: One line for people; YARN shows it.
        inputs: What it reads.
        outputs: What it writes.
        lifetime_s: Seconds from submission after which YARN kills the job; None for no limit.
        start_timeout_s: Seconds from the deciding task's start until every task must have arrived.
        finish_timeout_s: Seconds that other tasks get when the deciding task is done.
        grace_s: Seconds for which a task may be out of reach before it counts as failed.
        deciding_role: The role whose task 0 decides the job.
        bootstrap: Whether our bootstrap runs in the containers (it needs Python in the image).
        python: The Python interpreter that runs the bootstrap in the container.
        packages: Python packages that travel with the job.
        places: Where each value (by dotted path) stands in the user's input, for messages.
    """

    name: str
    strategy: Strategy
    roles: Mapping[str, Role]
    deciding_role: str
    description: str = ""
    queue: str | None = None
    network: str = "host"
    hadoop: HadoopConf | None = None
    kerberos: Kerberos | None = None
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    lifetime_s: Duration | None = None
    start_timeout_s: Duration = 900
    finish_timeout_s: Duration = 600
    grace_s: Duration = 30
    tf_config: TFConfigMode = TFConfigMode.COUNTS
    legacy_master: bool = False
    bootstrap: bool = True
    python: str = "python3"
    packages: Packages | None = None
    docker_client_config: str | None = None
    places: Mapping[str, Place] = field(default_factory=lambda: MappingProxyType({}), compare=False, repr=False)

    @property
    def counts(self) -> dict[str, int]:
        """Number of tasks per role."""
        return {role.name: role.instances for role in self.roles.values()}

    @property
    def deciding_task(self) -> str:
        """The component instance whose end is the job's end."""
        return f"{self.deciding_role}-0"

    def origin(self, path: str) -> tuple[str, Place]:
        """Find where the value at `path` comes from.

        Returns:
            The path as the user wrote it, and its place: for a role's image, command, env, files or mounts that the role took from
            the job (or from the settings) that is the job's; for a value that stands nowhere it is the nearest parent's place.
        """
        inherited = _INHERITED.fullmatch(path)
        if path not in self.places and inherited and inherited.group(1) in self.places:
            path = inherited.group(1)
        at = path
        while at and at not in self.places:
            at = _parent(at)
        return path, self.places.get(at, Place(""))

    def problem(self, path: str, message: str) -> Problem:
        """Build a problem where the value at `path` comes from; a built-in default is a problem of what stands around it."""
        path, place = self.origin(path)
        at = path
        while at and place.source == "default":
            at = _parent(at)
            place = self.places.get(at, place)
        return Problem(place.line, place.column, path, message, place.source)


_INHERITED = re.compile(r"roles\.[^.]+\.((?:image|command|env|files|mounts|docker)(?:[.\[].*)?)")


def _parent(path: str) -> str:
    return re.sub(r"(?:\.[^.\[]*|\[\d+\]|^[^.\[]*)$", "", path)
