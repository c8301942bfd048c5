"""Command ui: the web page for the person who runs it, without a gateway that others share."""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from submit_tf_job.cli.context import Context
from submit_tf_job.cli.gateway import need_web_packages
from submit_tf_job.json_values import document
from submit_tf_job.settings import process_environment

if TYPE_CHECKING:
    from collections.abc import Callable

_DRAIN_S = 1.0  # for requests that run at Ctrl-C: only a page waits for them
_REDIRECT = '<!doctype html><meta http-equiv="refresh" content="0; url={}"><title>Jobs</title>\n'


def ui(
    context: Context,
    port: Annotated[
        int, typer.Option(metavar="PORT", help="Port; 0 for any free port.", min=0, max=65535)
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
) -> None:
    """Show your jobs in a browser until Ctrl-C: curves, use of resources, runs side by side.

    The page is served on 127.0.0.1 only, and acts as `list` and `status` would: with your settings
    and your ticket. The address that is printed has a token, which no other user of this machine
    can see, and which is valid until Ctrl-C. The page is also what a gateway serves.

    \b
    Example: submit_tf_job ui
    """
    need_web_packages("the page")
    from submit_tf_job.gateway.callers import CallerClients, OnePerson, new_token
    from submit_tf_job.gateway.runtime import Gateway
    from submit_tf_job.gateway.server import Listening, serve
    from submit_tf_job.host.user_files import leave_no_core

    leave_no_core()  # the token is in its memory
    settings, token = context.settings(), new_token()
    clients = CallerClients.of_one_person(settings)
    clients.own()
    with ExitStack() as at_end:

        def ready(url: str) -> None:
            address = f"{url}/#token={token}"
            context.result_line(address, lambda: document("Page", url=address))
            opened = browser and _open_privately(address, at_end)
            context.say("Ctrl-C ends it" if opened else _how_to_reach(url))

        gateway = Gateway(clients, OnePerson(settings.user, token), _log_of(context))
        serve(gateway, Listening(port=port, drain_s=_DRAIN_S), ready)


def _open_privately(address: str, at_end: ExitStack) -> bool:
    """Open an address in a browser; return whether a browser was found. Browsers for terminals do
    not count.

    The browser gets the name of a file that only this user can read, and that leads to the address:
    every user of this machine can see the arguments of a process.
    """
    environment = process_environment()
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    if sys.platform != "darwin" and not any(environment.get(name) for name in screens):
        return False  # Python would open a browser for terminals, in this one
    import webbrowser

    directory = at_end.enter_context(tempfile.TemporaryDirectory(prefix="submit_tf_job-ui-"))
    page = Path(directory) / "jobs.html"
    page.touch(0o600)
    page.write_text(_REDIRECT.format(address))
    return webbrowser.open(page.as_uri())


def _how_to_reach(url: str) -> str:
    port = url.rpartition(":")[2]
    return (
        "open this address in a browser; Ctrl-C ends it. From another machine: "
        f"ssh -L {port}:127.0.0.1:{port} THIS_HOST, then the same address there"
    )


def _log_of(context: Context) -> Callable[[dict[str, Any]], None]:
    """Return the function that prints the gateway's log: requests that failed by a defect and
    messages of the server; with --verbose every request.
    """

    def log(entry: dict[str, Any]) -> None:
        if context.verbose or "why" in entry or entry["event"] != "request":
            words = ("method", "path", "status", "code", "message", "why")
            context.say(" ".join(str(entry[name]) for name in words if entry.get(name)))

    return log
