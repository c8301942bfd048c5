"""Ask the daemons: HTTP without any proxy, https and Kerberos where they want it, ZooKeeper's four letters, one DNS question."""

from __future__ import annotations

import http.client
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from submit_tf_job.sandbox.access import Access, NoTicket
from submit_tf_job.yarn.registrydns import DnsAnswer, ask

__all__ = ["DnsAnswer", "NotWell", "ask_dns", "ask_zookeeper", "get_json", "send"]


class NotWell(Exception):
    """A daemon did not answer, or not as a healthy one does; the text says how."""


_ANYBODY = Access()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A standby ResourceManager redirects; a ticket is for the one that was asked."""

    def redirect_request(self, *_: object) -> urllib.request.Request | None:
        """Follow nothing."""
        return None


def send(method: str, url: str, timeout_s: float = 5.0, body: Path | None = None, access: Access = _ANYBODY) -> tuple[int, bytes]:
    """Send one request to a daemon of ours and return status and body.

    Args:
        method: HTTP method.
        url: Address, always on this machine.
        timeout_s: Longest silence.
        body: File to send.
        access: How to be let in.

    Raises:
        NotWell: when nothing answers, or Kerberos gives no ticket.
    """
    try:
        headers = {"Accept": "application/json", **access.headers()}
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
        raise NotWell(f"{url.split('?')[0]} does not answer: {getattr(error, 'reason', error)}") from None


def _open(request: urllib.request.Request, timeout_s: float, access: Access) -> tuple[int, bytes]:
    # A proxy from the environment has no business between this machine and itself.
    handlers = [urllib.request.ProxyHandler({}), _NoRedirects(), urllib.request.HTTPSHandler(context=access.context())]
    with urllib.request.build_opener(*handlers).open(request, timeout=timeout_s) as answer:
        return answer.status, answer.read()


def get_json(url: str, timeout_s: float = 5.0, access: Access = _ANYBODY) -> Mapping[str, Any]:
    """Return the JSON object at a URL.

    Raises:
        NotWell: when there is none.
    """
    status, body = send("GET", url, timeout_s, access=access)
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if status != 200 or not isinstance(value, dict):
        raise NotWell(f"{url.split('?')[0]} answers {status}: {body[:200].decode(errors='replace')}")
    return value


def ask_zookeeper(port: int, timeout_s: float = 3.0) -> None:
    """Ask ZooKeeper whether it is well.

    Raises:
        NotWell: when it does not say so.
    """
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
            connection.sendall(b"ruok")
            answer = connection.recv(16)
    except OSError as error:
        raise NotWell(f"port {port} does not answer: {error}") from None
    if answer != b"imok":
        raise NotWell(f"port {port} answers {answer!r} instead of imok")


def ask_dns(server: str, port: int, name: str, kind: str = "A", timeout_s: float = 3.0) -> DnsAnswer:
    """Ask one DNS server one question over UDP.

    Raises:
        NotWell: when it does not answer.
    """
    try:
        return ask(server, port, name, kind, timeout_s)
    except OSError as error:
        raise NotWell(f"{server}:{port} does not answer: {error}") from None
