"""stop and delete."""

from __future__ import annotations

from typing import Annotated

import typer

from submit_tf_job import api
from submit_tf_job.cli.door import Context, JobArgument, command
from submit_tf_job.report.change import deletion_object
from submit_tf_job.report.job import job_lines, job_object

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, even if the job is somebody else's.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "stop")(stop)
    command(app, "delete")(delete)


def stop(
    context: Context,
    job: JobArgument,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Return only when YARN says that the job is over.")] = True,
    yes: YesOption = False,
) -> None:
    """Stop a job. A job that is over stays as it is.

    \b
    Examples:
      submit_tf_job stop mnist
      submit_tf_job stop application_1795256400000_0007 --yes
    """
    cluster = api.connect(context.settings())
    _ask(context, cluster, job, yes)
    context.interrupted = f"Stopping {job} may have been asked for already; submit_tf_job status {job} tells."
    look = api.stop(cluster, job, wait=wait)
    context.result(job_lines(look), lambda: job_object(look))


def delete(
    context: Context,
    job: JobArgument,
    force: Annotated[bool, typer.Option("--force", help="Stop the job first if it is running.")] = False,
) -> None:
    """Forget a job, free its name, and remove the files that were staged for it. What it wrote stays, and so do its logs.

    \b
    Example: submit_tf_job delete mnist
    """
    deleted = api.delete(
        api.connect(context.settings()), job, force=force, on_trouble=lambda error: context.say(f"{error.message}; {error.hint}")
    )
    context.result(
        [f"{job} is deleted" if deleted else f"there is no job {job}; nothing to delete"],
        lambda: deletion_object(job, deleted=deleted),
    )


def _ask(context: Context, cluster: api.Cluster, job: str, yes: bool) -> None:
    owner = api.owner(cluster, job)
    if owner is not None and owner != cluster.settings.user:
        context.confirm(f"{job} is a job of {owner}, and you are {cluster.settings.user}. Stop it?", yes=yes)
