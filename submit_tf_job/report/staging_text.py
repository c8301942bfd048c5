"""What is staged: what was swept, and how far an upload is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from submit_tf_job.report.model import FORMAT_VERSION

if TYPE_CHECKING:
    from submit_tf_job.api import Sweep
    from submit_tf_job.staging import Leftover

__all__ = ["amount", "sweep_lines", "sweep_object"]

_UNITS = ("B", "kB", "MB", "GB", "TB")


def amount(size: float) -> str:
    """Write a number of bytes with the unit that fits."""
    unit = 0
    while size >= 999.5 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit < 2 or size >= 99.5 else f"{size:.1f} {_UNITS[unit]}"


def sweep_lines(swept: Sweep) -> Iterator[str]:
    """Write what `staging gc` prints."""
    verb = "would be removed" if swept.dry_run else "removed"
    for item in swept.kept:
        yield f"{item.name}: kept, the job is alive ({amount(item.size)})"
    for item in swept.removed:
        yield f"{item.name}: {verb}, {amount(item.size)}, last submitted {item.used:%Y-%m-%d %H:%M} UTC"
    count = len(swept.removed)
    total = amount(sum(item.size for item in swept.removed))
    yield f"{total} of {count} job{'' if count == 1 else 's'} {verb} in {swept.root}" if count else f"nothing to remove in {swept.root}"


def sweep_object(swept: Sweep) -> dict[str, Any]:
    """Build the object that `staging gc` prints."""
    return {
        "kind": "Sweep",
        "format": FORMAT_VERSION,
        "root": swept.root,
        "dry_run": swept.dry_run,
        "removed": [_leftover(item) for item in swept.removed],
        "kept": [_leftover(item) for item in swept.kept],
    }


def _leftover(item: Leftover) -> dict[str, Any]:
    return {"name": item.name, "bytes": item.size, "used": item.used.isoformat(timespec="seconds"), "paths": list(item.paths)}
