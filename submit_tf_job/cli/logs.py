"""logs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from submit_tf_job import api
from submit_tf_job.cli.door import Context, JobArgument, coloured, command
from submit_tf_job.cli.follow import seconds
from submit_tf_job.report.logs import inventory_lines, inventory_object, log_json, log_text


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "logs")(logs)


def logs(
    context: Context,
    job: JobArgument,
    task: Annotated[str | None, typer.Argument(metavar="[ROLE|TASK]", help="worker, worker-0, am; without it, every task.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job is over.")] = False,
    tail: Annotated[int | None, typer.Option("--tail", metavar="N", help="Only the last N lines of each file.")] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="DURATION", help="Only the last 90s, 15m, 2h.")] = None,
    file: Annotated[list[str] | None, typer.Option("--file", metavar="NAME[,NAME]", help="Files; stdout.txt and stderr.txt.")] = None,
    grep: Annotated[str | None, typer.Option("--grep", metavar="REGEX", help="Only lines that match.")] = None,
    am: Annotated[bool, typer.Option("--am", help="Logs of YARN's ApplicationMaster for this job.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the files instead.")] = False,
    prefix: Annotated[bool | None, typer.Option("--prefix/--no-prefix", help="Begin lines with their task, or not.")] = None,
) -> None:
    """Show what tasks wrote, in order of time: of a job that runs, or one that is over. -o json gives an object per line.

    \b
    Examples:
      submit_tf_job logs mnist worker-0 --tail 100
      submit_tf_job logs mnist -f --grep 'loss|Error'
      submit_tf_job logs application_1795256400000_0007 --am
    """
    cluster = api.connect(context.settings())
    if list_:
        inventory = api.log_files(cluster, job, task, am=am, say=context.say)
        context.result(inventory_lines(inventory), lambda: inventory_object(inventory))
        return
    names = [name for given in file or [] for name in given.split(",") if name]
    since_s = seconds(since, "--since")
    reading = api.logs(cluster, job, task, files=names, tail=tail, since_s=since_s, grep=grep, am=am, follow=follow, say=context.say)
    context.interrupted = f"{job} goes on." if reading.following else ""
    for text in log_json(reading) if context.json else log_text(reading, prefix=prefix, colours=coloured(sys.stdout)):
        sys.stdout.write(text)
        if reading.following:
            sys.stdout.flush()
