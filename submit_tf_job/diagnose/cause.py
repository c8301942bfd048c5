"""The causes of a job's wait or failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# The causes that the next try would meet again: the job, its image, a right or the cluster's
# configuration has to be changed first. The column "a retry helps" of docs/troubleshooting.md.
PERMANENT = frozenset(
    {
        "arguments-too-long",
        "command-not-found",
        "cpu-too-old",
        "cuda-mismatch",
        "gpu-missing",
        "hdfs-credentials",
        "hdfs-permission",
        "hdfs-unsupported",
        "host-name-too-long",
        "image-ignored",
        "image-name-invalid",
        "image-not-trusted",
        "image-without-bash",
        "image-without-tools",
        "keras-3",
        "kerberos-realm",
        "kerberos-somebody-else",
        "library-missing",
        "logs-too-large",
        "module-missing",
        "mount-invalid",
        "mount-refused",
        "network-refused",
        "not-executable",
        "permission-denied",
        "privileged-refused",
        "program-missing",
        "python-missing",
        "read-only",
        "request-refused",
        "runtime-refused",
        "tensorflow-missing",
        "tf-config-invalid",
        "user-missing",
        "workdir-missing",
        "wrong-architecture",
    }
)


@dataclass(frozen=True)
class Consequence:
    """A task that ended because another one had failed."""

    task: str
    status: int | None
    message: str


@dataclass(frozen=True)
class Cause:
    """One cause of a job's wait or failure.

    Attributes:
        code: An identifier for programs, such as `queue-full`; documented in
            docs/troubleshooting.md, and its meaning never changes.
        sentence: What happened, with the cluster's own numbers.
        hint: The next step, or "".
        facts: The numbers and names in the sentence.
        task: The task that failed first, such as `worker-1`; None if no task failed.
        host: The node it ran on.
        container_id: Its container.
        status: Its exit status; None if it has none.
        meaning: What that status means, or "".
        exception: The last line of the Python traceback, or "".
        last_lines: The end of its stderr.
        diagnostics: YARN's diagnostics of it, or "".
        consequences: The tasks that ended because of it, in order of time.
    """

    code: str
    sentence: str
    hint: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)
    task: str | None = None
    host: str | None = None
    container_id: str | None = None
    status: int | None = None
    meaning: str = ""
    exception: str = ""
    last_lines: tuple[str, ...] = ()
    diagnostics: str = ""
    consequences: tuple[Consequence, ...] = ()

    @property
    def retryable(self) -> bool:
        """Whether the same job may succeed if it is submitted again, with nothing changed."""
        return self.code not in PERMANENT


@dataclass(frozen=True)
class Diagnosis:
    """Why a job waits or failed; empty if it does neither.

    Attributes:
        pending: Why it waits; the most important cause comes first.
        failure: Why it failed.
    """

    pending: tuple[Cause, ...] = ()
    failure: Cause | None = None
