"""image check."""

from __future__ import annotations

from typing import Annotated

import typer

from submit_tf_job.cli.door import Context, command


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Docker images.", no_args_is_help=True, rich_markup_mode=None)
    group.callback()(_group)
    command(group, "check")(check)
    app.add_typer(group, name="image")


def _group() -> None:
    """Docker images."""


def check(
    context: Context,
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="Image of this machine, as a job spec would name it.")],
    python: Annotated[str, typer.Option("--python", metavar="PROGRAM", help="Interpreter for the bootstrap.")] = "python3",
) -> int:
    """Look into an image of this machine: what YARN, HDFS, Kerberos, GPUs or TensorFlow will miss; exit status 1 where anything is broken.

    The image is run for seconds, without a network, as a user whom it does not know, and its ENTRYPOINT is tried. docs/images.md says what
    an image must have.

    \b
    Examples:
      submit_tf_job image check registry.example.com/ml/tf:2.15
      submit_tf_job image check ml/tf:2.15 --python /opt/bin/python -o json
    """
    from submit_tf_job.api.images import check_image
    from submit_tf_job.report.doctor import finding_lines, image_object, summary_line

    found = check_image(context.settings(), image, python=python)
    context.result((line for finding in found.findings for line in finding_lines(finding)), lambda: image_object(image, found))
    context.say(summary_line(found))
    return 1 if found.failed else 0
