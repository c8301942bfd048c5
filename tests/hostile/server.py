"""A server on loopback that sends any bytes, also over TLS, and records its requests."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

WAIT_S = 240.0  # longer than any client waits


@dataclass(frozen=True)
class Asked:
    """A request as it came over the wire."""

    method: str
    target: str
    head: str
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


Answering = Callable[[Asked, socket.socket], None]


@dataclass
class HostileServer:
    """Listens until the test is over; one thread for each connection.

    Attributes:
        answering: Writes the answer to a request; the connection is closed after it.
    """

    answering: Answering
    tls: ssl.SSLContext | None = None
    asked: list[Asked] = field(default_factory=list)
    # first bytes of every connection that never became a request
    received: list[bytes] = field(default_factory=list)
    port: int = 0

    def url(self, host: str = "localhost") -> str:
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    @contextlib.contextmanager
    def listening(self) -> Iterator[HostileServer]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
            accepting = threading.Thread(target=self._accept, args=(listener,), daemon=True)
            accepting.start()
            yield self
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(WAIT_S)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(WAIT_S)
        with contextlib.suppress(OSError), contextlib.closing(self._open(connection)) as stream:
            asked = self._read(stream)
            if asked is not None:
                self.asked.append(asked)
                self.answering(asked, stream)

    def _open(self, connection: socket.socket) -> socket.socket:
        if self.tls is None:
            return connection
        try:
            if connection.recv(1, socket.MSG_PEEK) != b"\x16":
                connection.recv(65536)
                # hadoop-facts.md#plain-http-on-a-tls-port
                connection.sendall(b"\x15\x03\x03\x00\x02\x02P")
                raise ConnectionError("plain http")
            return self.tls.wrap_socket(connection, server_side=True)
        except OSError:
            connection.close()
            raise

    def _read(self, stream: socket.socket) -> Asked | None:
        data = b""
        while b"\r\n\r\n" not in data:
            if data and not data[:1].isalpha():  # TLS spoken to a plain port: answer as Jetty does
                self.received.append(data)
                stream.sendall(raw(400, b"<h1>Bad Message 400</h1>", "text/html"))
                return None
            piece = stream.recv(65536)
            if not piece:
                return None
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        text = head.decode("latin-1")
        lengths = [
            line.partition(":")[2]
            for line in text.splitlines()
            if line.lower().startswith("content-length:")
        ]
        while len(body) < int(lengths[0] if lengths else 0):
            piece = stream.recv(65536)
            if not piece:
                return None
            body += piece
        method, target, _ = text.partition("\r\n")[0].split(" ", 2)
        return Asked(method, target, text, body)


def raw(
    status: int,
    body: bytes = b"",
    kind: str = "application/json",
    *headers: str,
    length: bool = True,
) -> bytes:
    """Compose an answer, byte by byte."""
    lines = [f"HTTP/1.1 {status} Said", f"Content-Type: {kind}", *headers, "Connection: close"]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def always(answer: bytes) -> Answering:
    """Answer the same to everything."""
    return lambda _asked, stream: stream.sendall(answer)


# --- certificates ---------------------------------------------------------------------------------


_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True)
class Authority:
    """A CA of a test's own, made by openssl."""

    directory: Path
    name: str

    @property
    def certificate(self) -> Path:
        return self.directory / f"{self.name}.crt"

    @classmethod
    def make(cls, directory: Path, name: str) -> Authority:
        made = cls(directory, name)
        _openssl("req", "-x509", *_KEY, "-days", "30", "-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
                 "-keyout", directory / f"{name}.key", "-out", made.certificate)  # fmt: skip
        return made

    def issue(self, name: str, host: str, *, expired: bool = False) -> tuple[Path, Path]:
        """Issue a certificate for a host; return it and its key."""
        files = {end: self.directory / f"{name}.{end}" for end in ("key", "csr", "crt", "ext")}
        files["ext"].write_text(f"subjectAltName=DNS:{host}\nauthorityKeyIdentifier=keyid\n")
        out = ("-keyout", files["key"], "-out", files["csr"])
        _openssl("req", *_KEY, "-subj", f"/CN={host}", *out)
        old = ("-startdate", "20200101000000Z", "-enddate", "20200201000000Z")
        self._sign(files, old if expired else ("-days", "30"))
        return files["crt"], files["key"]

    def server(self, name: str, host: str, *, expired: bool = False) -> ssl.SSLContext:
        """Issue a certificate for a host, and return what a server needs to use it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue(name, host, expired=expired))
        return context

    def _sign(self, files: dict[str, Path], dates: tuple[str, ...]) -> None:
        """Sign with `openssl ca`, the one of its commands that sets both dates in every version."""
        work = self.directory / "ca"
        work.mkdir(exist_ok=True)
        (work / "index.txt").write_text("")
        (work / "serial").write_text(f"{len(list(self.directory.glob('*.crt'))):02X}\n")
        config = work / "ca.cnf"
        config.write_text(
            f"[ca]\ndefault_ca=own\n[own]\ndatabase={work}/index.txt\nserial={work}/serial\nnew_certs_dir={work}\ndefault_md=sha256\n"
            "policy=any\nunique_subject=no\n[any]\ncommonName=supplied\n"
        )
        _openssl("ca", "-batch", "-notext", "-config", config, "-cert", self.certificate, "-keyfile", self.directory / f"{self.name}.key",
                 "-in", files["csr"], "-out", files["crt"], "-extfile", files["ext"], *dates)  # fmt: skip


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=600)
