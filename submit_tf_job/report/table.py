"""Columns that fit a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["columns", "duration"]

_GAP = "  "
_LEAST = 6


def columns(rows: Sequence[Sequence[str]], width: int | None = None, *, indent: str = "") -> Iterator[str]:
    """Align rows, the first of which may be a heading.

    Args:
        rows: All of the same length.
        width: Columns of the terminal; the widest column is cut until a line fits. None for as wide as it gets.
        indent: Stands before each line.
    """
    if not rows:
        return
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    while width is not None and len(indent) + sum(widths) + len(_GAP) * (len(widths) - 1) > width and max(widths) > _LEAST:
        widths[widths.index(max(widths))] -= 1
    for row in rows:
        yield indent + _GAP.join(_cell(text, size) for text, size in zip(row, widths, strict=True)).rstrip()


def _cell(text: str, size: int) -> str:
    return text.ljust(size) if len(text) <= size else text[: size - 1] + "…"


def duration(seconds: float | None) -> str:
    """Write a duration in at most two units: 42s, 3m10s, 5h02m, 4d07h."""
    if seconds is None:
        return "-"
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"
