"""Send requests to the daemons: HTTP without a proxy, https and Kerberos where required,
ZooKeeper's four-letter commands, DNS queries.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import socket
import ssl
import zlib
from collections.abc import Iterator, Mapping
from typing import IO, Any
from urllib.parse import urlsplit

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox.hardening import principal_of
from submit_tf_job.sandbox.state import DOMAIN, SandboxState

_ANSWER_S = 3.0


class NotWell(Exception):
    """A daemon did not respond, or is not healthy; the message gives the reason."""


# --- Kerberos ---


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


def _authorization(state: SandboxState, host: str) -> str:
    """Return the Negotiate header for a request of the sandbox's user, who may do everything; the
    host, as the URL names it, is part of the server's principal.
    """
    try:
        import gssapi
        from gssapi.raw import GSSError
    except (ImportError, OSError) as error:
        raise NotWell(f"the extra `kerberos` is not installed: {error}") from None
    os.environ["KRB5_CONFIG"] = str(state.layout.krb5_conf)
    keytab = state.layout.keytab(principal_of(state.user))
    # In memory; a recreated sandbox has the same ports but different keys.
    cache = f"MEMORY:submit_tf_job-{zlib.crc32(keytab.read_bytes())}"
    try:
        name = gssapi.Name(principal_of(state.user), gssapi.NameType.kerberos_principal)
        store: dict[bytes | str, bytes | str] = {
            "client_keytab": f"FILE:{keytab}",
            "ccache": cache,
        }
        credentials = gssapi.Credentials(name=name, usage="initiate", store=store)
        service = gssapi.Name(f"HTTP@{host}", gssapi.NameType.hostbased_service)
        context = gssapi.SecurityContext(name=service, creds=credentials, usage="initiate")
        return f"Negotiate {base64.b64encode(context.step() or b'').decode()}"
    except GSSError as error:
        # MIT's message without GSS-API's general one around it
        raise NotWell(f"Kerberos: {str(error).rpartition('): ')[2] or error}") from None


# --- HTTP ---


def send(
    method: str,
    url: str,
    state: SandboxState | None = None,
    timeout_s: float = 5.0,
    body: IO[bytes] | None = None,
) -> tuple[int, bytes]:
    """Send one request to a daemon of the sandbox and return status and body.

    It follows no redirect: a standby ResourceManager redirects, and a ticket is valid for one host
    only.

    Args:
        method: HTTP method.
        url: Address, always on this machine.
        state: The sandbox, as whose user it is sent; None for an address with a right of its own.
        timeout_s: Maximum seconds without data.
        body: File to send.

    Raises:
        NotWell: The daemon did not respond, or Kerberos issued no ticket.
    """
    place = urlsplit(url)
    headers = {"Accept": "application/json"}
    connection = http.client.HTTPConnection(place.netloc, timeout=timeout_s)
    try:
        if state is not None and place.scheme == "https":
            context = ssl.create_default_context(cafile=str(state.layout.ca_file))
            connection = http.client.HTTPSConnection(
                place.netloc, timeout=timeout_s, context=context
            )
        if state is not None and state.secure:
            headers["Authorization"] = _authorization(state, place.hostname or "")
        if body is not None:
            headers["Content-Type"] = "application/octet-stream"
            headers["Content-Length"] = str(os.fstat(body.fileno()).st_size)
        with contextlib.closing(connection):
            connection.request(method, url.partition(place.netloc)[2], body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise NotWell(f"{url.split('?')[0]} does not answer: {error}") from None


def get_json(url: str, state: SandboxState) -> Mapping[str, Any]:
    """Return the JSON object at a URL.

    Raises:
        NotWell: The request failed, or the response is not a JSON object.
    """
    status, body = send("GET", url, state)
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if status != 200 or not isinstance(value, dict):
        raise NotWell(
            f"{url.split('?')[0]} answers {status}: {body[:200].decode(errors='replace')}"
        )
    return value


# --- other protocols ---


def ask_zookeeper(state: SandboxState) -> None:
    """Check ZooKeeper's health with its command `ruok`.

    Raises:
        NotWell: It did not respond with `imok`.
    """
    port = state.ports["zookeeper"]
    with _connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"ruok")
        answer = connection.recv(16)
    if answer != b"imok":
        raise NotWell(f"port {port} answers {answer!r} instead of imok")


def ask_kdc(state: SandboxState) -> None:
    """Check that the KDC accepts connections.

    Raises:
        NotWell: It does not.
    """
    host, _, port = state.kdc_address.partition(":")
    with _connection((host, int(port))):
        pass


@contextlib.contextmanager
def _connection(address: tuple[str, int]) -> Iterator[socket.socket]:
    try:
        with socket.create_connection(address, timeout=_ANSWER_S) as connection:
            yield connection
    except OSError as error:
        raise NotWell(f"port {address[1]} does not answer: {error}") from None


def ask_dns(state: SandboxState) -> None:
    """Check that Registry DNS knows its zone.

    Raises:
        NotWell: It did not respond, or does not know the zone.
    """
    from dns.exception import DNSException
    from dns.message import make_query
    from dns.query import udp

    try:
        query, where = make_query(DOMAIN, "SOA"), state.dns_address
        answer = udp(query, where, timeout=_ANSWER_S, port=state.dns_port)
    except (DNSException, OSError) as error:
        raise NotWell(f"{state.dns_server} does not answer: {error}") from None
    if answer.rcode() or not answer.answer:
        raise NotWell(f"it does not know its zone {DOMAIN} (code {int(answer.rcode())})")
