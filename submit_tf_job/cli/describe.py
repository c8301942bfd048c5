"""Commands describe and events."""

from __future__ import annotations

import time

import typer

from submit_tf_job import operations
from submit_tf_job.cli.context import Context, JobArgument, command
from submit_tf_job.operations.description import events_of
from submit_tf_job.report.detail_text import (
    description_lines,
    description_object,
    events_lines,
    events_object,
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "describe")(describe)
    command(app, "events")(events)


def describe(context: Context, job: JobArgument) -> None:
    """Show a job in detail: verdict and cause, each task, limits, links and the last events.

    \b
    Examples:
      submit_tf_job describe mnist
      submit_tf_job describe mnist -o json | jq '.task_list[].host'
    """
    cluster = operations.connect(context.settings())
    found = operations.describe(cluster, job)
    diagnosis = operations.diagnose(cluster, found)
    lines = description_lines(found, diagnosis, now_ms=int(time.time() * 1000), width=context.width)
    context.result(lines, lambda: description_object(found, diagnosis))


def events(context: Context, job: JobArgument) -> None:
    """Show the events of a job in order of time: YARN's, and those that its tasks reported.

    \b
    Example: submit_tf_job events mnist
    """
    found = operations.describe(operations.connect(context.settings()), job)
    happened = events_of(found)
    context.result(events_lines(happened), lambda: events_object(found.name, happened))
