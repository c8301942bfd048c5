"""Every error this package raises on purpose, and what each means at every door.

    SubmitTFJobError
    ├── UsageError             wrong arguments of a command or a call
    ├── JobSpecError           the job spec file, or the job in it, is not valid
    ├── SettingsError          a settings file, variable or profile is not valid
    ├── AuthError              not authenticated, or not allowed
    ├── NoSuchJob              no job of that name or id
    ├── NameTaken              another submission holds the name
    ├── ClusterUnavailable     no ResourceManager, or no Docker Engine of this machine, could be reached
    │   └── BadAnswer          something answered that is not a working ResourceManager
    ├── DeadlinePassed         our deadline passed; the job may still be running
    ├── Refused                the cluster refused the job (queue, limits, image, resources)
    ├── JobFailed              the job ended as failed
    ├── JobStopped             the job was stopped or killed
    ├── SandboxError           the sandbox on this machine could not do what was asked
    └── InternalError          a defect of ours

`TABLE` is the one place where an error becomes an exit status (DESIGN.md §7), an HTTP status of the gateway, and an answer to
"is it worth trying the same again?" (Airflow's retry or fail).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = [
    "EXIT_INTERRUPTED",
    "EXIT_OK",
    "EXIT_TERMINATED",
    "TABLE",
    "AuthError",
    "BadAnswer",
    "ClusterUnavailable",
    "DeadlinePassed",
    "ErrorClass",
    "InternalError",
    "JobFailed",
    "JobSpecError",
    "JobStopped",
    "NameTaken",
    "NoSuchJob",
    "Problem",
    "Refused",
    "SandboxError",
    "SettingsError",
    "SubmitTFJobError",
    "UsageError",
    "error_class",
]

EXIT_OK = 0
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


class SubmitTFJobError(Exception):
    """An error that a user can act on.

    Args:
        message: One sentence: where, what is wrong.
        hint: What to do about it, one sentence; may be empty.
        details: Facts for `-o json` (URL, status, Hadoop's own words); never a secret.
    """

    def __init__(self, message: str, *, hint: str = "", details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: dict[str, object] = dict(details or {})

    @property
    def exit_status(self) -> int:
        """The exit status of a command that ends with this error."""
        return error_class(self).exit_status

    def to_json(self) -> dict[str, object]:
        """Render the error as the object that `-o json` prints."""
        row = error_class(self)
        out: dict[str, object] = {"code": row.code, "message": self.message, "exit_status": row.exit_status, "retryable": row.retryable}
        if self.hint:
            out["hint"] = self.hint
        if self.details:
            out["details"] = self.details
        return out


class UsageError(SubmitTFJobError):
    """Wrong arguments of a command or a call."""


@dataclass(frozen=True, order=True)
class Problem:
    """One thing wrong in a file.

    Attributes:
        line: 1-based line, 0 where the problem has no place of its own.
        column: 1-based column, 0 likewise.
        path: Dotted path of the value (`roles.ps.instances`), "" for the whole file.
        message: What is wrong and what to do.
        source: File name as the user gave it, or `--set`, or an environment variable's name.
    """

    line: int
    column: int
    path: str
    message: str
    source: str = field(default="", compare=False)

    def __str__(self) -> str:
        place = self.source
        if self.line:
            place += f":{self.line}:{self.column}" if place else f"line {self.line}"
        body = f"{self.path}: {self.message}" if self.path else self.message
        return f"{place}: {body}" if place else body


class JobSpecError(SubmitTFJobError):
    """The job spec is not valid; `problems` holds every problem found, sorted by line."""

    def __init__(self, problems: Iterable[Problem], *, hint: str = "") -> None:
        self.problems: tuple[Problem, ...] = tuple(sorted(problems))
        super().__init__(
            "\n".join(str(problem) for problem in self.problems),
            hint=hint,
            details={
                "problems": [
                    {"source": p.source, "line": p.line, "column": p.column, "path": p.path, "message": p.message} for p in self.problems
                ]
            },
        )


class SettingsError(SubmitTFJobError):
    """A settings file, variable or profile is not valid."""


class AuthError(SubmitTFJobError):
    """Not authenticated, or not allowed."""


class NoSuchJob(SubmitTFJobError):
    """No job of that name or id."""


class NameTaken(SubmitTFJobError):
    """Another submission holds the name."""


class ClusterUnavailable(SubmitTFJobError):
    """No ResourceManager, or no Docker Engine of this machine, could be reached."""


class BadAnswer(ClusterUnavailable):
    """Something answered, but not as a working ResourceManager does."""


class DeadlinePassed(SubmitTFJobError):
    """Our deadline passed; the job may still be running."""


class Refused(SubmitTFJobError):
    """The cluster refused the job, or would have: queue, limits, image, resources."""


class JobFailed(SubmitTFJobError):
    """The job ended as failed."""


class JobStopped(SubmitTFJobError):
    """The job was stopped or killed."""


class SandboxError(SubmitTFJobError):
    """The sandbox on this machine could not do what was asked."""


class InternalError(SubmitTFJobError):
    """A defect of ours."""


@dataclass(frozen=True)
class ErrorClass:
    """What one class of error means at every door."""

    code: str
    exit_status: int
    http_status: int
    retryable: bool


TABLE: dict[type[SubmitTFJobError], ErrorClass] = {
    UsageError: ErrorClass("usage", 2, 400, False),
    JobSpecError: ErrorClass("job-spec", 2, 422, False),
    SettingsError: ErrorClass("settings", 2, 500, False),
    AuthError: ErrorClass("not-allowed", 4, 403, False),
    NoSuchJob: ErrorClass("no-such-job", 5, 404, False),
    NameTaken: ErrorClass("name-taken", 6, 409, False),
    ClusterUnavailable: ErrorClass("cluster-unavailable", 7, 503, True),
    BadAnswer: ErrorClass("bad-answer", 7, 502, True),
    DeadlinePassed: ErrorClass("deadline-passed", 8, 504, True),
    Refused: ErrorClass("refused", 9, 422, False),
    JobFailed: ErrorClass("job-failed", 1, 200, True),
    JobStopped: ErrorClass("job-stopped", 3, 200, False),
    SandboxError: ErrorClass("sandbox", 1, 500, True),
    InternalError: ErrorClass("internal", 70, 500, False),
}


def error_class(error: SubmitTFJobError | type[SubmitTFJobError]) -> ErrorClass:
    """Return the row of `TABLE` that applies to an error or to its nearest ancestor."""
    kind = error if isinstance(error, type) else type(error)
    for ancestor in kind.__mro__:
        if ancestor in TABLE:
            return TABLE[ancestor]
    return TABLE[InternalError]
