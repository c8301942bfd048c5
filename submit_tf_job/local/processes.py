"""Run the tasks of a local run as processes; a name server in place of Registry DNS resolves their
names to this machine.
"""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import dns.message
from dns.exception import DNSException
from dns.flags import Flag
from dns.name import Name, from_text
from dns.rcode import Rcode
from dns.rrset import from_text as records

from submit_tf_job.container.names import FAMILY
from submit_tf_job.local.task import LocalCache, LocalTask
from submit_tf_job.plan import Site
from submit_tf_job.yarn.records import Component

__all__ = ["DOMAIN", "NameServer", "Processes"]

DOMAIN = "localhost"  # RFC 6761: names below it resolve to this machine

_LOOPBACK, _TYPE = ("::1", "AAAA") if FAMILY == socket.AF_INET6 else ("127.0.0.1", "A")


class NameServer:
    """Resolves every name below a domain to the loopback address; other names do not exist.

    Args:
        domain: The domain.
    """

    def __init__(self, domain: str) -> None:
        self._domain = from_text(domain)
        self._socket = socket.socket(FAMILY, socket.SOCK_DGRAM)
        self._socket.bind((_LOOPBACK, 0))
        host = f"[{_LOOPBACK}]" if ":" in _LOOPBACK else _LOOPBACK
        self.address = f"{host}:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, name="names", daemon=True)

    def __enter__(self) -> NameServer:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        with socket.socket(FAMILY, socket.SOCK_DGRAM) as closing:
            closing.sendto(b"", self._socket.getsockname())  # an empty query ends the thread
        self._thread.join(5)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                query, peer = self._socket.recvfrom(4096)
            except OSError:
                return
            if not query:
                return
            answer = _answer(query, self._domain)
            if answer:
                self._socket.sendto(answer, peer)


def _answer(message: bytes, domain: Name) -> bytes:
    """Return the response to a query; b"" if it is not valid."""
    try:
        query = dns.message.from_wire(message)
        answer = dns.message.make_response(query, recursion_available=True)
        (question,) = query.question
    except (DNSException, ValueError):
        return b""
    answer.flags |= Flag.AA
    found = records(question.name, 1, "IN", _TYPE, _LOOPBACK)
    if not question.name.is_subdomain(domain) or question.name == domain:
        answer.set_rcode(Rcode.NXDOMAIN)
    elif question.rdtype == found.rdtype:
        answer.answer.append(found)
    return answer.to_wire()


class Processes:
    """Runs tasks as processes."""

    network = "host"

    def __init__(self) -> None:
        self._names = NameServer(DOMAIN)

    def __enter__(self) -> Processes:
        self._names.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self._names.__exit__(*failure)

    def site(self, user: str, port_range: tuple[int, int], staging: str) -> Site:
        """Return the site that a job is planned for."""
        return Site(
            user,
            domain=DOMAIN,
            dns_server=self._names.address,
            port_range=port_range,
            staging=staging,
            gpu_resource="",  # no GPU is looked for
        )

    def task(
        self, name: str, component: Component, root: Path, cache: LocalCache, host: str
    ) -> LocalTask:
        """Create a task without starting it."""
        return LocalTask(name, component, root, cache, host)
