"""Compare a run that failed with an earlier one of the same job that succeeded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from submit_tf_job.container.output_lines import is_bar, telling_lines
from submit_tf_job.diagnose.cause import Cause
from submit_tf_job.diagnose.output import without_workdir

_UNKNOWN = frozenset(
    {"exited", "crashed", "aborted", "killed", "stalled", "task-lost", "stopped-from-outside"}
)
_LAST, _KEPT, _LONGEST = 200, 20, 300
# of two runs, what differs in lines that say the same: paths, times, hashes, numbers
_VARIES = re.compile(
    r"(?:\b\w+:/)?(?:/[\w.@+~=-]+)+/?|\b(?:0x)?[0-9a-f]{8,}\b|\d+(?:\.\d+)?(?:e[+-]?\d+)?"
    r"|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b"
)


@dataclass(frozen=True)
class NewValue:
    """One difference between a failed run and the run that succeeded before.

    Attributes:
        kind: `key`, `argument`, `variable`, `file`, `package`, `image`, `node`, or `version` of
            this program.
        name: The key, argument, variable, file or package, with the role if roles differ in it; of
            `node` the task.
        before: What it was; None if there was none. Of a file the first digits of its hash.
        now: What it is; None if there is none.
    """

    kind: str
    name: str
    before: str | None
    now: str | None


@dataclass(frozen=True)
class SinceSuccess:
    """What is new in a failed run since the last one of the same job that succeeded.

    Attributes:
        run: That run.
        submitted_ms: When it was submitted.
        changes: What differs; files, packages and images come first.
        lines: The lines of the failed task's end that no successful run had printed, if its cause
            is not known; None if they were not compared.
    """

    run: str
    submitted_ms: int
    changes: tuple[NewValue, ...]
    lines: tuple[str, ...] | None = None


def is_unknown(cause: Cause | None) -> bool:
    """Return whether a cause leaves open why the program failed."""
    return cause is None or not cause.certain or cause.code in _UNKNOWN


# --- lines ----------------------------------------------------------------------------------------


def template(line: str) -> str:
    """Return a line with its numbers and other varying parts replaced, to compare it with lines of
    other runs.
    """
    return " ".join(_VARIES.sub("0", line).split())


def new_lines(end: str, before: Iterable[str]) -> tuple[str, ...]:
    """Return the last lines of an output that no earlier output has, not even with other numbers.

    Args:
        end: The end of a failed task's output.
        before: The outputs of the runs that succeeded.
    """
    known = {template(line) for text in before for line in telling_lines(text)}
    found: dict[str, str] = {}
    for line in telling_lines(end)[-_LAST:]:
        if is_bar(line):
            continue
        found.setdefault(template(line), without_workdir(line.rstrip())[:_LONGEST])
    return tuple(line for form, line in found.items() if form not in known)[-_KEPT:]
