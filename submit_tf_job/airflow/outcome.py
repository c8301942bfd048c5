"""How a job's end, or what went wrong before it, is told to Airflow: as exceptions by the error table, and as events by a trigger."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from submit_tf_job.airflow.versions import AirflowException, AirflowFailException
from submit_tf_job.errors import TABLE, InternalError, JobSpecError, Problem, SubmitTFJobError, error_class

__all__ = ["as_airflow", "error_in", "error_object", "telling_airflow"]


def as_airflow(error: SubmitTFJobError) -> AirflowException:
    """Return the exception that makes Airflow try again where that may help (errors.TABLE), and fail the task at once where it cannot."""
    kind = AirflowException if error_class(error).retryable else AirflowFailException
    return kind(f"{error.message}\nhint: {error.hint}" if error.hint else error.message)


@contextlib.contextmanager
def telling_airflow() -> Iterator[None]:
    """Raise our errors as Airflow's."""
    try:
        yield
    except SubmitTFJobError as error:
        raise as_airflow(error) from error


def error_object(error: SubmitTFJobError | None) -> dict[str, Any] | None:
    """Return an error as an event carries it."""
    return None if error is None else {"code": error_class(error).code, "message": error.message, "hint": error.hint}


def error_in(event: Mapping[str, Any]) -> SubmitTFJobError | None:
    """Read the error that an event carries; one of an unknown kind (of a later version, say) is a defect."""
    told = event.get("error")
    if not isinstance(told, Mapping):
        return None
    kinds = {row.code: kind for kind, row in TABLE.items()}
    kind = kinds.get(str(told.get("code")), InternalError)
    message, hint = str(told.get("message", "")), str(told.get("hint") or "")
    return JobSpecError([Problem(0, 0, "", message)], hint=hint) if kind is JobSpecError else kind(message, hint=hint)
