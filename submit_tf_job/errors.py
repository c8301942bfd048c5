"""Every error that this package raises, and its exit status, HTTP status and retry rule.

    SubmitTFJobError
    ├── UsageError             wrong arguments of a command or a call
    ├── JobSpecError           the job spec file, or the job in it, is not valid
    ├── SettingsError          a settings file, variable or profile is not valid
    ├── AuthError              not authenticated, or not allowed
    ├── NoSuchJob              no job of that name or id
    ├── NameTaken              another run of the job is alive
    │   └── KeyReused          the submission's id was used for other settings or files
    ├── ClusterUnavailable     no ResourceManager, NodeManager or storage could be reached
    │   ├── BadAnswer          the response is not one of a working ResourceManager
    │   └── UnknownHost        no address is known for the host, so that waiting does not help
    ├── DeadlinePassed         our deadline passed; the job may still be running
    ├── Refused                the cluster rejected the job (queue, limits, image, resources)
    ├── JobFailed              the job ended as failed
    ├── JobStopped             the job was stopped or killed
    ├── OutputError            the result could not be written to stdout
    ├── SandboxError           the sandbox on this machine could not perform the operation
    └── InternalError          a defect of this program

`TABLE` maps each class to the exit status of a command, the HTTP status of the gateway, and whether the same call may succeed later
(Airflow retries or fails by it).
"""  # noqa: E501

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

# in characters; servers' responses, values of files and arguments may be of any length
_MESSAGE_MAX = 4000
_DETAIL_MAX = 2000
_PROBLEM_MAX = 1000

EXIT_OK = 0
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


def shorten(text: str, limit: int) -> str:
    """Shorten a text to `limit` characters: its middle is replaced by the number left out.

    Example:
        >>> shorten("a" * 5000, 50)
        'aaaaaaaaa … 4988 characters left out … aaa'
    """
    if len(text) <= limit:
        return text
    kept = max(limit - 38, 4)
    head, tail = kept - kept // 4, kept // 4
    return f"{text[:head]} … {len(text) - kept} characters left out … {text[-tail:]}"


def _short_value(value: object) -> object:
    if isinstance(value, str):
        return shorten(value, _DETAIL_MAX)
    if isinstance(value, Mapping):
        return {
            shorten(str(name), _DETAIL_MAX): _short_value(inner) for name, inner in value.items()
        }
    return [_short_value(inner) for inner in value] if isinstance(value, (list, tuple)) else value


class SubmitTFJobError(Exception):
    """An expected error, with a message and a next step for the user.

    Args:
        message: One sentence with the location and the problem. Shortened to 4,000 characters.
        hint: The next step, one sentence; may be empty.
        details: Values for `-o json` (URL, status, Hadoop's own message); never a secret.
        retryable: Whether the same call may succeed later; None for the value that `TABLE` has for
            the class.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        details: Mapping[str, object] | None = None,
        retryable: bool | None = None,
    ) -> None:
        self.message = shorten(message, _MESSAGE_MAX)
        super().__init__(self.message)
        self.hint = shorten(hint, _DETAIL_MAX)
        if self.hint and sys.version_info >= (3, 11):
            self.add_note(f"hint: {self.hint}")  # what a program's traceback shows
        self.details: dict[str, object] = {
            name: _short_value(value) for name, value in (details or {}).items()
        }
        self.retryable = error_class(self).retryable if retryable is None else retryable

    @property
    def exit_status(self) -> int:
        """The exit status of a command that fails with this error."""
        return error_class(self).exit_status

    def to_json(self) -> dict[str, object]:
        """Return the error as the object that `-o json` prints."""
        row = error_class(self)
        out: dict[str, object] = {
            "code": row.code,
            "message": self.message,
            "exit_status": row.exit_status,
            "retryable": self.retryable,
        }
        if self.hint:
            out["hint"] = self.hint
        if self.details:
            out["details"] = self.details
        return out


class UsageError(SubmitTFJobError):
    """Wrong arguments of a command or a call."""


@dataclass(frozen=True, order=True)
class Problem:
    """One problem in a file.

    Attributes:
        line: 1-based line, 0 if the problem has no line.
        column: 1-based column, 0 if the problem has no column.
        path: Dotted path of the value (`roles.ps.instances`), "" for the whole file.
        message: The problem and the next step.
        source: The file name that the user gave, or `--set`, or the name of an environment
            variable.
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
        return shorten(f"{place}: {body}" if place else body, _PROBLEM_MAX)


class JobSpecError(SubmitTFJobError):
    """The job spec is not valid; `problems` holds every problem found, sorted by line.

    If a file of another system only lacks values, `remarks` tells which parts of it have no
    equivalent.
    """

    def __init__(
        self, problems: Iterable[Problem], *, hint: str = "", remarks: Iterable[str] = ()
    ) -> None:
        self.problems: tuple[Problem, ...] = tuple(sorted(problems))
        self.remarks = tuple(remarks)
        super().__init__(
            _lines_that_fit([str(problem) for problem in self.problems]),
            hint=hint,
            details={
                "problems": [
                    {
                        "source": p.source,
                        "line": p.line,
                        "column": p.column,
                        "path": p.path,
                        "message": p.message,
                    }
                    for p in self.problems
                ]
            },
        )


def _lines_that_fit(lines: list[str]) -> str:
    """Return the lines that fit into a message, and the number of the lines that do not."""
    shown, room = 0, _MESSAGE_MAX - 40
    for line in lines:
        room -= len(line) + 1
        shown += room > 0
    left = len(lines) - shown
    return "\n".join([*lines[:shown], *([f"and {left} more problems"] if left else [])])


class SettingsError(SubmitTFJobError):
    """A settings file, variable or profile is not valid."""


class AuthError(SubmitTFJobError):
    """Not authenticated, or not allowed."""


class NoSuchJob(SubmitTFJobError):
    """There is no job with that name or id, or YARN has forgotten it or what was asked for, such as
    its logs.
    """


class NameTaken(SubmitTFJobError):
    """Another run of the job is alive, or may be being submitted."""


class KeyReused(NameTaken):
    """The submission's id (idempotency key) was used before, for other settings or files: its run
    does not belong to this job.
    """


class ClusterUnavailable(SubmitTFJobError):
    """No ResourceManager could be reached; or a NodeManager, HDFS or another storage could not."""


class BadAnswer(ClusterUnavailable):
    """The response is not one of a working ResourceManager, NodeManager or storage."""


class UnknownHost(ClusterUnavailable):
    """No address is known for the host, or its name is not valid: waiting does not help."""


class DeadlinePassed(SubmitTFJobError):
    """A time limit of this program or its caller passed; the job may still be running."""


class Refused(SubmitTFJobError):
    """The cluster rejected the job, or would reject it: queue, limits, image, resources. Or YARN, a
    storage (no space) or Docker rejected another operation.
    """


class JobFailed(SubmitTFJobError):
    """The job ended as failed."""


class JobStopped(SubmitTFJobError):
    """The job was stopped or killed."""


class OutputError(SubmitTFJobError):
    """The result could not be written to stdout."""


class SandboxError(SubmitTFJobError):
    """The sandbox on this machine could not perform the operation."""


class InternalError(SubmitTFJobError):
    """A defect of this program."""


class ErrorClass(NamedTuple):
    """How each interface (command line, gateway, Airflow) reports one class of errors."""

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
    KeyReused: ErrorClass("key-reused", 6, 422, False),
    ClusterUnavailable: ErrorClass("cluster-unavailable", 7, 503, True),
    BadAnswer: ErrorClass("bad-answer", 7, 502, True),
    UnknownHost: ErrorClass("unknown-host", 7, 503, True),
    DeadlinePassed: ErrorClass("deadline-passed", 8, 504, True),
    Refused: ErrorClass("refused", 9, 422, False),
    JobFailed: ErrorClass("job-failed", 1, 200, True),
    JobStopped: ErrorClass("job-stopped", 3, 200, False),
    SandboxError: ErrorClass("sandbox", 1, 500, True),
    OutputError: ErrorClass("output", 74, 500, False),
    InternalError: ErrorClass("internal", 70, 500, False),
}


def error_class(error: SubmitTFJobError | type[SubmitTFJobError]) -> ErrorClass:
    """Return the row of `TABLE` that applies to an error or to its nearest ancestor."""
    kind = error if isinstance(error, type) else type(error)
    for ancestor in kind.__mro__:
        if ancestor in TABLE:
            return TABLE[ancestor]
    return TABLE[InternalError]
