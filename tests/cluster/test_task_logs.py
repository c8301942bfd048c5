"""`logs` on a real cluster: running, followed through a restart to the last byte, and when it is
over.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.cluster.calls import until
from tests.clusters import Cluster
from tests.tool import (
    Tool,
)

pytestmark = pytest.mark.cluster

TALK = r"""
import os, sys, time
role, first = os.environ["TFJOB_ROLE"], os.environ["TFJOB_ATTEMPT"] == "0"
print("odd \x1b[31mred\x1b[0m", flush=True)
sys.stdout.buffer.write(b"bytes \xff\xfe\n")
for step in range(30):
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)) + ",%03d" % (now % 1 * 1000)
    print("%s %s step %d" % (stamp, role, step), flush=True)
    print("err %d" % step, file=sys.stderr, flush=True)
    if role == "worker" and first and step == 8:
        sys.exit(3)
    if role == "chief" and os.path.exists(sys.argv[1]):
        break
    time.sleep(0.5)
sys.stdout.write("without an end")
"""


@pytest.fixture
def talking(tool: Tool, tmp_path: Path) -> tuple[str, Path]:
    """Submit a job whose tasks talk, whose worker fails once, and which is over when a file is
    there.
    """
    end = tmp_path / "end"
    roles = {name: {"memory": "256Mi"} for name in ("chief", "worker", "ps")}
    roles["worker"]["restart"] = "on-failure"
    (tmp_path / "talk.py").write_text(TALK)
    spec = tool.spec(
        "talking",
        strategy="parameter-server",
        command=["python3", "-u", str(tmp_path / "talk.py"), str(end)],
        roles=roles,
    )
    assert tool("submit", spec, "--detach").status == 0
    return "talking", end


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def until_said(tool: Tool, job: str, words: str, *arguments: str, timeout: float = 90) -> None:
    deadline = time.monotonic() + timeout
    while words not in (seen := tool("logs", job, *arguments)).stdout:
        assert time.monotonic() < deadline, (seen.stdout, seen.stderr)
        time.sleep(0.5)


def test_from_the_first_container_to_the_collected_logs(
    tool: Tool, talking: tuple[str, Path]
) -> None:
    job, end = talking
    following = tool.start("logs", job, "-f")
    as_json = tool.start("logs", job, "-f", "-o", "json")
    try:
        until_said(tool, job, "worker step 3", "worker")
        _while_it_runs(tool, job)
        until_said(tool, job, "chief step 25", "chief", timeout=60)
        until_said(tool, job, "worker step 2", "worker", timeout=60)  # of its second container
        end.touch()
        out, err = following.communicate(timeout=120)
        lines, _err = as_json.communicate(timeout=60)
    finally:
        for process in (following, as_json):
            process.kill()
    assert (following.returncode, as_json.returncode) == (0, 0)
    assert "worker-0 was started again as container_" in err
    _when_it_is_over(tool, job, out, objects(lines))


def _while_it_runs(tool: Tool, job: str) -> None:
    shown = tool("logs", job)
    assert {line.partition(" | ")[0].strip() for line in shown.stdout.splitlines()} == {
        "chief-0",
        "worker-0",
        "ps-0",
    }
    assert "chief-0  | bytes \\xff\\xfe\n" in shown.stdout
    assert "| odd red\n" in shown.stdout
    assert "\x1b" not in shown.stdout
    tail = tool("logs", job, "chief-0", "--tail", "1", "--file", "stdout.txt")
    assert tail.stdout.count("\n") == 1
    assert " chief step " in tail.stdout
    recent = tool("logs", job, "ps", "--since", "2s", "--grep", "step").stdout.splitlines()
    assert 2 <= len(recent) <= 6
    listed = tool("logs", job, "worker-0", "--list", "-o", "json").json
    assert listed["source"] == "nodes"
    assert {"stdout.txt", "stderr.txt", "launch_container.sh"} <= {
        file["name"] for file in listed["containers"][0]["files"]
    }
    wrong = tool("logs", job, "--file", "nosuch.log")
    assert (wrong.status, wrong.stderr.splitlines()[0]) == (
        5,
        "error: there is no log file nosuch.log",
    )
    assert "stdout.txt" in wrong.stderr
    assert tool("logs", job, "evaluator").status == 2
    assert "ServiceMaster" in tool("logs", job, "--am").stdout
    assert tool("logs", job, "--user", "bob").status == 4


def _words(text: str) -> list[str]:
    """Take lines without the blanks that make columns of them."""
    return [re.sub(r" +\| ", " | ", line, count=1) for line in text.splitlines()]


def _when_it_is_over(tool: Tool, job: str, followed: str, lines: list[dict[str, Any]]) -> None:
    tool.until(job, lambda seen: seen["state"] == "SUCCEEDED")
    shown = tool("logs", job)
    assert shown.status == 0, shown.stderr
    # What was followed is what was collected: every line, and none twice. Each task's second
    # container was seen from its beginning.
    assert sorted(_words(followed)) == sorted(_words(shown.stdout))
    assert "without an end" in followed
    whole = objects(tool("logs", job, "-o", "json").stdout)
    assert sorted(
        (one["task"], one["container"], one["file"], one["text"]) for one in lines
    ) == sorted((one["task"], one["container"], one["file"], one["text"]) for one in whole)
    assert len({one["container"] for one in whole if one["task"] == "worker-0"}) == 2
    times = [one["time"] for one in whole if one["time"]]
    assert times == sorted(times)
    assert [
        one["text"] for one in whole if one["task"] == "worker-0" and one["text"].startswith("err")
    ][:9] == [f"err {n}" for n in range(9)]
    app_id = tool.status(job)["application_id"]
    assert (
        tool("logs", app_id, "chief-0", "--tail", "1", "--file", "stdout.txt").stdout
        == "without an end\n"
    )
    assert tool("logs", job, "--grep", "worker step 8$").stdout.count("\n") == 2
    assert "serviceam.log" in tool("logs", job, "--am", "--list").stdout
    refused = tool("logs", app_id, "--user", "bob")
    assert (refused.status, "not allowed to read the logs" in refused.stderr) == (4, True)
    assert tool("delete", job).status == 0
    assert tool("logs", job, "ps-0", "--file", "stdout.txt").stdout.startswith("odd ")
    assert tool("logs", "nosuch").status == 5


def bytes_read(cluster: Cluster) -> int:
    """Ask the DataNode how much has been read of it."""
    url = f"http://localhost:{cluster.info['ports']['datanode_http']}/jmx"
    query = {"qry": "Hadoop:service=DataNode,name=DataNodeActivity-*"}
    [found] = requests.get(url, params=query, timeout=30).json()["beans"]
    return int(found["BytesRead"])


@pytest.mark.alone
def test_a_large_log(tool: Tool, real_cluster: Cluster) -> None:
    """Its end is read from its end, and a pager that is closed stops it quietly."""
    program = (
        "for i in range(1100000): print('%010d step loss=%d the quick brown fox' % (i, (i * "
        "7919) % 1000003))"
    )
    spec = tool.spec(
        "much",
        strategy="single",
        command=["python3", "-c", program],
        roles={"worker": {"memory": "256Mi"}},
    )
    assert tool("submit", spec).status == 0
    url = f"{real_cluster.rm_url}/ws/v1/cluster/apps/{tool.status('much')['application_id']}"
    collected = "SUCCEEDED"
    until(lambda: requests.get(url, timeout=30).json()["app"]["logAggregationStatus"] == collected)
    before = bytes_read(real_cluster)
    tail = tool("logs", "much", "worker-0", "--tail", "10", "--file", "stdout.txt", "--raw")
    read = bytes_read(real_cluster) - before
    assert [line.split()[-6] for line in tail.stdout.splitlines()] == [
        f"{number:010d}" for number in range(1_099_990, 1_100_000)
    ]
    print(f"the end of 50 MB: {read} bytes read of HDFS")
    assert read < 1_000_000

    words = " ".join(tool.argv("logs", "much", "-q"))
    done = subprocess.run(
        ["bash", "-c", f"{words} | head -n 2; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        env=tool.environ,
    )
    assert done.stdout.splitlines()[-1] == "141"
    assert done.stderr == ""


@pytest.mark.alone
def test_a_node_that_is_silent_is_said(tool: Tool, real_cluster: Cluster) -> None:
    spec = tool.spec(
        "silent", strategy="single", command=["sleep", "60"], roles={"worker": {"memory": "256Mi"}}
    )
    assert tool("submit", spec, "--detach").status == 0
    tool.until("silent", lambda seen: seen["state"] == "RUNNING")
    impatient = replace(
        tool, environ={**tool.environ, "SUBMIT_TF_JOB_TIMEOUTS_READ": "2s"}, jobs=[]
    )
    manager = real_cluster.pid_of("nodemanager")
    os.kill(manager, signal.SIGSTOP)
    try:
        seen = impatient("logs", "silent", timeout=60)
    finally:
        os.kill(manager, signal.SIGCONT)
    assert seen.status == 7
    assert "NodeManager at http://localhost:" in seen.stderr
