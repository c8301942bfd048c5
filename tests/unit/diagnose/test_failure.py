"""Why a job failed, from texts of real clusters (docs/hadoop-facts.md#docker-errors,
docs/hadoop-facts.md#errors-of-a-task; the rest from sandboxes).
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job import operations
from submit_tf_job.container import contract
from submit_tf_job.diagnose import evidence
from submit_tf_job.diagnose.cause import Cause, Consequence
from submit_tf_job.diagnose.container_patterns import CONTAINER, MASTER, NEVER_GRANTED
from submit_tf_job.diagnose.evidence import by_container, by_program
from submit_tf_job.diagnose.failure import (
    Clues,
    Suspect,
    conclude,
    first_of,
    needs_am,
    suspect_of,
    suspects,
)
from submit_tf_job.diagnose.patterns import PROGRAM, STILL_RUNS
from submit_tf_job.diagnose.statuses import EXECUTOR, LOST, YARN, meaning_of, of_executor
from submit_tf_job.diagnose.tracebacks import python_error
from submit_tf_job.observation import Evidence, JobReport, JobStatus
from submit_tf_job.report.cause_text import root_cause_lines, root_cause_object
from submit_tf_job.settings import load_settings
from submit_tf_job.yarn.amlog import ContainerEnd, container_ends, deciding_role, last_error
from submit_tf_job.yarn.nodemanager import NodeManagers
from submit_tf_job.yarn.observed import AppReport, ObservedService
from submit_tf_job.yarn.records import dumps
from tests.fakes.resource_manager import FakeCluster
from tests.fakes.services import service_of
from tests.fakes.transport import Fault

ROOT = Path(__file__).parents[3]
C2, C3 = "container_1795273005846_0008_01_000002", "container_1795273005846_0008_01_000003"

# The log of a services AM of Hadoop 3.4.2, shortened.
PMEM = f"""\
2026-11-21 14:57:14,466 [Component  dispatcher] INFO  component.Component - [COMPONENT worker]: Assigned {C3} to component instance worker-0 \
and launch on host node7.example.com:10871{" "}
2026-11-21 14:57:20,258 [Component  dispatcher] INFO  instance.ComponentInstance - [COMPINSTANCE worker-0 : {C3}] failed without retry, \
exitStatus=ContainerStatus: [ContainerId: {C3}, ExecutionType: GUARANTEED, State: COMPLETE, Capability: <memory:256, vCores:1>, \
Diagnostics: [2026-11-21 14:57:19.576]Container [pid=8623,containerID={C3}] is running 287830016B beyond the 'PHYSICAL' memory limit. \
Current usage: 530.5 MB of 256 MB physical memory used; 710.7 MB of 537.6 MB virtual memory used. Killing container.
Dump of the process-tree for {C3} :
\t|- PID PPID PGRPID SESSID CMD_NAME USER_MODE_TIME(MILLIS) SYSTEM_TIME(MILLIS) VMEM_USAGE(BYTES) RSSMEM_USAGE(PAGES) FULL_CMD_LINE
\t|- 8623 8621 8623 8623 (python3) 9 3 100970496 4950 python3 bootstrap.py{" "}

[2026-11-21 14:57:19.681]Container killed on request. Exit code is 143
[2026-11-21 14:57:19.683]Container exited with a non-zero exit code 143.{" "}
, ExitStatus: -104, IP: [127.0.0.1], Host: vm, ExposedPorts: , ContainerSubState: DONE]
2026-11-21 14:57:20,258 [Component  dispatcher] INFO  instance.ComponentInstance - [COMPINSTANCE worker-0 : {C3}] Transitioned from READY to INIT \
on STOP event
"""
TOLD_TO_END = f"""\
2026-11-21 14:57:25,275 [Component  dispatcher] INFO  instance.ComponentInstance - [COMPINSTANCE chief-0 : {C2}] failed without retry, \
exitStatus=ContainerStatus: [ContainerId: {C2}, ExecutionType: GUARANTEED, State: COMPLETE, Capability: <memory:256, vCores:1>, \
Diagnostics: [2026-11-21 14:57:24.713]Exception from container-launch.
Container id: {C2}
Exit code: 93
Exception message: bash: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8)

[2026-11-21 14:57:24.717]Container exited with a non-zero exit code 93. Error file: prelaunch.err.
Last 4096 bytes of stderr.txt :
[submit_tf_job] worker-0 is here, on localhost

, ExitStatus: 93, IP: [127.0.0.1], Host: vm, ExposedPorts: , ContainerSubState: DONE]
2026-11-21 14:57:25,275 [Component  dispatcher] INFO  service.ServiceScheduler - Dominate component chief finished, exiting Service Master... , \
final status=Failed
"""
NEVER_LAUNCHED = f"""\
2026-11-21 14:57:12,503 [pool-6-thread-1] ERROR containerlaunch.ContainerLaunchService - [COMPINSTANCE worker-0 : {C3}]: Failed to launch container.
org.apache.hadoop.security.AccessControlException: Permission denied: user=bob, access=WRITE, inode="/tmp/.yarn/services":alice:supergroup:drwxr-xr-x
\tat org.apache.hadoop.hdfs.server.namenode.FSPermissionChecker.check(FSPermissionChecker.java:661)
2026-11-21 14:57:12,512 [Component  dispatcher] INFO  instance.ComponentInstance - [COMPINSTANCE worker-0 : {C3}] failed without retry, exitStatus=null
"""
AGAIN = f"""\
2026-11-21 14:57:12,512 [Component  dispatcher] ERROR instance.ComponentInstance - [COMPINSTANCE worker-1 : {C3}]: {C3} completed. \
Reinsert back to pending list and requested a new container.
 exitStatus=7, diagnostics=[2026-11-21 14:57:12.001]Exception from container-launch.
Shell error output: Unable to find image 'local/nope:1' locally
2026-11-21 14:57:12,600 [main] INFO  anything.Else - not of it
"""


# --- the ApplicationMaster's log ------------------------------------------------------------------


def test_container_ends_of_an_am_log() -> None:
    worker, chief = container_ends(PMEM + TOLD_TO_END)
    assert (worker.task, worker.container_id, worker.status, worker.memory_mib) == (
        "worker-0",
        C3,
        -104,
        256,
    )
    assert worker.host == "node7.example.com"
    assert worker.diagnostics.startswith(f"Container [pid=8623,containerID={C3}] is running")
    assert worker.diagnostics.endswith("Container exited with a non-zero exit code 143.")
    assert (chief.task, chief.status, chief.host, chief.failed) == ("chief-0", 93, None, True)
    assert "setlocale" not in chief.diagnostics
    assert deciding_role(TOLD_TO_END) == "chief"
    assert deciding_role(PMEM) is None


def test_container_ends_of_a_container_that_was_never_launched() -> None:
    (end,) = container_ends(NEVER_LAUNCHED)
    assert (end.status, end.failed) == (None, True)
    assert end.diagnostics.startswith(
        "org.apache.hadoop.security.AccessControlException: Permission denied: user=bob"
    )
    found = by_container(end)
    assert found is not None
    assert (found.code, found.sentence) == (
        "hdfs-permission",
        "YARN could not launch worker-0: user bob has no WRITE access to "
        "/tmp/.yarn/services on HDFS",
    )


def test_container_ends_of_a_restarted_container() -> None:
    (end,) = container_ends(AGAIN)
    assert (end.task, end.status, end.again) == ("worker-1", 7, True)
    assert (
        end.diagnostics
        == "Exception from container-launch.\nShell error output: Unable to find image 'local/nope:1' locally"
    )


def test_container_ends_ignore_text_of_the_program() -> None:
    log = TOLD_TO_END.replace("worker-0 is here", ", ExitStatus: 0, IP: [127.0.0.1], Host: vm]")
    (end,) = container_ends(log)
    assert end.status == 93


def test_container_ends_of_a_cut_log() -> None:
    assert container_ends(PMEM[900:]) == ()
    assert container_ends("") == ()
    assert container_ends(PMEM[: PMEM.index(", ExitStatus")])[0].status is None


def test_last_error_of_an_am_log() -> None:
    assert last_error(NEVER_LAUNCHED).startswith(
        f"[COMPINSTANCE worker-0 : {C3}]: Failed to launch container.: org.apache.hadoop.security"
    )
    assert last_error(PMEM) == ""


# --- exit statuses --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (137, "SIGKILL: out of memory"),
        (143, "SIGTERM"),
        (139, "SIGSEGV"),
        (134, "SIGABRT"),
        (135, "SIGBUS"),
        (150, "ended by SIG"),
        (192, "ended by SIG"),
        (127, "not found"),
        (126, "could not be executed"),
        (1, "failed"),
        (2, "arguments"),
        (-100, "lost with its node"),
        (-102, "preempted"),
        (-104, "over its memory"),
        (-108, "make room"),
        (-1000, "never ran"),
        *(
            (status, words)
            for status, words in contract.EXIT_MEANING.items()
            if status != contract.EXIT_TERMINATED
        ),
    ],
)
def test_meaning_of_known_statuses(status: int, words: str) -> None:
    found = meaning_of(status)
    assert words in found, found


def test_meaning_of_a_programs_own_status() -> None:
    assert [meaning_of(status) for status in (None, 0, 3, 42, 255)] == [""] * 5


def test_of_executor_differs_from_meaning_of() -> None:
    assert meaning_of(7) == ""
    said = "Exit code: 7\nShell error output: docker: Error response from daemon"
    assert of_executor(7, said) == "`docker run` failed"
    assert of_executor(127, said) != meaning_of(127)
    assert of_executor(6, "Exception from container-launch.\nExit code: 6\n") == ""
    assert of_executor(-102, "") == YARN[-102]
    assert of_executor(None, "") == "the ApplicationMaster could not launch it"


# --- Python ---------------------------------------------------------------------------------------

CHAINED = """\
2026-11-21 15:28:37.543752: I tensorflow/core/util/port.cc:113] oneDNN custom operations are on.
Traceback (most recent call last):
  File "/app/train.py", line 7, in load
    open("x")
FileNotFoundError: [Errno 2] No such file or directory: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/app/train.py", line 12, in <module>
    main()
  File "/opt/env/lib/python3.11/site-packages/keras/engine.py", line 3, in fit
    raise ValueError("first line\\nsecond")
ValueError: first line
second
"""


def test_python_error_names_the_users_own_line() -> None:
    error = python_error(CHAINED)
    assert error is not None
    assert (error.name, error.last_line, error.place) == (
        "ValueError",
        "ValueError: first line",
        "train.py:12",
    )


def test_python_error_skips_ignored_exceptions_and_other_lines() -> None:
    noisy = CHAINED.replace(
        "ValueError: first line",
        "W0000 00:00 some C++ line\n2026-11-21 15:28: I tensorflow/x\nValueError: first line",
    )
    ignored = (
        "Exception ignored in: <function Pool.__del__>\nTraceback (most recent call last):\n  "
        'File "p.py", line 1, in f\nOSError: x\n'
    )
    error = python_error(noisy + ignored)
    assert error is not None
    assert error.last_line == "ValueError: first line"


@pytest.mark.parametrize(
    ("text", "last"),
    [
        (
            '  File "train.py", line 3\n    x =\n      ^\nSyntaxError: invalid syntax\n',
            "SyntaxError: invalid syntax",
        ),
        (
            'Traceback (most recent call last):\n  File "<string>", line 1, in '
            "<module>\nMemoryError\n",
            "MemoryError",
        ),
        (
            'Traceback (most recent call last):\n  File "a.py", line 1, in '
            "f\nsocket.gaierror: [Errno -2] Name\n",
            "socket.gaierror: [Errno -2] Name",
        ),
    ],
)
def test_python_error_without_traceback(text: str, last: str) -> None:
    error = python_error(text)
    assert error is not None
    assert error.last_line == last


def test_python_error_of_other_text() -> None:
    assert python_error("all is well\nTraceback (most recent call last):\n") is None
    assert python_error("") is None


# --- programs -------------------------------------------------------------------------------------

TF = "tensorflow.python.framework.errors_impl"
PROGRAMS = [
    # PyTorch 2.15 and JAX 0.10, without a GPU
    (
        "torch.distributed.DistStoreError: Timed out after 9 seconds waiting for clients. 1/2 "
        "clients joined.",
        "rendezvous-failed",
    ),
    (
        "torch.distributed.DistNetworkError: The client socket has timed out after 8000ms while "
        "trying to connect to (localhost, 29706).",
        "rendezvous-failed",
    ),
    (
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        "rendezvous-failed",
    ),
    (
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to "
        "the C10d store has failed. See inner exception for details.",
        "rendezvous-failed",
    ),
    (
        "F1123 02:54:06.339045   18366 client.h:80] Terminating process because the JAX "
        "distributed service detected fatal errors. absl::Status: DEADLINE_EXCEEDED: Deadline "
        "Exceeded\n\nRPC: /xla.coordination.CoordinationService/RegisterTask",
        "rendezvous-failed",
    ),
    (
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/work/train.py", line 4, in <module>\n'
        "[rank0]:     dist.all_reduce(total)\n"
        "[rank0]: RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/"
        "unbound_buffer.cc:78] Timed out waiting 12000ms for recv operation to complete",
        "peer-failed",
    ),
    (
        f"{TF}.InternalError: Collective ops is aborted by: Collective instance 1 expected type 1 "
        "and data_type 9 but got type 0 and data_type 1",
        "steps-differ",
    ),
    (
        "[rank1]: torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection "
        "was likely closed. Did the remote server shutdown or crash?",
        "peer-failed",
    ),
    ("RuntimeError: nccl2 requires at least one CUDA device", "gpu-missing"),
    (
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an "
        "NVIDIA GPU",
        "gpu-missing",
    ),
    # words of libc10_cuda.so and libtorch_cuda.so of PyTorch 2.15
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
        "gpu-out-of-memory",
    ),
    ("torch.distributed.DistBackendError: NCCL error in: /pytorch/x.cpp:1", "nccl-failed"),
    (
        f"{TF}.ResourceExhaustedError: OOM when allocating tensor with shape[64,112] on "
        f"/job:localhost/device:GPU:0 by allocator GPU_0_bfc",
        "gpu-out-of-memory",
    ),
    (
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 7.28 TiB for an "
        "array with shape (1000000000000,)",
        "out-of-memory",
    ),
    ("terminate called after throwing an instance of 'std::bad_alloc'", "out-of-memory"),
    ("OSError: [Errno 28] No space left on device", "disk-full"),
    (
        "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException: The DiskSpace quota of "
        "/user/a is exceeded",
        "hdfs-quota",
    ),
    (
        "org.apache.hadoop.hdfs.server.namenode.SafeModeException: Cannot create file /x. "
        "Name node is in safe mode.",
        "hdfs-safe-mode",
    ),
    (
        'RuntimeError: RPCError("…AccessControlException", "Permission denied: '
        'user=alice, access=WRITE, inode=\\"/\\":root',
        "hdfs-permission",
    ),
    ("FileNotFoundError: File does not exist: /data/nothing.npz", "hdfs-path-missing"),
    (f"{TF}.NotFoundError: Could not find directory hdfs:///data", "hdfs-path-missing"),
    (
        f"{TF}.UnimplementedError: File system scheme 'hdfs' not implemented (file: 'hdfs://nn/x')",
        "hdfs-unsupported",
    ),
    (
        "HadoopFileSystem load error: Library (libhdfs.so) not found: libhdfs.so: cannot open "
        f"shared object file\n{TF}.NotFoundError: Could not find directory hdfs:///data",
        "hdfs-unsupported",
    ),
    ("javax.security.sasl.SaslException: GSS initiate failed", "hdfs-credentials"),
    (
        "org.apache.hadoop.security.AccessControlException: Client cannot authenticate "
        "via:[TOKEN, KERBEROS]",
        "hdfs-credentials",
    ),
    (
        'RuntimeError: GSSAPIError(GssMajorCodes { raw: "0x00070000", calling_error: '
        '"none", routine_error: "GSS_S_NO_CRED", '
        'supplementary_info: "0x0000" }, 2529639053, "No credentials were supplied, or '
        "the credentials were unavailable or "
        'inaccessible: No Kerberos credentials available (default cache: FILE:/tmp/krb5cc_0)")',
        "hdfs-credentials",
    ),
    (
        "RuntimeError: "
        'FatalRPCError("org.apache.hadoop.security.token.SecretManager$InvalidToken", '
        '"Token  has expired, current time: '
        '2026-11-21 17:36:16,122+0000 expected renewal time: 2026-11-21 17:36:10,868+0000")',
        "hdfs-token-over",
    ),
    (
        "RuntimeError: "
        'FatalRPCError("org.apache.hadoop.security.token.SecretManager$InvalidToken", '
        '"Token for real user: , '
        "can't be found in cache\")",
        "hdfs-token-over",
    ),
    (
        "org.apache.hadoop.ipc.RemoteException(org.apache.hadoop.security.token.SecretManager$InvalidToken): "
        ""
        ""
        "token (token for alice: "
        "HDFS_DELEGATION_TOKEN owner=alice, renewer=rm, realUser=, issueDate=1, "
        "maxDate=2, sequenceNumber=3, masterKeyId=4) is expired",
        "hdfs-token-over",
    ),
    ("java.lang.IllegalArgumentException: Can't get Kerberos realm", "kerberos-realm"),
    ("Cannot contact any KDC for realm 'SANDBOX.TEST'", "kerberos-login"),
    (
        f"{TF}.UnavailableError: Collective ops is aborted by: failed to connect "
        f"/job:worker/replica:0/task:1",
        "peer-failed",
    ),
    (
        f"{TF}.UnavailableError: DNS resolution failed for worker-1.mnist.alice.example.com:24001",
        "name-not-found",
    ),
    (f"{TF}.UnknownError: Could not start gRPC server", "port-in-use"),
    ("ValueError: The `task_id` 3 exceeds the maximum id of chief.", "tf-config-invalid"),
    (
        f"{TF}.InternalError: cudaGetDevice() failed. Status: CUDA driver version is "
        f"insufficient for CUDA runtime version",
        "cuda-mismatch",
    ),
    (
        f"{TF}.InvalidArgumentError: Could not satisfy device specification "
        f"'/job:localhost/device:GPU:0'",
        "gpu-missing",
    ),
    (
        "tensorflow.python.training.basic_session_run_hooks.NanLossDuringTrainingError: "
        "NaN loss during training.",
        "loss-not-finite",
    ),
    ("ValueError: Attempt to convert a value (PerReplica:{", "keras-3"),
    ("ModuleNotFoundError: No module named 'tensorflow'", "tensorflow-missing"),
    ("ModuleNotFoundError: No module named 'pandas.core'", "module-missing"),
    (
        "ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
        "library-missing",
    ),
    (
        "python3: can't open file '/x/container_1_0001_01_000002/train.py': [Errno 2] No "
        "such file or directory",
        "program-missing",
    ),
    ("OSError: [Errno 30] Read-only file system: '/data/out'", "read-only"),
    ("PermissionError: [Errno 13] Permission denied: '/data/private'", "permission-denied"),
    ("FileNotFoundError: [Errno 2] No such file or directory: '/data/part-7'", "file-missing"),
    ("bash: line 1: /usr/bin/python3: Argument list too long", "arguments-too-long"),
    ("OSError: [Errno 8] Exec format error: './run'", "wrong-architecture"),
    (
        "The TensorFlow library was compiled to use AVX instructions, but these aren't "
        "available on your machine.",
        "cpu-too-old",
    ),
]


TORCHRUN = f"""\
Traceback (most recent call last):
  File "/work/train.py", line 1, in <module>
    raise ValueError("bad labels in shard 7")
ValueError: bad labels in shard 7
E1123 02:54:34.900000 18362 torch/distributed/elastic/multiprocessing/api.py:1002] failed
Traceback (most recent call last):
  File "/opt/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 386, in run
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:{" "}
============================================================
train.py FAILED
"""


def test_python_error_below_torchrun_is_that_of_the_program() -> None:
    error = python_error(TORCHRUN)
    assert error is not None
    assert (error.last_line, error.place) == ("ValueError: bad labels in shard 7", "train.py:1")
    alone = python_error(TORCHRUN[TORCHRUN.index("E1123") :])
    assert alone is not None
    assert alone.name == "ChildFailedError"


# PyTorch writes the rank before each line once the process group exists
RANKED = "".join(f"[rank0]: {line}\n" for line in TORCHRUN[: TORCHRUN.index("E1123")].splitlines())


@pytest.mark.parametrize("end", ["", TORCHRUN[TORCHRUN.index("E1123") :]], ids=["bare", "torchrun"])
def test_python_error_after_the_process_group_exists(end: str) -> None:
    error = python_error(RANKED + end)
    assert error is not None
    assert (error.last_line, error.place) == ("ValueError: bad labels in shard 7", "train.py:1")
    cause, _ = by_program("worker-1", 1, RANKED + end)
    assert cause is not None
    assert cause.sentence.endswith("ValueError: bad labels in shard 7")


@pytest.mark.parametrize(
    ("exitcode", "code", "words"),
    [
        ("-9 (pid: 14624)  (SIGKILL)", "killed", "SIGKILL"),
        ("-11 (pid: 14624)  (SIGSEGV)", "crashed", "SIGSEGV"),
        ("3 (pid: 14624) ", "exited", "exit status 3"),
    ],
)
def test_by_program_of_a_process_that_ended_below_torchrun_without_an_exception(
    exitcode: str, code: str, words: str
) -> None:
    said = (
        TORCHRUN[TORCHRUN.index("E1123") :]
        + "Failures:\n  <NO_OTHER_FAILURES>\n"
        + "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-23_08:26:33\n"
        + f"  host      : localhost\n  rank      : 1 (local_rank: 0)\n  exitcode  : {exitcode}\n"
    )
    cause, error = by_program("worker-1", 1, said, 1024)
    assert cause is not None
    assert cause.code == code
    assert words in cause.sentence
    assert error is None, "torchrun's own exception is not the program's"


@pytest.mark.parametrize(
    ("line", "code"), PROGRAMS, ids=[f"{code}-{n}" for n, (_, code) in enumerate(PROGRAMS)]
)
def test_by_program_of_known_texts(line: str, code: str) -> None:
    found, _ = by_program("worker-1", 1, f"epoch 3\n{line}\n")
    assert found is not None
    assert found.code == code
    assert "worker-1" in found.sentence
    assert not re.search(r"[{}]|  ", found.sentence + found.hint.replace("{conf: inline}", "")), (
        found
    )


def test_conclude_says_what_a_task_waited_for_that_had_not_finished() -> None:
    # seen with TensorFlow 1's between-graph replication, when worker-0 ended first
    waits = (
        "2026-11-24 18:38:02.115: I tensorflow/core/distributed_runtime/master.cc:267] CreateSession "
        "still waiting for response from worker: /job:worker/replica:0/task:0\n"
    )
    late = "not finished 600 s after worker-0 was done: worker-2"
    told = Suspect("worker-2", C3, "node1", None, "not-finished", late)
    seen = JobStatus("imagenet", "application_1_1", None)
    cause = conclude(Clues(seen, told, stderr=waits * 20))
    assert cause is not None
    assert cause.code == "session-waits"
    assert cause.sentence.startswith("TensorFlow's session in worker-2 waited for worker-0")
    assert late in cause.sentence
    assert "device_filters" in cause.hint
    other = conclude(Clues(seen, told, stderr="epoch 3\n"))
    assert other is not None
    assert (other.code, other.sentence) == ("not-finished", late)


def test_by_program_puts_a_missing_command_before_the_file_that_it_was_to_bring() -> None:
    said = (
        "bash: line 1: curl: command not found\n"
        "python3: can't open file '/x/container_1_0001_01_000002/imagenet.py': [Errno 2] No such "
        "file or directory\n"
    )
    cause, _ = by_program("ps-1", 2, said)
    assert cause is not None
    assert (cause.code, cause.facts["code"]) == ("command-not-found", "program-missing")
    assert cause.sentence == (
        "ps-1 did not find the command curl, and after that did not find its program imagenet.py"
    )


def test_by_program_ignores_warnings_of_tensorflow() -> None:
    warnings = (
        "W tensorflow/compiler/xla: Could not load dynamic library 'libcudart.so.11.0'; "
        "dlerror: libcudart.so.11.0: cannot open shared object file\n"
    )
    found, _ = by_program(
        "worker-0", 1, warnings + "step\n" * 40 + CHAINED[CHAINED.rindex("Traceback") :]
    )
    assert found is not None
    assert found.code == "python-exception"


def test_by_program_ignores_the_quoted_command() -> None:
    said = (
        "[submit_tf_job] starting: grep 'No space left on device'\nsubmit_tf_job-outcome "
        '{"message":"MemoryError"}\n'
    )
    assert by_program("worker-0", 1, said) == (None, None)


def test_by_program_of_an_endless_line_is_fast() -> None:
    by_program("worker-0", 1, "Call From " * 6000 + "UnknownHostException" * 1000)


# --- containers that never ran their command ------------------------------------------------------

CONTAINERS = [
    (
        7,
        "Unable to find image 'local/nope:1' locally\ndocker: Error response from daemon: "
        'Get "https://r/v2/": no such host',
        "image-not-pulled",
    ),
    (
        7,
        "docker: Error response from daemon: pull access denied for private/tf, "
        "repository does not exist",
        "image-not-pulled",
    ),
    (
        7,
        'docker: Error response from daemon: OCI runtime create failed: exec: "bash": '
        "executable file not found in $PATH: unknown.",
        "image-without-bash",
    ),
    (-1, "Image name 'Local/Base:1' doesn't match docker image name pattern", "image-name-invalid"),
    (
        127,
        "image: other/base:1 is not trusted.\nDisable mount volume for untrusted image",
        "image-not-trusted",
    ),
    (
        29,
        "Configuration does not allow mount src='/etc/shadow', dest='/x'\ndocker error "
        "code=50, error message='Invalid read-only mount'",
        "mount-refused",
    ),
    (
        29,
        "Could not determine real path of mount '/data/nope'\ndocker error code=49, error "
        "message='Invalid mount'",
        "mount-missing",
    ),
    (
        29,
        "Could not determine real path of mount '/site/gone'\nUnable to find permitted "
        "docker mounts on disk\n"
        "Error constructing docker command, docker error code=52, error message='Mount "
        "access error'",
        "allowed-mount-missing",
    ),
    (
        29,
        "Could not determine real path of mount '/data/nope'\nInvalid docker mount "
        "'/data/nope:/x:ro', realpath=/data/nope\n"
        "Error constructing docker command, docker error code=49, error message='Invalid mount'",
        "mount-missing",
    ),
    (-1, "Unable to parse user supplied mount list: abc", "mount-invalid"),
    (
        -1,
        "Disallowed network:  'foo' specified. Allowed networks: are [host, sbx, none, bridge]",
        "network-refused",
    ),
    (
        -1,
        "Privileged container being requested but privileged containers are not enabled "
        "on this cluster",
        "privileged-refused",
    ),
    (
        -1,
        "Disallowed runtime:  'nvidia' specified. Allowed runtimes: are [runc]",
        "runtime-refused",
    ),
    (
        29,
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the "
        "docker daemon running?",
        "docker-unreachable",
    ),
    (
        -1000,
        "java.io.IOException: ContainerExecutionException: Requested runtime not allowed.",
        "runtime-refused",
    ),
    (
        -1,
        "Hostname can not be greater than 64 characters: c-0.service.alice.example.com",
        "host-name-too-long",
    ),
    (-1, "ResourceHandlerChain.preStart() failed!", "gpu-not-prepared"),
    (
        -1000,
        "Application application_1_1 initialization failed (exitCode=255) with output: "
        "main : User alice not found",
        "user-missing",
    ),
    (127, "/bin/bash: line 1: /opt/none/python3: No such file or directory", "python-missing"),
    (1, "launch_container.sh: line 50: /bin/bash: Argument list too long", "arguments-too-long"),
    (127, "launch_container.sh: line 49: find: command not found", "image-without-tools"),
    (127, "launch_container.sh: line 12: start-training: command not found", "command-not-found"),
    (36, "something new", "container-failed"),
]


@pytest.mark.parametrize(
    ("status", "said", "code"),
    CONTAINERS,
    ids=[f"{code}-{n}" for n, (_, _, code) in enumerate(CONTAINERS)],
)
def test_by_container_of_known_diagnostics(status: int, said: str, code: str) -> None:
    words = f"Exception from container-launch.\nExit code: {status}\nShell error output: {said}\n"
    found = by_container(ContainerEnd("worker-1", C3, status, words))
    assert found is not None
    assert found.code == code
    assert "{" not in found.sentence


def test_by_container_names_the_path_that_the_node_itself_allows() -> None:
    said = (
        "Could not determine real path of mount '/site/gone'\nUnable to find permitted docker "
        "mounts on disk"
    )
    found = by_container(ContainerEnd("worker-1", C3, 29, said))
    assert found is not None
    assert found.sentence == (
        "container-executor.cfg on the node of worker-1 allows mounts of a path that does "
        "not exist there: /site/gone"
    )
    assert "docker.allowed.ro-mounts" in found.hint


def test_conclude_reports_a_lost_exit_status_as_lost() -> None:
    """For YARN 154 is ContainerExecutor.ExitCode.LOST, for a program 128 + SIGVTALRM."""
    lost = PMEM.replace("ExitStatus: -104", f"ExitStatus: {LOST}")
    assert lost != PMEM
    cause = weigh(observed(failure("worker-0", None, "lost")), lost)
    assert cause is not None
    assert (cause.code, cause.task) == ("exit-status-lost", "worker-0")
    assert "SIG" not in cause.sentence + cause.meaning
    unreported = weigh(observed(evidence=Evidence.MISSING), lost)
    assert unreported is not None
    assert (unreported.code, unreported.status) == ("exit-status-lost", LOST)
    assert unreported.meaning == "the NodeManager was restarted and lost the exit status"
    own = weigh(observed(failure("worker-0", LOST, "killed", "worker-0 was killed by SIGVTALRM")))
    assert own is not None
    assert own.sentence == "worker-0 was ended by SIGVTALRM"


def test_why_failed_names_a_missing_task_that_cannot_reach_the_deciding_one() -> None:
    first = failure(
        "chief-0", None, "peers-missing", "not every task arrived: worker-0", container=C2
    )
    job = Failed(first)
    job.seen = observed(first, app={"id": job.app.id}, missing=["worker-1", "worker-0"])
    said = (
        "[submit_tf_job] so far: chief-0.mnist.alice.x (172.17.0.2) does not answer at port 20011\n"
    )
    assigned = PMEM.partition("\n")[0] + "\n"
    job.fake.node.logs = {
        (AM, "serviceam.log"): assigned.replace("node7.example.com", "node1").encode(),
        (C3, "stderr.txt"): said.encode(),
    }
    cause = job.why()
    assert cause is not None
    assert cause.code == "tasks-unreachable"
    assert (
        cause.sentence
        == "worker-0 started and cannot reach the deciding task: 172.17.0.2 does not answer "
        "at port 20011"
    )
    assert "iptables -S FORWARD" in cause.hint
    job.fake.node.logs[C3, "stderr.txt"] = (
        b"[submit_tf_job] so far: the name chief-0.x does not resolve\n"
    )
    cause = job.why()
    assert cause is not None
    assert cause.code == "tasks-missing"


def test_by_container_without_diagnostics_names_the_allowed_runtimes() -> None:
    silent = by_container(ContainerEnd("worker-1", C3, -1000, ""))
    assert silent is not None
    assert (silent.code, "allowed-runtimes" in silent.hint) == ("container-failed", True)
    told = by_container(ContainerEnd("worker-1", C3, -1000, "something new"))
    assert told is not None
    assert told.hint == ""


NO_PANDAS = ("ModuleNotFoundError: No module named 'pandas'",)


def test_conclude_puts_an_image_that_the_node_ignored_first() -> None:
    seen = observed(failure("worker-0", 1, lines=NO_PANDAS), image_ignored=["chief-0", "worker-0"])
    cause = weigh(seen)
    assert cause is not None
    assert (cause.code, cause.facts["code"]) == ("image-ignored", "module-missing")
    assert cause.sentence == (
        "worker-0 did not run in its image but as a plain process of its node, and so: "
        "worker-0 could not import the module pandas"
    )
    assert "allowed-runtimes" in cause.hint
    known = suspects(seen)
    in_sandbox = conclude(Clues(seen, known[0], sandbox=True))
    assert in_sandbox is not None
    assert in_sandbox.code == "module-missing"
    assert "this sandbox has no Docker, and the image is not used" in in_sandbox.hint
    no_file = ("FileNotFoundError: [Errno 2] No such file or directory: '/data/part-7'",)
    seen = observed(failure("worker-0", 1, lines=no_file), image_ignored=["worker-0"])
    own_file = conclude(Clues(seen, suspects(seen)[0], sandbox=True))
    assert own_file is not None
    assert "sandbox" not in own_file.hint, "no image would have that file"
    elsewhere = weigh(
        observed(failure("worker-1", 1, lines=NO_PANDAS), image_ignored=["chief-0", "worker-0"])
    )
    assert elsewhere is not None
    assert elsewhere.code == "module-missing", "another node has Docker"
    memory = weigh(
        observed(failure("worker-0", 1, lines=("MemoryError",)), image_ignored=["worker-0"])
    )
    assert memory is not None
    assert memory.code == "out-of-memory", "no image would have helped"


@pytest.mark.parametrize(("operation", "code"), [(1, "image-ignored"), (4, "python-missing")])
def test_conclude_sees_a_plain_launch_where_no_bootstrap_ran(operation: int, code: str) -> None:
    said = (
        f"Exit code: 127\nShell output: \nmain : command provided {operation}\nmain : run as "
        f"user is nobody"
    )
    log = TOLD_TO_END.replace("ExitStatus: 93", "ExitStatus: 127").replace("Exit code: 93", said)
    log = log.replace(
        "[submit_tf_job] worker-0 is here, on localhost",
        "/bin/bash: line 1: python3: command not found",
    )
    cause = weigh(observed(evidence=Evidence.MISSING), log)
    assert cause is not None
    assert cause.code == code


GONE = (
    "docker: Cannot connect to the Docker daemon at unix:///run/docker.sock.\nCould not "
    "inspect docker to get exitcode of c"
)


def test_conclude_reports_a_docker_that_stopped_under_a_running_task() -> None:
    log = (
        TOLD_TO_END.replace("chief-0 :", "worker-0 :")
        .replace(C2, C3)
        .replace("Exit code: 93", f"Exit code: 255\n{GONE}")
    )
    log = log.replace("ExitStatus: 93", "ExitStatus: 255")
    for first in (
        failure("worker-0", 143, "killed", "worker-0 was stopped by SIGTERM"),
        failure("worker-0", None, "lost"),
    ):
        cause = weigh(observed(first), log)
        assert cause is not None
        assert (cause.code, cause.task) == ("docker-stopped", "worker-0")
    never_ran = weigh(observed(evidence=Evidence.MISSING), log.replace("[submit_tf_job]", "[]"))
    assert never_ran is not None
    assert never_ran.code == "docker-unreachable"


def test_conclude_names_the_tasks_of_a_node_that_were_stopped_together() -> None:
    stopped = [
        failure(
            f"worker-{n}", 143, "killed", f"worker-{n} was stopped by SIGTERM", container=f"c{n}"
        )
        for n in range(3)
    ]
    elsewhere = {**stopped[2], "host": "node2"}
    cause = weigh(observed(stopped[0], (stopped[1], elsewhere)))
    assert cause is not None
    assert (cause.code, cause.facts["ended_with_it"]) == ("stopped-from-outside", ["worker-1"])
    assert "worker-1 on node1 ended like it: was dockerd" in cause.hint
    log = (
        TOLD_TO_END.replace("chief-0 :", "worker-0 :")
        .replace(C2, "c0")
        .replace("ExitStatus: 93", "ExitStatus: 143")
    )
    log = log.replace("COMPINSTANCE worker-0 : c0]", f"COMPINSTANCE worker-0 : {C3}]")
    mine = {**stopped[0], "container": C3}
    not_yarn = weigh(observed(mine), log)
    assert not_yarn is not None
    assert not_yarn.sentence.startswith(
        "worker-0 was ended by SIGTERM, and YARN did not ask for it: Docker or the "
        "NodeManager on node1"
    )
    alone = weigh(observed(stopped[0], (elsewhere,)))
    assert alone is not None
    assert "dockerd restarted" in alone.hint


def test_by_container_of_an_unknown_status() -> None:
    assert by_container(ContainerEnd("worker-1", C3, 77, "")) is None
    assert set(EXECUTOR) & set(contract.EXIT_MEANING) <= {126, 127}


# --- conclusions ----------------------------------------------------------------------------------


def failure(
    task: str,
    status: int | None,
    reason: str = "exited",
    message: str = "",
    lines: tuple[str, ...] = (),
    **more: Any,
) -> dict[str, Any]:
    found = {
        "task": task,
        "status": status,
        "reason": reason,
        "message": message or f"{task} exited with status {status}",
    }
    return {**found, "host": "node1", "container": C3, "last_lines": list(lines), **more}


def observed(
    first: Mapping[str, Any] | None = None,
    later: tuple[Mapping[str, Any], ...] = (),
    *,
    evidence: Evidence = Evidence.READ,
    app: Mapping[str, Any] | None = None,
    **said: Any,
) -> JobStatus:
    record = {"id": "application_1_1", "state": "FINISHED", "finalStatus": "FAILED", **(app or {})}
    data = {
        "version": 1,
        "submission": "s",
        "state": "failed",
        "deciding": "chief-0",
        "container": C2,
        **said,
    }
    data |= {"first_failure": first, "later_failures": list(later)}
    report = JobReport.parse(json.dumps(data).encode()) if evidence is Evidence.READ else None
    service = {
        "components": [
            {"name": "worker", "resource": {"memory": "2048"}},
            {"name": "chief", "resource": {"memory": "1024"}},
        ]
    }
    return JobStatus(
        "mnist",
        "application_1_1",
        AppReport.from_json(record),
        ObservedService.from_json(service),
        report,
        evidence,
    )


def weigh(seen: JobStatus, log: str = "", stderr: str = "") -> Cause | None:
    """Return the conclusion from the clues, put together as operations/why.py does."""
    known, ends = suspects(seen), container_ends(log)
    suspect = known[0] if known else None
    if needs_am(suspect):
        suspect = first_of(suspect, suspect_of(ends, seen, deciding_role(log)), seen)
    return conclude(Clues(seen, suspect, known[1:], ends, stderr, last_error(log)))


def test_conclude_prefers_out_of_memory_to_sigterm() -> None:
    cause = weigh(
        observed(failure("worker-0", 143, "killed", "worker-0 was stopped by SIGTERM")),
        PMEM + TOLD_TO_END,
    )
    assert cause is not None
    assert (cause.code, cause.task, cause.status, cause.meaning) == (
        "out-of-memory",
        "worker-0",
        -104,
        YARN[-104],
    )
    assert (
        cause.sentence
        == "worker-0 used 530.5 MB of the 256 MB that its container may have, and the "
        "NodeManager killed it"
    )
    assert (
        cause.hint
        == "roles.worker.memory is 256Mi: try 768Mi, or make the batch or the model smaller"
    )
    assert cause.facts["asked_mib"] == 256
    assert "8621" not in cause.diagnostics, "no list of processes"


def test_conclude_names_the_memory_of_the_container() -> None:
    cause = weigh(
        observed(failure("worker-1", 1)),
        stderr='Traceback (most recent call last):\n  File "t.py", line 2, in f\nMemoryError\n',
    )
    assert cause is not None
    assert (cause.code, cause.hint) == (
        "out-of-memory",
        "roles.worker.memory is 2Gi: try 4Gi, or make the batch or the model smaller",
    )
    assert (cause.exception, cause.facts["place"]) == ("MemoryError", "t.py:2")


def test_conclude_prefers_another_tasks_failure_to_a_lost_peer() -> None:
    lost_peers = failure(
        "chief-0",
        1,
        lines=(
            f"{TF}.UnavailableError: Collective ops is aborted by: /job:worker/replica:0/task:1",
        ),
        container=C2,
    )
    own = failure(
        "worker-1",
        1,
        lines=(
            "Traceback (most recent call last):",
            '  File "train.py", line 9, in f',
            "KeyError: 'label'",
        ),
    )
    cause = weigh(observed(lost_peers, (own,)))
    assert cause is not None
    assert (cause.code, cause.task, cause.exception) == (
        "python-exception",
        "worker-1",
        "KeyError: 'label'",
    )
    assert cause.consequences == (
        Consequence(
            "chief-0",
            1,
            "lost the connection to another task: the failure is elsewhere; it names worker-1",
        ),
    )


def test_conclude_where_all_tasks_lost_their_peers() -> None:
    lost_peers = failure(
        "chief-0", 1, lines=(f"{TF}.UnavailableError: heartbeat timeout of /job:worker/task:3",)
    )
    cause = weigh(observed(lost_peers, (failure("worker-1", 143, "killed"),)))
    assert cause is not None
    assert (cause.code, cause.task) == ("peer-failed", "chief-0")
    assert "it names worker-3" in cause.sentence


@pytest.mark.parametrize(
    ("reason", "status", "code"),
    [
        ("port-in-use", 91, "port-in-use"),
        ("bootstrap-error", 90, "bootstrap-error"),
        ("wrong-job", 96, "wrong-job"),
        ("command-not-found", 127, "command-not-found"),
        ("not-executable", 126, "not-executable"),
        ("not-finished", None, "not-finished"),
        ("peers-missing", None, "tasks-missing"),
        ("names-vanished", None, "names-vanished"),
        ("lost", None, "task-lost"),
        ("killed", 143, "stopped-from-outside"),
        ("killed", 137, "killed"),
        ("exited", 3, "exited"),
    ],
)
def test_conclude_reports_the_bootstraps_reason(reason: str, status: int | None, code: str) -> None:
    cause = weigh(observed(failure("worker-1", status, reason, "so it was")))
    assert cause is not None
    assert (cause.code, cause.task, cause.status, cause.host) == (code, "worker-1", status, "node1")
    assert cause.hint or code == "exited"
    assert status != 137 or cause.sentence == f"worker-1 was {meaning_of(137)}"


def test_conclude_reports_names_that_yarn_removed() -> None:
    lines = ("socket.gaierror: [Errno -2] Name or service not known",)
    first = failure("worker-0", 1, lines=lines)
    plain = weigh(observed(first))
    seen = weigh(
        observed(
            first,
            warnings=[
                f"DNS does not know chief-0 any more, although they run: {contract.NAMES_VANISHED}"
            ],
        )
    )
    assert plain is not None
    assert seen is not None
    assert (plain.code, seen.code) == ("name-not-found", "names-vanished")
    assert contract.NAMES_VANISHED in seen.sentence
    assert "--replace" in seen.hint


def test_conclude_reports_the_failed_container_of_a_missing_task() -> None:
    seen = observed(
        failure("worker-1", None, "peers-missing", container="", host=""), missing=["worker-1"]
    )
    cause = weigh(seen, PMEM + AGAIN)
    assert cause is not None
    assert (cause.code, cause.task, cause.status) == ("image-not-pulled", "worker-1", 7)
    assert cause.meaning == "`docker run` failed"


def test_conclude_reports_a_request_that_is_never_granted() -> None:
    said = (
        "Invalid resource request! Cannot allocate containers as requested resource is "
        "greater than maximum allowed allocation. "
        "Requested resource type=[yarn.io/gpu], Requested resource=<memory:256, vCores:1, "
        "yarn.io/gpu: 3>, maximum allowed "
        "allocation=<memory:8192, vCores:8, yarn.io/gpu: 2>, please note"
    )
    cause = weigh(
        observed(
            failure("worker-0", None, "peers-missing"),
            missing=["worker-0"],
            app={"diagnostics": said},
        )
    )
    assert cause is not None
    assert (cause.code, cause.hint) == ("request-refused", "ask for less yarn.io/gpu")


def test_conclude_without_outcome_of_the_deciding_task() -> None:
    cause = weigh(observed(evidence=Evidence.MISSING), PMEM + TOLD_TO_END)
    assert cause is not None
    assert (cause.task, cause.code) == ("worker-0", "out-of-memory"), "told to end is never a cause"
    assert [end.task for end in cause.consequences] == ["chief-0"]


def test_conclude_where_yarn_stopped_the_job_before_the_report() -> None:
    seen = observed(
        state="stopped",
        outcome={"status": 143, "signal": 15},
        tasks=[{"task": "chief-0", "host": "node2"}],
    )
    cause = weigh(seen, TOLD_TO_END.replace("93", "-102"))
    assert cause is not None
    assert (cause.code, cause.task, cause.host, cause.status) == (
        "preempted",
        "chief-0",
        "node2",
        -102,
    )


def test_conclude_reports_a_failed_am() -> None:
    app = {
        "state": "FAILED",
        "diagnostics": "Application application_1_1 failed 2 times due to AM Container exited with "
        "exitCode: 1",
    }
    error = (
        "2026-11-21 14:57:12,503 [main] ERROR service.ServiceMaster - Error starting service "
        "master\norg.x.YarnException: cannot\n"
    )
    cause = weigh(observed(evidence=Evidence.MISSING, app=app), error)
    assert cause is not None
    assert (cause.code, cause.task) == ("application-master-failed", None)
    assert "Error starting service master: org.x.YarnException: cannot" in cause.sentence
    assert cause.sentence.startswith(
        "YARN's ApplicationMaster of the job failed 2 times, the last time with exit status 1 ("
    )
    assert (cause.status, cause.hint) == (1, "submit_tf_job logs mnist --am shows its log")


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (
            "Error starting service master\norg.apache.hadoop.service.ServiceStateException: "
            "org.apache.hadoop.security.AccessControlException: Permission denied: "
            "user=bob, access=EXECUTE, "
            'inode="/user/alice/.yarn":alice:supergroup:drwxr-x---',
            "kerberos-somebody-else",
            "the ApplicationMaster logged in as bob, who may not read /user/alice/.yarn: "
            "the principal of `kerberos` is not alice's",
        ),
        (
            "Error starting service master\norg.apache.hadoop.service.ServiceStateException: "
            "org.apache.hadoop.security.KerberosAuthException: failure to login: for "
            "principal: root/localhost@SANDBOX.TEST from keytab "
            "/nm/container_1795281862052_0014_04_000001/keytabs/jg.keytab "
            "javax.security.auth.login.LoginException: Checksum failed",
            "kerberos-login",
            "the ApplicationMaster could not log in as root/localhost@SANDBOX.TEST: "
            "Checksum failed",
        ),
    ],
)
def test_conclude_reports_the_failed_login_of_the_am(error: str, code: str, sentence: str) -> None:
    diagnostics = (
        "Application failed 4 times due to AM Container exited with  exitCode: 1\nFailing "
        "this attempt."
    )
    app = {"state": "FAILED", "finalStatus": "FAILED", "diagnostics": diagnostics}
    cause = weigh(
        observed(evidence=Evidence.MISSING, app=app),
        f"2026-11-21 17:36:53,688 [main] ERROR service.ServiceMaster - {error}\n",
    )
    assert cause is not None
    assert (cause.code, cause.sentence, cause.task) == (code, sentence, None)
    assert cause.hint


def test_conclude_reports_a_command_that_never_ran() -> None:
    cause = weigh(observed(evidence=Evidence.MISSING, app={"finalStatus": "SUCCEEDED"}))
    assert cause is not None
    assert cause.code == "command-never-ran"


def test_conclude_without_evidence() -> None:
    assert weigh(observed(evidence=Evidence.UNREADABLE)) is None
    assert weigh(observed(failure("worker-0", None, "a word of tomorrow"))) is None


def test_conclude_of_an_invalid_report() -> None:
    seen = observed(failure("worker-0", 1), ({"task": "x"}, 3, None), tasks={"no": "list"})  # type: ignore[arg-type]
    assert [suspect.task for suspect in suspects(seen)] == ["worker-0", "x"]
    assert weigh(seen) is not None


def test_needs_am_by_reason_and_status() -> None:
    asked = [
        needs_am(suspect)
        for suspect in (
            None,
            Suspect("w", status=None, reason="lost"),
            Suspect("w", status=137, reason="killed"),
        )
    ]
    assert asked == [True] * 3
    assert not needs_am(Suspect("w", status=1, reason="exited"))


# --- the documentation ----------------------------------------------------------------------------


def test_codes_of_failures_are_documented() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    section = page[page.index("\n## Why a job failed\n") :].partition("\n## A task failed")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
    documented = {
        code: row[-1].rstrip(" |") for row in rows for code in re.findall(r"`([a-z0-9-]+)`", row[0])
    }
    tables = (evidence._BY_YARN, evidence._BY_BOOTSTRAP, evidence._BY_STATUS)
    produced = {
        pattern.code for pattern in (*PROGRAM, *STILL_RUNS, *CONTAINER, *MASTER, *NEVER_GRANTED)
    } | {row[0] for table in tables for row in table.values()}
    source = "".join(
        (ROOT / "submit_tf_job" / "diagnose" / name).read_text("utf-8")
        for name in ("failure.py", "evidence.py")
    )
    produced |= set(re.findall(r'Cause\(\s*"([a-z-]+)"', source)) | {"exited"}
    assert produced == set(documented)
    assert {code: "yes" if Cause(code, "").retryable else "no" for code in produced} == documented


# --- what is shown --------------------------------------------------------------------------------


def test_root_cause_lines_and_object() -> None:
    cause = Cause(
        "module-missing",
        "worker-1 could not import the module pandas",
        "install it",
        task="worker-1",
        host="node1",
        container_id=C3,
        status=1,
        meaning="the program failed",
        exception="ModuleNotFoundError: No module named 'pandas'",
        last_lines=("Traceback", "ModuleNotFoundError"),
        diagnostics="not shown beside the program's own words",
        consequences=tuple(
            Consequence(f"worker-{n}", None if n else 1, "" if n else "lost its peer")
            for n in range(7)
        ),
        facts={"place": "train.py:3"},
    )
    assert list(root_cause_lines(cause)) == [
        "  first cause  worker-1 could not import the module pandas",
        "  hint: install it",
        "  failed task  worker-1 on node1, exit status 1 (the program failed)",
        "  exception    ModuleNotFoundError: No module named 'pandas'  (train.py:3)",
        "  last lines of worker-1's stderr:",
        "    Traceback",
        "    ModuleNotFoundError",
        "  Also stopped:",
        "    worker-0 (lost its peer, exit status 1)",
        *(f"    worker-{n}" for n in range(1, 5)),
        "    and 2 more",
    ]
    assert json.loads(json.dumps(root_cause_object(cause)))["consequences"][0] == {
        "task": "worker-0",
        "status": 1,
        "message": "lost its peer",
    }


def test_root_cause_lines_of_yarns_diagnostics() -> None:
    cause = Cause(
        "node-lost",
        "it was lost",
        diagnostics="Exception from container-launch.\nExit code: 1\nContainer released on a *lost* "
        "node",
    )
    assert list(root_cause_lines(cause)) == [
        "  first cause  it was lost",
        "  YARN reports:",
        "    Container released on a *lost* node",
    ]
    silent = Cause(
        "crashed",
        "it crashed",
        task="w-0",
        status=139,
        meaning="it crashed",
        diagnostics="Exit code: 139",
    )
    assert list(root_cause_lines(silent)) == [
        "  first cause  it crashed",
        "  failed task  w-0, exit status 139",
    ]
    assert root_cause_object(None) is None


# --- gathering ------------------------------------------------------------------------------------

AM = "container_1700000000000_0001_01_000001"
LOGS = "/ws/v1/node/containers"


class Failed:
    """A failed job on the fake cluster."""

    def __init__(self, *said: Mapping[str, Any]) -> None:
        self.fake = FakeCluster()
        client = self.fake.client()
        arguments = {"resource_managers": ["http://rm1:8088"], "user": "alice"}
        settings = load_settings(arguments=arguments, environ={"HOME": "/nowhere"}, cwd=Path("/"))
        self.api = operations.Cluster(
            settings, client, NodeManagers(client), self.fake.clock, self.fake.clock.sleep
        )
        client.post_service(dumps(service_of("mnist", "s1", "true")))
        self.fake.clock.sleep(5)
        [self.app] = self.fake.yarn.apps.values()
        self.fake.yarn.end(self.app, "FINISHED", "FAILED")
        self.seen = observed(
            said[0] if said else None,
            said[1:],
            app={"id": self.app.id},
            evidence=Evidence.READ if said else Evidence.MISSING,
        )
        self.fake.network.log.clear()

    def why(self, **options: Any) -> Cause | None:
        return operations.why_failed(self.api, self.seen, **options)

    @property
    def asked(self) -> list[str]:
        return [path for _, _, path in self.fake.network.log]


def test_why_failed_reads_stderr_alone_where_it_explains() -> None:
    job = Failed(failure("worker-0", 1))
    job.fake.node.logs[C3, "stderr.txt"] = (
        b"x" * 200_000 + b"\nModuleNotFoundError: No module named 'pandas'\n"
    )
    cause = job.why()
    assert cause is not None
    assert cause.code == "module-missing"
    assert job.asked[-1] == f"{LOGS}/{C3}/logs/stderr.txt"
    assert not any("appattempts" in path for path in job.asked)
    assert len(job.asked) <= 3


def test_why_failed_reads_the_am_log_for_a_killed_container() -> None:
    job = Failed(failure("worker-0", 143, "killed"))
    job.fake.node.logs[AM, "serviceam.log"] = (PMEM + TOLD_TO_END).encode()
    cause = job.why()
    assert cause is not None
    assert (cause.code, cause.status) == ("out-of-memory", -104)
    assert len(job.asked) <= 6


def test_why_failed_requests_do_not_grow_with_the_tasks() -> None:
    counts = []
    for size in (2, 2000):
        job = Failed(
            failure("worker-0", 143, "killed"),
            *(failure(f"worker-{n}", 93, "exited") for n in range(1, min(size, 21))),
        )
        log = "".join(
            TOLD_TO_END.replace("chief-0", f"worker-{n}").replace(C2, f"{C2[:-6]}{n + 9:06}")
            for n in range(size)
        )
        job.fake.node.logs[AM, "serviceam.log"] = (log + PMEM).encode()
        cause = job.why()
        assert cause is not None
        assert cause.code == "out-of-memory"
        counts.append(len(job.asked))
    assert counts[0] == counts[1]


def test_why_failed_names_what_a_false_success_hides() -> None:
    """With docker.inspect.max.retries=0 a container that cannot start is a success for YARN."""
    job = Failed()
    job.app.final_status = "SUCCEEDED"
    success = TOLD_TO_END.replace(
        "failed without retry, exitStatus=93", "succeeded without retry, exitStatus=0"
    )
    head = success.replace("ExitStatus: 93", "ExitStatus: 0").partition("Diagnostics: ")[0]
    assigned = (
        f"[COMPONENT chief]: Assigned {C2} to component instance chief-0 and launch on host "
        f"node1:1\n"
    )
    log = f"{assigned}{head}Diagnostics: , ExitStatus: 0, IP: [127.0.0.1], Host: vm]\n"
    job.fake.node.logs[AM, "serviceam.log"] = log.encode()
    seen = observed(app={"id": job.app.id, "finalStatus": "SUCCEEDED"}, evidence=Evidence.MISSING)
    assert seen.service is not None
    service = ObservedService.from_json(
        {"configuration": {"properties": {contract.PROPERTY_DECIDING: "chief-0"}}}
    )
    job.seen = replace(seen, service=service)
    for file, said, code in (
        ("stderr.txt", "/bin/bash: line 1: exec: python3: not found\n", "python-missing"),
        (
            "prelaunch.err",
            "launch_container.sh: line 49: find: command not found\n",
            "image-without-tools",
        ),
    ):
        job.fake.node.logs = {(AM, "serviceam.log"): log.encode(), (C2, file): said.encode()}
        cause = job.why()
        assert cause is not None
        assert (cause.code, cause.task, cause.facts["code"]) == (
            "exit-status-false",
            "chief-0",
            code,
        )
        assert "docker.inspect.max.retries" in cause.hint
    job.fake.node.logs = {(AM, "serviceam.log"): log.encode()}
    cause = job.why()
    assert cause is not None
    assert cause.code == "command-never-ran", "nothing shows what failed"


@pytest.mark.parametrize("path", ["appattempts", "/nodes", "logs"])
def test_why_failed_is_none_after_an_error(path: str) -> None:
    job = Failed()
    job.fake.network.faults += [Fault("refuse", path=path)] * 100
    assert job.why() is None


def test_why_failed_is_none_after_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "submit_tf_job.operations.why.tail_of", lambda *_arguments, **_options: 1 / 0
    )
    assert Failed(failure("worker-0", 1)).why() is None


def test_why_failed_gives_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    held = threading.Event()
    monkeypatch.setattr(
        "submit_tf_job.operations.why.tail_of", lambda *_arguments, **_options: held.wait(20)
    )
    assert Failed(failure("worker-0", 1)).why(limit_s=0.05) is None
    held.set()


def test_why_failed_sends_nothing_for_a_job_that_has_not_failed() -> None:
    job = Failed(failure("worker-0", 1))
    job.seen = observed(
        app={"id": job.app.id, "finalStatus": "SUCCEEDED"}, state="succeeded", outcome={"status": 0}
    )
    assert job.why() is None
    assert job.asked == []
