"""Commands stop and delete."""

from __future__ import annotations

from typing import Annotated

import typer

from submit_tf_job import operations
from submit_tf_job.cli.context import Context, JobArgument, command
from submit_tf_job.cli.following import seconds
from submit_tf_job.report.change_text import deletion_object
from submit_tf_job.report.job_text import job_lines, job_object

YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask, even for another user's job.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "stop")(stop)
    command(app, "delete")(delete)


def stop(
    context: Context,
    job: JobArgument,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait",
            help="Return only when the job is over and its containers have ended.",
        ),
    ] = True,
    grace: Annotated[
        str | None,
        typer.Option(
            "--grace",
            metavar="DURATION",
            help="Time for the tasks to save and end before YARN stops the job, such as 2m; "
            "`stop_grace` of its spec, else none. 0s: stop at once.",
        ),
    ] = None,
    yes: YesOption = False,
) -> None:
    """Stop a job. A finished job is not changed.

    With --grace every task that trains or evaluates gets SIGTERM, and can write a checkpoint. The
    job is stopped when all of them have ended, or that time is over.

    Exit status 8 means that YARN has ended the job, but containers of it still run a minute later.

    \b
    Examples:
      submit_tf_job stop mnist
      submit_tf_job stop mnist --grace 2m
      submit_tf_job stop application_1795256400000_0007 --yes
    """
    cluster = operations.connect(context.settings())
    _confirm(context, cluster, job, yes)
    context.interrupted = (
        f"The request to stop {job} may have been sent; check with: submit_tf_job status {job}"
    )
    status = operations.stop(
        cluster, job, wait=wait, grace_s=seconds(grace, "--grace"), on_wait=context.say
    )
    context.result(job_lines(status), lambda: job_object(status))


def delete(
    context: Context,
    job: JobArgument,
    force: Annotated[
        bool, typer.Option("--force", help="Stop the job first if it is running.")
    ] = False,
) -> None:
    """Delete all ended runs of a job and their staged files, or one run. Logs and outputs stay.

    \b
    Examples:
      submit_tf_job delete mnist
      submit_tf_job delete mnist-4k3f7qa2
    """
    deleted = operations.delete(
        operations.connect(context.settings()),
        job,
        force=force,
        on_trouble=lambda error: context.say(f"{error.message}; {error.hint}"),
    )
    text = f"deleted: {', '.join(deleted)}" if deleted else f"nothing of {job} to delete"
    context.result([text], lambda: deletion_object(job, deleted))


def _confirm(context: Context, cluster: operations.Cluster, job: str, yes: bool) -> None:
    owner = operations.owner(cluster, job)
    if owner is not None and owner != cluster.settings.user:
        context.confirm(
            f"{job} is a job of {owner}, and you are {cluster.settings.user}. Stop it?", yes=yes
        )
