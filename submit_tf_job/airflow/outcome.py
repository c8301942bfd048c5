"""Convert errors to Airflow's exceptions, and to the JSON of a trigger's event and back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from submit_tf_job.airflow.form import with_form_labels
from submit_tf_job.errors import (
    TABLE,
    InternalError,
    JobSpecError,
    Problem,
    SubmitTFJobError,
    error_class,
)

__all__ = ["airflow_errors", "as_airflow", "error_in", "error_object"]


def as_airflow(error: SubmitTFJobError) -> AirflowException:
    """Return the exception that makes Airflow retry the task or fail it at once.

    For a failed job its first cause decides whether a retry may help, else `errors.TABLE`.
    """
    kind = AirflowException if error.retryable else AirflowFailException
    text = error.message
    if error.hint:
        text += f"\nhint: {with_form_labels(error.hint)}"
    return kind(text)


@contextlib.contextmanager
def airflow_errors() -> Iterator[None]:
    """Convert SubmitTFJobError of the block to Airflow's exceptions."""
    try:
        yield
    except SubmitTFJobError as error:
        raise as_airflow(error) from error


def error_object(error: SubmitTFJobError | None) -> dict[str, Any] | None:
    """Return an error as the JSON of an event."""
    if error is None:
        return None
    return {
        "code": error_class(error).code,
        "message": error.message,
        "hint": error.hint,
        "retryable": error.retryable,
    }


def error_in(event: Mapping[str, Any]) -> SubmitTFJobError | None:
    """Return the error of an event.

    An error of an unknown kind, such as one of a later version, becomes an InternalError.
    """
    error = event.get("error")
    if not isinstance(error, Mapping):
        return None
    kinds = {row.code: kind for kind, row in TABLE.items()}
    kind = kinds.get(str(error.get("code")), InternalError)
    message, hint = str(error.get("message", "")), str(error.get("hint") or "")
    if kind is JobSpecError:
        return JobSpecError([Problem(0, 0, "", message)], hint=hint)
    return kind(message, hint=hint, retryable=error.get("retryable"))
