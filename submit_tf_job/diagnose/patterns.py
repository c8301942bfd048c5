"""Patterns of failures in a program's stderr: TensorFlow, Python, HDFS.

The texts are from real runs (hadoop-facts.md#errors-of-a-task; the tests reproduce most of
them). More specific patterns precede general ones. Only the traceback that ended the program and
its last lines are searched, because TensorFlow also logs harmless warnings, such as those about
missing CUDA libraries on a machine without GPUs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from submit_tf_job.diagnose.cause import Cause

_LONGEST = 200
# the working directory of a task, which never is in a job spec
_WORKDIR = re.compile(r"^/\S*/container_\w+/")


@dataclass(frozen=True)
class Pattern:
    """A known failure.

    Attributes:
        code: Its code, documented in docs/troubleshooting.md.
        regex: Matches its text, within lines; named groups may be used in the sentence and hint.
        sentence: What happened; `{task}` and `{role}` are replaced.
        hint: The next step.
        when: Exit statuses to which the pattern is limited; () for any.
    """

    code: str
    regex: str
    sentence: str
    hint: str = ""
    when: tuple[int, ...] = ()


def recognise(
    text: str, patterns: Iterable[Pattern], *, task: str, status: int | None = None
) -> Cause | None:
    """Return the cause for the first pattern that matches a text.

    Args:
        text: The text, a few kilobytes.
        patterns: The most specific ones first.
        task: The task, for the sentence.
        status: Its exit status.
    """
    for pattern in patterns:
        if pattern.when and status not in pattern.when:
            continue
        if found := re.search(pattern.regex, text, re.MULTILINE):
            groups = {
                name: _WORKDIR.sub("", value.strip())[:_LONGEST]
                for name, value in found.groupdict().items()
                if value
            }
            # a group without a match is ""
            words = defaultdict(str, {**groups, "task": task, "role": role_of(task)})
            return Cause(
                pattern.code,
                pattern.sentence.format_map(words).strip(),
                pattern.hint.format_map(words).strip(),
                groups,
            )
    return None


def role_of(task: str) -> str:
    """Return the role of a task: `worker` of `worker-3`."""
    return task.rpartition("-")[0] or task


_MEMORY_HINT = "make the batch or the model smaller"
_CUDA_HINT = (
    "does roles.{role} ask for gpus, and does the image's CUDA fit TensorFlow and the node's "
    "driver? nvidia-smi there shows it"
)

ARGUMENTS_TOO_LONG = Pattern(  # told by the program, or by YARN's launch script
    "arguments-too-long",
    r"Argument list too long",
    "{task} has an environment or a command that is too long to start a process",
    "put long values into a file under `files`",
)

PROGRAM: tuple[Pattern, ...] = (
    # --- memory, disk ---
    Pattern(
        "gpu-out-of-memory",
        r"CUDA_ERROR_OUT_OF_MEMORY|CUDA out of memory|OOM when allocating tensor with shape ?(?P<shape>\[[\d,]*\])?[^\n]*GPU|CUBLAS_STATUS_ALLOC_FAILED"  # noqa: E501
        r"|Allocator \(GPU_\d+_bfc\) ran out of memory",
        "{task} ran out of GPU memory",
        f"{_MEMORY_HINT}, or set TF_FORCE_GPU_ALLOW_GROWTH: does another process use that GPU?",
    ),
    Pattern(
        "out-of-memory",
        r"^(?:\w+\.)*(?:_Array)?MemoryError\b(?:: Unable to allocate (?P<wanted>[\d.]+ \wiB))?"
        r"|std::bad_alloc|Cannot allocate memory|OOM when allocating tensor|java\.lang\.OutOfMemoryError|Out of memory",  # noqa: E501
        "{task} ran out of memory",
    ),
    Pattern(
        "hdfs-quota",
        r"(?P<kind>DSQuotaExceeded|NSQuotaExceeded|QuotaByStorageTypeExceeded)Exception",
        "{task} could not write to HDFS: the directory's quota is used up",
        "delete what is not needed, or ask the administrator of HDFS for more",
    ),
    Pattern(
        "disk-full",
        r"No space left on device|Disk quota exceeded",
        "{task} found no space left on the disk that it wrote to",
        "write less, or to HDFS; a container's working directory and /tmp are on the "
        "node's own disks",
    ),
    Pattern(
        "shared-memory",
        r"insufficient shared memory \(shm\)|unable to (?:open|allocate) shared memory|/dev/shm[^\n]*(?:No space|full)",  # noqa: E501
        "{task} found /dev/shm full: Docker gives a container 64 MB of it",
        "read data with threads instead of processes",
    ),
    # --- authentication ---
    Pattern(
        "hdfs-token-over",
        r"[Tt]oken [^\n\"]{0,400}?(?:has expired, current time|\bis expired|can't be found in cache)(?:: (?P<now>[\d-]+ [\d:]+))?",  # noqa: E501
        "{task} had a delegation token that HDFS takes no more: it had run out, or YARN "
        "had cancelled it",
        "give the job a keytab, and a login of its own by `kerberos.login`: always; see: "
        "submit_tf_job help kerberos",
    ),
    Pattern(
        "kerberos-realm",
        r"Can't get Kerberos realm|Cannot locate default realm|Configuration file does not specify default realm",  # noqa: E501
        "{task} has no krb5.conf that names a default realm, without which Java takes no "
        "token either",
        "send this host's along by `kerberos.krb5_conf`: inline; Java reads it only with "
        "-Djava.security.krb5.conf",
    ),
    Pattern(
        "kerberos-login",
        r"KerberosAuthException: failure to login|(?:Client|Server) '(?P<who>[^'\s]+)' not found in Kerberos database"  # noqa: E501
        r"|Preauthentication failed|Cannot contact any KDC for realm '(?P<realm>[^']+)'",
        "{task} could not log in to Kerberos {who}{realm}",
        "is the keytab the principal's latest (kvno), and does the krb5.conf that the "
        "task has name the KDC? kinit -kt there shows it",
    ),
    Pattern(
        "hdfs-credentials",
        r"GSS initiate failed|No valid credentials provided|Client cannot authenticate via:\s*\[|No Kerberos credentials available"  # noqa: E501
        r"|GSS_S_NO_CRED|NoSASLMechanism",
        "{task} had nothing to prove to HDFS who it is: no Kerberos ticket, and no "
        "delegation token that is still good",
        "say who the job is under `kerberos`; a job that outlives its tokens logs in with "
        "its keytab (`kerberos.login`)",
    ),
    # --- HDFS ---
    Pattern(
        "hdfs-safe-mode",
        r"SafeModeException|[Nn]ame ?node is in safe mode",
        "{task} could not write: HDFS is in safe mode",
        "wait until the NameNode has left it; if it does not, it lacks DataNodes or disk",
    ),
    Pattern(
        "hdfs-permission",
        r"Permission denied: user=(?P<user>[^,\s]+), access=(?P<access>\w+), inode=\\?\"(?P<path>[^\"\\]+)",  # noqa: E501
        "{task} is not allowed by HDFS: user {user} has no {access} access to {path}",
        "use a directory of {user}'s, or have its owner allow it",
    ),
    Pattern(
        "hdfs-permission",
        r"org\.apache\.hadoop\.security\.AccessControlException:? ?(?P<words>[^\n]*)",
        "{task} is not allowed by HDFS: {words}",
        "use another directory, or have its owner allow it",
    ),
    Pattern(
        "hdfs-unsupported",
        r"File system scheme '(?P<scheme>\w+)' not implemented|(?P<module>hdfs_native|pyarrow)[^\n]*(?:not installed|libhdfs)"  # noqa: E501
        r"|(?:Unable to load|cannot open) libhdfs|HadoopFileSystem load error",
        "{task} cannot use hdfs:// : the image lacks what TensorFlow needs for it",
        "let the job copy it: `inputs` with download: true, `outputs` with upload: true "
        "(`submit_tf_job help data`). TensorFlow 2.6 and later need tensorflow-io, libhdfs and "
        "Java to do it themselves, as that page shows",
    ),
    Pattern(
        "hdfs-path-missing",
        r"errors_impl\.NotFoundError: [^\n]*(?P<uri>hdfs://[^\s'\";)]+)",
        "TensorFlow in {task} did not find {uri}",
        "does it exist? a TensorFlow without tensorflow-io has no hdfs:// since 2.6, and "
        "says the same of every path",
    ),
    Pattern(
        "hdfs-path-missing",
        r"File does not exist: (?P<path>/[^\s'\"]*)|(?:FileNotFoundError|NotFoundError|FileNotFound\w*)[^\n]*(?P<uri>hdfs://[^\s'\";)]+)"
        r"|No such file or directory:? '?(?P<link>hdfs://[^\s'\"]+)",
        "{task} did not find {path}{uri}{link} on HDFS",
        "does it exist, for the user that the job runs as? hdfs dfs -ls shows",
    ),
    Pattern(
        "hdfs-unreachable",
        r"Call From [^\n]* to (?P<peer>\S+) failed on connection exception|UnknownHostException: (?P<host>[\w.:-]+)"  # noqa: E501
        r"|(?:hdfs|webhdfs|namenode|NameNode)[^\n]*(?:[Cc]onnection refused|timed out)",
        "{task} did not reach HDFS {peer}{host}",
        "give the job its cluster's configuration (`hadoop: {{conf: inline}}`); can "
        "containers reach the NameNode?",
    ),
    # --- the other tasks ---
    Pattern(
        "steps-differ",  # TensorFlow's collective_param_resolver_local.cc
        r"expected type \d+ and data_type \d+|Shape mismatch in the collective instance",
        "the tasks run different steps: {task} and another one did not exchange the same values",
        "start every worker from the same program, model and checkpoint, with the same number of "
        "steps; a worker that restored nothing, or runs another branch, does this",
    ),
    Pattern(
        "rendezvous-failed",
        r"RendezvousTimeoutError|RendezvousConnectionError|DistStoreError: Timed out after [^\n]*waiting for clients"  # noqa: E501
        r"|DistNetworkError: The client socket has [^\n]*?connect to (?:any of the specified network addresses|\((?P<peer>[^)]+)\))",  # noqa: E501
        "{task} did not meet the other processes of PyTorch {peer}",
        "did another task end before it called init_process_group? can the containers reach the "
        "port of rank 0? see: submit_tf_job help frameworks",
    ),
    Pattern(
        "rendezvous-failed",
        r"DEADLINE_EXCEEDED[^\n]*\n+RPC: /\S*CoordinationService/RegisterTask",
        "{task} did not meet the other processes of JAX within initialization_timeout",
        "did another task end before it called jax.distributed.initialize? can the containers "
        "reach the port of process 0? see: submit_tf_job help frameworks",
    ),
    Pattern(
        "name-not-found",
        r"DNS resolution failed for (?P<name>[\w.-]+)|(?P<peer>[\w.-]+):\d*:? (?:Name or service not known|Domain name not found)"  # noqa: E501
        r"|gaierror: \[Errno -[235]\] (?P<why>[\w ]+)",
        "{task} could not resolve a host name {name}{peer}",
        "does Registry DNS answer, and does the containers' resolver ask it? see "
        "`dns.server` in the settings",
    ),
    Pattern(
        "port-in-use",
        r"Could not start gRPC server|Address already in use|EADDRINUSE|errno: 98",
        "{task} could not listen on its port: it is in use on the host",
        "does the program open it twice, or is another process there? a next run takes others",
    ),
    Pattern(
        "tf-config-invalid",
        r"Could not parse port for local server|exceeds the maximum id|not found in cluster_spec|Disallowed task type"  # noqa: E501
        r"|There must be at most one|`?task_type`? must be|KeyError: 'evaluator'|tfconfig_cluster_resolver\.py[\s\S]{0,2000}?"  # noqa: E501
        r"(?:JSONDecodeError|TypeError|KeyError|ValueError)",
        "{task} cannot work with its TF_CONFIG: the roles do not fit what the program "
        "does with them",
        "compare `strategy` and the roles with `submit_tf_job help tf-config`; does the "
        "program change TF_CONFIG?",
    ),
    Pattern(
        "nccl-failed",  # the words are those of libtorch_cuda.so of PyTorch 2.15
        r"NCCL error in: (?P<place>[^\n]*)|nccl(?:UnhandledCuda|System|Internal|Remote)Error",
        "{task} could not exchange data with other GPUs: NCCL failed {place}",
        "set NCCL_DEBUG=INFO, which logs the reason; NCCL_SOCKET_IFNAME names the interface",
    ),
    Pattern(
        "peer-failed",
        r"UnavailableError|Collective ops is aborted|[Hh]eartbeat timeout|(?:ABORTED|UNAVAILABLE): [^\n]*(?:/job:|task|peer|[Cc]onnection)"  # noqa: E501
        r"|Connection (?:reset|closed) by peer|JAX distributed service detected fatal errors"
        r"|DistNetworkError: Failed to recv|gloo/transport/[^\n]*\] Timed out waiting \d+ms for"
        r"|Socket closed|failed to connect to all addresses",
        "{task} lost the connection to another task: the failure is elsewhere",
        "look at the task that ended first; its logs say why",
    ),
    # --- GPUs ---
    Pattern(
        "cuda-mismatch",
        r"CUDA driver version is insufficient|no kernel image is available|forward compatibility was attempted"  # noqa: E501
        r"|libcuda reported version [^\n]*|CUDNN_STATUS_\w+|Could not create cudnn handle|Loaded runtime CuDNN library[^\n]*but source",  # noqa: E501
        "{task} found a GPU, but CUDA, cuDNN or the driver do not fit together",
        _CUDA_HINT,
    ),
    Pattern(
        "gpu-missing",
        r"no CUDA-capable device|Found no NVIDIA driver|No CUDA GPUs are available|requires at least one CUDA device"  # noqa: E501
        r"|only supported with GPUs, no GPUs found|CUDA_ERROR_NO_DEVICE|Could not satisfy (?:explicit )?device specification[^\n]*GPU"  # noqa: E501
        r"|device_type:GPU[^\n]*unknown device|unknown device[^\n]*GPU|libcu\w+\.so[^\n]*cannot open shared object",  # noqa: E501
        "{task} wanted a GPU and saw none",
        _CUDA_HINT,
    ),
    # --- numeric errors ---
    Pattern(
        "loss-not-finite",
        r"NanLossDuringTrainingError|Model diverged with loss = NaN|Invalid loss, terminating|(?:Nan|NaN|Inf) in summary histogram"  # noqa: E501
        r"|Tensor had (?:NaN|Inf)|[Ll]oss (?:is|was|became) (?:nan|NaN|inf)",
        "{task} stopped because the loss was no number any more",
        "a smaller learning rate, clipped gradients, and a look at the data; "
        "tf.debugging.enable_check_numerics() finds the place",
    ),
    Pattern(
        "keras-3",
        r"Attempt to convert a value \(PerReplica|pass this dataset to ClusterCoordinator\.create_per_worker_dataset",  # noqa: E501
        "{task}: Keras 3 does not train under this strategy",
        "install tf_keras and say `keras: legacy`, use TensorFlow 2.15, or see: submit_tf_job help "
        "frameworks",
    ),
    # --- the program and its dependencies ---
    Pattern(
        "tensorflow-missing",
        r"No module named '?(?P<module>tensorflow|keras|tf_keras|tensorflow_io)\b",
        "{task} found no {module} in its image",
        "use an image that has it, or name the interpreter that has it in `command`",
    ),
    Pattern(
        "module-missing",
        r"No module named '?(?P<module>[\w.]+)",
        "{task} could not import the module {module}",
        "install it in the image, or ship it under `files` if it is your own",
    ),
    Pattern(
        "library-missing",
        r"(?P<library>lib[\w.+-]+\.so[\w.]*): cannot open shared object file",
        "{task} lacks the library {library}",
        "install it in the image",
    ),
    Pattern(
        "program-missing",
        r"can't open file '(?P<file>[^']+)'|can't find '__main__' module in '(?P<folder>[^']+)'",
        "{task} did not find its program {file}{folder}",
        "name it under `files`, which puts it into the working directory; or mount it, or "
        "build it into the image",
    ),
    Pattern(
        "read-only",
        r"Read-only file system(?:: '(?P<path>[^']+)')?",
        "{task} wanted to write where it may only read {path}",
        "mounts are read-only unless they end in :rw",
    ),
    Pattern(
        "permission-denied",
        r"PermissionError: \[Errno 1?3\] [\w ]+: '(?P<path>[^']+)'",
        "{task} is not allowed to use {path}",
        "containers run as the user that YARN chooses on its nodes: that one needs the right",
    ),
    Pattern(
        "file-missing",
        r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<path>[^']+)'",
        "{task} did not find {path}",
        "ship it under `files`, or mount its directory; paths are those inside the container",
    ),
    ARGUMENTS_TOO_LONG,
    Pattern(
        "wrong-architecture",
        r"[Ee]xec format error",
        "{task} has a program that is not for this node's processor",
        "build the image for the nodes' architecture, or give the script a first line "
        "such as #!/bin/sh",
    ),
    Pattern(
        "cpu-too-old",
        r"was compiled to use (?P<set>[\w.]+) instructions, but these aren't available",
        "{task}: TensorFlow uses {set} instructions, which this node's processor does not have",
        "send the job to newer nodes (`placement`), or build TensorFlow for these",
    ),
    Pattern(
        "command-not-found",
        r"(?:line \d+: |^)(?:\S*/)?(?P<command>[^\s:]+): (?:command not found|not found|No such file or directory)$",  # noqa: E501
        "{task} did not find the command {command}",
        "is it in the image, and on its PATH? python is often called python3",
        when=(127,),
    ),
    Pattern(
        "not-executable",
        r"(?:line \d+: |^)(?P<command>\S+): (?:Permission denied|cannot execute[^\n]*|Is a directory)$",  # noqa: E501
        "{task} found the command {command}, but may not execute it",
        "make it executable before it is shipped, or start it with its interpreter: bash "
        "{command}, python {command}",
        when=(126,),
    ),
)

# what a program that had not ended logs while it waits
STILL_RUNS: tuple[Pattern, ...] = (
    Pattern(
        "session-waits",
        r"CreateSession still waiting for response from worker: /job:(?P<peer>\w+)/(?:replica:\d+/)?task:(?P<index>\d+)",  # noqa: E501
        "TensorFlow's session in {task} waited for {peer}-{index}",
        "a session begins when every task of the cluster answers, and one that has ended does not; "
        'give it config=tf.compat.v1.ConfigProto(device_filters=["/job:ps", '
        '"/job:worker/task:%d" % task_index]), MonitoredTrainingSession too',
    ),
)
