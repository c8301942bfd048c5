"""Sources of logs over HTTP: NodeManagers, and a log server of the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from submit_tf_job.container import untrusted
from submit_tf_job.errors import AuthError, BadAnswer, ClusterUnavailable, SubmitTFJobError
from submit_tf_job.logs.entries import FileInfo, TaskContainer
from submit_tf_job.logs.lines import node_time
from submit_tf_job.yarn.errors import refusal
from submit_tf_job.yarn.nodemanager import (
    WORDLESS,
    ContainerGone,
    LogStream,
    NodeLogFile,
    NodeManagers,
    NodeUnreachable,
    log_file_path,
    log_files_of,
    size_params,
)
from submit_tf_job.yarn.resource_manager import ResourceManager
from submit_tf_job.yarn.response import Reply, TransportError
from submit_tf_job.yarn.rest import Interrupted

_TRIES = 3
_GROWTH = 64 * 1024  # bytes that a file may grow between two requests before a third one is needed


class ServedLogs:
    """Logs that a server returns over HTTP: one server for all containers whose own address is not
    known.

    Args:
        server: The server.
        address: The server's address.
    """

    def __init__(self, server: NodeManagers | LogServer, address: str = "") -> None:
        self._server = server
        self._address = address

    def address_of(self, container: TaskContainer) -> str:
        """Return the container's own address if it has one, or else the server's."""
        return container.address or self._address

    def files(self, container: TaskContainer) -> tuple[FileInfo, ...]:
        """List a container's files."""
        found = self._server.list_logs(self.address_of(container), container.id)
        dated = [(file, node_time(file.modified)) for file in found]
        return tuple(
            FileInfo(file.name, file.size, modified, modified.tzinfo if modified else None)
            for file, modified in dated
        )

    def read(
        self, container: TaskContainer, file: str, *, tail: int | None = None
    ) -> Iterator[bytes]:
        """Read a file, or its last `tail` bytes, up to its current size, and resume after a broken
        connection; the third in a row raises the error.
        """
        stream = self._server.stream_log(
            self.address_of(container), container.id, file, tail_bytes=tail
        )
        place, end, tries = stream.start, stream.length, 0
        pieces = stream.pieces()
        while place < end:
            try:
                piece = next(pieces, b"")[: end - place]
            except (Interrupted, NodeUnreachable):
                tries += 1
                if tries == _TRIES:
                    raise
                pieces = self.read_from(container, file, place, end)
                continue
            if not piece:
                return
            place += len(piece)
            tries = 0
            yield piece

    def read_from(
        self, container: TaskContainer, file: str, start: int, size: int
    ) -> Iterator[bytes]:
        """Read from an offset to the end of a file that had `size` bytes and may have grown.

        The servers can only return the last N bytes of a file, which grows meanwhile. So more bytes
        are requested than needed, and bytes that were read before are dropped.
        """
        wanted = max(0, size - start)
        while True:
            stream = self._server.stream_log(
                self.address_of(container), container.id, file, tail_bytes=wanted
            )
            if stream.start <= start or stream.start == 0:
                break
            stream.close()
            wanted = stream.length - start + _GROWTH
        known = start - stream.start
        for piece in stream.pieces():
            if known < len(piece):
                yield piece[max(0, known) :]
            known -= min(max(0, known), len(piece))


class NodeLogs(ServedLogs):
    """The logs on NodeManagers: the logs of running applications.

    Args:
        nodes: Reads the logs of NodeManagers.
    """

    def __init__(self, nodes: NodeManagers) -> None:
        super().__init__(nodes)
        self._nodes = nodes
        self._addresses: dict[str, str] = {}  # by container id

    def address_of(self, container: TaskContainer) -> str:
        """Return the address of the container's NodeManager. If a host has several NodeManagers,
        return the address of the NodeManager that has the container's logs.

        Raises:
            NodeUnreachable: No NodeManager of the host is in service.
        """
        if container.address:
            return container.address
        if container.id not in self._addresses:
            self._addresses[container.id] = self._search_server(container)
        return self._addresses[container.id]

    def is_written(self, container: TaskContainer, file: str) -> bool:
        """Return whether the container of a file is still running; False if the NodeManager cannot
        tell.
        """
        try:
            return self._nodes.read_log(
                self.address_of(container), container.id, file, tail_bytes=0
            ).growing
        except SubmitTFJobError:
            return False

    def forget(self, container: TaskContainer) -> None:
        """Drop the cached address of a container: a restarted NodeManager may have another one."""
        self._addresses.pop(container.id, None)

    def _search_server(self, container: TaskContainer) -> str:
        addresses = self._nodes.addresses_of(container.host or "")
        if not addresses:
            raise NodeUnreachable(f"no NodeManager of {container.host} is in service")
        for address in addresses[:-1]:
            try:
                if self._server.list_logs(address, container.id):
                    return address
            except (ContainerGone, NodeUnreachable):  # noqa: PERF203 - mostly one address
                continue
        return addresses[-1]


# --- a log server ---


def log_server_of(properties: Mapping[str, str]) -> str | None:
    """Return the REST address of the log server from the properties of yarn-site.xml; None if no
    log server is configured.

    `yarn.log.server.web-service.url` is that address. Else it is derived from
    `yarn.log.server.url`, the address of the log server's web page.
    """
    service = properties.get("yarn.log.server.web-service.url", "").strip().rstrip("/")
    if service.startswith(("http://", "https://")) and untrusted.url_parts(service).netloc:
        return service
    page = untrusted.url_parts(properties.get("yarn.log.server.url", "").strip())
    service = {"jobhistory": "history", "applicationhistory": "applicationhistory"}.get(
        page.path.strip("/").partition("/")[0], ""
    )
    return (
        f"{page.scheme}://{page.netloc}/ws/v1/{service}"
        if service and page.scheme in ("http", "https")
        else None
    )


class LogServer:
    """A cluster's log server, over HTTP.

    The MapReduce JobHistoryServer (`/ws/v1/history`, HsWebServices) and the
    ApplicationHistoryServer (`/ws/v1/applicationhistory`, AHSWebServices) have the same API, except
    for the JSON of their lists. They return contents in the same frame as NodeManagers. They do not
    list containers.

    Args:
        client: Sends the requests.
    """

    def __init__(self, client: ResourceManager) -> None:
        self._client = client

    def list_logs(self, address: str, container_id: str) -> tuple[NodeLogFile, ...]:
        """Return the log files of a container.

        Args:
            address: The server's REST address, as returned by `log_server_of`.
            container_id: The container.

        Raises:
            ContainerGone: The log server has no logs of that container.
            AuthError: The logs may not be read, by this user or by the server.
            ClusterUnavailable: The log server does not respond.
        """
        outcome = self._client.fetch(*_split_address(address, f"/containers/{container_id}/logs"))
        if isinstance(outcome, TransportError):
            raise _unreachable_server(address, outcome)
        if outcome.status != 200:
            raise _server_failure(outcome, container_id)
        try:
            answer = untrusted.parse(outcome.body)
        except ValueError:
            raise _server_failure(outcome, container_id) from None
        files = log_files_of(answer)
        if not files:
            raise ContainerGone(f"The log server has no logs of {container_id}.")
        return files

    def stream_log(
        self, address: str, container_id: str, file: str, *, tail_bytes: int | None = None
    ) -> LogStream:
        """Open a log file, or its end, for reading; raises the same errors as `list_logs`, also for
        a missing file.
        """
        # the only path for contents that the JobHistoryServer has; the other server has it too
        base, path = _split_address(address, f"/containerlogs/{container_id}/{log_file_path(file)}")
        outcome = self._client.download(base, path, params=size_params(tail_bytes))
        if isinstance(outcome, TransportError):
            raise _unreachable_server(address, outcome)
        if isinstance(outcome, Reply):
            raise _server_failure(outcome, container_id)
        try:
            return LogStream(outcome, tail_bytes)
        except BadAnswer:
            # an unknown file gets 200 with "Can not find logs for container:…" (seen on 3.4.2)
            raise ContainerGone(f"The log server has no {file} of {container_id}.") from None


def _split_address(address: str, path: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/") + path


def _unreachable_server(address: str, trouble: TransportError) -> ClusterUnavailable:
    return ClusterUnavailable(
        f"The log server at {address} could not be reached: {trouble.why}.",
        hint=trouble.advice or "Its address is yarn.log.server.web-service.url of yarn-site.xml.",
    )


def _server_failure(reply: Reply, container_id: str) -> SubmitTFJobError:
    words = reply.words
    known = refusal(reply, f"read the logs of {container_id}")
    if isinstance(known, AuthError):
        return known
    # An unknown container or application gets 503 with a NotFoundException and this text, which
    # Hadoop 3.5 leaves out (hadoop-facts.md#lists-of-logs).
    if (
        reply.status in (200, 404)
        or words == WORDLESS
        or re.search("(?i)can ?not (find|get) ", words)
    ):
        return ContainerGone(
            f"The log server has no logs of {container_id}: {words or f'HTTP {reply.status}'}",
            details=reply.details(),
        )
    return ClusterUnavailable(
        f"The log server failed: {words or f'HTTP {reply.status}'}", details=reply.details()
    )
