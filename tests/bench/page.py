"""Writes docs/internals/performance.md, and the same table for the terminal."""

from __future__ import annotations

from tests.bench.measure import Row

__all__ = ["page", "table"]

HEAD = """\
# Performance

`make bench` measures this and writes this page ({date}, revision {revision}, Python {python}, {cores} cores{busy}). No time stands alone:
each is compared with its floor, the least that anybody could take for the same thing, measured turn by turn in the same run. Times in
seconds are there to show proportions on that machine; they promise nothing for another.

"""
EXPLAINED = "\n## What is measured\n"  # from here on the page is written by hand


def table(rows: list[Row]) -> str:
    """Write the rows as a Markdown table."""
    lines = ["| what | against | ratio | goal | more |", "|---|---|---|---|---|"]
    for row in rows:
        goal = "-" if row.goal is None else f"≤ {row.goal:g}: {'met' if row.met else 'MISSED'}"
        ratio = f"{row.ratio:.4f}" if abs(row.ratio - 1) < 0.005 else f"{row.ratio:.2f}"
        lines.append(f"| {row.what} | {row.floor} | {ratio} | {goal} | {row.details} |")
    return "\n".join(lines) + "\n"


def page(former: str, rows: list[Row], **facts: object) -> str:
    """Write the page, with what the former one explains."""
    return HEAD.format(**facts) + table(rows) + former[former.index(EXPLAINED) :]
