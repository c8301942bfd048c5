"""watch: one job as a live view, or all of one's jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from submit_tf_job import api
from submit_tf_job.cli.door import Context, command, printable
from submit_tf_job.cli.follow import finish, seconds, talking
from submit_tf_job.cli.listing import EverybodyOption, OwnerOption, QueueOption, SinceOption, selection
from submit_tf_job.errors import ClusterUnavailable, UsageError

if TYPE_CHECKING:
    from submit_tf_job.diagnose.model import Cause
    from submit_tf_job.fleet import Fleet
    from submit_tf_job.watch import Look


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "watch")(watch)


def watch(
    context: Context,
    job: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="Name or application id; without it, all of the jobs asked for.")
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", "-l", help="Show the last log line of each task, too.")] = False,
    every: Annotated[str | None, typer.Option("--every", metavar="DURATION", help="Pause between two looks at many jobs.")] = None,
    owner: OwnerOption = None,
    everybody: EverybodyOption = False,
    queue: QueueOption = None,
    since: SinceOption = None,
) -> int:
    """Watch a job until it is over, from any machine; the exit status is the job's. Without JOB, watch all jobs until all are over.

    On a terminal it draws a live view; elsewhere it prints a line for each change. One request for each look, however many jobs there
    are. Ctrl-C leaves, and the jobs go on.

    \b
    Examples:
      submit_tf_job watch mnist
      submit_tf_job watch mnist --lines
      submit_tf_job watch --queue ml --all-users
    """
    settings = context.settings()
    if job is None:
        if lines:
            raise UsageError("--lines shows the log lines of one job", hint="submit_tf_job watch JOB --lines")
        return _watch_all(
            context, api.fleet(api.connect(settings), selection(settings.user, owner, everybody, queue, None, since, None)), every
        )
    given = {"--owner": owner, "--all-users": everybody, "--queue": queue, "--since": since, "--every": every}
    for option, value in given.items():
        if value:
            raise UsageError(f"{option} chooses among many jobs, and one is named", hint=f"leave out {option}, or {job}")
    cluster = api.connect(settings)
    ref = api.find(cluster, job)
    if not sys.stdout.isatty() or context.json or context.quiet:
        look = talking(context, ref, lambda talk: _follow(cluster, ref, talk.look, talk.trouble), why=_why(cluster))
        return finish(context, look, api.why_failed(cluster, look))
    context.interrupted = f"{ref.name} goes on. Watch it again: submit_tf_job watch {ref.name}"
    from submit_tf_job.report.picture import JobPicture

    with _picture() as show:
        live = JobPicture(cluster, lambda picture: show(picture.draw), with_lines=lines, leave="Ctrl-C leaves")
        look = _follow(cluster, ref, live.look, live.trouble)
    return finish(context, look, api.why_failed(cluster, look))


def _why(cluster: api.Cluster) -> Callable[[Look], tuple[Cause, ...]]:
    return lambda look: api.diagnose(cluster, look).pending


def _follow(
    cluster: api.Cluster, ref: api.JobRef, on_look: Callable[[Look], None], on_trouble: Callable[[ClusterUnavailable], None]
) -> Look:
    from submit_tf_job.report.picture import DETAILS_EVERY_S

    return api.follow(cluster, ref, on_look=on_look, on_trouble=on_trouble, details_every_s=DETAILS_EVERY_S)


def _watch_all(context: Context, fleet: Fleet, every: str | None) -> int:
    from submit_tf_job.report.listing import fleet_line, listed_job_object, listing_lines

    looks = fleet.watch(every_s=seconds(every, "--every") or 5.0, on_trouble=lambda error: context.say(f"still trying: {error.message}"))
    context.interrupted = "The jobs go on."
    if sys.stdout.isatty() and not context.json and not context.quiet:
        with _picture() as show:
            for jobs, _changed in looks:
                show(lambda width, height, jobs=jobs: _table(listing_lines(jobs, width=width), height))  # type: ignore[misc]
        return 0
    for _jobs, changed in looks:
        for job in changed:
            context.result_line(fleet_line(job), lambda job=job: listed_job_object(job))  # type: ignore[misc]
    return 0


def _table(lines: Iterator[str], height: int) -> Iterator[str]:
    found = list(lines)
    yield from found[: height - 1]
    if len(found) >= height:
        yield f"and {len(found) - height + 1} more"


@contextmanager
def _picture() -> Iterator[Callable[[Callable[[int, int], Iterator[str]]], None]]:
    """Draw on the terminal, every second anew: a picture is a function of width and height."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False, markup=False, soft_wrap=False)
    picture: list[Callable[[int, int], Iterator[str]]] = []

    def render() -> Text:
        if not picture:
            return Text("looking …")
        return Text.from_ansi("\n".join(printable(line, console.file) for line in picture[0](console.width, console.height)))

    with Live(get_renderable=render, console=console, refresh_per_second=1, transient=True) as live:

        def show(draw: Callable[[int, int], Iterator[str]]) -> None:
            picture[:] = [draw]
            live.refresh()

        yield show
