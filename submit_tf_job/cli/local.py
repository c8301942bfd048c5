"""local."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from submit_tf_job import api
from submit_tf_job.cli.door import Context, SpecArgument, coloured, command
from submit_tf_job.cli.follow import Talk, finish, seconds
from submit_tf_job.cli.jobfile import NameOption, SetOption, read_job
from submit_tf_job.settings import process_environment


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "local")(local)


def local(
    context: Context,
    spec: SpecArgument,
    overrides: SetOption = None,
    name: NameOption = None,
    timeout: Annotated[str | None, typer.Option("--timeout", metavar="DURATION", help="End the tasks after 90s, 15m, 2h.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave working directories and logs, and say where.")] = False,
) -> int:
    """Run a job on this machine without any cluster, one process for each task; the exit status is the job's.

    The tasks find the same TF_CONFIG, files and environment as on YARN, run under the same bootstrap, and use the programs of your PATH.
    Images, memory limits and queues mean nothing here. Ctrl-C ends all of them.

    \b
    Examples:
      submit_tf_job local train.yaml
      submit_tf_job local train.yaml --set roles.worker.instances=2 --timeout 10m
    """
    from submit_tf_job.contract import OUTCOME_MARK
    from submit_tf_job.local import run_local
    from submit_tf_job.report.logs import TaskPrinter

    settings = context.settings()
    job = read_job(spec, settings, overrides, name)
    stream = sys.stderr if context.json else sys.stdout
    printer = TaskPrinter([f"{role.name}-{index}" for role in job.roles.values() for index in range(role.instances)], coloured(stream))

    def show(task: str, _file: str, text: str) -> None:
        if not text.startswith(OUTCOME_MARK) and not (context.quiet and context.json):
            stream.write(printer.line(task, text))
            stream.flush()

    data = api.DataCheck(job, settings, here=True)
    data.look()
    context.interrupted = f"{job.name} was ended."
    done = run_local(
        job,
        settings.user,
        process_environment(),
        port_range=settings["ports.range"],
        timeout_s=seconds(timeout),
        keep=keep,
        on_line=show,
        on_look=Talk(context).look,
        lists=data.lists,
    )
    if done.directory is not None:
        context.say(f"working directories and logs: {done.directory}")
    return finish(context, done.look)
