"""The causes of a job's wait or failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from submit_tf_job.deferred import dataclass

__all__ = ["Cause", "Consequence", "Diagnosis"]


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


@dataclass(frozen=True)
class Diagnosis:
    """Why a job waits or failed; empty if it does neither.

    Attributes:
        pending: Why it waits; the most important cause comes first.
        failure: Why it failed.
    """

    pending: tuple[Cause, ...] = ()
    failure: Cause | None = None
