"""Pages of a list of jobs, the newest first; a cursor is the last job of the previous page."""

from __future__ import annotations

import re
from collections.abc import Sequence

from submit_tf_job.errors import UsageError
from submit_tf_job.operations.listing import ListedJob

__all__ = ["page"]

_ID = re.compile(r"application_(\d{1,19})_(\d{1,19})")


def page(
    jobs: Sequence[ListedJob], limit: int, cursor: str | None
) -> tuple[list[ListedJob], str | None]:
    """Return one page of a list.

    Args:
        jobs: All jobs.
        limit: The page's size, at most.
        cursor: Where the previous page ended.

    Returns:
        The page, and the cursor of the next one, None on the last.

    Raises:
        UsageError: The cursor is invalid.
    """
    before = None if cursor is None else _position(cursor)
    if cursor is not None and before is None:
        raise UsageError(
            f"cursor: {cursor!r} is not a cursor", hint="use next_cursor of the previous page"
        )
    placed = sorted(
        ((position, job) for job in jobs if (position := _position(job.application_id))),
        key=lambda item: item[0],
        reverse=True,
    )
    rest = [job for position, job in placed if before is None or position < before]
    return rest[:limit], rest[limit - 1].application_id if len(rest) > limit else None


def _position(application_id: str) -> tuple[int, int] | None:
    if not (found := _ID.fullmatch(application_id)):
        return None
    return int(found[1]), int(found[2])
