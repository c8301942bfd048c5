"""status and wait."""

from __future__ import annotations

from typing import Annotated

import typer

from submit_tf_job import api
from submit_tf_job.cli.door import Context, JobArgument, command
from submit_tf_job.cli.follow import finish, seconds, talking
from submit_tf_job.errors import UsageError
from submit_tf_job.observation import JobState
from submit_tf_job.report.job import job_lines, job_object


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "status")(status)
    command(app, "wait")(wait)


def status(context: Context, job: JobArgument) -> None:
    """Show how a job stands. The exit status is 0 whenever that could be found out; `wait` returns the job's own.

    \b
    Examples:
      submit_tf_job status mnist
      submit_tf_job status application_1795256400000_0007 -o json | jq -r .state
    """
    cluster = api.connect(context.settings())
    look = api.status(cluster, job)
    pending = api.why_pending(cluster, look) if api.is_waiting(look) else ()
    cause = api.why_failed(cluster, look)
    context.result(job_lines(look, pending, cause), lambda: job_object(look, pending, cause))


def wait(
    context: Context,
    job: JobArgument,
    condition: Annotated[str, typer.Option("--for", metavar="ready|done", help="ready: every task is there; done: it is over.")] = "done",
    timeout: Annotated[str | None, typer.Option("--timeout", metavar="DURATION", help="Give up after 90s, 15m, 2h.")] = None,
) -> int:
    """Wait until a job is ready or done; the exit status is the job's.

    \b
    Examples:
      submit_tf_job wait mnist
      submit_tf_job wait mnist --for ready --timeout 15m
    """
    if condition not in ("ready", "done"):
        raise UsageError(f"--for takes ready or done, not {condition!r}")
    timeout_s = seconds(timeout)
    cluster = api.connect(context.settings())
    ready = (JobState.RUNNING, JobState.FINISHING)
    ref = api.find(cluster, job)
    look = talking(
        context,
        ref,
        lambda talk: api.follow(
            cluster,
            ref,
            until=lambda look: condition == "ready" and look.verdict.state in ready,
            timeout_s=timeout_s,
            on_look=talk.look,
            on_trouble=talk.trouble,
        ),
        why=lambda look: api.why_pending(cluster, look),
    )
    return finish(context, look, api.why_failed(cluster, look))
