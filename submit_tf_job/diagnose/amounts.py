"""Amounts, spans of time and lists as a person reads them in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from submit_tf_job.yarn.queues import Resource

__all__ = ["listed", "memory", "plural", "resource", "seconds"]

_NAMED = 3


def memory(mib: int) -> str:
    """Write an amount of memory."""
    return f"{mib // 1024} GiB" if mib >= 1024 and mib % 1024 == 0 else f"{mib} MiB"


def plural(count: int, noun: str) -> str:
    """Write a count of things."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def resource(amount: Resource, only: Iterable[str] | None = None) -> str:
    """Write an amount of everything that YARN counts, or of some of it."""
    wanted = tuple(only) if only is not None else ("memory-mb", "vcores", *(name for name, value in amount.additional.items() if value))
    return listed([_one(name, amount.amount(name)) for name in wanted], limit=len(wanted)) or "nothing"


def _one(name: str, value: int) -> str:
    return {"memory-mb": memory(value), "vcores": plural(value, "core")}.get(name, f"{value} {name}")


def listed(words: Sequence[str], limit: int = _NAMED) -> str:
    """Write a list: `a, b and c`, or `a, b, c and 4 more`."""
    if len(words) > limit:
        return f"{', '.join(words[:limit])} and {len(words) - limit} more"
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def seconds(value: float) -> str:
    """Write a span of time."""
    whole = int(value)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole // 3600} h {whole % 3600 // 60} min"
