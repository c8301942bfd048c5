"""A proxy on loopback between a client and a real ResourceManager, which loses or holds what passes
through it.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import requests

from tests.clusters import Cluster
from tests.tool import SUBMIT_S, runs_of, until

WAIT_S = 130.0  # longer than any request takes


@dataclass
class Fault:
    """What happens to one request.

    Attributes:
        kind: `lost`: it is passed on, and nothing comes back; `hold`, `hold-request`: the answer,
            or the request, is kept until the client has gone.
        method: Which requests it hits.
        path: How the paths of those begin.
    """

    kind: str
    method: str
    path: str


@dataclass
class Proxy:
    """Passes requests on, one to a connection.

    Attributes:
        faults: What is to happen; each happens once.
        seen: Method and path of every request, and what happened to it.
        posted: Path and body of each POST, as they came.
        proofs: How each request proved who asks: by a header, by a cookie.
        held: Set when a request or an answer is being kept.
        user: Whom it says that every request is of, as a gateway does; "" to say nothing.
    """

    target: str
    user: str = ""
    faults: list[Fault] = field(default_factory=list)
    seen: list[tuple[str, str, str]] = field(default_factory=list)
    posted: list[tuple[str, bytes]] = field(default_factory=list)
    proofs: list[tuple[bool, bool]] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)
    port: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    @contextlib.contextmanager
    def listening(self) -> Iterator[Proxy]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
            try:
                yield self
            finally:
                listener.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        client.settimeout(WAIT_S)
        with contextlib.suppress(OSError), client:
            request = _request(client)
            if request:
                method, target, rest = request.split(b" ", 2)
                if self.user:
                    target += (b"&" if b"?" in target else b"?") + f"user.name={self.user}".encode()
                    request = b" ".join([method, target, rest])
                self._one(client, request, method.decode(), target.decode().partition("?")[0])

    def _one(self, client: socket.socket, request: bytes, method: str, path: str) -> None:
        with self._lock:
            hit = (f for f in self.faults if f.method == method and path.startswith(f.path))
            fault = next(hit, None)
            if fault is not None:
                self.faults.remove(fault)
            self.seen.append((method, path, fault.kind if fault else ""))
            head = request.partition(b"\r\n\r\n")[0].lower()
            self.proofs.append((b"\r\nauthorization:" in head, b"hadoop.auth" in head))
            if method == "POST":
                self.posted.append((path, request.partition(b"\r\n\r\n")[2]))
        kind = fault.kind if fault else ""
        if kind == "hold-request":
            self._hold(client)
        elif kind == "lost":
            threading.Thread(target=self._ask, args=(request,), daemon=True).start()
            time.sleep(0.05)
        else:
            answer = self._ask(request)
            if kind == "hold":
                self._hold(client)
            else:
                client.sendall(answer)

    def _hold(self, client: socket.socket) -> None:
        """Wait until the client is no more; nothing is passed on after that."""
        self.held.set()
        client.recv(1)

    def _ask(self, request: bytes) -> bytes:
        """Send a request and read the whole answer."""
        target = urlsplit(self.target)
        with (
            contextlib.suppress(OSError),
            socket.create_connection((target.hostname or "", target.port or 80), WAIT_S) as server,
        ):
            server.sendall(request)
            return _to_the_end(server)
        return b""


def _request(client: socket.socket) -> bytes:
    """Read one request and let the server close the connection after its answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = client.recv(65536)
        if not piece:
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    length = next(
        (
            int(line.partition(b":")[2])
            for line in lines
            if line.lower().startswith(b"content-length:")
        ),
        0,
    )
    while len(body) < length:
        body += client.recv(65536)
    return b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + body


def _to_the_end(server: socket.socket) -> bytes:
    pieces = []
    while piece := server.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


class Judge:
    """The ResourceManager itself, asked without the tool and without the proxy."""

    def __init__(self, cluster: Cluster) -> None:
        self._url = f"{cluster.info['rm_url']}/ws/v1/cluster/apps"

    def applications(self, name: str) -> list[str]:
        """Return the ids of all applications of a job."""
        found = requests.get(self._url, timeout=SUBMIT_S).json()
        return [app["id"] for app in runs_of(name, (found["apps"] or {}).get("app", []))]

    def live(self, name: str) -> list[str]:
        """Return the ids of a job's applications that are not over."""
        found = requests.get(self._url, timeout=SUBMIT_S).json()
        apps = runs_of(name, (found["apps"] or {}).get("app", []))
        return [app["id"] for app in apps if app["finalStatus"] == "UNDEFINED"]

    def only_live(self, name: str) -> str:
        """Wait until one application of a job is live, and return its id: YARN may accept two POSTs
        of a name, and one is withdrawn then (docs/verdict.md#lost-answers).
        """
        until(lambda: len(self.live(name)) == 1, f"one {name} is live", within_s=SUBMIT_S)
        [live] = self.live(name)
        return live

    def ended(self, application: str) -> bool:
        """Say whether an application is over."""
        found = requests.get(f"{self._url}/{application}", timeout=SUBMIT_S).json()["app"]
        return found["state"] in ("FINISHED", "FAILED", "KILLED")
