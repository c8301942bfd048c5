"""stop and delete."""

from __future__ import annotations

from typing import Annotated

import typer

from submit_tf_job import api
from submit_tf_job.cli.door import Context, JobArgument, command
from submit_tf_job.report.job import job_lines, job_object


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "stop")(stop)
    command(app, "delete")(delete)


def stop(
    context: Context,
    job: JobArgument,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Return only when YARN says that the job is over.")] = True,
) -> None:
    """Stop a job. A job that is over stays as it is.

    \b
    Example: submit_tf_job stop mnist
    """
    context.interrupted = f"Stopping {job} may have been asked for already; submit_tf_job status {job} tells."
    look = api.stop(api.connect(context.settings()), job, wait=wait)
    context.result(job_lines(look), lambda: job_object(look))


def delete(
    context: Context,
    job: JobArgument,
    force: Annotated[bool, typer.Option("--force", help="Stop the job first if it is running.")] = False,
) -> None:
    """Forget a job and free its name. What it wrote stays, and so do its logs.

    \b
    Example: submit_tf_job delete mnist
    """
    deleted = api.delete(api.connect(context.settings()), job, force=force)
    context.result(
        [f"{job} is deleted" if deleted else f"there is no job {job}; nothing to delete"],
        lambda: {"kind": "Deletion", "format": 1, "job": job, "deleted": deleted},
    )
