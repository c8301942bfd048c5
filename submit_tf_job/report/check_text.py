"""What a doctor found, and what was found in an image: lines, and one JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from submit_tf_job.report.model import FORMAT_VERSION

if TYPE_CHECKING:
    from submit_tf_job.diagnose.findings import Examination, Finding

__all__ = ["doctor_object", "finding_lines", "image_object", "summary_line"]

_WORDS = {"ok": "ok", "warning": "WARNING", "failure": "FAILURE"}


def doctor_object(found: Examination) -> dict[str, Any]:
    """Build the object that `doctor -o json` prints; documented in docs/json.md."""
    return {
        "kind": "Doctor",
        "format": FORMAT_VERSION,
        "ok": not found.failed,
        "findings": [_finding_object(finding) for finding in found.findings],
        "skipped": list(found.skipped),
    }


def image_object(image: str, found: Examination) -> dict[str, Any]:
    """Build the object that `image check -o json` prints; documented in docs/json.md."""
    return {**doctor_object(found), "kind": "Image", "image": image}


def _finding_object(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "status": finding.status,
        "checked": finding.checked,
        "breaks": finding.breaks,
        "fix": finding.fix,
        "facts": dict(finding.facts),
    }


def finding_lines(finding: Finding) -> Iterator[str]:
    """Tell one finding."""
    yield f"{_WORDS.get(finding.status, finding.status):<8} {finding.id:<17} {finding.checked}"
    if finding.status != "ok" and finding.breaks:
        yield f"{'':<26} breaks: {finding.breaks}"
    if finding.status != "ok" and finding.fix:
        yield f"{'':<26} fix: {finding.fix}"


def summary_line(found: Examination) -> str:
    """Count them."""
    failures = sum(finding.status == "failure" for finding in found.findings)
    warnings = sum(finding.status == "warning" for finding in found.findings)
    skipped = f"; not looked at: {', '.join(found.skipped)}" if found.skipped else ""
    return f"{len(found.findings)} checks: {failures} failed, {warnings} to look at{skipped}"
