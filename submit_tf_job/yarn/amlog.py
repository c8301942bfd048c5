"""Parse the log of a YARN service's ApplicationMaster: how its containers ended, and why it ended
the service.

Only this log contains the exit statuses and diagnostics of such containers: the services API
returns neither, and the ResourceManager lists live containers only
(hadoop-facts.md#exit-statuses-of-containers). The log lines are written by Hadoop's
ComponentInstance and ContainerLaunchService; the ContainerStatus in them is formatted by
ContainerStatusPBImpl.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

AM_LOG = "serviceam.log"
# Diagnostics quote up to two files of 4096 bytes, and a table of processes.
DIAGNOSTICS_LENGTH = 12_000

_RECORD = re.compile(
    r"\[COMPINSTANCE (?P<task>\S+) : (?P<container>container_\w+)\]:? "
    r"(?:(?:succeeded|failed) without retry, exitStatus=|container_\w+ completed\. (?P<again>Reinsert back to pending list))"  # noqa: E501
)
_STATUS = re.compile(r", ExitStatus: (-?\d+), IP: ")
_AGAIN = re.compile(r"exitStatus=(-?\d+|null), diagnostics=(.*)", re.DOTALL)
_ENTRY = re.compile(r"\n\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} \[")
_ASSIGNED = re.compile(
    r"Assigned (container_\w+) to component instance (\S+) and launch on host ([^:\s]+)"
)
_MEMORY = re.compile(r"Capability: <memory:(\d+),")
_LAUNCH = re.compile(
    r"\[COMPINSTANCE \S+ : (container_\w+)\]: Failed to launch container\.?\s*\n"
    r"(?P<error>[^\n]+(?:\n(?!\s*at |\d{4}-\d\d-)[^\n]+){0,3})"
)
_STAMP = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\]", re.MULTILINE)
_DOMINANT = re.compile(r"Dominate component (\S+) finished")  # ServiceScheduler's own spelling
_ERROR = re.compile(
    r"^\d{4}-\d\d-\d\d \S+ \[.*?\] (?:ERROR|FATAL) +\S+ - (.*)(?:\n(\S.*(?:Exception|Error)\b.*))?",
    re.MULTILINE,
)
# ComponentHealthThresholdMonitor, at the level WARN, before it ends the process
_GIVEN_UP = re.compile(r"Service is being killed because container health for component [^\n]+")
# YARN's AM sets the locale en_US.UTF-8, which minimal images lack: every container of such an image
# prints this warning.
_NOISE = ("setlocale: LC_ALL",)


@dataclass(frozen=True)
class ContainerEnd:
    """How a container ended.

    Attributes:
        task: The component instance, `worker-3`.
        container_id: The container.
        status: YARN's exit status of the container; negative if YARN ended it; None if it was
            never launched, or if the log does not contain the status.
        diagnostics: The NodeManager's diagnostics, without the lines that it adds for every
            container.
        memory_mib: Memory granted to the container; None if unknown.
        host: The container's node, as the ResourceManager names it; None if unknown.
        again: Whether YARN scheduled the task for a restart.
    """

    task: str
    container_id: str
    status: int | None
    diagnostics: str = ""
    memory_mib: int | None = None
    host: str | None = None
    again: bool = False

    @property
    def failed(self) -> bool:
        """Whether the exit status is not 0; also true if the status is unknown."""
        return self.status != 0


def container_ends(log: str) -> tuple[ContainerEnd, ...]:
    """Return the containers that have ended, in the order of their entries in the log.

    Args:
        log: The ApplicationMaster's log, or the end of it.
    """
    found = list(_RECORD.finditer(log))
    errors = {match[1]: match["error"].strip() for match in _LAUNCH.finditer(log)}
    hosts = {match[1]: match[3] for match in _ASSIGNED.finditer(log)}
    borders = [*(match.start() for match in found[1:]), len(log)][: len(found)]
    ends = (
        _container_end(match, log[match.end() : border], errors)
        for match, border in zip(found, borders, strict=True)
    )
    return tuple(replace(end, host=hosts.get(end.container_id)) for end in ends)


def _container_end(record: re.Match[str], rest: str, errors: dict[str, str]) -> ContainerEnd:
    task, container = record["task"], record["container"]
    if record["again"]:
        said = _AGAIN.search(_ENTRY.split(rest, maxsplit=1)[0])
        end = ContainerEnd(task, container, None, "", again=True)
        if said is None:
            return end
        end = replace(end, diagnostics=_clean_diagnostics(said[2]))
        if said[1] == "null":
            return end
        return replace(end, status=int(said[1]))
    # The diagnostics quote the container's own stderr, which may contain any text; the real status
    # comes after it.
    last = None
    if rest.startswith("ContainerStatus: ["):
        last = next(reversed(list(_STATUS.finditer(rest))), None)
    if last is None:
        return ContainerEnd(task, container, None, errors.get(container, ""))
    head = rest[: last.start()]
    memory = next((int(found[1]) for found in _MEMORY.finditer(head)), None)
    words = _clean_diagnostics(head.partition("Diagnostics: ")[2])
    return ContainerEnd(task, container, int(last[1]), words, memory)


def _clean_diagnostics(diagnostics: str) -> str:
    lines = _STAMP.sub("", diagnostics[:DIAGNOSTICS_LENGTH]).splitlines()
    return "\n".join(
        line.rstrip()
        for line in lines
        if line.strip() and not any(noise in line for noise in _NOISE)
    )


def container_of(log: str, task: str) -> tuple[str, str] | None:
    """Return the id and the host of the last container allocated to a task; None if the log does
    not contain one.
    """
    found = [(match[1], match[3]) for match in _ASSIGNED.finditer(log) if match[2] == task]
    return next(reversed(found), None)


def first_tasks(log: str) -> list[str]:
    """Return the task with index 0 of each component, if the log shows a container of that task."""
    tasks = (match[2] for match in _ASSIGNED.finditer(log))
    return list(dict.fromkeys(task for task in tasks if task.endswith("-0")))


def deciding_role(log: str) -> str | None:
    """Return the component whose end also ended the service; None if the log does not name it."""
    return next((found[1] for found in _DOMINANT.finditer(log)), None)


def last_error(log: str) -> str:
    """Return why the ApplicationMaster gave the service up, or else the last error that it logged
    about itself, with the first line of the exception; "" if there is neither. At most 500
    characters.
    """
    if given_up := _GIVEN_UP.search(log):
        return given_up[0][:500]
    found = ""
    for match in _ERROR.finditer(log):
        found = ": ".join(filter(None, (match[1].strip(), (match[2] or "").strip())))
    return found[:500]
