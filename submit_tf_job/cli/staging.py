"""Command staging gc."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from submit_tf_job import operations
from submit_tf_job.cli.context import Context, command
from submit_tf_job.cli.following import seconds
from submit_tf_job.cli.usage import Group
from submit_tf_job.report.staging_text import sweep_lines, sweep_object

WEEK_S = 7 * 24 * 3600.0


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        cls=Group, help="Manage files staged on HDFS.", no_args_is_help=True, rich_markup_mode=None
    )
    group.callback()(_group)
    command(group, "gc")(gc)
    app.add_typer(group, name="staging")


def _group() -> None:
    """Manage files staged on HDFS."""


def gc(
    context: Context,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than",
            metavar="DURATION",
            help="Only files that were last submitted this long ago: 12h, 7d.",
        ),
    ] = "7d",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed, and remove nothing.")
    ] = False,
) -> None:
    """Remove files from HDFS that were staged for jobs that no longer exist, and the ended runs of
    all jobs beyond `keep_runs` of the settings.

    `delete` removes a job's files with its runs. Files remain of clients that died during a
    submission, and of finished jobs that were not deleted. Files of a waiting or running job are
    never removed.

    \b
    Examples:
      submit_tf_job staging gc --dry-run
      submit_tf_job staging gc --older-than 12h
    """
    limit = timedelta(seconds=seconds(older_than, "--older-than") or WEEK_S)
    swept = operations.sweep_staging(
        operations.connect(context.settings()), older_than=limit, dry_run=dry_run
    )
    context.result(sweep_lines(swept), lambda: sweep_object(swept))
