"""Command usage: what a job uses of what it asked for, and the account of a team."""

from __future__ import annotations

from typing import Annotated

import typer

from submit_tf_job.cli.context import Context, completed
from submit_tf_job.cli.jobs import seconds
from submit_tf_job.errors import UsageError

BY = ("user", "queue", "job")


def usage(
    context: Context,
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB]",
            help="Job or run; without it, the account of all jobs since a time.",
            autocompletion=completed("job"),
        ),
    ] = None,
    tasks: Annotated[bool, typer.Option("--tasks", help="Show each task, too.")] = False,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="DURATION", help="Runs submitted in the last 90m, 12h, 7d."
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--by", metavar="user|queue|job", help="What has a row, with --since; default user."
        ),
    ] = None,
) -> None:
    """Show what a job's roles use of what they asked for, what it is charged, and what to ask for
    next time.

    While it runs and afterwards; once YARN has forgotten a run, by its record.

    \b
    Examples:
      submit_tf_job usage mnist
      submit_tf_job usage --since 7d --by queue
    """
    if (job is None) == (since is None):
        raise UsageError("give a job, or --since DURATION for the account of all jobs")
    if job is None:
        if tasks:
            raise UsageError("--tasks is for a job; the account of all jobs has no tasks")
        _print_account(context, seconds(since, "--since"), by or BY[0])
        return
    if by is not None:
        raise UsageError("--by is for the account of all jobs, with --since DURATION")
    from submit_tf_job.jsonview import usage_object
    from submit_tf_job.operations.usage import usage_of
    from submit_tf_job.report.usage_text import usage_lines

    found = usage_of(context.cluster(), job)
    context.result(
        usage_lines(found, tasks=tasks, width=context.width), lambda: usage_object(found)
    )


def _print_account(context: Context, since_s: float | None, by: str) -> None:
    from submit_tf_job.json_values import document, plain
    from submit_tf_job.operations.listing import JobSelection
    from submit_tf_job.operations.usage import accounts
    from submit_tf_job.report.usage_text import account_lines

    if by not in BY:
        raise UsageError(f"--by takes {', '.join(BY[:-1])} or {BY[-1]}, not {by!r}")
    rows = accounts(context.cluster(), by, JobSelection(within_s=since_s))
    context.result(
        account_lines(by, rows, context.width),
        lambda: document("Account", by=by, since_s=since_s, rows=list(map(plain, rows))),
    )
