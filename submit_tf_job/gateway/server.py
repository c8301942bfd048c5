"""The HTTP server: a socket, an event loop, and a graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from submit_tf_job.errors import SettingsError, UsageError
from submit_tf_job.gateway.app import served
from submit_tf_job.gateway.http_connection import IDLE_S, MOST_HEAD, HttpConnection
from submit_tf_job.gateway.runtime import Gateway
from submit_tf_job.host.user_files import refuse_if_others_can_read

_MOST_FILES = 65_536


@dataclass(frozen=True)
class Listening:
    """The address to listen on.

    Attributes:
        host: Name or address.
        port: 0 for any free port.
        certificate: TLS certificate with its chain, in PEM; None without TLS.
        key: The private key of the certificate, in PEM.
        drain_s: Seconds for running requests when the gateway is stopped.
        plain: Whether addresses other than loopback are allowed without TLS, because a proxy in
            front of the gateway terminates TLS.
    """

    host: str = "127.0.0.1"
    port: int = 8090
    certificate: Path | None = None
    key: Path | None = None
    drain_s: float = 30.0
    plain: bool = False

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def check(self, *, authenticated: bool) -> None:
        """Refuse an address at which other hosts could act as a user, or could read a token on the
        network.

        Raises:
            SettingsError: Other users can read the private key.
            UsageError: The address is refused, or only one of `certificate` and `key` is given.
        """
        if not authenticated and not self.is_loopback:
            raise UsageError(
                f"without authentication every client that reaches {self.host} acts as you",
                hint="give --callers FILE, or listen on 127.0.0.1",
            )
        if not self.is_loopback and self.certificate is None and not self.plain:
            raise UsageError(
                f"tokens would travel to {self.host} unencrypted",
                hint="give --cert and --key; or --no-tls if a proxy in front of the gateway "
                "terminates TLS and no other client reaches it",
            )
        if (self.certificate is None) != (self.key is None):
            raise UsageError("--cert and --key belong together")
        if self.key is not None:
            refuse_if_others_can_read(self.key, "the file of --key")


def serve(gateway: Gateway, listening: Listening, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, then shut down: no new connections, streams end, requests
    complete.

    `ready` is called with the URL when the server accepts connections.

    Raises:
        UsageError: The address is in use, or does not belong to this machine.
        SettingsError: The certificate or key cannot be used.
    """
    bound = _bind_socket(listening)
    _allow_many_connections()
    _log_to(gateway.log)
    config = uvicorn.Config(
        served(gateway),
        http=HttpConnection,
        ws="none",
        loop="asyncio",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_S,
        h11_max_incomplete_event_size=MOST_HEAD,
        timeout_graceful_shutdown=max(1, round(listening.drain_s)),
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one
        bound.close()
        files = f"--cert {listening.certificate}, --key {listening.key}"
        raise SettingsError(f"{files}: cannot be used: {error.strerror or error}") from None
    scheme = "http" if listening.certificate is None else "https"
    host = f"[{listening.host}]" if ":" in listening.host else listening.host
    server = _Server(config, gateway, lambda: ready(f"{scheme}://{host}:{bound.getsockname()[1]}"))
    # what a killed gateway leaves may be half a million directories
    threading.Thread(target=gateway.uploads.sweep, daemon=True, name="sweep").start()
    try:
        asyncio.run(server.serve(sockets=[bound]))
    finally:
        gateway.uploads.close()


def _allow_many_connections() -> None:
    """Raise the soft limit of open files to the hard limit, or to 65,536 if that is lower.

    Idle connections could use up the 1,024 files that a shell allows.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _bind_socket(listening: Listening) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(
            listening.host, listening.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.create_server(address[:2], family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"cannot listen on {listening.host}:{listening.port}: "
            f"{getattr(error, 'strerror', None) or error}"
        ) from None
    # Connections inherit it. asyncio sets it only for sockets that declare TCP, which those of
    # `create_server` do not; without it the body of a response waits 40 ms for the acknowledgement
    # of its headers.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


class _Server(uvicorn.Server):
    """uvicorn's server, which also calls `ready` when it accepts connections, and ends the streams
    on SIGTERM and SIGINT.
    """

    def __init__(self, config: uvicorn.Config, gateway: Gateway, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._gateway, self._ready = gateway, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGTERM and SIGINT in the event loop.

        Python may call a signal handler at any line of this thread, even at a line that holds a
        lock. So the handler must take no lock and start no thread. Unlike here, uvicorn's own
        method would raise the signals again after the shutdown that they requested.
        """
        loop = asyncio.get_running_loop()

        def arrived(sig: int, _frame: FrameType | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._end_by_signal, sig)

        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, arrived) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _end_by_signal(self, sig: int) -> None:
        # uvicorn's first: an error in ours must not keep the gateway
        self.handle_exit(sig, None)
        self._gateway.drain()


class _Log(logging.Handler):
    """Turns uvicorn's log records into entries of the gateway's log."""

    def __init__(self, log: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log(
            {
                "event": "server",
                "level": record.levelname.lower(),
                "message": record.getMessage()[:500],
            }
        )


def _log_to(log: Callable[[dict[str, Any]], None]) -> None:
    # python_multipart's warnings quote the body, and each of them becomes a response, too.
    # What the client warns of is in the response to a submission.
    for name in ("python_multipart", "submit_tf_job.sdk"):
        logging.getLogger(name).handlers = [logging.NullHandler()]
        logging.getLogger(name).propagate = False
    for name in ("uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [_Log(log)], False
