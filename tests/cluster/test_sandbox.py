"""The sandbox as it really is: two of them side by side, wounded, healed, taken down."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import clusters
from tests.cluster.conftest import HADOOP, processes_below
from tests.clusters import ROOT, Cluster
from tests.hdfs import Hdfs
from tests.tool import Tool, until

pytestmark = pytest.mark.cluster

UP_S = 300
AS_ROOT = os.geteuid() == 0
DAEMONS = ("zookeeper", "namenode", "datanode", "resourcemanager", "nodemanager", "registrydns")


def sandbox(*words: str, **environ: str) -> subprocess.Popen[str]:
    """Start a command of `sandbox`."""
    argv = [sys.executable, "-m", "submit_tf_job", "sandbox", *words]
    return subprocess.Popen(
        argv,
        env=clusters.environment() | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def down(name: str) -> int:
    """Take a sandbox down; return the exit status."""
    ending = sandbox("down", "--name", name)
    ending.communicate(timeout=UP_S)
    return ending.returncode


def home_of(name: str) -> Path:
    return clusters.directory() / "home/.local/state/submit_tf_job/sandbox" / name


def daemons(cluster: Cluster) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in cluster.status()["daemons"]}


def pids(cluster: Cluster) -> dict[str, int]:
    return {name: int(row["pid"]) for name, row in cluster.state()["daemons"].items()}


def is_free(port: int, address: str = "") -> bool:
    """Say whether a port can be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def nothing_is_left(cluster: Cluster, ports: dict[str, int], profile: Path) -> None:
    """No process, port, mount or file of a sandbox is left."""
    assert processes_below(cluster.home) == {}
    assert [port for port in ports.values() if not is_free(port)] == []
    assert str(cluster.home) not in Path("/proc/mounts").read_text()
    assert not (cluster.home / "state.json").exists()
    assert not profile.exists()


@pytest.fixture(scope="module")
def two(clusters_of_session: None) -> Iterator[tuple[Cluster, Cluster]]:
    """Two sandboxes, started at the same moment: one as the machine allows, one in direct mode.

    In the first, YARN waits for a killed NodeManager as long as by default: containers live on.
    """
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        made = [
            clusters.own("first", "--default-timeouts"),
            clusters.own("second", "--resolver", "direct", "--nodes", "2"),
        ]
        first, second = pool.map(stack.enter_context, made)
        yield first, second


@pytest.fixture(scope="module")
def first(two: tuple[Cluster, Cluster]) -> Cluster:
    """The one that may use the system's resolver."""
    return two[0]


@pytest.fixture(scope="module")
def life(first: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Tool:
    """The tool on the first, with a job `life` that runs while daemons die."""
    tool = Tool(clusters.environment(), first.profile, tmp_path_factory.mktemp("life"))
    runs(tool, "life")
    return tool


def runs(tool: Tool, name: str, **worker: Any) -> None:
    """Submit a job that stays, and wait until its tasks run."""
    roles = {"worker": {"memory": "128Mi", **worker}}
    spec = tool.spec(name, strategy="custom", command="sleep 600", roles=roles)
    assert tool("submit", spec, "--detach", "-q").status == 0
    tool.until(name, lambda seen: seen["state"] == "RUNNING")


def containers(tool: Tool, job: str) -> dict[str, str]:
    """Return host -> container of the tasks of a job."""
    tasks = tool("describe", job, "-o", "json").json["task_list"]
    return {str(task["host"]): str(task["container_id"]) for task in tasks}


def test_two_sandboxes_do_not_meet(two: tuple[Cluster, Cluster]) -> None:
    infos = [cluster.info for cluster in two]
    assert not set(infos[0]["ports"].values()) & set(infos[1]["ports"].values())
    assert infos[0]["dns_server"] != infos[1]["dns_server"]
    assert infos[1]["resolver"] == "direct"
    assert infos[0]["resolver"] == ("system" if AS_ROOT else "direct")


@pytest.mark.parametrize("daemon", DAEMONS)
def test_a_killed_daemon_is_reported_and_healed(first: Cluster, life: Tool, daemon: str) -> None:
    first.heal()
    hdfs = Hdfs(first, "alice")
    hdfs.mkdirs(f"/user/alice/{daemon}")
    known, before = containers(life, "life"), pids(first)
    os.kill(before[daemon], signal.SIGKILL)
    # a killed JVM lingers for a moment
    until(lambda: not daemons(first)[daemon]["alive"])
    status = first.status()
    assert status["state"] == "degraded"
    assert [(row["name"], row["reason"]) for row in status["daemons"] if not row["alive"]] == [
        (daemon, "it is not running")
    ]
    assert first.heal() == [daemon]
    after = pids(first)
    assert {name for name in DAEMONS if before[name] != after[name]} == {daemon}
    assert first.status()["state"] == "up"
    assert hdfs.exists(f"/user/alice/{daemon}")
    life.until("life", lambda seen: seen["state"] == "RUNNING")
    assert containers(life, "life") == known, "the job's container lives on"


def test_a_healed_sandbox_runs_jobs_to_their_end(life: Tool) -> None:
    roles = {"worker": {"memory": "128Mi"}}
    spec = life.spec("hello", strategy="single", command="echo hello", roles=roles)
    assert life("submit", spec).status == 0
    assert "hello" in life.output("hello", "worker-0").splitlines()


def test_down_ends_also_the_containers_that_a_killed_nodemanager_left(
    two: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    second = two[1]
    tool = Tool(clusters.environment(), second.profile, tmp_path)
    runs(tool, "spread", instances=2, memory="7Gi")  # one does not fit beside the other
    assert set(containers(tool, "spread")) == {"localhost", "127.0.0.2"}
    os.kill(second.pid_of("nodemanager"), signal.SIGKILL)
    assert any("sleep 600" in command for command in processes_below(second.home / "run").values())
    profile = second.profile_file
    second.down()
    nothing_is_left(second, second.info["ports"], profile)
    assert two[0].status()["state"] == "up", "the neighbour has noticed nothing"


def test_a_daemon_that_does_not_start_is_named_with_its_last_words(
    first: Cluster, tmp_path: Path
) -> None:
    """A Java that runs everything but the NodeManager."""
    name, java = f"broken-{os.getpid()}", tmp_path / "java/bin/java"
    java.parent.mkdir(parents=True)
    real = f"{first.state()['java_home']}/bin/java"
    java.write_text(
        '#!/bin/sh\ncase "$*" in *NodeManager*) echo "out of luck" >&2; exit 3;; esac\n'
        f'exec {real} "$@"\n'
    )
    java.chmod(0o755)
    started = sandbox("up", "--name", name, JAVA_HOME=str(tmp_path / "java"))
    _, said = started.communicate(timeout=UP_S)
    assert started.returncode == 1, said
    assert "nodemanager ended while it started; the end of its log:\nout of luck" in said
    assert f"the whole log is {home_of(name) / 'run/log/nodemanager.log'}" in said
    assert processes_below(home_of(name)) == {}
    assert sandbox("logs", "nodemanager", "--name", name).communicate()[0] == "out of luck\n"
    assert down(name) == 0
    assert not home_of(name).exists()


@pytest.mark.skipif(
    not AS_ROOT,
    reason="only root can become somebody else; for others every test here is this test",
)
def test_it_needs_no_root_at_all() -> None:
    python = Path("/usr/bin/python3")
    if not python.exists():
        pytest.skip("no Python that everybody can run")
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run([*nobody, "test", "-r", ROOT / "pyproject.toml"]).returncode:
        pytest.skip("this checkout is in a directory that only root can enter")
    root = Path(tempfile.mkdtemp(prefix="sandbox-nobody-"))
    jars = f"submit_tf_job/hadoop-{HADOOP}"
    try:
        shutil.copytree(clusters.cache().parent / jars, root / ".cache" / jars)
        for path in (root, *root.rglob("*")):
            os.chown(path, 65534, 65534)
        environ = {
            "HOME": str(root),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT}:{Path(yaml.__file__).parents[1]}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

        def run(*words: str) -> subprocess.CompletedProcess[str]:
            argv = [*nobody, str(python), "-m", "submit_tf_job", "sandbox", *words]
            return subprocess.run(
                argv, cwd=root, env=environ, capture_output=True, text=True, timeout=UP_S
            )

        try:
            done = run("up", "-o", "json")
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["resolver"] == "direct"
            assert run("status").returncode == 0
        finally:
            down = run("down")
        assert down.returncode == 0, down.stderr
        assert processes_below(root) == {}
    finally:
        shutil.rmtree(root)


def test_down_leaves_nothing(first: Cluster, life: Tool) -> None:
    assert life.status("life")["state"] == "RUNNING"
    profile = first.profile_file
    first.down()
    nothing_is_left(first, first.info["ports"], profile)


def test_two_processes_agree_on_one_sandbox(clusters_of_session: None) -> None:
    name = f"agreed-{os.getpid()}"
    try:
        started = [sandbox("up", "--name", name, "-o", "json") for _ in range(2)]
        ends = [process.communicate(timeout=UP_S)[0] for process in started]
        assert sorted(len(json.loads(end)["started"]) for end in ends) == [0, 6]
    finally:
        assert down(name) == 0


@pytest.mark.skipif(not AS_ROOT, reason="only root can start a Docker Engine")
def test_down_leaves_nothing_of_kerberos_and_docker(clusters_of_session: None) -> None:
    with clusters.own("both", "--profile", "kerberos+docker") as cluster:
        run = Path(cluster.info["docker"]["host"].removeprefix("unix://")).parent
        assert run.exists()
        profile = cluster.profile_file
        cluster.down()
        nothing_is_left(cluster, cluster.info["ports"], profile)
        assert not run.exists()
        groups = list(Path("/sys/fs/cgroup").glob(f"**/*{cluster.name}*"))
        assert groups == []
