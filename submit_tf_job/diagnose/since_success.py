"""Compare a run that failed with an earlier run of the same job that succeeded."""

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
    """One difference between a failed run and an earlier run that succeeded.

    Attributes:
        kind: `key`, `argument`, `variable`, `file`, `package`, `image`, `node`, or `version` of
            this program.
        name: The key, argument, variable, file or package, with the role if the roles have
            different values; for the kind `node`, the task.
        before: The former value; None if there was none. For a file, the first digits of its hash.
        now: The present value; None if there is none.
    """

    kind: str
    name: str
    before: str | None
    now: str | None


@dataclass(frozen=True)
class SinceSuccess:
    """What has changed in a failed run since the last run of the same job that succeeded.

    Attributes:
        run: The run that succeeded.
        submitted_ms: When the successful run was submitted, in milliseconds since 1970.
        changes: What differs; files, packages and images come first.
        lines: If the cause of the failure is not known, the last lines of the failed task that no
            successful run had printed; None if the lines were not compared.
    """

    run: str
    submitted_ms: int
    changes: tuple[NewValue, ...]
    lines: tuple[str, ...] | None = None


def is_unknown(cause: Cause | None) -> bool:
    """Return whether a cause does not tell why the program failed."""
    return cause is None or not cause.certain or cause.code in _UNKNOWN


# --- lines ----------------------------------------------------------------------------------------


def template(line: str) -> str:
    """Return a line in which numbers and other varying parts are replaced, so that it can be
    compared with lines of other runs.
    """
    return " ".join(_VARIES.sub("0", line).split())


def new_lines(end: str, before: Iterable[str]) -> tuple[str, ...]:
    """Return the last lines of an output that no earlier output contains; lines that differ only in
    numbers count as equal.

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
