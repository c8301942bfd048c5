"""Format for a terminal: rows as aligned columns that fit its width, and texts that were written by
others, with control characters escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

_GAP = "  "
_LEAST, _WIDEST = 6, 1000  # any user's job may have a name of megabytes
_WHOLE = 1e9  # from here on a number has an exponent


def columns(
    rows: Sequence[Sequence[str]],
    width: int | None = None,
    *,
    indent: str = "",
    optional: Sequence[int] = (),
    ids: Sequence[int] = (),
) -> Iterator[str]:
    """Yield one line for each row, with aligned columns.

    Args:
        rows: Rows with the same number of cells; the first may be a heading.
        width: Columns of the terminal; None for no limit. If a line is too long, optional columns
            are omitted first, and then the widest column is cut until the line fits, or no column
            has more than 6 characters.
        optional: Columns that may be omitted, beginning with the last column.
        ids: Columns that are cut at their beginning, such as YARN's ids.
        indent: Written before each line.
    """
    if not rows:
        return
    widths = {
        at: min(_WIDEST, max(width_of(row[at]) for row in rows)) for at in range(len(rows[0]))
    }
    for at in reversed(optional):
        if _too_long(widths, indent, width):
            del widths[at]
    while _too_long(widths, indent, width) and max(widths.values()) > _LEAST:
        widths[max(widths, key=lambda at: widths[at])] -= 1
    for row in rows:
        cells = (
            row[at]
            if width is None and len(row[at]) > size
            else _cut_text(row[at], size, at in ids)
            for at, size in widths.items()
        )
        yield indent + _GAP.join(cells).rstrip()


def _too_long(widths: Mapping[int, int], indent: str, width: int | None) -> bool:
    return (
        width is not None
        and len(indent) + sum(widths.values()) + len(_GAP) * (len(widths) - 1) > width
    )


def _cut_text(text: str, size: int, keep_end: bool) -> str:
    if width_of(text) <= size:
        return text + " " * (size - width_of(text))
    if keep_end:
        return cut(text[::-1], size)[::-1]
    return cut(text, size)


def cut(text: str, size: int) -> str:
    """Return a text that is wider than `size` columns of a terminal as a text of exactly that
    width, with an ellipsis at its end; return any other text as it is.
    """
    if width_of(text) <= size:
        return text
    if text.isascii():
        return text[: size - 1] + "…"
    kept = text[:size]
    while width_of(kept) > size - 1:
        kept = kept[:-1]
    return f"{kept}…" + " " * (size - 1 - width_of(kept))


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes: a Chinese, Japanese or Korean character
    takes two, an accent that is a character of its own takes none.
    """
    if text.isascii():
        return len(text)
    import unicodedata  # of no use for most texts

    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    none = sum(unicodedata.category(character) in ("Mn", "Me", "Cf") for character in text)
    return len(text) + wide - none


def number(value: object, text: str = "{}") -> str:
    """Format a number; "-" for None."""
    if value is None:
        return "-"
    return text.format(value)


def value_text(value: float) -> str:
    """Format the value of a metric with four significant digits, or with all digits before the
    decimal point if these are four to nine; NaN and infinity as a word.
    """
    if not math.isfinite(value):
        return {math.inf: "infinite", -math.inf: "-infinite"}.get(value, "NaN")
    return f"{value:.0f}" if 1000 <= abs(value) < _WHOLE else f"{value:.4g}"


def clean(text: str, *, keep_lines: bool = False) -> str:
    """Return a text in which control characters and newlines, but not tabs, are escaped.

    Args:
        text: A text that another program has written.
        keep_lines: Leave newlines as they are.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == "\t" or (keep_lines and c == "\n") else f"\\x{ord(c):02x}"
        for c in text
    )
