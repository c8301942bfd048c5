"""Why a job failed, told by `status`: from texts of real clusters (hadoop-facts.md#docker-errors,
hadoop-facts.md#errors-of-a-task; the rest from sandboxes).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from submit_tf_job.container import contract
from tests.builders.failed_job import (
    AGAIN,
    C2,
    C3,
    FAILURES,
    NEVER_LAUNCHED,
    PMEM,
    TF,
    TOLD_TO_END,
    Failing,
    ended,
    recorded,
)
from tests.cause_table import table
from tests.failures import cases as corpus
from tests.world import World
from tests.world.transport import remote_exception

ROOT = Path(__file__).parents[2]


@pytest.fixture
def job(world: World) -> Failing:
    return Failing(world)


def told(cause: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(cause[name] for name in names)


# --- what programs and NodeManagers wrote ---------------------------------------------------------


def test_programs_of_known_texts(job: Failing) -> None:
    wrong = {}
    for code, text in recorded("programs"):
        cause = job.why(job.first("worker-0", 1), stderr=f"epoch 3\n{text}\n")
        said = cause.get("sentence", "") + cause.get("hint", "").replace("{conf: inline}", "")
        if cause["code"] != code or "worker-0" not in said or re.search(r"[{}]|  ", said):
            wrong[text] = cause
    assert not wrong


def test_containers_of_known_diagnostics(job: Failing) -> None:
    wrong = {}
    for code, row in recorded("containers"):
        cause = job.why(am=ended(row["status"], row["said"]))
        if cause["code"] != code or "{" in cause["sentence"]:
            wrong[row["said"]] = cause
    assert not wrong


NOT_AGAIN = (
    "kinit: Preauthentication failed while getting initial credentials",
    "org.x.KerberosAuthException: failure to login: javax.x.LoginException: Checksum failed",
    'Exception in thread "main" java.lang.IllegalArgumentException: Wrong FS: hdfs://a/b, expected: '
    "file:///\n\tat org.apache.hadoop.fs.FileSystem.checkPath(FileSystem.java:1)",
    "kinit: Client 'alice@R' not found in Kerberos database while getting initial credentials",
    "kinit: Key table file '/k' not found while getting initial credentials",
    "org.x.KerberosAuthException: failure to login: javax.x.LoginException: Unable to obtain "
    "password from user",
    "urllib.error.URLError: <urlopen error [SSL: CERTIFICATE_VERIFY_FAILED] self-signed>",
    # of stores and servers
    "botocore.exceptions.ClientError: An error occurred (InvalidAccessKeyId) when calling X",
    "botocore.exceptions.ClientError: An error occurred (SignatureDoesNotMatch) when calling X",
    "x.AmazonS3Exception: Forbidden (Service: Amazon S3; Status Code: 403; Error Code: 403)",
    "OSError: When listing objects: AWS Error ACCESS_DENIED during ListObjectsV2 operation",
    "gcsfs.retry.HttpError: a@b does not have storage.objects.get access to the object., 403",
    "tensorflow.python.framework.errors_impl.PermissionDeniedError: HTTP response code 401 with x",
    "azure.core.exceptions.HttpResponseError: This request is not authorized to perform this "
    "operation using this permission.",
    "azure.core.exceptions.ClientAuthenticationError: Server failed to authenticate the request.",
    "minio.error.S3Error: S3 operation failed; code: AccessDenied, message: Access Denied.",
    'Traceback (most recent call last):\n  File "t.py", line 2, in <module>\n'
    "oss2.exceptions.AccessDenied: {'status': 403, 'details': {}}",
    "requests.exceptions.ProxyError: OSError('Tunnel connection failed: 407 Proxy Authentication')",
    "pyhive.exc.OperationalError: FAILED: HiveAccessControlException Permission denied: user [a]",
    "tensorflow.python.framework.errors_impl.FailedPreconditionError: AWS Credentials have not been "
    "set properly",
    "mlflow.exceptions.MlflowException: API request to endpoint /a failed with error code 403 != 200.",
    "google.api_core.exceptions.Forbidden: 403 GET x: a@b does not have storage.buckets.get access",
    "org.x.KerberosAuthException: Login failure for user:  from keytab null "
    "javax.x.LoginException: java.lang.IllegalArgumentException: Empty nameString not allowed",
    "wandb.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
    "wandb.errors.CommError: It appears that you do not have permission to access the requested "
    "resource. (Error 404: Not Found)",
    "java.io.IOException: Login failure for a@R from keytab /k: javax.x.LoginException: Checksum failed",
    'Exception in thread "main" java.lang.UnsatisfiedLinkError: org.x.Crc.sum(II)V\n'
    "\tat org.x.Crc.sum(Native Method)",
    'Exception in thread "main" java.lang.reflect.InaccessibleObjectException: Unable to make x '
    "accessible\n\tat java.base/java.lang.X.y(X.java:1)",
)
ONCE_MORE = (
    "kinit: Cannot contact any KDC for realm 'R' while getting initial credentials",
    "botocore.exceptions.ClientError: An error occurred (SlowDown) when calling X",
    "google.api_core.exceptions.Forbidden: 403 GET x: The user has exceeded the rate limit",
    "botocore.exceptions.ClientError: An error occurred (RequestTimeTooSkewed) when calling X",
)


def test_whether_a_retry_helps_is_told_by_the_words_too(job: Failing) -> None:
    """Codes of failures that are often temporary, and words of ones that are not."""
    for text in (*NOT_AGAIN, *ONCE_MORE):
        cause = job.why(job.first("worker-0", 1), stderr=text)
        assert told(cause, "retryable") == (text in ONCE_MORE,), cause


def test_actor_of_ray_whose_owner_ended_was_not_killed(job: Failing) -> None:
    text = (
        'Traceback (most recent call last):\n  File "t.py", line 2, in <module>\n'
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
        "\tclass_name: Train\n\tpid: 7\n\tip: 10.0.0.9\n"
        "The actor is dead because its owner has died. Owner Id: 01 Owner worker exit type: X\n"
    )
    cause = job.why(job.first("worker-0", 1), stderr=text)
    assert told(cause, "code", "retryable", "hint") == ("python-exception", True, "")
    assert "because its owner has died" in cause["sentence"]


def test_crash_of_java_is_not_told_as_memory(job: Failing) -> None:
    said = (
        "#\n# A fatal error has been detected:\n#\n#  SIGSEGV (0xb) at pc=0x7f, pid=3, tid=3\n#\n"
    )
    cause = job.why(job.first("worker-0", 134, "crashed"), stderr=said)
    assert "SIGSEGV" in cause["sentence"]
    assert "memory" not in cause["hint"]


# --- the corpus: programs that fail in the ways of the field ---------------------------------------

RIGHT = 0.97


def test_causes_of_the_corpus(job: Failing) -> None:
    scores: dict[str, list[list[str]]] = {}
    wrong, misleading = {}, []
    cases = corpus.cases()
    assert {(case.category, case.name) for case in cases} == {
        (category, name) for category, found in FAILURES.items() for name in found
    }, "make them: python -m tests.failures"
    for case in cases:
        ended = FAILURES[case.category][case.name]
        signaled = 128 < ended["status"] < 160
        first = job.first("worker-0", ended["status"], "killed" if signaled else "exited")
        outputs = {name: ended.get(name, "") for name in ("stderr", "stdout")}
        gpus = ["NVIDIA L4"] * int(case.fields.get("gpus", 0))
        cause = job.why(first, tasks=[{"task": "worker-0", "gpus": gpus}], **outputs)
        faults, misleads = corpus.judged(case, cause)
        scores.setdefault(case.category, []).append(faults)
        if faults:
            wrong[f"{case.category}/{case.name}"] = (faults, cause["sentence"])
        if misleads:
            misleading.append(case.name)
    assert not misleading, wrong
    assert len(wrong) <= (1 - RIGHT) * len(cases), wrong
    rows = [
        f"| {category.replace('_', ' ')} | {sum(not one for one in found)} of {len(found)} |"
        for category, found in scores.items()
    ]
    page = (ROOT / "docs/internals/diagnosis.md").read_text("utf-8")
    assert not [row for row in rows if row not in page], "\n".join([*rows, str(wrong)])


NOISE = (
    "UNAVAILABLE: failed to connect to all addresses; retrying",
    "WARNING:root:No space left on device is not expected",
    "step 17 loss 0.25",
    "\r 39%|###       | 39/100 [00:01<00:02, 30.1it/s]",
    "I1129 07:00:00.000001 77 state.cc:9] CUDA out of memory: 0 times so far",
    "{",
)
# what the first words of a longer sentence tell, if it is cut
ALMOST = {
    "steps-differ": "peer-failed",
    "command-not-found": "file-missing",
    "wrong-architecture": "not-executable",
    "not-executable": "permission-denied",
}
PLAIN = {"exited", "python-exception", "aborted", "crashed", "killed", "stopped-from-outside"}


def damaged(text: str, other: str, chance: Random) -> str:
    """Return an output that is cut, repeated, mixed with noise, or with another task's output."""
    lines = text.splitlines(keepends=True)
    match chance.randrange(5):
        case 0:
            return text[chance.randrange(len(text) + 1) :]
        case 1:
            return text[: chance.randrange(len(text) + 1)]
        case 2:
            return text + text
        case 3:
            for line in other.splitlines(keepends=True):
                lines.insert(chance.randrange(len(lines) + 1), line)
            return "".join(lines)
    for noise in NOISE:
        lines.insert(chance.randrange(len(lines) + 1), f"{noise}\n")
    return "".join(lines)


def codes_of(case: corpus.Case) -> set[str]:
    """Return the codes that a part of an output may give."""
    told = {*case.fields.get("code", "").split(), *case.fields.get("cut", "").split()}
    if case.category == "peers":
        told.add("peer-failed")  # where the words of the other process are cut off
    return told | {ALMOST.get(code, code) for code in told}


@pytest.mark.parametrize("seeds", [100, pytest.param(500, marks=pytest.mark.long)])
def test_damaged_outputs_give_no_cause_that_the_whole_does_not_give(
    job: Failing, seeds: int
) -> None:
    cases, wrong = corpus.cases(), {}
    for seed in range(seeds):
        chance = Random(seed)
        one, other = chance.choice(cases), chance.choice(cases)
        ends = [FAILURES[case.category][case.name] for case in (one, other)]
        texts = [end.get("stderr", "") or end.get("stdout", "") for end in ends]
        text = damaged(texts[0], texts[1], chance)
        status = ends[seed % 4 == 0]["status"]  # of another task for every fourth
        has_gpus = any("gpus" in case.fields for case in (one, other))
        tasks = [{"task": "worker-0", "gpus": ["NVIDIA L4"] * has_gpus}]
        cause = job.why(job.first("worker-0", status), stderr=text, tasks=tasks)
        expected = PLAIN | codes_of(one) | codes_of(other)
        if cause["certain"] and cause["code"] not in expected:
            wrong[seed, one.name, other.name] = (cause["code"], cause["sentence"])
    assert not wrong


MEANINGS = {137: "SIGKILL: out of memory", 143: "SIGTERM", 139: "SIGSEGV", 134: "SIGABRT"}
MEANINGS |= {135: "SIGBUS", 150: "ended by SIG", 127: "not found", 126: "could not be executed"}
MEANINGS |= {133: "SIGTRAP", 141: "SIGPIPE", 153: "SIGXFSZ", 2: "arguments", 3: ""}
OF_REASON = {126: "not-executable", 127: "command-not-found"}
OF_YARN = {-100: "lost with its node", -102: "preempted", -108: "make room", 77: ""}


def test_meaning_of_a_status(job: Failing) -> None:
    for status, words in MEANINGS.items():
        reason = OF_REASON.get(status, "killed" if status > 128 else "exited")
        cause = job.why(job.first("worker-0", status, reason))
        assert cause["status"] == status
        assert words in cause["meaning"] + cause["sentence"]
    for status, words in OF_YARN.items():
        cause = job.why(job.first("worker-0", None, "lost"), am=ended(status, ""))
        assert words in cause.get("meaning", "") + cause.get("sentence", ""), status


# --- programs -------------------------------------------------------------------------------------

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


def test_python_exception_at_the_users_own_line(job: Failing) -> None:
    noisy = CHAINED.replace(
        "ValueError: first line",
        "W0000 00:00 some C++ line\n2026-11-21 15:28: I tensorflow/x\nValueError: first line",
    )
    ignored = (
        "Exception ignored in: <function Pool.__del__>\nTraceback (most recent call last):\n"
        '  File "p.py", line 1, in f\nOSError: x\n'
    )
    for text in (CHAINED, noisy + ignored):
        cause = job.why(job.first("worker-0", 1), stderr=text)
        assert (cause["exception"], cause["facts"]["place"]) == (
            "FileNotFoundError: [Errno 2] No such file or directory: 'x'",
            "train.py:7",
        )


START = 'Traceback (most recent call last):\n  File "t.py", line 9, in <module>\n    step()\n'
RANKED = "".join(f"[rank0]: {line}\n" for line in TORCHRUN[: TORCHRUN.index("E1123")].splitlines())


@pytest.mark.parametrize(
    ("text", "exception"),
    [
        ('  File "train.py", line 3\n    x =\n      ^\nSyntaxError: invalid syntax\n',
         "SyntaxError: invalid syntax"),
        ('Traceback (most recent call last):\n  File "a.py", line 1, in f\nsocket.gaierror: [Errno'
         ' -2] Name\n', "socket.gaierror: [Errno -2] Name"),
        (TORCHRUN, "ValueError: bad labels in shard 7"),
        # PyTorch writes the rank before each line once the process group exists
        (RANKED, "ValueError: bad labels in shard 7"),
        (RANKED + TORCHRUN[TORCHRUN.index("E1123") :], "ValueError: bad labels in shard 7"),
        (f"epoch 1:  42%|####      | 42/100 [00:01<00:02, 29.5it/s]{RANKED}",
         "ValueError: bad labels in shard 7"),
        ('Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nDataLossError: '
         "2 root error(s) found.\n  (0) Data loss: truncated record at 1\n\t [[{{node Next}}]]\n",
         "DataLossError: Data loss: truncated record at 1"),
        # without a traceback, in a module for exceptions
        ("google.api_core.exceptions.NotFound: 404 GET x\n",
         "google.api_core.exceptions.NotFound: 404 GET x"),
    ],
)  # fmt: skip
def test_python_exception(job: Failing, text: str, exception: str) -> None:
    assert job.why(job.first("worker-0", 1), stderr=text)["exception"] == exception


def test_process_below_torchrun_that_ended_without_an_exception(job: Failing) -> None:
    said = (
        TORCHRUN[TORCHRUN.index("E1123") :]
        + "Failures:\n  <NO_OTHER_FAILURES>\n"
        + "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-23_08:26:33\n"
        + "  host      : localhost\n  rank      : 1 (local_rank: 0)\n  exitcode  : "
    )
    for exitcode, code, words in (
        ("-9 (pid: 14624)  (SIGKILL)", "killed", "SIGKILL"),
        ("-11 (pid: 14624)  (SIGSEGV)", "crashed", "SIGSEGV"),
        ("3 (pid: 14624) ", "exited", "exit status 3"),
    ):
        cause = job.why(job.first("worker-0", 1), stderr=f"{said}{exitcode}\n")
        assert (cause["code"], cause["exception"] or None) == (code, None)
        assert words in cause["sentence"]


def test_session_that_waited_for_a_task_that_had_not_finished(job: Failing) -> None:
    # seen with TensorFlow 1's between-graph replication, when worker-0 ended first
    waits = (
        "2026-11-24 18:38:02.115: I tensorflow/core/distributed_runtime/master.cc:267] CreateSession "
        "still waiting for response from worker: /job:worker/replica:0/task:1\n"
    )
    late = "not finished 600 s after worker-1 was done: worker-0"
    first = job.first("worker-0", None, "not-finished", message=late)
    cause = job.why(first, stderr=waits * 20)
    assert cause["code"] == "session-waits"
    assert cause["sentence"].startswith("TensorFlow's session in worker-0 waited for worker-1")
    assert late in cause["sentence"]
    assert "device_filters" in cause["hint"]
    assert told(job.why(first, stderr="epoch 3\n"), "code", "sentence") == ("not-finished", late)


def test_missing_command_comes_before_the_file_that_it_was_to_bring(job: Failing) -> None:
    said = (
        "bash: line 1: curl: command not found\npython3: can't open file "
        "'/x/container_1_0001_01_000002/imagenet.py': [Errno 2] No such file or directory\n"
    )
    cause = job.why(job.first("worker-0", 2), stderr=said)
    assert (cause["code"], cause["facts"]["code"]) == ("command-not-found", "program-missing")
    assert cause["sentence"] == (
        "worker-0 did not find the command curl, and after that did not find its program imagenet.py"
    )


def test_warnings_and_the_quoted_command_are_no_cause(job: Failing) -> None:
    warnings = (
        "W tensorflow/compiler/xla: Could not load dynamic library 'libcudart.so.11.0'; dlerror: "
        "libcudart.so.11.0: cannot open shared object file\n"
    )
    said = warnings + "step\n" * 40 + CHAINED[CHAINED.rindex("Traceback") :]
    assert job.why(job.first("worker-0", 1), stderr=said)["code"] == "python-exception"
    quoted = "[submit_tf_job] starting: grep 'No space left on device'\n"
    assert job.why(job.first("worker-0", 1), stderr=quoted)["code"] == "exited"
    endless = "Call From " * 6000 + "UnknownHostException" * 1000
    job.why(job.first("worker-0", 1), stderr=endless)


# --- containers -----------------------------------------------------------------------------------


def test_container_that_was_never_launched(job: Failing) -> None:
    cause = job.why(am=NEVER_LAUNCHED)
    assert told(cause, "code", "sentence") == (
        "hdfs-permission",
        "YARN could not launch worker-0: /tmp/.yarn/services belongs to alice, who ran the first "
        "service, and bob may not write there",
    )
    assert "hdfs dfs -chmod 1777 /tmp/.yarn/services" in cause["hint"]


def test_log_of_the_application_master_that_is_cut(job: Failing) -> None:
    assert job.why(am=PMEM[900:])["code"] is None
    assert job.why(am=PMEM[: PMEM.index(", ExitStatus")])["code"]
    forged = TOLD_TO_END.replace("worker-0 is here", ", ExitStatus: 0, IP: [127.0.0.1], Host: vm]")
    assert job.why(am=forged + PMEM)["code"] == "out-of-memory"


def test_cause_is_found_without_the_attempts_of_the_application_master(job: Failing) -> None:
    refused = remote_exception("AuthorizationException", "not for you", 403)
    job.world.fails(99, "GET", "/appattempts$", refused)
    cause = job.why(job.first("worker-0", None, "lost"))
    assert told(cause, "code", "task") == ("task-lost", "worker-0")


def test_path_that_the_node_itself_allows(job: Failing) -> None:
    cause = job.why(
        am=ended(29, "Could not determine real path of mount '/site/gone'\nUnable to find permitted "
                     "docker mounts on disk")
    )  # fmt: skip
    assert cause["sentence"] == (
        "container-executor.cfg on the node of worker-0 allows mounts of a path that does not "
        "exist there: /site/gone"
    )
    assert "docker.allowed.ro-mounts" in cause["hint"]


def test_container_without_diagnostics_names_the_allowed_runtimes(job: Failing) -> None:
    silent = job.why(am=ended(-1000, ""))
    assert (silent["code"], "allowed-runtimes" in silent["hint"]) == ("container-failed", True)
    assert job.why(am=ended(-1000, "something new"))["hint"] == ""


def test_lost_exit_status(job: Failing) -> None:
    """For YARN 154 is ContainerExecutor.ExitCode.LOST, for a program 128 + SIGVTALRM."""
    lost = PMEM.replace("ExitStatus: -104", "ExitStatus: 154")
    for cause in (job.why(job.first("worker-0", None, "lost"), am=lost), job.why(am=lost)):
        assert told(cause, "code", "task") == ("exit-status-lost", "worker-0")
        assert "SIG" not in cause["sentence"] + cause["meaning"]
    own = job.why(job.first("worker-0", 154, "killed", message="worker-0 was killed by SIGVTALRM"))
    assert own["sentence"] == "worker-0 was ended by SIGVTALRM"


def test_image_that_the_node_ignored_comes_first(job: Failing) -> None:
    def failed(task: str, line: str, ignored: list[str]) -> dict[str, Any]:
        return job.why(job.first(task, 1, last_lines=[line]), image_ignored=ignored)

    no_pandas = "ModuleNotFoundError: No module named 'pandas'"
    cause = failed("worker-0", no_pandas, ["chief-0", "worker-0"])
    assert (cause["code"], cause["facts"]["code"]) == ("image-ignored", "module-missing")
    assert cause["sentence"] == (
        "worker-0 did not run in its image but as a plain process of its node, and so: "
        "worker-0 could not import the module pandas"
    )
    assert "allowed-runtimes" in cause["hint"]
    elsewhere = failed("worker-1", no_pandas, ["chief-0", "worker-0"])
    assert elsewhere["code"] == "module-missing", "another node has Docker"
    memory = failed("worker-0", "MemoryError", ["worker-0"])
    assert memory["code"] == "out-of-memory", "no image would have helped"


@pytest.mark.parametrize(("operation", "code"), [(1, "image-ignored"), (4, "python-missing")])
def test_plain_launch_where_no_bootstrap_ran(job: Failing, operation: int, code: str) -> None:
    said = (
        f"Exit code: 127\nShell output: \nmain : command provided {operation}\n"
        "main : run as user is nobody"
    )
    log = TOLD_TO_END.replace("ExitStatus: 93", "ExitStatus: 127").replace("Exit code: 93", said)
    no_python = "/bin/bash: line 1: python3: command not found"
    log = log.replace("[submit_tf_job] worker-0 is here, on localhost", no_python)
    assert job.why(am=log)["code"] == code


GONE = (
    "docker: Cannot connect to the Docker daemon at unix:///run/docker.sock.\nCould not "
    "inspect docker to get exitcode of c"
)


def test_docker_that_stopped_under_a_running_task(job: Failing) -> None:
    log = (
        TOLD_TO_END.replace("chief-0 :", "worker-0 :")
        .replace(C2, C3)
        .replace("Exit code: 93", f"Exit code: 255\n{GONE}")
        .replace("ExitStatus: 93", "ExitStatus: 255")
    )
    for first in (
        job.first("worker-0", 143, "killed", message="worker-0 was stopped by SIGTERM"),
        job.first("worker-0", None, "lost"),
    ):
        assert told(job.why(first, am=log), "code", "task") == ("docker-stopped", "worker-0")
    assert job.why(am=log.replace("[submit_tf_job]", "[]"))["code"] == "docker-unreachable"


def test_tasks_of_a_node_that_were_stopped_together(job: Failing) -> None:
    stopped = [
        job.first(task, 143, "killed", message=f"{task} was stopped by SIGTERM")
        for task in ("worker-0", "worker-1", "chief-0")
    ]
    elsewhere = {**stopped[2], "host": "node2"}
    cause = job.why(stopped[0], stopped[1], elsewhere)
    assert (cause["code"], cause["facts"]["ended_with_it"]) == (
        "stopped-from-outside",
        ["worker-1"],
    )
    assert "worker-1 on node1 ended like it: was dockerd" in cause["hint"]
    log = TOLD_TO_END.replace("chief-0 :", "worker-0 :").replace(C2, C3)
    cause = job.why(stopped[0], am=log.replace("ExitStatus: 93", "ExitStatus: 143"))
    assert cause["sentence"].startswith(
        "worker-0 was ended by SIGTERM, and YARN did not ask for it: Docker or the NodeManager on node1"
    )
    assert "dockerd restarted" in job.why(stopped[0], elsewhere)["hint"]


# --- conclusions ----------------------------------------------------------------------------------


def test_out_of_memory_comes_before_sigterm(job: Failing) -> None:
    first = job.first("worker-0", 143, "killed", message="worker-0 was stopped by SIGTERM")
    cause = job.why(first, am=PMEM + TOLD_TO_END)
    assert told(cause, "code", "task", "status", "sentence") == (
        "out-of-memory",
        "worker-0",
        -104,
        "worker-0 used 530.5 MB of the 256 MB that its container may have, and the NodeManager "
        "killed it",
    )
    assert cause["hint"] == (
        "roles.worker.memory is 256Mi: try 768Mi, or make the batch or the model smaller"
    )
    assert cause["facts"]["asked_mib"] == 256
    assert "8621" not in cause["diagnostics"], "no list of processes"


def test_memory_of_the_container_is_named(job: Failing) -> None:
    said = 'Traceback (most recent call last):\n  File "t.py", line 2, in f\nMemoryError\n'
    cause = job.why(job.first("worker-0", 1), stderr=said)
    assert told(cause, "code", "hint", "exception") == (
        "out-of-memory",
        "ask for more roles.worker.memory, or make the batch or the model smaller",
        "MemoryError",
    )


def test_another_tasks_failure_comes_before_a_lost_peer(job: Failing) -> None:
    lost = f"{TF}.UnavailableError: Collective ops is aborted by: /job:worker/replica:0/task:1"
    label = [
        "Traceback (most recent call last):",
        '  File "t.py", line 9, in f',
        "KeyError: 'label'",
    ]
    chief = job.first("chief-0", 1, last_lines=[lost])
    cause = job.why(chief, job.first("worker-1", 1, last_lines=label))
    assert told(cause, "code", "task", "exception") == (
        "python-exception",
        "worker-1",
        "KeyError: 'label'",
    )
    words = "lost the connection to another task: the failure is elsewhere; it names worker-1"
    assert cause["consequences"] == [{"task": "chief-0", "status": 1, "message": words}]
    cause = job.why(chief, job.first("worker-1", 143, "killed"))
    assert told(cause, "code", "task") == ("peer-failed", "chief-0")
    assert "it names worker-1" in cause["sentence"]


XGBOOST = "xgboost.core.XGBoostError: [10:10:10] /workspace/src/collective/result.cc:78: \n"
LOST = {  # what a task writes that had lost another one, with the status of its end
    "xgboost": (
        1,
        f"{START}{XGBOOST}- [allreduce.cc:92|10:10:10]: Allreduce failed.\n- [comm.cc:55|10:10:10]: "
        "Failed to receive from rank 0. [errno:104]: Connection reset by peer\n",
    ),
    "lightgbm": (
        1,
        "[LightGBM] [Fatal] Socket recv error, Connection reset by peer (code: 104)\n"
        "Met Exceptions:\nSocket recv error, Connection reset by peer (code: 104)\n",
    ),
    "jax": (
        134,
        "F1121 15:00:07.101 812 client.h:80] Terminating process because the JAX distributed service "
        "detected fatal errors. absl::Status: UNAVAILABLE: failed to connect to all addresses; "
        "ipv4:10.0.0.4:1234: Failed to connect to remote host\n",
    ),
    "sentence": (1, "epoch 3\nSocket closed\n"),
    "horovod": (1, f"{START}horovod.common.exceptions.HorovodInternalError: stalled for 600 s\n"),
    "pipe": (1, f"{START}BrokenPipeError: [Errno 32] Broken pipe\n"),
    "tensorflow-1": (
        1,
        f"{START}AbortedError (see above for traceback): Horovod has been shut down. This was caused "
        "by an exception on one of the ranks.\n",
    ),
    "store": (
        1,
        f"{START}torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0\n",
    ),
    "barrier": (
        1,
        f"{START}RuntimeError: [Rank 0]: Ranks 1 failed to pass monitoredBarrier in 30000 ms\n",
    ),
    "nccl": (
        1,
        f"{START}torch.distributed.DistBackendError: NCCL error in: ../x.cpp:1970, unhandled system "
        "error, NCCL version 2.20.5\nncclSystemError: System call failed.\nLast error:\n"
        "socketStartConnect: Connect to 10.0.0.4<42639> failed : Connection refused\n",
    ),
}


@pytest.mark.parametrize("name", LOST)
def test_task_that_lost_another_one_is_not_the_cause(job: Failing, name: str) -> None:
    """The first to end had lost a peer, whose own words come with a later end."""
    status, text = LOST[name]
    reason = "killed" if status > 128 else "exited"
    label = [*START.splitlines(), "KeyError: 'label'"]
    first = job.first("worker-0", status, reason)
    for later in (
        [job.first("worker-1", 1, last_lines=label)],
        [
            job.first("chief-0", status, reason, last_lines=text.splitlines()),
            job.first("worker-1", 1, last_lines=label),
        ],
    ):
        cause = job.why(first, *later, stderr=text)
        assert told(cause, "code", "task") == ("python-exception", "worker-1"), cause
    alone = job.why(first, stderr=text)
    assert alone["task"] == "worker-0"
    assert alone["code"] in (
        "peer-failed",
        "exited",
        "python-exception",
        "rendezvous-failed",
        "nccl-failed",
    )


def test_stopped_task_whose_exception_stands_in_its_stderr(job: Failing) -> None:
    """The culprit was still writing when the job stopped it; the first to end had only lost it."""
    lost = f"{TF}.UnavailableError: Collective ops is aborted by: /job:worker/replica:0/task:1"
    start = 'Traceback (most recent call last):\n  File "t.py", line 9, in <module>\n'
    tasks = [
        {"task": task, "state": state, "host": "node1", "container": job.containers[task]}
        for task, state in (("chief-0", "ended"), ("worker-0", "failed"), ("worker-1", "ended"))
    ]
    for ending, code, task in (
        ("KeyError: 'label'", "python-exception", "worker-1"),
        (
            "torch.distributed.elastic.SignalException: Process 7 got signal: 15",
            "peer-failed",
            "worker-0",
        ),
        (
            "RuntimeError: [x/gloo/transport/tcp/pair.cc:5] Connection closed by peer",
            "peer-failed",
            "worker-0",
        ),
    ):
        job.left(
            "", {"stderr.txt": f"{lost}\n"}, first_failure=job.first("worker-0", 1), tasks=tasks
        )
        job.node.logs[job.containers["worker-1"], "stderr.txt"] = f"{start}{ending}\n".encode()
        cause = job.asked()
        assert told(cause, "code", "task", "certain") == (code, task, code == "peer-failed")
        if task == "worker-1":
            assert (
                "which probably failed with a Python exception: KeyError: 'label'"
                in cause["sentence"]
            )
            assert told(cause, "host", "exception") == ("node1", "KeyError: 'label'")
            assert cause["facts"]["place"] == "t.py:9"
            assert [one["task"] for one in cause["consequences"]] == ["worker-0"]


@pytest.mark.parametrize("status", [*range(90, 100), 126, 127, 137, 143])
def test_status_that_a_program_chose_has_no_other_meaning(job: Failing, status: int) -> None:
    """The reason says whose status it is: of the first failure, of a later one, and where only the
    bootstrap's last line has it.
    """
    first, later = job.first("worker-0", status), job.first("worker-1", status)
    cause = job.why(first, later)
    assert told(cause, "code", "meaning") == ("exited", "")
    assert cause["sentence"] == f"worker-0 ended with exit status {status}"
    assert cause["consequences"][0]["message"] == f"exited with status {status}"
    outcome = {"task": "worker-0", "status": status, "reason": "exited", "message": "so it was"}
    line = contract.OUTCOME_MARK + json.dumps(outcome)
    cause = job.why(am=ended(status, ""), stderr=f"[submit_tf_job] starting: x\n{line}\n")
    assert told(cause, "code", "status", "meaning") == ("exited", status, "")


def test_peer_that_had_finished_is_no_failure_elsewhere(job: Failing) -> None:
    lost = f"{TF}.UnavailableError: Collective ops is aborted by: /job:worker/replica:0/task:1"
    gloo = (
        "RuntimeError: [/x/gloo/transport/tcp/pair.cc:561] Connection closed by peer [10.0.0.2]:5"
    )
    for words in (lost, gloo):
        cause = job.why(
            job.first("worker-0", 1, last_lines=[words], at=1016.0),
            tasks=[{"task": f"worker-{n}", "state": ("failed", "succeeded")[n]} for n in (0, 1)],
            events=[{"at": 1000.0, "text": "worker-1 is done"}],
        )
        assert told(cause, "code", "sentence") == (
            "steps-differ",
            "worker-1 had finished with 0 16 s before, and worker-0 still exchanged values with it",
        )
        assert "model.save" in cause["hint"]


def test_tasks_that_failed_alike_are_counted(job: Failing) -> None:
    lines = ["Traceback (most recent call last):", '  File "t.py", line 9, in <module>']
    lines.append("KeyError: 'label'")
    later = [job.first(f"worker-{number}", 1, last_lines=lines) for number in (1, 2)]
    cause = job.why(job.first("worker-0", 1, last_lines=lines), *later)
    assert cause["sentence"].endswith("KeyError: 'label'; 2 other tasks failed alike")


def test_addresses_are_not_memory(job: Failing) -> None:
    said = PMEM.replace("287830016B beyond the 'PHYSICAL'", "9B beyond the 'VIRTUAL'")
    cause = job.why(am=said.replace("ExitStatus: -104", "ExitStatus: -103"))
    assert told(cause, "code", "retryable") == ("virtual-memory", False)
    assert "710.7 MB of virtual memory of the 537.6 MB" in cause["sentence"]
    assert "vmem-check-enabled" in cause["hint"]
    assert "try" not in cause["hint"]


def test_application_that_the_scheduler_rejects(job: Failing) -> None:
    said = (
        "Reject application application_1_1 submitted by user alice: rejected by placement rules."
    )
    job.final("FAILED", said, "FAILED")
    cause = job.why()
    assert told(cause, "code", "retryable", "task") == ("rejected", False, None)
    assert said in cause["sentence"]


AM_FAILED = (
    "Application application_1_1 failed 2 times due to AM Container for appattempt_1_1_000002 exited "
    "with  exitCode: {}\nFailing this attempt.Diagnostics: [2026-11-21 14:57:19.576]{}"
)
LAUNCHED = "Exception from container-launch.\nContainer id: container_1_1_02_000001\nExit code: 1\n"
# status of the ApplicationMaster's container, words, code, words of the sentence, a retry helps
OF_MASTERS = (
    (-1000, "java.io.FileNotFoundException: File does not exist: hdfs://ns/a.zip", "files-not-there",
     "hdfs://ns/a.zip", True),
    (-1000, "java.io.FileNotFoundException: File file:/tmp/a.zip does not exist", "files-not-there",
     "file:/tmp/a.zip", False),
    (-1000, "org.x.YarnException: Download and unpack failed", "application-master-failed",
     ": org.x.YarnException: Download and unpack failed", True),
    (-103, "Current usage: 1 GB of 2 GB physical memory used; 2.2 GB of 2.1 GB virtual memory used.",
     "virtual-memory", "2.2 GB of virtual memory", False),
    (-104, "Current usage: 2.1 GB of 2 GB physical memory used", "out-of-memory", "2.1 GB", True),
    (-100, "Container released on a *lost* node", "node-lost", "the ApplicationMaster", True),
    (1, f"{LAUNCHED}Exception message: launch_container.sh: line 24: $A: bad substitution",
     "application-master-failed", "line 24: $A: bad substitution", True),
    (1, f"{LAUNCHED}Stack trace: ExitCodeException exitCode=1: a.sh: line 2: /x/${{a.b}}/*: bad substitution",
     "executor-configuration", "a.b: bad substitution", False),
    (-1000, "Wrong FS: hdfs://nn/a, expected: file:///", "executor-configuration", "hdfs://nn/a",
     False),
    (-1000, "java.util.zip.ZipException: error in opening zip file", "container-failed",
     "error in opening zip file", False),
    (1, f"{LAUNCHED}\nLast 4096 bytes of stderr :\nError: Could not find or load main class org.x.Master",
     "module-missing", "org.x.Master", False),
    (1, f"{LAUNCHED}\nLast 4096 bytes of stderr :\norg.x.SecretManager$InvalidToken: Invalid AMRMToken\n"
     "\tat org.x.Y.z(Y.java:1)\n", "application-master-failed", ": org.x.SecretManager$InvalidToken",
     True),
)  # fmt: skip


def test_application_master_whose_container_failed(job: Failing) -> None:
    for status, words, code, said, helps in OF_MASTERS:
        job.final("FAILED", AM_FAILED.format(status, words), "FAILED")
        cause = job.why()
        assert told(cause, "code", "retryable", "task") == (code, helps, None), cause
        assert said in cause["sentence"]
        assert "roles." not in cause["hint"]
    job.final(
        "FAILED",
        "Application application_1_1 failed 1 times due to ApplicationMaster for attempt "
        "appattempt_1_1_000001 timed out. Failing the application.",
        "FAILED",
    )
    assert job.why()["sentence"].endswith("attempt appattempt_1_1_000001 timed out")


# words, code, a retry helps
NEVER_STARTED = (
    ("Queue root.a already has 500 applications, cannot accept submission of application: "
     "application_1_1", "too-many-applications", True),
    ("Queue root.a is STOPPED. Cannot accept submission of application: application_1_1",
     "rejected", False),
    ("Invalid resource request, queue=a doesn't have permission to access all labels in resource "
     "request. labelExpression of resource request=gpu. Queue labels=", "rejected", False),
    ("Failed to renew token: Kind: HDFS_DELEGATION_TOKEN, Service: 10.0.0.9:8020, Ident: (x)",
     "token-not-renewed", True),
    ("java.net.ConnectException: something new", "not-started", True),
    ("Invalid label resource request, cluster do not contain , label= gpu", "request-refused",
     False),
    ("Invalid resource request, requested resource type=[memory-mb] < 0 or greater than maximum "
     "allowed allocation. Requested resource=<memory:2048, vCores:1>, maximum allowed "
     "allocation=<memory:1024, vCores:2>, please note", "request-refused", False),
    ("Invalid resource request, requested memory < 0, or requested memory > max configured, "
     "requestedMemory=12288, maxMemory=8192", "request-refused", False),
)  # fmt: skip


def test_application_that_never_had_a_container(job: Failing) -> None:
    [app] = job.world.cluster.yarn.apps.values()
    app.attempts = 0
    for words, code, helps in NEVER_STARTED:
        job.final("FAILED", words, "FAILED")
        cause = job.why()
        assert told(cause, "code", "retryable") == (code, helps), cause
        assert "ApplicationMaster of the job failed" not in cause["sentence"]


def test_evidence_and_certainty(job: Failing) -> None:
    text = 'Traceback (most recent call last):\n  File "t.py", line 2, in <module>\nMemoryError\n'
    cause = job.why(job.first("worker-0", 1), stdout=f"step 1\n{text}")
    assert cause["certain"]
    assert cause["evidence"] == {
        "task": "worker-0",
        "stream": "stdout",
        "lines": text.splitlines(),
    }
    assert cause["last_lines"][-1] == "MemoryError"
    guess = job.why(job.first("worker-0", 1), stderr=f"ERROR:root:it failed\n{text}")
    assert not guess["certain"]
    assert "probably" in guess["sentence"]


REASONS: dict[tuple[str, int | None], str | None] = {
    ("port-in-use", 91): "port-in-use",
    ("bootstrap-error", 90): "bootstrap-error",
    ("wrong-job", 96): "wrong-job",
    ("command-not-found", 127): "command-not-found",
    ("not-executable", 126): "not-executable",
    ("not-finished", None): "not-finished",
    ("peers-missing", None): "tasks-missing",
    ("lost", None): "task-lost",
    ("killed", 143): "stopped-from-outside",
    ("killed", 137): "killed",
    ("crashed", 139): "crashed",
    ("crashed", 141): "crashed",
    ("exited", 3): "exited",
    ("a word of tomorrow", None): None,
}


def test_reason_of_the_bootstrap(job: Failing) -> None:
    for (reason, status), code in REASONS.items():
        cause = job.why(job.first("worker-1", status, reason, message="so it was"))
        assert cause["code"] == code
        if code:
            assert told(cause, "task", "status", "host") == ("worker-1", status, "node1")
            assert cause["hint"] or code == "exited"


def test_login_that_fails_in_the_same_way_again(job: Failing) -> None:
    for words, code, helps in (
        ("Preauthentication failed while getting initial credentials", "kerberos-login", False),
        ("Cannot contact any KDC for realm 'R' while getting initial credentials",
         "kerberos-login", True),
        ("Clock skew too great while getting initial credentials", "clocks-differ", True),
    ):  # fmt: skip
        said = f"the login of alice@R failed: kinit: {words}"
        cause = job.why(job.first("worker-1", 90, "login-failed", message=said))
        assert told(cause, "code", "sentence", "retryable") == (code, said, helps)


def test_words_that_tell_why_a_container_failed(job: Failing) -> None:
    """The shell's, if Docker says nothing; of Docker's what stands behind the layers of errors."""
    cause = job.why(am=ended(127, "bash: error while loading shared libraries: libc.so.6: cannot"))
    assert cause["sentence"].endswith(
        "bash: error while loading shared libraries: libc.so.6: cannot"
    )
    layers = "container_linux.go:380: starting container process caused: process_linux.go:545: " * 4
    said = f"docker: Error response from daemon: OCI runtime create failed: {layers}cannot allocate memory"
    cause = job.why(am=ended(7, said))
    assert cause["sentence"].endswith("docker: Error response from daemon: cannot allocate memory")


def test_connection_of_java_is_told_with_its_other_side(job: Failing) -> None:
    text = (
        'Exception in thread "main" com.amazonaws.SdkClientException: Unable to execute HTTP '
        "request: Connect to minio:9000 failed: Connection refused\n\tat Train.main(Train.java:21)\n"
        "Caused by: org.apache.x.HttpHostConnectException: Connect to minio:9000 failed: Connection "
        "refused\n\tat org.apache.x.Y.z(Y.java:1)\n"
        "Caused by: java.net.ConnectException: Connection refused\n\tat java.net.X.y(X.java:2)\n"
    )
    assert "minio:9000" in job.why(job.first("worker-0", 1), stderr=text)["sentence"]


def test_exceptions_of_thrift_and_answers_in_json(job: Failing) -> None:
    text = (
        'Exception in thread "main" java.lang.RuntimeException: Unable to instantiate it\n'
        "\tat org.apache.X.y(X.java:1)\n"
        "Caused by: MetaException(message:Could not connect to meta store using any of the URIs)\n"
        "\tat org.apache.X.z(X.java:2)\n"
    )
    assert "meta store" in job.why(job.first("worker-0", 1), stderr=text)["sentence"]
    text = (
        "tensorflow.python.framework.errors_impl.PermissionDeniedError: HTTP response code 401 with "
        'body \'{\n  "error": {\n    "message": "Anonymous caller has no access."\n  }\n}\n\'\n'
    )
    text = f'Traceback (most recent call last):\n  File "t.py", line 2, in <module>\n{text}'
    sentence = job.why(job.first("worker-0", 1), stderr=text)["sentence"]
    assert sentence.endswith("HTTP response code 401 with body: Anonymous caller has no access.")


def test_failed_container_of_a_missing_task(job: Failing) -> None:
    first = job.first("worker-1", None, "peers-missing", container="", host="")
    cause = job.why(first, am=PMEM + AGAIN, missing=["worker-1"])
    assert told(cause, "code", "task", "status", "meaning") == (
        "image-not-pulled",
        "worker-1",
        7,
        "`docker run` failed",
    )


def test_missing_task_that_cannot_reach_the_deciding_one(job: Failing) -> None:
    first = job.first("chief-0", None, "peers-missing", message="not every task arrived: worker-0")
    assigned = PMEM.partition("\n")[0].replace("node7.example.com", "node1") + "\n"
    said = (
        "[submit_tf_job] so far: chief-0.mnist.alice.x (172.17.0.2) does not answer at port 20011\n"
    )
    missing = ["worker-1", "worker-0"]
    cause = job.why(first, am=assigned, stderr=said, missing=missing)
    assert told(cause, "code", "sentence") == (
        "tasks-unreachable",
        "worker-0 started and cannot reach the deciding task: 172.17.0.2 does not answer at port 20011",
    )
    assert "iptables -S FORWARD" in cause["hint"]
    other = "[submit_tf_job] so far: the name chief-0.x does not resolve\n"
    assert job.why(first, am=assigned, stderr=other, missing=missing)["code"] == "tasks-missing"


def test_request_that_is_never_granted(job: Failing) -> None:
    job.final(
        "FAILED",
        "Invalid resource request! Cannot allocate containers as requested resource is greater than "
        "maximum allowed allocation. Requested resource type=[yarn.io/gpu], Requested "
        "resource=<memory:256, vCores:1, yarn.io/gpu: 3>, maximum allowed allocation=<memory:8192, "
        "vCores:8, yarn.io/gpu: 2>, please note",
    )
    cause = job.why(job.first("worker-0", None, "peers-missing"), missing=["worker-0"])
    assert told(cause, "code", "hint") == ("request-refused", "ask for less yarn.io/gpu")


def test_container_that_was_told_to_end_is_never_the_cause(job: Failing) -> None:
    cause = job.why(am=PMEM + TOLD_TO_END)
    assert told(cause, "task", "code") == ("worker-0", "out-of-memory")
    assert [end["task"] for end in cause["consequences"]] == ["chief-0"]


def test_application_master_that_failed(job: Failing) -> None:
    said = "Application application_1_1 failed 2 times due to AM Container exited with exitCode: 1"
    job.final("FAILED", said, "FAILED")
    line = "2026-11-21 14:57:12,503 [main] ERROR service.ServiceMaster - Error starting service master\n"
    cause = job.why(am=f"{line}org.x.YarnException: cannot\n")
    assert told(cause, "code", "task", "status", "hint") == (
        "application-master-failed",
        None,
        1,
        "submit_tf_job logs mnist --am shows its log",
    )
    assert cause["sentence"].startswith(
        "YARN's ApplicationMaster of the job failed 2 times, the last time with exit status 1 ("
    )
    assert "Error starting service master: org.x.YarnException: cannot" in cause["sentence"]
    denied = (
        'Permission denied: user=bob, access=EXECUTE, inode="/user/alice/.yarn":alice:supergroup'
    )
    login = (
        "org.apache.hadoop.security.KerberosAuthException: failure to login: for principal: "
        "root/localhost@SANDBOX.TEST from keytab /nm/container_1795281862052_0014_04_000001/keytabs/"
        "jg.keytab javax.security.auth.login.LoginException: Checksum failed"
    )
    assert job.why(am=f"{line}{login}\n")["retryable"] is False
    for words, code, sentence in (
        (f"org.apache.hadoop.security.AccessControlException: {denied}:drwxr-x---",
         "kerberos-somebody-else",
         "the ApplicationMaster logged in as bob, who may not read /user/alice/.yarn: the principal "
         "of `kerberos` is not alice's"),
        (login, "kerberos-login", "the ApplicationMaster could not log in as "
         "root/localhost@SANDBOX.TEST: Checksum failed"),
    ):  # fmt: skip
        said = f"{line}org.apache.hadoop.service.ServiceStateException: {words}\n"
        assert told(job.why(am=said), "code", "sentence", "task") == (code, sentence, None)
    # as 3.4.2 wrote it, at the level WARN
    gave_up = (
        "2026-11-29 13:20:41,717 [pool-9-thread-1] WARN  monitor.ComponentHealthThresholdMonitor - "
        "Service is being killed because container health for component chief was 0.00% (health "
        "threshold = 100%) for 1083 secs (threshold window = 1080 secs)\n"
    )
    cause = job.why(am=gave_up)
    assert told(cause, "code", "sentence") == (
        "never-started",
        "chief had no container for longer than `start_timeout`, and YARN gave the job up",
    )


def test_success_of_a_command_that_never_ran(job: Failing) -> None:
    job.final("SUCCEEDED")
    assert job.why()["code"] == "command-never-ran"


@pytest.mark.parametrize(
    ("file", "said", "code"),
    [
        ("stderr.txt", "/bin/bash: line 1: exec: python3: not found\n", "python-missing"),
        (
            "prelaunch.err",
            "launch_container.sh: line 49: find: command not found\n",
            "image-without-tools",
        ),
    ],
)
def test_false_success_of_a_container_that_could_not_start(
    world: World, file: str, said: str, code: str
) -> None:
    """With docker.inspect.max.retries=0 a container that cannot start is a success for YARN."""
    job = Failing(world, over=False)
    job.failing = "chief-0"
    success = TOLD_TO_END.replace(
        "failed without retry, exitStatus=93", "succeeded without retry, exitStatus=0"
    )
    head = success.replace("ExitStatus: 93", "ExitStatus: 0").partition("Diagnostics: ")[0]
    job.left(f"{head}Diagnostics: , ExitStatus: 0, IP: [127.0.0.1], Host: vm]\n", {file: said})
    world.cluster.clock.after(30, world.ends)
    done = world("wait", "mnist", "-o", "json")
    assert done.status == 1, done
    cause = done.json["root_cause"]
    assert (cause["code"], cause["task"], cause["facts"]["code"]) == (
        "exit-status-false",
        "chief-0",
        code,
    )
    assert "docker.inspect.max.retries" in cause["hint"]


def test_report_that_is_invalid(job: Failing) -> None:
    cause = job.why(job.first("worker-0", 1), {"task": "x"}, 3, tasks={"no": "list"})  # type: ignore[arg-type]
    assert cause["task"] == "worker-0"


# --- what is asked and shown ----------------------------------------------------------------------


def test_requests_do_not_grow_with_the_tasks(job: Failing) -> None:
    log = job.world.cluster.network.log
    counts = []
    for size in (2, 2000):
        ends = "".join(
            TOLD_TO_END.replace("chief-0", f"worker-{n}").replace(C2, f"{C2[:-6]}{n + 9:06}")
            for n in range(size)
        )
        log.clear()
        cause = job.why(job.first("worker-0", 143, "killed"), am=ends + PMEM)
        assert cause["code"] == "out-of-memory"
        counts.append(len(log))
    assert counts[0] == counts[1] < 12
    log.clear()
    assert job.why(job.first("worker-0", 1), stderr="x" * 200_000 + "\n" + CHAINED)["exception"]
    assert not [path for _, _, path in log if "serviceam.log" in path], "stderr alone explains it"


def test_status_shows_the_cause(job: Failing) -> None:
    said = CHAINED[CHAINED.rindex("Traceback") :]
    later = [job.first(f"worker-{number}", 93) for number in range(1, 8)]
    job.why(job.first("worker-0", 1), *later, stderr=said)
    lines = job.world("status", "mnist").out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("  first cause"))
    assert lines[at + 1 : at + 3] == [
        "  failed task  worker-0 on node1, exit status 1 (the program failed)",
        "  exception    ValueError: first line  (train.py:12)",
    ]
    assert "  last lines of worker-0's stderr:" in lines
    rest = lines[lines.index("  Also ended:") :]
    assert rest[1].startswith("    worker-1 (")
    assert rest[6] == "    and 2 more"


def test_codes_of_failures_are_documented() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    rows = table()
    assert rows in page, "make goldens"
    cells = [row.split(" | ")[0] for row in rows.splitlines()[2:]]
    documented = [name for cell in cells for name in re.findall(r"`([a-z0-9-]+)`", cell)]
    assert len(documented) == len(set(documented))
    recorded_codes = {code for name in ("programs", "containers") for code, _ in recorded(name)}
    assert recorded_codes <= set(documented)
    sources = [
        path.read_text("utf-8")
        for path in (ROOT / "submit_tf_job/diagnose").glob("*.py")
        if path.name != "codes.py"
    ]
    assert not [code for code in documented if f'"{code}"' not in "".join(sources)]
