"""Inputs and outputs on the real HDFS: two examples with TensorFlow, what is refused before the
POST, and every way to reach HDFS.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import SPECS, bare_python, with_hadoop
from tests.clusters import Cluster
from tests.hdfs import Hdfs, environ_of, nameservice
from tests.tool import SUBMIT_S, Tool, gone, kill, processes_of

pytestmark = pytest.mark.cluster

RECORDS = "/data/digits-tfrecord"
MODEL = "/models/digits-tfrecord"
MARK = ".submit_tf_job"  # of each stored output
DOWN: dict[str, Any] = {"do": "download", "name": "d", "to": "/", "file": "/", "share": None}
TRAINING = 1437  # of scikit-learn's 1,797 digits
ALL = 1797


@pytest.fixture(scope="module")
def records(real_cluster: Cluster, hdfs: Hdfs, tensorflow: Path) -> str:
    """The digits as TFRecords on HDFS: six files to learn from, one to test with."""
    environ = {**environ_of(real_cluster), "TF_CPP_MIN_LOG_LEVEL": "3"}
    argv = [tensorflow / "bin/python", SPECS / "tfrecord/put_records.py", f"hdfs://{RECORDS}"]
    subprocess.run([str(word) for word in argv], env=environ, check=True, timeout=120)
    assert len(hdfs.list(RECORDS)) == 7
    return RECORDS


def kill_one_when(hdfs: Hdfs, job: str, task: str, directory: str) -> str:
    """Kill the program of a task as soon as a directory holds something; return what."""
    deadline = time.monotonic() + SUBMIT_S
    while time.monotonic() < deadline:
        names = (
            [name for name in hdfs.list(directory) if name.startswith("epoch-")]
            if hdfs.exists(directory)
            else []
        )
        for pid, command in processes_of(job).items() if names else ():
            environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if (
                f"TFJOB_INSTANCE={task}".encode() in environ
                and "train.py" in command
                and b"TFJOB_ATTEMPT=0" in environ
            ):
                os.kill(pid, signal.SIGKILL)
                return names[-1]
        time.sleep(0.1)
    raise AssertionError("no checkpoint came")


@pytest.mark.long
def test_a_training_is_killed_and_goes_on_from_its_checkpoint_and_its_model_is_applied_to_shards(
    tool: Tool, hdfs: Hdfs, records: str
) -> None:
    tool.jobs += ["tfrecord", "batch-inference"]
    checkpoints = f"{MODEL}-checkpoints"
    command = 'command=[python, train.py, --epochs, "12", --steps, "30"]'
    epochs = ("--set", command, "--set", "roles.worker.instances=1")
    spec = SPECS / "tfrecord.yaml"
    process = tool.start("submit", spec, *epochs)
    kill_one_when(hdfs, "tfrecord", "worker-0", checkpoints)
    _, said = process.communicate(timeout=SUBMIT_S)
    assert process.returncode == 1, said
    assert "worker-0" in said
    gone("tfrecord")
    assert not hdfs.exists(MODEL)  # nothing half done
    left = max(int(name[6:]) for name in hdfs.list(checkpoints) if name.startswith("epoch-"))
    assert 0 < left < 12

    again = tool("submit", spec, *epochs, "-o", "json")
    assert again.status == 0, again.stderr + again.stdout
    metrics = json.loads(hdfs.read(f"{MODEL}/metrics.json"))
    assert (metrics["epochs"], metrics["resumed_from"]) == (12, left)
    assert metrics["test_accuracy"] > 0.85
    assert hdfs.list(MODEL) == [MARK, "metrics.json", "model.keras"]
    shares = [
        int(re.findall(r"(\d+) files are this task's", tool("logs", "tfrecord", task).stdout)[0])
        for task in ("chief-0", "worker-0")
    ]
    assert shares == [3, 3]

    done = tool("submit", SPECS / "batch-inference.yaml", "--set", "roles.infer.instances=2")
    assert done.status == 0, done.stderr + done.stdout
    found: dict[str, list[str]] = {}
    for task in hdfs.list("/predictions/digits"):
        for file in hdfs.list(f"/predictions/digits/{task}"):
            if file == MARK:
                continue
            assert file not in found
            content = hdfs.read(f"/predictions/digits/{task}/{file}")
            found[file] = content.decode().splitlines()[1:]
    assert sorted(found) == sorted(name.replace(".tfrecord", ".csv") for name in hdfs.list(records))
    rows = [row.split(",") for lines in found.values() for row in lines]
    assert (len(rows), sum(map(len, found.values())) - len(found["test.csv"])) == (ALL, TRAINING)
    assert sum(label == predicted for label, predicted in rows) / ALL > 0.85
    assert hdfs.list("/predictions/digits") == ["infer-0", "infer-1"]


@pytest.mark.long
def test_tensorflow_itself_uses_hdfs_and_a_killed_training_keeps_its_curves(
    tool: Tool, hdfs: Hdfs, records: str, hadoop_home: Path
) -> None:
    """specs/tensorflow-io.yaml, as docs/data.md runs it on a sandbox."""
    tool.jobs.append("tensorflow-io")
    longer = (
        "--set",
        f"inputs.data=hdfs://{records}",
        "--set",
        "command=python train.py --epochs 30",
    )
    submit = ("submit", SPECS / "tensorflow-io.yaml", *with_hadoop(hadoop_home), *longer)
    process = tool.start(*submit)
    saved = "/models/digits-io/checkpoints/chief/checkpoint"
    tool.until("tensorflow-io", lambda _: hdfs.exists(saved), timeout=SUBMIT_S)
    kill("tensorflow-io", "chief-0")
    process.communicate(timeout=SUBMIT_S)
    assert process.returncode == 1
    gone("tensorflow-io")
    [events] = hdfs.list("/models/digits-io/events/train")
    assert b"epoch_loss" in hdfs.read(f"/models/digits-io/events/train/{events}")

    again = tool(*submit)
    assert again.status == 0, again.stderr
    printed = tool("logs", "tensorflow-io", "chief").stdout
    epochs = json.loads(printed.partition("epochs of this run: ")[2].partition("\n")[0])
    assert (epochs[0] > 1, epochs[-1]) == (True, 30)
    assert "saved_model.pb" in hdfs.list("/models/digits-io/model")


@pytest.fixture(scope="module")
def place(hdfs: Hdfs) -> Iterator[str]:
    """A directory with some files, one of which is somebody else's."""
    root = f"/tmp/data-{os.getpid()}"
    hdfs.mkdirs(f"{root}/in", 0o755)
    for number in range(3):
        hdfs.write(f"{root}/in/part {number}.txt", f"row {number}\n".encode(), mode=0o644)
    yield root
    hdfs.remove(root)


def test_what_is_wrong_is_said_before_anything_is_posted(
    tool: Tool, real_cluster: Cluster, hdfs: Hdfs, place: str
) -> None:
    hdfs.mkdirs(f"{place}/roots", 0o700)
    hdfs.write(f"{place}/roots/x", b"x")
    spec = tool.spec(
        "refused",
        command="true",
        strategy="multi-worker",
        roles={"worker": {"memory": "256Mi", "instances": 5}},
        inputs={
            "few": {"uri": f"hdfs://{place}/in/*.txt", "shard": "files"},
            "gone": f"hdfs://{place}/nothing",
            "theirs": f"hdfs://{place}/roots/x",
        },
        outputs={"theirs": f"hdfs://{place}/roots/out", "new": f"hdfs://{place}/new/deep"},
    )
    done = tool("submit", spec, "--user", "alice", "-o", "json")
    assert done.status == 2, done
    problems = json.loads(done.stderr)["details"]["problems"]
    messages = {problem["path"]: problem["message"] for problem in problems}
    lines = spec.read_text().splitlines()
    for problem in problems:
        line = lines[problem["line"] - 1].strip()
        assert line.startswith(problem["path"].partition(".")[2])
    few = f"hdfs://{place}/in/*.txt: 3 files are too few for the 5 tasks"
    assert messages["inputs.few"].startswith(few)
    gone = f"hdfs://{place}/nothing is not there, as alice sees it"
    assert messages["inputs.gone"] == gone
    rights = {"inputs.theirs": "EXECUTE", "outputs.theirs": "EXECUTE", "outputs.new": "WRITE"}
    for path, right in rights.items():
        assert f"alice is not allowed there: {real_cluster.hdfs_uri}" in messages[path]
        assert f"Permission denied: user=alice, access={right}" in messages[path]
    assert tool("status", "refused", "--user", "alice").status == 5
    assert hdfs.list(place) == ["in", "roots"]


@pytest.fixture(scope="module")
def conf(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration with a nameservice whose first NameNode is dead, and viewfs over it."""
    return nameservice(real_cluster, tmp_path_factory.mktemp("conf"))


def copied(python: Path | str, environ: dict[str, str], step: dict[str, Any]) -> dict[str, Any]:
    """Run the copying as a task does, under some Python; return its last word."""
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [str(python), "-m", "submit_tf_job.container.data.transfer"],
        input=json.dumps({"steps": [step], "patience_s": 5}),
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": root, **environ},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_task_copies_without_a_library(
    real_cluster: Cluster, hdfs: Hdfs, place: str, conf: Path, tmp_path: Path
) -> None:
    """By all four kinds of addresses; by the library: tests/promises/test_data.py."""
    python, big = bare_python(tmp_path), os.urandom(9_000_000)
    web = real_cluster.namenode_url.replace("http://", "webhdfs://").rstrip("/")
    roots = {real_cluster.hdfs_uri.rstrip("/"): real_cluster.client_conf, "hdfs://ns1": conf}
    roots |= {"viewfs:///all": conf, web: real_cluster.client_conf}
    up = {"do": "upload", "name": "m", "overwrite": False, "task": "chief-0", "run": "s"}
    for number, (root, configured) in enumerate(roots.items()):
        own = {"HADOOP_CONF_DIR": str(configured), "HADOOP_USER_NAME": real_cluster.user}
        to, local, target = tmp_path / f"down{number}", tmp_path / f"up{number}", f"{place}/up"
        step = {**DOWN, "uri": f"{root}{place}/in/*.txt", "to": str(to), "file": f"{to}.list"}
        assert copied(python, own, step) == {"t": "done", "files": 3, "bytes": 18}, root
        rows = sorted(path.read_text() for path in to.iterdir())
        assert rows == ["row 0\n", "row 1\n", "row 2\n"]

        (local / "deep").mkdir(parents=True)
        (local / "deep/big").write_bytes(big)
        (local / "empty").touch()
        up |= {"uri": f"{root}{target}", "from": str(local), "mark": f"x{number}"}
        assert copied(python, own, up) == {"t": "done", "files": 2, "bytes": len(big)}
        assert hdfs.read(f"{target}/deep/big") == big
        other, beside = {**up, "run": "other"}, f"the output is at {target}.failed-other"
        why = f": exists already; set overwrite: true to replace it; {beside}"
        assert copied(python, own, other)["why"].endswith(why)
        (local / "empty").unlink()
        assert copied(python, own, {**other, "overwrite": True})["t"] == "done"
        assert hdfs.list(target) == [MARK, "deep"]
        hdfs.remove(f"{target}/{MARK}")  # then it is no output of ours, and goes to the trash
        assert copied(python, own, {**up, "overwrite": True})["t"] == "done"
        trash = f"/user/{real_cluster.user}/.Trash/Current{target}"
        assert hdfs.read(f"{trash}/deep/big") == big
        for path in (target, f"{target}.failed-other", trash):
            hdfs.remove(path)
    assert [name for name in hdfs.list(place) if name.startswith(".")] == []

    stranger = {"HADOOP_CONF_DIR": str(real_cluster.client_conf), "HADOOP_USER_NAME": "alice"}
    hdfs.mkdirs(f"{place}/mine", 0o700)
    for step in (DOWN, up):
        refused = copied(python, stranger, {**step, "uri": f"hdfs://{place}/mine/x"})["why"]
        assert "Permission denied: user=alice, access=" in refused
        assert "\n" not in refused
