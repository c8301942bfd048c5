"""Which task a container was, when YARN does not tell any more.

The deciding task's report lists the last container of each task, up to 200 tasks. For the others, and for containers that were replaced,
the copy of the launch script tells, which the NodeManager leaves beside a container's logs; where a site switches that copy off, the last
line that the bootstrap writes to stderr does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping

from submit_tf_job import contract
from submit_tf_job.tasklogs.model import AM_FILES, AM_TASK, TaskContainer

__all__ = ["ReadEnd", "from_report", "name_of"]

LAUNCH_SCRIPT = "launch_container.sh"
_ENVIRONMENT_MAX = 1024 * 1024
_OUTCOME_MAX = 8 * 1024
# ContainerLaunch.ShellScriptBuilder: export NAME="value", or NAME=${NAME:-"value"} for what the NodeManager lets through.
_EXPORT = rb'^export %s=(?:\$\{%s:-)?"([^"\n]*)"'
_TASK = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?-\d+")

ReadEnd = Callable[[str, int], bytes]
"""Reads the last so many bytes of a file of a container; b"" where it cannot."""


def from_report(content: bytes) -> dict[str, TaskContainer]:
    """Read the containers of all tasks out of the deciding task's report: by container id; {} where it is not one."""
    try:
        tasks = json.loads(content).get("tasks") or []
        found = [TaskContainer(str(task["task"]), str(task["container"]), str(task["host"])) for task in tasks if task["container"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return {container.id: container for container in found if _TASK.fullmatch(container.task)}


def name_of(container_id: str, files: Iterable[str], read_end: ReadEnd, known: Mapping[str, TaskContainer]) -> str:
    """Find out which task a container was; its own id where nothing tells."""
    names = frozenset(files)
    if names & frozenset(AM_FILES):
        return AM_TASK
    if container_id in known:
        return known[container_id].task
    script = read_end(LAUNCH_SCRIPT, _ENVIRONMENT_MAX) if LAUNCH_SCRIPT in names else b""
    instance = _exported(script, contract.ENV_INSTANCE) or _exported(script, contract.ENV_HOSTNAME).partition(".")[0]
    if not instance and "stderr.txt" in names:
        instance = _outcome_of(read_end("stderr.txt", _OUTCOME_MAX))
    return instance if _TASK.fullmatch(instance) else container_id


def _exported(script: bytes, name: str) -> str:
    found = re.search(_EXPORT % (name.encode(), name.encode()), script, re.MULTILINE)
    return found[1].decode("utf-8", "replace") if found else ""


def _outcome_of(stderr: bytes) -> str:
    place = stderr.rfind(contract.OUTCOME_MARK.encode())
    try:
        outcome = json.loads(stderr[place + len(contract.OUTCOME_MARK) :].partition(b"\n")[0]) if place >= 0 else {}
        return str(outcome.get("task") or "")
    except (ValueError, AttributeError, RecursionError):
        return ""
