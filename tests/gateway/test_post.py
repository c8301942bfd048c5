"""How a webhook is sent: to its address alone, within its time, and over TLS only to whom the
certificate names.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from submit_tf_job.gateway import webhook_delivery as delivery


class Handler(BaseHTTPRequestHandler):
    """Redirects, trickles, hangs up, or takes it."""

    asked: list[tuple[str, str, str]] = []  # noqa: RUF012 - of the whole server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append((self.command, self.path, body.decode()))
        if self.path == "/away":
            self.send_response(307)
            self.send_header("Location", "/stolen")
            self.end_headers()
        elif self.path == "/drops":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for _ in range(100):
                self.wfile.write(b"X: y\r\n")
                time.sleep(0.2)
        elif self.path == "/hangs-up":
            self.close_connection = True
        else:
            self.send_response(204)
            self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        pass


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    Handler.asked.clear()
    made = Quiet(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def test_it_goes_to_its_address_within_its_time(
    server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setattr(delivery, "_ANSWER_S", 1.5)
    url, post = f"http://127.0.0.1:{server.server_address[1]}", delivery.poster(None)
    assert post(f"{url}/good?x=1", b"{}", {"webhook-id": "1"}) == 204
    assert post(f"{url}/away", b"{}", {}) == 307
    start = time.monotonic()
    for path in ("/drops", "/hangs-up"):
        with pytest.raises(OSError):
            post(f"{url}{path}", b"{}", {})
    with pytest.raises(OSError):
        post("http://127.0.0.1:9/x", b"{}", {})
    assert time.monotonic() - start < 5
    assert [path for _, path, _ in Handler.asked] == [
        "/good?x=1",
        "/away",
        "/drops",
        "/hangs-up",
    ], "a redirect is not followed"


def test_tls_is_checked(server: ThreadingHTTPServer, certificates: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    port = server.server_address[1]
    assert (
        delivery.poster(certificates / "ca.pem")(f"https://localhost:{port}/good", b"{}", {}) == 204
    )
    for ca, host in (
        (certificates / "other-ca.pem", "localhost"),
        (certificates / "ca.pem", "127.0.0.1"),
        (None, "localhost"),
    ):
        with pytest.raises(OSError):
            delivery.poster(ca)(f"https://{host}:{port}/good", b"{}", {})
    assert len(Handler.asked) == 1
