"""The decorator `@task.submit_tf_job`: a function that runs as a job on YARN."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow.sdk.bases.decorator import DecoratedOperator, task_decorator_factory

from submit_tf_job.airflow.operator import SubmitTFJobOperator


class SubmitTFJobDecoratedOperator(DecoratedOperator, SubmitTFJobOperator):
    """Runs a function as a job, and returns what it returned in the deciding task.

    Args:
        job: A job spec without `command`, as a mapping.
        kwargs: The other arguments of `SubmitTFJobOperator`.
    """

    custom_operator_name = "@task.submit_tf_job"
    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *SubmitTFJobOperator.template_fields,
    )

    def _spec(self) -> Any:
        from submit_tf_job.errors import SettingsError, UsageError
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

    def _result(self, context: Any, job: Mapping[str, Any], deciding_task: str) -> Any:
        from submit_tf_job.sdk.functions import result_of

        context["ti"].xcom_push(key="job", value=job)
        handle = self.hook.get_conn().attach(str(job["application_id"]))
        return result_of(handle, deciding_task)


def submit_tf_job_task(
    python_callable: Callable[..., Any] | None = None,
    multiple_outputs: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Make a task of a function, which runs as a job on YARN.

    Args:
        python_callable: The function.
        multiple_outputs: Push each key of a mapping that it returns as an XCom of its own.
        kwargs: The arguments of `SubmitTFJobOperator`.
    """
    return task_decorator_factory(
        python_callable=python_callable,
        multiple_outputs=multiple_outputs,
        decorated_operator_class=SubmitTFJobDecoratedOperator,
        **kwargs,
    )
