"""What was done to a job: submitted, changed, deleted; JSON objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from submit_tf_job.report.model import FORMAT_VERSION

if TYPE_CHECKING:
    from submit_tf_job.api.changing import Change
    from submit_tf_job.api.submitting import Submission

__all__ = ["change_object", "deletion_object", "submission_object"]


def submission_object(done: Submission) -> dict[str, Any]:
    """Build the object that `submit --detach` prints and the gateway answers."""
    return {
        "kind": "Submission",
        "format": FORMAT_VERSION,
        "name": done.ref.name,
        "application_id": done.ref.application_id,
        "submission": done.plan.submission,
        "adopted": done.adopted,
    }


def deletion_object(job: str, *, deleted: bool) -> dict[str, Any]:
    """Build the object that `delete` prints and the gateway answers."""
    return {"kind": "Deletion", "format": FORMAT_VERSION, "job": job, "deleted": deleted}


def change_object(change: Change) -> dict[str, Any]:
    """Build the object that `start`, `scale`, `restart`, `priority`, `move` and `extend` print."""
    return {
        "kind": "Change",
        "format": FORMAT_VERSION,
        "verb": change.verb,
        "name": change.ref.name,
        "application_id": change.ref.application_id,
        "changed": change.changed,
        "value": change.value,
        "message": change.message,
    }
