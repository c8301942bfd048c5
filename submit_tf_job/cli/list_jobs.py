"""list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from submit_tf_job import api
from submit_tf_job.cli.door import Context, command
from submit_tf_job.cli.follow import seconds
from submit_tf_job.errors import UsageError
from submit_tf_job.report.listing import listing_lines, listing_object

if TYPE_CHECKING:
    from submit_tf_job.fleet import Selection

DEFAULT_LIMIT = 50

OwnerOption = Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Jobs of this user; default: yours.")]
EverybodyOption = Annotated[bool, typer.Option("--all-users", "-a", help="Jobs of everybody.")]
QueueOption = Annotated[str | None, typer.Option("--queue", metavar="NAME", help="Jobs in this queue.")]
StateOption = Annotated[
    list[str] | None,
    typer.Option("--state", metavar="STATE", help="pending, running, succeeded, failed, stopped, or active; may be given more than once."),
]
SinceOption = Annotated[str | None, typer.Option("--since", metavar="DURATION", help="Submitted in the last 90m, 12h, 7d.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "list")(list_jobs)


def list_jobs(
    context: Context,
    owner: OwnerOption = None,
    everybody: EverybodyOption = False,
    queue: QueueOption = None,
    state: StateOption = None,
    since: SinceOption = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most so many, the newest.")] = DEFAULT_LIMIT,
) -> None:
    """List jobs, the newest first, with one request however many there are.

    The state is YARN's word alone; `status` and `describe` ask the job, too.

    \b
    Examples:
      submit_tf_job list
      submit_tf_job list --state active --queue ml --all-users
      submit_tf_job list --state failed --since 24h -o json | jq -r '.jobs[].name'
    """
    settings = context.settings()
    chosen = selection(settings.user, owner, everybody, queue, state, since, limit)
    jobs = api.list_jobs(api.connect(settings), chosen)
    context.result(listing_lines(jobs, width=context.width, with_user=chosen.user != settings.user), lambda: listing_object(jobs))


def selection(
    me: str, owner: str | None, everybody: bool, queue: str | None, state: list[str] | None, since: str | None, limit: int | None
) -> Selection:
    """Build the selection that the options ask for.

    Raises:
        UsageError: They contradict each other, or name no state.
    """
    from submit_tf_job.fleet import LISTED_STATES, Selection
    from submit_tf_job.observation import JobState

    if owner and everybody:
        raise UsageError("--owner names one user, and --all-users asks for everybody", hint="leave one of them out")
    words = {found.value.lower(): {found} for found in LISTED_STATES} | {"active": {JobState.PENDING, JobState.RUNNING}}
    wanted: set[JobState] = set()
    for word in state or ():
        if word.lower() not in words:
            raise UsageError(f"--state: there is no state {word!r}", hint=f"one of {', '.join(words)}")
        wanted |= words[word.lower()]
    user = None if everybody else owner or me
    return Selection(user=user, queue=queue, states=frozenset(wanted), within_s=seconds(since, "--since"), limit=limit)
