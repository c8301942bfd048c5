"""Format amounts, durations and lists for a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from submit_tf_job.yarn.inspection import QueueResources

_NAMED = 3
_SIZES = ("B", "kB", "MB", "GB", "TB")


def clause(text: str, value: object) -> str:
    """Return a text in which the value replaces `{}`; "" if the value is None, 0 or empty."""
    return text.format(value) if value else ""


def memory(mib: int) -> str:
    """Format an amount of memory in MiB: `4 GiB`, `1500 MiB`."""
    return f"{mib // 1024} GiB" if mib >= 1024 and mib % 1024 == 0 else f"{mib} MiB"


def memory_used(count: float) -> str:
    """Format a number of bytes of memory, rounded, in binary units: `3.1 GiB`, `700 MiB`."""
    mib = count / (1 << 20)
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"


def size(count: float) -> str:
    """Format the size of a file in bytes with a suitable decimal unit: `999 B`, `3.1 MB`."""
    unit = 0
    while count >= 999.5 and unit < len(_SIZES) - 1:
        count, unit = count / 1000, unit + 1
    digits = int(unit >= 2 and count < 99.5)
    return f"{count:.{digits}f} {_SIZES[unit]}"


def plural(count: int, noun: str) -> str:
    """Format a number with its noun, in the singular or plural."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def resource(amount: QueueResources, only: Iterable[str] | None = None) -> str:
    """Format an amount of resources: memory, cores, and other resources that are not 0; or only the
    resources in `only`, by their names in YARN.
    """
    if only is None:
        more = (name for name, value in amount.additional.items() if value)
        only = ("memory-mb", "vcores", *more)
    words = [_named_amount(name, amount.amount(name)) for name in only]
    return listed(words, limit=len(words)) or "nothing"


def _named_amount(name: str, value: int) -> str:
    return {"memory-mb": memory(value), "vcores": plural(value, "core")}.get(
        name, f"{value} {name}"
    )


def listed(words: Sequence[str], limit: int = _NAMED) -> str:
    """Format a list: `a, b and c`, or `a, b, c and 4 more`."""
    if len(words) > limit:
        return f"{', '.join(words[:limit])} and {len(words) - limit} more"
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def seconds(value: float) -> str:
    """Format a duration in seconds, rounded down: `90 s`, `12 min`, `3 h 20 min`."""
    whole = int(value)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    return f"{whole // 3600} h{clause(' {} min', whole % 3600 // 60)}"
