"""Commands submit; run, a job without a job spec file; and local, a job without a cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from submit_tf_job.cli.context import Context, SpecArgument, coloured, completed
from submit_tf_job.cli.jobs import (
    FromOption,
    NameOption,
    SetOption,
    SubmissionOption,
    finish,
    print_events,
    read_job,
    seconds,
)
from submit_tf_job.diagnose.amounts import size
from submit_tf_job.errors import JobSpecError, UsageError
from submit_tf_job.host.located.tree import to_python
from submit_tf_job.operations.cluster import home_on_hdfs
from submit_tf_job.operations.follow import OUTPUT_EVERY_S, TAIL, Event, Restarts, follow
from submit_tf_job.operations.submit import load_job, make_plan
from submit_tf_job.operations.submit import submit as submit_job
from submit_tf_job.operations.submit_checks import DataCheck
from submit_tf_job.report.follow_text import PROGRESS_EVERY_S, submitted_lines
from submit_tf_job.settings import process_environment
from submit_tf_job.yarn.run_names import Again

if TYPE_CHECKING:
    from rich.progress import Progress

    from submit_tf_job.jobspec.from_command import ProgramJob
    from submit_tf_job.jobspec.job import Job
    from submit_tf_job.observation import JobStatus
    from submit_tf_job.operations.submit import Submission
    from submit_tf_job.plan import Plan
    from submit_tf_job.settings import Settings
    from submit_tf_job.storage.staging import Sent

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
    how = SubmitOptions(submission_id, detach, once, logs, timeout)
    settings = context.settings()
    job = read_job(spec, settings, overrides, name, context.say, dialect)
    return submit_plan(context, settings, how.plan(job, settings), how)


@dataclass(frozen=True)
class SubmitOptions:
    """The options of a command that tell how its job is submitted and followed.

    Attributes:
        submission_id: The submission's id; None for a hash of the job and its files.
        detach: Whether to return when YARN has accepted the job.
        once: Whether to report a run of exactly this job that has ended, instead of another run.
        logs: Whether to show what the deciding task prints; None for yes on a terminal.
        timeout: How long to follow the job, as text: 90s, 15m, 2h; None for no limit.

    Raises:
        UsageError: Two of the options exclude each other, or `timeout` is not a duration.
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
        return make_plan(
            job,
            settings,
            key=self.submission_id,
            again=Again.NEVER if self.once else None,
            detached=self.detach,
        )


def submit_plan(context: Context, settings: Settings, planned: Plan, how: SubmitOptions) -> int:
    """Submit a job, and follow it to its end or, with --detach, print its application id (with
    --quiet, its name) and return at once; return the exit status.
    """
    for warning in planned.warnings:
        context.say(f"warning: {warning}")
    context.interrupted = (
        f"{planned.job.name} may have been submitted. Run the same command again to find out."
    )
    cluster = context.cluster(settings)
    with _upload_progress(context, planned.job.name) as on_upload:
        done = submit_job(planned, cluster, on_upload=on_upload, on_wait=context.say)
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
        told = done.ref.name if context.quiet else done.ref.application_id
        context.result([str(told)], lambda: _json_of_submission(done))
        return 0
    logs = how.logs
    if logs is None:
        logs = sys.stderr.isatty()
    # The output goes to stderr, as all messages do: stdout has the result only.
    output = logs and not context.quiet
    events = follow(
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

MIN_BYTES = 1_000_000  # smaller uploads take less than a second


@contextmanager
def _upload_progress(context: Context, what: str) -> Iterator[Callable[[Sent], None]]:
    """Yield a function that shows the progress of the upload of a job's files while the block runs:
    as a bar on a terminal, else by two lines. `what` is the job's name in them.
    """
    if not (sys.stderr.isatty() and coloured(sys.stderr)) or context.quiet:
        yield _upload_lines(context, what)
        return
    with ExitStack() as stack:
        bars: list[Progress] = []

        def show(sent: Sent) -> None:
            if not bars and sent.total >= MIN_BYTES:
                bars.append(stack.enter_context(_empty_bar()))
                bars[0].add_task(f"uploading for {what}", total=sent.total)
            for bar in bars:
                bar.update(bar.task_ids[0], completed=sent.done)

        yield show


def _empty_bar() -> Progress:
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    return progress.Progress(*columns, console=Console(stderr=True), transient=True)


def _upload_lines(context: Context, what: str) -> Callable[[Sent], None]:
    """Return a function that gets the progress of an upload, and prints a line at its beginning and
    at its end; nothing for less than 1 MB.
    """
    begun: list[float] = []

    def show(sent: Sent) -> None:
        if sent.total < MIN_BYTES:
            return
        if not begun:
            begun.append(time.monotonic())
            context.say(f"uploading {size(sent.total)} for {what}")
        if sent.done >= sent.total:
            took = max(time.monotonic() - begun[0], 0.1)
            context.say(f"uploaded in {took:.1f} s, {size(sent.total / took)}/s")

    return show


# --- a job without a job spec file ----------------------------------------------------------------


_SHOWN_FILES = 6


def run(
    context: Context,
    program: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="The command line of each task.")
    ],
    workers: Annotated[
        int | None, typer.Option(min=1, help="Tasks that train. [default: 1]")
    ] = None,
    ps: Annotated[
        int | None, typer.Option(min=1, help="Parameter servers, beside a chief.")
    ] = None,
    cpus: Annotated[int | None, typer.Option(min=1, help="CPUs of each task that trains.")] = None,
    gpus: Annotated[int | None, typer.Option(min=0, help="GPUs of each task that trains.")] = None,
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Memory of each task, such as 8Gi.", show_default=False),
    ] = None,
    image: Annotated[str | None, typer.Option(metavar="IMAGE", help="Docker image.")] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="S",
            help="How the tasks train together; by default single, multi-worker or, with --ps, "
            "parameter-server.",
            autocompletion=completed("strategy"),
        ),
    ] = None,
    name: NameOption = None,
    files: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="FILE", help="Another file, directory or pattern to send."),
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A variable of each task.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]URI",
            help="An input of the job, checked at once: each task downloads it, and the program "
            "opens the path in $TFJOB_INPUT_<NAME>.",
        ),
    ] = None,
    data_uri: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]URI", help="The same for a program that reads the URI itself."
        ),
    ] = None,
    store: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=URI]",
            help="An output: what the program writes into the directory $TFJOB_OUTPUT_<NAME> is "
            "stored there; without URI below your home on HDFS.",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Store what the program leaves in its working directory, as the output kept.",
        ),
    ] = None,
    overrides: SetOption = None,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the job spec, and submit nothing.")
    ] = False,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the job spec in this file.")
    ] = None,
    submission_id: SubmissionOption = None,
    detach: DetachOption = False,
    once: OnceOption = False,
    logs: LogsOption = None,
    timeout: TimeoutOption = None,
) -> int:
    """Run a program as a job, without a job spec file.

    The job spec is made of the options and the program, shown, and submitted as by `submit`. The
    program, and the modules beside it that it imports, are sent along. Image and memory may stand
    in the settings (job.image, task_memory).

    \b
    Examples:
      submit_tf_job run --image tf:2.15 --memory 4Gi -- python train.py --epochs 3
      submit_tf_job run --workers 4 --ps 2 --gpus 1 -- python train.py
      submit_tf_job run --keep model.keras -- python train.py
      submit_tf_job run --workers 4 --print -- python train.py > train.yaml
    """
    how = SubmitOptions(submission_id, detach, once, logs, timeout)
    settings = context.settings()
    from submit_tf_job.jobspec.from_command import RunOptions, by_option, job_of_program

    site_image = settings.job.get("image")
    asked = RunOptions(
        program,
        image or (site_image if isinstance(site_image, str) else None),
        memory or settings.task_memory,
        workers,
        ps,
        cpus,
        gpus,
        strategy,
        name,
        files or (),
        env or (),
        data or (),
        data_uri or (),
        store or (),
        keep or (),
        home=home_on_hdfs(settings),
        hadoop_conf=settings.hadoop_conf is not None,
    )
    _ask_for_missing(asked.image, asked.memory, settings)
    try:
        made = job_of_program(asked, Path.cwd(), overrides or ())
        job = load_job(Path("run"), settings, text=made.text.encode(), dialect="jobspec")
        planned = how.plan(job, settings)  # nothing is shown or kept of what would be refused
    except JobSpecError as error:
        raise by_option(error, asked) from None
    if save is not None:
        _save_spec(save, made.text)
    if print_only:
        for line in (*_note_lines(made, job), *(f"warning: {text}" for text in planned.warnings)):
            context.say(line)
        context.result(made.text.splitlines(), lambda: to_python(made.tree))
        return 0
    for line in _spec_lines(made, job):
        context.say(line)
    try:
        return submit_plan(context, settings, planned, how)
    except JobSpecError as error:  # such as an input that is not there
        raise by_option(error, asked) from None


def _ask_for_missing(image: str | None, memory: str | None, settings: Settings) -> None:
    missing = [
        *(["--image IMAGE, the Docker image of the tasks"] if image is None else []),
        *(["--memory SIZE, of each task, such as 4Gi"] if memory is None else []),
    ]
    if missing:
        raise UsageError(
            f"missing {'; and '.join(missing)}",
            hint="or once for all jobs, in the settings "
            f"({settings.directories.config / 'settings.yaml'}): "
            "job: {image: …} and task_memory: 4Gi",
        )


def _save_spec(path: Path, text: str) -> None:
    """Write the job spec to a file of the working directory, where its relative paths are right.

    Raises:
        UsageError: The file is in another directory, cannot be written, or exists with other
            content, which is kept.
    """
    try:
        _save_new_spec(path, text)
    except OSError as error:  # a directory that cannot be written to, a name that is too long
        raise UsageError(f"--save: {path} cannot be written: {error.strerror}") from None


def _save_new_spec(path: Path, text: str) -> None:
    if path.is_dir():
        raise UsageError(f"--save: {path} is a directory", hint="name a file, such as train.yaml")
    if path.absolute().parent != Path.cwd():
        raise UsageError(
            f"--save: {path} is in another directory, from which the job's files would be named",
            hint=f"--save {path.name}",
        )
    if path.exists() and path.read_text("utf-8", "replace") != text:
        raise UsageError(
            f"--save: {path} exists, and holds something else",
            hint="choose another name, or remove it",
        )
    path.write_text(text, "utf-8")


def _spec_lines(made: ProgramJob, job: Job) -> Iterator[str]:
    """Yield the lines of the job spec, of the files that are sent with it, and of files that may be
    missing.
    """
    yield from (f"  {line}" for line in made.text.splitlines()[1:])
    files = job.roles[job.deciding_role].files
    names = [file.name for file in files]
    if len(names) > _SHOWN_FILES:
        names[_SHOWN_FILES - 1 :] = [f"and {len(names) - _SHOWN_FILES + 1} more"]
    if names:
        yield f"sent with it ({size(sum(file.size for file in files))}): {', '.join(names)}"
    yield from _note_lines(made, job)


def _note_lines(made: ProgramJob, job: Job) -> Iterator[str]:
    yield from (f"note: {note}" for note in made.notes)
    yield from (f"{remark.level}: {remark.sentence}" for remark in job.remarks)


# --- a job without a cluster ---


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
        for line in (line for event in events for line in lines.lines_of(event)):
            context.say(line)

    data = DataCheck(job, settings, on_this_machine=True)
    data.check()
    context.interrupted = f"{job.name} was ended."
    runner = None
    if docker:
        from submit_tf_job.doctor.images import docker_of
        from submit_tf_job.local.tasks import Containers

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
    return finish(context, done.status, done.cause)


def _json_of_submission(done: Submission) -> dict[str, Any]:
    """Return the object for `-o json`, which alone needs the classes of `jsonview`."""
    from submit_tf_job.jsonview import submission_object

    return submission_object(done)
