"""An HDFS by WebHDFS, as a small real server in memory, for faults at its hands.

What it does is what the real one does: `check_rules` of `tests/world/hdfs_rules.py` runs on both.
"""

from __future__ import annotations

import io
import json
import posixpath
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unicodedata import normalize
from urllib.parse import parse_qs, quote, unquote, urlsplit

PREFIX = "/webhdfs/v1"
OWNED = {"owner": "alice", "group": "users", "permission": "644"}
CLOSE = 0  # a status: the connection is closed without an answer
LONGEST_NAME, LONGEST_PATH = 255, 8000  # bytes (FSDirectory), characters (NameNodeRpcServer)


class Fault(Exception):
    """A response that is an error; of `CLOSE` the connection is closed without one."""

    def __init__(self, status: int, kind: str = "", said: str = "") -> None:
        super().__init__(kind)
        self.status, self.kind, self.said = status, kind, said or f"{kind}: said"


def _error(fault: Fault) -> tuple[int, Any]:
    return fault.status, {"RemoteException": {"exception": fault.kind, "message": fault.said}}


class WebNameNode:
    """What it has, was asked for, and does wrong.

    Attributes:
        directories: Every directory, and when something was last put into it (milliseconds).
        files: The content of every file.
        inodes: The number of every directory, which a rename keeps.
        written: When every file was written.
        clock: Returns milliseconds.
        asked: Method, operation and user of each request.
        fault: HTTP status and exception of every answer; None for proper answers.
        before: Called with operation and path before each request is served; it may change
            what is here, wait, or raise `Fault`. CREATE and OPEN are followed by `DATA`; `CONTENT`
            comes before what CREATE sends is read.
    """

    def __init__(self) -> None:
        self.directories: dict[str, int] = {}
        self.files: dict[str, bytes] = {}
        self.inodes: dict[str, int] = {}
        self.written: dict[str, int] = {}
        self.made = 0
        self.clock: Callable[[], int] = lambda: int(time.time() * 1000)
        self.asked: list[tuple[str, str, str]] = []
        self.fault: tuple[int, str] | None = None
        self.before: Callable[[str, str], object] = lambda _operation, _path: None
        self.address = "nn"
        self.lock = threading.RLock()

    def answer(self, method: str, target: str, body: bytes = b"") -> tuple[int, Any]:
        """Return status and JSON, content or address for one request."""
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path = unquote(parts.path.removeprefix(PREFIX)) or "/"
        operation = "DATA" if "data" in query else query["op"]
        self.asked.append((method, operation, query.get("user.name", "")))
        try:
            if self.fault:
                raise Fault(*self.fault)
            self.before(operation, path)
            with self.lock:
                return self._serve(operation, path, query, body)
        except Fault as fault:
            return _error(fault)

    def put(self, path: str, content: bytes) -> None:
        """Put a file with its directories here."""
        self.make(posixpath.dirname(path))
        self.files[path], self.written[path] = content, self.clock()
        self._touch(posixpath.dirname(path))

    def make(self, path: str) -> None:
        """Make a directory and its parents."""
        names = path.split("/")
        for end in range(2, len(names) + 1):
            made = "/".join(names[:end])
            if made in self.files:
                raise Fault(403, "FileAlreadyExistsException", f"Path is not a directory: {made}")
            if made not in self.directories:
                self.made += 1
                self.inodes[made] = self.made
                self.directories[made] = self.clock()
                self._touch(posixpath.dirname(made))

    def _touch(self, path: str) -> None:
        """Note that something was put into a directory, or taken out of it."""
        if path in self.directories:
            self.directories[path] = self.clock()

    def _check_name(self, path: str) -> None:
        """Refuse a new name as FSDirectory and DFSUtilClient.isValidName do."""
        if any(":" in name or name in (".", "..") for name in path.split("/")):
            raise Fault(400, "InvalidPathException", f"Invalid path name {path}")
        if len(path) > LONGEST_PATH:
            raise Fault(403, "IOException", "Pathname too long.  Limit 8000 characters")
        if len(posixpath.basename(path).encode()) > LONGEST_NAME:
            # as a DataNode passes on a PathComponentTooLongException
            raise Fault(403, "IOException", f"The maximum path component name limit of {path} is …")
        if posixpath.basename(path) == ".snapshot":
            raise Fault(400, "HadoopIllegalArgumentException", '".snapshot" is a reserved name.')

    def below(self, path: str) -> dict[str, bytes]:
        """Return the files below a directory, by their paths from there."""
        return {
            name[len(path) + 1 :]: content
            for name, content in self.files.items()
            if name.startswith(f"{path}/")
        }

    def children(self, path: str) -> list[str]:
        """Return the names of what a directory holds."""
        everything = [*self.directories, *self.files]
        return sorted(posixpath.basename(it) for it in everything if posixpath.dirname(it) == path)

    def _serve(
        self, operation: str, path: str, query: dict[str, str], body: bytes
    ) -> tuple[int, Any]:
        user = query.get("user.name", "alice")
        if operation == "MKDIRS":
            self._check_name(path)
            self.make(path)
        elif operation == "DELETE":
            there = path in self.directories or path in self.files
            self._move(path, None)
            return 200, {"boolean": there}
        elif operation == "RENAME":
            self._rename(path, query["destination"])
        elif operation == "GETTRASHROOT":
            return 200, {"Path": f"/user/{user}/.Trash"}
        elif operation == "CREATE":
            # as java.net.URI writes it
            where = f"http://{self.address}{PREFIX}{quote(normalize('NFC', path))}"
            return 307, f"{where}?op=CREATE&data=1&user.name={user}"
        elif operation == "OPEN":
            if self._status(path)["type"] != "FILE":
                raise Fault(404, "FileNotFoundException", f"Path is not a file: {path}")
            return 307, f"http://{self.address}{PREFIX}{quote(path)}?op=OPEN&data=1"
        elif operation == "DATA" and query["op"] == "OPEN":
            return 200, self.files[path]
        elif operation == "DATA":
            self._check_name(path)
            if path in self.files or path in self.directories:
                raise Fault(403, "FileAlreadyExistsException")
            self.put(path, body)
            return 201, ""
        elif operation == "GETFILESTATUS":
            return 200, {"FileStatus": self._status(path)}
        else:
            self._status(path)
            rows = [
                {**self._status(posixpath.join(path, name)), "pathSuffix": name}
                for name in self.children(path)
            ]
            return 200, {"FileStatuses": {"FileStatus": rows}}
        return 200, {"boolean": True}

    def _status(self, path: str) -> dict[str, Any]:
        if path in self.files:
            found = {"type": "FILE", "length": len(self.files[path]), **OWNED}
            return {**found, "modificationTime": self.written.get(path, 1)}
        if path in self.directories:
            found = {"type": "DIRECTORY", "length": 0, "fileId": self.inodes.get(path, 0)}
            return {**found, **OWNED, "modificationTime": self.directories[path]}
        raise Fault(404, "FileNotFoundException", f"{path} does not exist")

    def _rename(self, source: str, target: str) -> None:
        """As with renameoptions=NONE (FSDirRenameOp.unprotectedRenameTo)."""
        self._status(source)
        self._check_name(target)
        if f"{target}/".startswith(f"{source}/"):
            kind = "FileAlreadyExistsException" if source == target else "IOException"
            raise Fault(403, kind, f"Rename destination {target} is below {source}")
        if target in self.files or target in self.directories:
            if (source in self.files) != (target in self.files):
                raise Fault(403, "IOException", f"{source} and {target} must both be directories")
            said = f"rename destination {target} already exists"
            raise Fault(403, "FileAlreadyExistsException", said)
        if self._status(posixpath.dirname(target))["type"] == "FILE":
            raise Fault(403, "ParentNotDirectoryException")
        self._move(source, target)
        self._touch(posixpath.dirname(target))

    def _move(self, source: str, target: str | None) -> None:
        """Move a tree; remove it without a target."""
        here: Any
        self._touch(posixpath.dirname(source))
        for here in (self.directories, self.inodes, self.files, self.written):
            for name in [name for name in here if f"{name}/".startswith(f"{source}/")]:
                kept = here.pop(name)
                if target is not None:
                    here[target + name[len(source) :]] = kept

    def connection(self) -> Any:
        """Return a connection of http.client's kind, without a socket."""
        node = self

        class Connection:
            reason = "said"

            def request(
                self, method: str, target: str, body: Iterable[bytes] = (), **_headers: Any
            ) -> None:
                self.status, self.value = node.answer(method, target, b"".join(body))
                self.headers = {"Location": self.value}
                if self.status == CLOSE:
                    raise ConnectionResetError("the connection was closed")
                content = self.value
                if not isinstance(content, bytes):
                    content = json.dumps(content).encode()
                self.read = io.BytesIO(content).read

            def getresponse(self) -> Any:
                return self

            def close(self) -> None:
                pass

        return Connection()


@contextmanager
def web_name_node(host: str = "127.0.0.1") -> Iterator[WebNameNode]:
    """Serve on a free port of this machine; `address` names it, as the real one refuses a colon."""
    node = WebNameNode()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            self.close_connection = True
            try:
                if self.command == "PUT" and "data=1" in self.path:
                    # a DataNode may refuse before it has read the content
                    node.before("CONTENT", unquote(urlsplit(self.path).path.removeprefix(PREFIX)))
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            except Fault as fault:
                self._reply(*_error(fault))
                return
            self._reply(*node.answer(self.command, self.path, body))

        def _reply(self, status: int, value: Any) -> None:
            if status == CLOSE:
                return
            content = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            if status == 307:
                self.send_header("Location", value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_DELETE = _serve  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    with Server((host, 0), Handler) as server:
        node.address = f"[{host}]" if ":" in host else host
        node.address += f":{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield node
        finally:
            server.shutdown()
            thread.join(5)
