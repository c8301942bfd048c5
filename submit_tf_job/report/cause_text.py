"""Format the causes of a waiting or failed job as lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from submit_tf_job.diagnose.amounts import clause

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause, Consequence

__all__ = ["cause_lines", "root_cause_lines"]

_LABELS = ("waits because", "also", "also", "also")
# Lines that a NodeManager writes for every container that fails.
_SAYS_NOTHING = (
    r"Exception from container-launch|Exit code: |Container exited with a non-zero|Container killed on request|Killed by external signal"  # noqa: E501
    r"|Exception message: *$|Shell (?:error )?output: *(?:<unknown>)?$|ExitCodeException exitCode=\d+: *$"  # noqa: E501
)
_NAMED = 5
_QUOTED = 6


def cause_lines(causes: Sequence[Cause]) -> Iterator[str]:
    """Return the lines of a waiting job's causes, the most important first."""
    for label, cause in zip(_LABELS, causes, strict=False):
        yield f"  {label}: {cause.sentence}"
        if cause.hint:
            yield f"    next: {cause.hint}"
    if len(causes) > len(_LABELS):
        yield f"  and {len(causes) - len(_LABELS)} more; -o json shows all"


def root_cause_lines(cause: Cause) -> Iterator[str]:
    """Return the lines of a failed job's cause: what happened, where, the next step, the logs."""
    yield f"  first cause  {cause.sentence}"
    if cause.hint:
        yield f"  hint: {cause.hint}"
    if cause.task and (cause.host or cause.status is not None):
        yield f"  {'failed task':<12} {cause.task}{clause(' on {}', cause.host)}{_status(cause)}"
    if cause.exception:
        place = clause("  ({})", cause.facts.get("place"))
        yield f"  {'exception':<12} {cause.exception}{place}"
    if cause.last_lines:
        yield f"  last lines of {cause.task}'s stderr:"
        yield from (f"    {line}" for line in cause.last_lines)
    elif said := [
        line for line in cause.diagnostics.splitlines() if not re.match(_SAYS_NOTHING, line)
    ]:
        yield "  YARN reports:"
        yield from (f"    {line}" for line in said[:_QUOTED])
    yield from _consequence_lines(cause.consequences)


def _status(cause: Cause) -> str:
    if cause.status is None:
        return ""
    if not cause.meaning or cause.meaning in cause.sentence:
        return f", exit status {cause.status}"
    return f", exit status {cause.status} ({cause.meaning})"


def _consequence_lines(ends: tuple[Consequence, ...]) -> Iterator[str]:
    if ends:
        yield "  Also ended:"
    for end in ends[:_NAMED]:
        why = [end.message] if end.message else []
        if end.status is not None:
            why.append(f"exit status {end.status}")
        yield f"    {end.task}{clause(' ({})', ', '.join(why))}"
    if len(ends) > _NAMED:
        yield f"    and {len(ends) - _NAMED} more"
