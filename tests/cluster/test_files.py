"""Files on the real HDFS: what reaches a task, what goes wrong on the way, and what is left behind
(nothing).
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from submit_tf_job.errors import ClusterUnavailable, Refused, UsageError
from submit_tf_job.jobspec.digests import sha256_of
from submit_tf_job.jobspec.job import HostFile
from submit_tf_job.plan import Upload
from submit_tf_job.sandbox import Sandbox, SandboxInfo, SandboxOptions
from submit_tf_job.sandbox.saved_state import Layout, load_state
from submit_tf_job.storage import Storage, open_storage
from submit_tf_job.storage.staging import Sent, stage
from tests.tool import (
    Tool,
)

pytestmark = pytest.mark.cluster

MIB = 1024 * 1024
ROLES = {"worker": {"instances": 2, "memory": "256Mi"}}
COMMANDS = "[gui_scripts]\nx = y:z\n\n[console_scripts]\n{}\n"
PROGRAM = """\
import json, os, sys, time, one, two
found = {os.path.join(at, name): os.stat(os.path.join(at, name)).st_mode & 0o777
         for top in ("tree", "data") for at, _, names in os.walk(top) for name in names}
print("FOUND", json.dumps({
    "modes": found, "text": open("tree/a b/\\u00fc \\u65e5\\u672c.txt").read(), "large": os.path.getsize("large.bin"),
    "modules": [one.__file__, two.__file__], "packages": os.path.realpath("tfjob-python"), "large_at": os.path.realpath("large.bin"),
    "run": [os.popen(name).read().strip() for name in ("tool-of-one", "command-of-one a b", "of-two")]}), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
"""


@pytest.fixture
def storage(real_cluster: SandboxInfo) -> Storage:
    return open_storage(
        real_cluster.hdfs_uri,
        hadoop_conf=real_cluster.client_conf,
        user=real_cluster.user,
        timeout_s=15,
    )


def staged_of(storage: Storage, cluster: SandboxInfo, job: str) -> str:
    return f"{storage.home(cluster.user)}/.submit_tf_job/staging/files/{job}"


def wheel(path: Path, contents: dict[str, str]) -> None:
    with zipfile.ZipFile(path, "w") as out:
        for name, text in contents.items():
            out.writestr(name, text)


def a_tree(directory: Path) -> None:
    (directory / "tree" / "a b").mkdir(parents=True)
    (directory / "tree" / "a b" / "ü 日本.txt").write_text("sehr schön")
    (directory / "tree" / "run.sh").write_text("#!/bin/sh\n")
    (directory / "tree" / "run.sh").chmod(0o755)
    (directory / "tree" / "link.sh").symlink_to("run.sh")
    (directory / "large.bin").write_bytes(os.urandom(17 * MIB))
    (directory / "program.py").write_text(PROGRAM)
    with tarfile.open(directory / "data.tar.gz", "w:gz") as tar:
        tar.add(directory / "tree" / "run.sh", "in/run.sh")
        tar.add(directory / "tree" / "link.sh", "in/link.sh")
    wheel(
        directory / "one-1.0-py3-none-any.whl",
        {
            "one.py": "import sys\nclass Main:\n    def run(): print(sys.argv[1:])\n",
            "one-1.0.data/scripts/tool-of-one": "#!/bin/sh\necho of one\n",
            "one-1.0.dist-info/entry_points.txt": COMMANDS.format("command-of-one = one:Main.run"),
        },
    )
    wheel(
        directory / "two-1.0-py3-none-any.whl",
        {
            "two.py": "def main(): print('of two')\n",
            "two-1.0.dist-info/entry_points.txt": COMMANDS.format("of-two=two : main [extra]"),
        },
    )


def test_what_is_listed_reaches_every_task_and_goes_with_the_job(
    tool: Tool, real_cluster: SandboxInfo, storage: Storage
) -> None:
    a_tree(tool.cwd)
    job = f"files-{secrets.token_hex(3)}"
    files = [
        "program.py",
        "tr*",
        "large.bin",
        {"src": "data.tar.gz", "dst": "data", "unpack": True},
        {"wheels": ["two-*.whl"]},
    ]
    content = {
        "strategy": "multi-worker",
        "roles": ROLES,
        "files": files,
        "python": {"wheels": ["one-*.whl"]},
    }
    spec = tool.spec(job, **content, command=["python3", "program.py", str(tool.cwd / "go")])
    first = tool("submit", spec, "--detach")
    assert first.status == 0, first.stderr
    assert re.search(r"uploading 17.[89] MB for", first.stderr)
    places = storage.list_dir(staged_of(storage, real_cluster, job))
    found_there = [item for place in places for item in storage.list_dir(place.path)]
    [large] = [item.path for item in found_there if item.size == 17 * MIB]
    before = storage.stat(large)
    assert {item.mode for item in storage.list_dir(staged_of(storage, real_cluster, job))} == {
        0o700
    }
    tool.until(job, lambda found: found["state"] == "RUNNING")
    kept = tool("staging", "gc", "--older-than", "1s", "-o", "json").json
    assert [item["name"] for item in kept["kept"]] == [job]
    assert job not in [item["name"] for item in kept["removed"]]
    (tool.cwd / "go").write_text("")
    assert tool("wait", job).status == 0
    found = [
        json.loads(line.partition("FOUND ")[2])
        for line in tool("logs", job).stdout.splitlines()
        if "FOUND " in line
    ]
    assert len(found) == 2
    for one in found:
        assert one["text"] == "sehr schön"
        assert one["large"] == 17 * MIB
        assert one["run"] == ["of one", "['a', 'b']", "of two"]
        assert {name: mode & 0o700 for name, mode in one["modes"].items()} == {
            "tree/a b/ü 日本.txt": 0o600,
            **dict.fromkeys(
                ("tree/run.sh", "tree/link.sh", "data/in/run.sh", "data/in/link.sh"), 0o700
            ),
        }
        assert [module.split("/")[-2:] for module in one["modules"]] == [
            ["site", "one.py"],
            [".tfjob-packages", "two.py"],
        ]
    assert found[0]["packages"] == found[1]["packages"], "unpacked once on a node"
    assert found[0]["large_at"] == found[1]["large_at"]
    again = tool("submit", spec, "--replace", "--detach")
    assert again.status == 0, again.stderr
    assert "uploading" not in again.stderr, "nothing has changed"
    assert storage.stat(large) == before
    assert tool("delete", job, "--force").status == 0
    assert not storage.exists(staged_of(storage, real_cluster, job))


def test_what_a_dead_client_left_is_swept(
    tool: Tool, real_cluster: SandboxInfo, storage: Storage
) -> None:
    ghost = staged_of(storage, real_cluster, "ghost")
    stage([Upload(f"{real_cluster.hdfs_uri}{ghost}/{'0' * 64}/x.tar", b"x" * 1000)], storage)
    time.sleep(1.1)
    assert tool("staging", "gc", "--older-than", "1h", "-o", "json").json["removed"] == []
    dry = tool("staging", "gc", "--older-than", "1s", "--dry-run")
    assert f"ghost: would be removed, 1 kB, last submitted {time.strftime('%Y')}" in dry.stdout
    assert storage.exists(ghost)
    swept = tool("staging", "gc", "--older-than", "1s", "-o", "json").json
    assert ("ghost", 1000, [ghost]) in [
        (item["name"], item["bytes"], item["paths"]) for item in swept["removed"]
    ]
    assert not storage.exists(ghost)


def test_one_clear_message_and_nothing_left(
    tool: Tool, real_cluster: SandboxInfo, storage: Storage, tmp_path: Path
) -> None:
    job = f"bad-{secrets.token_hex(3)}"
    (tool.cwd / "large.bin").write_bytes(os.urandom(2 * MIB))
    content = {
        "command": "true",
        "strategy": "single",
        "roles": {"worker": {"memory": "256Mi"}},
        "files": ["large.bin"],
    }
    spec = tool.spec(job, **content)
    refused = tool("submit", spec, "--set", "queue=nowhere")
    assert refused.status == 9, refused.stderr
    assert not storage.exists(staged_of(storage, real_cluster, job)), (
        "what a refused submission had sent is gone"
    )

    theirs = Tool(
        {**tool.environ, "SUBMIT_TF_JOB_STAGING": f"{real_cluster.hdfs_uri}/user/bob/staging"},
        tool.profile,
        tool.cwd,
    )
    stranger = theirs("submit", spec, "--user", "alice")
    assert stranger.status == 4
    assert (
        "error: alice cannot put the job's files where they are to be staged: " in stranger.stderr
    )
    assert "Permission denied: user=alice" in stranger.stderr

    state = load_state(Layout(real_cluster.home))
    assert state
    admin = [
        "java",
        "-cp",
        f"{real_cluster.client_conf}:{state.jars}/*",
        "org.apache.hadoop.hdfs.tools.DFSAdmin",
    ]
    storage.mkdirs("/tmp/full", 0o777)
    subprocess.run(
        [*admin, "-setSpaceQuota", "1m", "/tmp/full"], check=True, timeout=60, capture_output=True
    )
    full = Tool(
        {**tool.environ, "SUBMIT_TF_JOB_STAGING": f"{real_cluster.hdfs_uri}/tmp/full"},
        tool.profile,
        tool.cwd,
    )
    no_room = full("submit", spec)
    assert no_room.status == 9
    assert "error: there is no room for the job's files: " in no_room.stderr
    assert "Traceback" not in no_room.stderr
    assert storage.list_dir("/tmp/full/files") == []
    storage.remove("/tmp/full", recursive=True)

    (tool.cwd / "requirements.txt").write_text("--no-index\nnothing-of-the-kind==9.9\n")
    unresolved = tool(
        "submit", tool.spec(job, **content, python={"requirements": "requirements.txt"})
    )
    assert unresolved.status == 2
    assert "'requirements.txt' does not resolve" in unresolved.stderr
    assert "pip says: " in unresolved.stderr
    assert "nothing-of-the-kind==9.9" in unresolved.stderr
    assert tool("status", job).status == 5, "the name was never taken"


# --- interrupted ---


@pytest.fixture
def big(tmp_path: Path) -> HostFile:
    path = tmp_path / "big"
    with path.open("wb") as out:
        for _ in range(200):
            out.write(os.urandom(MIB))
    return HostFile(path, 200 * MIB, sha256_of(path), HostFile.stamp_of(path.stat()))


@pytest.fixture
def place(storage: Storage, real_cluster: SandboxInfo) -> Iterator[str]:
    job = f"broken-{secrets.token_hex(3)}"
    yield f"{real_cluster.hdfs_uri}{staged_of(storage, real_cluster, job)}/{'0' * 64}/big"
    storage.remove(staged_of(storage, real_cluster, job), recursive=True)


KILLED = """\
import os, signal, sys
from pathlib import Path
from submit_tf_job.jobspec.job import HostFile
from submit_tf_job.plan import Upload
from submit_tf_job.storage.staging import stage
from submit_tf_job.storage import open_storage
uri, path, conf, root = sys.argv[1:]
def told(sent):
    if sent.done > 150 * 1024 * 1024:
        os.kill(os.getpid(), signal.SIGKILL)
stage([Upload(uri, HostFile(Path(path), os.path.getsize(path), "0" * 64))], open_storage(root, hadoop_conf=Path(conf)), told=told)
"""


def test_the_upload_of_a_killed_client_is_done_again(
    real_cluster: SandboxInfo, storage: Storage, big: HostFile, place: str
) -> None:
    words = [place, str(big.path), str(real_cluster.client_conf), real_cluster.hdfs_uri]
    environ = {**os.environ, "HADOOP_USER_NAME": real_cluster.user}
    assert (
        subprocess.run([sys.executable, "-c", KILLED, *words], env=environ, check=False).returncode
        == -signal.SIGKILL
    )
    [sent] = stage([Upload(place, big)], storage, user=real_cluster.user)
    assert sent.sent == big.size
    same_as(storage, place, big)


def same_as(storage: Storage, place: str, big: HostFile) -> None:
    with big.path.open("rb") as file:
        for piece in storage.stream(place):
            assert piece == file.read(len(piece))
        assert file.read(1) == b""


# it is waited for
@pytest.mark.parametrize("daemon", ["datanode", pytest.param("namenode", marks=pytest.mark.long)])
def test_a_daemon_that_dies_in_the_middle(
    daemon: str,
    sandbox: Sandbox,
    real_cluster: SandboxInfo,
    session_environ: dict[str, str],
    tensorflow: Path,
    storage: Storage,
    big: HostFile,
    place: str,
) -> None:
    pid = next(row.pid for row in sandbox.status().daemons if row.name == daemon)
    assert pid
    killed: list[int] = []

    def kill(sent: Sent) -> None:
        if sent.done > 20 * MIB and not killed:
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    try:
        with pytest.raises((ClusterUnavailable, Refused)):
            stage([Upload(place, big)], storage, user=real_cluster.user, told=kill)
        assert killed
    finally:
        sandbox.up(SandboxOptions(container_path=(tensorflow / "bin",)), session_environ, print)
    [sent] = stage(
        [Upload(place, big)],
        open_storage(
            real_cluster.hdfs_uri, hadoop_conf=real_cluster.client_conf, user=real_cluster.user
        ),
    )
    assert sent.sent == big.size
    same_as(storage, place, big)


def test_a_file_that_changes_while_it_is_sent(
    real_cluster: SandboxInfo, storage: Storage, big: HostFile, place: str
) -> None:
    def change(sent: Sent) -> None:
        if 50 * MIB < sent.done < 60 * MIB:
            big.path.write_bytes(b"other")

    with pytest.raises(
        UsageError, match=r"big was changed after the job spec had been read; nothing was submitted"
    ):
        stage([Upload(place, big)], storage, user=real_cluster.user, told=change)
    assert storage.list_dir(place.rpartition("/")[0]) == []


# --- large and many ---


@pytest.mark.long
def test_two_gigabytes_and_ten_thousand_files(
    tool: Tool, real_cluster: SandboxInfo, storage: Storage
) -> None:
    job = f"much-{secrets.token_hex(3)}"
    for number in range(10_000):
        path = tool.cwd / "many" / f"{number // 100}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(number))
    with (tool.cwd / "huge.bin").open("wb") as out:
        for _ in range(2048):
            out.write(os.urandom(4096) * 256)
    program = (
        "import os; print('COUNT', sum(len(names) for _, _, names in os.walk('many')), "
        "os.path.getsize('huge.bin'))"
    )
    spec = tool.spec(
        job,
        command=["python3", "-c", program],
        strategy="single",
        roles={"worker": {"memory": "256Mi"}},
        files=["many", "huge.bin"],
    )
    peak = subprocess.run(
        ["/usr/bin/env", "python3", "-c", PEAK, *tool.argv("submit", spec)],
        env=tool.environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert int(peak.stdout.rsplit(maxsplit=1)[-1]) < 400 * 1024, "kB; 2 GB do not go through memory"
    assert f"COUNT 10000 {2048 * MIB}" in tool("logs", job).stdout
    assert tool("delete", job).status == 0
    assert not storage.exists(staged_of(storage, real_cluster, job))


PEAK = """\
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(done.returncode)
"""
