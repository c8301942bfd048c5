"""Options of the commands that read a job spec, and the reading itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from submit_tf_job import api
from submit_tf_job.errors import UsageError
from submit_tf_job.job import Job
from submit_tf_job.settings import Settings

__all__ = ["NameOption", "SetOption", "SubmissionOption", "read_job"]

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override a value, e.g. roles.worker.instances=8; may be given more than once."),
]
NameOption = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Another name for the job.", show_default=False)]
SubmissionOption = Annotated[
    str | None,
    typer.Option(
        "--submission-id",
        metavar="ID",
        help="The submission's own id, where a scheduler has one; default: a hash of job and site.",
        show_default=False,
    ),
]
_MAX_STDIN = 1 << 20


def read_job(spec: str, settings: Settings, overrides: list[str] | None, name: str | None) -> Job:
    """Read the job spec that a command was given."""
    if spec == "-":
        return api.load_job(Path("-"), settings, overrides=overrides or (), name=name, text=sys.stdin.buffer.read(_MAX_STDIN + 1))
    path = Path(spec)
    if path.is_dir():
        raise UsageError(f"{spec} is a directory", hint="name the job spec file in it")
    return api.load_job(path, settings, overrides=overrides or (), name=name)
