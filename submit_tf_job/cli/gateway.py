"""Commands gateway serve and gateway token."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from submit_tf_job.cli.context import Context
from submit_tf_job.cli.jobs import seconds
from submit_tf_job.errors import SettingsError, UsageError
from submit_tf_job.json_values import document


def need_web_packages(what: str) -> None:
    """Refuse to serve without the packages of the extra `gateway`.

    Args:
        what: What needs them, as the subject of the message: "the gateway".

    Raises:
        SettingsError: One of them is missing.
    """
    if any(find_spec(name) is None for name in ("fastapi", "uvicorn", "python_multipart")):
        raise SettingsError(
            f"{what} needs the packages fastapi, uvicorn and python-multipart",
            hint="pip install 'fastapi>=0.115' 'uvicorn>=0.32' 'python-multipart>=0.0.26'",
        )


def serve(
    context: Context,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="PORT", help="Port; 0 for any free port.", min=0, max=65535)
    ] = 8090,
    callers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Callers: the lines that `gateway token` printed."),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What each caller may do: jobs, GPUs, queues, registries, role, expiry; YAML.",
        ),
    ] = None,
    negotiate: Annotated[
        Path | None,
        typer.Option(
            metavar="KEYTAB", help="Accept Kerberos tickets, too; the keytab has HTTP/<this host>."
        ),
    ] = None,
    no_auth: Annotated[
        bool,
        typer.Option(
            "--no-auth",
            help="Let every program of this machine submit as you; on loopback only, without "
            "--callers and --negotiate.",
        ),
    ] = False,
    cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TLS certificate with its chain, PEM.")
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key, PEM.")] = None,
    no_tls: Annotated[
        bool,
        typer.Option(
            "--no-tls",
            help="Accept tokens without TLS from other machines: a proxy in front terminates TLS.",
        ),
    ] = False,
    drain: Annotated[
        str, typer.Option(metavar="DURATION", help="At SIGTERM, time for requests to end: 30s.")
    ] = "30s",
) -> None:
    """Serve jobs over HTTP until SIGTERM; each request acts on the cluster as its caller.

    The log goes to stderr, one JSON object per line.

    \b
    Examples:
      submit_tf_job gateway serve --callers callers.txt
      submit_tf_job gateway serve --callers c --host :: --cert c.pem --key k.pem
      submit_tf_job gateway serve --no-auth
    """
    if (callers is None and negotiate is None) != no_auth:
        raise UsageError(
            "no callers are configured: use --callers FILE, --negotiate KEYTAB, or --no-auth, "
            "with which every program of this machine submits as you",
            hint="submit_tf_job gateway token NAME prints a token and its line of the file",
        )
    need_web_packages("the gateway")
    from submit_tf_job.gateway.callers import CallerClients, CallersFile, Negotiator
    from submit_tf_job.gateway.policy import Policy
    from submit_tf_job.gateway.runtime import Gateway, Limits, UploadDirectory
    from submit_tf_job.gateway.server import Listening, serve
    from submit_tf_job.host.user_files import leave_no_core

    listening = Listening(host, port, cert, key, seconds(drain, "--drain") or 30.0, no_tls)
    listening.check(authenticated=not no_auth)
    leave_no_core()  # callers' tokens pass through its memory
    settings = context.settings()
    gateway = Gateway(
        CallerClients(settings),
        CallersFile(callers) if callers else None,
        lambda entry: context.say(json.dumps(entry, default=str)),
        limits=Limits(
            upload_bytes=settings.gateway.upload_size,
            upload_files=settings.gateway.upload_files,
            upload_s=settings.gateway.upload_time_s,
        ),
        policy=Policy.of(policy) if policy else Policy(),
        negotiator=Negotiator(negotiate, settings.kerberos.krb5_conf) if negotiate else None,
        uploads=UploadDirectory(settings.gateway.uploads),
    )
    gateway.clients.check_own_user()
    serve(
        gateway,
        listening,
        lambda url: context.result_line(
            f"listening on {url}", lambda: document("Gateway", url=url)
        ),
    )


def token(
    context: Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The user that the caller's jobs belong to.")
    ],
) -> None:
    """Make a token for a caller. It is printed once; the file of --callers keeps only its hash.

    \b
    Example: submit_tf_job gateway token alice
    """
    from submit_tf_job.gateway.callers import line_of, new_token

    made = new_token()
    line = line_of(name, made)
    context.result(
        [f"token  {made}", f"line   {line}"],
        lambda: document("GatewayToken", name=name, token=made, line=line),
    )
