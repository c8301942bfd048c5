"""start, scale, restart, priority, move, extend."""

from __future__ import annotations

from typing import Annotated

import typer

from submit_tf_job import api
from submit_tf_job.cli.door import Context, JobArgument, command
from submit_tf_job.cli.follow import seconds
from submit_tf_job.errors import UsageError
from submit_tf_job.report.change import change_object

WaitOption = Annotated[bool, typer.Option("--wait/--no-wait", help="Return only when it has taken effect.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for function in (start, scale, restart, priority, move, extend):
        command(app, function.__name__)(function)


def start(context: Context, job: JobArgument, wait: WaitOption = True) -> None:
    """Run a job once more that was stopped or is over, as YARN has stored it. One that runs stays as it is.

    \b
    Example: submit_tf_job start mnist && submit_tf_job watch mnist
    """
    _tell(context, api.start(api.connect(context.settings()), job, wait=wait))


def scale(
    context: Context,
    job: JobArgument,
    target: Annotated[str, typer.Argument(metavar="ROLE=N", help="The role, and how many tasks it is to have.")],
    wait: WaitOption = True,
) -> None:
    """Change the number of a sidecar's tasks while the job runs. What TensorFlow knows of is fixed when it starts.

    \b
    Example: submit_tf_job scale mnist monitor=2
    """
    role, _, count = target.partition("=")
    if not role or not count.isdecimal():
        raise UsageError(f"{target!r} is not ROLE=N", hint="such as monitor=2")
    _tell(context, api.scale(api.connect(context.settings()), job, role, int(count), wait=wait))


def restart(
    context: Context,
    job: JobArgument,
    task: Annotated[str, typer.Argument(metavar="TASK", help="Such as worker-1.")],
    wait: WaitOption = True,
) -> None:
    """End one task, so that YARN starts it again in a new container. Its role must have restarts left.

    \b
    Example: submit_tf_job restart mnist worker-1
    """
    _tell(context, api.restart(api.connect(context.settings()), job, task, wait=wait))


def priority(
    context: Context, job: JobArgument, value: Annotated[int, typer.Argument(metavar="N", help="0 or more; higher goes first.")]
) -> None:
    """Change a job's priority within its queue.

    \b
    Example: submit_tf_job priority mnist 5
    """
    _tell(context, api.set_priority(api.connect(context.settings()), job, value))


def move(
    context: Context,
    job: JobArgument,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.")],
    wait: WaitOption = True,
) -> None:
    """Move a job to another queue, waiting or running.

    \b
    Example: submit_tf_job move mnist research
    """
    _tell(context, api.move(api.connect(context.settings()), job, queue, wait=wait))


def extend(
    context: Context,
    job: JobArgument,
    lifetime: Annotated[str, typer.Argument(metavar="DURATION", help="How long it may at least run from now: 90m, 12h, 2d.")],
) -> None:
    """Let a running job live for at least so long from now. A longer limit, or none, stays as it is.

    \b
    Example: submit_tf_job extend mnist 12h
    """
    _tell(context, api.extend(api.connect(context.settings()), job, seconds(lifetime, "DURATION") or 0))


def _tell(context: Context, change: api.Change) -> None:
    context.result([change.message], lambda: change_object(change))
