"""Read logs of ended applications from a cluster's log server over HTTP.

The MapReduce JobHistoryServer (`/ws/v1/history`, HsWebServices) and the ApplicationHistoryServer
(`/ws/v1/applicationhistory`, AHSWebServices) have the same API, but for the shapes of their lists,
and frame contents as NodeManagers do. They do not list containers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from submit_tf_job.errors import AuthError, BadAnswer, ClusterUnavailable, SubmitTFJobError
from submit_tf_job.yarn.errors import refusal
from submit_tf_job.yarn.nodemanager import (
    WORDLESS,
    ContainerGone,
    LogStream,
    NodeLogFile,
    log_file_path,
    log_files_of,
    size_params,
)
from submit_tf_job.yarn.resource_manager import ResourceManager
from submit_tf_job.yarn.response import Reply
from submit_tf_job.yarn.transport_errors import TransportError

__all__ = ["LogServer", "log_server_of"]


def log_server_of(properties: Mapping[str, str]) -> str | None:
    """Return the log server's REST address in yarn-site.xml's properties; None without one.

    `yarn.log.server.web-service.url` is that address; `yarn.log.server.url` is its web page.
    """
    service = properties.get("yarn.log.server.web-service.url", "").strip().rstrip("/")
    if service.startswith(("http://", "https://")):
        return service
    page = urlsplit(properties.get("yarn.log.server.url", "").strip())
    service = {"jobhistory": "history", "applicationhistory": "applicationhistory"}.get(
        page.path.strip("/").partition("/")[0], ""
    )
    return (
        f"{page.scheme}://{page.netloc}/ws/v1/{service}"
        if service and page.scheme in ("http", "https")
        else None
    )


class LogServer:
    """A log server.

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
            ContainerGone: It has no logs of that container.
            AuthError: The logs may not be read, by this user or by the server.
            ClusterUnavailable: It does not respond.
        """
        outcome = self._client.http.fetch(*_split(address, f"/containers/{container_id}/logs"))
        if isinstance(outcome, TransportError):
            raise _silent(address, outcome)
        if outcome.status != 200:
            raise _failure(outcome, container_id)
        try:
            answer = json.loads(outcome.body)
        except ValueError:
            raise _failure(outcome, container_id) from None
        files = log_files_of(answer)
        if not files:
            raise ContainerGone(f"The log server has no logs of {container_id}.")
        return files

    def stream_log(
        self, address: str, container_id: str, file: str, *, tail_bytes: int | None = None
    ) -> LogStream:
        """Open a log file, or its end; arguments and errors are those of `list_logs`."""
        # the only path for contents that the JobHistoryServer has; the other server has it too
        base, path = _split(address, f"/containerlogs/{container_id}/{log_file_path(file)}")
        outcome = self._client.http.download(base, path, params=size_params(tail_bytes))
        if isinstance(outcome, TransportError):
            raise _silent(address, outcome)
        if isinstance(outcome, Reply):
            raise _failure(outcome, container_id)
        try:
            return LogStream(outcome, tail_bytes)
        except BadAnswer:
            # an unknown file gets 200 with "Can not find logs for container:…" (seen on 3.4.2)
            raise ContainerGone(f"The log server has no {file} of {container_id}.") from None


def _split(address: str, path: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/") + path


def _silent(address: str, trouble: TransportError) -> ClusterUnavailable:
    return ClusterUnavailable(
        f"The log server at {address} could not be reached: {trouble.why}.",
        hint=trouble.advice or "Its address is yarn.log.server.web-service.url of yarn-site.xml.",
    )


def _failure(reply: Reply, container_id: str) -> SubmitTFJobError:
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
