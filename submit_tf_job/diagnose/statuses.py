"""What YARN reports about the end of a container: exit statuses, and patterns of its diagnostics.

The meaning of an exit status depends on the program that sets it. 127 from a command is the shell's
"not found"; 7 for a container that never ran its command is container-executor's "docker run
failed"; -104 is set only by NodeManagers.
"""

from __future__ import annotations

import re
import signal

from submit_tf_job.container import contract
from submit_tf_job.diagnose.patterns import ARGUMENTS_TOO_LONG, LOGIN_FOR_GOOD, Pattern

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

OWN = {
    1: "the program failed",
    2: "the program refused its arguments, or could not be read",
}
SHELL = {
    **OWN,
    126: BOOTSTRAP[126],
    127: BOOTSTRAP[127],
}

SIGNALS = {
    signal.SIGILL: "an instruction that the node's processor does not have",
    signal.SIGTRAP: "native code that stopped itself at a fault",
    signal.SIGSYS: "a system call that the container may not make",
    signal.SIGPIPE: "it wrote to a program or a connection that had ended",
    signal.SIGXCPU: "more CPU time than its limit (ulimit -t)",
    signal.SIGXFSZ: "a file larger than its limit (ulimit -f)",
    signal.SIGABRT: "the program gave itself up; its last lines say why",
    signal.SIGBUS: "memory that could not be had; often /dev/shm is full",
    signal.SIGFPE: "an arithmetic error in native code",
    signal.SIGKILL: "out of memory, or killed by a person or program",
    signal.SIGSEGV: "a crash in native code",
    signal.SIGTERM: "asked to end; YARN stops containers so",
}


def meaning_of(status: int | None, reason: str = "") -> str:
    """Return the meaning of a task's exit status; "" if the program chose it, or its meaning is not
    known.

    Args:
        status: Exit status of the command or of the bootstrap, or (if negative) YARN's status of
            the container.
        reason: The bootstrap's reason, which tells which program set the status; "" if only YARN
            reports the status.
    """
    if status is None:
        return ""
    if reason == contract.REASON_EXITED:
        return OWN.get(status, "")
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
    """Return the meaning of the exit status of a container that never ran its command; "" if it has
    none, or the program may have set it. None means that no container was launched.

    The program may have set a status about which container-executor has written nothing: it may
    have removed the files that show that it ran.
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


# --- patterns of failures -------------------------------------------------------------------------
#
# The texts are those of a real NodeManager with Docker (hadoop-facts.md#docker-errors).

_ASK = "ask the administrator of the cluster"

# Errors in the ApplicationMaster's log: hadoop-facts.md#errors-of-the-applicationmaster
MASTER: tuple[Pattern, ...] = (
    Pattern(
        "clocks-differ",
        r"KerberosAuthException: failure to login: for principal: (?P<who>\S{1,200})[^\n]{0,400}?(?P<why>Clock skew too great)",  # noqa: E501
        "the ApplicationMaster could not log in as {who}: the clock of its node differs from that "
        "of the Kerberos server: {why}",
        f"{_ASK} to set the clock of that node",
    ),
    Pattern(
        "kerberos-somebody-else",
        r"Permission denied: user=(?P<user>[^,\s]+), access=\w+, inode=\"(?P<path>/user/(?P<owner>[^/\"]+)/\.yarn[^\"]*)",  # noqa: E501
        "the ApplicationMaster logged in as {user}, who may not read {path}: the "
        "principal of `kerberos` is not {owner}'s",
        "name a principal and a keytab of {owner}'s: {owner}/_HOST@REALM; or submit as {user}",
    ),
    *(
        Pattern(
            "kerberos-login",
            rf"KerberosAuthException: failure to login: for principal: (?P<who>\S+) from keytab \S+[^\n]*?LoginException: (?P<why>{why})",  # noqa: E501
            "the ApplicationMaster could not log in as {who}: {why}",
            "is the keytab the principal's latest (kvno)? a ktadd elsewhere makes older ones "
            "useless; kinit -kt KEYTAB {who} shows it",
            permanent=permanent,
        )
        for why, permanent in (
            (rf"[^\n]*?(?:{LOGIN_FOR_GOOD})[^\n]*", True),
            (r"[^\n]+", False),
        )
    ),
    Pattern(
        "executor-configuration",
        r"\$\{(?P<variable>[\w-]*\.[\w.-]+)\}[^\n]*bad substitution",
        "YARN's launch script of the ApplicationMaster has a variable that no shell can read, "
        "{variable}: bad substitution",
        f"{_ASK}: mapred-site.xml and yarn-site.xml (yarn.application.classpath, "
        "yarn.service.classpath) name it, and it has to be replaced by its value",
        permanent=True,
    ),
    Pattern(
        "module-missing",
        r"Could not find or load main class (?P<main>\S+)",
        "YARN's ApplicationMaster did not find its own program, {main}",
        f"{_ASK}: yarn.service.classpath or yarn.application.classpath has to name Hadoop's jars, "
        "as they lie on every node",
    ),
    Pattern(
        "never-started",
        r"container health for component (?P<component>\S+) was 0\.00%",
        "{component} had no container for longer than `start_timeout`, and YARN gave the job up",
        "ask for less, or wait longer (`start_timeout`); submit_tf_job status names what a job "
        "waits for",
    ),
)

CONTAINER: tuple[Pattern, ...] = (
    Pattern(
        "clocks-differ",
        r"Unauthorized request to start container[.\s]{1,9}This token is expired|System times on machines may be out of sync",  # noqa: E501
        "a NodeManager took the start of {task} for too late: its clock and the ResourceManager's "
        "differ, or the start took longer than YARN allows",
        f"{_ASK} to set the clocks of the nodes",
    ),
    Pattern(
        "docker-unreachable",
        r"Cannot connect to the Docker daemon",
        "Docker does not answer on the node of {task}",
        f"{_ASK} to look at dockerd there; until then keep the job off that node",
    ),
    Pattern(
        "docker-unreachable",
        r"permission denied while trying to connect to the (?:Docker daemon|docker API)",
        "container-executor is not allowed to talk to Docker on the node of {task}: permission "
        "denied",
        f"{_ASK} to look at the rights of Docker's socket there; until then keep the job off that "
        "node",
    ),
    Pattern(
        "wrong-architecture",
        r"no matching manifest for (?P<platform>\S+)"
        r"|does not match the specified platform: wanted (?P<wanted>[^,\s]+)",
        "there is no image of {task} for the processor of its node, {platform}{wanted}",
        "build the image for the nodes' architecture",
    ),
    Pattern(
        "disk-full",
        r"docker: [^\n]{0,400}no space left on device",
        "the disk of Docker is full on the node of {task}",
        f"{_ASK} to remove images there (docker system prune); submit again",
    ),
    Pattern(
        "image-not-pulled",
        r"(?:Unable to find image '(?P<image>[^'\n]{1,300})' locally[\s\S]{0,900}?)?"
        r"(?:pull access denied for (?P<denied>[^\s,]+)|(?:unauthorized|no basic auth credentials|authentication required)[^\n]*)",  # noqa: E501
        "the image {denied} of {task} may not be pulled: the registry wants credentials {image}",
        "give Docker's config.json as `docker_client_config`, and check the image's name",
    ),
    Pattern(
        "image-not-pulled",
        r"(?:Unable to find image '(?P<image>[^'\n]{1,300})' locally[\s\S]{0,900}?)?"
        r"docker: [^\n]{0,200}?(?P<words>(?:Get \"?https?://|toomanyrequests|x509: |received unexpected HTTP)[^\n]+)",  # noqa: E501
        "the image {image} of {task} could not be pulled: {words}",
        "can the nodes reach the registry, and do they trust its certificate?",
    ),
    Pattern(
        "image-not-pulled",
        r"(?:Unable to find image '(?P<local>[^'\n]{1,300})' locally[\s\S]{0,900}?)?"
        r"(?:manifest for (?P<image>\S+) not found|manifest unknown|No such image: (?P<none>\S+))",
        "the image {image}{none} of {task} is not on its node and could not be pulled",
        "check its name and tag; can the nodes reach the registry?",
    ),
    Pattern(
        "wrong-architecture",
        r"exec format error",
        "the image of {task} is for another processor than its node's",
        "build the image for the nodes' architecture",
    ),
    Pattern(
        "image-without-bash",
        r"exec: \\?\"?(?P<program>[\w./-]*sh)\\?\"?: (?:executable file not found|stat [^\n]*no such file)",  # noqa: E501
        "the image of {task} has no {program}, with which YARN starts every command",
        "install bash in the image",
    ),
    Pattern(
        "image-not-trusted",
        r"image: (?P<image>\S+) is not trusted|Disable mount volume for untrusted image",
        "the image {image} of {task} is not from a registry that the nodes trust: YARN "
        "takes its mounts away, and nothing can start",
        "docker.trusted.registries in container-executor.cfg names them; use an image "
        "from one of those",
    ),
    Pattern(
        "image-name-invalid",
        r"Image name '(?P<image>[^']+)' doesn't match docker image name pattern|Invalid docker image name"  # noqa: E501
        r"|docker: (?P<words>invalid reference format[^\n]*)",
        "what {task} has as its image is no name of an image: {image}{words}",
        "lower case letters, digits, and a tag after the colon",
    ),
    Pattern(
        "mount-refused",
        r"Configuration does not allow (?:mount src=|docker mount )'(?P<source>[^':]+)|Invalid (?:docker )?read-(?:only|write) mount",  # noqa: E501
        "the node does not allow the mount {source} of {task}",
        "docker.allowed.ro-mounts and docker.allowed.rw-mounts in container-executor.cfg "
        "say what may be mounted; is :rw needed?",
    ),
    # container-executor rejects every mount if a path in its own lists does not exist
    # (docker-util.c, add_mounts).
    Pattern(
        "allowed-mount-missing",
        r"(?:Could not determine real path of mount '(?P<source>[^']+)'[^\n]*\n(?:[^\n]*\n){0,3}?[^\n]*)?"  # noqa: E501
        r"(?:Unable to find permitted docker mounts on disk|docker error code=52\b)",
        "container-executor.cfg on the node of {task} allows mounts of a path that does "
        "not exist there: {source}",
        f"{_ASK} to create that path or to remove it from docker.allowed.ro-mounts and "
        f"docker.allowed.rw-mounts; "
        "until then no Docker container with a mount starts on that node, whatever the job mounts",
    ),
    Pattern(
        "mount-missing",
        r"error while creating mount source path '(?P<source>[^']+)': (?P<why>[^\n]+)",
        "the mount {source} of {task} is not there on its node, and Docker could not make it: "
        "{why}",
        f"{_ASK}: a file system that should be mounted there may be missing; `placement` can name "
        "nodes that have it",
    ),
    Pattern(
        "mount-missing",
        r"Could not determine real path of mount '(?P<source>[^']+)'",
        "the mount {source} of {task} does not exist on its node",
        "a mount must be there on every node that may run the task; `placement` can name those",
    ),
    Pattern(
        "mount-invalid",
        r"Unable to parse user supplied mount list: (?P<mounts>[^\n]+)",
        "YARN cannot read the mounts of {task}: {mounts}",
    ),
    Pattern(
        "network-refused",
        r"Disallowed network:\s+'(?P<network>[^']+)' specified\. Allowed networks: are (?P<allowed>\[[^\]]*\])",  # noqa: E501
        "the node does not allow the network {network}; it allows {allowed}",
        "choose one of them as `network`",
    ),
    Pattern(
        "network-refused",
        r"Could not inspect docker network|network (?P<network>\S+) not found",
        "the node of {task} has no Docker network {network}",
        f"{_ASK}, or choose another `network`",
    ),
    Pattern(
        "port-in-use",
        r"(?:Bind for (?P<port>\S+) failed: )?port is already allocated",
        "a port that the container of {task} publishes is in use on its node {port}",
        "submit again: another container has it",
    ),
    Pattern(
        "privileged-refused",
        r"Privileged container being requested but",
        "privileged containers are not allowed on the nodes",
        "leave it out",
    ),
    Pattern(
        "runtime-refused",
        r"Disallowed runtime:\s+'(?P<runtime>[^']+)'|Invalid docker runtime",
        "the nodes do not allow Docker's runtime {runtime}",
        f"{_ASK}: yarn.nodemanager.runtime.linux.docker.allowed-container-runtimes",
    ),
    Pattern(
        "runtime-refused",
        r"Requested runtime not allowed",
        "the node of {task} does not allow Docker as a runtime",
        f"{_ASK}: docker belongs into yarn.nodemanager.runtime.linux.allowed-runtimes",
    ),
    Pattern(
        "host-name-too-long",
        r"Hostname can not be greater than 64 characters: (?P<name>\S+)",
        "the host name of {task} is longer than the 64 characters that Docker takes",
        "a shorter name for the job or the role",
    ),
    Pattern(
        "gpu-not-prepared",
        r"make sure gpu module is enabled|nvidia-docker",
        "the node could not prepare GPUs for {task}",
        f"{_ASK}: [gpu] module.enabled in container-executor.cfg, and nvidia-docker-v2 as "
        f"the plugin",
    ),
    Pattern(
        "gpu-not-prepared",
        r"ResourceHandlerChain\.preStart\(\) failed",
        "the node could not prepare what it limits or hands out for {task}: GPUs, or cgroups of "
        "memory, processors or networks",
        f"{_ASK}: the NodeManager's log has the reason; of GPUs mostly [gpu] module.enabled in "
        "container-executor.cfg, and nvidia-docker-v2 as the plugin",
    ),
    Pattern(
        "gpu-not-prepared",
        r"exec: \\?\"(?P<program>nvidia-[\w-]+)\\?\": executable file not found"
        r"|could not select device driver|(?:unknown or invalid runtime name|Unknown runtime specified):? \"?(?P<runtime>nvidia)",  # noqa: E501
        "Docker on the node of {task} has no runtime for GPUs {runtime}{program}",
        f"{_ASK}: NVIDIA's container toolkit belongs on that node, and into Docker's runtimes",
    ),
    Pattern(
        "cuda-mismatch",
        r"unsatisfied condition: (?P<condition>[^,\s\\]+)",
        "the image of {task} needs {condition}, and the driver of its node is older",
        "an image with an older CUDA, or newer nodes by `placement`; nvidia-smi on a node shows "
        "what its driver has",
    ),
    Pattern(
        "gpu-not-prepared",
        r"nvidia-container-cli: (?P<words>[^\n]+)",
        "the node could not prepare GPUs for {task}: {words}",
        f"{_ASK}: nvidia-smi there shows whether its driver works",
    ),
    Pattern(
        "executor-configuration",
        r"Wrong FS: (?P<path>\S+), expected: (?P<other>\S+)",
        "the NodeManager of {task} looks for {path} in another file system: Wrong FS, expected: "
        "{other}",
        f"{_ASK}: fs.defaultFS in core-site.xml of the nodes has to be that of the ResourceManager",
        permanent=True,
    ),
    Pattern(
        "container-failed",
        r"(?P<words>error in opening zip file|not in gzip format|does not look like a tar archive"
        r"|invalid (?:END|CEN|LOC) header[^\n]*)",
        "the node could not unpack an archive that it brought to {task}: {words}",
        "is it of the kind that its name says (.zip, .tar.gz, .tgz, .tar), and whole? unzip -t or "
        "tar -tf shows it",
        when=(-1000, -1),
        permanent=True,
    ),
    Pattern(
        "executor-configuration",
        r"Can't create directory (?P<path>\S+) - (?P<why>[^\n]+)"
        r"|(?P<words>Not able to initialize [\w-]+ directories in any of the configured local directories for [^\n]+)",  # noqa: E501
        "the NodeManager of {task} could not make the directories of its user: {path} {why}{words}",
        f"{_ASK}: below yarn.nodemanager.local-dirs they belong to somebody else, mostly since "
        "another executor or user made them, or the disk is full",
    ),
    Pattern(
        "disks-failed",
        r"No space available in any of the local dir|Could not find any valid local dir",
        "{task}'s node has no good disk left for containers",
        "submit again; the node's administrator should know",
    ),
    Pattern(
        "hdfs-token-over",
        r"can't be found in cache|[Tt]oken [^\n]{0,400}is expired",
        "a delegation token with which YARN brings files to {task} had run out, or was cancelled",
        "submit again, which gets new ones",
    ),
    Pattern(
        "hdfs-credentials",
        r"Client cannot authenticate via:\s*\[",
        "YARN had no delegation token with which to bring files to {task}",
        "say who the job is under `kerberos`",
    ),
    Pattern(
        "user-missing",
        r"unable to find user (?P<name>[^:\s]+): no matching entries",
        "the image of {task} has no user {name}, as which YARN starts it",
        "add the user to the image; or `docker: {{accounts: true}}` mounts the node's names",
    ),
    Pattern(
        "user-missing",
        r"User (?P<user>\S+) not found|Requested user (?P<banned>\S+) is (?:banned|not whitelisted)|user (?P<low>\S+) .*min\.user\.id",  # noqa: E501
        "the user {user}{banned}{low} may not run containers on the node, or does not exist there",
        f"{_ASK}: every node needs the user, above min.user.id and not banned",
    ),
    ARGUMENTS_TOO_LONG,
    # Commands of YARN's launch script; docs/images.md lists what YARN requires of an image.
    Pattern(
        "image-without-tools",
        r"launch_container\.sh: line \d+: (?:\S*/)?(?P<tool>ls|find|cp|chmod|mkdir|ln|cat|date): "
        r"(?:command not found|not found|No such file or directory)",
        "the image of {task} has no {tool}, which YARN's launch script calls before the command",
        "install coreutils and findutils in the image; see: submit_tf_job help images",
    ),
    Pattern(
        "python-missing",
        r"(?:line \d+: |exec: |^\S{1,100}bash: )\"?(?P<python>[^\s:\"]*python[\d.]*)\"?: "
        r"(?:command not found|not found|No such file or directory|executable file not found)",
        "the image of {task} has no {python}, which the bootstrap needs",
        "use an image with Python 3.6 or later, or name its interpreter as `python`",
    ),
    Pattern(
        "command-not-found",
        r"(?:line \d+: |exec: |^\S{1,100}bash: )(?P<command>[^\s:]+): (?:command not found|not found|No such file or directory)",  # noqa: E501
        "{task} did not find the command {command}",
        "is it in the image, and on its PATH?",
    ),
    # hadoop.tmp.dir of the ApplicationMasters is one directory for all users: ServiceScheduler
    Pattern(
        "hdfs-permission",
        r"Permission denied: user=(?P<user>[^,\s]+), access=\w+, inode=\"(?P<path>[^\"]*/\.yarn(?:/services)?)\":(?P<owner>[^:\s]+):",  # noqa: E501
        "YARN could not launch {task}: {path} belongs to {owner}, who ran the first service, and "
        "{user} may not write there",
        "the administrator of HDFS lets all users write there: hdfs dfs -chmod 1777 {path}",
    ),
    Pattern(
        "hdfs-permission",
        r"Permission denied: user=(?P<user>[^,\s]+), access=(?P<access>\w+), inode=\"(?P<path>[^\"]+)\"",  # noqa: E501
        "YARN could not launch {task}: user {user} has no {access} access to {path} on HDFS",
        "the administrator of HDFS creates it, or allows it",
    ),
    Pattern(
        "hdfs-block-missing",
        r"Could not obtain block: \S+ file=(?P<path>/\S+)",
        "YARN could not read a file that it was to bring to {task}: {path}",
        "its DataNodes are down, or that node cannot reach them; hdfs fsck PATH shows whether a "
        "good copy is left",
    ),
    Pattern(
        "files-not-there",
        r"File (?P<path>file:\S+) does not exist|Resource (?P<changed>file:\S+) changed on src",
        "a file that YARN was to bring to {task} was not on the disk of its node, or was another "
        "one there: {path}{changed}",
        "every node reads a file: path on its own disk: fs.defaultFS of the ResourceManager has to "
        "name a file system that all nodes share",
        when=(-1000, -1),
        permanent=True,
    ),
    Pattern(
        "files-not-there",
        r"(?:FileNotFoundException|does not exist)[^\n]*?(?P<path>(?:hdfs|viewfs|file|/)\S*)"
        r"|(?:Resource (?P<changed>\S+) )?changed on src filesystem",
        "a file that YARN was to bring to {task} was not there, or had changed: {path}{changed}",
        "submit again, which stages the files anew",
        when=(-1000, -1, 1),
    ),
    Pattern(
        "executor-configuration",
        r"container-executor\.cfg|Configuration file [^\n]*|Invalid permissions or ownership|(?:not|must be) owned by root",  # noqa: E501
        "the node's container-executor is not set up well",
        _ASK,
        when=(6, 22, 24, -1000, -1),
    ),
    # that an image was not on the node says only that it was then pulled
    Pattern(
        "image-not-pulled",
        r"Unable to find image '(?P<image>[^'\n]{1,300})' locally(?![\s\S]*Downloaded newer image)"
        r"[\s\S]{0,900}?^docker: (?:Error response from daemon: )?(?P<words>[^\n]+)",
        "the image {image} of {task} could not be pulled: {words}",
        "can its node reach the registry, and store the image?",
    ),
    Pattern(
        "image-not-pulled",
        r"Unable to find image '(?P<image>[^'\n]{1,300})' locally(?![\s\S]*Downloaded newer image)",
        "the image {image} of {task} is not on its node and could not be pulled",
        "check its name and tag; can the nodes reach the registry?",
    ),
)

# The ResourceManager's diagnostics: hadoop-facts.md#requests-that-are-never-granted
NEVER_GRANTED: tuple[Pattern, ...] = (
    Pattern(
        "request-refused",
        r"Invalid resource request[^\n]*?resource type=\[(?P<resource>[^\]]+)\], Requested resource=(?P<asked><[^>]+>), "  # noqa: E501
        r"maximum allowed allocation=(?P<most><[^>]+>)",
        "YARN gives no container as large as was asked for: {asked}, and {most} is the "
        "most it gives",
        "ask for less {resource}",
    ),
    # of Hadoop 3.0 to 3.2, and of 2
    Pattern(
        "request-refused",
        r"requested resource type=\[(?P<resource>[^\]]+)\] < 0 or greater than maximum allowed allocation\. "  # noqa: E501
        r"Requested resource=(?P<asked><[^>]+>), maximum allowed allocation=(?P<most><[^>]+>)",
        "YARN gives no container as large as was asked for: {asked}, and {most} is the "
        "most it gives",
        "ask for less {resource}",
    ),
    Pattern(
        "request-refused",
        r"Invalid resource request, requested (?P<resource>memory|virtual cores) < 0[^\n]{0,200}?"
        r"requested(?:Memory|VirtualCores)=(?P<asked>\d+), max(?:Memory|VirtualCores)=(?P<most>\d+)",  # noqa: E501
        "YARN gives no container as large as was asked for: {resource} {asked}, and {most} is the "
        "most it gives",
        "ask for less {resource}",
    ),
)

# any other request that the ResourceManager refuses
OTHER_REQUEST = Pattern(
    "request-refused",
    r"(?P<words>Invalid (?:[\w ]{1,20} )?resource request[^\n]*)",
    "YARN refuses what the job asks for: {words}",
    "the ResourceManager checks sizes and labels: those of the roles, of `placement` and of the "
    "`queue` have to fit",
)

# Diagnostics of applications that never had a container
REFUSED: tuple[Pattern, ...] = (
    Pattern(
        "too-many-applications",
        r"(?P<words>(?:Queue \S+ )?already has \d+ applications|[Mm]aximum (?:system )?application limit reached)",  # noqa: E501
        "YARN took no more applications at that time: {words}",
        "submit again when others have ended, or to another `queue`",
    ),
    Pattern(
        "rejected",
        r"queue=(?P<queue>\S+) doesn't have permission to access all labels[^\n]{0,99}?resource request=(?P<label>[^.\n]*)",  # noqa: E501
        "YARN rejected the job: the queue {queue} may not use nodes with the label {label}",
        "another `queue`, or other nodes",
    ),
    Pattern(
        "token-not-renewed",
        r"Failed to renew token: Kind: (?P<kind>\w+), Service: (?P<service>[^,\s]+)",
        "the ResourceManager could not renew the delegation token ({kind}) of {service}, and "
        "started nothing of the job",
        f"{_ASK}: the ResourceManager's log has the reason; it has to reach that file system, and "
        "to be the renewer that the token names",
    ),
)
