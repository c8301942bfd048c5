"""Open the logs of an ended application, and find the task of each container.

The deciding task's report lists the last container of each task, up to 200 tasks. For other tasks,
and for containers that were replaced, the name of the task is in the copy of the launch script
beside the container's logs. If a site disables that copy, the name is in the last line that the
bootstrap writes to stderr.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from submit_tf_job.container import contract
from submit_tf_job.errors import NoSuchJob, SubmitTFJobError
from submit_tf_job.hadoop_logs.interfaces import Damaged, Snapshot
from submit_tf_job.job_report import OUTCOME_MAX, JobReport, outcome_line
from submit_tf_job.logs.collected import AggregatedLogs
from submit_tf_job.logs.entries import AM_FILES, AM_TASK, LogSource, TaskContainer
from submit_tf_job.logs.read import LARGEST, in_threads, joined
from submit_tf_job.logs.sources import LogServer, ServedLogs

# containers that the ApplicationMaster released leave gaps in the numbers
_GAP = 20
# the script copies itself into the log directory when it runs (ContainerLaunch)
LAUNCH_SCRIPT = "launch_container.sh"
_ENVIRONMENT_MAX = 1024 * 1024
# ContainerLaunch.ShellScriptBuilder: export NAME="value", or NAME=${NAME:-"value"} for variables of
# the NodeManager's whitelist.
_EXPORT = rb'^export %s=(?:\$\{%s:-)?"([^"\n]*)"'
_TASK = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?-\d+")

ReadEnd = Callable[[str, int], bytes]
"""Read the last N bytes of a container's file; b"" where that fails."""


@dataclass(frozen=True)
class Archive:
    """The logs of an ended application.

    Attributes:
        source: `collected` or `log-server`.
        logs: The source from which the logs are read.
        containers: Containers and their tasks, in order.
        warnings: Sentences about missing logs.
        is_complete: Whether the logs of every task and of the ApplicationMaster are there; False if
            that is not known.
    """

    source: str
    logs: LogSource
    containers: tuple[TaskContainer, ...]
    warnings: tuple[str, ...] = ()
    is_complete: bool = False


def collected(logs: AggregatedLogs, wanted: str | None) -> Archive:
    """Open the logs that YARN collected.

    Args:
        logs: The collected logs.
        wanted: The task to read, None for several. If the report shows that the job succeeded and
            no task was restarted, only that task's containers are in the result.

    Raises:
        NoLogs: The application has no collected logs.
        AuthError: The user may not read the logs.
        BadAnswer: None of the log files can be read.
    """
    report = next(logs.find(contract.REPORT_FILE), None)
    if report is not None and wanted is not None:
        said = JobReport.parse(_content_or_empty(report))
        alone = [found for found in from_report(said).values() if found.task == wanted]
        if said is not None and alone and _never_restarted(said):
            return Archive("collected", logs, tuple(alone), logs.warnings)
    known: dict[str, TaskContainer] = {}
    said = None
    nodes: dict[str, list[TaskContainer]] = {}
    for one in logs.containers():
        file = one.file(contract.REPORT_FILE)
        if file:
            said = JobReport.parse(_content_or_empty(file.snapshots[-1]))
            known |= from_report(said)
        host = one.node.rpartition(":")[0]
        nodes.setdefault(one.node, []).append(TaskContainer("", one.container_id, host))

    def of_node(containers: list[TaskContainer]) -> list[TaskContainer]:
        return [_with_task_name(logs, container, known) for container in containers]

    named = _in_task_order(chain.from_iterable(in_threads(of_node, list(nodes.values()))))
    is_complete = said is not None and said.is_over and _has_all(named, said)
    return Archive("collected", logs, named, logs.warnings, is_complete)


def _has_all(containers: Sequence[TaskContainer], report: JobReport) -> bool:
    """Return whether these containers are certainly all containers of a job. That is known if
    nothing was restarted in the job, and they include the ApplicationMaster's container and every
    container in the job's last report.
    """
    restarted = report.attempt or report.generation
    restarted = restarted or any(role.restarts for role in report.roles.values())
    listed = from_report(report)
    has_master = any(container.task == AM_TASK for container in containers)
    there = {container.id for container in containers}
    return not restarted and has_master and bool(listed) and listed.keys() <= there


def _content_or_empty(report: Snapshot) -> bytes:
    try:
        return joined(report.stream(), LARGEST) or b""
    except Damaged:
        return b""  # the logs beside it may be well


def _never_restarted(report: JobReport) -> bool:
    """Return whether each task of a job that succeeded had only one container; False for a job that
    did not succeed.
    """
    return (
        report.state == "succeeded"
        and report.attempt == 0
        and not any(role.restarts for role in report.roles.values())
    )


def _with_task_name(
    source: LogSource, container: TaskContainer, known: Mapping[str, TaskContainer]
) -> TaskContainer:
    """Return a container with the name of its task, or with the container's id if the task is
    unknown.
    """

    def read_end(name: str, most: int) -> bytes:
        try:
            return b"".join(source.read(container, name, tail=most))
        except SubmitTFJobError:
            return b""

    files = [file.name for file in source.files(container)]
    return replace(container, task=name_of(container.id, files, read_end, known))


def _in_task_order(containers: Iterable[TaskContainer]) -> tuple[TaskContainer, ...]:
    return tuple(sorted(containers, key=lambda container: container.order))


def served(server: LogServer, address: str, am_containers: Sequence[str]) -> Archive:
    """Open the logs of a log server. It does not list containers, so each id is requested, for each
    attempt until 20 in a row have no logs.

    Args:
        server: The log server.
        address: The log server's address.
        am_containers: Ids of the ApplicationMaster's containers, one of each attempt.

    Raises:
        NoSuchJob: The log server has logs of none of these containers.
        AuthError: The logs may not be read, by this user or by the server.
        ClusterUnavailable: The log server does not respond.
    """
    source = ServedLogs(server, address)
    found: list[TaskContainer] = []
    for first in am_containers:
        stem, number, misses = first.rpartition("_")[0], 1, 0
        while misses < _GAP:
            container = TaskContainer("", f"{stem}_{number:06d}")
            try:
                found.append(_with_task_name(source, container, {}))
                misses = 0
            except NoSuchJob:
                misses += 1
            number += 1
    if not found:
        raise NoSuchJob(f"the log server at {address} has no logs of it")
    return Archive("log-server", source, _in_task_order(found))


# --- the task of a container ---


def from_report(report: JobReport | None) -> dict[str, TaskContainer]:
    """Return the containers in the deciding task's report, by id; {} without a report."""
    return {
        task.container_id: TaskContainer(task.task, task.container_id, task.host or "")
        for task in (report.tasks if report else ())
        if task.container_id and _TASK.fullmatch(task.task)
    }


def name_of(
    container_id: str, files: Iterable[str], read_end: ReadEnd, known: Mapping[str, TaskContainer]
) -> str:
    """Return the name of a container's task, or the container's id if the task is unknown.

    Args:
        container_id: The container.
        files: The names of its log files.
        read_end: Reads the end of one of them.
        known: Container id → container of the deciding task's report.
    """
    names = frozenset(files)
    if names & frozenset(AM_FILES):
        return AM_TASK
    if container_id in known:
        return known[container_id].task
    instance = ""
    if LAUNCH_SCRIPT in names:
        script = read_end(LAUNCH_SCRIPT, _ENVIRONMENT_MAX)
        host = _exported_value(script, contract.ENV_HOSTNAME)
        instance = _exported_value(script, contract.ENV_INSTANCE) or host.partition(".")[0]
    if not instance and "stderr.txt" in names:
        said = outcome_line(read_end("stderr.txt", OUTCOME_MAX))
        instance = said.task if said else ""
    if not _TASK.fullmatch(instance):
        return container_id
    return instance


def _exported_value(script: bytes, name: str) -> str:
    found = re.findall(_EXPORT % (name.encode(), name.encode()), script, re.MULTILINE)
    return next(iter(found), b"").decode("utf-8", "replace")
