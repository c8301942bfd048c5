"""What the ApplicationMaster of a YARN service wrote about containers that ended.

Its log is the one place that has it: the services API gives neither exit status nor diagnostics, and the ResourceManager lists live
containers only (facts: yarn-services 4.2 and 9, verified-docker 12). The lines are those of Hadoop's ComponentInstance and
ContainerLaunchService, and the ContainerStatus in them is as ContainerStatusPBImpl prints it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

__all__ = ["AM_LOG", "ContainerEnd", "container_ends", "deciding_role", "last_error"]

AM_LOG = "serviceam.log"
DIAGNOSTICS_LENGTH = 12_000  # Hadoop quotes two files of 4096 bytes in them, and a table of processes

_RECORD = re.compile(
    r"\[COMPINSTANCE (?P<task>\S+) : (?P<container>container_\w+)\]:? "
    r"(?:(?:succeeded|failed) without retry, exitStatus=|container_\w+ completed\. (?P<again>Reinsert back to pending list))"
)
_STATUS = re.compile(r", ExitStatus: (-?\d+), IP: ")
_AGAIN = re.compile(r"exitStatus=(-?\d+|null), diagnostics=(.*)", re.DOTALL)
_ENTRY = re.compile(r"\n\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} \[")
_ASSIGNED = re.compile(r"Assigned (container_\w+) to component instance \S+ and launch on host ([^:\s]+)")
_MEMORY = re.compile(r"Capability: <memory:(\d+),")
_LAUNCH = re.compile(r"\[COMPINSTANCE \S+ : (container_\w+)\]: Failed to launch container\.?\s*\n(?P<error>[^\n]+)")
_STAMP = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\]", re.MULTILINE)
_DOMINANT = re.compile(r"Dominate component (\S+) finished")  # ServiceScheduler's own spelling
_ERROR = re.compile(r"^\d{4}-\d\d-\d\d \S+ \[.*?\] (?:ERROR|FATAL) +\S+ - (.*)\n(\S.*(?:Exception|Error)\b.*)?", re.MULTILINE)
# A minimal image lacks en_US.UTF-8, which YARN's AM asks for (seen in every container of such images).
_NOISE = ("setlocale: LC_ALL",)


@dataclass(frozen=True)
class ContainerEnd:
    """How a container ended.

    Attributes:
        task: The component instance, `worker-3`.
        container_id: The container.
        status: YARN's exit status of the container; negative where YARN ended it, None where it was never launched.
        diagnostics: What the NodeManager said, without what it says of every container.
        memory_mib: How much the container was granted.
        host: Its node, as the ResourceManager names it.
        again: Whether YARN was to start the task once more.
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
        """Whether it ended badly."""
        return self.status != 0


def container_ends(log: str) -> tuple[ContainerEnd, ...]:
    """Read which containers ended and how, in the order in which the ApplicationMaster heard of it.

    Args:
        log: Its log, or the end of it.
    """
    found = list(_RECORD.finditer(log))
    errors = {match[1]: match["error"].strip() for match in _LAUNCH.finditer(log)}
    hosts = {match[1]: match[2] for match in _ASSIGNED.finditer(log)}
    borders = [*(match.start() for match in found[1:]), len(log)][: len(found)]
    ends = (_end(match, log[match.end() : border], errors) for match, border in zip(found, borders, strict=True))
    return tuple(replace(end, host=hosts.get(end.container_id)) for end in ends)


def _end(record: re.Match[str], rest: str, errors: dict[str, str]) -> ContainerEnd:
    task, container = record["task"], record["container"]
    if record["again"]:
        said = _AGAIN.search(_entry(rest))
        status, words = (said[1], said[2]) if said else ("null", "")
        return ContainerEnd(task, container, None if status == "null" else int(status), _cleaned(words), again=True)
    # A container's own stderr is quoted in the diagnostics and may look like anything; the real status comes after it.
    last = next(reversed(list(_STATUS.finditer(_status_of(rest)))), None)
    if last is None:
        return ContainerEnd(task, container, None, errors.get(container, ""))
    head = rest[: last.start()]
    memory = _MEMORY.search(head)
    return ContainerEnd(
        task,
        container,
        int(last[1]),
        _cleaned(head.partition("Diagnostics: ")[2]),
        int(memory[1]) if memory else None,
    )


def _status_of(rest: str) -> str:
    return rest if rest.startswith("ContainerStatus: [") else ""


def _entry(rest: str) -> str:
    end = _ENTRY.search(rest)
    return rest[: end.start()] if end else rest


def _cleaned(diagnostics: str) -> str:
    lines = _STAMP.sub("", diagnostics[:DIAGNOSTICS_LENGTH]).splitlines()
    return "\n".join(line.rstrip() for line in lines if line.strip() and not any(noise in line for noise in _NOISE))


def deciding_role(log: str) -> str | None:
    """Return the component whose end was the service's end, where the log says so."""
    found = _DOMINANT.search(log)
    return found[1] if found else None


def last_error(log: str) -> str:
    """Return the last error that the ApplicationMaster wrote of itself, with the exception's first line, or ""."""
    found = ""
    for match in _ERROR.finditer(log):
        found = f"{match[1].strip()}{': ' + match[2].strip() if match[2] else ''}"
    return found[:500]
