"""gateway serve, token."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from submit_tf_job.cli.door import Context, command
from submit_tf_job.cli.follow import seconds
from submit_tf_job.errors import SettingsError, UsageError


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Jobs over HTTP, for schedulers that cannot have this program.", no_args_is_help=True, rich_markup_mode=None)
    group.callback()(_group)
    command(group, "serve")(serve)
    command(group, "token", settings=False)(token)
    app.add_typer(group, name="gateway")


def _group() -> None:
    """Jobs over HTTP, for schedulers that cannot have this program."""


def serve(
    context: Context,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="PORT", help="0 for any that is free.", min=0, max=65535)] = 8090,
    callers: Annotated[Path | None, typer.Option("--callers", metavar="FILE", help="Who may call: lines of `gateway token`.")] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Let every program of this machine submit as you; on loopback alone, in place of --callers.")
    ] = False,
    cert: Annotated[Path | None, typer.Option("--cert", metavar="FILE", help="TLS certificate with its chain, PEM.")] = None,
    key: Annotated[Path | None, typer.Option("--key", metavar="FILE", help="Its private key, PEM.")] = None,
    no_tls: Annotated[
        bool, typer.Option("--no-tls", help="Take tokens without TLS from beyond this machine: a proxy before the gateway ends it.")
    ] = False,
    drain: Annotated[str, typer.Option("--drain", metavar="DURATION", help="At SIGTERM, time for requests to end: 30s.")] = "30s",
) -> None:
    """Serve jobs over HTTP until SIGTERM; each request acts on the cluster as whoever calls. The log goes to stderr, a JSON object a line.

    \b
    Examples:
      submit_tf_job gateway serve --callers callers.txt
      submit_tf_job gateway serve --callers c --host :: --cert c.pem --key k.pem
      submit_tf_job gateway serve --no-auth
    """
    if (callers is None) != no_auth:
        raise UsageError(
            "say who may call: --callers FILE, or --no-auth, with which every program of this machine submits as you",
            hint="submit_tf_job gateway token NAME prints a token and its line of the file",
        )
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise SettingsError("the gateway needs the packages fastapi and uvicorn", hint="pip install 'submit_tf_job[gateway]'")
    from submit_tf_job.gateway.callers import CallersFile
    from submit_tf_job.gateway.clusters import Clusters
    from submit_tf_job.gateway.server import Listening, serve
    from submit_tf_job.gateway.state import Gateway
    from submit_tf_job.secretfile import leave_no_core

    listening = Listening(host, port, cert, key, seconds(drain, "--drain") or 30.0, no_tls)
    listening.check(authenticated=callers is not None)
    leave_no_core()  # callers' tokens pass through its memory
    gateway = Gateway(
        Clusters(context.settings()), CallersFile(callers) if callers else None, lambda entry: context.say(json.dumps(entry, default=str))
    )
    serve(gateway, listening, lambda url: context.result_line(f"listening on {url}", lambda: {"kind": "Gateway", "format": 1, "url": url}))


def token(
    context: Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The user that the caller's jobs belong to.")],
) -> None:
    """Make a token for a caller: it is printed once, and only its hash is kept, in the file of --callers.

    \b
    Example: submit_tf_job gateway token alice
    """
    from submit_tf_job.gateway.callers import line_of, new_token

    made = new_token()
    line = line_of(name, made)
    context.result(
        [f"token  {made}", f"line   {line}"], lambda: {"kind": "GatewayToken", "format": 1, "name": name, "token": made, "line": line}
    )
