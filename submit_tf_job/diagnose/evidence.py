"""What each witness says of a failure: YARN, the bootstrap, the program's own words, the exit status."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from submit_tf_job import contract
from submit_tf_job.diagnose.container_patterns import CONTAINER
from submit_tf_job.diagnose.patterns import PROGRAM, recognise
from submit_tf_job.diagnose.statuses import meaning_of, of_executor
from submit_tf_job.diagnose.tracebacks import PythonError, python_error
from submit_tf_job.yarn.amlog import ContainerEnd

__all__ = ["BOOTSTRAP_SAYS", "OF_MEMORY", "Finding", "by_bootstrap", "by_container", "by_program", "by_status", "by_yarn", "role_of"]

OF_MEMORY = ("out-of-memory", "killed")
_LINE = 500
_LAST_LINES = 30
_TRACEBACK = 32_000
_USED = re.compile(r"Current usage: (?P<used>[\d.]+ \w+) of (?P<limit>[\d.]+ \w+) physical memory used")
_USED_VIRTUAL = re.compile(r"; (?P<used>[\d.]+ \w+) of (?P<limit>[\d.]+ \w+) virtual memory used")
_PEER = re.compile(r"/job:(\w+)/(?:replica:\d+/)?task:(\d+)")
_MIB = {"B": 1 / 1024**2, "KB": 1 / 1024, "MB": 1.0, "GB": 1024.0, "TB": 1024.0**2}
_GRAIN = 256
BOOTSTRAP_SAYS = "[submit_tf_job] "
_NOT_THE_PROGRAM = (BOOTSTRAP_SAYS, contract.OUTCOME_MARK)


@dataclass(frozen=True)
class Finding:
    """What one witness says."""

    code: str
    sentence: str
    hint: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)


def role_of(task: str) -> str:
    """Return the role of a task: `worker` of `worker-3`."""
    return task.rpartition("-")[0] or task


# --- YARN ---

_BY_YARN = {
    -100: ("node-lost", "{task}'s container was lost with its node, or released", "submit again; is the node well?"),
    -101: ("disks-failed", "{task}'s node has no good disk left for containers", "submit again; the node's administrator should know"),
    -102: (
        "preempted",
        "{task} was preempted: the scheduler gave its resources to somebody else",
        "submit again, or use a queue that is not preempted; save checkpoints often",
    ),
    -105: ("stopped-by-yarn", "{task} was stopped by the ApplicationMaster", ""),
    -106: ("stopped-by-yarn", "{task} was killed by the ResourceManager", "its words, and the node's state, say why"),
    -108: ("preempted", "{task} was killed to make room for another container on its node", "submit again; ask for guaranteed containers"),
    -109: ("logs-too-large", "{task} wrote more logs than its node allows", "log less, or to a file on HDFS"),
}


def by_yarn(end: ContainerEnd | None, asked_mib: int | None) -> Finding | None:
    """Say why YARN itself ended a container: a negative exit status (ContainerExitStatus.java)."""
    if end is None or end.status is None:
        return None
    if end.status in (-103, -104):
        return _over_memory(end, asked_mib)
    code, sentence, hint = _BY_YARN.get(end.status, ("", "", ""))
    return Finding(code, sentence.format(task=end.task), hint) if code else None


def _over_memory(end: ContainerEnd, asked_mib: int | None) -> Finding:
    physical = end.status == -104
    said = (_USED if physical else _USED_VIRTUAL).search(end.diagnostics)
    kind = "" if physical else " of virtual memory"
    used = f"used {said['used']}{kind} of the {said['limit']}" if said else f"used more memory{kind} than the amount"
    sentence = f"{end.task} {used} that its container may have, and the NodeManager killed it"
    facts = {"asked_mib": end.memory_mib or asked_mib, **(said.groupdict() if said else {})}
    need = _mib(said["used"]) if said and physical else None
    return Finding("out-of-memory", sentence, _more_memory(end.task, end.memory_mib or asked_mib, need), facts)


def _mib(amount: str) -> float | None:
    number, _, unit = amount.partition(" ")
    return float(number) * _MIB[unit] if unit in _MIB else None


def _more_memory(task: str, asked_mib: int | None, used_mib: float | None = None) -> str:
    """Name the key to change, with the present value and one to try."""
    key = f"roles.{role_of(task)}.memory"
    if not asked_mib:
        return f"ask for more {key}, or make the batch or the model smaller"
    wanted = max(2 * asked_mib, 1.25 * (used_mib or 0))
    rounded = -int(-wanted // _GRAIN) * _GRAIN
    return f"{key} is {_spec(asked_mib)}: try {_spec(rounded)}, or make the batch or the model smaller"


def _spec(mib: int) -> str:
    """Write an amount as a job spec has it."""
    return f"{mib // 1024}Gi" if mib % 1024 == 0 else f"{mib}Mi"


# --- a container whose command never ran ---


def by_container(end: ContainerEnd, stderr: str = "") -> Finding | None:
    """Say why a container failed before its command ran, from the NodeManager's words."""
    found = recognise(_short(f"{end.diagnostics}\n{stderr}"), CONTAINER, task=end.task, status=end.status)
    if found:
        return Finding(found.code, found.sentence, found.hint, found.facts)
    meaning = of_executor(end.status)
    if not meaning:
        return None
    return Finding("container-failed", f"the container of {end.task} failed before its command ran: {meaning}")


# --- the bootstrap ---

_BY_BOOTSTRAP = {
    "port-in-use": (
        "port-in-use",
        "--replace takes other ports; so does another `ports.range` in the settings",
    ),
    "not-finished": ("not-finished", "`finish_timeout` says how long others may go on; does every worker run the same number of steps?"),
    "command-not-found": ("command-not-found", "is it in the image, and on its PATH? python is often called python3"),
    "not-executable": ("not-executable", "make it executable before it is shipped, or start it with its interpreter"),
    "bootstrap-error": ("bootstrap-error", "its last lines say what it lacked in the container"),
    "login-failed": (
        "kerberos-login",
        "is the keytab the principal's latest (kvno)? does the krb5.conf that the task has name the KDC, and can containers reach it?",
    ),
    "input-failed": (
        "input-failed",
        "is it there for the job's user, and does the image have what reads it (hdfs-native, fsspec)? docs/data.md",
    ),
    "output-failed": (
        "output-failed",
        "is there room, and may the job's user write there? `on_failure: keep` saves what a failed command has written; docs/data.md",
    ),
    "wrong-job": ("wrong-job", "another job uses the same ports on that host: --replace takes others"),
    "lost": (
        "task-lost",
        "killed from outside, or its node died: its node's NodeManager knows; a memory limit of the kernel shows in its log as well",
    ),
    "peers-missing": (
        "tasks-missing",
        "YARN had no room for them, or their containers did not start: ask for less, or wait longer (`start_timeout`)",
    ),
}


def by_bootstrap(reason: str, message: str, status: int | None) -> Finding | None:
    """Say what the bootstrap itself saw; nothing where the program ended by itself."""
    if status in (contract.EXIT_DECIDER_LOST, contract.EXIT_JOB_FAILED) and reason not in _BY_BOOTSTRAP:
        return None
    if reason in ("command-not-found", "not-executable") and " ended with status " in message:
        return None  # bash said so of something within the command, and names it in its own words
    if reason not in _BY_BOOTSTRAP:
        return None
    code, hint = _BY_BOOTSTRAP[reason]
    return Finding(code, message, hint)


# --- the program ---


def by_program(task: str, status: int | None, stderr: str, asked_mib: int | None = None) -> tuple[Finding | None, PythonError | None]:
    """Say what a program's last words show, and which Python exception ended it."""
    stderr = _own_words(stderr)
    error = python_error(stderr)
    found = recognise(_telling(stderr, error), PROGRAM, task=task, status=status)
    if found:
        sentence, hint, facts = found.sentence, found.hint, dict(found.facts)
        if found.code == "out-of-memory":
            facts["asked_mib"] = asked_mib
            sentence += f": {error.last_line}" if error else ""
            hint = _more_memory(task, asked_mib)
        elif found.code == "peer-failed":
            facts |= _named_peer(task, stderr)
            sentence += f"; it names {facts['peer']}" if "peer" in facts else ""
        return Finding(found.code, sentence, hint, facts), error
    if error:
        return Finding("python-exception", f"{task} ended by a Python exception: {error.last_line}"), error
    return None, None


def _named_peer(task: str, stderr: str) -> dict[str, str]:
    named = [f"{role}-{index}" for role, index in _PEER.findall(stderr[-_TRACEBACK:])]
    other = next((name for name in reversed(named) if name != task), None)
    return {"peer": other} if other else {}


def _own_words(stderr: str) -> str:
    """Leave out what the bootstrap and the shell say: the bootstrap quotes the command, which may hold any word."""
    return "\n".join(line for line in stderr.splitlines() if not line.startswith(_NOT_THE_PROGRAM) and "setlocale: LC_ALL" not in line)


def _telling(stderr: str, error: PythonError | None) -> str:
    """Return the part of a stderr that tells of the end."""
    end = "\n".join(stderr.rstrip().split("\n")[-_LAST_LINES:])
    return _short(f"{error.last_line}\n{error.text[:_TRACEBACK]}\n{end}" if error else end)


def _short(text: str) -> str:
    return "\n".join(line[:_LINE] for line in text.splitlines())


# --- the exit status ---

_BY_STATUS = {
    126: ("not-executable", "make it executable before it is shipped, or start it with its interpreter"),
    127: ("command-not-found", "is it in the image, and on its PATH? python is often called python3"),
    132: ("cpu-too-old", "send the job to newer nodes (`placement`), or use libraries built for these"),
    134: ("aborted", "its last lines say why; an abort without a word is often native memory that could not be had"),
    135: ("crashed", "Docker gives a container 64 MB of /dev/shm: read data with threads instead of processes"),
    136: ("crashed", "PYTHONFAULTHANDLER=1 in `env` shows where"),
    139: (
        "crashed",
        "PYTHONFAULTHANDLER=1 in `env` shows where; a role without tasks in TF_CONFIG, or mixed versions of native libraries, do this",
    ),
    143: (
        "stopped-from-outside",
        "YARN does not say by whom: preempted, its node drained, or killed by hand? the node's NodeManager log knows",
    ),
}


def by_status(task: str, status: int | None, asked_mib: int | None) -> Finding | None:
    """Say what the exit status alone tells."""
    if not status:
        return None
    if status == 137:
        hint = f"mostly the kernel, at a memory limit: {_more_memory(task, asked_mib)}"
        return Finding("killed", f"{task} was {meaning_of(status)}", hint, {"asked_mib": asked_mib})
    code, hint = _BY_STATUS.get(status, ("exited", ""))
    meaning = meaning_of(status)
    if status > 128:
        return Finding(code, f"{task} was {meaning}" if meaning else f"{task} ended with exit status {status}", hint)
    return Finding(code, f"{task} ended with exit status {status}{': ' + meaning if meaning else ''}", hint)
