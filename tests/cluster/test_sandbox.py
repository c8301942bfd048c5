"""The sandbox as it really is: two of them side by side, wounded, healed, taken down."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox import (
    DAEMONS,
    DEFAULT_VERSION,
    Sandbox,
    SandboxDirs,
    SandboxInfo,
    SandboxOptions,
    shutdown,
)
from submit_tf_job.sandbox.jvm import find_java_home
from submit_tf_job.sandbox.processes import end
from submit_tf_job.sandbox.saved_state import Layout, load_state
from submit_tf_job.sandbox.web import ask_dns
from tests.cluster.calls import call, until
from tests.cluster.conftest import (
    processes_below,
)
from tests.fakes.sandbox import sandbox_dirs

pytestmark = pytest.mark.cluster

# Of a busy machine with two cores; a quiet one needs 9 s, which the test prints.
UP_S = 150
# Of each node of the smaller sandbox.
NODE_MIB = 4096
AS_ROOT = os.geteuid() == 0
CACHE = sandbox_dirs(os.environ).cache_dir


class Service:
    """A YARN service with one task, `chief-0`.

    YARN appends redirections to the launch command, so a command of several parts stands in braces.
    """

    def __init__(
        self,
        info: SandboxInfo,
        name: str,
        command: str,
        user: str = "alice",
        **changes: object,
    ) -> None:
        self.info, self.name, self.user = info, name, user
        self.host = f"chief-0.{name}.{user}.sandbox.test"
        component = {
            "name": "chief",
            "number_of_containers": 1,
            "launch_command": command.replace("HOST", self.host),
            "restart_policy": "NEVER",
            "resource": {"cpus": 1, "memory": "256"},
            **changes,
        }
        status, answer = call(
            "POST",
            self._url(""),
            {"name": name, "version": "1", "lifetime": "900", "components": [component]},
        )
        assert status == 202, answer
        self.app_id = answer["diagnostics"].rpartition(" ")[2]

    def _url(self, path: str) -> str:
        return f"{self.info.rm_url}/app/v1/services{path}?user.name={self.user}"

    def app(self) -> dict[str, Any]:
        """The ResourceManager's word."""
        return dict(
            call("GET", f"{self.info.rm_url}/ws/v1/cluster/apps/{self.app_id}")[1].get("app", {})
        )

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

    def ended(self) -> tuple[str, str]:
        """Wait for the end."""
        app = until(
            lambda: (app := self.app()).get("state") in ("FINISHED", "FAILED", "KILLED") and app
        )
        return app["state"], app["finalStatus"]

    def attempts(self) -> list[dict[str, Any]]:
        """Its ApplicationMasters, one after the other."""
        _, answer = call("GET", f"{self.info.rm_url}/ws/v1/cluster/apps/{self.app_id}/appattempts")
        return list(answer["appAttempts"]["appAttempt"])

    def output(self) -> str:
        """What the task wrote."""
        files = (self.info.home / "run" / "nm-log" / self.app_id).glob("*/stdout.txt")
        return "".join(path.read_text() for path in files)

    def delete(self) -> None:
        """Remove it, unless the cluster is gone already."""
        with contextlib.suppress(urllib.error.URLError):
            call("DELETE", self._url(f"/{self.name}"))


def pid_of(sandbox: Sandbox, daemon: str) -> int:
    """The process of a daemon."""
    pid = next(row.pid for row in sandbox.status().daemons if row.name == daemon)
    assert pid
    return pid


def is_free(port: int, address: str = "") -> bool:
    """Say whether a port can be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def assert_nothing_is_left(info: SandboxInfo) -> None:
    """No process, port, mount or file of a sandbox is left."""
    assert processes_below(info.home) == {}
    assert [port for port in info.ports.values() if not is_free(port)] == []
    assert info.dns_server
    address, _, port = info.dns_server.partition(":")
    if int(port) != 53 or AS_ROOT:
        assert is_free(int(port), address)
    assert str(info.home) not in Path("/proc/mounts").read_text()
    assert not info.home.exists()
    assert not info.profile_path.exists()


@pytest.fixture(scope="module")
def dirs(tmp_path_factory: pytest.TempPathFactory) -> SandboxDirs:
    """Directories of the tests' own, but the user's jars."""
    root = tmp_path_factory.mktemp("sandboxes")
    return SandboxDirs(root / "state", CACHE, root / "config")


@pytest.fixture(scope="module")
def two(dirs: SandboxDirs) -> Iterator[tuple[Sandbox, Sandbox]]:
    """Two sandboxes, started at the same moment: one as the machine allows, one in direct mode."""
    sandboxes = Sandbox("default", dirs), Sandbox(f"b{os.getpid()}", dirs)
    small = SandboxOptions(resolver="direct", memory_mib=NODE_MIB, vcores=4, nodes=2)
    options = SandboxOptions(), small
    try:
        with ThreadPoolExecutor(2) as pool:
            infos = list(
                pool.map(
                    lambda pair: pair[0].up(pair[1], os.environ, print),
                    zip(sandboxes, options, strict=True),
                )
            )
        print("two at once were up after", [round(info.seconds, 1) for info in infos], "s")
        assert max(info.seconds for info in infos) < UP_S
        yield sandboxes
    finally:
        for sandbox in sandboxes:
            sandbox.down()


@pytest.fixture(scope="module")
def first(two: tuple[Sandbox, Sandbox]) -> Sandbox:
    """The one that may use the system's resolver."""
    return two[0]


def info_of(sandbox: Sandbox) -> SandboxInfo:
    """A running sandbox's facts."""
    info = sandbox.status().info
    assert info
    return info


@pytest.fixture(scope="module")
def life(first: Sandbox) -> Iterator[Service]:
    """A job that runs while daemons die; it begins when its own name is found by the system's
    resolver.
    """
    find = (
        "until getent ahostsv4 HOST; do sleep 0.3; done; "
        if info_of(first).resolver == "system"
        else ""
    )
    service = Service(info_of(first), "life", f"{{ {find}exec sleep 600; }}")
    until(service.container)
    yield service
    service.delete()


def test_up_gives_a_whole_cluster(first: Sandbox, dirs: SandboxDirs) -> None:
    status = first.status()
    info = info_of(first)
    assert status.state == "up"
    assert [row.name for row in status.daemons] == list(DAEMONS)
    assert all(
        row.alive and row.healthy and not row.reason and row.log.stat().st_size
        for row in status.daemons
    )
    assert all(10000 <= port < 20000 for port in info.ports.values())
    assert call("GET", f"{info.rm_url}/app/v1/services/version")[1]["hadoop_version"].startswith(
        DEFAULT_VERSION
    )
    metrics = call("GET", f"{info.rm_url}/ws/v1/cluster/metrics")[1]["clusterMetrics"]
    assert (metrics["activeNodes"], metrics["totalMB"], metrics["totalVirtualCores"]) == (
        1,
        12288,
        16,
    )
    profile = yaml.safe_load((dirs.config_dir / "profiles.d" / "sandbox.yaml").read_text())
    assert profile["resource_managers"] == [info.rm_url]
    assert ("server" in profile["dns"]) is (info.resolver == "direct")


def test_hdfs_has_what_two_users_need(first: Sandbox) -> None:
    info = info_of(first)

    def look(path: str) -> tuple[str, str]:
        _, answer = call(
            "GET", f"{info.namenode_url}/webhdfs/v1{path}?op=GETFILESTATUS&user.name={info.user}"
        )
        return answer["FileStatus"]["owner"], answer["FileStatus"]["permission"]

    assert look("/user/alice") == ("alice", "755")
    assert look(f"/user/{info.user}") == (info.user, "755")
    assert look("/tmp/logs")[1] == "1777"
    assert look(f"{info.home}/run/tmp/.yarn/services")[1] == "1777"


def test_a_second_up_does_nothing_and_takes_no_time(first: Sandbox) -> None:
    before = [row.pid for row in first.status().daemons]
    info = first.up(SandboxOptions(), os.environ)
    assert info.started == ()
    assert info.seconds < 5, "a quiet machine needs 0.1 s"
    assert [row.pid for row in first.status().daemons] == before


def test_two_sandboxes_do_not_meet(two: tuple[Sandbox, Sandbox]) -> None:
    infos = [info_of(sandbox) for sandbox in two]
    assert not set(infos[0].ports.values()) & set(infos[1].ports.values())
    assert infos[0].dns_server != infos[1].dns_server
    for info in infos:
        nodes = call("GET", f"{info.rm_url}/ws/v1/cluster/nodes")[1]["nodes"]["node"]
        hosts = [f"{url.hostname}:{info.ports['nm']}" for url in map(urlsplit, info.nm_urls)]
        assert sorted(node["id"] for node in nodes) == sorted(hosts)


@pytest.mark.skipif(not AS_ROOT, reason="only root can give containers a resolver of their own")
def test_containers_find_names_by_the_systems_resolver(first: Sandbox, life: Service) -> None:
    info = info_of(first)
    assert info.resolver == "system", "this machine should allow it"
    until(lambda: life.host in life.output())
    with pytest.raises(socket.gaierror):
        socket.getaddrinfo(life.host, 80)  # the host's own resolver is as it was


def test_names_are_served_in_direct_mode(two: tuple[Sandbox, Sandbox], life: Service) -> None:
    info = info_of(two[1])
    assert info.resolver == "direct"
    service = Service(info, "direct", "exec sleep 600")
    until(service.container)
    assert info.dns_server
    server, _, port = info.dns_server.partition(":")
    assert until(lambda: ask_dns(server, int(port), service.host).records)
    assert ask_dns(server, int(port), life.host).code == 3, (
        "the other sandbox's job is not known here"
    )
    profile = yaml.safe_load(info.profile_path.read_text())
    assert profile["dns"] == {"domain": "sandbox.test", "server": info.dns_server}


@pytest.mark.parametrize("daemon", DAEMONS)
def test_a_killed_daemon_is_reported_and_healed(first: Sandbox, life: Service, daemon: str) -> None:
    info = first.up(SandboxOptions(), os.environ)
    files = f"{info.namenode_url}/webhdfs/v1/user/alice/{daemon}"
    assert call("PUT", f"{files}?op=MKDIRS&user.name=alice")[0] == 200
    container = until(life.container)
    before = {row.name: row.pid for row in first.status().daemons}
    os.kill(pid_of(first, daemon), signal.SIGKILL)
    # a killed JVM lingers for a moment
    until(lambda: any(not row.alive for row in first.status().daemons))
    status = first.status()
    assert status.state == "degraded"
    assert [(row.name, row.reason) for row in status.daemons if not row.alive] == [
        (daemon, "it is not running")
    ]

    healed = first.up(SandboxOptions(), os.environ)
    print(f"{daemon} was healed in {healed.seconds:.1f} s")
    assert healed.started == (daemon,)
    assert healed.ports == info.ports
    after = {row.name: row.pid for row in first.status().daemons}
    assert {name for name in DAEMONS if before[name] != after[name]} == {daemon}
    assert first.status().state == "up"
    assert call("GET", f"{files}?op=GETFILESTATUS&user.name=alice")[0] == 200
    assert until(lambda: life.app().get("state") == "RUNNING")
    assert until(life.container) == container, "the job's container lives on"


def test_a_healed_sandbox_runs_jobs_to_their_end(first: Sandbox, life: Service) -> None:
    service = Service(info_of(first), "hello", "{ echo hello; sleep 2; }")
    assert service.ended() == ("FINISHED", "SUCCEEDED")
    assert service.output() == "hello\n"
    service.delete()
    assert len(life.attempts()) == 1


# YARN's ApplicationMaster, started again, waits for containers that it knew for
# yarn.service.container-recovery.timeout.ms (120 s by default) before it asks for others.
RECOVERY_S = 120
NODES = {"localhost": "nodemanager", "127.0.0.2": "nodemanager2"}


@pytest.mark.parametrize(
    "with_master",
    [
        pytest.param(True, id="with the ApplicationMaster", marks=pytest.mark.long),
        pytest.param(False, id="without the ApplicationMaster"),
    ],
)
def test_a_node_is_lost_with_its_containers_and_comes_back(
    two: tuple[Sandbox, Sandbox], with_master: bool
) -> None:
    second = two[1]
    info = info_of(second)
    one_for_each_node = {"cpus": 1, "memory": str(NODE_MIB * 5 // 8)}
    service = Service(
        info,
        "spread-with-master" if with_master else "spread",
        "exec sleep 600",
        number_of_containers=2,
        restart_policy="ALWAYS",
        resource=one_for_each_node,
    )

    def hosts() -> list[str]:
        return sorted(str(container["bare_host"]) for container in service.containers())

    until(lambda: hosts() == sorted(NODES))
    master = str(service.app()["amHostHttpAddress"]).partition(":")[0]
    host = next(host for host in NODES if (host == master) is with_master)
    lost_daemon = NODES[host]
    os.kill(pid_of(second, lost_daemon), signal.SIGKILL)
    lost = shutdown.containers(Layout(info.home), list(NODES).index(host) + 1)
    assert lost
    end(lost, grace_s=0)
    status = second.status()
    assert status.state == "degraded"
    assert [row.name for row in status.daemons if not row.healthy] == [lost_daemon]
    _until_nodes(info, {name: "LOST" if name == host else "RUNNING" for name in NODES})
    assert second.up(SandboxOptions(), os.environ).started == (lost_daemon,)
    _until_nodes(info, dict.fromkeys(NODES, "RUNNING"))
    start = time.monotonic()
    until(lambda: hosts() == sorted(NODES), RECOVERY_S * with_master + 90)
    print(f"containers on both nodes {time.monotonic() - start:.1f} s after both were back")
    if with_master:
        assert len(service.attempts()) == 2
        service.delete()
        service.ended()


def _until_nodes(info: SandboxInfo, states: dict[str, str]) -> None:
    def seen() -> dict[str, str]:
        _, answer = call("GET", f"{info.rm_url}/ws/v1/cluster/nodes")
        return {node["nodeHostName"]: node["state"] for node in answer["nodes"]["node"]}

    until(lambda: seen() == states)


def test_down_ends_also_the_containers_that_a_killed_nodemanager_left(
    two: tuple[Sandbox, Sandbox],
) -> None:
    second = two[1]
    info = info_of(second)
    os.kill(pid_of(second, "nodemanager"), signal.SIGKILL)
    left = processes_below(info.home / "run")
    assert any("ServiceMaster" in command for command in left.values()), left
    assert any("sleep 600" in command for command in left.values()), left
    start = time.monotonic()
    assert second.down()
    print(f"down took {time.monotonic() - start:.1f} s")
    assert_nothing_is_left(info)
    assert not second.down()
    assert two[0].status().state == "up", "the neighbour has noticed nothing"


def _broken_java(root: Path, daemon_class: str) -> Path:
    """Make a Java that runs everything but one class."""
    (root / "bin").mkdir(parents=True)
    java = root / "bin" / "java"
    real = find_java_home(os.environ) / "bin" / "java"
    java.write_text(
        f'#!/bin/sh\ncase "$*" in *{daemon_class}*) echo "out of luck" >&2; exit 3;; '
        f'esac\nexec {real} "$@"\n'
    )
    java.chmod(0o755)
    return root


def test_a_daemon_that_does_not_start_is_named_with_its_last_words(
    dirs: SandboxDirs, tmp_path: Path
) -> None:
    sandbox = Sandbox("broken", dirs)
    environ = {**os.environ, "JAVA_HOME": str(_broken_java(tmp_path / "java", "NodeManager"))}
    with pytest.raises(
        SandboxError, match=r"nodemanager ended while it started; the end of its log:\nout of luck$"
    ) as caught:
        sandbox.up(SandboxOptions(), environ)
    home = dirs.state_dir / "broken"
    assert caught.value.hint == f"the whole log is {home / 'run' / 'log' / 'nodemanager.log'}"
    assert processes_below(home) == {}
    assert sandbox.logs("nodemanager") == "out of luck\n"
    assert sandbox.status().state == "down"
    assert sandbox.down()
    assert not home.exists()


def test_a_port_that_is_snatched_is_named_and_nothing_is_left(dirs: SandboxDirs) -> None:
    sandbox = Sandbox("snatched", dirs)
    with contextlib.ExitStack() as stack:

        def snatch(line: str) -> None:
            if line.startswith("starting "):
                state = load_state(Layout(dirs.state_dir / "snatched"))
                assert state
                stack.enter_context(
                    contextlib.closing(socket.create_server(("127.0.0.1", state.ports["rm_http"])))
                )

        with pytest.raises(
            SandboxError, match=r"resourcemanager ended while it started(?s:.*)BindException"
        ):
            sandbox.up(SandboxOptions(), os.environ, snatch)
    assert processes_below(dirs.state_dir / "snatched") == {}
    sandbox.down()


_AS_NOBODY = """
import os, sys
from pathlib import Path
from submit_tf_job.sandbox import *
root = Path(sys.argv[1])
sandbox = Sandbox("default", SandboxDirs(root / "state", root / "cache", root / "config"))
try:
    info = sandbox.up(SandboxOptions(), os.environ, print)
    assert info.resolver == "direct" and info.user == "nobody", info
    assert sandbox.status().state == "up"
finally:
    sandbox.down()
print("done", os.listdir(root / "state"))
"""


@pytest.mark.skipif(
    not AS_ROOT,
    reason="only root can become somebody else; for others every test here is this test",
)
def test_it_needs_no_root_at_all() -> None:
    python = Path("/usr/bin/python3")
    if not python.exists():
        pytest.skip("no Python that everybody can run")
    root = Path(tempfile.mkdtemp(prefix="sandbox-nobody-"))
    try:
        shutil.copytree(
            CACHE / f"hadoop-{DEFAULT_VERSION}", root / "cache" / f"hadoop-{DEFAULT_VERSION}"
        )
        for path in (root, *root.rglob("*")):
            os.chown(path, 65534, 65534)
        source, packages = Path(__file__).parents[2], Path(yaml.__file__).parents[1]
        environ = {
            "HOME": str(root),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{source}:{packages}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        argv = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            str(python),
            "-c",
            _AS_NOBODY,
            str(root),
        ]
        done = subprocess.run(
            argv, cwd=root, env=environ, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.endswith("done []\n"), done.stdout
        assert processes_below(root) == {}
    finally:
        shutil.rmtree(root)


def test_down_leaves_nothing(first: Sandbox, life: Service) -> None:
    info = info_of(first)
    assert life.app()["state"] == "RUNNING"
    assert first.down()
    assert_nothing_is_left(info)


def test_two_python_processes_agree_on_one_sandbox(dirs: SandboxDirs) -> None:
    sandbox = Sandbox("shared", dirs)
    code = (
        "import os,sys; from pathlib import Path; from submit_tf_job.sandbox import *; "
        "a=[Path(p) for p in sys.argv[1:]]\n"
    )
    code += (
        "print(len(Sandbox('shared', SandboxDirs(*a)).up(SandboxOptions(), os.environ).started))"
    )
    argv = [
        sys.executable,
        "-c",
        code,
        str(dirs.state_dir),
        str(dirs.cache_dir),
        str(dirs.config_dir),
    ]
    try:
        started = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        assert sorted(process.communicate(timeout=UP_S)[0].strip() for process in started) == [
            "0",
            "6",
        ]
    finally:
        sandbox.down()
