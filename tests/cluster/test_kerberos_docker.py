"""Kerberos and Docker together: containers with a login of their own."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import clusters
from tests.clusters import Cluster
from tests.tool import SUBMIT_S, Tool

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
