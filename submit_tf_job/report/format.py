"""Common parts of all JSON objects: the format's version, and times."""

from __future__ import annotations

from datetime import datetime, timezone

__all__ = ["FORMAT_VERSION", "instant"]

FORMAT_VERSION = 1
_YEAR_10000_MS = 253_402_300_800_000


def instant(milliseconds: int | None) -> str | None:
    """Format a time in UTC, `2026-05-04T09:30:00Z`; None for no time, or one outside of the
    calendar.
    """
    if not milliseconds or not 0 < milliseconds < _YEAR_10000_MS:
        return None
    return (
        datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
        .isoformat(timespec="seconds")
        .replace("+00:00", "Z")
    )
