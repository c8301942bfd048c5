"""Commands stop, release, delete, scale, restart, priority, move and extend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from submit_tf_job.cli.context import Context, JobArgument, completed
from submit_tf_job.cli.jobs import json_of_job, seconds
from submit_tf_job.errors import UsageError
from submit_tf_job.operations import change
from submit_tf_job.operations.delete import delete as delete_job
from submit_tf_job.operations.delete import owner
from submit_tf_job.operations.stop import release as release_job
from submit_tf_job.operations.stop import stop as stop_job
from submit_tf_job.report.job_text import job_lines

WaitOption = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Return only when the change has taken effect.")
]


def scale(
    context: Context,
    job: JobArgument,
    target: Annotated[
        str,
        typer.Argument(
            metavar="ROLE=N",
            help="The role, and its new number of tasks.",
            autocompletion=completed("role="),
        ),
    ],
    wait: WaitOption = True,
) -> None:
    """Change the number of tasks of a sidecar or an elastic role while the job runs.

    An elastic role has `instances: {min, max}` in the job spec. All tasks of its job start again:
    at once with fewer tasks, `grow_after` after their last start with more.

    \b
    Example: submit_tf_job scale mnist monitor=2
             submit_tf_job scale mnist worker=4
    """
    role, _, count = target.partition("=")
    if not role or not (count.isascii() and count.isdecimal()):
        raise UsageError(f"{target!r} is not ROLE=N", hint="such as monitor=2")
    _print_change(context, change.scale(context.cluster(), job, role, int(count), wait=wait))


def restart(
    context: Context,
    job: JobArgument,
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK", help="Task, such as worker-1.", autocompletion=completed("task")
        ),
    ],
    wait: WaitOption = True,
) -> None:
    """End one task, so that YARN starts it again in a new container. Its role needs restarts left.

    \b
    Example: submit_tf_job restart mnist worker-1
    """
    _print_change(context, change.restart(context.cluster(), job, task, wait=wait))


def priority(
    context: Context,
    job: JobArgument,
    value: Annotated[int, typer.Argument(metavar="N", help="0 or more; higher goes first.")],
) -> None:
    """Change a job's priority within its queue.

    \b
    Example: submit_tf_job priority mnist 5
    """
    _print_change(context, change.set_priority(context.cluster(), job, value))


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
    _print_change(context, change.move(context.cluster(), job, queue, wait=wait))


def extend(
    context: Context,
    job: JobArgument,
    lifetime: Annotated[
        str, typer.Argument(metavar="DURATION", help="Least time limit from now: 90m, 12h, 2d.")
    ],
) -> None:
    """Extend a running job's time limit to at least DURATION from now. Never shortens it.

    \b
    Example: submit_tf_job extend mnist 12h
    """
    _print_change(
        context, change.extend(context.cluster(), job, seconds(lifetime, "DURATION") or 0)
    )


def _print_change(context: Context, made: change.Change) -> None:
    from submit_tf_job.report.follow_text import change_object

    context.result([made.message], lambda: change_object(made))


# --- stop and delete ------------------------------------------------------------------------------

YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask, even for another user's job.")
]


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
    cluster = context.cluster()
    theirs, me = owner(cluster, job), cluster.settings.user
    if theirs not in (None, me):
        context.confirm(f"{job} is a job of {theirs}, and you are {me}. Stop it?", yes=yes)
    context.interrupted = (
        f"The request to stop {job} may have been sent; check with: submit_tf_job status {job}"
    )
    status = stop_job(
        cluster, job, wait=wait, grace_s=seconds(grace, "--grace"), on_wait=context.say
    )
    context.result(job_lines(status), lambda: json_of_job(status))


def release(context: Context, job: JobArgument) -> None:
    """End the hold of the container in which a job failed (hold_on_failure).

    \b
    Example: submit_tf_job release mnist
    """
    status = release_job(context.cluster(), job)
    context.result(job_lines(status), lambda: json_of_job(status))


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
    deleted = delete_job(
        context.cluster(),
        job,
        force=force,
        on_trouble=lambda error: context.say(f"{error.message}; {error.hint}"),
    )
    text = f"deleted: {', '.join(deleted)}" if deleted else f"nothing of {job} to delete"
    context.result([text], lambda: _json_of_deletion(job, deleted))
    if deleted:
        what = "it until YARN forgets its application"
        if len(deleted) > 1:
            what = "them until YARN forgets their applications"
        context.say(f"list, status and logs show {what}")


def _json_of_deletion(job: str, deleted: Sequence[str]) -> dict[str, Any]:
    """Return the object for `-o json`, which alone needs the classes of `jsonview`."""
    from submit_tf_job.jsonview import deletion_object

    return deletion_object(job, deleted)
