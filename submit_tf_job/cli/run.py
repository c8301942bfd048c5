"""Command run: a job without a job spec file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from submit_tf_job import operations
from submit_tf_job.cli.context import Context, completed
from submit_tf_job.cli.jobfile import NameOption, SetOption, SubmissionOption
from submit_tf_job.cli.submit import (
    DetachOption,
    How,
    LogsOption,
    OnceOption,
    TimeoutOption,
    submit_plan,
)
from submit_tf_job.errors import JobSpecError, UsageError
from submit_tf_job.host.located.nodes import to_python
from submit_tf_job.report.staging_text import amount

if TYPE_CHECKING:
    from submit_tf_job.dialects.own_program import ProgramJob
    from submit_tf_job.jobspec.job import Job
    from submit_tf_job.settings import Settings

_SHOWN_FILES = 6


def run(
    context: Context,
    program: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="The command line of each task.")
    ],
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Tasks that train. [default: 1]")
    ] = None,
    ps: Annotated[
        int | None, typer.Option("--ps", min=1, help="Parameter servers, beside a chief.")
    ] = None,
    cpus: Annotated[
        int | None, typer.Option("--cpus", min=1, help="CPUs of each task that trains.")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option("--gpus", min=0, help="GPUs of each task that trains.")
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory", metavar="SIZE", help="Memory of each task, such as 8Gi.", show_default=False
        ),
    ] = None,
    image: Annotated[
        str | None, typer.Option("--image", metavar="IMAGE", help="Docker image.")
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy",
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
        list[str] | None,
        typer.Option("--env", metavar="NAME=VALUE", help="A variable of each task."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", metavar="[NAME=]URI", help="An input of the job, checked at once."),
    ] = None,
    overrides: SetOption = None,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the job spec, and submit nothing.")
    ] = False,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Keep the job spec in this file.")
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
      submit_tf_job run --workers 4 --print -- python train.py > train.yaml
    """
    how = How(submission_id, detach, once, logs, timeout)
    settings = context.settings()
    from submit_tf_job.dialects.own_program import Asked, by_option, job_of_program

    site_image = settings.job.get("image")
    asked = Asked(
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
        hadoop_conf=settings.hadoop_conf is not None,
    )
    _ask_for_missing(asked.image, asked.memory, settings)
    try:
        made = job_of_program(asked, Path.cwd(), overrides or ())
        job = operations.load_job(Path("run"), settings, text=made.text.encode(), dialect="jobspec")
        planned = how.plan(job, settings)  # nothing is shown or kept of what would be refused
    except JobSpecError as error:
        raise by_option(error) from None
    if save is not None:
        _save(save, made.text)
    if print_only:
        context.result(made.text.splitlines(), lambda: to_python(made.tree))
        return 0
    for line in _shown(made, job):
        context.say(line)
    try:
        return submit_plan(context, settings, planned, how)
    except JobSpecError as error:  # such as an input that is not there
        raise by_option(error) from None


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


def _save(path: Path, text: str) -> None:
    """Write the job spec where its relative paths are right; keep a file that differs."""
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


def _shown(made: ProgramJob, job: Job) -> Iterator[str]:
    """Yield the job spec, what travels with it, and what may be missing."""
    yield from (f"  {line}" for line in made.text.splitlines()[1:])
    files = job.roles[job.deciding_role].files
    names = [file.name for file in files]
    if len(names) > _SHOWN_FILES:
        names[_SHOWN_FILES - 1 :] = [f"and {len(names) - _SHOWN_FILES + 1} more"]
    if names:
        yield f"sent with it ({amount(sum(file.size for file in files))}): {', '.join(names)}"
    yield from (f"note: {note}" for note in made.notes)
