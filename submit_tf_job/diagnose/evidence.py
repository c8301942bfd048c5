"""Determine the cause from each kind of evidence: YARN's diagnostics, the bootstrap's report, the
program's stderr, the exit status.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from submit_tf_job.container import contract
from submit_tf_job.diagnose.amounts import clause
from submit_tf_job.diagnose.capacity import ways_out
from submit_tf_job.diagnose.cause import Cause
from submit_tf_job.diagnose.patterns import PROGRAM, STILL_RUNS, recognise, role_of
from submit_tf_job.diagnose.statuses import CONTAINER, LOST, meaning_of, of_executor
from submit_tf_job.host.units import memory_text
from submit_tf_job.yarn.amlog import ContainerEnd

OF_MEMORY = ("out-of-memory", "killed")
BOOTSTRAP_SAYS = "[submit_tf_job] "
_NOT_THE_PROGRAM = (BOOTSTRAP_SAYS, contract.OUTCOME_MARK)
_LINE = 500
_LAST_LINES = 30
_TRACEBACK = 32_000


# --- YARN ---

_USED = re.compile(
    r"Current usage: (?P<used>[\d.]+ \w+) of (?P<limit>[\d.]+ \w+) physical memory used"
)
_USED_VIRTUAL = re.compile(r"; (?P<used>[\d.]+ \w+) of (?P<limit>[\d.]+ \w+) virtual memory used")
_MIB = {"B": 1 / 1024**2, "KB": 1 / 1024, "MB": 1.0, "GB": 1024.0, "TB": 1024.0**2}
_GRAIN = 256
_BY_YARN = {
    -100: (
        "node-lost",
        "{task}'s container was lost with its node, or released",
        "submit again; is the node well?",
    ),
    -101: (
        "disks-failed",
        "{task}'s node has no good disk left for containers",
        "submit again; the node's administrator should know",
    ),
    -102: (
        "preempted",
        "{task} was preempted: the scheduler gave its resources to another job",
        "submit again, or use a queue that is not preempted; save checkpoints often",
    ),
    -105: ("stopped-by-yarn", "{task} was stopped by the ApplicationMaster", ""),
    -106: (
        "stopped-by-yarn",
        "{task} was killed by the ResourceManager",
        "its words, and the node's state, say why",
    ),
    -108: (
        "preempted",
        "{task} was killed to make room for another container on its node",
        "submit again; ask for guaranteed containers",
    ),
    -109: (
        "logs-too-large",
        "{task} wrote more logs than its node allows",
        "log less, or to a file on HDFS",
    ),
}


def by_yarn(end: ContainerEnd, asked_mib: int | None) -> Cause | None:
    """Return why YARN ended or lost a container.

    Its exit status is then negative (ContainerExitStatus.java), or LOST (ContainerExecutor.java).
    """
    if end.status == LOST:
        return Cause(
            "exit-status-lost",
            f"the NodeManager of {end.task} was restarted, and the container ended without "
            f"leaving its exit status",
            "how it ended may stand in its logs; submit again. The node's administrator "
            "can say why the NodeManager was restarted",
        )
    if end.status in (-103, -104):
        return _over_memory(end, asked_mib)
    code, sentence, hint = _BY_YARN.get(end.status or 0, ("", "", ""))
    return Cause(code, sentence.format(task=end.task), hint) if code else None


def _over_memory(end: ContainerEnd, asked_mib: int | None) -> Cause:
    physical = end.status == -104
    said = (_USED if physical else _USED_VIRTUAL).search(end.diagnostics)
    kind = "" if physical else " of virtual memory"
    used = (
        f"used {said['used']}{kind} of the {said['limit']}"
        if said
        else f"used more memory{kind} than the amount"
    )
    sentence = f"{end.task} {used} that its container may have, and the NodeManager killed it"
    facts = {"asked_mib": end.memory_mib or asked_mib, **(said.groupdict() if said else {})}
    need = mib(said["used"]) if said and physical else None
    return Cause(
        "out-of-memory", sentence, _more_memory(end.task, end.memory_mib or asked_mib, need), facts
    )


def mib(amount: str) -> float | None:
    """Return an amount as YARN writes it, such as `1.2 GB`, in MiB; None for anything else."""
    number, _, unit = amount.partition(" ")
    return float(number) * _MIB[unit] if unit in _MIB else None


def _more_memory(task: str, asked_mib: int | None, used_mib: float | None = None) -> str:
    """Return the hint with the key to change, its current value and a suggested one."""
    key = f"roles.{role_of(task)}.memory"
    if not asked_mib:
        return f"ask for more {key}, or make the batch or the model smaller"
    wanted = max(2 * asked_mib, 1.25 * (used_mib or 0))
    rounded = -int(-wanted // _GRAIN) * _GRAIN
    return (
        f"{key} is {memory_text(asked_mib)}: try {memory_text(rounded)}, or make the batch or the "
        f"model smaller"
    )


# --- a container whose command never ran ---


def by_container(end: ContainerEnd, stderr: str = "") -> Cause | None:
    """Return why a container failed before its command ran, from the NodeManager's diagnostics."""
    found = recognise(
        _short(f"{end.diagnostics}\n{stderr}"), CONTAINER, task=end.task, status=end.status
    )
    if found:
        return found
    meaning = of_executor(end.status, end.diagnostics)
    if not meaning:
        return None
    hint = ""
    if end.status == -1000 and not end.diagnostics:
        # A NodeManager that does not allow Docker reports that only in its own log (seen on 3.4.2).
        hint = (
            "the NodeManager's log has the reason. YARN reports nothing where docker is missing in "
            "yarn.nodemanager.runtime.linux.allowed-runtimes (`Requested runtime not "
            "allowed`); `doctor` shows what each node allows"
        )
    return Cause(
        "container-failed",
        f"the container of {end.task} failed before its command ran: {meaning}",
        hint,
    )


# Message of container-executor if dockerd did not respond to the query for the exit status
# (docker-util.c).
_DOCKER_GONE = re.compile(
    r"Cannot connect to the Docker daemon|Could not inspect docker to get exit ?code"
)


def by_docker(end: ContainerEnd) -> Cause | None:
    """Return the cause if Docker stopped during a container's run, from YARN's diagnostics."""
    if not _DOCKER_GONE.search(end.diagnostics):
        return None
    return Cause(
        "docker-stopped",
        f"Docker{clause(' on {}', end.host)} was stopped or restarted while {end.task} ran, "
        "and ended its container",
        "submit again; the node's administrator can say why. Docker's live-restore keeps "
        "containers over a restart of dockerd",
    )


# --- the bootstrap ---

# The bootstrap's reason → the next step; the code is the reason, or another name of it.
_BY_BOOTSTRAP = {
    "port-in-use": "the next run takes other ports; so does another `ports.range` in the settings",
    "not-finished": (
        "`finish_timeout` is how long others may continue; does every worker run the same "
        "number of steps?"
    ),
    "stalled": (
        "`submit_tf_job logs JOB --file job-stacks.json` has the stacks; a task that is at work "
        "without a word needs a longer `stall_timeout`"
    ),
    "command-not-found": "is it in the image, and on its PATH? python is often called python3",
    "not-executable": "make it executable before it is shipped, or start it with its interpreter",
    "gpu-missing": (
        "in Docker the node needs NVIDIA's runtime (yarn.nodemanager.resource-plugins.gpu."
        "docker-plugin: nvidia-docker-v2), and NVIDIA_VISIBLE_DEVICES must not be void; "
        "`nvidia-smi -L` on the node shows what its driver sees. CUDA_VISIBLE_DEVICES in `env` of "
        "the role means that you choose, and nothing is compared"
    ),
    "bootstrap-error": "its last lines say what it lacked in the container",
    "login-failed": (
        "is the keytab the principal's latest (kvno)? does the krb5.conf that the task "
        "has name the KDC, and can containers reach it?"
    ),
    "input-failed": (
        "is it there for the job's user, and does the image have what reads it "
        "(hdfs-native, fsspec)? see: submit_tf_job help data"
    ),
    "output-failed": (
        "did the program write into $TFJOB_OUTPUT_NAME, which is tfjob-outputs/NAME? is there "
        "room, and may the job's user write there? `on_failure: keep` saves what a failed command "
        "has written; "
        "see: submit_tf_job help data"
    ),
    "wrong-job": "another job uses the same ports on that host: the next run takes others",
    "lost": (
        "killed from outside, or its node died: see the NodeManager's log there; a memory "
        "limit of the kernel shows in its log as well"
    ),
    "image-ignored": (f"{ways_out()}; `doctor` shows which nodes run images"),
    "workdir-missing": (
        "`workdir` names a directory of `files`, or one of the image; see: submit_tf_job help files"
    ),
    "peers-missing": (
        "YARN had no room for them, or their containers did not start: ask for less, or "
        "wait longer (`start_timeout`)"
    ),
}
_CODES = {"login-failed": "kerberos-login", "lost": "task-lost", "peers-missing": "tasks-missing"}


# Message of a task while the deciding task does not respond (container/other_task.py).
_UNANSWERED = re.compile(
    r"(?P<host>\S+) \((?P<address>[\d.]+)\) does not answer at port (?P<port>\d+)"
)


def by_missing_task(task: str, stderr: str) -> Cause | None:
    """Return the cause if a task started and could not reach the deciding task, from its stderr."""
    found = _UNANSWERED.search(stderr)
    if found is None:
        return None
    return Cause(
        "tasks-unreachable",
        f"{task} started and cannot reach the deciding task: {found['address']} does not "
        f"answer at port {found['port']}",
        "a firewall lies between them. On a bridge of Docker: where iptables' chain "
        "FORWARD has the policy DROP "
        "(`iptables -S FORWARD` on the node), containers reach one another only by a rule "
        "that allows it; or use `network: host`",
        {key: found[key] for key in ("host", "address", "port")},
    )


def by_bootstrap(task: str, reason: str, message: str, stderr: str) -> Cause | None:
    """Return the cause that the bootstrap reports; None if the program exited by itself.

    Of a task that had not finished, its last lines may say what it waited for.
    """
    if reason not in _BY_BOOTSTRAP:
        return None
    if reason == "not-finished" and (
        waits := recognise(_telling(stderr, None), STILL_RUNS, task=task)
    ):
        return replace(waits, sentence=f"{waits.sentence}: {message}")
    if reason in ("command-not-found", "not-executable") and " exited with status " in message:
        return None  # bash's status for a part of the command, which its own message names
    return Cause(_CODES.get(reason, reason), message, _BY_BOOTSTRAP[reason])


# --- the program ---

_OF_CHILD = re.compile(r"^Root Cause [^\n]*\n(?:[^\n]*\n){0,5}? +exitcode +: (-?\d+)", re.MULTILINE)
_PEER = re.compile(r"/job:(\w+)/(?:replica:\d+/)?task:(\d+)")
# of bash, in a command that goes on after it
_NO_COMMAND = re.compile(r"^(?:\S+: )?line \d+: ([^\s:]+): command not found$", re.MULTILINE)


def by_program(
    task: str, status: int | None, stderr: str, asked_mib: int | None = None
) -> tuple[Cause | None, PythonError | None]:
    """Return the cause from a program's last lines, and the Python exception that ended it."""
    stderr = _own_words(stderr)
    error = python_error(stderr)
    found = recognise(_telling(stderr, error), PROGRAM, task=task, status=status)
    if found:
        if found.code in ("program-missing", "file-missing"):
            found = _without_command(found, task, stderr)
        elif found.code == "out-of-memory":
            found = replace(
                found,
                sentence=f"{found.sentence}: {error.last_line}" if error else found.sentence,
                hint=_more_memory(task, asked_mib),
                facts={**found.facts, "asked_mib": asked_mib},
            )
        elif found.code == "peer-failed" and (peer := _named_peer(task, stderr)):
            sentence = f"{found.sentence}; it names {peer}"
            found = replace(found, sentence=sentence, facts={**found.facts, "peer": peer})
        return found, error
    if error and error.name == OF_TORCHRUN and (ended := _status_below_torchrun(stderr)):
        return by_status(task, ended, asked_mib), None
    if error:
        return Cause(
            "python-exception", f"{task} ended by a Python exception: {error.last_line}"
        ), error
    return None, None


def _without_command(found: Cause, task: str, stderr: str) -> Cause:
    """Return the command that the shell lacked as the cause of a file that it was to bring."""
    lacked = _NO_COMMAND.search(stderr)
    if lacked is None:
        return found
    then = found.sentence.removeprefix(f"{task} ")
    return Cause(
        "command-not-found",
        f"{task} did not find the command {lacked[1]}, and after that {then}",
        f"is {lacked[1]} in the image, and on its PATH? `set -e` ends a command at its first error",
        {**found.facts, "command": lacked[1], "code": found.code},
    )


def _status_below_torchrun(stderr: str) -> int | None:
    """Return the exit status of the process that torchrun names as the first to fail, as a shell
    would: 137 for SIGKILL.
    """
    found = _OF_CHILD.search(stderr[-_TRACEBACK:])
    if not found:
        return None
    exitcode = int(found[1])
    return 128 - exitcode if exitcode < 0 else exitcode


def _named_peer(task: str, stderr: str) -> str | None:
    named = [f"{role}-{index}" for role, index in _PEER.findall(stderr[-_TRACEBACK:])]
    return next((name for name in reversed(named) if name != task), None)


def _own_words(stderr: str) -> str:
    """Return a stderr without the lines of the bootstrap and the shell; the bootstrap quotes the
    command, which may contain any text.
    """
    return "\n".join(
        line
        for line in stderr.splitlines()
        if not line.startswith(_NOT_THE_PROGRAM) and "setlocale: LC_ALL" not in line
    )


def _telling(stderr: str, error: PythonError | None) -> str:
    """Return the part of a stderr that belongs to the program's end."""
    end = "\n".join(stderr.rstrip().split("\n")[-_LAST_LINES:])
    return _short(f"{error.last_line}\n{error.text[:_TRACEBACK]}\n{end}" if error else end)


def _short(text: str) -> str:
    return "\n".join(line[:_LINE] for line in text.splitlines())


# --- the Python exception -------------------------------------------------------------------------

_START = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s+File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?')
_LAST = re.compile(r"^(?:[A-Za-z_][\w.]*\.\w+|[A-Z_]\w*)(?:: .*)?$")
# Names of exception classes, for errors without a traceback such as SyntaxError.
_BARE = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?\w*(?:Error|Exception|Interrupt|Warning)(?:: .*)?$")
_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/|/lib/python3(?:\.\d+)?/|/bin/torchrun$|^<frozen |/python3?\.\d+/lib/|^<__array_function__"  # noqa: E501
)
OF_TORCHRUN = "ChildFailedError"
# PyTorch writes it before each line of a traceback once the process group exists (seen on 2.15)
_RANK = re.compile(r"^\[rank\d+\]:(?: |$)")
_LONGEST = 500  # excludes Java's stack, which HDFS clients append


@dataclass(frozen=True)
class PythonError:
    """A Python exception.

    Attributes:
        name: Its class without the module, `ModuleNotFoundError`.
        last_line: The traceback's last line.
        place: The line of the user's own file that it came from, `train.py:12`, or "".
        text: The whole traceback, with the lines that follow it.
    """

    name: str
    last_line: str
    place: str
    text: str


def python_error(stderr: str) -> PythonError | None:
    """Return the exception of the last traceback in a program's stderr, or None.

    Exceptions that Python ignored ("Exception ignored in …", in finalizers at exit) are skipped,
    because they do not end a program.
    """
    lines = [_RANK.sub("", line) for line in stderr.split("\n")]
    starts = [
        number
        for number, line in enumerate(lines)
        if line.strip().endswith(_START)
        and not (number and lines[number - 1].startswith("Exception ignored in"))
    ]
    if not starts:
        return _without_traceback(lines)
    for start in reversed(starts):
        error = _of_traceback(lines[start:])
        # torchrun's own exception follows that of the process that it ran
        if error is None or error.name != OF_TORCHRUN or start == starts[0]:
            return error
    return None


def _of_traceback(lines: list[str]) -> PythonError | None:
    """Return the exception whose traceback begins at the first line."""
    indent = len(lines[0]) - len(lines[0].lstrip())
    frames: list[re.Match[str]] = []
    for written in lines[1:]:
        line = written[indent:] if written[:indent].isspace() else written
        if frame := _FRAME.match(line):
            frames.append(frame)
        # a line that is no exception is of TensorFlow's C++ code, which logs to the same stderr
        elif line.strip() and not line.startswith((" ", "\t")) and _LAST.match(line):
            return _error(line, frames, "\n".join(lines))
    return None


def _without_traceback(lines: list[str]) -> PythonError | None:
    for number in range(len(lines) - 1, -1, -1):
        if _BARE.match(lines[number]):
            begin = max(0, number - 5)
            frames = [frame for line in lines[begin:number] if (frame := _FRAME.match(line))]
            if frames:
                return _error(lines[number], frames, "\n".join(lines[begin:]))
    return None


def _error(line: str, frames: list[re.Match[str]], text: str) -> PythonError:
    name = line.partition(":")[0].rpartition(".")[2].strip()
    own = next((frame for frame in reversed(frames) if not _LIBRARY.search(frame["file"])), None)
    place = f"{own['file'].rpartition('/')[2]}:{own['line']}" if own else ""
    return PythonError(name, line.partition("\\n\\tat ")[0].strip()[:_LONGEST], place, text)


# --- the exit status ---

_BY_STATUS = {
    126: ("not-executable", _BY_BOOTSTRAP["not-executable"]),
    127: ("command-not-found", _BY_BOOTSTRAP["command-not-found"]),
    132: (
        "cpu-too-old",
        "send the job to newer nodes (`placement`), or use libraries built for these",
    ),
    134: (
        "aborted",
        "its last lines say why; an abort without a word is often native memory that "
        "could not be had",
    ),
    135: (
        "crashed",
        "Docker gives a container 64 MB of /dev/shm: read data with threads instead of processes",
    ),
    136: ("crashed", "PYTHONFAULTHANDLER=1 in `env` shows where"),
    139: (
        "crashed",
        "PYTHONFAULTHANDLER=1 in `env` shows where; a role without tasks in TF_CONFIG, or "
        "mixed versions of native libraries, do this",
    ),
    143: (
        "stopped-from-outside",
        "YARN does not report by whom: preempted, its node drained, dockerd restarted, or "
        "killed by hand? the node's NodeManager log knows",
    ),
}


def by_status(
    task: str, status: int | None, asked_mib: int | None, reason: str = ""
) -> Cause | None:
    """Return the cause from the exit status, and the bootstrap's reason, if it is known."""
    if not status:
        return None
    meaning, ended = meaning_of(status, reason), f"ended with exit status {status}"
    if reason == contract.REASON_EXITED:
        return Cause("exited", f"{task} {ended}{clause(': {}', meaning)}")
    if status == 137:
        hint = f"mostly the kernel, at a memory limit: {_more_memory(task, asked_mib)}"
        return Cause("killed", f"{task} was {meaning_of(status)}", hint, {"asked_mib": asked_mib})
    code, hint = _BY_STATUS.get(status, ("exited", ""))
    if code == "exited" and contract.signal_of_status(status) in contract.CRASHES:
        code, hint = "crashed", "its last lines, and those of the program that it ran, may say more"
    if meaning:
        ended = f"was {meaning}" if status > 128 else f"{ended}: {meaning}"
    return Cause(code, f"{task} {ended}", hint)
