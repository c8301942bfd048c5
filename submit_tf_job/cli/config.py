"""Command config show."""

from __future__ import annotations

import typer

from submit_tf_job.cli.context import Context, command
from submit_tf_job.cli.help_layout import Group
from submit_tf_job.report.settings_text import settings_lines, settings_object


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        cls=Group,
        help="Settings of this machine and user.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.callback()(_group)
    command(group, "show")(show)
    app.add_typer(group, name="config")


def _group() -> None:
    """Settings of this machine and user."""


def show(context: Context) -> None:
    """Show every setting, its value, and where the value came from.

    \b
    Example: submit_tf_job config show --profile prod
    """
    settings = context.settings()
    context.result(settings_lines(settings), lambda: settings_object(settings))
