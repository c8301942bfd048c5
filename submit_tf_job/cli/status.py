"""Commands status, wait, describe and events."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from submit_tf_job import operations
from submit_tf_job.cli.context import Context, JobArgument, command, completed
from submit_tf_job.cli.following import print_events, seconds
from submit_tf_job.errors import UsageError
from submit_tf_job.jsonview import description_object, job_object
from submit_tf_job.observation import JobState
from submit_tf_job.operations.description import events_of
from submit_tf_job.report.detail_text import description_lines, events_lines, events_object
from submit_tf_job.report.job_text import job_lines

__all__ = []


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "status")(status)
    command(app, "wait")(wait)
    command(app, "describe")(describe)
    command(app, "events")(events)


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


# --- describe and events --------------------------------------------------------------------------


def describe(context: Context, job: JobArgument) -> None:
    """Show a job in detail: verdict and cause, each task, limits, links and the last events.

    \b
    Examples:
      submit_tf_job describe mnist
      submit_tf_job describe mnist -o json | jq '.task_list[].host'
    """
    cluster = operations.connect(context.settings())
    found = operations.describe(cluster, job)
    diagnosis = operations.diagnose(cluster, found)
    lines = description_lines(found, diagnosis, now_ms=int(time.time() * 1000), width=context.width)
    context.result(lines, lambda: description_object(found, diagnosis))


def events(context: Context, job: JobArgument) -> None:
    """Show the events of a job in order of time: YARN's, and those that its tasks reported.

    \b
    Example: submit_tf_job events mnist
    """
    found = operations.describe(operations.connect(context.settings()), job)
    happened = events_of(found)
    context.result(events_lines(happened), lambda: events_object(found.name, happened))
