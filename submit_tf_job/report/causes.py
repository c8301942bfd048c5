"""Why a job waits: lines, and the objects of the field `pending`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from submit_tf_job.diagnose.model import Cause

__all__ = ["cause_lines", "cause_object", "first_sentence"]

_SHOWN = 4


def cause_object(cause: Cause) -> dict[str, Any]:
    """Build the object of one cause; documented in docs/json.md."""
    return {"code": cause.code, "sentence": cause.sentence, "hint": cause.hint, "facts": dict(cause.facts)}


def cause_lines(causes: Sequence[Cause]) -> Iterator[str]:
    """Tell the causes, the first one with its next step as the most important."""
    for index, cause in enumerate(causes[:_SHOWN]):
        yield f"  {'waits because' if index == 0 else 'also'}: {cause.sentence}"
        if cause.hint:
            yield f"    next: {cause.hint}"
    if len(causes) > _SHOWN:
        yield f"  and {len(causes) - _SHOWN} more; -o json shows all"


def first_sentence(causes: Sequence[Cause]) -> str:
    """Return what to say in one line, "" where there is nothing."""
    return causes[0].sentence if causes else ""
