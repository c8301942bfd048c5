"""Command version."""

from __future__ import annotations

import typer

from submit_tf_job.cli.context import Context, command
from submit_tf_job.program_version import VERSION


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "version", settings=False)(version)


def version(context: Context) -> None:
    """Print the version.

    \b
    Example: submit_tf_job version -o json
    """
    context.result(
        [f"submit_tf_job {VERSION}"],
        lambda: {"kind": "Version", "format": 1, "version": VERSION},
    )
