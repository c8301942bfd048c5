"""Commands open and tunnel."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from submit_tf_job import operations
from submit_tf_job.cli.context import Context, JobArgument, command, completed
from submit_tf_job.jsonview import link_object

RoleArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[ROLE]",
        help="The role that serves the port, such as tensorboard, or one of its tasks; not needed "
        "where only one does.",
        autocompletion=completed("role"),
    ),
]
PortOption = Annotated[
    str | None, typer.Option("--port", metavar="NAME", help="Name of one of the role's ports.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "open")(open_link)
    command(app, "tunnel")(tunnel)


def open_link(
    context: Context,
    job: JobArgument,
    role: RoleArgument = None,
    port: PortOption = None,
    browser: Annotated[
        bool, typer.Option("--browser", "-b", help="Open it in a browser, too.")
    ] = False,
) -> None:
    """Print the address that a role serves under its `ports`.

    If this machine cannot reach it, a hint shows how to.

    \b
    Examples:
      submit_tf_job open mnist
      submit_tf_job open mnist tensorboard --browser
    """
    link, *others = operations.find_links(operations.connect(context.settings()), job, role, port)
    reachable = operations.is_reachable(link)
    context.result(
        [link.url],
        lambda: {"kind": "Link", "format": 1, **link_object(link), "reachable": reachable},
    )
    for other in others:
        context.say(f"{other.task}: {other.url}")
    if not reachable and link.via:
        context.say(
            f"{link.host} is an address of Docker's network on {link.via}, which this "
            f"machine does not reach; "
            f"try: submit_tf_job tunnel {job} {link.task}"
        )
    elif not reachable:
        context.say(
            f"{link.host}:{link.port} does not answer here yet, or cannot be reached from here; "
            f"try again, or: submit_tf_job tunnel {job} {link.task}"
        )
    elif browser:
        import webbrowser

        if not webbrowser.open(link.url):
            context.say("no browser was found here")


def tunnel(
    context: Context,
    job: JobArgument,
    role: RoleArgument = None,
    port: PortOption = None,
    via: Annotated[
        str | None,
        typer.Option(
            "--via",
            metavar="[USER@]HOST",
            help="Host to connect through; default: the node itself.",
        ),
    ] = None,
    local_port: Annotated[
        int | None,
        typer.Option(
            "--local-port",
            metavar="PORT",
            min=1,
            max=65535,
            help="Port on this machine; default: the same.",
        ),
    ] = None,
) -> None:
    """Print the ssh command that forwards a role's port to this machine.

    \b
    Examples:
      submit_tf_job tunnel mnist tensorboard
      $(submit_tf_job tunnel mnist tensorboard --via edge01 -q)
    """
    link = operations.find_link(operations.connect(context.settings()), job, role, port)
    words, url = operations.tunnel_command(link, via=via, local_port=local_port)
    context.result(
        [shlex.join(words)],
        lambda: {
            "kind": "Tunnel",
            "format": 1,
            **link_object(link),
            "command": words,
            "local_url": url,
        },
    )
    if sys.stderr.isatty() or context.verbose:
        context.say(f"then open {url}")
