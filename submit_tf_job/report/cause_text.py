"""Why a job failed: lines, and the object of the field `root_cause`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from submit_tf_job.diagnose.model import Consequence, RootCause

__all__ = ["root_cause_lines", "root_cause_object"]

# What a NodeManager says of every container that fails.
_SAYS_NOTHING = re.compile(
    r"Exception from container-launch|Exit code: |Container exited with a non-zero|Container killed on request|Killed by external signal"
    r"|Exception message: *$|Shell (?:error )?output: *(?:<unknown>)?$|ExitCodeException exitCode=\d+: *$"
)
_NAMED = 5
_QUOTED = 6


def root_cause_object(cause: RootCause | None) -> dict[str, Any] | None:
    """Build the object of a root cause; documented in docs/json.md."""
    if cause is None:
        return None
    return {
        "code": cause.code,
        "sentence": cause.sentence,
        "hint": cause.hint,
        "task": cause.task,
        "host": cause.host,
        "container_id": cause.container_id,
        "status": cause.status,
        "meaning": cause.meaning,
        "exception": cause.exception,
        "last_lines": list(cause.last_lines),
        "diagnostics": cause.diagnostics,
        "consequences": [{"task": end.task, "status": end.status, "message": end.message} for end in cause.consequences],
        "facts": dict(cause.facts),
    }


def root_cause_lines(cause: RootCause) -> Iterator[str]:
    """Tell the root cause: what, where, what to do, then what was written about it."""
    yield f"  first cause  {cause.sentence}"
    if cause.hint:
        yield f"  hint: {cause.hint}"
    if cause.task and (cause.host or cause.status is not None):
        yield f"  {'failed task':<12} {cause.task}{f' on {cause.host}' if cause.host else ''}{_status(cause)}"
    if cause.exception:
        place = cause.facts.get("place")
        yield f"  {'exception':<12} {cause.exception}{f'  ({place})' if place else ''}"
    if cause.last_lines:
        yield f"  last lines of {cause.task}'s stderr:"
        yield from (f"    {line}" for line in cause.last_lines)
    elif said := [line for line in cause.diagnostics.splitlines() if not _SAYS_NOTHING.match(line)]:
        yield "  YARN says:"
        yield from (f"    {line}" for line in said[:_QUOTED])
    yield from _consequence_lines(cause.consequences)


def _status(cause: RootCause) -> str:
    if cause.status is None:
        return ""
    return f", exit status {cause.status}{f' ({cause.meaning})' if cause.meaning and cause.meaning not in cause.sentence else ''}"


def _consequence_lines(ends: tuple[Consequence, ...]) -> Iterator[str]:
    if ends:
        yield "  because of it:"
    for end in ends[:_NAMED]:
        status = f" ({end.status})" if end.status is not None else ""
        yield f"    {end.task}{status}: {end.message}" if end.message else f"    {end.task}{status}"
    if len(ends) > _NAMED:
        yield f"    and {len(ends) - _NAMED} more"
