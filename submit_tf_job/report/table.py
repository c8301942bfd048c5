"""Columns that fit a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

__all__ = ["columns", "duration"]

_GAP = "  "
_LEAST = 6


def columns(
    rows: Sequence[Sequence[str]], width: int | None = None, *, indent: str = "", optional: Sequence[int] = (), ids: Sequence[int] = ()
) -> Iterator[str]:
    """Align rows, the first of which may be a heading.

    Args:
        rows: All of the same length.
        width: Columns of the terminal; None for as wide as it gets. Where a line is too long, optional columns go first, and then the
            widest one is cut until it fits.
        optional: Columns that may be left out, the one that goes first at the end.
        ids: Columns of which the end matters most, such as YARN's ids: they are cut at their beginning.
        indent: Stands before each line.
    """
    if not rows:
        return
    widths = {at: max(len(row[at]) for row in rows) for at in range(len(rows[0]))}
    for at in reversed(optional):
        if _too_long(widths, indent, width):
            del widths[at]
    while _too_long(widths, indent, width) and max(widths.values()) > _LEAST:
        widths[max(widths, key=lambda at: widths[at])] -= 1
    for row in rows:
        yield indent + _GAP.join(_cell(row[at], size, at in ids) for at, size in widths.items()).rstrip()


def _too_long(widths: Mapping[int, int], indent: str, width: int | None) -> bool:
    return width is not None and len(indent) + sum(widths.values()) + len(_GAP) * (len(widths) - 1) > width


def _cell(text: str, size: int, keep_end: bool) -> str:
    if len(text) <= size:
        return text.ljust(size)
    return "…" + text[len(text) - size + 1 :] if keep_end else text[: size - 1] + "…"


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
