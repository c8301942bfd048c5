"""logs: what tasks wrote, while they run and afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from submit_tf_job.api.cluster import Cluster
from submit_tf_job.api.joblogs import JobLogs, find_logs
from submit_tf_job.errors import NoSuchJob, SubmitTFJobError, UsageError

if TYPE_CHECKING:
    from submit_tf_job.tasklogs.model import LogInventory, Selection
    from submit_tf_job.tasklogs.reader import Reading
    from submit_tf_job.yarn.records import AppReport

__all__ = ["log_files", "logs", "tail_of"]

Say = Callable[[str], None]


def logs(
    cluster: Cluster,
    job: str,
    task: str | None = None,
    *,
    files: Sequence[str] = (),
    tail: int | None = None,
    since_s: float | None = None,
    grep: str | None = None,
    am: bool = False,
    follow: bool = False,
    say: Say = lambda _sentence: None,
    wall: Callable[[], float] = time.time,
) -> Reading:
    """Read the logs of a job, in order of time where their lines carry times.

    Args:
        cluster: The cluster.
        job: Name of the job, or an application id.
        task: A task (`worker-0`), a role (`worker`), or `am`; None for all tasks.
        files: Names of files; without any, stdout.txt and stderr.txt.
        tail: How many lines of the end of each file.
        since_s: Only what was written in so many seconds before now.
        grep: A regular expression that lines must match.
        am: Read the ApplicationMaster's own logs.
        follow: Go on until the job is over.
        say: Told, in sentences, what cannot be read and what is waited for.
        wall: Seconds since the epoch.

    Returns:
        The lines; they are read while they are asked for, once.

    Raises:
        NoSuchJob: There is no such job, or there are no logs; the message says why.
        AuthError: They are somebody else's.
        UsageError: There is no such task, or `grep` is no regular expression.

    Example:
        >>> for line in logs(cluster, "mnist", "worker-0", tail=100):  # doctest: +SKIP
        ...     print(line.time, line.text)
    """
    from submit_tf_job.tasklogs import reader

    selection = _selection(files, tail, since_s, grep, wall())
    found = find_logs(cluster, job, task, am=am, say=say, wall=wall)
    if follow and not found.app.ended:
        return found.follow(selection)
    say = _once(say)
    shelf, containers, _source = found.now()
    if not containers:
        raise NoSuchJob(f"{found.name}: nothing is left of {'its ApplicationMaster' if am else 'its tasks'} in its logs")
    ended = datetime.fromtimestamp(found.app.finished_ms / 1000, timezone.utc) if found.app.ended and found.app.finished_ms else None
    wanted = reader.wanted_files(reader.listed(shelf, containers, say), selection, ended)
    return reader.read(shelf, wanted, selection, wall(), say)


def _once(say: Say) -> Say:
    """Keep the same sentence from being said again: of two containers of a task, say."""
    said: set[str] = set()

    def once(sentence: str) -> None:
        if sentence not in said:
            said.add(sentence)
            say(sentence)

    return once


def _selection(files: Sequence[str], tail: int | None, since_s: float | None, grep: str | None, now: float) -> Selection:
    from submit_tf_job.tasklogs.model import Selection
    from submit_tf_job.tasklogs.reader import pattern

    if tail is not None and tail < 0:
        raise UsageError(f"--tail: {tail} is no number of lines")
    return Selection(
        files=tuple(dict.fromkeys(files)),
        tail=tail,
        since=None if since_s is None else now - since_s,
        grep=None if grep is None else pattern(grep),
    )


def log_files(
    cluster: Cluster,
    job: str,
    task: str | None = None,
    *,
    am: bool = False,
    say: Say = lambda _sentence: None,
    wall: Callable[[], float] = time.time,
) -> LogInventory:
    """List the log files of a job; arguments and errors are those of `logs`."""
    from submit_tf_job.tasklogs.model import LogInventory
    from submit_tf_job.tasklogs.reader import listed

    found: JobLogs = find_logs(cluster, job, task, am=am, say=say, wall=wall, everything=True)
    shelf, containers, source = found.now()
    return LogInventory(found.name, found.app.id, source, tuple(listed(shelf, containers, say)))


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

    logs = collected_logs(app, conf, cluster.settings.user, as_proxy=cluster.settings.as_proxy)
    return logs.read(container_id, file, tail=max_bytes, node=host)
