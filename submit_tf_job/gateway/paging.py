"""Filters and pages of a list of jobs, the newest first; a cursor is the last job of the previous
page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from fnmatch import fnmatchcase

from submit_tf_job.errors import UsageError
from submit_tf_job.host.units import duration_s
from submit_tf_job.sdk.types import ListedJob

__all__ = ["MOMENT", "moment_ms", "page", "selected"]

# a duration before now, or an instant in UTC
MOMENT = (
    r"^(\d{1,6}(ms|s|m|h|d)"
    r"|\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,3})?Z)$"
)

_ID = re.compile(r"application_(\d{1,19})_(\d{1,19})")


def moment_ms(text: str, now_ms: int) -> int:
    """Return the milliseconds since 1970 of a text that `MOMENT` matches.

    Raises:
        UsageError: The month does not have this day.
    """
    if not text.endswith("Z"):
        return now_ms - int(duration_s(text) * 1000)
    try:
        return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)
    except ValueError as error:
        raise UsageError(f"{text}: {error}", hint="write 24h, or 2026-05-04T09:30:00Z") from None


def selected(
    jobs: Iterable[ListedJob], name: str | None, since_ms: int | None, until_ms: int | None
) -> list[ListedJob]:
    """Return the jobs with a name, in which `*` is any text, that were submitted between two
    times.
    """
    return [
        job
        for job in jobs
        if (name is None or fnmatchcase(job.name, name))
        and (since_ms is None or (job.submitted_ms or 0) >= since_ms)
        and (until_ms is None or (job.submitted_ms or 0) < until_ms)
    ]


def page(
    jobs: Sequence[ListedJob], limit: int, cursor: str | None
) -> tuple[list[ListedJob], str | None]:
    """Return one page of a list.

    Args:
        jobs: All jobs.
        limit: The page's size, at most.
        cursor: The application id at which the previous page ended.

    Returns:
        The page, and the cursor of the next one, None on the last.
    """
    before = _position(cursor or "")
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
