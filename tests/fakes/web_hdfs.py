"""A NameNode that keeps directories, by WebHDFS: a small real server, for faults at its hands."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PREFIX = "/webhdfs/v1"


class WebNameNode:
    """What it has, was asked for, and does wrong.

    Attributes:
        directories: Every directory.
        asked: Method, operation and user of each request.
        fault: HTTP status and exception of every answer; None for proper answers.
    """

    def __init__(self) -> None:
        self.directories: set[str] = set()
        self.asked: list[tuple[str, str, str]] = []
        self.fault: tuple[int, str] | None = None
        self.address = ""

    def answer(self, method: str, target: str) -> tuple[int, Any]:
        """Return status and JSON for one request."""
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path = parts.path.removeprefix(PREFIX)
        self.asked.append((method, query["op"], query.get("user.name", "")))
        if self.fault:
            status, kind = self.fault
            return status, {"RemoteException": {"exception": kind, "message": f"{kind}: said"}}
        if query["op"] == "MKDIRS":
            names = path.split("/")
            self.directories |= {"/".join(names[:end]) for end in range(2, len(names) + 1)}
        elif query["op"] == "DELETE":
            gone = {name for name in self.directories if f"{name}/".startswith(f"{path}/")}
            self.directories -= gone
        else:
            return self._list(path)
        return 200, {"boolean": True}

    def connection(self) -> Any:
        """Return a connection of http.client's kind, without a socket."""
        node = self

        class Connection:
            reason = "said"

            def request(self, method: str, target: str) -> None:
                self.status, self.value = node.answer(method, target)

            def getresponse(self) -> Any:
                return self

            def read(self, _most: int) -> bytes:
                return json.dumps(self.value).encode()

            def close(self) -> None:
                pass

        return Connection()

    def _list(self, path: str) -> tuple[int, Any]:
        if path not in self.directories:
            said = {"exception": "FileNotFoundException", "message": f"{path} does not exist"}
            return 404, {"RemoteException": said}
        names = [
            name.rpartition("/")[2]
            for name in sorted(self.directories)
            if name.rpartition("/")[0] == path
        ]
        rows = [{"pathSuffix": name, "type": "DIRECTORY", "length": 0} for name in names]
        return 200, {"FileStatuses": {"FileStatus": rows}}


@contextmanager
def web_name_node() -> Iterator[WebNameNode]:
    """Serve on a free port of this machine; `address` names it."""
    node = WebNameNode()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            status, value = node.answer(self.command, self.path)
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_DELETE = _serve  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        node.address = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield node
        finally:
            server.shutdown()
            thread.join(5)
