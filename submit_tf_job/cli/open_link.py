"""open and tunnel."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from submit_tf_job import api
from submit_tf_job.cli.door import Context, JobArgument, command
from submit_tf_job.report.detail import link_object

RoleArgument = Annotated[str, typer.Argument(metavar="ROLE", help="The role that serves it, such as tensorboard, or one of its tasks.")]
PortOption = Annotated[str | None, typer.Option("--port", metavar="NAME", help="Which of the role's ports.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "open")(open_link)
    command(app, "tunnel")(tunnel)


def open_link(
    context: Context,
    job: JobArgument,
    role: RoleArgument,
    port: PortOption = None,
    browser: Annotated[bool, typer.Option("--browser", "-b", help="Open it in a browser, too.")] = False,
) -> None:
    """Print the address of what a role serves by its `ports`, and say how to reach it where this machine cannot.

    \b
    Examples:
      submit_tf_job open mnist tensorboard
      submit_tf_job open mnist tensorboard --browser
    """
    link = api.find_link(api.connect(context.settings()), job, role, port)
    reachable = api.is_reachable(link)
    context.result([link.url], lambda: {"kind": "Link", "format": 1, **link_object(link), "reachable": reachable})
    if not reachable:
        context.say(f"{link.host}:{link.port} does not answer here; try: submit_tf_job tunnel {job} {role}")
    elif browser:
        import webbrowser

        if not webbrowser.open(link.url):
            context.say("no browser was found here")


def tunnel(
    context: Context,
    job: JobArgument,
    role: RoleArgument,
    port: PortOption = None,
    via: Annotated[
        str | None, typer.Option("--via", metavar="[USER@]HOST", help="A host that can reach the node; default: the node itself.")
    ] = None,
    local_port: Annotated[
        int | None, typer.Option("--local-port", metavar="PORT", min=1, max=65535, help="Port on this machine; default: the same.")
    ] = None,
) -> None:
    """Print the ssh command that brings what a role serves to this machine.

    \b
    Examples:
      submit_tf_job tunnel mnist tensorboard
      $(submit_tf_job tunnel mnist tensorboard --via edge01 -q)
    """
    link = api.find_link(api.connect(context.settings()), job, role, port)
    words, url = api.tunnel_command(link, via=via, local_port=local_port)
    context.result([shlex.join(words)], lambda: {"kind": "Tunnel", "format": 1, **link_object(link), "command": words, "local_url": url})
    if sys.stderr.isatty() or context.verbose:
        context.say(f"then open {url}")
