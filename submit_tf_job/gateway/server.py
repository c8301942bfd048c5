"""The server: a socket, a loop, and an end in good order."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import resource
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from submit_tf_job.errors import SettingsError, UsageError
from submit_tf_job.gateway.app import served
from submit_tf_job.gateway.certificates import subject_of
from submit_tf_job.gateway.state import Gateway

__all__ = ["Listening", "serve"]

_IDLE_S = 30  # for which a connection without a request is kept
_HEADERS = 32 * 1024
_MOST_FILES = 65_536


@dataclass(frozen=True)
class Listening:
    """Where to listen.

    Attributes:
        host: Name or address.
        port: 0 for any that is free.
        certificate: TLS certificate with its chain, PEM; None without TLS.
        key: Its private key, PEM.
        client_ca: Certificates of those who sign callers' certificates, PEM; None where callers have none.
        drain_s: Seconds for requests that are being served when the gateway is told to end.
        plain: Whether what is not loopback may be without TLS: somebody before us ends it.
    """

    host: str = "127.0.0.1"
    port: int = 8090
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    drain_s: float = 30.0
    plain: bool = False

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def check(self, *, authenticated: bool) -> None:
        """Refuse to listen where strangers could act as somebody, or read a token on the wire.

        Raises:
            UsageError: Where they could.
        """
        if not authenticated and not self.is_loopback:
            raise UsageError(
                f"without authentication everybody who reaches {self.host} is you", hint="give --callers FILE, or listen on 127.0.0.1"
            )
        if not self.is_loopback and self.certificate is None and not self.plain:
            raise UsageError(
                f"tokens would travel to {self.host} unencrypted",
                hint="give --cert and --key; or --no-tls where a proxy before the gateway ends TLS and nobody else reaches it",
            )
        if (self.certificate is None) != (self.key is None):
            raise UsageError("--cert and --key belong together")
        if self.client_ca is not None and self.certificate is None:
            raise UsageError("--client-ca wants TLS", hint="give --cert and --key, too")


def serve(gateway: Gateway, listening: Listening, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, then end in good order: no new connection, streams end, requests are answered.

    Args:
        ready: Told the address when it can be called.

    Raises:
        UsageError: The address is taken, or none of this machine.
        SettingsError: Certificate or key cannot be used.
    """
    bound = _bind(listening)
    _allow_many_connections()
    _log_to(gateway.log)
    config = uvicorn.Config(
        served(gateway),
        http=_Connection,
        ws="none",
        loop="asyncio",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE_S,
        h11_max_incomplete_event_size=_HEADERS,
        timeout_graceful_shutdown=max(1, round(listening.drain_s)),
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
        ssl_ca_certs=str(listening.client_ca) if listening.client_ca else None,
        ssl_cert_reqs=ssl.CERT_OPTIONAL if listening.client_ca else ssl.CERT_NONE,  # others may have a token
    )
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one
        bound.close()
        files = f"--cert {listening.certificate}, --key {listening.key}" + (
            f", --client-ca {listening.client_ca}" if listening.client_ca else ""
        )
        raise SettingsError(f"{files}: cannot be used: {error.strerror or error}") from None
    scheme = "http" if listening.certificate is None else "https"
    host = f"[{listening.host}]" if ":" in listening.host else listening.host
    server = _Server(config, gateway, lambda: ready(f"{scheme}://{host}:{bound.getsockname()[1]}"))
    if gateway.courier is not None:
        gateway.courier.start()
    try:
        asyncio.run(server.serve(sockets=[bound]))
    finally:
        if gateway.courier is not None:
            gateway.courier.end()


def _allow_many_connections() -> None:
    """Take as many open files as this process may have: a shell gives it 1,024, which idle connections could use up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _bind(listening: Listening) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(listening.host, listening.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.create_server(address[:2], family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        raise UsageError(f"cannot listen on {listening.host}:{listening.port}: {getattr(error, 'strerror', None) or error}") from None
    # Connections inherit it. asyncio sets it only where a socket says that it is TCP, which those of `create_server` do not; without it the
    # body of an answer waits 40 ms for the acknowledgement of its head.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


class _Connection(H11Protocol):
    """uvicorn's, which tells the application whose certificate came with it, and waits for nobody's header for ever."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch_the_head()
        tls, app = transport.get_extra_info("ssl_object"), self.app
        subject = subject_of(tls.getpeercert()) if tls is not None else ""
        if subject:

            async def known(scope: Any, receive: Any, send: Any) -> None:
                scope["state"]["certificate"] = subject
                await app(scope, receive, send)

            self.app = known

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_the_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget_the_head()

    def _watch_the_head(self) -> None:
        """Give the head of a request its time; uvicorn would wait for ever for one that comes in drops, or not at all."""
        if self.conn.their_state is not h11.IDLE:
            self._forget_the_head()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(_IDLE_S, self._too_late)

    def _forget_the_head(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


class _Server(uvicorn.Server):
    """uvicorn's, which says when it is ready, ends streams when it is told to end, and counts that as no failure."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._gateway, self._ready = gateway, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._gateway.drain()
        super().handle_exit(sig, frame)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Hear SIGTERM and SIGINT; uvicorn would raise them once more at the end, although all is done that they asked for."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class _Log(logging.Handler):
    """Turns what uvicorn says of itself into entries of our log."""

    def __init__(self, log: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log({"event": "server", "level": record.levelname.lower(), "message": record.getMessage()[:500]})


def _log_to(log: Callable[[dict[str, Any]], None]) -> None:
    for name in ("uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [_Log(log)], False
