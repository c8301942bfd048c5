"""The operator: submits a job, waits in the worker or the triggerer, and returns or raises the
job's result.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submit_tf_job.airflow.base import BaseOperator, conf
from submit_tf_job.airflow.extra_links import ApplicationLink, LogsLink, TensorBoardLink
from submit_tf_job.errors import SubmitTFJobError, UsageError

if TYPE_CHECKING:
    from submit_tf_job.airflow.hook import SubmitTFJobHook
    from submit_tf_job.airflow.progress_log import ProgressLog
    from submit_tf_job.airflow.task_run import TaskRun
    from submit_tf_job.plan import Plan
    from submit_tf_job.sdk.client import JobHandle, Status

__all__ = ["SubmitTFJobOperator", "task_run"]

DEFAULT_CONNECTION = "submit_tf_job_default"
_ON_FINISH = ("keep", "delete", "delete-succeeded")


class SubmitTFJobOperator(BaseOperator):
    """Runs a job spec's job to its end.

    A try adopts the job of an earlier try: after a worker died, one application still runs. The
    task returns the job as `submit_tf_job status -o json` prints it.

    Args:
        job: Path of a job spec file, relative to the DAG's file, or its content as a mapping. Both
            are Jinja templates.
        name: Readable part of the job's name, which the operator makes unique; default: the task's
            id.
        overrides: `path=value` texts, as for `--set`.
        dialect: The format of a job file of another system, as for `--from`; None to recognise it.
        submit_tf_job_conn_id: The connection; None for the settings of the commands on the worker.
        deferrable: Wait in the triggerer; default: `[operators] default_deferrable`.
        stop_on_kill: Stop the job when the task is killed, cleared or timed out.
        on_finish: What to do with a finished job: `keep`, `delete`, or `delete-succeeded`. Its logs
            are always kept.

    Example:
        >>> SubmitTFJobOperator(task_id="train", job="train.yaml", overrides=["env.DAY={{ ds }}"])
        # doctest: +SKIP
    """

    template_fields: Sequence[str] = ("job", "name", "overrides", "submit_tf_job_conn_id")
    template_fields_renderers = {"job": "json", "overrides": "json"}  # noqa: RUF012 - Airflow's own way
    operator_extra_links = (ApplicationLink(), LogsLink(), TensorBoardLink())
    ui_color = "#ffe0b2"

    def __init__(
        self,
        *,
        job: str | Path | Mapping[str, Any],
        name: str | None = None,
        overrides: Sequence[str] = (),
        dialect: str | None = None,
        submit_tf_job_conn_id: str | None = DEFAULT_CONNECTION,
        deferrable: bool | None = None,
        stop_on_kill: bool = True,
        on_finish: str = "delete-succeeded",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if on_finish not in _ON_FINISH:
            raise ValueError(f"on_finish: {on_finish!r} is not one of {', '.join(_ON_FINISH)}")
        self.job = str(job) if isinstance(job, Path) else job
        self.name = name
        self.overrides = overrides
        self.dialect = dialect
        self.submit_tf_job_conn_id = submit_tf_job_conn_id
        if deferrable is None:
            deferrable = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = deferrable
        self.stop_on_kill = stop_on_kill
        self.on_finish = on_finish
        self._running_job: tuple[str, str | None] | None = None
        self._links_wanted = True
        self.links_known = False

    @cached_property
    def hook(self) -> SubmitTFJobHook:
        """The hook of the connection."""
        from submit_tf_job.airflow.hook import SubmitTFJobHook

        return SubmitTFJobHook(self.submit_tf_job_conn_id)

    def execute(self, context: Any) -> Any:
        """Submit the job, or adopt that of an earlier try, and wait for its end."""
        from submit_tf_job.airflow.outcome import airflow_errors
        from submit_tf_job.airflow.progress_log import ProgressLog

        run = task_run(context, self.retries)
        with airflow_errors():
            planned = self._plan(context, run)
            self._running_job = (planned.job.name, None)
            handle = self.hook.submit(planned, run, name=self.name)
            self._running_job = (handle.name, handle.application_id)
            self._begin(context, handle)
            if self.deferrable and not handle.status().is_over:
                self._wait_in_triggerer(context, planned, handle)
            progress_log = ProgressLog()
            status = handle.wait(
                on_change=lambda seen: self._report(context, handle, seen, progress_log)
            )
            return self._finish(status.to_json(), status.error, str(status))

    def _plan(self, context: Any, run: TaskRun) -> Plan:
        job, base, text = self.job, Path(self.dag.folder), None
        if not isinstance(job, (str, Mapping)):
            raise UsageError(f"job: expected the path of a job spec or a mapping, found {job!r}")
        if isinstance(self.overrides, str):
            raise UsageError(
                f"overrides: expected a list, found {self.overrides!r}",
                hint=f"write [{self.overrides!r}]",
            )
        if isinstance(job, str):
            path = base / job
            job, base, text = str(path), path.parent, self._rendered(path, context)
        return self.hook.plan(
            job,
            run,
            name=self.name,
            overrides=list(self.overrides or ()),
            text=text,
            base=base,
            dialect=self.dialect,
        )

    def _rendered(self, path: Path, context: Any) -> bytes:
        from submit_tf_job.errors import JobSpecError, Problem

        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise JobSpecError([Problem(0, 0, "", f"cannot be read: {error}", str(path))]) from None
        rendered = self.render_template(text, context)
        if not isinstance(rendered, str):  # the DAG may render native objects
            rendered = json.dumps(rendered, default=str)
        return rendered.encode()

    def _begin(self, context: Any, handle: JobHandle) -> None:
        from submit_tf_job.airflow.extra_links import links_at_start

        self.log.info("%s is %s", handle.name, handle.application_id)
        if handle.application_id:
            _push(
                context,
                {
                    "application_id": handle.application_id,
                    **links_at_start(handle.client.cluster, handle.application_id),
                },
            )
            self.links_known = True

    def _wait_in_triggerer(self, context: Any, planned: Plan, handle: JobHandle) -> None:
        from submit_tf_job.airflow.trigger import SubmitTFJobTrigger

        ends_at = None
        if self.execution_timeout is not None:
            ends_at = (context["ti"].start_date + self.execution_timeout).timestamp()
        trigger = SubmitTFJobTrigger(
            name=handle.name,
            application_id=handle.application_id,
            submit_tf_job_conn_id=self.submit_tf_job_conn_id,
            ends_at=ends_at,
            own=True,
            bootstrap=planned.job.bootstrap,
            stop_on_kill=self.stop_on_kill,
        )
        self.defer(trigger=trigger, method_name="execute_complete")

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> Any:
        """Return the job or raise its error, after the trigger has detected its end."""
        from submit_tf_job.airflow.outcome import airflow_errors, error_in

        self.links_known = True
        if event.get("timed_out"):
            from airflow.sdk.exceptions import AirflowTaskTimeout

            raise AirflowTaskTimeout(f"the job was not over within {self.execution_timeout}")
        with airflow_errors():
            self._submit_again(context, event)
            return self._finish(event.get("job"), error_in(event), str(event.get("text") or ""))

    def _submit_again(self, context: Any, event: Mapping[str, Any]) -> None:
        """Submit the job again and defer, if its `retries.memory` says so.

        A worker that dies here is no loss: the next try adopts the run that it submitted.
        """
        from submit_tf_job.airflow.outcome import cause_in

        job, cause = event.get("job") or {}, cause_in(event)
        if job.get("state") != "FAILED" or cause is None or cause.code != "out-of-memory":
            return
        try:
            planned = self._plan(context, task_run(context, self.retries))
            handle = self.hook.submit_again(
                planned, str(job["application_id"]), event.get("resubmission"), cause
            )
        except SubmitTFJobError as error:
            self.log.warning("not submitted again: %s", error.message)
            return
        if handle is not None:
            self._running_job = (handle.name, handle.application_id)
            self._begin(context, handle)
            self._wait_in_triggerer(context, planned, handle)

    def _report(
        self, context: Any, handle: JobHandle, seen: Status, progress_log: ProgressLog
    ) -> None:
        from submit_tf_job.airflow.extra_links import links_of_running
        from submit_tf_job.observation import JobState

        self._running_job = (handle.name, handle.application_id)  # `retries.memory` changes it
        for line in progress_log.lines(seen.job):
            self.log.info("%s", line)
        if seen.state is JobState.RUNNING and self._links_wanted:
            with contextlib.suppress(SubmitTFJobError):  # the job does not need its links
                links, complete = links_of_running(
                    handle.client.cluster, handle.name, handle.application_id
                )
                _push(context, links)
                self._links_wanted = not complete

    def _finish(
        self, job: Mapping[str, Any] | None, error: SubmitTFJobError | None, text: str
    ) -> Any:
        from submit_tf_job.report.untrusted import clean

        for line in text.splitlines():
            self.log.info("%s", clean(line))
        if job is not None:
            self._running_job = None
            deletes = self.on_finish == "delete-succeeded" and error is None
            if deletes or self.on_finish == "delete":
                self._delete(str(job["name"]))
        if error is not None:
            raise error
        return job

    def _delete(self, name: str) -> None:
        try:
            self.hook.get_conn().attach(name).delete()
        except SubmitTFJobError as error:
            self.log.warning("%s is over, and its name stays taken: %s", name, error.message)

    def on_kill(self) -> None:
        """Stop the job, because the task was killed or timed out."""
        if self._running_job is None or not self.stop_on_kill:
            return
        name, application_id = self._running_job
        self.log.info("stopping %s (%s)", name, application_id or "which is being submitted")
        self.hook.kill(name, application_id)


def task_run(context: Any, retries: int) -> TaskRun:
    """Return the task instance of a context."""
    from submit_tf_job.airflow.task_run import TaskRun

    ti = context["ti"]
    base_url = conf.get("api", "base_url", fallback="")
    cleared_at = max(0, (ti.max_tries or 0) - (retries or 0))
    return TaskRun(base_url, ti.dag_id, ti.task_id, ti.run_id, ti.map_index, cleared_at)


def _push(context: Any, values: Mapping[str, str]) -> None:
    for key, value in values.items():
        context["ti"].xcom_push(key=key, value=value)
