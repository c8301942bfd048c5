"""Read a container's log files from its NodeManager, while the application runs and shortly after.

Requests are sent only to addresses that the ResourceManager itself lists: an AM may write any
address into its reports, and a service that reads logs for other users must not connect to an
address chosen by an AM.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote

from submit_tf_job.errors import AuthError, BadAnswer, ClusterUnavailable, NoSuchJob, UsageError
from submit_tf_job.yarn.errors import refusal
from submit_tf_job.yarn.observed import Answer, items, text_of, whole_of
from submit_tf_job.yarn.resource_manager import Deadline, ResourceManager
from submit_tf_job.yarn.response import Reply, TransportError
from submit_tf_job.yarn.rest import Download, Interrupted

NODES_KEPT_S = 30.0
REFRESH_S = 2.0
FRAME_MAX = 8192
_FRAME = rb"LogLength:(\d+)\r?\nLogContents:\r?\n"
# all that Hadoop 3.5 says of an unknown container, application or log file
# (hadoop-facts.md#lists-of-logs)
WORDLESS = "HTTP 404 Not Found"
# what it says of a container whose resources are being fetched, or that waits for its launch
# (ContainerLogsUtils.checkState; seen on 3.4.2 under load)
NOT_STARTED = "Container is not yet running"
# with an epoch after a restart of the RM: hadoop-facts.md#container-ids
_CONTAINER = r"container_(?:e\d+_)?\d+_\d+_\d+_\d+"


class NoSuchLogFile(NoSuchJob):
    """The container has no log file with that name (yet)."""


class ContainerGone(NoSuchJob):
    """The NodeManager does not serve the container's logs; mostly it has no record of the
    container's application: either the application has not started there, or it has ended, and YARN
    collects its logs.
    """


class NodeUnreachable(ClusterUnavailable):
    """The NodeManager did not respond, or is not a node of this cluster."""


class NodeLogFile(NamedTuple):
    """The name, size and modification time of a container's log file."""

    name: str
    size: int | None
    modified: str | None = None

    @classmethod
    def from_json(cls, answer: Answer) -> NodeLogFile:
        """Parse one `containerLogInfo` object."""
        return cls(
            text_of(answer, "fileName") or "",
            whole_of(answer, "fileSize"),
            text_of(answer, "lastModifiedTime"),
        )


class LogText(NamedTuple):
    """Content read from a log file.

    Attributes:
        data: The requested bytes, exactly as the container wrote them.
        length: Length of the whole file at that moment.
        growing: Whether the container was still running.
    """

    data: bytes
    length: int
    growing: bool


class LogStream:
    """A log file that is read as a stream, for files of any length.

    Attributes:
        length: Length of the whole file at the time of the request.
        start: Offset of the first piece.
    """

    def __init__(self, download: Download, tail_bytes: int | None) -> None:
        """Read the response up to the end of the NodeManager's header.

        Args:
            download: The response.
            tail_bytes: Number of bytes from the end that were requested; None for the whole file.

        Raises:
            Interrupted: The connection broke before the end of the header.
            BadAnswer: The response has no such header, or ended before it did.
        """
        self._download = download
        self._pieces = download.pieces()
        self._head = b""
        frame = None
        while frame is None and len(self._head) < FRAME_MAX and (piece := next(self._pieces, b"")):
            self._head += piece
            frame = re.search(_FRAME, self._head[:FRAME_MAX])
        if frame is None:
            download.close()
            raise BadAnswer(
                f"{download.url} answered with something else than a log file.",
                details={"url": download.url},
            )
        self.length = self._size = int(frame[1])
        if tail_bytes is not None:
            self._size = min(self.length, tail_bytes)
        self.start = self.length - self._size
        self._head = self._head[frame.end() :]

    def pieces(self) -> Iterator[bytes]:
        """Yield the content, exactly as the container wrote it.

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
                        f"{self._download.url}: its answer ended {left} bytes too early.",
                        details={"url": self._download.url},
                    )
        finally:
            self._download.close()

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        self._download.close()


class NodeManagers:
    """The NodeManagers of one cluster.

    Args:
        client: The client whose ResourceManager lists the nodes; its user reads the logs.
    """

    def __init__(self, client: ResourceManager) -> None:
        self._client = client
        self._known: frozenset[str] = frozenset()
        self._known_at: float | None = None

    def list_logs(self, node_http: str, container_id: str) -> tuple[NodeLogFile, ...]:
        """Return the log files of a container. The list is empty for a container that has not
        started yet, and for an unknown container of a running application (seen on 3.4.2).

        Args:
            node_http: The node's web address as the ResourceManager lists it, `host:port`.
            container_id: The container.

        Raises:
            ContainerGone: when the node has no record of the container (any more), or does not
                serve its logs for another reason.
            NodeUnreachable: when the node did not respond, or is not a node of this cluster.
            ClusterUnavailable: when no ResourceManager listed the nodes.
            AuthError: when the user may not read these logs.
            UsageError: when `container_id` is not the id of a container.
        """
        reply = self._get_from_node(node_http, f"{_logs_path(container_id)}")
        if NOT_STARTED in reply.words:
            return ()
        if reply.status != 200:
            raise _missing_log_error(reply, container_id, None)
        return log_files_of(reply.json_value())

    def containers(self, node_http: str) -> tuple[tuple[str, str], ...]:
        """Return the id and the state (`RUNNING`, `KILLING`, `DONE`) of each container on a node.

        Raises:
            NodeUnreachable: when the node did not respond, or is not a node of this cluster.
            ClusterUnavailable: when no ResourceManager listed the nodes.
            BadAnswer: when the response has an unknown format.
        """
        reply = self._get_from_node(node_http, "/ws/v1/node/containers")
        if reply.status != 200:
            raise reply.bad(f"{reply.url} answered with HTTP {reply.status}.")
        listed = items(reply.json_object().get("containers"), "container")
        return tuple((text_of(item, "id") or "", text_of(item, "state") or "") for item in listed)

    def lacks(self, node_http: str, container_id: str, file: str) -> bool:
        """Return whether a container has log files, but none with the given name.

        The files are listed twice, for this reason: a NodeManager that has collected an
        application's logs deletes them one by one, and a file that was deleted a moment ago must
        not be reported as a file that was never written. Raises the errors of `list_logs`.
        """
        first = self.list_logs(node_http, container_id)
        names = {found.name for found in first}
        return (
            bool(names) and file not in names and self.list_logs(node_http, container_id) == first
        )

    def read_log(
        self,
        node_http: str,
        container_id: str,
        file: str,
        *,
        tail_bytes: int | None = None,
    ) -> LogText:
        """Return the content of a log file, or its end; `stream_log` is for files of any length.

        Args:
            node_http: The node's web address as the ResourceManager lists it, `host:port`.
            container_id: The container.
            file: Name as `list_logs` gives it, such as `stdout.txt`.
            tail_bytes: Number of bytes from the end; None for the whole file.

        Raises:
            NoSuchLogFile: when the container has no such file (yet).
            ContainerGone: when the node does not serve the container's logs (any more).
            NodeUnreachable, ClusterUnavailable, AuthError: As `list_logs`.
            BadAnswer: when the response has more than 64 MiB.
            UsageError: when `container_id` is not the id of a container, or `file` is not the name
                of a file.

        Example:
            >>> nodes.read_log("node1:8042", "container_1700000000000_0001_01_000002", "stdout.txt", tail_bytes=4096).data
        """  # noqa: E501
        reply = self._get_from_node(
            node_http,
            f"{_logs_path(container_id)}/{log_file_path(file)}",
            size_params(tail_bytes),
        )
        if reply.status != 200:
            raise self._failure_of_file(reply, node_http, container_id, file)
        return _content_of_frame(reply.body, tail_bytes)

    def stream_log(
        self,
        node_http: str,
        container_id: str,
        file: str,
        *,
        tail_bytes: int | None = None,
    ) -> LogStream:
        """Open a log file, or its end, to read it in pieces.

        Arguments and errors are those of `read_log`, but there is no limit of the length, and
        `LogStream` adds its own errors. The NodeManager cannot return a part in the middle (`size`
        counts from either end), so a caller that resumes requests the rest of the file by its size.
        """
        deadline = self._client.deadline()
        base = self._base_url(node_http, deadline)
        path = f"{_logs_path(container_id)}/{log_file_path(file)}"
        outcome = self._client.download(
            base, path, params=size_params(tail_bytes), deadline=deadline
        )
        if isinstance(outcome, TransportError):
            raise _node_unreachable(base, path, outcome)
        if isinstance(outcome, Reply):
            raise self._failure_of_file(outcome, node_http, container_id, file)
        return LogStream(outcome, tail_bytes)

    def _failure_of_file(
        self,
        reply: Reply,
        node_http: str,
        container_id: str,
        file: str,
    ) -> Exception:
        """Return the error for a file that cannot be read.

        Hadoop 3.5 returns the same response for an unknown container and for a missing file; the
        list of the container's files shows which of them it is.
        """
        if reply.words != WORDLESS:
            return _missing_log_error(reply, container_id, file)
        self.list_logs(node_http, container_id)
        return _no_such_file(reply, container_id, file)

    def _get_from_node(
        self, node_http: str, path: str, params: Mapping[str, str] | None = None
    ) -> Reply:
        deadline = self._client.deadline()
        base = self._base_url(node_http, deadline)
        outcome = self._client.fetch(base, path, params=params, deadline=deadline)
        if isinstance(outcome, TransportError):
            raise _node_unreachable(base, path, outcome)
        return outcome

    def page_of(self, host: str) -> str | None:
        """Return the URL of the web server of a host's NodeManager; None if the host has no
        NodeManager in service.
        """
        address = next(iter(self.addresses_of(host)), None)
        return address and f"{self._client.node_scheme}://{address}"

    def pages(self) -> dict[str, str]:
        """Return the URL of the web server of each node that is in service, by the node's host."""
        nodes, scheme = self._client.nodes(), self._client.node_scheme
        return {
            node.host: f"{scheme}://{node.http_address}"
            for node in nodes
            if node.host and node.http_address
        }

    def addresses_of(self, host: str, *, deadline: Deadline | None = None) -> list[str]:
        """Return the web addresses of the NodeManagers in service on a host; there is usually only
        one.
        """
        nodes = self._client.nodes(deadline=deadline)
        return [node.http_address for node in nodes if node.host == host and node.http_address]

    def _base_url(self, node_http: str, deadline: Deadline) -> str:
        if node_http.lower() not in self._node_addresses(node_http, deadline):
            raise NodeUnreachable(
                f"{node_http} is not the address of one of this cluster's nodes.",
                details={"node": node_http},
            )
        return f"{self._client.node_scheme}://{node_http}"

    def _node_addresses(self, wanted: str, deadline: Deadline) -> frozenset[str]:
        """Return the addresses of the nodes in service, the only ones to which requests may be
        sent. They are requested again if they are old, or if the wanted address is not among them;
        if no ResourceManager responds, a wanted address that was among them stays allowed.
        """
        now = self._client.clock()
        fresh = self._known_at is not None and now - self._known_at < NODES_KEPT_S
        if not fresh or (wanted.lower() not in self._known and now != self._known_at):
            known = wanted.lower() in self._known
            try:
                nodes = self._client.nodes(
                    deadline=self._client.deadline(min(REFRESH_S, deadline.left_s))
                    if known
                    else deadline
                )
            except ClusterUnavailable:
                if not known:
                    raise
                # nodes serve logs without a ResourceManager, and these addresses were its own
                self._known_at = now
                return self._known
            self._known = frozenset(
                node.http_address.lower() for node in nodes if node.http_address
            )
            self._known_at = now
        return self._known


def log_files_of(answer: object) -> tuple[NodeLogFile, ...]:
    """Parse a list of a container's log files (hadoop-facts.md#lists-of-logs)."""
    groups = items(answer)
    for key in ("containerLogsInfoes", "containerLogsInfo"):
        groups = tuple(item for group in groups for item in items(group.get(key, group)))
    files = {
        file.name: file
        for group in groups
        for file in map(NodeLogFile.from_json, items(group.get("containerLogInfo")))
    }
    return tuple(files[name] for name in sorted(files))


def _logs_path(container_id: str) -> str:
    if not re.fullmatch(_CONTAINER, container_id):
        raise UsageError(
            f"{container_id!r} is not a container id.",
            hint="One looks like container_1700000000000_0001_01_000002.",
        )
    return f"/ws/v1/node/containers/{container_id}/logs"


def size_params(tail_bytes: int | None) -> dict[str, str]:
    """Return the query for a whole file (None), or for this number of bytes at its end."""
    if tail_bytes is None:
        return {}
    return {"size": str(-tail_bytes)}


def _node_unreachable(base: str, path: str, trouble: TransportError) -> NodeUnreachable:
    return NodeUnreachable(
        f"The NodeManager at {base} could not be reached: {trouble.why}.",
        # nobody writes the address of a node
        hint=(not trouble.speaks and trouble.advice) or "Can this host reach the nodes' web ports?",
        details={"method": "GET", "url": base + path, "reason": trouble.why},
    )


def log_file_path(name: str) -> str:
    """Quote the name of a log file for a URL.

    Raises:
        UsageError: The name is empty, or would lead to another path: it contains `/`, or is `.` or
            `..`.
    """
    if not name or "/" in name or name in (".", ".."):
        raise UsageError(f"{name!r} is not a valid log file name.")
    return quote(name, safe="")


def _missing_log_error(reply: Reply, container_id: str, file: str | None) -> Exception:
    """Return the error for a response without logs: for a missing file, a removed container, or
    logs that the user may not read. For the first two, Hadoop responds with 404 to a request for a
    file's content, and with 503 to a request for a list. `file` is None for a list.
    """
    words, details = reply.words, reply.details()
    if reply.status == 307:
        return ContainerGone(
            f"The NodeManager does not serve {container_id} any more; its log server does.",
            details=details,
        )
    if "Unknown container" in words or "Unknown application" in words or words == WORDLESS:
        return ContainerGone(
            f"The NodeManager does not know {container_id}: it has not started, or it is over.",
            details=details,
        )
    if file and ("Cannot find this log" in words or NOT_STARTED in words):
        return _no_such_file(reply, container_id, file)
    known = refusal(reply, f"read the logs of {container_id}")
    if isinstance(known, AuthError):
        return known
    return ContainerGone(
        f"The logs of {container_id} cannot be read: {words or f'HTTP {reply.status}'}",
        details=details,
    )


def _no_such_file(reply: Reply, container_id: str, file: str) -> NoSuchLogFile:
    return NoSuchLogFile(
        f"{container_id} has no log file {file}.",
        hint="It may not have written to it yet.",
        details=reply.details(),
    )


def _content_of_frame(body: bytes, tail_bytes: int | None) -> LogText:
    """Extract the content from the NodeManager's response by its length, because a log may contain
    the separators themselves. A response without the NodeManager's header is returned as it is.

    `LogLength` is the length of the whole file, whatever part was requested; the content ends
    without a separator, directly before "End of LogType:" (seen on 3.4.2).
    """
    frame = re.search(_FRAME, body[:FRAME_MAX])
    if frame is None:
        return LogText(body, len(body), growing=False)
    length = size = int(frame[1])
    if tail_bytes is not None:
        size = min(length, tail_bytes)
    data, rest = body[frame.end() : frame.end() + size], body[frame.end() + size :]
    return LogText(data, length, growing=b"belongs to a running container" in rest[:512])
