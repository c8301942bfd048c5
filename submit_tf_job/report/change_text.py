"""Format the result of a change to a job as lines and as JSON objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from submit_tf_job.diagnose.amounts import clause
from submit_tf_job.jsonview import FORMAT_VERSION

if TYPE_CHECKING:
    from submit_tf_job.operations.change import Change
    from submit_tf_job.operations.submit import Submission

__all__ = [
    "change_object",
    "submitted_line",
    "submitted_lines",
]


def submitted_lines(
    done: Submission, resource_manager: str, *, detail: bool = False
) -> Iterator[str]:
    """Return the lines after a submission: the run, and the next commands.

    Args:
        done: The submission.
        resource_manager: URL of a ResourceManager, for the application's page.
        detail: Whether to show the submission's id.
    """
    name, app = done.ref.name, done.ref.application_id
    yield f"{submitted_line(done)}{clause(', submission {}', detail and done.plan.key)}"
    yield f"  submit_tf_job watch {name}    submit_tf_job logs {name} -f"
    yield f"  {resource_manager}/cluster/app/{app}"


def submitted_line(done: Submission) -> str:
    """Return which run a submission has started or found."""
    name = done.ref.name
    what = f"{name} was submitted already, as" if done.adopted else f"Submitted {name} as"
    if done.after and not done.adopted:
        what = f"{name} runs again ({done.after} has ended), as"
    return f"{what} {done.ref.run} ({done.ref.application_id})"


def change_object(change: Change) -> dict[str, Any]:
    """Return the object that `scale`, `restart`, `priority`, `move` and `extend` print."""
    return {
        "kind": "Change",
        "format": FORMAT_VERSION,
        "verb": change.verb,
        "name": change.ref.name,
        "run": change.ref.run,
        "application_id": change.ref.application_id,
        "changed": change.changed,
        "value": change.value,
        "message": change.message,
    }
