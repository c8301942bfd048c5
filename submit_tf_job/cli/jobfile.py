"""Options of the commands that read a job spec, and the function that reads it."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from submit_tf_job import operations
from submit_tf_job.errors import UsageError
from submit_tf_job.jobspec.job import Job
from submit_tf_job.settings import Settings

__all__ = ["FromOption", "NameOption", "SetOption", "SubmissionOption", "read_content", "read_job"]

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
        overrides: What `--set` gave.
        name: What `--name` gave.
        say: Called with each remark about a file of another format.
        dialect: What `--from` gave.
    """
    job = operations.load_job(
        Path(spec),
        settings,
        overrides=overrides or (),
        name=name,
        text=read_content(spec),
        base=Path.cwd() if spec == "-" else Path(spec).parent,
        dialect=dialect,
    )
    for remark in job.remarks:
        say(str(remark))
    return job


def read_content(spec: str) -> bytes:
    """Read the bytes of a job spec file or standard input.

    Raises:
        JobSpecError: The file cannot be read.
        UsageError: It is a directory.
    """
    from submit_tf_job import jobspec

    if spec == "-":
        return sys.stdin.buffer.read(_MAX_STDIN + 1)
    with suppress(OSError, ValueError):  # reading the file reports the error
        if stat.S_ISDIR(Path(spec).stat().st_mode):
            raise UsageError(f"{spec} is a directory", hint="name the job spec file in it")
    return jobspec.read_file(Path(spec))
