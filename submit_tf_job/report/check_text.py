"""Format the checks of `doctor` and of an image as lines and as one JSON object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from submit_tf_job.diagnose.amounts import clause, plural
from submit_tf_job.jsonview import FORMAT_VERSION

if TYPE_CHECKING:
    from submit_tf_job.doctor.findings import Check, Examination

__all__ = ["doctor_object", "finding_lines", "image_object", "images_object", "summary_line"]

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


def finding_lines(finding: Check) -> Iterator[str]:
    """Return the lines of one check."""
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
