"""Exit statuses and their meaning, by the program that sets them.

The same number has several meanings: 127 of a command is the shell's "not found", 7 of a container
that never ran its command is container-executor's "docker run failed", and -104 is set by
NodeManagers alone.
"""

from __future__ import annotations

import re
import signal

from submit_tf_job.container import contract

# ContainerExecutor.ExitCode.LOST: the NodeManager was restarted, and the container ended without a
# recorded status.
LOST = 154

# ContainerExitStatus.java; -109 since Hadoop 3.4.
YARN = {
    -1000: "the container never ran: its files or its user could not be prepared",
    -100: "released by the ApplicationMaster, or lost with its node",
    -101: "the node's local or log disks failed",
    -102: "preempted: the scheduler gave its resources to another queue or application",
    -103: "over its virtual memory, and killed by the NodeManager",
    -104: "over its memory, and killed by the NodeManager",
    -105: "stopped by the ApplicationMaster",
    -106: "killed by the ResourceManager",
    -107: "killed after the application was over",
    -108: "killed by the NodeManager's own scheduler to make room for another container",
    -109: "killed by the NodeManager: its logs grew beyond the limit",
    -1: "the NodeManager refused to start the container",
}

# The statuses of `contract.py`.
BOOTSTRAP = {
    contract.EXIT_BOOTSTRAP_ERROR: "the bootstrap could not run (its stderr says why)",
    contract.EXIT_PORT_IN_USE: "the task's own port was in use on its host",
    contract.EXIT_PEERS_MISSING: "not every task arrived before the start deadline",
    contract.EXIT_JOB_FAILED: "stopped because another task failed first",
    contract.EXIT_DECIDING_LOST: (
        "the deciding task had ended, or was out of reach for longer than `grace`"
    ),
    contract.EXIT_RESERVED_STATUS: (
        "the command ended with 22 or 24, which YARN would take for a broken node"
    ),
    contract.EXIT_WRONG_JOB: "another job answered at the deciding task's address",
    contract.EXIT_DATA: "an input could not be fetched, or an output not be stored",
    contract.EXIT_IMAGE_IGNORED: "the NodeManager did not run the task in its image",
    contract.EXIT_COMMAND_NOT_EXECUTABLE: "the command was found but could not be executed",
    contract.EXIT_COMMAND_NOT_FOUND: "the command was not found in the container",
    contract.EXIT_TERMINATED: "ended by SIGTERM (YARN stops containers so)",
}

# container-executor's util.h and docker-util.c; only valid if the command never ran, since a
# program may exit with any of these.
EXECUTOR = {
    6: "container-executor may not change the user: it is not set-uid root",
    7: "`docker run` failed",
    8: "container-executor could not signal the container",
    9: "container-executor was given a wrong process id",
    18: "container-executor was out of memory",
    20: "the user could not be set up on the node",
    22: "container-executor has wrong permissions",
    24: "container-executor.cfg is not valid",
    25: "container-executor could not start a session",
    26: "container-executor could not write the process id",
    27: "container-executor could not write to the cgroup",
    28: "container-executor could not set up traffic control",
    29: "the Docker command could not be built or run",
    31: "container-executor could not read the Docker command",
    32: "a feature is switched off in container-executor.cfg",
    33: "container-executor could not copy the launch script",
    34: "container-executor could not copy the credentials",
    35: "container-executor could not create the working directory",
    36: "container-executor could not create the log directory",
    37: "container-executor could not create the container's /tmp",
    39: "container-executor refused the Docker command",
    40: "the name of the image is not valid",
    49: "a mount is not there",
    50: "a read-only mount is not allowed on the node",
    51: "a writable mount is not allowed on the node",
    52: "a path of docker.allowed.ro-mounts or docker.allowed.rw-mounts does not exist on the node",
    56: "the name of the image is not valid",
    60: "the Docker network is not allowed on the node",
    61: "the port mapping is not valid",
    62: "a capability is not allowed on the node",
    63: "privileged containers are not allowed on the node",
    64: "a device is not allowed on the node",
    72: "the image is not trusted on the node",
    73: "a tmpfs mount is not valid",
    74: "the container runtime is not allowed on the node",
    75: "service mode is not allowed on the node",
    125: "Docker itself failed to run the container",
    126: "Docker could not execute the container's command",
    127: "the container's command was not found",
    LOST: "the NodeManager was restarted and lost the exit status",
}

SHELL = {
    1: "the program failed",
    2: "the program refused its arguments, or could not be read",
    126: BOOTSTRAP[126],
    127: BOOTSTRAP[127],
}

SIGNALS = {
    signal.SIGILL: "an instruction that the node's processor does not have",
    signal.SIGABRT: "the program gave itself up; its last lines say why",
    signal.SIGBUS: "memory that could not be had; often /dev/shm is full",
    signal.SIGFPE: "an arithmetic error in native code",
    signal.SIGKILL: "out of memory, or killed by a person or program",
    signal.SIGSEGV: "a crash in native code",
    signal.SIGTERM: "asked to end; YARN stops containers so",
}


def meaning_of(status: int | None) -> str:
    """Return the meaning of a task's exit status; "" if the program chose it.

    Args:
        status: Status of the command, of the bootstrap, or (negative) YARN's of the container.
    """
    if status is None:
        return ""
    if status < 0:
        return YARN.get(status, "")
    if status in SHELL:
        return SHELL[status]
    if 128 < status <= 128 + 64:
        return _of_signal(status - 128)
    return BOOTSTRAP.get(status, "")


# what LinuxContainerExecutor alone writes into a container's diagnostics
_OF_EXECUTOR = re.compile(
    r"^Shell error output: |^main : command provided |container-executor", re.MULTILINE
)


def of_executor(status: int | None, diagnostics: str) -> str:
    """Return the meaning of the exit status of a container that never ran its command.

    A status that container-executor has not written about may be the program's own: it may have
    removed what shows that it ran.
    """
    if status is None:
        return "the ApplicationMaster could not launch it"
    if status < 0 or status == LOST:
        return YARN.get(status, EXECUTOR.get(status, ""))
    return EXECUTOR.get(status, "") if _OF_EXECUTOR.search(diagnostics) else ""


def _of_signal(number: int) -> str:
    try:
        name = signal.Signals(number)
    except ValueError:
        return f"ended by signal {number}"
    why = SIGNALS.get(name)
    return f"ended by {name.name}: {why}" if why else f"ended by {name.name}"
