"""Commands list and history."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from submit_tf_job import operations
from submit_tf_job.cli.context import Context, command, completed
from submit_tf_job.cli.following import seconds
from submit_tf_job.errors import UsageError
from submit_tf_job.jsonview import listing_object
from submit_tf_job.report.job_table import history_lines, listing_lines

if TYPE_CHECKING:
    from submit_tf_job.operations.listing import JobSelection

DEFAULT_LIMIT = 50

OwnerOption = Annotated[
    str | None, typer.Option("--owner", metavar="NAME", help="Jobs of this user; default: yours.")
]
EverybodyOption = Annotated[bool, typer.Option("--all-users", "-a", help="Jobs of all users.")]
QueueOption = Annotated[
    str | None, typer.Option("--queue", metavar="NAME", help="Jobs in this queue.")
]
StateOption = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="STATE",
        help="pending, running, succeeded, failed, stopped, or active; may be given more than "
        "once.",
        autocompletion=completed("state"),
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option("--since", metavar="DURATION", help="Submitted in the last 90m, 12h, 7d."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "list")(list_jobs)
    command(app, "history")(history)


def list_jobs(
    context: Context,
    owner: OwnerOption = None,
    everybody: EverybodyOption = False,
    queue: QueueOption = None,
    state: StateOption = None,
    since: SinceOption = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="Show at most N jobs, the newest.")
    ] = DEFAULT_LIMIT,
    runs: Annotated[
        bool, typer.Option("--runs", help="A row for each run, instead of each job's newest.")
    ] = False,
) -> None:
    """List jobs by their newest run, the newest first, with one request for any number of jobs.

    The state is YARN's only; `status` and `describe` also read the job's report.

    \b
    Examples:
      submit_tf_job list
      submit_tf_job list --runs
      submit_tf_job list --state active --queue ml --all-users
      submit_tf_job list --state failed --since 24h -o json | jq -r '.jobs[].name'
    """
    settings = context.settings()
    chosen = replace(
        selection(settings.user, owner, everybody, queue, state, since, limit), every_run=runs
    )
    jobs = operations.list_jobs(operations.connect(settings), chosen)
    context.result(
        listing_lines(jobs, width=context.width, with_user=chosen.user != settings.user, runs=runs),
        lambda: listing_object(jobs),
    )


def history(
    context: Context,
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB]", help="Job; without it, all jobs.", autocompletion=completed("job")
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="Show at most N runs, the newest.")
    ] = DEFAULT_LIMIT,
) -> None:
    """List runs with how they ended, from the records that each leaves in the staging directory.

    The records stay when the ResourceManager has forgotten a run, and when `delete` has removed it.

    \b
    Examples:
      submit_tf_job history mnist
      submit_tf_job history mnist -o json | jq -r '.runs[].end.state'
    """
    records = operations.run_history(operations.connect(context.settings()), job, limit)
    context.result(
        history_lines(records, width=context.width),
        lambda: {"kind": "RunHistory", "format": 1, "runs": records},
    )


def selection(
    me: str,
    owner: str | None,
    everybody: bool,
    queue: str | None,
    state: list[str] | None,
    since: str | None,
    limit: int | None,
) -> JobSelection:
    """Build the selection from the options.

    Raises:
        UsageError: The options contradict each other, or a state does not exist.
    """
    from submit_tf_job.observation import JobState
    from submit_tf_job.operations.listing import LISTED_STATES, JobSelection

    if owner and everybody:
        raise UsageError(
            "--owner selects one user, and --all-users all users", hint="leave one of them out"
        )
    words = {found.value.lower(): {found} for found in LISTED_STATES} | {
        "active": {JobState.PENDING, JobState.RUNNING}
    }
    wanted: set[JobState] = set()
    for word in state or ():
        if word.lower() not in words:
            raise UsageError(f"--state: {word!r} is not a state", hint=f"one of {', '.join(words)}")
        wanted |= words[word.lower()]
    user = None if everybody else owner or me
    return JobSelection(
        user=user,
        queue=queue,
        states=frozenset(wanted),
        within_s=seconds(since, "--since"),
        limit=limit,
    )
