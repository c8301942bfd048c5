"""The causes of a job's failure: what each code means, what to do, and whether a retry helps."""

from __future__ import annotations

from functools import cache

# codes, what happened, what to do, whether the same job may succeed if it is submitted again.
# `make goldens` writes docs/troubleshooting.md#why-a-job-failed from it.
# fmt: off
ROWS: tuple[tuple[str, str, str, bool], ...] = (
    ("out-of-memory", "over the container's memory and killed by the NodeManager (-103, -104), Python's `MemoryError`, or memory that native code did not get", "the hint has the role's request: more `memory`, or a smaller batch or model", True),  # noqa: E501
    ("killed", "the command was killed by SIGKILL (137): mostly the kernel, at a memory limit", "as above; YARN does not report it", True),  # noqa: E501
    ("virtual-memory", "over the addresses that YARN allows its container, and killed by the NodeManager (-103)", "the administrator: `yarn.nodemanager.vmem-check-enabled` false, or a larger `vmem-pmem-ratio`; MALLOC_ARENA_MAX=2 in `env`", False),  # noqa: E501
    ("process-killed", "a process that the program had started was killed: a worker of a data loader or a pool, a process of `mp.spawn`; a guess where only its end is told", "more `memory`, or fewer of them", True),  # noqa: E501
    ("gpu-out-of-memory", "TensorFlow found no memory on the GPU", "a smaller batch or model; TF_FORCE_GPU_ALLOW_GROWTH where a GPU is shared", True),  # noqa: E501
    ("shared-memory", "/dev/shm is full: Docker gives 64 MB", "threads instead of processes for reading data", True),  # noqa: E501, S108
    ("disk-full", "no space left on the node's disk, or a quota of it used up", "write less, or to HDFS", True),  # noqa: E501
    ("too-many-files, too-many-threads", "more open files, threads or processes than a user or a container may have", "close files; fewer workers; OMP_NUM_THREADS", True),  # noqa: E501
    ("hardware-error", "a device or a file system of the node failed: ECC, input/output errors", "submit again; the administrator", True),  # noqa: E501
    ("hdfs-quota", "the HDFS directory's quota is used up", "delete, or ask for more", True),
    ("hdfs-safe-mode", "HDFS cannot be written: the NameNode is in safe mode", "wait; it may lack DataNodes or disk", True),  # noqa: E501
    ("hdfs-permission", "HDFS denies access; user, access and path are named", "another directory, or its owner's permission", False),  # noqa: E501
    ("hdfs-path-missing", "a path on HDFS does not exist", "check it as the job's user", True),
    ("hdfs-no-datanode", "HDFS could not store what a task wrote: no DataNode took it", "full or dead DataNodes, or ones that the container does not reach", True),  # noqa: E501
    ("hdfs-block-missing", "HDFS could not read a block of a file: no DataNode that has it answered", "`hdfs fsck PATH`; the network between containers and DataNodes", True),  # noqa: E501
    ("hdfs-lease", "what a task wrote on HDFS was deleted, or taken by another writer", "a path of its own for each writer", True),  # noqa: E501
    ("uri-as-path", "the program opened an hdfs:// or s3:// address as a file of its own disk, as Python's `open` does", "`download: true` of the input, or fsspec", False),  # noqa: E501
    ("hdfs-unsupported", "the image lacks what TensorFlow needs for hdfs://", "[tensorflow-io, libhdfs and Java](data.md#tensorflow-reads-hdfs-itself), or fsspec with hdfs-native", False),  # noqa: E501
    ("hdfs-credentials", "no Kerberos ticket, and no delegation token that is still good", "`kerberos` in the job spec", False),  # noqa: E501
    ("hdfs-principal", "the Hadoop configuration in the container does not fit the NameNode's Kerberos principal", "`hadoop: {conf: inline}`", False),  # noqa: E501
    ("hdfs-token-over", "a delegation token that has run out, or was cancelled", "`kerberos` with `login: always`: [a login of its own](kerberos.md#in-the-job)", True),  # noqa: E501
    ("kerberos-realm", "no krb5.conf with a default realm; Java needs one for tokens, too", "`kerberos: {krb5_conf: inline}`", False),  # noqa: E501
    ("clocks-differ", "the clocks of two hosts differ by more than Kerberos or YARN allows", "the administrator sets them; `placement` avoids a node", True),  # noqa: E501
    ("certificate-untrusted", "the program does not trust the certificate of a server: of an unknown authority, of another name, or expired", "the hint, by the reason; the authority's certificate under `files`, or in Java's store", False),  # noqa: E501
    ("input-failed", "a download failed before the command started; the sentence names the path and the file system's own words", "rights, the image's libraries, the Hadoop configuration in the container: [data.md](data.md#file-systems)", True),  # noqa: E501
    ("output-failed", "the command succeeded, and what it left could not be stored", "space, rights, or an existing output: [data.md](data.md#outputs)", True),  # noqa: E501
    ("kerberos-login", "a login from the keytab failed, in a task or in the ApplicationMaster; the KDC's own words", "the principal's latest keytab; a krb5.conf that names the KDC", True),  # noqa: E501
    ("hdfs-unreachable", "the NameNode was not reached, or is on standby", "`hadoop: {conf: inline}`; the network between containers and HDFS", True),  # noqa: E501
    ("workdir-missing", "the directory that `workdir` names does not exist in the task", "`workdir` is below the task's working directory, or an absolute path of the container", False),  # noqa: E501
    ("name-not-found", "a host name does not resolve", "Registry DNS, `dns.server`", True),
    ("host-unreachable", "a host that is no task of the job was not reached: a download from the internet, mostly", "`files` or `inputs` instead; https_proxy in `env`", True),  # noqa: E501
    ("port-in-use", "the task's port is taken on its host, and it cannot take another", "submit it again", True),  # noqa: E501
    ("tf-config-invalid", "TensorFlow refuses the roles in TF_CONFIG", "[strategies](job-spec.md#strategies); a program that changes TF_CONFIG", False),  # noqa: E501
    ("peer-failed", "the connection to another task was lost: the failure is elsewhere", "the task that it names", True),  # noqa: E501
    ("tasks-missing", "not every task arrived before the start deadline, and no container of theirs failed", "[missing tasks](#the-job-stays-starting-and-then-fails-missing-tasks)", True),  # noqa: E501
    ("not-finished", "tasks still ran `finish_timeout` after the deciding one was done", "the same number of steps in every worker, or a longer `finish_timeout`", True),  # noqa: E501
    ("stalled", "no task that trains moved for [`stall_timeout`](operate.md#a-training-that-stands-still)", "the stacks: `logs JOB --file job-stacks.json`; a longer `stall_timeout` for a task that is at work without a word", True),  # noqa: E501
    ("session-waits", "the same, and its log says for whom: TensorFlow 1's session waited for a task that had ended (`CreateSession still waiting for response from worker`)", "`device_filters` in the session's configuration: each worker connects to ps and to itself alone", True),  # noqa: E501
    ("steps-differ", "the tasks run different steps: a collective operation got other types or shapes from another task", "the same program, model and checkpoint in every worker", True),  # noqa: E501
    ("task-lost", "a task vanished: killed from outside, or with its node", "the log of the node's NodeManager", True),  # noqa: E501
    ("wrong-job", "another job answered at the deciding task's address", "submit it again", True),
    ("cuda-mismatch", "CUDA, cuDNN and the driver do not fit together", "an image for the nodes' driver", False),  # noqa: E501
    ("gpu-missing", "a task sees fewer GPUs than its role asked for, which is checked before its command starts; or the program wants a GPU and sees none", "[GPUs](#a-task-sees-fewer-gpus-than-it-asked-for): the node's runtime and driver; the image's CUDA", False),  # noqa: E501
    ("gpu-not-prepared", "the node could not prepare GPUs for the container", "the administrator: GPU module and plugin", True),  # noqa: E501
    ("cpu-too-old", "an instruction that the node's processor lacks (132)", "newer nodes by `placement`", False),  # noqa: E501
    ("wrong-architecture", "a program for another processor", "an image for the nodes' architecture", False),  # noqa: E501
    ("loss-not-finite", "the loss was NaN or infinite", "learning rate, clipping, data", True),
    ("shapes-differ", "values whose shapes do not fit: of the data and the model, mostly", "the exception has the shapes", False),  # noqa: E501
    ("weights-differ", "a checkpoint of another model", "the directory of the checkpoint", False),
    ("rendezvous-failed", "the processes of PyTorch or JAX did not meet in time", "the task that ended first; the port of rank 0", True),  # noqa: E501
    ("collective-timeout", "the processes of PyTorch did not come to the same collective operation in time", "the same steps in every process; the time-out of `init_process_group`", True),  # noqa: E501
    ("nccl-failed", "NCCL could not exchange data between GPUs", "`NCCL_DEBUG=INFO`, `NCCL_SOCKET_IFNAME`", True),  # noqa: E501
    ("keras-3", "Keras 3 does not train under the strategy", "tf_keras with `keras: legacy`, or [other ways](frameworks.md#keras-3)", False),  # noqa: E501
    ("tensorflow-1", "the program is written for TensorFlow 1", "an image with TensorFlow 1.15, or `tf.compat.v1`", False),  # noqa: E501
    ("tensorflow-missing, module-missing", "a module of Python, or of another language, is not there", "install it in the image, or ship it under `files`", False),  # noqa: E501
    ("name-not-in-module", "a module lacks what the program imports or calls: it has another version", "the version that the program was written for", False),  # noqa: E501
    ("versions-differ", "libraries that do not fit one another: undefined symbols, an older C library, another NumPy", "install them together; pip check", False),  # noqa: E501
    ("library-missing", "a shared library is not there", "install it in the image", False),
    ("program-missing", "the training program itself is not there", "`files`", False),
    ("syntax-error", "Python or bash cannot read the program", "`python -m py_compile`, `bash -n`; the image's Python", False),  # noqa: E501
    ("arguments-invalid", "the program refused its arguments; its own words", "the `command` of the job spec", False),  # noqa: E501
    ("variable-missing", "an environment variable is not set", "`env`; `strategy` for those of frameworks", False),  # noqa: E501
    ("file-missing", "a file on the container's disk is not there", "`files` or `mounts`", True),
    ("read-only", "it may only be read", "mounts are read-only unless they end in `:rw`", False),
    ("permission-denied", "the file may not be used by the container's user", "its owner, or its mode", False),  # noqa: E501
    ("command-not-found", "127: the command is not in the container", "the image, its PATH; `python3` instead of `python`", False),  # noqa: E501
    ("not-executable", "126: the command may not be executed", "its mode, or its interpreter in front", False),  # noqa: E501
    ("arguments-too-long", "the environment or command is too long to start a process", "a file under `files`", False),  # noqa: E501
    ("python-missing", "the image has no Python for the bootstrap", "another image, or `python`", False),  # noqa: E501
    ("python-exception", "any other exception ended the program, of Python or of another language", "the exception and its place", True),  # noqa: E501
    ("crashed, aborted", "native code crashed (139, 135, 136 and [others](job-spec.md#retries-of-the-whole-training)), or gave itself up (134)", "PYTHONFAULTHANDLER=1 in `env`", True),  # noqa: E501
    ("exited", "any other exit status", "the last lines", True),
    ("bootstrap-error", "the bootstrap could not run", "its last lines", True),
    ("image-not-pulled", "the image is not on the node and could not be pulled", "name, tag, registry, `docker_client_config`", True),  # noqa: E501
    ("image-name-invalid", "the name of the image is not valid", "name, tag", False),
    ("image-ignored", "the node ran the task as a plain process instead of in its image; with `image_policy: warn` what failed stands in the sentence, its code in `facts.code`", "[An image that the node ignored](#an-image-that-the-node-ignored)", False),  # noqa: E501
    ("image-without-bash", "YARN starts commands with bash, and the image has none", "install it", False),  # noqa: E501
    ("image-without-tools", "YARN's launch script calls `ls`, `find`, `cp`, `chmod`, `mkdir`, `ln`, and the image lacks one", "install coreutils and findutils", False),  # noqa: E501
    ("image-not-trusted", "not from a registry that the nodes trust", "`docker.trusted.registries`", False),  # noqa: E501
    ("mount-refused, mount-invalid", "a mount is not allowed on the node, or its text is not valid", "the node's container-executor.cfg", False),  # noqa: E501
    ("mount-missing", "a mount is not there on the node, or cannot be read", "the node's administrator; `placement`", True),  # noqa: E501
    ("allowed-mount-missing", "a path of the node's own `docker.allowed.ro-mounts` or `docker.allowed.rw-mounts` does not exist there; no container with a mount starts on that node", "the administrator creates it, or removes it from container-executor.cfg", True),  # noqa: E501
    ("network-refused, privileged-refused, runtime-refused", "the nodes do not allow it", "what they allow", False),  # noqa: E501
    ("docker-unreachable", "Docker does not answer on the node", "the administrator", True),
    ("docker-stopped", "Docker was stopped or restarted on the node while the task ran, and ended its container", "submit again; the administrator", True),  # noqa: E501
    ("tasks-unreachable", "a task started and could not reach the deciding one's port", "[a firewall, or a bridge of Docker](sandbox.md#containers-that-cannot-reach-one-another); `network: host`", True),  # noqa: E501
    ("host-name-too-long", "longer than 64 characters", "a shorter name of the job or role", False),
    ("user-missing", "the user may not run containers on the node", "the administrator", False),
    ("files-not-there", "a staged file was gone or had changed", "submit it again", True),
    ("executor-configuration, container-failed", "the node could not start the container", "the administrator; the [status](#exit-statuses-of-a-task) shows what failed", True),  # noqa: E501
    ("exit-status-lost", "154: the NodeManager was restarted, and the container ended without leaving its status", "the logs; submit again", True),  # noqa: E501
    ("exit-status-false", "the container could not start, and its node reported 0: `docker.inspect.max.retries=0`", "the cause in its sentence; the administrator sets 1 or more", True),  # noqa: E501
    ("node-lost, disks-failed", "the node, or its disks, failed", "submit again", True),
    ("preempted", "YARN gave the resources to another job", "submit again; another queue", True),
    ("logs-too-large", "the container wrote more logs than the node allows", "log less", False),
    ("stopped-by-yarn, stopped-from-outside", "the container was ended by YARN, or by SIGTERM from an unknown sender", "the ResourceManager's and NodeManager's logs", True),  # noqa: E501
    ("request-refused", "the ResourceManager never gives what was asked for; its words", "ask for less", False),  # noqa: E501
    ("rejected", "YARN rejected the application and started nothing of it; its words", "`queue`", False),  # noqa: E501
    ("not-started", "YARN gave the application up before it had a container; its words", "the ResourceManager's log", True),  # noqa: E501
    ("too-many-applications", "the queue, or the cluster, had as many applications as it takes", "submit again when others have ended", True),  # noqa: E501
    ("token-not-renewed", "the ResourceManager could not renew the delegation token of a file system, and started nothing", "its log; can it reach that file system?", True),  # noqa: E501
    ("never-started", "no container for the deciding task, or the witness, in several times `start_timeout`: there was no room", "ask for less, or a longer `start_timeout`; [who ends the job](#the-deciding-task-gets-no-container)", True),  # noqa: E501
    ("kerberos-somebody-else", "the ApplicationMaster logged in as another user than the one who submitted", "a principal and a keytab of that user's", False),  # noqa: E501
    ("application-master-failed", "YARN's own ApplicationMaster failed", "its words stand below", True),  # noqa: E501
    ("command-never-ran", "YARN reports SUCCEEDED, and the command never ran", "[YARN reports SUCCEEDED, but …](#yarn-reports-succeeded-but-)", True),  # noqa: E501
)
# fmt: on


@cache
def permanent() -> frozenset[str]:
    """Return the codes of the causes that the same job would meet again: the job, its image, a
    permission or the cluster's configuration has to be changed first.
    """
    return frozenset(code for codes, _, _, helps in ROWS if not helps for code in codes.split(", "))


def table() -> str:
    """Return the causes as a table of Markdown."""
    lines = ["| code | what happened | what to do | a retry helps |", "|---|---|---|---|"]
    for codes, what, step, helps in ROWS:
        names = ", ".join(f"`{code}`" for code in codes.split(", "))
        lines.append(f"| {names} | {what} | {step} | {'yes' if helps else 'no'} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())  # noqa: T201
