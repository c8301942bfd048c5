"""Determine the cause from what YARN, the bootstrap and the exit status tell about the end of a
task.
"""

from __future__ import annotations

import re
from dataclasses import replace

from submit_tf_job.container import contract
from submit_tf_job.diagnose.amounts import clause
from submit_tf_job.diagnose.capacity import ways_out
from submit_tf_job.diagnose.cause import Cause
from submit_tf_job.diagnose.patterns import (
    LINES,
    LOGIN_FOR_GOOD,
    SHARED_MEMORY_HINT,
    STILL_RUNS,
    recognise,
    role_of,
)
from submit_tf_job.diagnose.statuses import CONTAINER, LOST, meaning_of, of_executor
from submit_tf_job.host.units import memory_text
from submit_tf_job.yarn.amlog import ContainerEnd

OF_MEMORY = ("out-of-memory", "killed", "process-killed")
BOOTSTRAP_SAYS = "[submit_tf_job] "
_LINE = 500
_LAST_LINES, _DIAGNOSTICS = 30, 2000


# --- YARN ---

_USED = re.compile(
    r"Current usage: (?P<used>[\d.]+ \w+) of (?P<limit>[\d.]+ \w+) physical memory used"
)
_USED_VIRTUAL = re.compile(r"; (?P<used>[\d.]+ \w+) of (?P<limit>[\d.]+ \w+) virtual memory used")
_MIB = {"B": 1 / 1024**2, "KB": 1 / 1024, "MB": 1.0, "GB": 1024.0, "TB": 1024.0**2}
_GRAIN = 256
# SchedulerUtils.java; of a lost node it says "released on a *lost* node"
_TAKEN_BACK = re.compile(
    r"Container (?:expired since it was unused|of a completed application|released by application)"
)
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
    """Return why YARN ended or lost a container; None if it did not.

    The container's exit status is then negative (ContainerExitStatus.java), or LOST
    (ContainerExecutor.java).
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
    if end.status == -100 and (taken := _TAKEN_BACK.search(end.diagnostics)):
        return Cause("stopped-by-yarn", f"YARN took back {end.task}'s container: {taken[0]}")
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
    asked = end.memory_mib or asked_mib
    facts = {"asked_mib": asked, **(said.groupdict() if said else {})}
    need = mib(said["used"]) if said else None
    if not physical:
        return Cause("virtual-memory", sentence, _more_addresses(end, asked, said, need), facts)
    return Cause("out-of-memory", sentence, more_memory(end.task, asked, need), facts)


def _more_addresses(
    end: ContainerEnd, asked_mib: int | None, said: re.Match[str] | None, need: float | None
) -> str:
    """Return possible solutions for a limit of the address space, which is larger for a container
    with more memory.
    """
    limit = mib(said["limit"]) if said else None
    way = ""
    if need and limit and asked_mib:
        wanted = -int(-need * asked_mib / limit // _GRAIN) * _GRAIN
        way = f"; so is roles.{role_of(end.task)}.memory of {memory_text(wanted)}"
    return (
        "these are addresses, and not memory that is used; no smaller batch helps. The administrator "  # noqa: E501
        "sets yarn.nodemanager.vmem-check-enabled to false, or a larger vmem-pmem-ratio; "
        f"MALLOC_ARENA_MAX=2 in `env` is a way round, by fewer arenas{way}"
    )


def mib(amount: str) -> float | None:
    """Return an amount that YARN has written, such as `1.2 GB`, in MiB; None if it has no known
    unit.
    """
    number, _, unit = amount.partition(" ")
    return float(number) * _MIB[unit] if unit in _MIB else None


def more_memory(task: str, asked_mib: int | None, used_mib: float | None = None) -> str:
    """Return the hint to ask for more memory, with the key to change, its current value and a
    suggested value.
    """
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
    """Return why a container failed before its command ran, from the NodeManager's diagnostics;
    None if they do not show that.
    """
    found = recognise(
        _end_of(f"{end.diagnostics}\n{stderr}", _DIAGNOSTICS),
        CONTAINER,
        task=end.task,
        status=end.status,
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
    said = _DAEMON_SAYS.search(end.diagnostics)
    words = _OF_RUNTIME.sub("", said[0])[:_LINE] if said else words_of_yarn(end.diagnostics)
    return Cause(
        "container-failed",
        f"the container of {end.task} failed before its command ran: {meaning}"
        f"{clause('; {}', words)}",
        hint,
    )


def words_of_yarn(diagnostics: str) -> str:
    """Return the first line of diagnostics of a container that tells why it failed; "" if none
    does.
    """
    said = diagnostics.partition("Last 4096 bytes of")[0]
    lines = (_AROUND_WORDS.sub("", line).strip() for line in said.splitlines())
    return next((line for line in lines if line and not _NO_WORDS.match(line)), "")[:_LINE]


# what YARN writes around the words of its diagnostics
_AROUND_WORDS = re.compile(
    r"^\s*(?:\[[\d :.-]+\])?(?:Exception message: |Shell error output: "
    r"|Stack trace: ExitCodeException exitCode=-?\d+: )?"
)
_NO_WORDS = re.compile(
    r"Exception from container-launch|Container (?:id:|exited with|killed on request)|Exit code:"
    r"|Stack trace: |at |Shell output:|main : |Failing |For more detailed|Then, click|\. Failing"
    r"|(?:Getting exit|Creating |Writing |Launching )|[^\n]*setlocale: |Container \[pid="
    r"|Application \w+ initialization failed|Requested user |Error file: "
)
# what Docker, containerd and runc put before the reason
_OF_RUNTIME = re.compile(
    r"(?:failed to create (?:task for container|shim(?: task)?)|OCI runtime create failed"
    r"|runc create failed|unable to start container process|error during container init"
    r"|\b\w{1,60}\.go:\d{1,9}|(?:starting container process|container init) caused)[: ]+"
)


_DAEMON_SAYS = re.compile(
    r"docker(?:-current)?: [^\n]{1,1000}"
    r"|\b(?:\w{1,60}\.){1,12}\w{0,60}Exception: [^\n]{1,300}"
)
# Message of container-executor if dockerd did not respond to the query for the exit status
# (docker-util.c).
_DOCKER_GONE = re.compile(
    r"Cannot connect to the Docker daemon|Could not inspect docker to get exit ?code"
)


def by_docker(end: ContainerEnd) -> Cause | None:
    """Return the cause if Docker stopped while a container ran, from YARN's diagnostics; None if
    they do not show that.
    """
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
        "room, and may the job's user write there; `on_failure: keep` saves what a failed command "
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
    r"(?<!\S)(?<!\S)(?P<host>\S+) \((?P<address>[\d.]+)\) does not answer at port (?P<port>\d+)"
)


def by_missing_task(task: str, stderr: str) -> Cause | None:
    """Return the cause if a task started and could not reach the deciding task, from its stderr;
    None if the stderr does not show that.
    """
    found = _UNANSWERED.search(stderr)
    if found is None:
        return None
    return Cause(
        "tasks-unreachable",
        f"{task} started and cannot reach the deciding task: {found['address']} does not "
        f"answer at port {found['port']}",
        "a firewall lies between them; on a bridge of Docker: where iptables' chain "
        "FORWARD has the policy DROP "
        "(`iptables -S FORWARD` on the node), containers reach one another only by a rule "
        "that allows it; or use `network: host`",
        {key: found[key] for key in ("host", "address", "port")},
    )


def by_bootstrap(task: str, reason: str, message: str, stderr: str) -> Cause | None:
    """Return the cause that the bootstrap reports; None if the program itself ended: it exited, it
    crashed, or a signal ended it.

    The last lines of a task that had not finished may show for what it waited.
    """
    if reason not in _BY_BOOTSTRAP:
        return None
    if reason == "not-finished" and (waits := recognise(_end_of(stderr), STILL_RUNS, task=task)):
        return replace(waits, sentence=f"{waits.sentence}: {message}")
    if reason == "login-failed":
        return _failed_login(task, message)
    if reason in ("command-not-found", "not-executable") and " exited with status " in message:
        return None  # bash's status for a part of the command, which its own message names
    return Cause(_CODES.get(reason, reason), message, _BY_BOOTSTRAP[reason])


def _failed_login(task: str, message: str) -> Cause:
    """Return the cause for a login of the bootstrap that failed, with what helps by its words."""
    said = message[at:] if (at := message.find("kinit: ")) >= 0 else ""
    known = recognise(said, LINES, task=task) if said else None
    hint = _BY_BOOTSTRAP["login-failed"]
    if known is not None and known.code == "clocks-differ":
        return replace(known, sentence=message)
    lasting = bool(re.search(LOGIN_FOR_GOOD, message))
    return Cause("kerberos-login", message, hint, permanent=lasting)


def _end_of(text: str, lines: int = _LAST_LINES) -> str:
    return "\n".join(line[:_LINE] for line in text.rstrip().splitlines()[-lines:])


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
    135: ("crashed", f"shared memory may be full; {SHARED_MEMORY_HINT.format()}"),
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
    """Return the cause that the exit status shows, together with the bootstrap's reason if it is
    known; None if the status is 0 or not known.
    """
    if not status:
        return None
    meaning, ended = meaning_of(status, reason), f"ended with exit status {status}"
    if reason == contract.REASON_EXITED:
        return Cause("exited", f"{task} {ended}{clause(': {}', meaning)}", certain=False)
    if status == 137:
        hint = f"mostly the kernel, at a memory limit: {more_memory(task, asked_mib)}"
        return Cause("killed", f"{task} was {meaning_of(status)}", hint, {"asked_mib": asked_mib})
    code, hint = _BY_STATUS.get(status, ("exited", ""))
    if code == "exited" and contract.signal_of_status(status) in contract.CRASHES:
        code, hint = "crashed", "its last lines, and those of the program that it ran, may say more"
    if meaning:
        ended = f"was {meaning}" if status > 128 else f"{ended}: {meaning}"
    return Cause(code, f"{task} {ended}", hint, certain=code != "exited")
