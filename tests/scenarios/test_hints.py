"""A hint of a cause names what exists: keys of job specs and settings, commands and their options,
pages of the documentation; and what it advises mends the common cases.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.builders.failed_job import FAILURES, PMEM, TOLD_TO_END, Failing, ended, recorded
from tests.cause_table import table
from tests.failures import cases as corpus
from tests.world import World

# programs of the node or of the image, and what a program calls
OTHERS: tuple[str, ...] = (
    "set -e",
    "nvidia-smi ",
    "python ",
    "python3",
    "bash ",
    "init_process_group",
    "logs JOB --am",
    "conda run",
    "git lfs",
)
OTHERS += ("MALLOC_ARENA_MAX", "NCCL_", "hdfs dfs", "yarn.", "docker", "iptables", "tf.compat")
# keys of Hadoop's and Docker's own configuration, and of Python
FOREIGN = {"vmem-pmem-ratio", "open", ":rw", "MemoryError"}


def quoted(hint: str) -> list[str]:
    """Return what a hint writes as code."""
    return re.findall(r"`([^`]+)`", hint)


def names_of(schema: Any) -> Iterator[str]:
    """Yield the keys that a JSON Schema names."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for inner in schema.values():
            yield from names_of(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from names_of(inner)


class Known:
    """What a hint may name, as the command line tells it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.keys = set(names_of(json.loads(world._cli("schema").out)))
        shown = world("config", "show", "-o", "json").json["settings"]
        self.settings = {part for name in shown for part in (name, *name.split("."))}
        self._helps: dict[str, str] = {}

    def has(self, words: str) -> bool:
        """Return whether what a hint writes as code exists."""
        words = words.replace("{{", "{").replace("}}", "}")
        first, *rest = words.removeprefix("submit_tf_job ").split()
        if words.startswith(OTHERS) or words in FOREIGN:
            return True
        if first == "help":
            return self.world._cli("help", *rest).status == 0
        if words.startswith("--set "):
            return all(
                part in self.keys or part == "NAME" for part in rest[0].split("=")[0].split(".")
            )
        if self.help_of(first):
            return all(option in self.help_of(first) for option in rest if option.startswith("--"))
        return self.has_key(words)

    def has_key(self, words: str) -> bool:
        value = yaml.safe_load(words)
        names = list(value) if isinstance(value, dict) else [str(value)]
        return all(
            part in self.keys | self.settings or part in ("JOB", "NAME")
            for name in names
            for part in name.split(".")
        )

    def help_of(self, command: str) -> str:
        if not re.fullmatch(r"[a-z]+", command):
            return ""
        if command not in self._helps:
            done = self.world._cli(command, "--help")
            self._helps[command] = done.out if done.status == 0 else ""
        return self._helps[command]


def hints(job: Failing) -> Iterator[tuple[str, str]]:
    """Yield the code and the hint of each known text, at the door."""
    for code, text in recorded("programs"):
        yield code, job.why(job.first("worker-0", 1), stderr=f"{text}\n").get("hint", "")
    of_codes = {(one.fields.get("code"), one.fields.get("hint")): one for one in corpus.cases()}
    for case in of_codes.values():
        end = FAILURES[case.category][case.name]
        reason = "killed" if 128 < end["status"] < 160 else "exited"
        first = job.first("worker-0", end["status"], reason)
        cause = job.why(first, stderr=end.get("stderr", ""), stdout=end.get("stdout", ""))
        yield str(cause["code"]), cause["hint"]
    for code, row in recorded("containers"):
        yield code, job.why(am=ended(row["status"], row["said"])).get("hint", "")
    for status in (126, 127, 132, 134, 135, 136, 137, 139, 143):
        cause = job.why(job.first("worker-0", status, "killed" if status > 128 else ""))
        yield str(cause["code"]), cause["hint"]


# what the hint of a code advises, and a job spec that does it
MENDS: dict[str, tuple[str, dict[str, Any]]] = {
    "uri-as-path": ("download: true", {"inputs": {"rows": {"uri": "hdfs:///d", "download": True}}}),
    "keras-3": ("keras: legacy", {"keras": "legacy"}),
    "hdfs-unreachable": ("hadoop: {conf: inline}", {"hadoop": {"conf": "inline"}}),
    "variable-missing": ("env", {"env": {"TOKENS": "3"}}),
    "file-missing": ("files", {"files": ["train.py"]}),
}


def test_hints_name_what_exists(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    known, wrong = Known(world), {}
    told = [*hints(Failing(world)), *(("codes", line) for line in table().splitlines())]
    assert len({hint for _code, hint in told}) > 100
    for code, hint in told:
        pages = re.findall(r"submit_tf_job help ([\w-]+)", hint)
        unknown = [words for words in quoted(hint) if code != "codes" and not known.has(words)]
        unknown += [page for page in pages if world._cli("help", page).status]
        for path in re.findall(r"\broles\.\w+\.(\w+)", hint):
            unknown += [path] * (path not in known.keys)
        if unknown:
            wrong[code, hint] = unknown
    assert not wrong
    (world.home / "train.py").write_text("")
    world.submitted("conf")
    world.hdfs()
    for number, (code, (words, changes)) in enumerate(MENDS.items()):
        assert any(words in hint for told_code, hint in told if told_code == code), code
        done = world("validate", world.spec(f"mended-{number}", **changes))
        assert done.status == 0, (code, done)


def test_more_memory_is_what_the_hint_says(world: World) -> None:
    """With the advised amount the task has room for what it wanted."""
    job = Failing(world)
    case = FAILURES["host_memory"]
    texts = [end.get("stderr", "") for end in case.values()]
    for text in texts:
        cause = job.why(job.first("worker-0", 1), stderr=text)
        if found := re.search(r"try (\d+)(Mi|Gi)", cause["hint"]):
            advised = int(found[1]) * (1024 if found[2] == "Gi" else 1)
            assert advised > (cause["facts"].get("asked_mib") or 0)
            spec = world.spec(
                "more", roles={"worker": {"memory": f"{advised}Mi"}}, strategy="single"
            )
            assert world("validate", spec).status == 0


# --- what the job has -----------------------------------------------------------------------------

HDFS = "hdfs:///rows"
OPENED = f"FileNotFoundError: [Errno 2] No such file or directory: '{HDFS}/a.csv'"
LACKED = "FileNotFoundError: [Errno 2] No such file or directory: '/site/a.csv'"
READ_ONLY = "OSError: [Errno 30] Read-only file system: '/site/a.csv'"
START = 'Traceback (most recent call last):\n  File "t.py", line 9, in <module>\n    f()\n'
NCCL = "torch.distributed.DistBackendError: NCCL error in: x.hpp:317, unhandled system error"
TF_OOM = "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[8] and type float on /device:GPU:0 by allocator GPU_0_bfc"
TORCH_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB. If reserved but "
    "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
)
SHM = "RuntimeError: unable to write to file </torch_1_2_3>"
REMOTE = "org.apache.hadoop.ipc.RemoteException: "
LOGIN = {"login": "always"}
KEEP = {"model": {"uri": "hdfs:///m", "upload": True, "on_failure": "keep"}}
# words of the hint; the exception, or an exit status, or a reason of the bootstrap; keys that the
# job has already, or what its posted description says where the world lacks what they need
HAD: tuple[tuple[str, Any, dict[str, Any]], ...] = (
    ("roles.worker.gpus", "RuntimeError: No CUDA GPUs are available", {"posted": {"roles": {"worker": {"gpus": 1}}}}),
    ("TF_FORCE_GPU_ALLOW_GROWTH", TF_OOM, {"env": {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}}),
    ("PYTORCH_CUDA_ALLOC_CONF", TORCH_OOM, {"env": {"PYTORCH_CUDA_ALLOC_CONF": "x:1"}}),
    ("NCCL_DEBUG=INFO", NCCL, {"env": {"NCCL_DEBUG": "INFO"}}),
    ("NCCL_SOCKET_IFNAME", NCCL, {"env": {"NCCL_SOCKET_IFNAME": "eth0"}}),
    ("GLOO_SOCKET_IFNAME", "RuntimeError: Gloo connectFullMesh failed with x", {"env": {"GLOO_SOCKET_IFNAME": "eth0"}}),
    ("OMP_NUM_THREADS", "RuntimeError: can't start new thread", {"env": {"OMP_NUM_THREADS": "2"}}),
    ("https_proxy", "urllib.error.URLError: <urlopen error timed out>", {"env": {"https_proxy": "http://p:1"}}),
    ("PYTHONFAULTHANDLER", 139, {"env": {"PYTHONFAULTHANDLER": "1"}}),
    ("PYTHONFAULTHANDLER", 136, {"env": {"PYTHONFAULTHANDLER": "1"}}),
    ("keras: legacy", "ValueError: Attempt to convert a value (PerReplica:{", {"keras": "legacy"}),
    ("hadoop: {conf: inline}", "java.net.UnknownHostException: nn1", {"hadoop": {"conf": "inline"}}),
    ("strategy: torch", "ValueError: environment variable RANK expected, but not set", {"strategy": "torch"}),
    ("--set inputs.NAME", OPENED, {"posted": {"data": {"inputs": {"rows": {"uri": HDFS, "download": True}}}}}),
    ("mount its directory", LACKED, {"mounts": ["/site:/site"], "image": "x/y:1"}),
    ("unless they end in :rw", READ_ONLY, {"mounts": ["/site:/site:rw"], "image": "x/y:1"}),
    ("/dev/shm]", SHM, {"docker": {"tmpfs": ["/dev/shm"]}, "image": "x/y:1"}),
    ("/dev/shm]", 135, {"docker": {"tmpfs": ["/dev/shm"]}, "image": "x/y:1"}),
    ("on_failure: keep", "output-failed", {"posted": {"data": {"outputs": KEEP}}}),
    ("login of its own", f"{REMOTE}token (token for a: x) is expired", {"posted": {"kerberos": LOGIN}}),
    ("with its keytab", "OSError: GSS initiate failed", {"posted": {"kerberos": LOGIN}}),
    ("under `kerberos`", "OSError: GSS initiate failed", {"posted": {"kerberos": {}}}),
    ("krb5_conf`: inline", "OSError: Can't get Kerberos realm", {"posted": {"kerberos": {"krb5_conf": "x"}}}),
    ("see `dns.server`", "socket.gaierror: [Errno -2] Name or service not known", {"posted": {"dns_server": "d:1"}}),
    ("list it in a file", "ModuleNotFoundError: No module named 'wisdom'", {"posted": {"packages": {}}}),
)  # fmt: skip


def add_to_stored_service(world: World, more: dict[str, Any]) -> None:
    """Add to the description of the job's tasks, in YARN's copy of the service."""
    path = world.home / f"alice/.yarn/services/{world.name}/{world.name}.json"
    service = json.loads(path.read_text())
    for file in service["configuration"]["files"]:
        if file["dest_file"] == "tfjob.json":
            told = json.loads(file["properties"]["content"])
            roles = more.pop("roles", {})
            for role, keys in roles.items():
                told["roles"][role] |= keys
            file["properties"]["content"] = json.dumps({**told, **more})
    path.write_text(json.dumps(service))


def failed_hint(world: World, name: str, how: Any, **changes: Any) -> str:
    """Return the hint for a job with these keys whose first worker failed so."""
    posted = changes.pop("posted", {})
    job = Failing(world, name=name, **changes)
    add_to_stored_service(world, posted)
    if isinstance(how, int):
        first, text = job.first("worker-0", how, "killed"), ""
    elif how in ("output-failed",):
        first, text = job.first("worker-0", 1, how), ""
    else:
        first, text = job.first("worker-0", 1), f"{START}{how}\n"
    cause = job.why(first, stderr=text)
    assert cause["hint"] or changes or posted, cause
    return str(cause["hint"])


@pytest.mark.parametrize("number", range(len(HAD)))
def test_hint_does_not_advise_what_the_job_has(world: World, number: int) -> None:
    words, how, has = HAD[number]
    assert words in failed_hint(world, "plain", how), words
    hint = failed_hint(world, "had", how, **has)
    assert words not in hint, hint
    assert not re.search(r"^; |; $|; ;", hint), hint


UNREACHABLE = (
    "[submit_tf_job] so far: chief-0.mnist.alice.x (172.17.0.2) does not answer at port 20011\n"
)


@pytest.mark.parametrize("is_had", [False, True])
def test_hint_of_an_unreachable_task_knows_the_network(world: World, is_had: bool) -> None:
    network = "host" if is_had else "bridge"
    job = Failing(world, name="lonely", image="x/y:1", network=network)
    assigned = PMEM.partition("\n")[0].replace("node7.example.com", "node1") + "\n"
    first = job.first("chief-0", None, "peers-missing", message="not every task arrived: worker-0")
    missing = ["worker-1", "worker-0"]
    cause = job.why(first, am=assigned, stderr=UNREACHABLE, missing=missing)
    assert ("`network: host`" in cause["hint"], cause["code"]) == (not is_had, "tasks-unreachable")


@pytest.mark.parametrize(
    ("most", "words"),
    [
        (256, "roles.worker.memory is 256Mi, and queue default gives no more: make the batch"),
        (384, "roles.worker.memory is 256Mi: try 384Mi, which is all of default, or make"),
        (8192, "roles.worker.memory is 256Mi: try 768Mi, or make the batch"),
    ],
)
def test_hint_advises_no_more_memory_than_the_queue_gives(
    world: World, most: int, words: str
) -> None:
    job = Failing(world)
    world.yarn.queue_limits = {"maximumAllocation": {"memory": most, "vCores": 4}}
    cause = job.why(am=PMEM + TOLD_TO_END)
    assert (cause["code"], words in cause["hint"]) == ("out-of-memory", True), cause["hint"]
