"""The operator: submits a job, waits in the worker or the triggerer, and returns or raises the
job's result; and the decorator `@task.submit_tf_job`: a function that runs as a job on YARN.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from submit_tf_job.airflow.airflow_names import (
    Asset,
    AssetAlias,
    BaseOperator,
    DecoratedOperator,
    conf,
    task_decorator_factory,
)
from submit_tf_job.airflow.hook import airflow_errors, error_in
from submit_tf_job.airflow.links import (
    ApplicationLink,
    LogsLink,
    TensorBoardLink,
    links_at_start,
    links_of_running,
)
from submit_tf_job.errors import SettingsError, SubmitTFJobError, UsageError

if TYPE_CHECKING:
    from submit_tf_job.airflow.hook import SubmitTFJobHook
    from submit_tf_job.airflow.task_run import TaskRun
    from submit_tf_job.sdk.client import JobHandle, Plan, Status

DEFAULT_CONNECTION = "submit_tf_job_default"
OUTPUT_EVERY_S = 1.0
_ON_FINISH = ("keep", "delete", "delete-succeeded")


class SubmitTFJobOperator(BaseOperator):
    """Submits the job of a job spec and waits for its end.

    A try adopts the run of an earlier try that is alive or has succeeded, so only one application
    runs, even if a worker has died; after a run that failed or was stopped, it runs the job again.
    The task returns the job as `submit_tf_job status -o json` prints it. For a failed job it raises
    AirflowException if another try may help, else AirflowFailException.

    Args:
        job: Path of a job spec file, relative to the DAG's file, or its content as a mapping. Both
            are Jinja templates.
        name: Readable part of the job's name, which the operator makes unique; default: the task's
            id.
        overrides: `path=value` texts, as for `--set`.
        dialect: The format of a job file of another system, as for `--from`; None to recognise it.
        yarn_queue: The job's queue, as `queue` of the job spec (`queue` is that of Airflow's
            workers).
        env: Environment variables of all tasks, added to `env` of the job spec.
        timeout: How long after the submission YARN kills the job, as `lifetime` of the job spec:
            seconds, a timedelta, or a text such as "2h".
        submit_tf_job_conn_id: The connection; None for the settings of the commands on the worker.
        wait_for_completion: Whether to wait for the job's end; if not, the task ends when YARN has
            accepted the job. Default: yes.
        get_logs: Write the output of the deciding task to the task's log while the job runs.
            Default: yes.
        deferrable: Wait in the triggerer; default: `[operators] default_deferrable`.
        stop_on_kill: Stop the job when the task is killed, cleared or timed out. Default: yes.
        on_finish: What to do with a finished job: `keep`, `delete`, or `delete-succeeded` (the
            default). Its logs are always kept.

    Raises:
        ValueError: `on_finish` has another value.

    Example:
        >>> SubmitTFJobOperator(task_id="train", job="train.yaml", overrides=["env.DAY={{ ds }}"])
        # doctest: +SKIP
    """

    template_fields: Sequence[str] = (
        "job",
        "name",
        "overrides",
        "yarn_queue",
        "env",
        "timeout",
        "submit_tf_job_conn_id",
    )
    template_fields_renderers = {"job": "json", "overrides": "json", "env": "json"}  # noqa: RUF012 - Airflow's own way
    operator_extra_links = (ApplicationLink(), LogsLink(), TensorBoardLink())
    ui_color = "#ffe0b2"

    def __init__(
        self,
        *,
        job: str | Path | Mapping[str, Any],
        name: str | None = None,
        overrides: Sequence[str] = (),
        dialect: str | None = None,
        yarn_queue: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | timedelta | str | None = None,
        submit_tf_job_conn_id: str | None = DEFAULT_CONNECTION,
        wait_for_completion: bool = True,
        get_logs: bool = True,
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
        self.yarn_queue = yarn_queue
        self.env = env
        self.timeout = timeout
        self.wait_for_completion = wait_for_completion
        self.get_logs = get_logs
        self.submit_tf_job_conn_id = submit_tf_job_conn_id
        if deferrable is None:
            deferrable = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = deferrable
        self.stop_on_kill = stop_on_kill
        self.on_finish = on_finish
        # Datasets that the job writes become events of this alias: their names are known only when
        # the job spec is rendered.
        self._outputs = AssetAlias(f"{self.dag_id}.{self.task_id}.outputs")
        self.outlets = [*self.outlets, self._outputs]  # type: ignore[has-type]
        self._running_job: tuple[str, str | None] | None = None
        self._links_wanted = True
        self.links_known = False

    @cached_property
    def hook(self) -> SubmitTFJobHook:
        """The hook of the connection."""
        from submit_tf_job.airflow.hook import SubmitTFJobHook

        return SubmitTFJobHook(self.submit_tf_job_conn_id)

    def execute(self, context: Any) -> Any:
        """Submit the job, or adopt the job of an earlier try, and wait for the job's end: here, or
        if `deferrable` in the triggerer, after which Airflow calls `execute_complete`. Without
        `wait_for_completion`, return once YARN has accepted the job.
        """
        run = task_run(context, self.retries)
        with airflow_errors():
            planned = self._make_plan(context, run)
            self._running_job = (planned.job.name, None)
            handle = self.hook.submit(planned, run)
            self._running_job = (handle.name, handle.application_id)
            self._begin_following(context, handle)
            if not self.wait_for_completion:
                self._running_job = None
                return handle.status().to_json()
            if self.deferrable and not handle.status().is_over:
                self._wait_in_triggerer(context, planned, handle)
            status = self._wait_here(context, handle)
            job, text = status.to_json(), str(status)
            return self._finish_task(context, job, status.error, text, **_facts_for_end(planned))

    def _wait_here(self, context: Any, handle: JobHandle) -> Status:
        from submit_tf_job.sdk.events import EventLog, Status

        log, last = EventLog(), None
        for event in handle.events(output_every_s=OUTPUT_EVERY_S if self.get_logs else None):
            for line in log.lines(event):
                self.log.info("%s", line)
            if isinstance(event, Status):
                self._running_job = (handle.name, handle.application_id)  # `retries.memory`
                self._push_links(context, handle, event)
                last = event
        assert last is not None
        return last

    def _job_spec(self) -> Any:
        """Return the path of a job spec, or its content."""
        return self.job

    def _make_plan(self, context: Any, run: TaskRun) -> Plan:
        job, base = self._job_spec(), Path(self.dag.folder)
        if not isinstance(job, (str, Mapping)):
            raise UsageError(f"job: expected the path of a job spec or a mapping, found {job!r}")
        if isinstance(self.overrides, str):
            raise UsageError(
                f"overrides: expected a list, found {self.overrides!r}",
                hint=f"write [{self.overrides!r}]",
            )
        return self.hook.plan(
            str(base / job) if isinstance(job, str) else job,
            run,
            name=self.name,
            overrides=[*self._plain_overrides(), *(self.overrides or ())],
            render=lambda text: self._render_text(text, context),
            base=base,
            dialect=self.dialect,
            detached=not self.wait_for_completion,
        )

    def _plain_overrides(self) -> Iterator[str]:
        """Yield `yarn_queue`, `env` and `timeout` as `path=value` texts for the job spec."""
        if self.yarn_queue is not None:
            yield f"queue={self.yarn_queue}"
        for name, value in (self.env or {}).items():
            yield f"env.{name}={value}"
        if self.timeout is not None:
            timeout = self.timeout
            if isinstance(timeout, timedelta):
                timeout = timeout.total_seconds()
            if isinstance(timeout, (int, float)):
                timeout = f"{timeout:.0f}s"
            yield f"lifetime={timeout}"

    def _render_text(self, text: str, context: Any) -> str:
        rendered = self.render_template(text, context)
        # the DAG may render native objects
        return rendered if isinstance(rendered, str) else json.dumps(rendered, default=str)

    def _begin_following(self, context: Any, handle: JobHandle) -> None:
        self.log.info("%s is %s", handle.name, handle.application_id)
        if handle.application_id:
            known = {"application_id": handle.application_id, **links_at_start(handle)}
            _push_values(context, known)
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
            stop_on_kill=self.stop_on_kill,
            get_logs=self.get_logs,
        )
        self.defer(trigger=trigger, method_name="execute_complete", kwargs=_facts_for_end(planned))

    def execute_complete(
        self,
        context: Any,
        event: Mapping[str, Any],
        outputs: Sequence[str] = (),
        deciding_task: str = "",
    ) -> Any:
        """Continue after the trigger has detected the job's end: return the job, or raise its
        error. A job that ran out of memory may be submitted again (`retries.memory`), and followed
        in the triggerer again.

        Args:
            context: Airflow's context of the task.
            event: The content of the trigger's event.
            outputs: URIs of the job's outputs, which become events of the task's asset alias.
            deciding_task: The task of the job whose result counts.

        Raises:
            AirflowTaskTimeout: The job was not over within `execution_timeout`.
            AirflowException: The job failed or could not be followed, and another try may help.
            AirflowFailException: The job failed or could not be followed, and another try does not
                help.
        """
        self.links_known = True
        if event.get("timed_out"):
            from airflow.sdk.exceptions import AirflowTaskTimeout

            raise AirflowTaskTimeout(f"the job was not over within {self.execution_timeout}")
        with airflow_errors():
            self._submit_again(context, event)
            text = str(event.get("text") or "")
            job, error = event.get("job"), error_in(event)
            return self._finish_task(context, job, error, text, outputs, deciding_task)

    def _submit_again(self, context: Any, event: Mapping[str, Any]) -> None:
        """Submit the job again and defer, if its `retries.memory` says so.

        If a worker dies here, the next try adopts the run that the worker submitted.
        """
        job = event.get("job") or {}
        if (job.get("root_cause") or {}).get("code") != "out-of-memory":
            return
        try:
            planned = self._make_plan(context, task_run(context, self.retries))
            handle = self.hook.get_conn().submit_again(planned, job)
        except SubmitTFJobError as error:
            self.log.warning("not submitted again: %s", error.message)
            return
        if handle is not None:
            self._running_job = (handle.name, handle.application_id)
            self._begin_following(context, handle)
            self._wait_in_triggerer(context, planned, handle)

    def _push_links(self, context: Any, handle: JobHandle, seen: Status) -> None:
        if seen.state != "RUNNING" or not self._links_wanted:
            return
        with contextlib.suppress(SubmitTFJobError):  # the job does not need its links
            links, complete = links_of_running(handle)
            _push_values(context, links)
            self._links_wanted = not complete

    def _finish_task(
        self,
        context: Any,
        job: Mapping[str, Any] | None,
        error: SubmitTFJobError | None,
        text: str,
        outputs: Sequence[str],
        deciding_task: str,
    ) -> Any:
        for line in text.splitlines():
            self.log.info("%s", line)
        result: Any = None
        if job is not None:
            self._running_job = None
            if error is None:
                result = self._value_of_success(context, job, deciding_task)
            deletes = self.on_finish == "delete-succeeded" and error is None
            if deletes or self.on_finish == "delete":
                self._delete_run(str(job["run"]))
        if error is not None:
            raise error
        for uri in outputs:
            context["outlet_events"][self._outputs].add(Asset(uri=uri))
        return result

    def _value_of_success(self, context: Any, job: Mapping[str, Any], deciding_task: str) -> Any:
        """Return the task's return value (its XCom) for a job that has succeeded."""
        return job

    def _delete_run(self, run: str) -> None:
        try:
            self.hook.get_conn().attach(run).delete()
        except SubmitTFJobError as error:
            self.log.warning("%s is over, and was not deleted: %s", run, error.message)

    def on_kill(self) -> None:
        """Stop the job, because the task was killed or timed out; do nothing without
        `stop_on_kill`, or if no job runs.
        """
        if self._running_job is None or not self.stop_on_kill:
            return
        name, application_id = self._running_job
        self.log.info("stopping %s (%s)", name, application_id or "which is being submitted")
        self.hook.kill(name, application_id)


def task_run(context: Any, retries: int) -> TaskRun:
    """Return the task instance of a context.

    Args:
        context: Airflow's context of the task.
        retries: The task's setting `retries`.
    """
    from submit_tf_job.airflow.task_run import TaskRun

    ti = context["ti"]
    base_url = conf.get("api", "base_url", fallback="")
    cleared_at = max(0, (ti.max_tries or 0) - (retries or 0))
    return TaskRun(base_url, ti.dag_id, ti.task_id, ti.run_id, ti.map_index, cleared_at)


def _facts_for_end(planned: Plan) -> dict[str, Any]:
    """Return the arguments for `execute_complete`, as values of JSON: the URIs of the job's
    outputs, and its deciding task.
    """
    return {
        "outputs": [output.uri for output in planned.job.outputs],
        "deciding_task": planned.job.deciding_task,
    }


def _push_values(context: Any, values: Mapping[str, str]) -> None:
    for key, value in values.items():
        context["ti"].xcom_push(key=key, value=value)


# --- a function as a job ---


class SubmitTFJobDecoratedOperator(DecoratedOperator, SubmitTFJobOperator):
    """Runs a function as a job, and returns what the function returned in the deciding task. This
    needs `hadoop_conf` in the settings, because the result is read from the collected logs.

    Args:
        job: A job spec without `command`, as a mapping.
        kwargs: The other arguments of `SubmitTFJobOperator`.
    """

    custom_operator_name = "@task.submit_tf_job"
    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *SubmitTFJobOperator.template_fields,
    )

    def _job_spec(self) -> Any:
        from submit_tf_job.sdk.call_spec import call_spec

        if not isinstance(self.job, Mapping):
            raise UsageError(f"job: expected a job spec as a mapping, found {self.job!r}")
        if self.hook.get_conn().settings.hadoop_conf is None:
            raise SettingsError(
                "a function's result is read from the collected logs, and hadoop_conf is not set",
                hint="set hadoop_conf to a directory with the cluster's yarn-site.xml and "
                "core-site.xml",
            )
        # the files are needed until the job is submitted: removed with this object
        self._files = TemporaryDirectory(prefix="submit_tf_job-call-")
        args, kwargs = tuple(self.op_args), dict(self.op_kwargs)
        return call_spec(self.python_callable, args, kwargs, self.job, Path(self._files.name))

    def _value_of_success(self, context: Any, job: Mapping[str, Any], deciding_task: str) -> Any:
        from submit_tf_job.sdk.functions import result_of

        context["ti"].xcom_push(key="job", value=job)
        handle = self.hook.get_conn().attach(str(job["application_id"]))
        return result_of(handle, deciding_task)


def submit_tf_job_task(
    python_callable: Callable[..., Any] | None = None,
    multiple_outputs: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Make a task from a function, which runs as a job on YARN.

    Args:
        python_callable: The function.
        multiple_outputs: If the function returns a mapping, push each key of it as a separate XCom.
        kwargs: The arguments of `SubmitTFJobOperator`.
    """
    return task_decorator_factory(
        python_callable=python_callable,
        multiple_outputs=multiple_outputs,
        decorated_operator_class=SubmitTFJobDecoratedOperator,
        **kwargs,
    )
