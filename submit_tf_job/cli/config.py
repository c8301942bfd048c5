"""Commands config show and version."""

from __future__ import annotations

import typer

from submit_tf_job.cli.context import Context, command
from submit_tf_job.cli.usage import Group
from submit_tf_job.program_version import VERSION
from submit_tf_job.report.settings_text import settings_lines, settings_object

__all__ = []


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        cls=Group,
        help="Settings of this machine and user.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.callback()(_group)
    command(group, "show")(show)
    app.add_typer(group, name="config")
    command(app, "version", settings=False)(version)


def _group() -> None:
    """Settings of this machine and user."""


def show(context: Context) -> None:
    """Show every setting, its value, and where the value came from.

    \b
    Example: submit_tf_job config show --profile prod
    """
    settings = context.settings()
    context.result(settings_lines(settings), lambda: settings_object(settings))


# --- version --------------------------------------------------------------------------------------


def version(context: Context) -> None:
    """Print the version.

    \b
    Example: submit_tf_job version -o json
    """
    context.result(
        [f"submit_tf_job {VERSION}"],
        lambda: {"kind": "Version", "format": 1, "version": VERSION},
    )
