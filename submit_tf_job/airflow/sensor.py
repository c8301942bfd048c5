"""The sensor: waits for a job that another task or program has submitted."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from submit_tf_job.airflow.airflow_names import (
    AirflowException,
    AirflowSkipException,
    BaseSensorOperator,
    PokeReturnValue,
    conf,
)
from submit_tf_job.airflow.hook import airflow_errors, error_in
from submit_tf_job.airflow.operator import DEFAULT_CONNECTION
from submit_tf_job.errors import NoSuchJob

if TYPE_CHECKING:
    from submit_tf_job.sdk.client import JobHandle, Status


class SubmitTFJobSensor(BaseSensorOperator):
    """Waits until a job has succeeded, and fails if the job has failed. The sensor never stops a
    job.

    Args:
        job: Name of the job, which may be submitted later, or its application id.
        submit_tf_job_conn_id: The connection; None for the settings of the commands on the worker.
        deferrable: Wait in the triggerer; default: `[operators] default_deferrable`.
    """

    template_fields: Sequence[str] = ("job", "submit_tf_job_conn_id")
    ui_color = "#ffe0b2"

    def __init__(
        self,
        *,
        job: str,
        submit_tf_job_conn_id: str | None = DEFAULT_CONNECTION,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.submit_tf_job_conn_id = submit_tf_job_conn_id
        if deferrable is None:
            deferrable = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = deferrable

    def execute(self, context: Any) -> Any:
        """Wait for the job's end, in the worker; with `deferrable`, in the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        from submit_tf_job.airflow.trigger import SubmitTFJobTrigger

        # Airflow fails a deferred task whose trigger has fired before a busy scheduler has
        # noted that the task was deferred ("state attribute is queued"; seen with 3.3.2).
        try:
            handle, ended = self._look()
        except AirflowException as error:
            # as `resume_execution` of Airflow's sensors, for a job that fails a moment later
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(str(error)) from error
            raise
        if ended is not None:
            return ended.to_json()
        trigger = SubmitTFJobTrigger(
            name=handle.name if handle else self.job,
            application_id=handle.application_id if handle else None,
            submit_tf_job_conn_id=self.submit_tf_job_conn_id,
            ends_at=time.time() + float(self.timeout),
        )
        return self.defer(trigger=trigger, method_name="execute_complete")

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> Any:
        """Continue after the trigger has detected the job's end: return the job, or raise its
        error. `event` is the content of the trigger's event.

        Raises:
            AirflowSensorTimeout: The job was not over within `timeout`.
            AirflowException: The job failed, was stopped, or could not be followed;
                AirflowFailException if another try does not help.
        """
        if event.get("timed_out"):
            from airflow.sdk.exceptions import AirflowSensorTimeout

            raise AirflowSensorTimeout(f"{self.job} was not over within {self.timeout:g} s")
        with airflow_errors():
            error = error_in(event)
            if error is not None:
                raise error
        return event.get("job")

    def poke(self, context: Any) -> Any:
        """Return whether the job has succeeded, with the job: not while it runs or is not submitted
        yet; raise its error, as Airflow's exception, if it failed or was stopped.
        """
        _, ended = self._look()
        return PokeReturnValue(ended is not None, ended and ended.to_json())

    def _look(self) -> tuple[JobHandle | None, Status | None]:
        """Return the job's handle and its final status; None for what is not there yet. Raise the
        job's error, as Airflow's exception.
        """
        with airflow_errors():
            handle = self._find_handle()
            return handle, None if handle is None else self._end_of(handle)

    def _end_of(self, handle: JobHandle) -> Status | None:
        """Return the final status of a job that has succeeded; None while the job runs. Raise the
        job's error if it has failed.
        """
        seen = handle.status()
        if not seen.is_over:
            self.log.info("%s is %s", seen.name, seen.state.value)
            return None
        # with the first cause, once the logs are collected
        ended = handle.wait()
        if ended.error is not None:
            raise ended.error
        return ended

    def _find_handle(self) -> JobHandle | None:
        """Return the job's handle; None if no job with this name has been submitted yet."""
        from submit_tf_job.airflow.hook import SubmitTFJobHook

        client = SubmitTFJobHook(self.submit_tf_job_conn_id).get_conn()
        try:
            return client.attach(self.job)
        except NoSuchJob:
            if self.job.startswith("application_"):
                raise  # an id exists from the submission on
            self.log.info("there is no job %s yet", self.job)
            return None
