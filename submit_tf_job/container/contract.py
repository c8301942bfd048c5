"""Names that both sides of the wire agree on: what `plan` writes and what `bootstrap`, inside the container, reads.

Standard library only, Python 3.7 and later: this very file travels with every job.
"""

# --- how a task learns who it is -------------------------------------------------------------------------------------
# The AM replaces ${COMPONENT_INSTANCE_NAME} in env values in normal and in entry-point mode (facts: yarn-services 4.1).
ENV_INSTANCE = "TFJOB_INSTANCE"  # worker-3: role, hyphen, index
# The AM sets it for every DOCKER artifact, also where the NodeManager runs the command as a plain process (seen on 3.1 to 3.4):
# <component>-<i>.<service>.<user>.<domain>. It is the one place where a container can read the registry's form of user and domain.
ENV_HOSTNAME = "YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_HOSTNAME"

# --- what the training program finds in its environment --------------------------------------------------------------
ENV_TF_CONFIG = "TF_CONFIG"
ENV_TF_CONFIG_FILE = "TFJOB_TF_CONFIG_FILE"  # only where TF_CONFIG is too long for one variable
ENV_JOB = "TFJOB_NAME"
ENV_ROLE = "TFJOB_ROLE"
ENV_INDEX = "TFJOB_INDEX"
ENV_COUNT = "TFJOB_COUNT"  # tasks of this role
ENV_PORT = "TFJOB_PORT"  # the port this task may listen on
ENV_SUBMISSION = "TFJOB_SUBMISSION_ID"
ENV_ATTEMPT = "TFJOB_ATTEMPT"  # 0, then one more for each time YARN started this task again
ENV_PROGRESS = "TFJOB_PROGRESS_FILE"  # write {"step": 3, "total": 10, "metrics": {...}} there, by rename
TASK_ENV = (ENV_TF_CONFIG, ENV_JOB, ENV_ROLE, ENV_INDEX, ENV_COUNT, ENV_PORT, ENV_SUBMISSION, ENV_ATTEMPT, ENV_PROGRESS)

# What it reads and writes: each followed by the name of an input or output in capitals.
ENV_INPUT = "TFJOB_INPUT_"  # its URI; once it was downloaded, where it is on this disk
ENV_FILES = "TFJOB_FILES_"  # a file that lists this task's files, one a line
ENV_OUTPUT = "TFJOB_OUTPUT_"  # its URI; where it is uploaded afterwards, an empty directory on this disk

# --- files -----------------------------------------------------------------------------------------------------------
BOOTSTRAP_FILE = "bootstrap.py"  # a TEMPLATE file lands in conf/ of the working directory
REPORT_FILE = "job-report.json"  # in the log directory of the deciding task; the NodeManager serves it at once
PAYLOAD_ARCHIVE = "tfjob-files.tar"  # the job's files, staged, when they are too large to travel in the service
COMMON_ARCHIVE = "tfjob-common.tar"  # those that all roles have, where they are many
LARGE_LINK = "tfjob-large-"  # a large file is one file on a node: the link to it begins so, and its name links to that
ARCHIVES_DIRECTORY = ".tfjob-archives"  # archives on their way to being unpacked
SITE_DIRECTORY = ".tfjob-packages"  # wheels of `files` are unpacked there
PACKAGES_LINK = "tfjob-python"  # the job's Python packages, unpacked once on each node, are linked so in the working directory
HADOOP_CONF_LINK = "tfjob-hadoop-conf"  # a staged archive of Hadoop configuration is linked so in the working directory
KEYTAB_FILE = "tfjob.keytab"  # the job's keytab in a task's working directory
KRB5_CONF_FILE = "tfjob-krb5.conf"  # krb5.conf, where it travels with the job
TOKENS_FILE = "tfjob-tokens"  # delegation tokens as the program gets them
INPUT_LIST = "tfjob-input-%s.txt"  # the files of a sharded input, one URI a line, the same list for all tasks
PROGRESS_MARK = "TFJOB_PROGRESS "  # a line on stdout that starts with it and goes on as JSON is progress, as the file is
OUTCOME_MARK = "submit_tf_job-outcome "  # the machine-readable last line on the task's stderr starts with it
REPORT_VERSION = 1
TASK_VERSION = 1

# --- properties of the YARN service that say whose it is -------------------------------------------------------------
PROPERTY_SUBMISSION = "submit_tf_job.submission-id"
PROPERTY_RERUN_OF = "submit_tf_job.rerun-of"  # the id that the same command has without --replace
PROPERTY_DECIDING = "submit_tf_job.deciding-task"
PROPERTY_BOOTSTRAP = "submit_tf_job.bootstrap"  # "false" where no task leaves an outcome
PROPERTY_STRATEGY = "submit_tf_job.strategy"
PROPERTY_PORTS = "submit_tf_job.ports"  # of a component: "http=6006,grpc=6007"
PROPERTY_DECIDES = "yarn.service.container-state-report-as-service-state"  # YARN-8489, Hadoop 3.3.0

# --- exit statuses of the bootstrap itself ---------------------------------------------------------------------------
# Free of the shell's (126, 127, 128+n), Docker's (125-127), container-executor's (1-75) and TensorFlow's usual ones (1, 2).
EXIT_BOOTSTRAP_ERROR = 90  # a defect of the bootstrap, or a task description it cannot read
EXIT_PORT_IN_USE = 91  # this task's own port is taken on this host
EXIT_PEERS_MISSING = 92  # the start deadline passed and some tasks had not arrived
EXIT_JOB_FAILED = 93  # this task was told to end because another one failed
EXIT_DECIDER_LOST = 94  # the connection to the deciding task stayed away longer than the grace period
EXIT_RESERVED_STATUS = 95  # the command's own status was 22 or 24; the outcome keeps it
EXIT_WRONG_JOB = 96  # another job's rendezvous answered at the deciding task's address
EXIT_DATA = 97  # an input could not be fetched, or an output not be stored
EXIT_COMMAND_NOT_EXECUTABLE = 126
EXIT_COMMAND_NOT_FOUND = 127
EXIT_TERMINATED = 143

# LinuxContainerExecutor takes a container's 22 and 24 for its own failures and marks the node UNHEALTHY until it is restarted (seen).
NEVER_PASSED_ON = frozenset({22, 24})

EXIT_MEANING = {
    EXIT_BOOTSTRAP_ERROR: "the bootstrap could not run (its stderr says why)",
    EXIT_PORT_IN_USE: "the task's own port was in use on its host",
    EXIT_PEERS_MISSING: "not every task arrived before the start deadline",
    EXIT_JOB_FAILED: "told to end, because another task failed first",
    EXIT_DECIDER_LOST: "the connection to the deciding task was lost for longer than the grace period",
    EXIT_RESERVED_STATUS: "the command ended with 22 or 24, which YARN would take for a broken node",
    EXIT_WRONG_JOB: "another job answered at the deciding task's address",
    EXIT_DATA: "an input could not be fetched, or an output not be stored",
    EXIT_COMMAND_NOT_EXECUTABLE: "the command was found but could not be executed",
    EXIT_COMMAND_NOT_FOUND: "the command was not found in the container",
    EXIT_TERMINATED: "ended by SIGTERM (YARN stops containers so)",
}

# --- roles, as the rendezvous sees them ------------------------------------------------------------------------------
DUTY_DECIDES = "decides"  # its end is the job's end
DUTY_TRAINS = "trains"  # must succeed; is waited for when the deciding task is done
DUTY_SERVES = "serves"  # never ends by itself (ps, workers of ParameterServerStrategy); told to end; must not fail before
DUTY_EVALUATES = "evaluates"  # must succeed; is given time for its last evaluation
DUTY_SIDECAR = "sidecar"  # told to end; its failure is a warning
DUTIES = (DUTY_DECIDES, DUTY_TRAINS, DUTY_SERVES, DUTY_EVALUATES, DUTY_SIDECAR)
