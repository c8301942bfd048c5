"""Let Horovod's processes find one another through Gloo, without ssh or mpirun.

Gloo exchanges its addresses through a key-value store over HTTP, which is usually run by
`horovodrun`. Here the deciding task runs the store at the task's own port, because no other program
listens there. Sources, of Horovod 0.28.1: http_store.cc (the client), http_server.py (the store).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn

from submit_tf_job.container.dns_client import listening_socket
from submit_tf_job.container.info import BootstrapProblem, Info
from submit_tf_job.container.program_variables import ranks

# Gloo's addresses are a few hundred bytes for each pair of tasks.
MOST_BYTES = 16 * 1024 * 1024
IDLE_S = 60.0


class Store(ThreadingMixIn, HTTPServer):
    """The key-value store: values by scope and key, kept in memory."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024  # all tasks come at once

    def __init__(self, address: tuple[str, int], size: int) -> None:
        """Bind the address; `size` is the number of processes.

        Raises:
            OSError: The port is in use.
        """
        super().__init__(address, _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening_socket()
        try:
            self.server_bind()
            self.server_activate()
        except OSError:
            self.server_close()
            raise
        self.size = size
        self.lock = threading.Lock()
        self.values: dict[str, dict[str, bytes]] = {}
        self.done: dict[str, set[str]] = {}

    def end(self) -> None:
        """Stop serving, and free the port."""
        self.shutdown()
        self.server_close()

    def finish(self, scope: str, key: str) -> None:
        """Note that a process has read all that it needs from a scope.

        A scope that all processes read is emptied when the last process has finished, so that a
        second `hvd.init()` finds no addresses of the first call. From any other scope, the value of
        this process is removed.
        """
        with self.lock:
            if not scope.startswith(("global_", "local_", "cross_")):
                self.values.get(scope, {}).pop(key, None)
                return
            done = self.done.setdefault(scope, set())
            done.add(key)
            if len(done) >= (1 if scope.startswith("local_") else self.size):
                del self.done[scope]
                self.values.pop(scope, None)


class _Handler(BaseHTTPRequestHandler):
    server: Store
    timeout = IDLE_S
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        scope, key = self._scope_and_key()
        with self.server.lock:
            value = self.server.values.get(scope, {}).get(key)
        self._send_answer(404 if value is None else 200, value or b"")

    def do_PUT(self) -> None:
        scope, key = self._scope_and_key()
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MOST_BYTES:
            self._send_answer(400)
            return
        value = self.rfile.read(int(length))
        with self.server.lock:
            self.server.values.setdefault(scope, {})[key] = value
        self._send_answer(200)

    def do_DELETE(self) -> None:
        self.server.finish(*self._scope_and_key())
        self._send_answer(200)

    def _scope_and_key(self) -> tuple[str, str]:
        scope, _, key = self.path.strip("/").partition("/")
        return scope, key

    def _send_answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """Log nothing, because Gloo sends a request every 10 ms."""


def serve(info: Info) -> Callable[[], None] | None:
    """Run the store in the deciding task of a job with several processes.

    Returns:
        A function that ends the store; None in any other task, and in a job of one process.

    Raises:
        BootstrapProblem: The task's port is in use.
    """
    size = sum(info.sizes[role] for role in ranks(info))
    if not info.decides or size == 1:
        return None
    try:
        store = Store(("", info.port(info.role, info.index)), size)
    except OSError as err:
        text = "Horovod's key-value store cannot listen at the port of %s: %s"
        text %= (info.name, err.strerror or err)
        raise BootstrapProblem(text, "port-in-use") from err
    serving = threading.Thread(target=store.serve_forever, daemon=True)
    try:
        serving.start()
    except RuntimeError as err:
        store.server_close()
        text = f"Horovod's key-value store of {info.name} cannot run: {err}"
        raise BootstrapProblem(text) from err
    return store.end
