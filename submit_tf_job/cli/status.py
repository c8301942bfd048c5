"""Commands status and wait."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from submit_tf_job import operations
from submit_tf_job.cli.context import Context, JobArgument, command, completed
from submit_tf_job.cli.following import finish, follow_printing, seconds
from submit_tf_job.errors import UsageError
from submit_tf_job.observation import JobState
from submit_tf_job.report.job_text import job_lines, job_object

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.observation import JobStatus


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "status")(status)
    command(app, "wait")(wait)


def status(context: Context, job: JobArgument) -> None:
    """Show the state of a job. The exit status is 0 even if the job failed; `wait` returns the
    job's.

    \b
    Examples:
      submit_tf_job status mnist
      submit_tf_job status application_1795256400000_0007 -o json | jq -r .state
    """
    cluster = operations.connect(context.settings())
    status = operations.status(cluster, job)
    pending = operations.why_pending(cluster, status) if operations.is_waiting(status) else ()
    cause = operations.why_failed(cluster, status)
    context.result(job_lines(status, pending, cause), lambda: job_object(status, pending, cause))


def wait(
    context: Context,
    job: JobArgument,
    condition: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="ready|done",
            help="ready: all tasks run; done: the job is over.",
            autocompletion=completed("for"),
        ),
    ] = "done",
    timeout: Annotated[
        str | None,
        typer.Option("--timeout", metavar="DURATION", help="Give up after 90s, 15m, 2h."),
    ] = None,
) -> int:
    """Wait until a job is ready or done; the exit status is the job's.

    A job that is submitted again with more memory (retries.memory) is followed to its last run.

    \b
    Examples:
      submit_tf_job wait mnist
      submit_tf_job wait mnist --for ready --timeout 15m
    """
    if condition not in ("ready", "done"):
        raise UsageError(f"--for takes ready or done, not {condition!r}")
    timeout_s = seconds(timeout)
    cluster = operations.connect(context.settings())
    ref: operations.JobRef | None = operations.find(cluster, job)
    by_name, begun, left_s = ref is not None and ref.name == job, time.monotonic(), timeout_s
    while ref is not None:
        status = _wait_for(context, cluster, ref, condition, left_s)
        cause, ref = operations.why_failed(cluster, status), None
        if by_name:
            ref = _next_run(context, cluster, status, cause)
            left_s = timeout_s and max(1.0, timeout_s - (time.monotonic() - begun))
    return finish(context, status, cause)


def _wait_for(
    context: Context,
    cluster: operations.Cluster,
    ref: operations.JobRef,
    condition: str,
    timeout_s: float | None,
) -> JobStatus:
    ready = (JobState.RUNNING, JobState.FINISHING)
    return follow_printing(
        context,
        ref,
        lambda printer: operations.follow(
            cluster,
            ref,
            until=lambda status: condition == "ready" and status.state in ready,
            own=True,
            timeout_s=timeout_s,
            on_status=printer.update,
            on_trouble=printer.failure,
        ),
        why=lambda status: operations.why_pending(cluster, status),
    )


def _next_run(
    context: Context, cluster: operations.Cluster, status: JobStatus, cause: Cause | None
) -> operations.JobRef | None:
    """Find the next run of a job that is submitted again with more memory."""
    found = operations.next_run(
        cluster, status, cause, on_wait=lambda text: context.say(f"     {text}")
    )
    if found is not None:
        context.say(f"     submitted again as {found.application_id}")
    return found
