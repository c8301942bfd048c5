"""Command version."""

from __future__ import annotations

import typer

from submit_tf_job import __version__
from submit_tf_job.cli.context import Context, command


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "version", settings=False)(version)


def version(context: Context) -> None:
    """Print the version.

    \b
    Example: submit_tf_job version -o json
    """
    context.result(
        [f"submit_tf_job {__version__}"],
        lambda: {"kind": "Version", "format": 1, "version": __version__},
    )
