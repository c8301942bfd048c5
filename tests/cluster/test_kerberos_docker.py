"""Kerberos and Docker together: containers with a login of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import clusters
from tests.clusters import Cluster
from tests.hdfs import by_library
from tests.tool import SUBMIT_S, Tool, application_master, held, release

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a Docker Engine"),
]

USER, JOB = "nobody", "nobody/localhost@SANDBOX.TEST"
IMAGE = "submit_tf_job/base:1"
# What runs in each container: 3 MB to HDFS and back, without Java.
PROGRAM = """
import json, os, stat, sys
sys.path.insert(0, "bootstrap.zip")
from hdfs_native import Client
from submit_tf_job.container.tokens import Tokens

path = "/user/nobody/" + os.environ["TFJOB_NAME"] + os.environ["TFJOB_ROLE"]
with Client().create(path) as file:
    file.write(b"x" * 3_000_000)
found = Client().get_file_info(path)
tokens = os.stat("container_tokens")
print("SAID " + json.dumps({
    "owner": found.owner,
    "bytes": len(Client().read(path).read()),
    "uid": [os.getuid(), tokens.st_uid],
    "mode": stat.S_IMODE(tokens.st_mode),
    "in_container": os.path.exists("/.dockerenv"),
    "tokens": len(Tokens(os.environ).summaries),
    "keytab": os.environ.get("KRB5_CLIENT_KTNAME", ""),
}))
"""


@pytest.fixture
def tool(secure_cluster: Cluster, tmp_path: Path) -> Iterator[Tool]:
    """The tool, with the profile of this cluster."""
    made = Tool(clusters.environment(), secure_cluster.profile, tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    yield made
    made.tidy()


def test_jobs_with_keytabs_log_in_in_containers(tool: Tool, secure_cluster: Cluster) -> None:
    """By tokens alone: tests/promises/test_secure.py."""
    keytabs = Path(secure_cluster.info["kerberos"]["keytabs"])
    shutil.copy(keytabs / f"{USER}.localhost.keytab", tool.cwd / "mine.keytab")
    (tool.cwd / "mine.keytab").chmod(0o600)
    local = {"principal": JOB, "keytab": "mine.keytab", "login": "always"}
    small = {"memory": "256Mi"}
    content: dict[str, Any] = {
        "image": IMAGE,
        "strategy": "multi-worker",
        "hadoop": {"conf": "inline"},
        "command": ["python", "program.py"],
        "files": ["program.py"],
        "roles": {"chief": small, "worker": small},
    }
    jobs = {
        "kd-node": tool.spec("kd-node", network="bridge", **content),
        "kd-local": tool.spec("kd-local", network="jobs", kerberos=local, **content),
    }
    for spec in jobs.values():
        assert tool("submit", spec, "--detach").status == 0
    on_node = yaml.safe_load(secure_cluster.profile_file.read_text())["job"]["kerberos"]["keytab"]
    for name in jobs:
        done = tool("wait", name, "-o", "json", timeout=SUBMIT_S)
        assert (done.status, done.json["confirmed"]) == (0, True), done.json["root_cause"]
        tool.collected(name)
        logs = tool("logs", name).stdout
        lines = [line.partition("SAID ")[2] for line in logs.splitlines() if "SAID " in line]
        tasks = [json.loads(line) for line in lines]
        assert len(tasks) == 2, logs
        for task in tasks:
            assert (task["owner"], task["bytes"], task["in_container"]) == (USER, 3_000_000, True)
            assert (task["uid"], task["mode"], task["tokens"]) == ([65534, 65534], 0o600, 0)
            if name == "kd-node":
                assert task["keytab"] == "FILE:" + on_node.removeprefix("file://")
        assert logs.count(f"{JOB} is logged in from its keytab until") == 2


@pytest.mark.alone
@pytest.mark.long
def test_a_training_bears_kills_with_kerberos_docker_and_two_resource_managers(
    tool: Tool, secure_cluster: Cluster
) -> None:
    """A container, the active ResourceManager, and the ApplicationMaster, one after the other; the
    outputs are there, stored by tokens.
    """
    name, place = "kd-kills", f"/user/{USER}/kd-kills"
    spec = tool.spec(
        name,
        image=IMAGE,
        strategy="multi-worker",
        network="bridge",
        hadoop={"conf": "inline"},
        command=f"{held(name)}; echo $TFJOB_GENERATION > $TFJOB_OUTPUT_M/model",
        retries=3,
        stop_grace="2s",
        lifetime="1h",
        outputs={"m": {"uri": f"hdfs://{place}", "upload": True, "by": "every-task"}},
        roles={"worker": {"memory": "256Mi", "instances": 2}},
    )
    assert tool("submit", spec, "--detach").status == 0
    tool.until(name, lambda seen: seen["state"] == "RUNNING")
    tasks = tool("describe", name, "-o", "json").json["task_list"]
    container = next(task["container_id"] for task in tasks if task["task"] == "worker-1")
    engine = ["docker", "-H", secure_cluster.info["docker"]["host"]]
    subprocess.run([*engine, "kill", container], check=True, timeout=120)
    tool.until(name, lambda seen: seen["state"] == "RUNNING" and seen["retries"]["used"] == 1)
    secure_cluster.kill(secure_cluster.active_by_ticket(tool.cwd / "tickets"))
    seen = tool.until(name, lambda seen: seen["state"] == "RUNNING")
    assert seen["retries"]["used"] == 1, "a failover costs nothing"
    os.kill(application_master(name), signal.SIGKILL)
    tool.until(name, lambda seen: seen["state"] == "RUNNING", timeout=SUBMIT_S)
    release(name, tasks=2)
    done = tool("wait", name, "-o", "json", timeout=SUBMIT_S)
    print(done.json["state"], done.json["retries"], done.json["reason"], done.json["warnings"])
    assert (done.status, done.json["confirmed"]) == (0, True), done.json
    length = "result = [client.get_file_info(p).length for p in {!r}]"
    paths = [f"{place}/worker-{task}/model" for task in (0, 1)]
    assert by_library(secure_cluster, length.format(paths)) == [2, 2]
