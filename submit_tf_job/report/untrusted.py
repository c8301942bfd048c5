"""Escape control characters in text from logs and servers."""

from __future__ import annotations

__all__ = ["clean"]


def clean(text: str, *, keep_lines: bool = False) -> str:
    """Return a text with its control characters escaped; tabs stay.

    Args:
        text: The text of another program.
        keep_lines: Leave newlines as they are.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == "\t" or (keep_lines and c == "\n") else f"\\x{ord(c):02x}"
        for c in text
    )
