"""Commands list, history, and watch: a live view of one job, or of all jobs of a selection."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from submit_tf_job.cli.context import Context, completed, printable, takes_ascii_alone
from submit_tf_job.cli.jobs import finish, print_events, seconds
from submit_tf_job.errors import UsageError
from submit_tf_job.operations.listing import Listing, list_jobs
from submit_tf_job.report.list_text import history_lines, listing_lines

if TYPE_CHECKING:
    from submit_tf_job.operations.listing import JobSelection, ListedJob

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


def list_(
    context: Context,
    owner: OwnerOption = None,
    everybody: EverybodyOption = False,
    queue: QueueOption = None,
    state: StateOption = None,
    since: SinceOption = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="Show at most N jobs, the newest.")
    ] = DEFAULT_LIMIT,
    runs: Annotated[
        bool, typer.Option("--runs", help="A row for each run, instead of each job's newest.")
    ] = False,
) -> None:
    """List jobs by their newest run, the newest first, by as many requests as for one job.

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
    jobs = list_jobs(context.cluster(settings), chosen)
    context.result(
        listing_lines(jobs, width=context.width, with_user=chosen.user != settings.user, runs=runs),
        lambda: _json_of_list(jobs),
    )


def _json_of_list(jobs: Sequence[ListedJob]) -> dict[str, object]:
    """Return the object for `-o json`, which alone needs the classes of `jsonview`."""
    from submit_tf_job.jsonview import listing_object

    return listing_object(jobs)


def history(
    context: Context,
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB]",
            help="Job or run; without it, all jobs.",
            autocompletion=completed("job"),
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="Show at most N runs, the newest.")
    ] = DEFAULT_LIMIT,
) -> None:
    """List runs: for how long, how they ended, last metrics, outputs.

    By the records in the staging directory, which stay when the ResourceManager has forgotten a
    run, and when `delete` has removed it.

    \b
    Examples:
      submit_tf_job history mnist
      submit_tf_job history mnist -o json | jq '.runs[].metrics.loss'
    """
    from submit_tf_job.jsonview import history_object
    from submit_tf_job.operations.history import run_history

    runs = run_history(context.cluster(), job, limit)
    context.result(history_lines(runs, width=context.width), lambda: history_object(runs))


def selection(
    me: str,
    owner: str | None,
    everybody: bool,
    queue: str | None,
    state: list[str] | None,
    since: str | None,
    limit: int | None,
) -> JobSelection:
    """Build the selection of jobs from the options.

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


# --- watch ----------------------------------------------------------------------------------------


def watch(
    context: Context,
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB]",
            help="Name or application id; without it, all selected jobs.",
            autocompletion=completed("job"),
        ),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", "-l", help="Show the last log line of each task, too.")
    ] = False,
    every: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Pause between two requests for many jobs."),
    ] = None,
    owner: OwnerOption = None,
    everybody: EverybodyOption = False,
    queue: QueueOption = None,
    since: SinceOption = None,
) -> int:
    """Watch a job until it is over, from any machine; the exit status is the job's.

    Without JOB, watch all selected jobs until all are over. A terminal gets a live view, a file or
    pipe a line for each change. Many jobs take one request at a time. Ctrl-C detaches; the jobs
    continue.

    \b
    Examples:
      submit_tf_job watch mnist
      submit_tf_job watch mnist --lines
      submit_tf_job watch --queue ml --all-users
    """
    settings = context.settings()
    if job is None:
        if lines:
            raise UsageError(
                "--lines shows the log lines of one job", hint="submit_tf_job watch JOB --lines"
            )
        return _watch_all(
            context,
            Listing(
                context.cluster(settings),
                selection(settings.user, owner, everybody, queue, None, since, None),
            ),
            every,
        )
    given = {
        "--owner": owner,
        "--all-users": everybody,
        "--queue": queue,
        "--since": since,
        "--every": every,
    }
    for option, value in given.items():
        if value:
            raise UsageError(
                f"{option} selects among many jobs, but one job is given",
                hint=f"leave out {option}, or {job}",
            )
    from submit_tf_job.operations.follow import follow
    from submit_tf_job.operations.runs import find
    from submit_tf_job.operations.watch_run import until_end
    from submit_tf_job.report.live_view import DETAILS_EVERY_S, JobView

    cluster = context.cluster(settings)
    ref = find(cluster, job)
    events = follow(cluster, ref, details_every_s=DETAILS_EVERY_S)
    if not sys.stdout.isatty() or context.json or context.quiet:
        return print_events(context, ref.name, events, cluster.sleep)
    context.interrupted = (
        f"Job {ref.name} is still running. Reattach: submit_tf_job watch {ref.name}"
    )
    with _live_display() as show:
        live = JobView(
            cluster,
            lambda picture: show(picture.draw),
            with_lines=lines,
            leave="Ctrl-C detaches",
            plain=takes_ascii_alone(sys.stdout),
        )
        end = until_end(events, cluster.sleep, live.take)
    return finish(context, end.status, end.cause)


def _watch_all(context: Context, listing: Listing, every: str | None) -> int:
    from submit_tf_job.jsonview import listed_job_object
    from submit_tf_job.report.list_text import listed_job_line

    looks = listing.watch(
        every_s=seconds(every, "--every") or 5.0,
        on_trouble=lambda error: context.say(f"still trying: {error.message}"),
    )
    context.interrupted = "The jobs keep running."
    if sys.stdout.isatty() and not context.json and not context.quiet:
        with _live_display() as show:
            for jobs, _changed in looks:
                show(
                    lambda width, height, jobs=jobs: _cut_to_height(  # type: ignore[misc]
                        listing_lines(jobs, width=width), height
                    )
                )
        return 0
    for _jobs, changed in looks:
        for job in changed:
            context.result_line(listed_job_line(job), lambda job=job: listed_job_object(job))  # type: ignore[misc]
    return 0


def _cut_to_height(lines: Iterator[str], height: int) -> Iterator[str]:
    found = list(lines)
    yield from found[: height - 1]
    if len(found) >= height:
        yield f"and {len(found) - height + 1} more"


@contextmanager
def _live_display() -> Iterator[Callable[[Callable[[int, int], Iterator[str]]], None]]:
    """Yield a function that shows a picture on the terminal, which is redrawn every second. A
    picture is a function that returns lines for a given width and height.
    """
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False, markup=False, soft_wrap=False)
    picture: list[Callable[[int, int], Iterator[str]]] = []

    def render() -> Text:
        if not picture:
            return Text("looking …")
        return Text.from_ansi(
            "\n".join(
                printable(line, console.file) for line in picture[0](console.width, console.height)
            )
        )

    with Live(get_renderable=render, console=console, refresh_per_second=1) as live:

        def show(draw: Callable[[int, int], Iterator[str]]) -> None:
            picture[:] = [draw]
            live.refresh()

        yield show
