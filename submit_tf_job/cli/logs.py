"""Command logs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from submit_tf_job import operations
from submit_tf_job.cli.context import Context, JobArgument, coloured, command, completed
from submit_tf_job.cli.following import seconds
from submit_tf_job.report.log_text import inventory_lines, inventory_object, log_json, log_text


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "logs")(logs)


def logs(
    context: Context,
    job: JobArgument,
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="[ROLE|TASK]",
            help="worker, worker-0, am; without it, every task.",
            autocompletion=completed("role-or-task"),
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue until the job is over.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", metavar="N", help="Only the last N lines of each file.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="DURATION", help="Only lines of the last 90s, 15m, 2h."),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file", metavar="NAME[,NAME]", help="Files; default: stdout.txt and stderr.txt."
        ),
    ] = None,
    grep: Annotated[
        str | None, typer.Option("--grep", metavar="REGEX", help="Only lines that match.")
    ] = None,
    am: Annotated[
        bool, typer.Option("--am", help="Logs of YARN's ApplicationMaster for this job.")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the files instead.")] = False,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", "-t", help="Begin each line with the local time.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Also TFJOB_PROGRESS lines, outcomes and locale warnings.")
    ] = False,
    prefix: Annotated[
        bool | None,
        typer.Option("--prefix/--no-prefix", help="Begin each line with its task, or not."),
    ] = None,
) -> None:
    """Show what the tasks of a running or finished job wrote, in order of time.

    With -o json each line is an object.

    \b
    Examples:
      submit_tf_job logs mnist worker-0 --tail 100
      submit_tf_job logs mnist -f --grep 'loss|Error'
      submit_tf_job logs application_1795256400000_0007 --am
    """
    cluster = operations.connect(context.settings())
    if list_:
        inventory = operations.log_files(cluster, job, task, am=am, say=context.say)
        context.result(inventory_lines(inventory), lambda: inventory_object(inventory))
        return
    names = [name for given in file or [] for name in given.split(",") if name]
    since_s = seconds(since, "--since")
    reading = operations.logs(
        cluster,
        job,
        task,
        files=names,
        tail=tail,
        since_s=since_s,
        grep=grep,
        am=am,
        follow=follow,
        raw=raw,
        say=context.say,
    )
    if reading.following:
        context.interrupted = f"Job {job} is still running."
    for text in (
        log_json(reading)
        if context.json
        else log_text(reading, prefix=prefix, colours=coloured(sys.stdout), timestamps=timestamps)
    ):
        sys.stdout.write(text)
        if reading.following:
            sys.stdout.flush()
