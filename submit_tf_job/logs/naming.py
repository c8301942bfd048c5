"""Find the task of a container after the job's end.

The deciding task's report lists the last container of each task, up to 200 tasks. For the others,
and for containers that were replaced, the task is in the copy of the launch script beside the
container's logs; where a site disables that copy, in the last line that the bootstrap writes to
stderr.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping

from submit_tf_job.container import contract
from submit_tf_job.logs.entries import AM_FILES, AM_TASK, TaskContainer

__all__ = ["ReadEnd", "from_report", "name_of"]

LAUNCH_SCRIPT = "launch_container.sh"
_ENVIRONMENT_MAX = 1024 * 1024
_OUTCOME_MAX = 8 * 1024
# ContainerLaunch.ShellScriptBuilder: export NAME="value", or NAME=${NAME:-"value"} for variables of
# the NodeManager's whitelist.
_EXPORT = rb'^export %s=(?:\$\{%s:-)?"([^"\n]*)"'
_TASK = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?-\d+")

ReadEnd = Callable[[str, int], bytes]
"""Read the last N bytes of a container's file; b"" where that fails."""


def from_report(content: bytes) -> dict[str, TaskContainer]:
    """Return the containers in the deciding task's report, by id; {} for an invalid report."""
    try:
        tasks = json.loads(content).get("tasks") or []
        found = [
            TaskContainer(str(task["task"]), str(task["container"]), str(task["host"]))
            for task in tasks
            if task["container"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return {container.id: container for container in found if _TASK.fullmatch(container.task)}


def name_of(
    container_id: str, files: Iterable[str], read_end: ReadEnd, known: Mapping[str, TaskContainer]
) -> str:
    """Return the task of a container, or its own id where the task is unknown."""
    names = frozenset(files)
    if names & frozenset(AM_FILES):
        return AM_TASK
    if container_id in known:
        return known[container_id].task
    instance = ""
    if LAUNCH_SCRIPT in names:
        script = read_end(LAUNCH_SCRIPT, _ENVIRONMENT_MAX)
        host = _exported(script, contract.ENV_HOSTNAME)
        instance = _exported(script, contract.ENV_INSTANCE) or host.partition(".")[0]
    if not instance and "stderr.txt" in names:
        instance = _outcome_of(read_end("stderr.txt", _OUTCOME_MAX))
    if not _TASK.fullmatch(instance):
        return container_id
    return instance


def _exported(script: bytes, name: str) -> str:
    found = re.findall(_EXPORT % (name.encode(), name.encode()), script, re.MULTILINE)
    return next(iter(found), b"").decode("utf-8", "replace")


def _outcome_of(stderr: bytes) -> str:
    _before, mark, outcome = stderr.rpartition(contract.OUTCOME_MARK.encode())
    if not mark:
        return ""
    try:
        return str(json.loads(outcome.partition(b"\n")[0]).get("task") or "")
    except (ValueError, AttributeError, RecursionError):
        return ""
