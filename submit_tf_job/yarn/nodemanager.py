"""A container's log files, as its NodeManager serves them while the application lives and for a moment after.

Only addresses that the ResourceManager itself lists are asked: an AM may write any address into its own reports, and a service that
reads logs for others must not be sent to places of an AM's choosing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from submit_tf_job.errors import AuthError, BadAnswer, ClusterUnavailable, NoSuchJob, UsageError
from submit_tf_job.yarn.answers import Reply
from submit_tf_job.yarn.client import Client, Deadline
from submit_tf_job.yarn.funnel import Download, Interrupted
from submit_tf_job.yarn.observed import Answer, items, text_of, whole_of
from submit_tf_job.yarn.trouble import Trouble

__all__ = [
    "ContainerGone",
    "LogFile",
    "LogStream",
    "LogText",
    "NoSuchLogFile",
    "NodeManagers",
    "NodeUnreachable",
    "log_file_path",
    "size_params",
]

NODES_KEPT_S = 30.0
REFRESH_S = 2.0
FRAME_MAX = 8192
_FRAME = re.compile(rb"LogLength:(\d+)\r?\nLogContents:\r?\n")
_CONTAINER = re.compile(r"container_(?:e\d+_)?\d+_\d+_\d+_\d+")  # the epoch appears after an RM restart (facts: verified-security-ha 9)


class NoSuchLogFile(NoSuchJob):
    """The container is known, and has no log file of that name (yet)."""


class ContainerGone(NoSuchJob):
    """The NodeManager does not know the container's application: not started, or over; then its logs are where YARN gathers them."""


class NodeUnreachable(ClusterUnavailable):
    """The NodeManager did not answer, or is none of this cluster's."""


@dataclass(frozen=True)
class LogFile:
    """A log file of a container."""

    name: str
    size: int | None
    modified: str | None = None

    @classmethod
    def from_json(cls, answer: Answer) -> LogFile:
        """Read one `containerLogInfo`."""
        return cls(text_of(answer, "fileName") or "", whole_of(answer, "fileSize"), text_of(answer, "lastModifiedTime"))


@dataclass(frozen=True)
class LogText:
    """What was read of a log file.

    Attributes:
        data: The bytes asked for, exactly as the container wrote them.
        length: Length of the whole file at that moment.
        growing: Whether the container was still running.
    """

    data: bytes
    length: int
    growing: bool


class LogStream:
    """A log file as it comes, for files of any length.

    Attributes:
        length: Length of the whole file at the moment it was asked for.
        start: Where in it the pieces begin.
    """

    def __init__(self, download: Download, tail_bytes: int | None) -> None:
        """Read up to the frame's end.

        Raises:
            Interrupted: The answer broke off before that.
            BadAnswer: There is no such frame.
        """
        self._download = download
        self._pieces = download.pieces()
        self._head = b""
        frame = None
        while frame is None and len(self._head) < FRAME_MAX and (piece := next(self._pieces, b"")):
            self._head += piece
            frame = _FRAME.search(self._head[:FRAME_MAX])
        if frame is None:
            download.close()
            raise BadAnswer(f"{download.url} answered with something else than a log file.", details={"url": download.url})
        self.length = int(frame[1])
        self._size = self.length if tail_bytes is None else min(self.length, tail_bytes)
        self.start = self.length - self._size
        self._head = self._head[frame.end() :]

    def pieces(self) -> Iterator[bytes]:
        """Give the content, exactly as the container wrote it.

        Raises:
            Interrupted: The connection broke.
        """
        left = self._size
        try:
            piece = self._head
            while left:
                yield piece[:left]
                left -= len(piece[:left])
                piece = next(self._pieces, b"") if left else b""
                if left and not piece:
                    raise Interrupted(
                        f"{self._download.url}: its answer ended {left} bytes too early.", details={"url": self._download.url}
                    )
        finally:
            self._download.close()

    def close(self) -> None:
        """Let go of the connection; harmless where that was done."""
        self._download.close()


class NodeManagers:
    """The NodeManagers of one cluster.

    Args:
        client: The client whose ResourceManager lists them, and as whom they are asked.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: frozenset[str] = frozenset()
        self._known_at: float | None = None

    def list_logs(self, node_http: str, container_id: str, *, deadline: Deadline | None = None) -> tuple[LogFile, ...]:
        """Return the log files of a container; none for one that never was, as long as its application lives (seen on 3.4.2).

        Args:
            node_http: The node's web address as the ResourceManager lists it, `host:port`.
            container_id: The container.
            deadline: For the whole call.

        Raises:
            ContainerGone: when the node does not know the container (any more).
            NodeUnreachable: when the node did not answer, or is none of this cluster's.
            AuthError: when the user may not read these logs.
        """
        reply = self._get(node_http, f"{_logs(container_id)}", {}, deadline)
        if reply.status != 200:
            raise _failure(reply, container_id, None)
        answer = reply.json_object().get("containerLogsInfo")
        found = [file for group in items(answer) for file in items(group.get("containerLogInfo"))]
        return tuple(sorted((LogFile.from_json(file) for file in found), key=lambda file: file.name))

    def read_log(
        self, node_http: str, container_id: str, file: str, *, tail_bytes: int | None = None, deadline: Deadline | None = None
    ) -> LogText:
        """Return a log file, or its end.

        Args:
            node_http: The node's web address as the ResourceManager lists it, `host:port`.
            container_id: The container.
            file: Name as `list_logs` gives it, such as `stdout.txt`.
            tail_bytes: How much of its end, everything where `None`.
            deadline: For the whole call.

        Raises:
            NoSuchLogFile: when the container has no such file (yet).
            ContainerGone: when the node does not know the container (any more).
            NodeUnreachable: when the node did not answer, or is none of this cluster's.
            AuthError: when the user may not read these logs.

        Example:
            >>> nodes.read_log("node1:8042", "container_1700000000000_0001_01_000002", "stdout.txt", tail_bytes=4096).data
        """
        reply = self._get(node_http, f"{_logs(container_id)}/{log_file_path(file)}", size_params(tail_bytes), deadline)
        if reply.status != 200:
            raise _failure(reply, container_id, file)
        return _unframed(reply.body, tail_bytes)

    def stream_log(
        self, node_http: str, container_id: str, file: str, *, tail_bytes: int | None = None, deadline: Deadline | None = None
    ) -> LogStream:
        """Open a log file, or its end, to read it piece by piece; arguments and errors are those of `read_log`.

        There is no way to ask for a part in the middle (`size` counts from either end), so whoever goes on where they stopped asks for the
        end of the file from there.
        """
        deadline = deadline or self._client.deadline()
        base = self._base(node_http, deadline)
        path = f"{_logs(container_id)}/{log_file_path(file)}"
        outcome = self._client.funnel.download(base, path, params=size_params(tail_bytes), deadline=deadline)
        if isinstance(outcome, Trouble):
            raise _unreachable(base, path, outcome)
        if isinstance(outcome, Reply):
            raise _failure(outcome, container_id, file)
        return LogStream(outcome, tail_bytes)

    def _get(self, node_http: str, path: str, params: Mapping[str, str], deadline: Deadline | None) -> Reply:
        deadline = deadline or self._client.deadline()
        base = self._base(node_http, deadline)
        outcome = self._client.funnel.fetch(base, path, params=params, deadline=deadline)
        if isinstance(outcome, Trouble):
            raise _unreachable(base, path, outcome)
        return outcome

    def page_of(self, host: str, *, deadline: Deadline | None = None) -> str | None:
        """Return the address of a host's web pages, None where no NodeManager of it is in service."""
        nodes = self._client.nodes(deadline=deadline)
        address = next((node.http_address for node in nodes if node.host == host and node.http_address), None)
        return address and f"{self._scheme}://{address}"

    @property
    def _scheme(self) -> str:
        return self._client.funnel.rms.urls[0].partition("://")[0]  # yarn.http.policy is one for the whole cluster

    def _base(self, node_http: str, deadline: Deadline) -> str:
        if node_http.lower() not in self._addresses(node_http, deadline):
            raise NodeUnreachable(f"{node_http} is not the address of one of this cluster's nodes.", details={"node": node_http})
        return f"{self._scheme}://{node_http}"

    def _addresses(self, wanted: str, deadline: Deadline) -> frozenset[str]:
        """Return the nodes' addresses, asked for again where they are old, or lack the wanted one."""
        now = self._client.clock()
        fresh = self._known_at is not None and now - self._known_at < NODES_KEPT_S
        if not fresh or (wanted.lower() not in self._known and now != self._known_at):
            known = wanted.lower() in self._known
            try:
                nodes = self._client.nodes(deadline=self._client.deadline(min(REFRESH_S, deadline.left_s)) if known else deadline)
            except ClusterUnavailable:
                if not known:
                    raise
                self._known_at = now  # the nodes serve logs without a ResourceManager, and their addresses have been its own words
                return self._known
            self._known = frozenset(node.http_address.lower() for node in nodes if node.http_address)
            self._known_at = now
        return self._known


def _logs(container_id: str) -> str:
    if not _CONTAINER.fullmatch(container_id):
        raise UsageError(f"{container_id!r} is no container id.", hint="One looks like container_1700000000000_0001_01_000002.")
    return f"/ws/v1/node/containers/{container_id}/logs"


def size_params(tail_bytes: int | None) -> dict[str, str]:
    """Make the query for a whole file (None), or for so many bytes of its end."""
    return {} if tail_bytes is None else {"size": str(-tail_bytes) if tail_bytes else "0"}


def _unreachable(base: str, path: str, trouble: Trouble) -> NodeUnreachable:
    return NodeUnreachable(
        f"The NodeManager at {base} could not be reached: {trouble.why}.",
        hint=trouble.advice or "Can this host reach the nodes' web ports?",
        details={"method": "GET", "url": base + path, "reason": trouble.why},
    )


def log_file_path(name: str) -> str:
    """Quote the name of a file for a URL.

    Raises:
        UsageError: No file of a log directory has such a name.
    """
    if not name or "/" in name or name in (".", ".."):
        raise UsageError(f"{name!r} is no name of a log file.")
    return quote(name, safe="")


def _failure(reply: Reply, container_id: str, file: str | None) -> Exception:
    """Tell a missing file from a container that is gone; both come as 404 for a content and as 503 for a list."""
    words, details = reply.words, reply.details()
    if reply.status == 307:
        return ContainerGone(f"The NodeManager does not serve {container_id} any more; its log server does.", details=details)
    if "Unknown container" in words or "Unknown application" in words:
        return ContainerGone(f"The NodeManager does not know {container_id}: it has not started, or it is over.", details=details)
    if "Cannot find this log" in words and file:
        return NoSuchLogFile(f"{container_id} has no log file {file}.", hint="It may not have written to it yet.", details=details)
    if "not authorized to view the logs" in words or reply.status == 403:
        return AuthError(f"The logs of {container_id} may not be read: {words}", details=details)
    return ContainerGone(f"The logs of {container_id} cannot be read: {words or f'HTTP {reply.status}'}", details=details)


def _unframed(body: bytes, tail_bytes: int | None) -> LogText:
    """Take the content out of the NodeManager's frame by its length, because a log may hold the frame's own words.

    `LogLength` is the whole file's length whatever part was asked for; the content ends without a separator, directly before
    "End of LogType:" (seen on 3.4.2).
    """
    frame = _FRAME.search(body[:FRAME_MAX])
    if frame is None:
        return LogText(body, len(body), growing=False)
    length = int(frame[1])
    size = length if tail_bytes is None else min(length, tail_bytes)
    data, rest = body[frame.end() : frame.end() + size], body[frame.end() + size :]
    return LogText(data, length, growing=b"belongs to a running container" in rest[:512])
