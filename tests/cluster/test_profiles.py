"""The same jobs on every kind of cluster: simple, with Kerberos, with two ResourceManagers, with
all of it behind TLS, and in containers of Docker on each network.

Nothing but the settings profile differs: a job spec says nothing of how its cluster is secured.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from submit_tf_job.sandbox import Mode
from tests.cluster.conftest import (
    SPECS,
    DockerCluster,
    Profiled,
    a_sandbox_of,
)
from tests.tool import (
    Tool,
    gone,
)

pytestmark = pytest.mark.cluster

SMALL = {"memory": "256Mi"}
DATA = "hdfs:///data/digits.npz"
PROFILES: dict[str, tuple[Mode, ...]] = {
    "simple": (),
    "kerberos": ("kerberos",),
    "ha": ("ha",),
    "all": ("kerberos", "ha", "tls"),
}
# "all" has Kerberos and two ResourceManagers as well, and tests/cluster/test_jobs.py trains on the
# simple one
LONG = ("simple", "kerberos", "ha", "docker-bridge", "docker-host", "docker-jobs")
CLUSTERS = [
    pytest.param(name, marks=[pytest.mark.long] if name in LONG else [])
    for name in dict.fromkeys([*PROFILES, *LONG])
]


@pytest.fixture(scope="module", params=CLUSTERS)
def cluster(
    request: pytest.FixtureRequest, session_environ: dict[str, str], tensorflow: Path
) -> Iterator[Profiled]:
    """One cluster of each kind, one after the other."""
    if request.param == "simple":
        yield Profiled(request.getfixturevalue("sandbox"), request.getfixturevalue("real_cluster"))
    elif request.param == "kerberos":
        yield request.getfixturevalue("kerberos_cluster")
    elif request.param.startswith("docker-"):
        docker: DockerCluster = request.getfixturevalue("docker_cluster")
        yield Profiled(
            docker.sandbox,
            replace(docker.info, profile=docker.profiles[request.param.partition("-")[2]]),
        )
    else:
        with a_sandbox_of(PROFILES[request.param], session_environ, tensorflow) as found:
            yield found


@pytest.fixture
def tool(cluster: Profiled, session_environ: dict[str, str], tmp_path: Path) -> Iterator[Tool]:
    """The tool, with the profile of this cluster."""
    made = Tool(session_environ, cluster.info.profile, tmp_path)
    yield made
    made.tidy()


def run(argv: list[object], environ: dict[str, str]) -> str:
    """Run a program outside the cluster."""
    words = [str(word) for word in argv]
    return subprocess.run(
        words, env=environ, check=True, timeout=120, stdout=subprocess.PIPE, text=True
    ).stdout


def test_training_succeeds(tool: Tool, cluster: Profiled, tensorflow: Path) -> None:
    """Reads from HDFS, writes to HDFS, several workers; at once a job of one task, then one with
    parameter servers.
    """
    environ = cluster.hdfs_environ()
    run([tensorflow / "bin/python", SPECS / "digits/put_digits.py", DATA], environ)
    output = "hdfs:///models/test-digits"
    command = json.dumps(
        ["python", "train.py", "--data", DATA, "--output", output, "--epochs", "6"]
    )
    tool.jobs += ["test-digits", "test-single", "test-ps"]
    single = tool.start("submit", SPECS / "single.yaml", "--name", "test-single", "-o", "json")
    done = tool(
        "submit",
        SPECS / "multi-worker.yaml",
        "--name",
        "test-digits",
        "--set",
        f"command={command}",
    )
    assert done.status == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("test-digits  SUCCEEDED after ")
    assert "Confirmed by YARN and by " in done.stdout
    assert "RUNNING" in done.stderr
    program = (
        f"import fsspec; fsspec.open('{output}/model.keras').open(); "
        f"print(fsspec.open('{output}/metrics.json').open().read().decode())"
    )
    assert (
        json.loads(run([tensorflow / "bin/python", "-c", program], environ))["val_accuracy"] > 0.8
    )
    progress = tool("wait", "test-digits", "-o", "json").json["progress"]
    assert (progress["step"], progress["total"]) == (6, 6)
    stdout, stderr = single.communicate(timeout=120)
    assert single.returncode == 0, stderr
    assert (json.loads(stdout)["state"], json.loads(stdout)["confirmed"]) == ("SUCCEEDED", True)
    servers = tool("submit", SPECS / "parameter-server.yaml", "--name", "test-ps", "-o", "json")
    assert servers.status == 0, servers.stderr
    assert (servers.json["state"], servers.json["confirmed"], servers.json["tasks"]["missing"]) == (
        "SUCCEEDED",
        True,
        [],
    )
    for job in ("test-digits", "test-single", "test-ps"):
        gone(job)


def test_a_job_that_fails_says_why_also_when_its_logs_were_collected(tool: Tool) -> None:
    roles = {
        "chief": {**SMALL, "command": "sleep 600"},
        "worker": {**SMALL, "command": "echo cannot go on >&2; exit 3"},
    }
    done = tool("submit", tool.spec("fails", strategy="multi-worker", roles=roles), "-o", "json")
    assert done.status == 1, done.stderr
    assert (done.json["state"], done.json["confirmed"], done.json["reason"]) == (
        "FAILED",
        True,
        "worker-0 exited with status 3",
    )
    assert (done.json["failure"]["task"], done.json["failure"]["status"]) == ("worker-0", 3)
    later = tool("wait", "fails", "-o", "json")
    assert (later.status, later.json["reason"]) == (1, done.json["reason"])
    gone("fails")
    logs = tool("logs", "fails", "worker")
    assert logs.status == 0, logs.stderr
    assert "cannot go on" in logs.stdout
    listed = tool("list", "-o", "json").json["jobs"]
    assert [
        job["state"] for job in listed if job["application_id"] == done.json["application_id"]
    ] == ["FAILED"]


def test_a_job_is_seen_read_and_stopped(tool: Tool) -> None:
    content = {
        "strategy": "multi-worker",
        "command": "echo here I am; sleep 600",
        "roles": {"chief": SMALL, "worker": SMALL},
    }
    spec = tool.spec("runs", **content)
    submitted = tool("submit", spec, "--detach", "-o", "json")
    assert submitted.status == 0, submitted.stderr
    seen = tool.until("runs", lambda seen: seen["state"] == "RUNNING")
    assert seen["application_id"] == submitted.json["application_id"]
    logs = tool("logs", "runs", "--tail", "5")
    assert logs.status == 0, logs.stderr
    assert {line.split()[0] for line in logs.stdout.splitlines() if "here I am" in line} == {
        "chief-0",
        "worker-0",
    }
    described = tool("describe", "runs", "-o", "json")
    assert described.status == 0, described.stderr
    assert {task["task"] for task in described.json["task_list"]} >= {"chief-0", "worker-0"}
    listed = tool("list", "-o", "json").json["jobs"]
    assert [job["state"] for job in listed if job["application_id"] == seen["application_id"]] == [
        "RUNNING"
    ]
    again = tool("submit", spec, "--detach", "-o", "json")
    assert (again.status, again.json["adopted"], again.json["application_id"]) == (
        0,
        True,
        seen["application_id"],
    )
    other = tool("submit", tool.spec("runs", **{**content, "command": "true"}))
    assert other.status == 6, other.stderr
    assert seen["application_id"] in other.stderr
    assert tool("stop", "runs").status == 0
    assert tool("wait", "runs").status == 3
    gone("runs")
