"""Files on the real HDFS: what reaches a task, what goes wrong on the way, and what is left behind
(nothing).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import signal
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clusters import Cluster
from tests.hdfs import Hdfs
from tests.tool import SUBMIT_S, Tool

pytestmark = pytest.mark.cluster

MIB = 1024 * 1024
ROLES = {"worker": {"instances": 2, "memory": "256Mi"}}
COMMANDS = "[gui_scripts]\nx = y:z\n\n[console_scripts]\n{}\n"
PROGRAM = """\
import json, os, sys, time, one, two
print("FOUND", json.dumps({
    "modes": [os.stat(f"data/in/{name}.sh").st_mode & 0o700 for name in ("run", "link")],
    "modules": [one.__file__, two.__file__],
    "places": [os.path.realpath(name) for name in ("tfjob-python", "large.bin")],
    "run": [os.popen(name).read().strip() for name in ("command-of-one a b", "of-two")]}), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
"""


def staged_of(hdfs: Hdfs, job: str) -> str:
    return f"/user/{hdfs.user}/.submit_tf_job/staging/files/{job}"


def wheel(path: Path, contents: dict[str, str]) -> None:
    with zipfile.ZipFile(path, "w") as out:
        for name, text in contents.items():
            out.writestr(name, text)


def a_tree(directory: Path) -> None:
    (directory / "run.sh").write_text("#!/bin/sh\n")
    (directory / "run.sh").chmod(0o755)
    (directory / "link.sh").symlink_to("run.sh")
    (directory / "large.bin").write_bytes(os.urandom(17 * MIB))
    (directory / "program.py").write_text(PROGRAM)
    with tarfile.open(directory / "data.tar.gz", "w:gz") as tar:
        for name in ("run.sh", "link.sh"):
            tar.add(directory / name, f"in/{name}")
    wheel(
        directory / "one-1.0-py3-none-any.whl",
        {
            "one.py": "import sys\nclass Main:\n    def run(): print(sys.argv[1:])\n",
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


def test_what_is_listed_reaches_every_task_and_goes_with_the_job(tool: Tool, hdfs: Hdfs) -> None:
    a_tree(tool.cwd)
    job = f"files-{secrets.token_hex(3)}"
    unpacked = {"src": "data.tar.gz", "dst": "data", "unpack": True}
    files = ["program.py", "large.bin", unpacked, {"wheels": ["two-*.whl"]}]
    content = {"strategy": "multi-worker", "roles": ROLES, "files": files}
    content |= {"python": {"wheels": ["one-*.whl"]}}
    spec = tool.spec(job, **content, command=["python3", "program.py", str(tool.cwd / "go")])
    first = tool("submit", spec, "--detach")
    assert first.status == 0, first.stderr
    assert re.search(r"uploading 1[78]\.\d MB for", first.stderr)
    places = [f"{staged_of(hdfs, job)}/{name}" for name in hdfs.list(staged_of(hdfs, job))]
    assert {hdfs.stat(place)["permission"] for place in places} == {"700"}
    there = [f"{place}/{name}" for place in places for name in hdfs.list(place)]
    [large] = [path for path in there if hdfs.stat(path)["length"] == 17 * MIB]
    before = hdfs.stat(large)
    tool.until(job, lambda found: found["state"] == "RUNNING")
    kept = tool("staging", "gc", "--older-than", "1s", "-o", "json").json
    assert job in [item["name"] for item in kept["kept"]]
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
        assert (one["run"], one["modes"]) == (["['a', 'b']", "of two"], [0o700, 0o700])
        assert [module.split("/")[-2:] for module in one["modules"]] == [
            ["site", "one.py"],
            [".tfjob-packages", "two.py"],
        ]
    assert found[0]["places"] == found[1]["places"], "unpacked once on a node"
    again = tool("submit", spec, "--detach")
    assert again.status == 0, again.stderr
    assert "uploading" not in again.stderr, "nothing has changed"
    assert hdfs.stat(large) == before
    assert tool("delete", job, "--force").status == 0
    assert not hdfs.exists(staged_of(hdfs, job))


def test_one_clear_message_and_nothing_left(tool: Tool, real_cluster: Cluster, hdfs: Hdfs) -> None:
    job = f"bad-{secrets.token_hex(3)}"
    (tool.cwd / "large.bin").write_bytes(os.urandom(2 * MIB))
    one = {"strategy": "single", "roles": {"worker": {"memory": "256Mi"}}}
    spec = tool.spec(job, command="true", files=["large.bin"], **one)
    refused = tool("submit", spec, "--set", "queue=nowhere")
    assert refused.status == 9, refused.stderr
    assert not hdfs.exists(staged_of(hdfs, job)), "what a refused submission had sent is gone"

    def staging(path: str) -> Tool:
        place = f"{real_cluster.hdfs_uri}{path}"
        return Tool({**tool.environ, "SUBMIT_TF_JOB_STAGING": place}, tool.profile, tool.cwd)

    stranger = staging("/user/bob/staging")("submit", spec, "--user", "alice")
    assert stranger.status == 4
    where = "error: alice cannot put the job's files where they are to be staged: "
    assert where in stranger.stderr
    assert "Permission denied: user=alice" in stranger.stderr

    hdfs.mkdirs("/tmp/full", 0o777)
    hdfs.limit("/tmp/full", space=MIB)
    no_room = staging("/tmp/full")("submit", spec)
    assert no_room.status == 9
    assert "error: there is no room for the job's files: " in no_room.stderr
    assert hdfs.list("/tmp/full/files") == []
    hdfs.remove("/tmp/full")

    assert tool.status(job)["queue"] == "nowhere", "there is no newer run than the refused one"


# --- interrupted ---
SENT_MIB = 300


@pytest.fixture
def sending(tool: Tool, hdfs: Hdfs) -> Iterator[Sending]:
    """A job whose file takes a while to send."""
    job = f"broken-{secrets.token_hex(3)}"
    with (tool.cwd / "big.bin").open("wb") as out:
        for _ in range(SENT_MIB):
            out.write(os.urandom(MIB))
    content = {"strategy": "single", "command": "true", "files": ["big.bin"]}
    spec = tool.spec(job, **content, roles={"worker": {"memory": "256Mi"}})
    yield Sending(tool, hdfs, spec, staged_of(hdfs, job))
    if hdfs.exists(staged_of(hdfs, job)):
        hdfs.remove(staged_of(hdfs, job))


@dataclass
class Sending:
    """A submission whose file is on its way."""

    tool: Tool
    hdfs: Hdfs
    spec: Path
    place: str

    def files(self) -> dict[str, int]:
        """Return what is staged: path and length, also of what is still written."""
        names = self.hdfs.list(self.place) if self.hdfs.exists(self.place) else []
        directories = [name for name in names if not name.endswith(".used")]
        if not directories:
            return {}
        [directory] = directories
        above = f"{self.place}/{directory}"
        paths = [f"{above}/{name}" for name in self.hdfs.list(above)]
        return {path: int(self.hdfs.stat(path)["length"]) for path in paths}

    def started(self, mib: int) -> subprocess.Popen[str]:
        """Start to submit; return when so much has been written.

        The client stands still during a look, which may take longer than the rest of the upload.
        """
        process = self.tool.start("submit", self.spec, "--detach")
        deadline = time.monotonic() + SUBMIT_S
        while True:
            process.send_signal(signal.SIGSTOP)
            written = sum(self.files().values())
            if written >= mib * MIB:
                return process
            process.send_signal(signal.SIGCONT)
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, written
            time.sleep(0.05)

    def is_whole(self) -> None:
        """Assert that the file is there, byte for byte."""
        content = (self.spec.parent / "big.bin").read_bytes()
        [path] = [path for path, size in self.files().items() if size == len(content)]
        assert hashlib.sha256(self.hdfs.read(path)).digest() == hashlib.sha256(content).digest()

    def is_done_again(self) -> None:
        """Give the command again."""
        again = self.tool("submit", self.spec, "--detach")
        assert again.status == 0, again.stderr
        self.is_whole()


def test_the_upload_of_a_killed_client_is_done_again(sending: Sending) -> None:
    process = sending.started(100)
    process.kill()
    process.communicate()
    sending.is_done_again()


@pytest.mark.alone
# it is waited for
@pytest.mark.parametrize("daemon", ["datanode", pytest.param("namenode", marks=pytest.mark.long)])
def test_a_daemon_that_dies_in_the_middle(
    sending: Sending, real_cluster: Cluster, daemon: str
) -> None:
    process = sending.started(20)
    os.kill(real_cluster.pid_of(daemon), signal.SIGKILL)
    process.send_signal(signal.SIGCONT)
    said = process.communicate(timeout=SUBMIT_S)[1]
    assert process.returncode in (7, 9), said
    assert "Traceback" not in said
    assert real_cluster.heal() == [daemon]
    sending.is_done_again()


def test_a_file_that_changes_while_it_is_sent(sending: Sending) -> None:
    process = sending.started(50)
    (sending.spec.parent / "big.bin").write_bytes(b"other")
    process.send_signal(signal.SIGCONT)
    said = process.communicate(timeout=SUBMIT_S)[1]
    assert process.returncode == 2, said
    assert "big.bin was changed after the job spec had been read; nothing was submitted" in said
    assert sending.files() == {}


# --- large and many ---


@pytest.mark.long
def test_two_gigabytes_and_ten_thousand_files(tool: Tool, hdfs: Hdfs) -> None:
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
    one = {"strategy": "single", "roles": {"worker": {"memory": "256Mi"}}}
    command = ["python3", "-c", program]
    spec = tool.spec(job, command=command, files=["many", "huge.bin"], **one)
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
    assert not hdfs.exists(staged_of(hdfs, job))


PEAK = """\
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(done.returncode)
"""
