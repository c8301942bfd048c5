"""Read the stacks of the Python processes of a running job: which code each process executes
now.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from submit_tf_job import waiting
from submit_tf_job.container import contract
from submit_tf_job.errors import DeadlinePassed, NoSuchJob, Refused, UsageError
from submit_tf_job.operations.cluster import Cluster, JobRef
from submit_tf_job.operations.description import deciding_container
from submit_tf_job.operations.read_status import StatusReader
from submit_tf_job.operations.runs import find
from submit_tf_job.operations.stop import THREAD_DUMP


@dataclass(frozen=True)
class TaskStacks:
    """Which code the processes of one task execute.

    Attributes:
        task: The task.
        host: The task's node.
        where: The innermost frame of the program's own code, or why that frame is not known.
        text: The stacks of all threads of its Python processes, as Python's faulthandler writes
            them; the full text is in the task's log (`stacks.txt`).
    """

    task: str
    host: str
    where: str
    text: str


@dataclass(frozen=True)
class JobStacks:
    """Which code the processes of a job's tasks executed when the stacks were taken.

    Attributes:
        ref: The run.
        at_ms: When the stacks were taken, in milliseconds since 1970.
        differs: The task whose stack differs from the stacks of all other tasks that train; None if
            there is no such task.
        tasks: The tasks; the task that differs is first.
    """

    ref: JobRef
    at_ms: int
    differs: str | None
    tasks: tuple[TaskStacks, ...]


def take_stacks(cluster: Cluster, job: str | JobRef, task: str | None = None) -> JobStacks:
    """Have the Python processes of a running job write their stacks, and return them.

    The deciding task gets SIGQUIT through the ResourceManager, asks all other tasks for their
    stacks, and collects them; the result is read from the deciding task's node.

    Args:
        cluster: The cluster.
        job: Name of the job or run, an application id, or a run.
        task: Return the stacks of this task only, such as `worker-1`; None for all.

    Raises:
        NoSuchJob: The job does not exist.
        UsageError: `task` does not run.
        Refused: The job's commands do not run, the deciding task's container is not known, or
            Hadoop is older than 3.3 (YARN-8693).
        DeadlinePassed: The deciding task has not written the stacks within a minute.
    """
    ref = find(cluster, job)
    reader = StatusReader(cluster, ref)
    try:
        container = deciding_container(reader.read(detail=True))
    except Refused as error:
        raise Refused(error.message, hint="try again in a few seconds") from None
    if container is None:
        raise Refused(f"the commands of {ref.name} do not run, so they stand nowhere")
    before = _read_stacks(reader)
    try:
        cluster.client.signal_container(container, THREAD_DUMP)
    except NoSuchJob:
        raise Refused(f"{ref.name} has just ended") from None
    except Refused as error:
        logs = f"submit_tf_job logs {ref.name} --file {contract.STACKS_FILE}"
        hint = f"{error.hint}, and 20 s later {logs}" if error.hint else ""
        raise Refused(error.message, hint=hint) from None
    for _ in waiting.STACKS_ARE_TAKEN.attempts(cluster.clock, cluster.sleep):
        found = _read_stacks(reader)
        if found and found != before:
            return _parse_stacks(ref, found, task)
    raise DeadlinePassed(
        f"the deciding task of {ref.name} has not written the stacks of its tasks",
        hint="its node or container hangs, or an older submit_tf_job submitted the job",
    )


def _read_stacks(reader: StatusReader) -> dict[str, Any] | None:
    content = reader.read_from_deciding_task(contract.ALL_STACKS_FILE)
    found = json.loads(content) if content else None
    return found if isinstance(found, dict) else None


def _parse_stacks(ref: JobRef, found: dict[str, Any], task: str | None) -> JobStacks:
    tasks = tuple(
        TaskStacks(*(str(one.get(key, "")) for key in ("task", "host", "where", "text")))
        for one in found["tasks"]
    )
    if task is not None:
        names = ", ".join(one.task for one in tasks[:20])
        tasks = tuple(one for one in tasks if one.task == task)
        if not tasks:
            raise UsageError(f"{ref.name} has no task {task!r} that runs", hint=f"it has {names}")
    return JobStacks(ref, int(found["at"] * 1000), found.get("differs"), tasks)
