"""Command submit."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from submit_tf_job import operations
from submit_tf_job.cli.context import Context, SpecArgument, coloured
from submit_tf_job.cli.following import print_events, seconds
from submit_tf_job.cli.jobfile import FromOption, NameOption, SetOption, SubmissionOption, read_job
from submit_tf_job.errors import UsageError
from submit_tf_job.jsonview import submission_object
from submit_tf_job.operations.follow import OUTPUT_EVERY_S, TAIL
from submit_tf_job.report.change_text import submitted_lines
from submit_tf_job.report.follow_text import PROGRESS_EVERY_S
from submit_tf_job.report.staging_text import amount
from submit_tf_job.yarn.run_names import Again

if TYPE_CHECKING:
    from submit_tf_job.jobspec.job import Job
    from submit_tf_job.plan import Plan
    from submit_tf_job.settings import Settings
    from submit_tf_job.storage.staging import Sent

__all__ = ["upload_progress"]

DetachOption = Annotated[
    bool, typer.Option("--detach", "-d", help="Return when YARN has accepted the job.")
]
OnceOption = Annotated[
    bool,
    typer.Option(
        "--once", help="If this very job has ended, report that run; do not run it again."
    ),
]
LogsOption = Annotated[
    bool | None,
    typer.Option(
        "--logs/--no-logs",
        help="Show what the deciding task prints; by default on a terminal.",
        show_default=False,
    ),
]
TimeoutOption = Annotated[
    str | None,
    typer.Option(
        "--timeout",
        metavar="DURATION",
        help="Stop following after 90s, 15m, 2h; the job keeps running.",
    ),
]


def submit(
    context: Context,
    spec: SpecArgument,
    overrides: SetOption = None,
    name: NameOption = None,
    dialect: FromOption = None,
    submission_id: SubmissionOption = None,
    detach: DetachOption = False,
    once: OnceOption = False,
    logs: LogsOption = None,
    timeout: TimeoutOption = None,
) -> int:
    """Submit a job and follow it to its end; the exit status is the job's.

    The same command finds its own run while that lives, and follows it; when it has ended, the job
    is run again. With --once, or a --submission-id, the verdict of the run that has ended is shown
    instead. Ctrl-C leaves the job running.

    \b
    Examples:
      submit_tf_job submit train.yaml
      submit_tf_job submit train.yaml --set roles.worker.instances=8 --name big
      submit_tf_job submit train.yaml --detach && submit_tf_job wait mnist
    """
    how = How(submission_id, detach, once, logs, timeout)
    settings = context.settings()
    job = read_job(spec, settings, overrides, name, context.say, dialect)
    return submit_plan(context, settings, how.plan(job, settings), how)


@dataclass(frozen=True)
class How:
    """How a job is submitted and followed; the options of the same names.

    Raises:
        UsageError: They exclude one another.
    """

    submission_id: str | None
    detach: bool
    once: bool
    logs: bool | None
    timeout: str | None

    def __post_init__(self) -> None:
        if self.timeout_s is not None and self.detach:
            raise UsageError(
                "--timeout limits how long to follow, and --detach does not follow at all",
                hint="leave one of them out",
            )

    @property
    def timeout_s(self) -> float | None:
        return seconds(self.timeout)

    def plan(self, job: Job, settings: Settings) -> Plan:
        """Return the plan of a job that was read; nothing is sent."""
        return operations.make_plan(
            job,
            settings,
            key=self.submission_id,
            again=Again.NEVER if self.once else None,
            lifetime=self.detach,
        )


def submit_plan(context: Context, settings: Settings, planned: Plan, how: How) -> int:
    """Submit a job and follow it; return the exit status."""
    for warning in operations.warnings(planned.job, settings):
        context.say(f"warning: {warning}")
    context.interrupted = (
        f"{planned.job.name} may have been submitted. Run the same command again to find out."
    )
    cluster = operations.connect(settings)
    with upload_progress(context, planned.job.name) as on_upload:
        done = operations.submit(planned, cluster, on_upload=on_upload, on_wait=context.say)
    for line in submitted_lines(
        done, cluster.settings.resource_managers[0], detail=context.verbose
    ):
        context.say(line)
    for warning in done.warnings:
        context.say(f"warning: {warning}")
    if how.detach:
        if planned.job.retries and planned.job.retries.memory:
            context.say(
                "warning: retries.memory is done by who follows: the same command without "
                "--detach follows this job, too"
            )
        context.result(
            [str(done.ref.application_id)],
            lambda: submission_object(done),
        )
        return 0
    logs = how.logs
    if logs is None:
        logs = sys.stderr.isatty()
    # The output goes to stderr, as all messages do: stdout has the result only.
    output = logs and not context.quiet
    events = operations.follow(
        cluster,
        done.ref,
        planned,
        timeout_s=how.timeout_s,
        output_every_s=OUTPUT_EVERY_S if output else None,
        tail=TAIL if done.adopted else None,
    )
    every_s = PROGRESS_EVERY_S if output else 0.0
    return print_events(context, done.ref.name, events, cluster.sleep, progress_every_s=every_s)


# --- the progress of an upload: a bar on a terminal, two lines elsewhere --------------------------


# in bytes; smaller uploads take less than a second
MIN_BYTES = 1_000_000


@contextmanager
def upload_progress(context: Context, what: str) -> Iterator[Callable[[Sent], None]]:
    """Show the progress of the upload of a job's files while the block runs."""
    bar = (
        _UploadBar(what)
        if sys.stderr.isatty() and coloured(sys.stderr)
        else _UploadLines(context, what)
    )

    def show(sent: Sent) -> None:
        if sent.total >= MIN_BYTES and not context.quiet:
            bar.update(sent)

    try:
        yield show
    finally:
        bar.end()


class _UploadLines:
    def __init__(self, context: Context, what: str) -> None:
        self._context, self._what, self._begun = context, what, 0.0

    def update(self, sent: Sent) -> None:
        if not self._begun:
            self._begun = time.monotonic()
            self._context.say(f"uploading {amount(sent.total)} for {self._what}")
        if sent.done >= sent.total:
            took = max(time.monotonic() - self._begun, 0.1)
            self._context.say(f"uploaded in {took:.1f} s, {amount(sent.total / took)}/s")

    def end(self) -> None:
        """Do nothing: the lines stay."""


class _UploadBar:
    def __init__(self, what: str) -> None:
        self._what = what
        self._progress: Any = None
        self._task: Any = None

    def update(self, sent: Sent) -> None:
        if self._progress is None:
            self._start(sent.total)
        self._progress.update(self._task, completed=sent.done)

    def _start(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._progress.start()
        self._task = self._progress.add_task(f"uploading for {self._what}", total=total)

    def end(self) -> None:
        if self._progress is not None:
            self._progress.stop()
