"""`stop --grace`: the tasks save and end before YARN stops the job."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.clusters import Cluster
from tests.hdfs import Hdfs
from tests.tool import SUBMIT_S, Tool, gone, processes_of, until

pytestmark = pytest.mark.cluster

# Says when it begins to save, and that it has; takes much longer than YARN's own 250 ms.
PROGRAM = """
import os, signal, sys, time
where, took_s = sys.argv[1], float(sys.argv[2])
task = os.environ["TFJOB_ROLE"] + "-" + os.environ["TFJOB_INDEX"]
def save(_number, _frame):
    open(os.path.join(where, task + ".begun"), "w").close()
    time.sleep(took_s)
    open(os.path.join(where, task + ".saved"), "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
open(os.path.join(where, task + ".runs"), "w").close()
time.sleep(600)
"""
SMALL = {"memory": "256Mi"}


def running(tool: Tool, name: str, took_s: float, roles: dict[str, Any], **keys: object) -> Path:
    """Submit a job that takes so long to save, and wait until its commands run."""
    program, where = tool.cwd / "train.py", tool.cwd / "saved"
    program.write_text(PROGRAM)
    where.mkdir()
    spec = tool.spec(
        name,
        files=[str(program)],
        command=f"exec python3 train.py {where} {took_s}",
        roles=roles,
        **keys,
    )
    assert tool("submit", spec, "--detach").status == 0
    count = sum(role.get("instances", 1) for role in roles.values())
    until(lambda: len(list(where.glob("*.runs"))) >= count, within_s=SUBMIT_S)
    return where


def saved(where: Path) -> list[str]:
    """List the tasks that have saved."""
    return sorted(path.stem for path in where.glob("*.saved"))


def test_tasks_save_before_the_job_is_stopped(tool: Tool, real_cluster: Cluster) -> None:
    server = {**SMALL, "kind": "serves", "command": f"exec python3 train.py {tool.cwd}/saved 4"}
    roles = {"chief": SMALL, "worker": {**SMALL, "instances": 2}, "server": server}
    where = running(tool, "saves", 4, roles, strategy="custom")
    stopped = tool("stop", "saves", "--grace", "2m", "-o", "json")
    version = requests.get(f"{real_cluster.rm_url}/app/v1/services/version", timeout=30).json()[
        "hadoop_version"
    ]
    if version.startswith(("3.1.", "3.2.")):
        assert stopped.status != 0, stopped
        assert "This Hadoop cannot signal a container" in stopped.stderr, stopped
        assert tool("stop", "saves").status == 0
        return
    assert stopped.status == 0, stopped
    assert "had not ended after" not in stopped.stderr, "not the whole time"
    assert (stopped.json["state"], stopped.json["confirmed"]) == ("STOPPED", True)
    # the others may need the server to save
    assert saved(where) == ["chief-0", "worker-0", "worker-1"]
    assert "its tasks have 120 s to save and end" in stopped.stderr
    gone("saves")
    assert not processes_of("saves")


@pytest.mark.long
@pytest.mark.parametrize("retries", [0, 3])
def test_a_stop_whose_client_dies_ends_the_job(tool: Tool, retries: int) -> None:
    keys = {"retries": retries} if retries else {}
    roles = {"chief": SMALL, "worker": SMALL}
    where = running(tool, "orphaned", 2, roles, strategy="multi-worker", **keys)
    client = tool.start("stop", "orphaned", "--grace", "5m")
    until(lambda: list(where.glob("*.begun")))
    os.kill(client.pid, signal.SIGKILL)
    client.communicate()
    done = tool("wait", "orphaned", "-o", "json")
    assert (done.status, done.json["state"]) == (3, "STOPPED"), done
    assert saved(where) == ["chief-0", "worker-0"]
    gone("orphaned")


# what a task saves when it gets SIGTERM; the file names are those of modules that Python needs
SAVES = "trap 'sleep 4; echo whole > $TFJOB_OUTPUT_M/model; exit 0' TERM; sleep 600 & wait"
OWN = {"PYTHONPATH": "own", "PYTHONHOME": "/no/such"}


@pytest.mark.parametrize("ends_by", ["lifetime", "stop"])
def test_outputs_are_stored_when_the_job_is_stopped(tool: Tool, hdfs: Hdfs, ends_by: str) -> None:
    """Whatever files and variables for Python the job has of its own."""
    own = tool.cwd / "own"
    own.mkdir()
    shadows = [f"{module}.py" for module in ("json", "queue", "sitecustomize", "socket")]
    for shadow in shadows:
        (own / shadow).write_text("raise SystemExit(9)")
    name, place = f"stored-{ends_by}", f"/tmp/stored-{ends_by}-{os.getpid()}"
    output = {"uri": f"hdfs://{place}", "upload": True, "on_failure": "upload", "by": "every-task"}
    spec = tool.spec(
        name,
        strategy="multi-worker",
        hadoop={"conf": "inline"},
        files=["own", *({"src": f"own/{shadow}", "dst": shadow} for shadow in shadows)],
        env=OWN,
        command=SAVES,
        roles={"worker": {**SMALL, "instances": 2}},
        outputs={"m": output},
        stop_grace="2m",
        **({"lifetime": "4m"} if ends_by == "lifetime" else {}),
    )
    assert tool("submit", spec, "--detach").status == 0
    if ends_by == "stop":
        tool.until(name, lambda status: status["state"] == "RUNNING", timeout=SUBMIT_S)
        assert tool.stop(name, "-o", "json").json["state"] == "STOPPED"
    done = tool("wait", name, "-o", "json")
    assert (done.status, done.json["state"]) == (3, "STOPPED"), done
    assert [hdfs.read(f"{place}/worker-{task}/model") for task in (0, 1)] == [b"whole\n"] * 2
    if ends_by == "lifetime":  # a minute after the tasks, `wait` ends the application
        saved = "its lifetime was over but for `stop_grace`, in which its tasks saved and ended"
        assert done.json["reason"] == saved, done
    hdfs.remove(place)
    gone(name)
