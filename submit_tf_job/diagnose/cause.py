"""What a diagnosis is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Cause", "Consequence", "Diagnosis", "RootCause"]


@dataclass(frozen=True)
class Cause:
    """One reason why a job waits.

    Attributes:
        code: A word for programs, such as `queue-full`; documented in docs/troubleshooting.md, never changes its meaning.
        sentence: What is the matter, with the cluster's own numbers.
        hint: The next step, or "".
        facts: The numbers that the sentence is made of.
    """

    code: str
    sentence: str
    hint: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Consequence:
    """A task that ended because another one had failed."""

    task: str
    status: int | None
    message: str


@dataclass(frozen=True)
class RootCause:
    """Why a job failed: one thing that came first.

    Attributes:
        code: A word for programs, such as `out-of-memory`; documented in docs/troubleshooting.md, never changes its meaning.
        sentence: What happened, for a person.
        hint: The next step, or "".
        task: The task that failed first, such as `worker-1`; None where no task is to blame.
        host: The node it ran on.
        container_id: Its container.
        status: Its exit status; None where there is none.
        meaning: What that status means, or "".
        exception: The last line of the Python traceback, or "".
        last_lines: The end of its stderr.
        diagnostics: YARN's own words about it, or "".
        consequences: What ended because of it, in order of time.
        facts: The numbers that the sentence is made of.
    """

    code: str
    sentence: str
    hint: str = ""
    task: str | None = None
    host: str | None = None
    container_id: str | None = None
    status: int | None = None
    meaning: str = ""
    exception: str = ""
    last_lines: tuple[str, ...] = ()
    diagnostics: str = ""
    consequences: tuple[Consequence, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Diagnosis:
    """Why a job stands where it stands; empty for one that is well.

    Attributes:
        pending: Why it waits; what matters most comes first.
        failure: Why it failed.
    """

    pending: tuple[Cause, ...] = ()
    failure: RootCause | None = None
