"""A stop that lets tasks save, on a real cluster: what tests and the matrix share."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.tool import (
    Tool,
    bootstrap_of,
)

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
    end = time.monotonic() + 120
    while len(list(where.glob("*.runs"))) < count:
        assert time.monotonic() < end, tool("status", name)
        time.sleep(0.2)
    return where


def saved(where: Path) -> list[str]:
    """List the tasks that have saved."""
    return sorted(path.stem for path in where.glob("*.saved"))


def saves_where_hadoop_signals(tool: Tool, hadoop: str) -> None:
    """For `make matrix`, on each Hadoop version."""
    roles = {"chief": SMALL, "worker": SMALL}
    where = running(tool, "saves", 3, roles, strategy="multi-worker")
    stopped = tool("stop", "saves", "--grace", "2m", "-o", "json")
    if hadoop.startswith(("3.1.", "3.2.")):
        assert stopped.status != 0, stopped
        assert "This Hadoop cannot signal a container" in stopped.stderr, stopped
        assert bootstrap_of("saves", "worker-0")
        assert tool("stop", "saves").status == 0
        return
    assert (stopped.status, stopped.json["state"]) == (0, "STOPPED"), stopped
    assert saved(where) == ["chief-0", "worker-0"]
