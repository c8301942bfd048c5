"""Constants that the client and the bootstrap in the container share: file names, variables, exit
statuses. `plan` writes what the bootstrap reads.

Standard library only, Python 3.6 and later.
"""

import signal

# --- how a task finds its role and index ----------------------------------------------------------
# The AM replaces ${COMPONENT_INSTANCE_NAME} in env values, in normal and in entry-point mode:
# hadoop-facts.md#substitution-by-the-applicationmaster
ENV_INSTANCE = "TFJOB_INSTANCE"  # worker-3: role, hyphen, index
# The AM sets it for every DOCKER artifact, also where the NodeManager runs the command as a plain
# process (seen on 3.1 to 3.4): <component>-<i>.<service>.<user>.<domain>. Only here can a container
# read the registry's form of user and domain.
ENV_HOSTNAME = "YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_HOSTNAME"

# The AM sets both for every DOCKER artifact, even if the NodeManager ignores them
# (AbstractLauncher, DockerProviderService).
ENV_RUNTIME = "YARN_CONTAINER_RUNTIME_TYPE"
ENV_IMAGE = "YARN_CONTAINER_RUNTIME_DOCKER_IMAGE"

# --- the training program's environment -----------------------------------------------------------
ENV_TF_CONFIG = "TF_CONFIG"
ENV_TF_CONFIG_FILE = "TFJOB_TF_CONFIG_FILE"  # only where TF_CONFIG is too long for one variable
ENV_JOB = "TFJOB_NAME"
ENV_ROLE = "TFJOB_ROLE"
ENV_INDEX = "TFJOB_INDEX"
ENV_COUNT = "TFJOB_COUNT"  # tasks of this role
ENV_PORT = "TFJOB_PORT"  # the port this task may listen on
ENV_PORT_OF = "TFJOB_PORT_"  # each followed by the name of one of the role's `ports` in capitals
ENV_RUN = "TFJOB_RUN"
# with `retries`: 0, then one more for each time that all tasks started again
ENV_GENERATION = "TFJOB_GENERATION"
ENV_ATTEMPT = "TFJOB_ATTEMPT"  # 0, then one more for each time YARN started this task again
# write {"step": 3, "total": 10, "metrics": {...}} there, by rename
ENV_PROGRESS = "TFJOB_PROGRESS_FILE"
# over the tasks that train, the deciding task first; docs/tf-config.md#facts-for-every-program
ENV_RANK = "TFJOB_RANK"
ENV_WORLD_SIZE = "TFJOB_WORLD_SIZE"
ENV_LOCAL_RANK = "TFJOB_LOCAL_RANK"
ENV_ADDRESS = "TFJOB_ADDRESS"  # host:port of the deciding task
# each followed by a role's name in capitals
ENV_HOSTS = "TFJOB_HOSTS_"  # host:port of its tasks, separated by commas
ENV_HOSTFILE = "TFJOB_HOSTFILE_"  # a file with a host:port in each line, where there are many

# Inputs and outputs; each prefix is followed by the name of one in capitals.
ENV_INPUT = "TFJOB_INPUT_"  # the input's URI, or its path on this disk once it was downloaded
ENV_FILES = "TFJOB_FILES_"  # a file that lists this task's files, one per line
# the output's URI; an empty directory on this disk where it is uploaded afterwards
ENV_OUTPUT = "TFJOB_OUTPUT_"

# --- events of the report that a client looks for -------------------------------------------------
EVENT_LIFETIME_SAVES = "the job's lifetime ends; its tasks save"
EVENT_STOP_SAVES = "stopped, with time to save"
# after "the container of TASK "
EVENT_HELD, EVENT_NOT_HELD = "stays for", "is no longer held"

# --- files ----------------------------------------------------------------------------------------
BOOTSTRAP_FILE = "bootstrap.zip"  # the modules of this folder
TASK_FILE = "tfjob.json"  # the task description; YARN puts TEMPLATE files into conf/
# the bootstrap and a role's files as base64 in conf/, where there is no staging directory
INLINE_BOOTSTRAP = "bootstrap.zip.base64"
INLINE_FILES = "tfjob-files.tar.base64"
# in the log directory: times at which stdout.txt and stderr.txt grew
TIMES_FILE = "tfjob-times.txt"
# One record per file and so many seconds, by the age of the task: less than 1 MB in a week.
TIMES_PACES = ((3600.0, 1.0), (86400.0, 10.0), (float("inf"), 60.0))
# in the log directory of the deciding task; the NodeManager serves it at once
REPORT_FILE = "job-report.json"
# beside it: what the tasks use, and the curves of metrics and of use
USAGE_FILE = "job-usage.json"
# endings of the files beside a run's record: the last report, and that of the usage
RECORD_REPORT, RECORD_USAGE = ".report", ".usage"
SERIES_POINTS = 240  # of one curve; older ones are thinned out
# how JSON has numbers that are not finite; Python's float() reads them
NOT_FINITE = ("NaN", "Infinity", "-Infinity")
# in the log directory: what Python's faulthandler writes at a signal, which no program is known to
# use (real-time, far from both ends); and in the deciding task's the stacks of all tasks
STACKS_FILE, ALL_STACKS_FILE, STACKS_SIGNAL = "stacks.txt", "job-stacks.json", 50
# a role's files as a staged archive
PAYLOAD_ARCHIVE = "tfjob-files.tar"
COMMON_ARCHIVE = "tfjob-common.tar"  # the files that all roles have, when there are many
# a large file is stored once per node; links with this prefix lead to it
LARGE_LINK = "tfjob-large-"
# a file of HDFS that YARN fetches to the node; links with this prefix lead to it
REMOTE_LINK = "tfjob-remote-"
ARCHIVES_DIRECTORY = ".tfjob-archives"  # archives on their way to being unpacked
SITE_DIRECTORY = ".tfjob-packages"  # wheels of `files` are unpacked into it
# link in the working directory to the job's Python packages, unpacked once per node
PACKAGES_LINK = "tfjob-python"
COMMANDS_DIRECTORY = ".tfjob-commands"  # the commands of these packages, for this task's Python
# link in the working directory to a staged archive of Hadoop configuration
HADOOP_CONF_LINK = "tfjob-hadoop-conf"
KEYTAB_FILE = "tfjob.keytab"  # the job's keytab in a task's working directory
KRB5_CONF_FILE = "tfjob-krb5.conf"  # krb5.conf, if it travels with the job
TOKENS_FILE = "tfjob-tokens"  # the delegation tokens that the program gets
# the files of a sharded input, one URI per line, the same list for all tasks
INPUT_LIST = "tfjob-input-%s.txt"
# prefix of a progress line on stdout; JSON follows, with the fields of the progress file
PROGRESS_MARK = "TFJOB_PROGRESS "
# prefix of the machine-readable last line on the task's stderr
OUTCOME_MARK = "submit_tf_job-outcome "
# `image_policy` in the job spec and in the task description
IMAGE_REQUIRED, IMAGE_ALLOWED = "require", "allow"
REPORT_VERSION = 1
TASK_VERSION = 1

# --- exit statuses of the bootstrap itself --------------------------------------------------------
# Not used by the shell (126, 127, 128+n), Docker (125-127), container-executor (1-75) or usually by
# TensorFlow (1, 2).
# a defect of the bootstrap, an unreadable task description, or a reason not in STATUS_OF_REASON
EXIT_BOOTSTRAP_ERROR = 90
EXIT_PORT_IN_USE = 91  # this task's port is in use on this host
EXIT_PEERS_MISSING = 92  # the start deadline passed and some tasks had not arrived
EXIT_JOB_FAILED = 93  # another task failed, which ended this one
# the deciding task had ended, or was out of reach for longer than `grace`
EXIT_DECIDING_LOST = 94
EXIT_RESERVED_STATUS = 95  # the command's own status was 22 or 24; the outcome line holds it
EXIT_WRONG_JOB = 96  # another job's rendezvous answered at the deciding task's address
EXIT_DATA = 97  # an input could not be fetched, or an output not be stored
EXIT_IMAGE_IGNORED = 99  # the NodeManager ran the task as a plain process instead of in its image
EXIT_COMMAND_NOT_EXECUTABLE = 126
EXIT_COMMAND_NOT_FOUND = 127
EXIT_TERMINATED = 143

# of a command that could not run; EXIT_BOOTSTRAP_ERROR with any other reason
STATUS_OF_REASON = {
    "command-not-found": EXIT_COMMAND_NOT_FOUND,
    "image-ignored": EXIT_IMAGE_IGNORED,
    "input-failed": EXIT_DATA,
    "not-executable": EXIT_COMMAND_NOT_EXECUTABLE,
    "peers-missing": EXIT_PEERS_MISSING,
    "port-in-use": EXIT_PORT_IN_USE,
    "wrong-job": EXIT_WRONG_JOB,
}

# LinuxContainerExecutor takes a container's exit statuses 22 and 24 for its own failures and marks
# the node UNHEALTHY until it is restarted (hadoop-facts.md#exit-statuses-22-and-24).
NEVER_PASSED_ON = frozenset({22, 24})

# --- reasons of a record whose command ran --------------------------------------------------------
REASON_EXITED = "exited"  # the status is the program's own, whatever its number
REASON_CRASHED = "crashed"  # a signal that the kernel or the program itself sends for its fault
REASON_KILLED = "killed"  # any other signal: it comes from outside
CRASHES = frozenset(
    {
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGPIPE,
        signal.SIGSEGV,
        signal.SIGSYS,
        signal.SIGTRAP,
        signal.SIGXCPU,
        signal.SIGXFSZ,
    }
)
# signals that end no process, so that 128 plus one of them is a program's own exit status
NOT_FATAL = frozenset(
    {
        signal.SIGCHLD,
        signal.SIGCONT,
        signal.SIGSTOP,
        signal.SIGTSTP,
        signal.SIGTTIN,
        signal.SIGTTOU,
        signal.SIGURG,
        signal.SIGWINCH,
    }
)
LAST_SIGNAL = 64


def reason_of_signal(number: int) -> str:
    """Return the reason to record for a command that was ended by a signal: `REASON_CRASHED` or
    `REASON_KILLED`.
    """
    return REASON_CRASHED if number in CRASHES else REASON_KILLED


def signal_of_status(status: int) -> int:
    """Return n if a shell's exit status is 128 + n, where n is a signal that ends processes; else
    0.
    """
    number = status - 128
    return number if 0 < number <= LAST_SIGNAL and number not in NOT_FATAL else 0


# --- retries of the whole training ---------------------------------------------------------------
RETRY_LOST, RETRY_OOM, RETRY_ANY = "lost", "out-of-memory", "any"  # words of `retries.on`
REASON_OOM = "out-of-memory"  # reason of a record: the kernel killed the command for its memory
REASON_STALLED = "stalled"  # reason of a record: all tasks that train stand still
REASON_PREPARE = "prepare-failed"  # reason of a record: `prepare` of the job failed
# reasons of an ended generation that are no failures: tasks of an elastic role had come, or YARN
# had ended some (scaled down, preempted, their node drained)
REASON_GROWN, REASON_SHRUNK = "grown", "shrunk"
RESIZED = (REASON_GROWN, REASON_SHRUNK)

# --- the witness ---------------------------------------------------------------------------------
# The sidecar whose end is the application's for YARN where the deciding role's is not: YARN would
# start its task again (`retries`), or waits until each of several has ended, also those that never
# got a container (docs/internals/endings.md).
WITNESS_ROLE = "witness"
WITNESS = WITNESS_ROLE + "-0"

# --- lost connections ----------------------------------------------------------------------------
# A task whose connection its kernel closed is back within so many seconds, or has ended; one that
# is silent has `grace`.
CLOSED_S = 3.0

# --- kinds of roles in the rendezvous -------------------------------------------------------------
KIND_TRAINS = "trains"  # must succeed; the deciding role is of this kind
# need not end by itself (ps, workers of ParameterServerStrategy): it is stopped, and must not fail
# before
KIND_SERVES = "serves"
KIND_EVALUATES = "evaluates"  # must succeed; gets time for its last evaluation
KIND_SIDECAR = "sidecar"  # stopped at the end; its failure is a warning

# --- the tasks whose end is the job's end ---------------------------------------------------------
ENDS_DECIDING_TASK = "deciding-task"
ENDS_DECIDING_ROLE = "deciding-role"
ENDS_ALL_THAT_TRAIN = "all-that-train"
