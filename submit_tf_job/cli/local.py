"""Command local."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from submit_tf_job.cli.context import Context, SpecArgument, coloured
from submit_tf_job.cli.jobs import FromOption, NameOption, SetOption, finish, read_job, seconds
from submit_tf_job.operations.data_check import DataCheck
from submit_tf_job.operations.follow import Event, Restarts
from submit_tf_job.settings import process_environment

if TYPE_CHECKING:
    from submit_tf_job.observation import JobStatus


def local(
    context: Context,
    spec: SpecArgument,
    overrides: SetOption = None,
    name: NameOption = None,
    dialect: FromOption = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="End the tasks after 90s, 15m, 2h.")
    ] = None,
    docker: Annotated[
        bool,
        typer.Option(
            "--docker", help="Run each task in a container of its image instead of a process."
        ),
    ] = False,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Keep working directories and logs, and print their path."),
    ] = False,
) -> int:
    """Run a job on this machine, one process or container per task; the exit status is the job's.

    The tasks get the same TF_CONFIG, files and environment as on YARN, and run under the same
    bootstrap. As processes they use the programs of your PATH; with --docker they run in their
    images, on a network of their own with the host names of YARN. Memory limits and queues do not
    apply. Ctrl-C ends all of them.

    \b
    Examples:
      submit_tf_job local train.yaml
      submit_tf_job local train.yaml --docker
      submit_tf_job local train.yaml --set roles.worker.instances=2 --timeout 10m
    """
    from submit_tf_job.container.contract import OUTCOME_MARK
    from submit_tf_job.local import run_local
    from submit_tf_job.report.follow_text import EventLines
    from submit_tf_job.report.log_text import TaskPrinter

    settings = context.settings()
    job = read_job(spec, settings, overrides, name, context.say, dialect)
    stream = sys.stderr if context.json else sys.stdout
    printer = TaskPrinter(
        [f"{role.name}-{index}" for role in job.roles.values() for index in range(role.instances)],
        coloured(stream),
    )

    def show(task: str, _file: str, text: str) -> None:
        if not text.startswith(OUTCOME_MARK) and not (context.quiet and context.json):
            stream.write(printer.line(task, text))
            stream.flush()

    lines, restarts = EventLines(), Restarts()

    def report(status: JobStatus) -> None:
        events: list[Event] = [*restarts.notices(status), status]
        for line in (line for event in events for line in lines.lines(event)):
            context.say(line)

    data = DataCheck(job, settings, here=True)
    data.look()
    context.interrupted = f"{job.name} was ended."
    runner = None
    if docker:
        from submit_tf_job.doctor.images import docker_of
        from submit_tf_job.local.containers import Containers

        runner = Containers(docker_of(settings), job, settings.dns.domain or "", context.say)
    done = run_local(
        job,
        settings.user,
        process_environment(),
        port_range=settings.ports.range,
        timeout_s=seconds(timeout),
        keep=keep,
        on_line=show,
        on_status=report,
        lists=data.lists,
        runner=runner,
    )
    if done.directory is not None:
        context.say(f"working directories and logs: {done.directory}")
    return finish(context, done.status)
