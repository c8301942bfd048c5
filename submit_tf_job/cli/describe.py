"""describe and events."""

from __future__ import annotations

import time

import typer

from submit_tf_job import api
from submit_tf_job.cli.door import Context, JobArgument, command
from submit_tf_job.report.detail import description_lines, description_object, events_lines, events_object


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "describe")(describe)
    command(app, "events")(events)


def describe(context: Context, job: JobArgument) -> None:
    """Show a job in detail: its verdict and why, each task with host, age and restarts, limits, links, the last events.

    \b
    Examples:
      submit_tf_job describe mnist
      submit_tf_job describe mnist -o json | jq '.task_list[].host'
    """
    cluster = api.connect(context.settings())
    found = api.describe(cluster, job)
    diagnosis = api.diagnose(cluster, found.look)
    lines = description_lines(found, diagnosis, now_ms=int(time.time() * 1000), width=context.width)
    context.result(lines, lambda: description_object(found, diagnosis))


def events(context: Context, job: JobArgument) -> None:
    """Show what happened to a job, in order of time: what YARN did, and what the job's tasks told each other.

    \b
    Example: submit_tf_job events mnist
    """
    found = api.describe(api.connect(context.settings()), job)
    context.result(events_lines(found.events), lambda: events_object(found.look.seen.name, found.events))
