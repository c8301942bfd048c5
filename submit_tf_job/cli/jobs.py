"""The parts that are shared by commands which read, submit or follow a job: options, reading the
job spec, printing the job's events, and its exit status.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from submit_tf_job.cli.context import Context
from submit_tf_job.errors import UsageError
from submit_tf_job.settings import Settings

if TYPE_CHECKING:
    from submit_tf_job.diagnose.cause import Cause
    from submit_tf_job.jobspec.job import Job
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.operations.follow import Event

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Override a value, e.g. roles.worker.instances=8; may be given more than once.",
    ),
]
NameOption = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Another name for the job.", show_default=False),
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="FORMAT",
        help="The file's format, where it is not recognised; see `formats`.",
        show_default=False,
    ),
]
SubmissionOption = Annotated[
    str | None,
    typer.Option(
        "--submission-id",
        metavar="ID",
        help="Id of the submission, e.g. a scheduler's, which is run once; default: a hash of the "
        "job and its files.",
        show_default=False,
    ),
]
_MAX_STDIN = 1 << 20


def read_job(
    spec: str,
    settings: Settings,
    overrides: list[str] | None,
    name: str | None,
    say: Callable[[str], None],
    dialect: str | None = None,
) -> Job:
    """Read a job spec file or standard input.

    Args:
        spec: The file, or "-".
        settings: The settings.
        overrides: The values of `--set`.
        name: The value of `--name`.
        say: Called with each remark about a file of another format.
        dialect: The value of `--from`.

    Raises:
        JobSpecError: The file cannot be read, or is not a valid job spec.
    """
    from submit_tf_job.operations.submit import load_job

    job = load_job(
        Path(spec),
        settings,
        overrides=overrides or (),
        name=name,
        text=read_content(spec) if spec == "-" else None,
        dialect=dialect,
    )
    for remark in job.remarks:
        say(str(remark))
    return job


def read_content(spec: str) -> bytes:
    """Read the bytes of a job spec file; "-" means standard input, of which no more is read than
    makes it too large (1 MiB).

    Raises:
        JobSpecError: The file cannot be read.
    """
    from submit_tf_job import jobspec

    if spec == "-":
        return sys.stdin.buffer.read(_MAX_STDIN + 1)
    return jobspec.read_file(Path(spec))


def print_events(
    context: Context,
    name: str,
    events: Iterable[Event],
    sleep: Callable[[float], None],
    *,
    progress_every_s: float = 0.0,
) -> int:
    """Print a line for each event of a job, then its status at the end, and return the exit status.

    On an interrupt (Ctrl-C), this function stores in `context.interrupted` the message that the job
    continues, and raises the interrupt again; the command prints the message.

    Args:
        context: The command's options and output.
        name: The job.
        events: The events that `operations.follow` yields.
        sleep: Waits for a number of seconds.
        progress_every_s: Shortest time in seconds between two lines that differ only in progress.

    Raises:
        DeadlinePassed: The time to follow has passed; the message states that the job may still be
            running.
    """
    from submit_tf_job.operations.watch_run import until_end
    from submit_tf_job.report.follow_text import EventLines

    lines = EventLines(progress_every_s=progress_every_s)

    def show(event: Event) -> None:
        for line in lines.lines_of(event):
            context.say(line)

    try:
        end = until_end(events, sleep, show)
    except BaseException:
        context.interrupted = lines.interrupted_message(name)
        raise
    return finish(context, end.status, end.cause)


def finish(context: Context, status: JobStatus, cause: Cause | None = None) -> int:
    """Print a job's status and the cause of its failure, and return its exit status."""
    from submit_tf_job.operations.read_status import error_of
    from submit_tf_job.report.job_text import job_lines

    context.result(job_lines(status, cause=cause), lambda: json_of_job(status, cause=cause))
    error = error_of(status)
    return error.exit_status if error else 0


def json_of_job(
    status: JobStatus, pending: Sequence[Cause] = (), cause: Cause | None = None
) -> dict[str, Any]:
    """Return the job's object for `-o json`, which alone needs the classes of `jsonview`."""
    from submit_tf_job.jsonview import job_object

    return job_object(status, pending, cause)


def seconds(text: str | None, option: str = "--timeout") -> float | None:
    """Return the seconds of a duration option such as 90s, 15m or 2h; None if it was not given.

    Raises:
        UsageError: The text is not a duration.
    """
    if text is None:
        return None
    from submit_tf_job.host.units import duration_s

    try:
        return duration_s(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
