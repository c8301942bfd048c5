"""A job that nobody follows, whose ApplicationMaster is killed: two minutes, mostly YARN's own
timers, beside which the other files run.
"""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.promises.conftest import SMALL
from tests.tool import SUBMIT_S, Tool, application_master, gone, held, release, until

pytestmark = pytest.mark.cluster


def test_detached_job_survives_its_application_master(tool: Tool, unique: str) -> None:
    """Nobody follows; YARN starts the ApplicationMaster again, and the verdict is told later."""
    name = f"am-killed-{unique}"
    roles = {
        "main": {**SMALL, "command": f"{held(name)}; echo done"},
        "worker": {**SMALL, "command": f"date >> {tool.cwd}/am-killed"},
    }
    spec = tool.spec(name, strategy="custom", deciding_role="main", roles=roles)
    assert tool("submit", spec, "--detach", "-q").status == 0
    tool.until(name, lambda seen: seen["roles"].get("worker", {}).get("succeeded") == 1)
    killed = application_master(name)
    os.kill(killed, signal.SIGKILL)
    watch = tool.start("watch", name, "-o", "json")
    until(lambda: killed != application_master(name), "another ApplicationMaster")
    release(name)
    stdout, stderr = watch.communicate(timeout=SUBMIT_S)
    assert watch.returncode == 0, stdout + stderr
    assert (json.loads(stdout)["state"], json.loads(stdout)["confirmed"]) == ("SUCCEEDED", True)
    assert len((tool.cwd / "am-killed").read_text().splitlines()) == 1, "its command ran again"
    gone(name)
