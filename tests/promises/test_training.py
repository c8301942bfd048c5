"""The README's job: digits on HDFS, trained by three tasks on a real YARN; and by parameter
servers.
"""

from __future__ import annotations

import pytest

from tests.clusters import Cluster
from tests.promises.training import SPECS, trained
from tests.tool import Tool, gone

pytestmark = pytest.mark.cluster


def test_digits_on_hdfs_are_trained_by_three_tasks(
    tool: Tool, simple: Cluster, unique: str
) -> None:
    trained(tool, simple, f"digits-{unique}")


def test_parameter_servers_train_and_are_ended(tool: Tool, simple: Cluster, unique: str) -> None:
    name = f"ps-{unique}"
    tool.jobs.append(name)
    done = tool("submit", SPECS / "parameter-server.yaml", "--name", name, "-o", "json")
    assert done.status == 0, done.stderr
    told = done.json
    assert (told["state"], told["confirmed"], told["tasks"]["missing"]) == ("SUCCEEDED", True, [])
    gone(name)


def test_a_program_runs_without_a_job_spec(tool: Tool, unique: str) -> None:
    name = f"run-{unique}"
    (tool.cwd / "shared").mkdir()
    (tool.cwd / "shared/greet.py").write_text("def words(task): return f'greeted by {task}'")
    (tool.cwd / "hello.py").write_text(
        "import json, os, sys\nfrom shared.greet import words\n"
        "config = json.loads(os.environ['TF_CONFIG'])\n"
        "assert len(config['cluster']['worker']) == 2 and os.environ['A'] == '1'\n"
        "print(words(config['task']['index']), sys.argv[1:])\n"
    )
    tool.jobs.append(name)
    options = ("--image", "library/python:3.11", "--memory", "128Mi", "--workers", 2)
    program = ("--", "python3", "hello.py", "--epochs", 3)
    done = tool("run", "--name", name, *options, "--env", "A=1", "-o", "json", *program)
    assert (done.status, done.json["state"]) == (0, "SUCCEEDED"), done.stderr
    assert "sent with it (" in done.stderr
    tool.collected(name)
    logs = tool("logs", name, "worker-1").stdout
    assert "greeted by 1 ['--epochs', '3']" in logs
    gone(name)
