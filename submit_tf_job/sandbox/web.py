"""Send requests to the daemons: HTTP without a proxy, https and Kerberos where required,
ZooKeeper's four-letter commands, DNS queries.
"""

from __future__ import annotations

import http.client
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from submit_tf_job.sandbox.access import Access, NoTicket

__all__ = ["DnsAnswer", "NotWell", "ask_dns", "ask_zookeeper", "get_json", "send"]


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


@dataclass(frozen=True)
class DnsAnswer:
    """The result code of a DNS response, and its records as text: for type A addresses."""

    code: int
    records: tuple[str, ...]


def ask_dns(
    server: str, port: int, name: str, kind: str = "A", timeout_s: float = 3.0
) -> DnsAnswer:
    """Send one query to one DNS server over UDP.

    Raises:
        NotWell: The server did not respond, or its response is for another query.
    """
    from dns.exception import DNSException
    from dns.message import make_query
    from dns.query import udp

    try:
        answer = udp(make_query(name, kind), server, timeout=timeout_s, port=port)
        records = (record.to_text() for group in answer.answer for record in group)
        return DnsAnswer(int(answer.rcode()), tuple(records))
    except (DNSException, OSError) as error:
        raise NotWell(f"{server}:{port} does not answer: {error}") from None
