"""Command lines of other systems, converted and run on the real cluster to their verdict.

The programs are short and print what programs of that system read.
"""

from __future__ import annotations

import json
import time
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.hdfs import Hdfs
from tests.tool import (
    Tool,
    gone,
)

pytestmark = pytest.mark.cluster

IMAGE = "library/python:3.11"
FOR_EVER = "sleep 3600"
SHOW = """\
import json, os
def show(*names):
    print("SEEN", json.dumps({name: os.environ.get(name) for name in names}))
"""


def convert(tool: Tool, job: str, *words: str) -> str:
    """Convert a command line; return the name of the job spec's file."""
    tool.jobs.append(job)
    done = tool("convert", "--", *words)
    assert done.status == 0, done.stderr
    assert done.stderr.endswith(f"then: submit_tf_job submit {job}.yaml\n")
    (tool.cwd / f"{job}.yaml").write_text(done.stdout)
    return f"{job}.yaml"


def submit(tool: Tool, job: str, file: str) -> dict[str, Any]:
    """Submit a job spec; return the job's status at its end."""
    done = tool("submit", file, "-o", "json")
    assert done.status == 0, done.stderr
    gone(job)
    return done.json


def seen(tool: Tool, job: str, task: str) -> dict[str, Any]:
    """Return the variables that a task printed."""
    lines = tool("logs", job, task).stdout.splitlines()
    (line,) = [line for line in lines if "SEEN " in line]
    found: dict[str, Any] = json.loads(line.partition("SEEN ")[2])
    return found


def page(url: str) -> bytes:
    """Return a page once its server listens; TensorBoard takes seconds to start."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return bytes(answer.read())
        except OSError:
            assert time.monotonic() < deadline, url
            time.sleep(0.5)


def test_submarine_s_flags_with_tensorboard(tool: Tool, tmp_path: Path) -> None:
    logs, go = tmp_path / "logs", tmp_path / "go"
    logs.mkdir()
    (tool.cwd / "show.py").write_text(f"{SHOW}show('_TASK_TYPE', '_TASK_INDEX', 'TF_CONFIG')\n")
    run = f"until [ -e {go} ]; do sleep 0.2; done; python3 show.py"
    file = convert(
        tool,
        "submarine-flags",
        *("yarn", "jar", "submarine.jar", "job", "run", "--name", "submarine-flags"),
        *("--docker_image", IMAGE, "--checkpoint_path", str(logs)),
        *("--num_workers", "2", "--worker_resources", "memory=256M,vcores=1"),
        *("--worker_launch_cmd", run, "--localization", "./show.py:."),
        *("--num_ps", "1", "--ps_resources", "memory=256M", "--ps_launch_cmd", FOR_EVER),
        *("--tensorboard", "--tensorboard_resources", "memory=1G,vcores=1", "--verbose"),
    )
    assert tool("submit", file, "--detach").status == 0

    found = tool.until("submarine-flags", lambda status: status["links"])
    assert b"TensorBoard" in page(found["links"][0]["url"])
    go.touch()
    assert tool("wait", "submarine-flags").status == 0
    gone("submarine-flags")
    chief = seen(tool, "submarine-flags", "chief")
    config = json.loads(chief["TF_CONFIG"])
    assert (chief["_TASK_TYPE"], chief["_TASK_INDEX"]) == ("master", "0")
    assert {role: len(hosts) for role, hosts in config["cluster"].items()} == {
        "master": 1,
        "worker": 1,
        "ps": 1,
    }
    assert (config["environment"], config["task"]) == ("cloud", {"type": "master", "index": 0})
    assert seen(tool, "submarine-flags", "worker")["_TASK_TYPE"] == "worker"


def test_yarn_8220_s_flags(tool: Tool) -> None:
    check = r"echo GOT \$A, \$TF_CONFIG"
    parts = [
        {"name": "master", "launch_command": check},
        {"name": "worker", "launch_command": check},
        {"name": "ps", "launch_command": FOR_EVER},
    ]
    shared = {"number_of_containers": 1, "resource": {"cpus": 1, "memory": "256"}}
    body = {"name": "theirs", "components": [{**part, **shared} for part in parts]}
    (tool.cwd / "theirs.json").write_text(json.dumps(body))
    file = convert(
        tool,
        "yarn-flags",
        *("python", "submit_tf_job.py", "--input_spec", "theirs.json", "--docker_image", IMAGE),
        *("--job_name", "yarn-flags", "--env", "A=1,2,B=3", "--distributed"),
    )
    found = submit(tool, "yarn-flags", file)
    assert (found["state"], found["confirmed"]) == ("SUCCEEDED", True)
    output = tool("logs", "yarn-flags", "chief").stdout
    assert "GOT 1,2, " in output
    assert '"environment":"cloud"' in output


def test_hbox_s_command_line(tool: Tool, hdfs: Hdfs) -> None:
    """As the demo of XLearning: worker 0 alone writes the output."""
    (tool.cwd / "demo.py").write_text(
        f"{SHOW}import sys, time\n"
        "if os.environ['TF_ROLE'] == 'ps': time.sleep(3600)\n"
        "assert sys.argv[1:] == ['--steps', '3 4'], sys.argv\n"
        "show('TF_ROLE', 'TF_INDEX', 'TF_CLUSTER_DEF', 'LANG', 'TF_CONFIG')\n"
        "if os.environ['TF_INDEX'] == '0': open('model/saved', 'w').write('x')\n"
    )
    output = f"/tmp/hbox-{uuid.uuid4().hex}"
    file = convert(
        tool,
        "hbox-flags",
        *("hbox-submit", "--app-type", "tensorflow", "--app-name", "hbox_flags"),
        *("--files", "demo.py", "--worker-num", "2", "--worker-memory", "256M"),
        *("--output", f"{output}#model", "--ps-num", "1", "--ps-memory", "256"),
        *("--conf", "hbox.container.env.LANG=C.UTF-8"),
        *("--conf", f"hbox.docker.image={IMAGE}", "python3", "demo.py", "--steps", "3 4"),
    )
    found = submit(tool, "hbox-flags", file)
    assert (found["state"], found["confirmed"]) == ("SUCCEEDED", True)
    worker = seen(tool, "hbox-flags", "worker-1")
    assert (worker["TF_ROLE"], worker["TF_INDEX"], worker["LANG"]) == ("worker", "1", "C.UTF-8")
    cluster = json.loads(worker["TF_CLUSTER_DEF"])
    assert cluster == json.loads(worker["TF_CONFIG"])["cluster"]
    assert [len(cluster[role]) for role in ("worker", "ps")] == [2, 1]
    assert hdfs.list(output) == ["worker-0"]
    assert hdfs.list(f"{output}/worker-0") == ["saved"]
    hdfs.remove(output)
