"""Commands status and wait."""

from __future__ import annotations

from typing import Annotated

import typer

from submit_tf_job import operations
from submit_tf_job.cli.context import Context, JobArgument, command, completed
from submit_tf_job.cli.following import print_events, seconds
from submit_tf_job.errors import UsageError
from submit_tf_job.observation import JobState
from submit_tf_job.report.job_text import job_lines, job_object


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
    timeout_s, cluster = seconds(timeout), operations.connect(context.settings())
    ref = operations.find(cluster, job)
    ready = (JobState.RUNNING, JobState.FINISHING)
    events = operations.follow(
        cluster,
        ref,
        own=True,
        next_runs=ref.name == job,
        until=lambda status: condition == "ready" and status.state in ready,
        timeout_s=timeout_s,
    )
    return print_events(context, ref.name, events, cluster.sleep)
