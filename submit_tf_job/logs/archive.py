"""The logs of an application that is over: where they are, and whose."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from submit_tf_job import contract
from submit_tf_job.errors import NoSuchJob, SubmitTFJobError
from submit_tf_job.tasklogs.model import AM_TASK, Shelf, TaskContainer
from submit_tf_job.tasklogs.naming import from_report, name_of
from submit_tf_job.tasklogs.shelves import CollectedShelf, DiskShelf, ServedShelf, StreamServer
from submit_tf_job.yarn.logs import AggregatedLogs, ContainerLogs

__all__ = ["Archive", "collected", "left_on_disk", "served"]

_WORKERS = 8
_GAP = 20  # containers that YARN gave and the ApplicationMaster sent back leave holes in the numbers


@dataclass(frozen=True)
class Archive:
    """What is left of an application's logs.

    Attributes:
        source: `collected`, `log-server` or `disk`.
        shelf: Where they are read.
        containers: Whose they are, in order.
        warnings: Sentences about what is missing.
    """

    source: str
    shelf: Shelf
    containers: tuple[TaskContainer, ...]
    warnings: tuple[str, ...] = ()


def collected(logs: AggregatedLogs, wanted: str | None) -> Archive:
    """Open the logs that YARN collected.

    Args:
        logs: They.
        wanted: The one task that is wanted, None for several: where the report says that a task had one container, no other is looked at.

    Raises:
        NoLogs: There are none.
        AuthError: They may not be read.
        Damaged: Nothing of what is there can be read.
    """
    report = next(logs.find(contract.REPORT_FILE), None)
    if report is not None and wanted is not None:
        content = report.read()
        alone = [found for found in from_report(content).values() if found.task == wanted]
        if alone and _never_restarted(content):
            return Archive("collected", CollectedShelf(logs), tuple(alone), logs.warnings)
    found = logs.containers()
    reports = [file.snapshots[-1].read() for container in found if (file := container.file(contract.REPORT_FILE))]
    known = {container.id: container for content in reports for container in from_report(content).values()}
    by_node = groupby(sorted(found, key=lambda container: container.node), key=lambda container: container.node)
    groups = [list(group) for _node, group in by_node]
    with ThreadPoolExecutor(max_workers=min(_WORKERS, len(groups))) as pool:
        named = [container for group in pool.map(lambda group: _named(group, known), groups) for container in group]
    return Archive("collected", CollectedShelf(logs, found), _sorted(named), logs.warnings)


def _never_restarted(content: bytes) -> bool:
    """Whether each task had one container: the job is over, nobody was started again, and so no report follows this one."""
    report = json.loads(content)
    roles = report.get("roles") or {}
    return (
        report.get("state") == "succeeded"
        and report.get("attempt") == 0
        and all(isinstance(role, dict) and not role.get("restarts") for role in roles.values())
    )


def _named(group: Iterable[ContainerLogs], known: dict[str, TaskContainer]) -> list[TaskContainer]:
    out = []
    for container in group:

        def read_end(name: str, most: int, container: ContainerLogs = container) -> bytes:
            file = container.file(name)
            try:
                return b"".join(file.stream(tail=most)) if file else b""
            except SubmitTFJobError:
                return b""

        task = name_of(container.container_id, (file.name for file in container.files), read_end, known)
        out.append(TaskContainer(task, container.container_id, container.node.rpartition(":")[0]))
    return out


def _sorted(containers: Iterable[TaskContainer]) -> tuple[TaskContainer, ...]:
    return tuple(sorted(containers, key=lambda container: container.order))


def left_on_disk(directories: Sequence[Path], app_id: str) -> Archive | None:
    """Open what a NodeManager of this machine has left; None where it has left nothing that can be read."""
    shelf = DiskShelf(directories, app_id)
    try:
        containers = [_on_shelf(shelf, TaskContainer("", container_id)) for container_id in shelf.containers()]
    except OSError:
        return None
    named = [container for container in containers if container is not None]
    warning = "they are what a NodeManager has left on this machine; tasks of other nodes are not among them"
    return Archive("disk", shelf, _sorted(named), (warning,)) if named else None


def _on_shelf(shelf: Shelf, container: TaskContainer) -> TaskContainer | None:
    try:
        files = [file.name for file in shelf.files(container)]
    except SubmitTFJobError:
        return None
    if not files:
        return None

    def read_end(name: str, most: int) -> bytes:
        try:
            return b"".join(shelf.read(container, name, tail=most))
        except SubmitTFJobError:
            return b""

    return TaskContainer(name_of(container.id, files, read_end, {}), container.id, container.host, container.address)


def served(server: StreamServer, address: str, am_containers: Sequence[str]) -> Archive:
    """Open what a log server has. It does not list containers, so they are asked for one after the other.

    Args:
        server: The log server.
        address: Its address.
        am_containers: The ApplicationMaster's containers: the first number of each attempt.

    Raises:
        NoSuchJob: It has none of them.
        ClusterUnavailable: It does not answer.
    """
    shelf = ServedShelf(server, address)
    found: list[TaskContainer] = []
    for first in am_containers:
        stem, _, _number = first.rpartition("_")
        number, misses = 1, 0
        while misses < _GAP:
            container = _on_server(shelf, f"{stem}_{number:06d}")
            found += [container] if container else []
            misses = 0 if container else misses + 1
            number += 1
    if not found:
        raise NoSuchJob(f"the log server at {address} has no logs of it")
    return Archive("log-server", shelf, _sorted(found))


def _on_server(shelf: ServedShelf, container_id: str) -> TaskContainer | None:
    container = TaskContainer(AM_TASK, container_id)
    try:
        shelf.files(container)
    except NoSuchJob:
        return None
    return _on_shelf(shelf, container)
