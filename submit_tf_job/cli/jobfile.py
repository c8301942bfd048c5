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
from submit_tf_job.host.inputfile import read_input, reason
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
    text = None
    if spec == "-":
        text = sys.stdin.buffer.read(_MAX_STDIN + 1)
    else:
        _refuse_directory(spec)
    job = operations.load_job(
        Path(spec), settings, overrides=overrides or (), name=name, text=text, dialect=dialect
    )
    for remark in job.remarks:
        say(str(remark))
    return job


def read_content(spec: str) -> bytes:
    """Read the bytes of a file or standard input.

    Raises:
        UsageError: It cannot be read.
    """
    if spec == "-":
        return sys.stdin.buffer.read(_MAX_STDIN + 1)
    _refuse_directory(spec)
    try:
        return read_input(Path(spec), _MAX_STDIN + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{spec}: cannot be read: {reason(error)}") from None


def _refuse_directory(spec: str) -> None:
    with suppress(OSError, ValueError):  # reading the file reports the error
        if stat.S_ISDIR(Path(spec).stat().st_mode):
            raise UsageError(f"{spec} is a directory", hint="name the job spec file in it")
