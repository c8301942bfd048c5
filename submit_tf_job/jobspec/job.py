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
    """The tasks whose directory is uploaded as the output: the deciding task, every task that
    trains, or those of the latter that have written something.
    """

    DECIDING_TASK = "deciding-task"
    EVERY_TASK = "every-task"
    ALL_THAT_WRITE = "all-that-write"


class OnFailure(str, Enum):
    """What happens to a task's output if its command failed or was stopped."""

    DISCARD = "discard"
    KEEP = "keep"  # stored beside the output as <uri>.failed-<run>
    UPLOAD = "upload"


class OnRetry(str, Enum):
    """What is in the directory of an output when all tasks start again (`retries`)."""

    EMPTY = "empty"
    KEEP = "keep"  # what the task has written in the previous attempt


@dataclass(frozen=True)
class Input:
    """An input of a job.

    Attributes:
        uri: A file, a directory, or a pattern with `*`, `?`, `[a-c]`.
        sharded: Whether each task that reads gets its own share of the files.
        download: Whether the bootstrap copies the input to the task's disk.
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
        upload: Whether the program writes to the task's disk, and the bootstrap copies the result
            to `uri` after the command has ended.
        by: The tasks whose directory is uploaded.
        on_failure: What happens to the output if the command failed.
        on_retry: What is in the output's directory when all tasks start again.
        overwrite: Whether existing data at `uri` may be replaced.
        collect: Patterns of files below the directory in which the command starts; matching files
            are moved to the output's directory after the command has ended.
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
    """What a job expects of a role's tasks: that they succeed (TRAINS, EVALUATES), that they run
    until the training is over (SERVES), or nothing (SIDECAR).
    """

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
    """Whether tasks get TF_CONFIG: COUNTS builds it from the number of tasks of each role."""

    COUNTS = "counts"
    NONE = "none"


class Variables(str, Enum):
    """Another system whose variables a task gets in addition to TF_CONFIG."""

    CLOUD = "cloud"
    HBOX = "hbox"
    HOROVOD = "horovod"
    SUBMARINE = "submarine"
    TONY = "tony"


class KerasMode(str, Enum):
    """Which version of Keras `tf.keras` refers to in the tasks."""

    INSTALLED = "installed"  # that of the image's TensorFlow: Keras 3 from 2.16 on
    LEGACY = "legacy"  # Keras 2, of the package tf_keras


class ImagePolicy(str, Enum):
    """What happens if a NodeManager runs a task as a plain process instead of in its image."""

    REQUIRE = "require"
    WARN = "warn"
    ALLOW = "allow"


class OnStall(str, Enum):
    """What happens if the training stalls (`Stall`): the job gets a warning, or it fails."""

    WARN = "warn"
    FAIL = "fail"


class Restart(str, Enum):
    """What happens to a task whose command failed."""

    NEVER = "never"
    ON_FAILURE = "on-failure"


@dataclass(frozen=True)
class Retries:
    """When all tasks of a job start again in their containers.

    Attributes:
        max: How often they start again at most.
        on: The failures after which they start again: "lost", "out-of-memory", "any", and exit
            statuses of commands.
        node_losses: After this number of lost containers of a role on one node, YARN starts no more
            containers of the role on that node; 0 for no limit.
        memory: If a role ran out of memory, a `submit` that follows the job submits it again with
            the role's memory multiplied by this factor, at most `max` times; None for never.
    """

    max: int = DEFAULT_RETRIES
    on: tuple[str | int, ...] = ("lost",)
    node_losses: int = DEFAULT_NODE_LOSSES
    memory: float | None = None


@dataclass(frozen=True)
class Stall:
    """When a training counts as stalled, and what happens then.

    Attributes:
        after_s: Seconds in which no task that trains prints output or reports a step. Only after
            that, CPU use is measured for 5 s: the training does not count as stalled if a task that
            trains uses more than 5 % of a core.
        then: Whether a stalled training is a warning or fails the job.
    """

    after_s: Duration
    then: OnStall = OnStall.WARN


@dataclass(frozen=True)
class Remark:
    """A remark about the files that are sent, or the conversion of a file of another format.

    Attributes:
        level: "warning" for a dropped value or a risk, "note" for a decision.
        source, line, column: The location that the remark is about: file, line and column.
        path: The path of the value in the file `source`.
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
        """The location of the remark, in the form for messages."""
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
        """Check that exactly one of the two is set.

        Raises:
            ValueError: None or both are set.
        """
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
        path: The file's path.
        size: The file's size in bytes.
        sha256: The hash of the content (`file_contents.sha256_of`), in hexadecimal digits.
        stamp: Size, times and inode of the file when it was hashed, to detect changes; see
            `stamp_of`.
    """

    path: Path = field(compare=False)
    size: int
    sha256: str
    stamp: tuple[int, ...] = field(default=(), compare=False, repr=False)

    @staticmethod
    def stamp_of(found: os.stat_result) -> tuple[int, ...]:
        """Return those parts of a file's status that change when the file is written or
        replaced.
        """
        return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


@dataclass(frozen=True)
class ShippedFile:
    """A file of the submitting host that is copied to every task's working directory.

    Attributes:
        name: Path in the task's working directory, relative, with `/`.
        content: The bytes of the file; for a large file a `HostFile`, which is read again when it
            is sent.
        executable: Whether the owner may execute it.
        unpack: For an archive, the directory of the task into which it is unpacked; for a wheel,
            `contract.SITE_DIRECTORY`; else "".
    """

    name: str
    content: bytes | HostFile = field(repr=False)
    executable: bool = False
    unpack: str = ""

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
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
    """A file on HDFS that YARN copies to each node, so that every task finds it in its working
    directory.

    Attributes:
        name: Path in the task's working directory, relative, with `/`.
        unpack: Whether YARN unpacks the file into a directory with that name.
        at: The path of the entry in the job spec.
    """

    name: str
    uri: str
    unpack: bool = False
    at: str = field(default="", compare=False)

    @cached_property
    def link(self) -> str:
        """The name of the link that YARN makes for the file in the working directory."""
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
    """Python packages for images that lack them: one archive, which is unpacked once on each node.

    Attributes:
        archive: The archive, in a format that a NodeManager unpacks (.tar.gz, .tgz, .tar, .zip).
        version: The Python version that the packages need, such as 3.11; "" for any.
        wheels: The names of the wheels in it.
    """

    kind: PackageKind
    archive: HostFile
    version: str = ""
    wheels: tuple[str, ...] = field(default=(), compare=False)

    @property
    def versions(self) -> dict[str, str]:
        """The version of each wheel, by the name of its package."""
        return dict(wheel.split("-")[:2] for wheel in self.wheels)


@dataclass(frozen=True)
class Python:
    """The interpreter that runs the bootstrap, and the packages that are sent with the job.

    Attributes:
        interpreter: The interpreter; in a role, "" for the interpreter of the job.
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
        spread: "node" or "rack": two tasks of the role never run on the same one.
        together: "node" or "rack": all tasks of the role run on the same one.
        partition: The node label (partition) on whose nodes the tasks run.
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
        grow_after_s: The job trains for at least this many seconds before it starts again in order
            to include tasks that have joined.
    """

    min: int
    grow_after_s: int = DEFAULT_GROW_AFTER_S


@dataclass(frozen=True)
class Role:
    """One task group: all tasks of one role.

    Attributes:
        instances: Number of tasks, at least 1; for an elastic role, the largest number.
        image: The Docker image, or `NO_IMAGE`.
        memory_mib: Memory of one task in MiB.
        kind: What the job expects of the role's tasks.
        ports: Ports that each task serves, by name; `AUTO_PORT` for a free one.
        max_restarts: How often each failed task of the role may be started again.
        tolerate: How many tasks of the role may fail finally before the job fails.
        workdir: The directory in which the command starts: absolute, or below the task's working
            directory; "" for the working directory.
        python: The role's own interpreter and packages; None for those of the job.
        after: The roles that must have succeeded, or run, before the commands of this role start.
        elastic: The limits of the role's size; None for a role that needs all its tasks.
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
        """How many tasks of the role must connect before the training starts."""
        return self.elastic.min if self.elastic else self.instances

    @property
    def in_container(self) -> bool:
        """Whether the role's tasks run in an image, and not as plain processes of their nodes."""
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
        content: For inline: the content of the file, merged with the files that it includes.
    """

    kind: str = "image"
    location: str = ""
    content: bytes = b""


@dataclass(frozen=True)
class Kerberos:
    """The identity of the job on a cluster with Kerberos.

    Attributes:
        principal: Service principal of the ApplicationMaster; `_HOST` in it stands for the
            ApplicationMaster's host.
        keytab: `hdfs://…`, `file:///…` (on every node), or the path of `secret` on this host.
        secret: The bytes of a keytab of this host. The keytab is staged for the job; its bytes are
            never written to the service or a log.
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
        roles: The roles by name, in the order of the job spec.
        description: One line, which YARN shows.
        priority: Within the queue, higher first; None for the cluster's default.
        inputs: The data that the job reads.
        outputs: The data that the job writes.
        checkpoints: Where the program writes its checkpoints; None for the output with the name
            `checkpoints`.
        lifetime_s: Seconds from submission after which YARN kills the job; None for no limit.
        start_timeout_s: Seconds after the deciding task's start within which every task must
            connect to it.
        finish_timeout_s: Seconds that the other tasks have to end after the end of the deciding
            task.
        grace_s: Seconds for which a task may be unreachable before it counts as failed.
        stop_grace_s: Seconds between SIGTERM and SIGKILL for commands that the job ends.
        hold_s: Seconds for which the container of the first failure is kept; None to keep none.
        prepare: Runs once in the deciding task before all commands; None for nothing.
        deciding_role: The role whose task 0 decides the job.
        ends_with: The tasks whose end is the job's end.
        variables: The systems whose variables the tasks get in addition to TF_CONFIG.
        legacy_master: Whether TF_CONFIG has `master` as the name of the chief.
        retries: When all tasks start again in their containers; None for never.
        stall_timeout: When a training counts as stalled; None for never.
        image_policy: What happens if a node ignores the image of a task.
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
    def stated_roles(self) -> tuple[Role, ...]:
        """The roles that the job spec states: all but the witness, a sidecar that is added to tell
        YARN how the job ended (docs/internals/endings.md).
        """
        return tuple(role for role in self.roles.values() if role.name != contract.WITNESS_ROLE)

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
        """The name of the deciding task, and of its component instance: task 0 of the deciding
        role.
        """
        return f"{self.deciding_role}-0"

    def origin(self, path: str) -> tuple[str, Location]:
        """Return the path and location from which the value at `path` comes.

        Returns:
            For a key that a role inherits from the job or the settings, the location in the job or
            the settings; for a value without a location, the location of its nearest parent.
        """
        inherited = _INHERITED.fullmatch(path)
        if path not in self.places and inherited and inherited.group(1) in self.places:
            path = inherited.group(1)
        at = path
        while at and at not in self.places:
            at = _parent_path(at)
        return path, self.places.get(at, Location(""))

    def problem(self, path: str, message: str) -> Problem:
        """Return a problem at the origin of the value at `path`; if the value is a default, at the
        origin of its parent.
        """
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
