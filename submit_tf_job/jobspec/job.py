"""The value classes of a job spec: a `Job`, its roles, files, inputs and outputs."""

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
from typing import Literal

from submit_tf_job.container import contract
from submit_tf_job.errors import Problem
from submit_tf_job.host.located.tree import Location

PATTERN = re.compile(r"[*?\[]")  # a path with one of these is a pattern


class Uploader(str, Enum):
    """The tasks whose directory is uploaded as the output."""

    DECIDING_TASK = "deciding-task"
    EVERY_TASK = "every-task"
    ALL_THAT_WRITE = "all-that-write"


class OnFailure(str, Enum):
    """What happens to a task's output when its command failed."""

    DISCARD = "discard"
    KEEP = "keep"  # stored beside the output as <uri>.failed-<run>
    UPLOAD = "upload"


class OnRetry(str, Enum):
    """What a restart of all tasks (`retries`) finds in the directory of an output."""

    EMPTY = "empty"
    KEEP = "keep"  # what the generation before has written


@dataclass(frozen=True)
class Input:
    """An input of a job.

    Attributes:
        uri: A file, a directory, or a pattern with `*`, `?`, `[a-c]`.
        sharded: Whether each task that reads gets its own share of the files.
        download: Whether the bootstrap copies it to the task's disk.
    """

    name: str
    uri: str
    sharded: bool = False
    download: bool = False

    @property
    def is_pattern(self) -> bool:
        """Whether the URI is a pattern of file names."""
        return PATTERN.search(self.uri) is not None


@dataclass(frozen=True)
class Output:
    """An output of a job.

    Attributes:
        uri: A file or directory.
        upload: Whether the program writes to its own disk, and the bootstrap copies that to `uri`
            when the command has ended.
        by: The tasks whose directory is uploaded.
        on_failure: What happens to it when the command failed.
        on_retry: What a restart of all tasks finds in its directory.
        overwrite: Whether existing data at `uri` may be replaced.
        collect: Patterns of files below the directory in which the command starts that are put
            into its directory when the command has ended.
    """

    name: str
    uri: str
    upload: bool = False
    by: Uploader = Uploader.DECIDING_TASK
    on_failure: OnFailure = OnFailure.DISCARD
    on_retry: OnRetry = OnRetry.EMPTY
    overwrite: bool = False
    collect: tuple[str, ...] = ()


TRAINING_ROLES = ("chief", "worker", "ps", "evaluator")
SIDECAR_NAMES = (
    "dashboard",
    "exporter",
    "helper",
    "jupyter",
    "monitor",
    "notebook",
    "proxy",
    "sidecar",
    "tensorboard",
    "web",
)
NO_IMAGE = "none"  # the image of a role whose tasks are plain processes of their nodes
DEFAULT_STOP_GRACE_S = 5
DEFAULT_NODE_LOSSES = 2  # of a role, before YARN leaves a node out
DEFAULT_GROW_AFTER_S = 300  # minimum time before a restart that adds tasks
DEFAULT_RETRIES = 3  # how often all tasks start again, if `retries` does not say it
AUTO_PORT = 0  # a port of a role that the bootstrap selects on the node
Duration = int  # seconds


class Strategy(str, Enum):
    """How the tasks of a job train together."""

    SINGLE = "single"
    MULTI_WORKER = "multi-worker"
    PARAMETER_SERVER = "parameter-server"
    ESTIMATOR = "estimator"
    TORCH = "torch"
    JAX = "jax"
    CUSTOM = "custom"


class RoleKind(str, Enum):
    """What a job expects of a role's tasks."""

    TRAINS = contract.KIND_TRAINS
    SERVES = contract.KIND_SERVES
    EVALUATES = contract.KIND_EVALUATES
    SIDECAR = contract.KIND_SIDECAR


class Ending(str, Enum):
    """The tasks whose end is the job's end."""

    DECIDING_TASK = contract.ENDS_DECIDING_TASK
    DECIDING_ROLE = contract.ENDS_DECIDING_ROLE
    ALL_THAT_TRAIN = contract.ENDS_ALL_THAT_TRAIN


class TFConfigMode(str, Enum):
    """How a task gets its TF_CONFIG."""

    COUNTS = "counts"
    NONE = "none"


class Variables(str, Enum):
    """Variables of another system that a task gets beside TF_CONFIG."""

    CLOUD = "cloud"
    HBOX = "hbox"
    HOROVOD = "horovod"
    SUBMARINE = "submarine"
    TONY = "tony"


class KerasMode(str, Enum):
    """What `tf.keras` is."""

    INSTALLED = "installed"  # that of the image's TensorFlow: Keras 3 from 2.16 on
    LEGACY = "legacy"  # Keras 2, of the package tf_keras


class ImagePolicy(str, Enum):
    """What happens where a NodeManager runs a task as a plain process instead of in its image."""

    REQUIRE = "require"
    WARN = "warn"
    ALLOW = "allow"


class OnStall(str, Enum):
    """What follows where no task that trains moves for `stall_timeout`."""

    WARN = "warn"
    FAIL = "fail"


class Restart(str, Enum):
    """What happens to a task whose command failed."""

    NEVER = "never"
    ON_FAILURE = "on-failure"


@dataclass(frozen=True)
class Retries:
    """When all tasks of a job start again in place.

    Attributes:
        max: How often.
        on: The failures after which they do: "lost", "out-of-memory", "any", and exit statuses of
            commands.
        node_losses: The number of lost containers of a role on one node after which YARN starts no
            more of them there; 0 for no limit.
        memory: The factor for the memory of the role that ran out of it, with which the job is
            submitted again; None for never.
    """

    max: int = DEFAULT_RETRIES
    on: tuple[str | int, ...] = ("lost",)
    node_losses: int = DEFAULT_NODE_LOSSES
    memory: float | None = None


@dataclass(frozen=True)
class Stall:
    """When a training stands still, and what follows.

    Attributes:
        after_s: Seconds without output, step and CPU time of all tasks that train.
        then: What follows.
    """

    after_s: Duration
    then: OnStall = OnStall.WARN


@dataclass(frozen=True)
class Remark:
    """A remark about the files that are sent, or the conversion of a file of another format.

    Attributes:
        level: "warning" for a dropped value, "note" for a decision.
        source, line, column: Its location.
        path: Its path in that file.
        also: The number of further locations with the same remark.
        ours: The path in the job spec that the decision concerns; "" for none.
    """

    level: Literal["warning", "note"]
    source: str
    line: int
    column: int
    path: str
    text: str
    also: int = 0
    ours: str = field(default="", metadata={"json": None})

    @property
    def place(self) -> Location:
        """Its location, as messages have it."""
        return Location(self.source, self.line, self.column)

    @property
    def sentence(self) -> str:
        """The path with the text of the remark."""
        more = f" (and at {self.also} more places)" if self.also else ""
        return f"{self.path}: {self.text}{more}"

    def __str__(self) -> str:
        return f"{self.level}: {self.place}: {self.sentence}"


@dataclass(frozen=True)
class Given:
    """A job spec as it was given, for the run's record.

    Attributes:
        text: The content of the file.
        overrides: The `path=value` texts that changed it.
    """

    text: str
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Command:
    """A training command: a list is run as it is, a string by bash.

    Exactly one of the two is set.
    """

    argv: tuple[str, ...] | None = None
    script: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError unless exactly one form is set."""
        if (self.argv is None) == (self.script is None):
            raise ValueError("a command is either a list of arguments or a string for bash")

    def to_json(self) -> list[str] | str:
        """Return the command as in a job spec."""
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
    """A directory or file of the node that is mounted into the container."""

    source: str
    target: str
    read_only: bool = True

    def __str__(self) -> str:
        return f"{self.source}:{self.target}:{'ro' if self.read_only else 'rw'}"


@dataclass(frozen=True)
class HostFile:
    """A file of the submitting host, identified by its content; it is read again when it is sent.

    Attributes:
        path: Its path.
        size: Bytes.
        sha256: `file_contents.sha256_of` the file, in hexadecimal digits.
        stamp: Size, times and inode when it was hashed, to detect changes; see `stamp_of`.
    """

    path: Path = field(compare=False)
    size: int
    sha256: str
    stamp: tuple[int, ...] = field(default=(), compare=False, repr=False)

    @staticmethod
    def stamp_of(found: os.stat_result) -> tuple[int, ...]:
        """Return the parts of a status that change when a file is written to or replaced."""
        return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


@dataclass(frozen=True)
class ShippedFile:
    """A file of the submitting host that is copied to every task's working directory.

    Attributes:
        name: Path in the task's working directory, relative, with `/`.
        content: The bytes, or for a large file its description.
        executable: Whether the owner may execute it.
        unpack: For an archive the directory of the task that it is unpacked into, for a wheel
            `contract.SITE_DIRECTORY`; else "".
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
        return (
            self.content.sha256
            if isinstance(self.content, HostFile)
            else hashlib.sha256(self.content).hexdigest()
        )


@dataclass(frozen=True)
class RemoteFile:
    """A file of HDFS that YARN copies to each node, and every task finds in its working directory.

    Attributes:
        name: Path in the task's working directory, relative, with `/`.
        unpack: Whether YARN unpacks it into a directory of that name.
        at: Its path in the job spec.
    """

    name: str
    uri: str
    unpack: bool = False
    at: str = field(default="", compare=False)

    @cached_property
    def link(self) -> str:
        """The name that YARN gives it in the working directory."""
        return (
            contract.REMOTE_LINK
            + hashlib.sha256(f"{self.unpack} {self.uri}".encode()).hexdigest()[:16]
        )


class PackageKind(str, Enum):
    """The content of an archive of Python packages."""

    SITE = "site"  # unpacked wheels: site/ for PYTHONPATH, bin/ for PATH
    ENVIRONMENT = "environment"  # a whole environment of conda-pack or venv-pack


@dataclass(frozen=True)
class Packages:
    """Python packages for images that lack them: one archive, unpacked once on each node.

    Attributes:
        archive: The .tar.gz or .zip.
        version: The Python version that they need, as in 3.11; "" for any.
        wheels: The names of the wheels in it.
    """

    kind: PackageKind
    archive: HostFile
    version: str = ""
    wheels: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Python:
    """The interpreter that runs the bootstrap, and the packages that are sent with the job.

    Attributes:
        interpreter: "" of a role for the job's.
    """

    interpreter: str = "python3"
    packages: Packages | None = None


@dataclass(frozen=True)
class DockerOptions:
    """Options of Docker for a role's containers, beyond image, network and mounts.

    Attributes:
        accounts: Whether the node's /etc/passwd and /etc/group are mounted.
        tmpfs: Directories that are kept in memory.
        publish: Ports that the node forwards, `NODE:CONTAINER` or `:CONTAINER`; on bridge networks.
        runtime: OCI runtime, None for the node's own choice.
    """

    accounts: bool = False
    tmpfs: tuple[str, ...] = ()
    publish: tuple[str, ...] = ()
    runtime: str | None = None


@dataclass(frozen=True)
class Placement:
    """The placement constraints of a role's tasks.

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
class Elastic:
    """The limits of an elastic role.

    Attributes:
        min: The training starts and continues while at least this many tasks run.
        grow_after_s: Seconds that the job trains at least before it starts again to include tasks
            that have joined.
    """

    min: int
    grow_after_s: int = DEFAULT_GROW_AFTER_S


@dataclass(frozen=True)
class Role:
    """One task group: all tasks of one role.

    Attributes:
        instances: Number of tasks, at least 1; of an elastic role the most.
        image: The Docker image, or `NO_IMAGE`.
        memory_mib: Memory of one task in MiB.
        kind: What the job expects of its tasks.
        ports: Ports that each task serves, by name; `AUTO_PORT` for a free one.
        max_restarts: How often each failed task of the role may be started again.
        tolerate: How many tasks of the role may fail for good without failing the job.
        workdir: The directory in which the command starts, absolute or below the task's working
            directory; "" for that.
        python: Its own interpreter and packages; None for the job's.
        after: The roles that have succeeded, or run, before its commands start.
        elastic: The limits of its size; None for a role that needs all its tasks.
    """

    name: str
    instances: int
    command: Command
    image: str
    memory_mib: int
    kind: RoleKind = RoleKind.TRAINS
    cpus: int = 1
    gpus: int = 0
    gpu_resource: str | None = None
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    files: tuple[ShippedFile, ...] = ()
    remote_files: tuple[RemoteFile, ...] = ()
    mounts: tuple[Mount, ...] = ()
    placement: Placement | None = None
    restart: Restart = Restart.NEVER
    max_restarts: int = 0
    tolerate: int = 0
    ports: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    docker: DockerOptions = DockerOptions()
    workdir: str = ""
    python: Python | None = None
    after: tuple[str, ...] = ()
    elastic: Elastic | None = None

    @property
    def least(self) -> int:
        """How many of its tasks must come before the training starts."""
        return self.elastic.min if self.elastic else self.instances

    @property
    def in_container(self) -> bool:
        """Whether its tasks run in an image, not as plain processes of their nodes."""
        return self.image != NO_IMAGE


class OwnLogin(str, Enum):
    """When the tasks of a job log in with its keytab instead of using delegation tokens."""

    AUTO = "auto"  # if the job may run longer than its tokens are valid
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True)
class Krb5Conf:
    """How krb5.conf reaches the containers.

    Attributes:
        kind: "inline" (sent with the job), "node" (a file of the node, mounted read-only) or
            "image" (the image's own file).
        location: The file of the node.
        content: For inline: the file, merged with the files that it includes.
    """

    kind: str = "image"
    location: str = ""
    content: bytes = b""


@dataclass(frozen=True)
class Kerberos:
    """The identity of the job on a cluster with Kerberos.

    Attributes:
        principal: Service principal of the ApplicationMaster; `_HOST` in it stands for its host.
        keytab: `hdfs://…`, `file:///…` (on every node), or the path of `secret` on this host.
        secret: The bytes of a keytab of this host, which is staged for the job; never written to
            the service or a log.
        krb5_conf: How krb5.conf reaches the containers.
        login: When the tasks log in with the keytab.
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
        kind: "inline" (sent with the service), "archive" (an archive on HDFS) or "node" (a
            directory of the node, mounted read-only).
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
        description: One line, which YARN shows.
        priority: Within the queue, higher first; None for the cluster's default.
        inputs: The data that it reads.
        outputs: The data that it writes.
        checkpoints: Where the program writes its checkpoints; None for the output of that name.
        lifetime_s: Seconds from submission after which YARN kills the job; None for no limit.
        start_timeout_s: Seconds from the deciding task's start in which every task must register.
        finish_timeout_s: Seconds that other tasks get after the end of the deciding task.
        grace_s: Seconds for which a task may be unreachable before it counts as failed.
        stop_grace_s: Seconds between SIGTERM and SIGKILL for commands that the job ends.
        hold_s: Seconds for which the container of the first failure stays; None for none.
        prepare: Runs once in the deciding task before all commands; None for nothing.
        deciding_role: The role whose task 0 decides the job.
        ends_with: The tasks whose end is the job's end.
        variables: What the tasks get beside TF_CONFIG.
        retries: When all tasks start again in place; None for never.
        stall_timeout: When a training stands still; None for never.
        image_policy: What happens where a node ignores the image of a task.
        python: The Python interpreter that runs the bootstrap in the container.
        packages: Python packages that are sent with the job, for roles without their own.
        places: The location of each value in the user's input, by dotted path.
        remarks: Remarks about the conversion, for a file of another format.
        given: The job spec as it was given; None if the job was not read from one.
    """

    name: str
    strategy: Strategy
    roles: Mapping[str, Role]
    deciding_role: str
    ends_with: Ending = Ending.DECIDING_TASK
    description: str = ""
    queue: str | None = None
    priority: int | None = None
    network: str = "host"
    hadoop: HadoopConf | None = None
    kerberos: Kerberos | None = None
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    checkpoints: str | None = None
    lifetime_s: Duration | None = None
    start_timeout_s: Duration = 900
    finish_timeout_s: Duration = 600
    grace_s: Duration = 30
    stop_grace_s: Duration = DEFAULT_STOP_GRACE_S
    hold_s: Duration | None = None
    prepare: Command | None = None
    tf_config: TFConfigMode = TFConfigMode.COUNTS
    legacy_master: bool = False
    variables: tuple[Variables, ...] = ()
    keras: KerasMode = KerasMode.INSTALLED
    retries: Retries | None = None
    stall_timeout: Stall | None = None
    image_policy: ImagePolicy = ImagePolicy.REQUIRE
    python: str = "python3"
    packages: Packages | None = None
    docker_client_config: str | None = None
    places: Mapping[str, Location] = field(
        default_factory=lambda: MappingProxyType({}), compare=False, repr=False
    )
    remarks: tuple[Remark, ...] = field(default=(), compare=False, repr=False)
    given: Given | None = field(default=None, compare=False, repr=False)

    @property
    def counts(self) -> dict[str, int]:
        """Number of tasks per role."""
        return {role.name: role.instances for role in self.roles.values()}

    def python_of(self, role: Role) -> Python:
        """Return the interpreter and the packages of a role: its own, else the job's."""
        if role.python is None:
            return Python(self.python, self.packages)
        return Python(role.python.interpreter or self.python, role.python.packages)

    @property
    def deciding_task(self) -> str:
        """The component instance whose end is the job's end."""
        return f"{self.deciding_role}-0"

    def origin(self, path: str) -> tuple[str, Location]:
        """Return the path and location from which the value at `path` comes.

        Returns:
            For a key that a role inherits from the job or the settings, the location there; for a
            value without a location, that of its nearest parent.
        """
        inherited = _INHERITED.fullmatch(path)
        if path not in self.places and inherited and inherited.group(1) in self.places:
            path = inherited.group(1)
        at = path
        while at and at not in self.places:
            at = _parent_path(at)
        return path, self.places.get(at, Location(""))

    def problem(self, path: str, message: str) -> Problem:
        """Return a problem at the origin of the value at `path`; for a default, at its parent."""
        path, place = self.origin(path)
        at = path
        while at and place.source == "default":
            at = _parent_path(at)
            place = self.places.get(at, place)
        return Problem(place.line, place.column, place.path or path, message, place.source)


_INHERITED = re.compile(
    r"roles\.[^.]+\.((?:image|command|env|files|mounts|docker|workdir|python)(?:[.\[].*)?)"
)


def _parent_path(path: str) -> str:
    return re.sub(r"(?:\.[^.\[]*|\[\d+\]|^[^.\[]*)$", "", path)
