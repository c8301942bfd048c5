"""The sensor: waits for a job that somebody else has submitted."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from submit_tf_job.airflow.operator import DEFAULT_CONNECTION
from submit_tf_job.airflow.versions import AirflowSensorTimeout, BaseSensorOperator, conf

if TYPE_CHECKING:
    from submit_tf_job.sdk import JobHandle

__all__ = ["SubmitTFJobSensor"]


class SubmitTFJobSensor(BaseSensorOperator):
    """Waits until a job has succeeded; fails where the job did. It never stops a job.

    Args:
        job: Name of the job, or its application id.
        submit_tf_job_conn_id: The connection; None for the settings that the commands would use on the worker.
        deferrable: Wait in the triggerer; default: `[operators] default_deferrable`.
    """

    template_fields: Sequence[str] = ("job", "submit_tf_job_conn_id")
    ui_color = "#ffe0b2"

    def __init__(
        self, *, job: str, submit_tf_job_conn_id: str | None = DEFAULT_CONNECTION, deferrable: bool | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.submit_tf_job_conn_id = submit_tf_job_conn_id
        self.deferrable = conf.getboolean("operators", "default_deferrable", fallback=False) if deferrable is None else deferrable

    def execute(self, context: Any) -> Any:
        """Wait here, or in the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        from submit_tf_job.airflow.outcome import telling_airflow
        from submit_tf_job.airflow.trigger import SubmitTFJobTrigger

        with telling_airflow():
            handle = self._handle()
        trigger = SubmitTFJobTrigger(
            name=handle.name,
            application_id=handle.application_id,
            submit_tf_job_conn_id=self.submit_tf_job_conn_id,
            ends_at=time.time() + float(self.timeout),
        )
        return self.defer(trigger=trigger, method_name="execute_complete")

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> Any:
        """End as the job did, after the triggerer has seen its end."""
        from submit_tf_job.airflow.outcome import error_in, telling_airflow

        if event.get("timed_out"):
            raise AirflowSensorTimeout(f"{self.job} was not over within {self.timeout:g} s")
        with telling_airflow():
            error = error_in(event)
            if error is not None:
                raise error
        return event.get("job")

    def poke(self, context: Any) -> Any:
        """Look once."""
        from submit_tf_job.airflow.outcome import telling_airflow

        with telling_airflow():
            seen = self._handle().status()
            if not seen.is_over:
                self.log.info("%s is %s", seen.name, seen.state.value)
                return False
            ended = self._handle().wait()  # the last word: with the first cause, and after the logs were collected
            if ended.error is not None:
                raise ended.error
        return True

    def _handle(self) -> JobHandle:
        from submit_tf_job.airflow.hook import SubmitTFJobHook

        return SubmitTFJobHook(self.submit_tf_job_conn_id).get_conn().attach(self.job)
