"""Send requests to the daemons: HTTP without a proxy, https and Kerberos where required,
ZooKeeper's four-letter commands, DNS queries.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import itertools
import json
import os
import socket
import ssl
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.kdc import principal_of
from submit_tf_job.sandbox.saved_state import Layout, SandboxState

__all__ = [
    "Access",
    "NoTicket",
    "NotWell",
    "SandboxLogin",
    "access_of",
    "ask_dns",
    "ask_zookeeper",
    "get_json",
    "require_gssapi",
    "send",
]

_caches = itertools.count()


class NoTicket(Exception):
    """Kerberos issued no ticket; the message gives the reason."""


@dataclass(frozen=True)
class SandboxLogin:
    """A login from a keytab; tickets are kept in memory."""

    principal: str
    keytab: Path
    krb5_conf: Path

    def authorization(self, host: str) -> str:
        """Return the Negotiate header for one request to a web server of this machine.

        Args:
            host: The host as the URL names it; it is part of the server's principal.

        Raises:
            NoTicket: The KDC did not respond, or issued no ticket.
        """
        with _kerberos(self.krb5_conf) as gssapi:
            # A recreated sandbox has the same ports but different keys.
            credentials = self._credentials(gssapi, f"submit_tf_job-{zlib.crc32(self._keys())}")
            service = gssapi.Name(f"HTTP@{host}", gssapi.NameType.hostbased_service)
            token = (
                gssapi.SecurityContext(name=service, creds=credentials, usage="initiate").step()
                or b""
            )
        return f"Negotiate {base64.b64encode(token).decode()}"

    def ask_kdc(self) -> None:
        """Get a ticket from the KDC, without the ticket cache.

        Raises:
            NoTicket: The KDC did not respond, or issued no ticket.
        """
        with _kerberos(self.krb5_conf) as gssapi:
            credentials = self._credentials(gssapi, f"submit_tf_job-{os.getpid()}-{next(_caches)}")
            if not credentials.lifetime:
                raise NoTicket("the KDC's ticket has no lifetime")

    def _credentials(self, gssapi: Any, cache: str) -> Any:
        store = {"client_keytab": f"FILE:{self.keytab}", "ccache": f"MEMORY:{cache}"}
        return gssapi.Credentials(
            name=gssapi.Name(self.principal, gssapi.NameType.kerberos_principal),
            usage="initiate",
            store=store,
        )

    def _keys(self) -> bytes:
        try:
            return self.keytab.read_bytes()
        except OSError as error:
            raise NoTicket(f"{self.keytab} cannot be read: {error.strerror}") from None


@dataclass(frozen=True)
class Access:
    """Credentials for requests to the daemons of a sandbox.

    Attributes:
        ca_file: CA that verifies certificates of https.
        login: The credentials; None without authentication.
    """

    ca_file: Path | None = None
    login: SandboxLogin | None = None

    def headers(self, host: str) -> dict[str, str]:
        """Return the headers for one request to a host.

        Raises:
            NoTicket: Kerberos is on and issued no ticket.
        """
        if self.login is None:
            return {}
        return {"Authorization": self.login.authorization(host)}

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context for https, None without TLS."""
        if self.ca_file is None:
            return None
        return _context(self.ca_file, self.ca_file.stat().st_mtime_ns)


def access_of(state: SandboxState) -> Access:
    """Return the credentials of the sandbox's user, the HDFS superuser and YARN administrator."""
    layout = Layout(Path(state.home))
    ca_file = login = None
    if state.tls:
        ca_file = layout.ca_file
    if state.secure:
        principal = principal_of(state.user)
        login = SandboxLogin(principal, layout.keytab(principal), layout.krb5_conf)
    return Access(ca_file, login)


def require_gssapi() -> None:
    """Check that the Kerberos library is installed.

    Raises:
        SandboxError: It is not; the hint is the command that installs it.
    """
    try:
        import gssapi  # noqa: F401
    except (ImportError, OSError) as error:
        raise SandboxError(
            f"a sandbox with Kerberos needs the extra `kerberos` of this package ({error})",
            hint="pip install 'requests-kerberos>=0.15' (Debian, Ubuntu: first apt-get install "
            "gcc python3-dev libkrb5-dev)",
        ) from None


@lru_cache(maxsize=8)
def _context(ca_file: Path, _: int) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(ca_file))


@contextlib.contextmanager
def _kerberos(krb5_conf: Path) -> Iterator[Any]:
    """Yield the Kerberos library while KRB5_CONFIG names the sandbox's configuration; restore the
    variable afterwards.
    """
    try:
        import gssapi
        from gssapi.raw import GSSError
    except (ImportError, OSError) as error:
        raise NoTicket(f"the extra `kerberos` is not installed: {error}") from None
    before = os.environ.get("KRB5_CONFIG")
    os.environ["KRB5_CONFIG"] = str(krb5_conf)
    try:
        yield gssapi
    except GSSError as error:
        raise NoTicket(f"Kerberos: {_words(error)}") from None
    finally:
        if before is None:
            del os.environ["KRB5_CONFIG"]
        else:
            os.environ["KRB5_CONFIG"] = before


def _words(error: Exception) -> str:
    """Return MIT's error message without GSS-API's general one around it."""
    return str(error).rpartition("): ")[2] or str(error)


class NotWell(Exception):
    """A daemon did not respond, or is not healthy; the message gives the reason."""


_ANYBODY = Access()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: a standby ResourceManager redirects, and a ticket is valid for one host
    only.
    """

    def redirect_request(self, *_: object) -> urllib.request.Request | None:
        """Refuse every redirect."""
        return None


def send(
    method: str,
    url: str,
    timeout_s: float = 5.0,
    body: Path | None = None,
    access: Access = _ANYBODY,
) -> tuple[int, bytes]:
    """Send one request to a daemon of the sandbox and return status and body.

    Args:
        method: HTTP method.
        url: Address, always on this machine.
        timeout_s: Maximum seconds without data.
        body: File to send.
        access: Credentials.

    Raises:
        NotWell: The daemon did not respond, or Kerberos issued no ticket.
    """
    try:
        headers = {"Accept": "application/json", **access.headers(urlsplit(url).hostname or "")}
        request = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310 - built by us, always http
        if body is None:
            return _open(request, timeout_s, access)
        request.add_header("Content-Type", "application/octet-stream")
        request.add_header("Content-Length", str(body.stat().st_size))
        with body.open("rb") as handle:
            request.data = handle
            return _open(request, timeout_s, access)
    except NoTicket as problem:
        raise NotWell(str(problem)) from None
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise NotWell(
            f"{url.split('?')[0]} does not answer: {getattr(error, 'reason', error)}"
        ) from None


def _open(request: urllib.request.Request, timeout_s: float, access: Access) -> tuple[int, bytes]:
    # Ignore the environment's proxy: the daemons are on this machine.
    handlers = [
        urllib.request.ProxyHandler({}),
        _NoRedirects(),
        urllib.request.HTTPSHandler(context=access.context()),
    ]
    with urllib.request.build_opener(*handlers).open(request, timeout=timeout_s) as answer:
        return answer.status, answer.read()


def get_json(url: str, timeout_s: float = 5.0, access: Access = _ANYBODY) -> Mapping[str, Any]:
    """Return the JSON object at a URL.

    Raises:
        NotWell: The request failed, or the response is not a JSON object.
    """
    status, body = send("GET", url, timeout_s, access=access)
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if status != 200 or not isinstance(value, dict):
        raise NotWell(
            f"{url.split('?')[0]} answers {status}: {body[:200].decode(errors='replace')}"
        )
    return value


def ask_zookeeper(port: int, timeout_s: float = 3.0) -> None:
    """Check ZooKeeper's health with its command `ruok`.

    Raises:
        NotWell: It did not respond with `imok`.
    """
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
            connection.sendall(b"ruok")
            answer = connection.recv(16)
    except OSError as error:
        raise NotWell(f"port {port} does not answer: {error}") from None
    if answer != b"imok":
        raise NotWell(f"port {port} answers {answer!r} instead of imok")


def ask_dns(server: str, port: int, zone: str, timeout_s: float = 3.0) -> None:
    """Check that a DNS server knows its zone.

    Raises:
        NotWell: It did not respond, or does not know the zone.
    """
    from dns.exception import DNSException
    from dns.message import make_query
    from dns.query import udp

    try:
        answer = udp(make_query(zone, "SOA"), server, timeout=timeout_s, port=port)
    except (DNSException, OSError) as error:
        raise NotWell(f"{server}:{port} does not answer: {error}") from None
    if answer.rcode() or not answer.answer:
        raise NotWell(f"it does not know its zone {zone} (code {int(answer.rcode())})")
