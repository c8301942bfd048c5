"""Text that others wrote: logs and servers write what they like, and some of it moves a terminal's cursor."""

from __future__ import annotations

__all__ = ["clean"]


def clean(text: str, *, keep_lines: bool = False) -> str:
    r"""Show control characters (`\x1b`) instead of sending them to whoever shows the text; tabs stay.

    Args:
        text: What somebody wrote.
        keep_lines: Leave newlines as they are.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" or (keep_lines and c == "\n") else f"\\x{ord(c):02x}" for c in text)
