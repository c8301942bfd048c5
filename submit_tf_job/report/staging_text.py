"""Format the result of a sweep of staged files, and the progress of an upload."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from submit_tf_job.diagnose.amounts import plural
from submit_tf_job.jsonview import FORMAT_VERSION

if TYPE_CHECKING:
    from submit_tf_job.operations import Sweep
    from submit_tf_job.storage.staging import Leftover

__all__ = ["amount", "sweep_lines", "sweep_object"]

_UNITS = ("B", "kB", "MB", "GB", "TB")


def amount(size: float) -> str:
    """Format a number of bytes with a suitable unit."""
    unit = 0
    while size >= 999.5 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    digits = int(unit >= 2 and size < 99.5)
    return f"{size:.{digits}f} {_UNITS[unit]}"


def sweep_lines(swept: Sweep) -> Iterator[str]:
    """Return the lines that `staging gc` prints."""
    verb = "would be removed" if swept.dry_run else "removed"
    for item in swept.kept:
        yield f"{item.name}: kept, the job is alive ({amount(item.size)})"
    for item in swept.removed:
        yield (
            f"{item.name}: {verb}, {amount(item.size)}, last submitted "
            f"{item.used:%Y-%m-%d %H:%M} UTC"
        )
    ended = "would be deleted" if swept.dry_run else "deleted"
    yield from (f"{run}: {ended}, one of more than keep_runs" for run in swept.runs)
    count = len(swept.removed)
    total = amount(sum(item.size for item in swept.removed))
    if count:
        yield f"{total} of {plural(count, 'job')} {verb} in {swept.root}"
    elif not swept.runs:
        yield f"nothing to remove in {swept.root}"


def sweep_object(swept: Sweep) -> dict[str, Any]:
    """Return the object that `staging gc` prints."""
    return {
        "kind": "Sweep",
        "format": FORMAT_VERSION,
        "root": swept.root,
        "dry_run": swept.dry_run,
        "runs": list(swept.runs),
        "removed": [_leftover(item) for item in swept.removed],
        "kept": [_leftover(item) for item in swept.kept],
    }


def _leftover(item: Leftover) -> dict[str, Any]:
    return {
        "name": item.name,
        "bytes": item.size,
        "used": item.used.isoformat(timespec="seconds"),
        "paths": list(item.paths),
    }
