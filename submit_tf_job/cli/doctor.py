"""Command doctor."""

from __future__ import annotations

from typing import Annotated

import typer

from submit_tf_job.cli.context import Context, command
from submit_tf_job.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "doctor")(doctor)


def doctor(
    context: Context,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Submit a tiny job that checks from inside containers; deleted at the end.",
        ),
    ] = False,
    image: Annotated[
        str | None, typer.Option("--image", metavar="IMAGE", help="Image of the tiny job.")
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", metavar="QUEUE", help="Queue to check, and of the tiny job."),
    ] = None,
) -> int:
    """Check that this machine can run jobs on the cluster; exit status 1 if a check fails.

    Settings, names, ResourceManagers, services API, authentication, queue, nodes, Docker, Registry
    DNS, logs, HDFS, clocks: each finding is ok, a warning or a failure, with its effect and how to
    fix it.

    \b
    Examples:
      submit_tf_job doctor
      submit_tf_job doctor --queue ml
      submit_tf_job doctor --deep --image tensorflow/tensorflow:2.15.0
    """
    if image is not None and not deep:
        raise UsageError("--image is the image of the job that --deep submits", hint="add --deep")
    from dataclasses import replace

    from submit_tf_job.doctor.checks import doctor as examine
    from submit_tf_job.doctor.deep import deep as look_inside
    from submit_tf_job.report.check_text import doctor_object, finding_lines, summary_line

    settings = context.settings()
    found = examine(settings, queue=queue)
    if deep and "services-api" in found.skipped:
        found = replace(found, skipped=(*found.skipped, "job"))
    elif deep:
        context.interrupted = "The job of the doctor is deleted."
        context.say("submitting a job of two small tasks; a first pull of its image takes minutes")
        found = replace(
            found, findings=(*found.findings, *look_inside(settings, image=image, queue=queue))
        )
    context.result(
        (line for finding in found.findings for line in finding_lines(finding)),
        lambda: doctor_object(found),
    )
    context.say(summary_line(found))
    return int(found.failed)
