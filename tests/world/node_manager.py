"""A NodeManager that serves container logs as the real one was seen to."""

from __future__ import annotations

import re
from urllib.parse import unquote

from tests.world.transport import Answer, Asked, remote_exception

_NODE = "org.apache.hadoop.yarn.server.nodemanager"


class NodeManager:
    """A NodeManager's log service, and its containers.

    Attributes:
        up: Whether it answers.
        born: Which process it is.
    """

    def __init__(self, address: str) -> None:
        self.logs: dict[tuple[str, str], bytes] = {}  # (container, file): what it holds
        self.containers: dict[str, str] = {}  # its containers' states
        self.ended: set[str] = set()  # containers that have ended
        self.address = address
        self.log_server: str | None = None
        # hadoop-facts.md#lists-of-logs: the shape of lists, and whether errors have no words
        self.listed, self.wordless = "object", False
        self.promised = 0  # bytes that a list tells of each file, and that are not served
        self.up, self.born = True, 1
        # how it is reached, and the address of it that the ResourceManager writes into links
        self.scheme, self.link = "http", f"http://{address}"
        self.conf = {  # as a node that runs images
            "yarn.nodemanager.container-executor.class": f"{_NODE}.LinuxContainerExecutor",
            "yarn.nodemanager.runtime.linux.allowed-runtimes": "default,docker",
        }

    def serve(self, asked: Asked) -> Answer:
        """Answer a request for a container's logs (yarn-services 9; the frame as seen on 3.4.2)."""
        if asked.path == "/conf":
            name = asked.query["name"]
            return Answer.json({"property": {"key": name, "value": self.conf[name]}})
        if asked.path == "/ws/v1/node/containers":
            known = [{"id": name, "state": state} for name, state in self.containers.items()]
            return Answer.json({"containers": {"container": known} if known else {}})
        if one := re.fullmatch(r"/ws/v1/node/containers/([^/]+)", asked.path):
            if one[1] not in self.containers:
                return remote_exception("NotFoundException", f"container {one[1]} not found", 404)
            return Answer.json({"container": {"id": one[1], "state": self.containers[one[1]]}})
        match = re.fullmatch(r"/ws/v1/node/containers/([^/]+)/logs(?:/([^/]+))?", asked.path)
        assert match, f"unexpected request: {asked.method} {asked.path}"
        assert asked.method == "GET", asked.method
        container, file = match[1], match[2]
        logs = {name: data for (owner, name), data in self.logs.items() if owner == container}
        if _application(container) not in {_application(owner) for owner, _ in self.logs}:
            return self._unknown(container, file)
        state = self.containers.get(container)
        if state in ("NEW", "LOCALIZING", "SCHEDULED"):
            return _missing(f"Container is not yet running. Current state is {state}", file)
        if file is None:
            when = "Sat Nov 21 10:53:21 +0000 2026"
            files = [
                {
                    "fileName": name,
                    "fileSize": str(len(data) + self.promised),
                    "lastModifiedTime": when,
                }
                for name, data in logs.items()
            ]
            # seen: a container that never was, of a living application
            listed = {"containerLogInfo": files} if files else {}
            info = {**listed, "logAggregationType": "LOCAL", "containerId": container}
            if self.listed == "wrapped":
                return Answer.json([{"containerLogsInfo": info}])
            return Answer.json({"containerLogsInfo": [info] if self.listed == "array" else info})
        if unquote(file) not in logs:
            if self.wordless:
                return Answer.text("HTTP 404 Not Found", 404)
            return Answer.text("java.lang.Exception: Cannot find this log on the local disk.", 404)
        size, ended = asked.query.get("size"), container in self.ended
        frame = _framed(container, unquote(file), logs[unquote(file)], size, ended)
        return Answer(200, frame, "text/plain;charset=utf-8")

    def _unknown(self, container: str, file: str | None) -> Answer:
        if self.log_server:
            where = f"{self.log_server}/containers/{container}/logs?redirected_from_node=true"
            return Answer.text("", 307, Location=where)
        if self.wordless and file is None:
            return remote_exception("WebApplicationException", "HTTP 404 Not Found", 503)
        if self.wordless:
            return Answer.text("HTTP 404 Not Found", 404)
        words = (
            "Unknown container. Container either has not started or has already completed or "
            "doesn't belong to this node at all."
        )
        return _missing(words, file)


def _missing(words: str, file: str | None) -> Answer:
    if file is None:
        thrown = "org.apache.hadoop.yarn.webapp.NotFoundException: java.lang.Exception"
        return remote_exception("WebApplicationException", f"{thrown}: {words}", 503)
    return Answer.text(f"java.lang.Exception: {words}", 404)


def _application(container: str) -> str:
    return "_".join(container.split("_")[:-2])


def _framed(container: str, file: str, data: bytes, size: str | None, ended: bool) -> bytes:
    part = data if size is None else data[: int(size)] if int(size) >= 0 else data[int(size) :]
    head = (
        f"Container: {container} on node1:8041\nLogAggregationType: LOCAL\n{'=' * 68}\n"
        f"LogType:{file}\nLogLastModifiedTime:Sat Nov 21 10:53:21 +0000 2026\n"
        f"LogLength:{len(data)}\nLogContents:\n"
    )
    running = f".This log file belongs to a running container ({container}) and so may not be "
    running = "" if ended else f"{running}complete."
    tail = f"End of LogType:{file}{running}\n{'*' * 75}\n\n"
    return head.encode() + part + tail.encode()
