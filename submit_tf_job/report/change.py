"""A change of a job: its JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from submit_tf_job.report.model import FORMAT_VERSION

if TYPE_CHECKING:
    from submit_tf_job.api.changing import Change

__all__ = ["change_object"]


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
