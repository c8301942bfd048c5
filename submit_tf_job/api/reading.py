"""logs: what tasks wrote, while they run and afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from submit_tf_job.api.cluster import Cluster
from submit_tf_job.errors import SubmitTFJobError

if TYPE_CHECKING:
    from submit_tf_job.yarn.records import AppReport

__all__ = ["tail_of"]


def tail_of(
    cluster: Cluster,
    app: AppReport,
    container_id: str,
    file: str = "stderr.txt",
    *,
    host: str | None = None,
    lines: int = 20,
    max_bytes: int = 16 * 1024,
) -> tuple[str, ...]:
    """Read the last lines of a container's log file, from its NodeManager or from the collected logs, whichever has it.

    Args:
        app: The application that the container belongs to.
        container_id: The container.
        file: Name of the file.
        host: Its node, where known; without it only the collected logs are read.
        lines: How many lines, at most.
        max_bytes: How much to read, at most; a line that begins before is cut.

    Returns:
        The lines, () where there are none or they cannot be read now; unprintable characters are in them as they were written.

    Example:
        >>> tail_of(cluster, app, "container_1700000000000_0001_01_000002", host="node1", lines=5)  # doctest: +SKIP
    """
    reads: tuple[Callable[[], bytes | None], ...] = (
        lambda: _from_node(cluster, host, container_id, file, max_bytes),
        lambda: _from_collected(cluster, app, container_id, file, host, max_bytes),
    )
    for read in reads:
        try:
            data = read()
        except SubmitTFJobError:
            continue
        if data is not None:
            return tuple(data.decode("utf-8", "backslashreplace").splitlines()[-lines:])
    return ()


def _from_node(cluster: Cluster, host: str | None, container_id: str, file: str, max_bytes: int) -> bytes | None:
    from submit_tf_job.yarn.nodemanager import ContainerGone, NodeUnreachable

    for node in cluster.client.nodes() if host else ():
        if node.host == host and node.http_address:
            try:
                return cluster.nodes.read_log(node.http_address, container_id, file, tail_bytes=max_bytes).data
            except (ContainerGone, NodeUnreachable):
                continue
    return None


def _from_collected(cluster: Cluster, app: AppReport, container_id: str, file: str, host: str | None, max_bytes: int) -> bytes | None:
    conf: Path | None = cluster.settings["hadoop_conf"]
    if conf is None or not app.ended:
        return None
    from submit_tf_job.leftovers import collected_logs

    return collected_logs(app, conf, cluster.settings.user).read(container_id, file, tail=max_bytes, node=host)
