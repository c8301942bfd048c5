"""staging gc."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from submit_tf_job import api
from submit_tf_job.cli.door import Context, command
from submit_tf_job.cli.follow import seconds
from submit_tf_job.report.staging import sweep_lines, sweep_object

WEEK_S = 7 * 24 * 3600.0


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="What was put on HDFS for jobs.", no_args_is_help=True, rich_markup_mode=None)
    group.callback()(_group)
    command(group, "gc")(gc)
    app.add_typer(group, name="staging")


def _group() -> None:
    """What was put on HDFS for jobs."""


def gc(
    context: Context,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="DURATION", help="Only what was last submitted so long ago: 12h, 7d.")
    ] = "7d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")] = False,
) -> None:
    """Remove from HDFS what was staged for jobs that are no more.

    `delete` removes a job's files with it. What is left is of clients that died while they submitted, and of jobs that are over and that
    nobody deleted (`start` would not find their files any more). Files of a job that waits or runs are never removed.

    \b
    Examples:
      submit_tf_job staging gc --dry-run
      submit_tf_job staging gc --older-than 12h
    """
    limit = timedelta(seconds=seconds(older_than, "--older-than") or WEEK_S)
    swept = api.sweep_staging(api.connect(context.settings()), older_than=limit, dry_run=dry_run)
    context.result(sweep_lines(swept), lambda: sweep_object(swept))
