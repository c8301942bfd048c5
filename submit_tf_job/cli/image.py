"""Command image check."""

from __future__ import annotations

from typing import Annotated

import typer

from submit_tf_job.cli.context import Context, command
from submit_tf_job.cli.help_layout import Group


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        cls=Group, help="Docker images.", no_args_is_help=True, rich_markup_mode=None
    )
    group.callback()(_group)
    command(group, "check")(check)
    app.add_typer(group, name="image")


def _group() -> None:
    """Docker images."""


def check(
    context: Context,
    image: Annotated[
        str,
        typer.Argument(metavar="IMAGE", help="Image on this machine, named as in a job spec."),
    ],
    python: Annotated[
        str, typer.Option("--python", metavar="PROGRAM", help="Interpreter for the bootstrap.")
    ] = "python3",
) -> int:
    """Check an image of this machine for what YARN, HDFS, Kerberos, GPUs and TensorFlow need.

    The exit status is 1 if a check fails. The image is run for some seconds, without a network and
    under a user id that it does not contain; its ENTRYPOINT is tried, too.
    `submit_tf_job help images` lists what an image must have.

    \b
    Examples:
      submit_tf_job image check registry.example.com/ml/tf:2.15
      submit_tf_job image check ml/tf:2.15 --python /opt/bin/python -o json
    """
    from submit_tf_job.doctor.images import check_image
    from submit_tf_job.report.check_text import finding_lines, image_object, summary_line

    found = check_image(context.settings(), image, python=python)
    context.result(
        (line for finding in found.findings for line in finding_lines(finding)),
        lambda: image_object(image, found),
    )
    context.say(summary_line(found))
    return int(found.failed)
