"""What goes wrong on a real cluster: the verdict is right, within seconds, and says which task and
why.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.clusters import Cluster
from tests.tool import (
    Tool,
    bootstrap_of,
    gone,
)

pytestmark = pytest.mark.cluster

SMALL = {"memory": "256Mi"}
FOREVER = "sleep 600"
JOB_STOPPED = 3


def running(tool: Tool, job: str) -> dict[str, Any]:
    return tool.until(job, lambda seen: seen["state"] == "RUNNING")


def test_a_chief_that_was_suspended_for_longer_than_the_grace_hears_how_the_others_ended(
    tool: Tool, tmp_path: Path
) -> None:
    ends = tmp_path / "ends"
    for place in (tmp_path, *tmp_path.parents):
        if place.owner() == tmp_path.owner() and str(place) not in ("/", "/tmp"):
            place.chmod(place.stat().st_mode | 0o055)
    waits = f"until [ -e {ends} ]; do sleep 0.2; done"
    roles = {"chief": {**SMALL, "command": "sleep 25"}, "worker": {**SMALL, "command": waits}}
    spec = tool.spec("suspended", strategy="multi-worker", grace="15s", roles=roles)
    assert tool("submit", spec, "--detach").status == 0
    running(tool, "suspended")
    chief = bootstrap_of("suspended", "chief-0")
    os.kill(chief, signal.SIGSTOP)
    try:
        deadline = time.monotonic() + 60
        while (
            "went away" not in tool("logs", "suspended", "worker-0", "--file", "stderr.txt").stdout
        ):
            assert time.monotonic() < deadline
            time.sleep(1)
        ends.touch()
        time.sleep(25)  # longer than the grace
    finally:
        os.kill(chief, signal.SIGCONT)
    done = tool("wait", "suspended", "-o", "json")
    assert done.status == 0, (done.stdout, done.stderr)
    assert any("chief-0 stood still for" in warning for warning in done.json["warnings"])


def test_ctrl_c_leaves_the_job_running_and_says_how_to_stop_it(tool: Tool) -> None:
    spec = tool.spec("interrupted", strategy="single", command=FOREVER, roles={"worker": SMALL})
    process = tool.start("submit", spec)
    running_by = time.monotonic() + 60
    while time.monotonic() < running_by and tool("status", "interrupted", "-o", "json").status != 0:
        time.sleep(0.5)
    running(tool, "interrupted")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert stderr.splitlines()[-1] == (
        "Job interrupted is still running. Reattach: submit_tf_job wait interrupted    "
        "Stop: submit_tf_job stop interrupted"
    )
    assert tool.status("interrupted")["state"] == "RUNNING"
    again = tool("submit", spec, "--detach", "-o", "json")
    assert (again.status, again.json["adopted"]) == (0, True)
    stopped = tool("stop", "interrupted")
    assert stopped.status == 0
    assert tool("stop", "interrupted").status == 0, "stopping is idempotent"
    assert tool("wait", "interrupted").status == 3
    gone("interrupted")


def test_a_job_that_has_ended_is_run_again_at_once_and_one_with_an_id_never(tool: Tool) -> None:
    spec = tool.spec("again", strategy="single", command="echo hello", roles={"worker": SMALL})
    first = tool("submit", spec, "--submission-id", "s-1", "-o", "json")
    assert first.status == 0, first.stderr
    second = tool("submit", spec, "--submission-id", "s-1", "-o", "json")
    assert (second.status, second.json["run"]) == (0, first.json["run"])
    third = tool("submit", spec, "-o", "json")
    assert (third.status, third.json["run"] != first.json["run"]) == (0, True), third.stderr
    fourth = tool("submit", spec, "-o", "json")
    assert fourth.json["run"] not in (first.json["run"], third.json["run"])
    once = tool("submit", spec, "--once", "-o", "json")
    assert once.json["run"] == third.json["run"], "the first run of this content"
    deleted = tool("delete", "again", "-o", "json").json["runs"]
    assert set(deleted) == {done.json["run"] for done in (first, third, fourth)}


@pytest.mark.parametrize(
    ("name", "command", "status", "words"),
    [
        (
            "not-found",
            ["no-such-program"],
            127,
            "the command 'no-such-program' was not found in the container",
        ),
        pytest.param(*("not-executable", ["/etc/passwd"], 126, "not"), marks=pytest.mark.long),
        ("piped", "(echo epoch 1; exit 3) | tee log", 3, "3"),
    ],
)
def test_statuses_of_commands_are_explained(
    tool: Tool, name: str, command: object, status: int, words: str
) -> None:
    spec = tool.spec(name, strategy="single", command=command, roles={"worker": SMALL})
    done = tool("submit", spec, "-o", "json")
    assert done.status == 1, done.stderr
    assert done.json["failure"]["status"] == status
    assert words in done.json["reason"]


@pytest.mark.parametrize("status", [22, 24])
def test_a_node_is_healthy_after_statuses_that_hadoop_takes_for_its_own(
    tool: Tool, real_cluster: Cluster, status: int
) -> None:
    name = f"ends-with-{status}"
    command = f"exit {status}"
    spec = tool.spec(name, strategy="single", command=command, roles={"worker": SMALL})
    done = tool("submit", spec, "-o", "json")
    assert (done.status, done.json["failure"]["status"]) == (1, status), done
    node = requests.get(f"{real_cluster.nm_url}/ws/v1/node/info", timeout=30).json()["nodeInfo"]
    assert node["nodeHealthy"], node


def test_an_unknown_user_is_refused(tool: Tool) -> None:
    spec = tool.spec("stranger", strategy="single", command="true", roles={"worker": SMALL})
    refused = tool("submit", spec, "--user", "stranger")
    assert refused.status in (2, 4, 9), refused.stderr
    assert "stranger" in refused.stderr
    assert "\tat " not in refused.stderr


def test_another_user_has_jobs_of_their_own(tool: Tool) -> None:
    """But the names share a directory of the ApplicationMasters, as docs/gateway.md says."""
    spec = tool.spec(
        "of-alice", strategy="single", command="echo hello $USER", roles={"worker": SMALL}
    )
    theirs = tool("submit", spec, "--user", "alice", "-o", "json")
    assert theirs.status == 0, theirs.stderr
    assert theirs.json["user"] == "alice"
    assert tool("status", "of-alice").status == 5, "names are per user"
    taken = tool("submit", spec, "--user", "bob", "-o", "json")
    assert (taken.status, taken.json["root_cause"]["code"]) == (1, "hdfs-permission"), taken
    assert "alice has, or had, a job of-alice" in taken.json["root_cause"]["sentence"]
    assert "or alice deletes that job" in taken.json["root_cause"]["hint"]
    for user in ("alice", "bob"):
        assert tool("delete", "of-alice", "--user", user).status == 0
    cured = tool("submit", spec, "--user", "bob", "-o", "json")
    assert cured.status == 0, cured.stderr
    assert tool("delete", "of-alice", "--user", "bob").status == 0


def test_an_unreachable_cluster_is_7_and_says_so(tool: Tool) -> None:
    spec = tool.spec("nowhere", strategy="single", command="true", roles={"worker": SMALL})
    # bound and not listening: refused, whoever else is on this machine
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        started = [
            tool.start(*words, "--rm", url) for words in (("status", "nowhere"), ("submit", spec))
        ]
        for process in started:
            said = process.communicate(timeout=400)[1]
            assert process.returncode == 7, said
            assert url in said
            assert "Traceback" not in said
    tool.jobs.remove("nowhere")


@pytest.mark.long
def test_a_kill_in_the_last_seconds_of_the_application_master_decides(
    tool: Tool, real_cluster: Cluster
) -> None:
    job = "killed-late"
    spec = tool.spec(job, strategy="single", command=["true"], roles={"worker": SMALL})
    follower = tool.start("submit", spec)
    seen = tool.until(job, lambda status: status["state"] == "FINISHING")
    url = f"{real_cluster.rm_url}/ws/v1/cluster/apps/{seen['application_id']}/state"
    answer = requests.put(
        f"{url}?user.name={real_cluster.user}", json={"state": "KILLED"}, timeout=30
    )
    assert answer.status_code in (200, 202), answer.text
    said = follower.communicate(timeout=120)
    assert follower.returncode == JOB_STOPPED, said
    assert tool.status(job)["state"] == "STOPPED"


@pytest.mark.long
def test_a_task_that_stands_still_while_others_move_is_named(tool: Tool) -> None:
    progress = 'echo "TFJOB_PROGRESS {\\"step\\": $i}"; sleep 2'
    goes_on = f"for i in $(seq 1 300); do {progress}; done"
    stops = f"for i in $(seq 1 3); do {progress}; done; sleep 600"
    worker = f"[ $TFJOB_INDEX = 0 ] && {{ {goes_on}; }}; {stops}"
    roles = {
        "chief": {**SMALL, "command": goes_on},
        "worker": {**SMALL, "command": worker, "instances": 2},
    }
    spec = tool.spec("still", strategy="multi-worker", roles=roles)
    assert tool("submit", spec, "--detach").status == 0
    seen = tool.until("still", lambda seen: bool(seen["standstill"]))
    assert (seen["state"], seen["standstill"]["tasks"]) == ("RUNNING", ["worker-1"])
    said = re.search(
        r"standstill +worker-1 has printed nothing for [23] min, since step 3; the others are at "
        r"step (\d+)",
        tool("describe", "still").stdout,
    )
    assert said
    assert 50 <= int(said[1]) < 300
    assert tool("stop", "still").status == 0
