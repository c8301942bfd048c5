"""Format what the commands of a machine's setup print, as lines and as one JSON object: the checks
of `doctor` and of an image, the settings, and sweeps of staged files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from submit_tf_job.diagnose.amounts import clause, plural, size
from submit_tf_job.jsonview import FORMAT_VERSION
from submit_tf_job.settings import Settings, keys

if TYPE_CHECKING:
    from submit_tf_job.doctor.findings import Check, Examination
    from submit_tf_job.operations.staging import Sweep
    from submit_tf_job.storage.staging import Leftover

_WORDS = {"ok": "ok", "warning": "WARNING", "failure": "FAILURE"}


def doctor_object(found: Examination) -> dict[str, Any]:
    """Return the object that `doctor -o json` prints; documented in docs/json.md."""
    return {
        "kind": "Doctor",
        "format": FORMAT_VERSION,
        "ok": not found.failed,
        "findings": [_finding_object(finding) for finding in found.findings],
        "skipped": list(found.skipped),
    }


def image_object(image: str, found: Examination) -> dict[str, Any]:
    """Return the object that `image check -o json` prints; documented in docs/json.md."""
    return {**doctor_object(found), "kind": "Image", "image": image}


def images_object(checked: Mapping[str, Examination]) -> dict[str, Any]:
    """Return the object that `image check --file -o json` prints; documented in docs/json.md."""
    return {
        "kind": "Images",
        "format": FORMAT_VERSION,
        "ok": not any(found.failed for found in checked.values()),
        "images": [image_object(image, found) for image, found in checked.items()],
    }


def _finding_object(finding: Check) -> dict[str, Any]:
    return {
        "id": finding.id,
        "status": finding.status,
        "checked": finding.checked,
        "breaks": finding.breaks,
        "fix": finding.fix,
        "facts": dict(finding.facts),
    }


def examination_lines(found: Examination) -> Iterator[str]:
    """Return the lines of all checks."""
    for finding in found.findings:
        yield from _finding_lines(finding)


def _finding_lines(finding: Check) -> Iterator[str]:
    yield f"{_WORDS.get(finding.status, finding.status):<8} {finding.id:<17} {finding.checked}"
    if finding.status != "ok" and finding.breaks:
        yield f"{'':<26} Affects: {finding.breaks}"
    if finding.status != "ok" and finding.fix:
        yield f"{'':<26} Fix: {finding.fix}"


def summary_line(found: Examination) -> str:
    """Return the line with the number of checks by result."""
    failures = sum(finding.status == "failure" for finding in found.findings)
    warnings = sum(finding.status == "warning" for finding in found.findings)
    skipped = clause("; skipped: {}", ", ".join(found.skipped))
    passed = len(found.findings) - failures - warnings
    counts = [f"{passed} passed"]
    if failures:
        counts.append(f"{failures} failed")
    if warnings:
        counts.append(plural(warnings, "warning"))
    return f"{len(found.findings)} checks: {', '.join(counts)}{skipped}"


def settings_object(settings: Settings) -> dict[str, Any]:
    """Return the object that `config show -o json` prints."""
    return {
        "kind": "Settings",
        "format": FORMAT_VERSION,
        "profile": settings.profile,
        "settings": {
            name: {"value": _plain(key.value_of(settings)), "origin": settings.origins[name]}
            for name, key in keys().items()
        },
    }


def _plain(value: Any) -> Any:
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return str(value)


def settings_lines(settings: Settings) -> Iterator[str]:
    """Return the settings, each with the source of its value."""
    yield f"profile: {settings.profile or '(none)'}"
    width = max(len(name) for name in keys())
    for name, key in keys().items():
        value = _plain(key.value_of(settings))
        yield f"{name:<{width}}  {_shown(name, value):<40}  {settings.origins[name]}"


def _shown(name: str, value: Any) -> str:
    if value in (None, [], {}):
        return "-"
    if isinstance(value, float):
        days, rest = divmod(value, 86400)
        return f"{days:g}d" if days and not rest else f"{value:.15g}s"
    if name in ("gateway.upload_size", "caps.memory"):
        return f"{value // 1024**2}Mi"
    if isinstance(value, list):
        return {"ports.range": "-"}.get(name, ", ").join(map(str, value))
    if isinstance(value, dict):
        return json.dumps(value)
    return str(value)


def sweep_lines(swept: Sweep) -> Iterator[str]:
    """Return the lines that `staging gc` prints."""
    verb = "would be removed" if swept.dry_run else "removed"
    for item in swept.kept:
        yield f"{item.name}: kept, the job is alive ({size(item.size)})"
    for item in swept.removed:
        yield (
            f"{item.name}: {verb}, {size(item.size)}, last submitted {item.used:%Y-%m-%d %H:%M} UTC"
        )
    ended = "would be deleted" if swept.dry_run else "deleted"
    yield from (f"{run}: {ended}, one of more than keep_runs" for run in swept.runs)
    count = len(swept.removed)
    total = size(sum(item.size for item in swept.removed))
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
