"""What all JSON objects have in common."""

from __future__ import annotations

from datetime import datetime, timezone

__all__ = ["FORMAT_VERSION", "instant"]

FORMAT_VERSION = 1
_YEAR_10000_MS = 253_402_300_800_000


def instant(milliseconds: int | None) -> str | None:
    """Write a moment in UTC, `2026-05-04T09:30:00Z`; None where there is none, or none that a calendar has."""
    if not milliseconds or not 0 < milliseconds < _YEAR_10000_MS:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
