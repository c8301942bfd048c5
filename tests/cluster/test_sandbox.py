"""The sandbox as it really is: two of them side by side, wounded, healed, taken down."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests import clusters
from tests.cluster.calls import call, until
from tests.cluster.conftest import HADOOP, processes_below
from tests.clusters import ROOT, Cluster
from tests.hdfs import Hdfs

pytestmark = pytest.mark.cluster

UP_S = 300
AS_ROOT = os.geteuid() == 0
DAEMONS = ("zookeeper", "namenode", "datanode", "resourcemanager", "nodemanager", "registrydns")
ENDED = ("FINISHED", "FAILED", "KILLED")


class Service:
    """A YARN service with one task, `chief-0`.

    YARN appends redirections to the launch command, so a command of several parts stands in braces.
    """

    def __init__(self, cluster: Cluster, name: str, command: str, **changes: object) -> None:
        self.cluster, self.name = cluster, name
        self.host = f"chief-0.{name}.alice.sandbox.test"
        component = {
            "name": "chief",
            "number_of_containers": 1,
            "launch_command": command.replace("HOST", self.host),
            "restart_policy": "NEVER",
            "resource": {"cpus": 1, "memory": "256"},
            **changes,
        }
        body = {"name": name, "version": "1", "lifetime": "900", "components": [component]}
        status, answer = call("POST", self._url(""), body)
        assert status == 202, answer
        self.app_id = answer["diagnostics"].rpartition(" ")[2]

    def _url(self, path: str) -> str:
        return f"{self.cluster.rm_url}/app/v1/services{path}?user.name=alice"

    def app(self) -> dict[str, Any]:
        """The ResourceManager's word."""
        return call("GET", f"{self.cluster.rm_url}/ws/v1/cluster/apps/{self.app_id}")[1]

    def containers(self) -> list[dict[str, Any]]:
        """The containers that have an address."""
        _, answer = call("GET", self._url(f"/{self.name}"))
        return [
            container
            for component in answer.get("components", [])
            for container in component["containers"]
            if container.get("ip")
        ]

    def container(self) -> str:
        """The task's container, "" if it has none yet."""
        return next((str(container["id"]) for container in self.containers()), "")

    def output(self) -> str:
        """What the task wrote."""
        files = (self.cluster.home / "run" / "nm-log" / self.app_id).glob("*/stdout.txt")
        return "".join(path.read_text() for path in files)

    def delete(self) -> None:
        """Remove it, unless the cluster is gone already."""
        with contextlib.suppress(OSError):
            call("DELETE", self._url(f"/{self.name}"))


def dns(server: str, host: str) -> tuple[int, int]:
    """Ask a DNS server for an address; return its code and the number of answers."""
    address, _, port = server.partition(":")
    name = b"".join(bytes([len(part)]) + part.encode() for part in host.split("."))
    question = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + name + b"\0" + struct.pack(">2H", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(10)
        asking.sendto(question, (address, int(port)))
        _, flags, _, answers, _, _ = struct.unpack(">6H", asking.recv(4096)[:12])
    return flags & 15, answers


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
    """Two sandboxes, started at the same moment: one as the machine allows, one in direct mode."""
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        made = [
            clusters.own("first"),
            clusters.own("second", "--resolver", "direct", "--nodes", "2"),
        ]
        first, second = pool.map(stack.enter_context, made)
        yield first, second


@pytest.fixture(scope="module")
def first(two: tuple[Cluster, Cluster]) -> Cluster:
    """The one that may use the system's resolver."""
    return two[0]


@pytest.fixture(scope="module")
def life(first: Cluster) -> Iterator[Service]:
    """A job that runs while daemons die; it begins when its own name is found by the system's
    resolver.
    """
    by_system = first.info["resolver"] == "system"
    find = "until getent ahostsv4 HOST; do sleep 0.3; done; " if by_system else ""
    service = Service(first, "life", f"{{ {find}exec sleep 600; }}")
    until(service.container)
    yield service
    service.delete()


def test_two_sandboxes_do_not_meet(two: tuple[Cluster, Cluster]) -> None:
    infos = [cluster.info for cluster in two]
    assert not set(infos[0]["ports"].values()) & set(infos[1]["ports"].values())
    assert infos[0]["dns_server"] != infos[1]["dns_server"]
    for info in infos:
        nodes = call("GET", f"{info['rm_url']}/ws/v1/cluster/nodes")[1]["nodes"]["node"]
        hosts = [f"{url.hostname}:{info['ports']['nm']}" for url in map(urlsplit, info["nm_urls"])]
        assert sorted(node["id"] for node in nodes) == sorted(hosts)


@pytest.mark.skipif(not AS_ROOT, reason="only root can give containers a resolver of their own")
def test_containers_find_names_by_the_systems_resolver(first: Cluster, life: Service) -> None:
    assert first.info["resolver"] == "system", "this machine should allow it"
    until(lambda: life.host in life.output())
    with pytest.raises(socket.gaierror):
        socket.getaddrinfo(life.host, 80)  # the host's own resolver is as it was


def test_names_are_served_in_direct_mode(two: tuple[Cluster, Cluster], life: Service) -> None:
    info = two[1].info
    assert info["resolver"] == "direct"
    service = Service(two[1], "direct", "exec sleep 600")
    until(service.container)
    until(lambda: dns(info["dns_server"], service.host) == (0, 1))
    assert dns(info["dns_server"], life.host)[0] == 3, "the other sandbox's job is not known here"
    profile = yaml.safe_load(two[1].profile_file.read_text())
    assert profile["dns"] == {"domain": "sandbox.test", "server": info["dns_server"]}


@pytest.mark.parametrize("daemon", DAEMONS)
def test_a_killed_daemon_is_reported_and_healed(first: Cluster, life: Service, daemon: str) -> None:
    first.heal()
    hdfs = Hdfs(first, "alice")
    hdfs.mkdirs(f"/user/alice/{daemon}")
    container, before = until(life.container), pids(first)
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
    assert until(lambda: life.app().get("app", {}).get("state") == "RUNNING")
    assert until(life.container) == container, "the job's container lives on"


def test_a_healed_sandbox_runs_jobs_to_their_end(first: Cluster, life: Service) -> None:
    service = Service(first, "hello", "{ echo hello; sleep 2; }")
    until(lambda: service.app().get("app", {}).get("state") in ENDED)
    assert service.app()["app"]["finalStatus"] == "SUCCEEDED"
    assert service.output() == "hello\n"
    service.delete()


NODES = {"localhost": "nodemanager", "127.0.0.2": "nodemanager2"}


def test_a_node_is_lost_with_its_containers_and_comes_back(two: tuple[Cluster, Cluster]) -> None:
    second = two[1]
    metrics = call("GET", f"{second.rm_url}/ws/v1/cluster/metrics")[1]["clusterMetrics"]
    memory = {"cpus": 1, "memory": str(metrics["totalMB"] * 5 // 16)}
    spread = {"number_of_containers": 2, "restart_policy": "ALWAYS", "resource": memory}
    service = Service(second, "spread", "exec sleep 600", **spread)

    def hosts() -> list[str]:
        return sorted(str(container["bare_host"]) for container in service.containers())

    until(lambda: hosts() == sorted(NODES))
    master = str(service.app()["app"]["amHostHttpAddress"]).partition(":")[0]
    host = next(host for host in NODES if host != master)
    os.kill(second.pid_of(NODES[host]), signal.SIGKILL)
    end_containers(f"{second.home}/run/nm-local{'' if host == 'localhost' else 2}/")
    status = second.status()
    assert status["state"] == "degraded"
    assert [row["name"] for row in status["daemons"] if not row["healthy"]] == [NODES[host]]
    _until_nodes(second, {name: "LOST" if name == host else "RUNNING" for name in NODES})
    assert second.heal() == [NODES[host]]
    _until_nodes(second, dict.fromkeys(NODES, "RUNNING"))
    until(lambda: hosts() == sorted(NODES))


def end_containers(local: str) -> None:
    """Kill what runs in a NodeManager's directory."""
    killed = 0
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"LOCAL_DIRS={local}".encode() in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
                killed += 1
    assert killed


def _until_nodes(cluster: Cluster, states: dict[str, str]) -> None:
    def seen() -> dict[str, str]:
        _, answer = call("GET", f"{cluster.rm_url}/ws/v1/cluster/nodes")
        return {node["nodeHostName"]: node["state"] for node in answer["nodes"]["node"]}

    until(lambda: seen() == states)


def test_down_ends_also_the_containers_that_a_killed_nodemanager_left(
    two: tuple[Cluster, Cluster],
) -> None:
    second = two[1]
    os.kill(second.pid_of("nodemanager"), signal.SIGKILL)
    left = processes_below(second.home / "run")
    assert any("ServiceMaster" in command for command in left.values()), left
    assert any("sleep 600" in command for command in left.values()), left
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
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

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


def test_down_leaves_nothing(first: Cluster, life: Service) -> None:
    assert life.app()["app"]["state"] == "RUNNING"
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
