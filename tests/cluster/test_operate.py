"""A running job on a real cluster: seen, watched, changed, reached; by its owner, and by somebody else."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from submit_tf_job.sandbox import Sandbox, SandboxOptions
from tests.cluster.conftest import Tool

pytestmark = pytest.mark.cluster

SMALL = {"memory": "128Mi"}
TICKS = """
for i in $(seq 1 300); do
  echo tick $i
  echo 'TFJOB_PROGRESS {"step": '$i', "total": 300, "metrics": {"loss": 0.5}}'
  sleep 1
done
"""
PORT = 19_765


@pytest.fixture
def operated(tool: Tool) -> str:
    """A job with everything: progress, a role that may be restarted, a role that serves."""
    roles = {
        "chief": {**SMALL, "command": TICKS},
        "worker": {**SMALL, "instances": 2, "command": "sleep 300", "restart": "on-failure"},
        "web": {**SMALL, "command": f"exec python3 -m http.server {PORT}", "ports": {"http": PORT}},
    }
    spec = tool.spec("operated", strategy="custom", lifetime="10m", roles=roles)
    assert tool("submit", spec, "--detach", "-q").status == 0
    assert tool("wait", "operated", "--for", "ready", "-q").status == 0
    tool.until(
        "operated", lambda seen: seen["roles"]["web"]["running"] == 1 and seen["roles"]["worker"]["running"] == 2
    )  # sidecars may be later
    return "operated"


def test_a_job_from_the_start_to_the_end(tool: Tool, operated: str) -> None:
    _seen(tool, operated)
    _changed(tool, operated)
    _reached(tool, operated)
    _drawn(tool, operated)
    _ended(tool, operated)


def _seen(tool: Tool, job: str) -> None:
    rows = {row["name"]: row for row in tool("list", "--state", "active", "-o", "json").json["jobs"]}
    assert (rows[job]["state"], rows[job]["containers"]) == ("RUNNING", 5)
    assert rows[job]["application_id"] == tool.status(job)["application_id"]
    assert tool("list", "--owner", "nobody").stdout == "no jobs\n"

    found = tool.until(job, lambda seen: seen["progress"] is not None)
    assert (found["progress"]["total"], found["progress"]["metrics"]) == (300, {"loss": 0.5})

    described = tool("describe", job, "-o", "json").json
    tasks = {task["task"]: task for task in described["task_list"]}
    assert set(tasks) == {"chief-0", "worker-0", "worker-1", "web-0"}
    assert {task["state"] for task in tasks.values()} == {"running"}
    assert all(task["launched_at"] and task["container_id"] and task["host"] for task in tasks.values())
    (limit,) = described["limits"]
    assert 0 < limit["remaining_s"] <= 600
    text = tool("describe", job).stdout
    assert re.search(r"^  worker-1  running +localhost", text, re.MULTILINE)

    events = tool("events", job, "-o", "json").json["events"]
    told = " ".join(event["text"] for event in events)
    for words in ("is submitted to queue default", "attempt 1 of the Appl", "worker-1 is launched", "all 3 tasks are here"):
        assert words in told
    assert [event["at_ms"] for event in events] == sorted(event["at_ms"] for event in events)


def _changed(tool: Tool, job: str) -> None:
    assert "web has 2 tasks now" in tool("scale", job, "web=2").stdout
    again = tool("scale", job, "web=2", "-o", "json").json
    assert (again["changed"], again["value"]) == (False, 2)
    fixed = tool("scale", job, "worker=3")
    assert fixed.status == 2
    assert "reads its members from TF_CONFIG once" in fixed.stderr
    assert "did you mean web?" in tool("scale", job, "wev=1").stderr

    before = {task["task"]: task["container_id"] for task in tool("describe", job, "-o", "json").json["task_list"]}
    assert tool("restart", job, "worker-1").status == 0
    tool.until(job, lambda seen: seen["roles"]["worker"] == {**seen["roles"]["worker"], "running": 2, "restarts": 1})
    after = {task["task"]: task["container_id"] for task in tool("describe", job, "-o", "json").json["task_list"]}
    assert {name for name in before if before[name] != after[name]} == {"worker-1"}
    assert "decides the job" in tool("restart", job, "chief-0").stderr
    assert "roles.web.restart is not set" in tool("restart", job, "web-0").stderr

    assert "already" in tool("extend", job, "1m").stdout
    assert tool("extend", job, "2h", "-o", "json").json["value"] > 7000
    assert "yarn.cluster.max-application-priority" in tool("priority", job, "7").stdout
    nowhere = tool("move", job, "no-such-queue")
    assert nowhere.status == 9
    assert "queue no-such-queue" in nowhere.stderr
    assert tool("move", job, "default", "-o", "json").json["changed"] is False


def _reached(tool: Tool, job: str) -> None:
    link = tool("open", job, "web-0", "-o", "json").json
    assert (link["port"], link["reachable"]) == (PORT, True)
    assert tool("tunnel", job, "web-0", "--via", "edge", "--local-port", "8000").stdout == f"ssh -N -L 8000:localhost:{PORT} edge\n"
    silent = tool("open", job, "chief")
    assert silent.status == 9
    assert "roles.chief.ports" in silent.stderr


def _drawn(tool: Tool, job: str) -> None:
    """The live view, on a terminal of 80 columns."""
    frames = _on_terminal(tool, "watch", job, "--lines", until=b"tick ")
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", frames)
    assert "ROLE    WANTED  ARRIVED  RUNNING" in text
    assert re.search(r"step \d+/300  loss 0.5", text)
    assert re.search(r"chief-0 \| tick \d+", text)
    assert max(map(len, text.replace("\r", "\n").splitlines())) <= 80
    assert tool.status(job)["state"] == "RUNNING"


def _on_terminal(tool: Tool, *arguments: str, until: bytes) -> str:
    """Run a command on a terminal until it has shown something, and leave it by Ctrl-C."""
    main, other = pty.openpty()
    environ = {**tool.environ, "COLUMNS": "80", "LINES": "30", "TERM": "xterm"}
    process = subprocess.Popen(tool.argv(*arguments), env=environ, cwd=tool.cwd, stdin=other, stdout=other, stderr=other)
    os.close(other)
    shown, end = b"", time.monotonic() + 60
    while until not in shown and time.monotonic() < end:
        if select.select([main], [], [], 0.5)[0]:
            shown += os.read(main, 65536)
    process.send_signal(signal.SIGINT)
    while process.poll() is None and time.monotonic() < end:
        if select.select([main], [], [], 0.2)[0]:
            try:
                shown += os.read(main, 65536)
            except OSError:  # the other side is closed
                break
    assert process.wait(timeout=30) == 130
    os.close(main)
    return shown.decode()


def _ended(tool: Tool, job: str) -> None:
    app_id = tool.status(job)["application_id"]
    asked = tool("stop", app_id, "--user", "mallory")
    assert asked.status == 2
    assert "is a job of" in asked.stderr
    assert "--yes" in asked.stderr
    assert tool("delete", app_id, "--user", "mallory").status == 4
    assert tool("scale", app_id, "web=1", "--user", "mallory").status == 4
    assert tool.status(job)["state"] == "RUNNING"

    assert tool("stop", job).status == 0
    over = tool("scale", job, "web=1")
    assert over.status == 9
    assert "is over (ENDED)" in over.stderr
    started = tool("start", job, "-o", "json").json
    assert started["changed"]
    assert started["application_id"] != app_id
    assert tool("start", job, "-o", "json").json["changed"] is False
    assert tool("status", app_id, "-o", "json").json["state"] == "STOPPED"
    assert tool("wait", job, "--for", "ready", "-q").status == 0
    assert tool("stop", job, "-q").status == 0


def test_watching_survives_the_resource_manager(tool: Tool, sandbox: Sandbox, session_environ: dict[str, str]) -> None:
    """Of one job, and of all: said once, and the end is told."""
    spec = tool.spec("watched", strategy="custom", roles={"chief": {**SMALL, "command": "sleep 25"}})
    assert tool("submit", spec, "--detach", "-q").status == 0
    assert tool("wait", "watched", "--for", "ready", "-q").status == 0
    one = tool.start("watch", "watched", "-o", "json")
    all_of_them = tool.start("watch", "--since", "3m", "--every", "1s", "-o", "json")
    assert all_of_them.stdout is not None
    assert all_of_them.stderr is not None
    first = all_of_them.stdout.readline()  # both have looked by now
    manager = next(daemon.pid for daemon in sandbox.status().daemons if daemon.name == "resourcemanager")
    assert manager is not None
    os.kill(manager, signal.SIGKILL)
    time.sleep(8)
    assert sandbox.up(SandboxOptions(), session_environ).started == ("resourcemanager",)
    stdout, stderr = one.communicate(timeout=180)
    assert (one.returncode, json.loads(stdout)["state"]) == (0, "SUCCEEDED"), stderr
    assert stderr.count("the cluster does not answer; still trying") == 1
    assert stderr.count("the cluster answers again") == 1
    with all_of_them:  # closes its pipes
        assert all_of_them.wait(timeout=60) == 0
        lines, talk = [first, *all_of_them.stdout], all_of_them.stderr.read()
    states = [row["state"] for row in map(json.loads, lines) if row["name"] == "watched"]
    assert (states[0], states[-1]) == ("RUNNING", "SUCCEEDED")
    assert "still trying" in talk
