"""Pages of a list of jobs, the newest first; a cursor names the last job of the page before, and nobody has to remember anything."""

from __future__ import annotations

import re
from collections.abc import Sequence

from submit_tf_job.errors import UsageError
from submit_tf_job.fleet import ListedJob

__all__ = ["page"]

_ID = re.compile(r"application_(\d{1,19})_(\d{1,19})")


def page(jobs: Sequence[ListedJob], limit: int, cursor: str | None) -> tuple[list[ListedJob], str | None]:
    """Cut one page out of a list.

    Args:
        jobs: All jobs.
        limit: How many, at most.
        cursor: Where the page before has ended.

    Returns:
        The page, and the cursor of the next one, None on the last.

    Raises:
        UsageError: The cursor is none.
    """
    before = None if cursor is None else _place(cursor)
    if cursor is not None and before is None:
        raise UsageError(f"cursor: {cursor!r} is none", hint="take next_cursor of the page before as it is")
    placed = sorted(((place, job) for job in jobs if (place := _place(job.application_id))), key=lambda item: item[0], reverse=True)
    rest = [job for place, job in placed if before is None or place < before]
    return rest[:limit], rest[limit - 1].application_id if len(rest) > limit else None


def _place(application_id: str) -> tuple[int, int] | None:
    found = _ID.fullmatch(application_id)
    return (int(found[1]), int(found[2])) if found else None
