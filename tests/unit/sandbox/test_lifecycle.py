"""Up, down and status as decisions: what is started, refused, ended, removed. No daemon runs
here.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from submit_tf_job import sandbox as package
from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox import daemons, docker, lifecycle, port_blocks, resolver, startup
from submit_tf_job.sandbox.engine import Engine
from submit_tf_job.sandbox.jars import JarSet
from submit_tf_job.sandbox.lifecycle import Sandbox
from submit_tf_job.sandbox.options import (
    DAEMONS,
    Mode,
    SandboxDirs,
    SandboxOptions,
    check_name,
    daemons_of,
    profile_name,
)
from submit_tf_job.sandbox.port_blocks import (
    BLOCKS,
    PORT_NAMES,
    block_ports,
    dns_address,
    keep_block,
    pick_block,
)
from submit_tf_job.sandbox.processes import Process
from submit_tf_job.sandbox.resolver import choose_resolver, hosts_file_text, why_not_system
from submit_tf_job.sandbox.saved_state import Layout, SandboxState, load_state, save_state
from submit_tf_job.sandbox.web import NotWell

ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/home/ann"}


# --- ports


class Blocks:
    """Reservations of blocks among processes; `held` are other processes'."""

    def __init__(self, held: set[int]) -> None:
        self.held = held
        self.ours: list[int] = []

    def __call__(self, block: int) -> contextlib.AbstractContextManager[object] | None:
        return None if block in self.held else self._hold(block)

    @contextlib.contextmanager
    def _hold(self, block: int) -> Iterator[None]:
        self.held.add(block)
        self.ours.append(block)
        yield
        self.held.discard(block)


def test_ports_of_a_block() -> None:
    assert BLOCKS * 25 == 10000
    every = [port for block in range(BLOCKS) for port in block_ports(block).values()]
    assert len(every) == len(set(every)) == BLOCKS * len(PORT_NAMES)
    assert min(every) >= 10000
    assert max(every) < 20000
    assert len({dns_address(block) for block in range(BLOCKS)}) == BLOCKS


def test_a_block_is_taken_whole_and_held() -> None:
    blocks = Blocks({5})
    taken = block_ports(6)["rm_http"]
    with pick_block(5, reserve=blocks, is_free=lambda port: port != taken) as block:
        assert block == 7, "5 is another process's, and in 6 one port is in use"
        assert 7 in blocks.held
    assert blocks.held == {5}


def test_the_search_for_a_block_goes_round_and_ends() -> None:
    with pick_block(BLOCKS - 1, reserve=Blocks({BLOCKS - 1}), is_free=lambda _: True) as block:
        assert block == 0
    with (
        pytest.raises(SandboxError, match="no 25 free ports in a row"),
        pick_block(0, reserve=Blocks(set()), is_free=lambda _: False),
    ):
        pass


def test_a_block_is_kept_while_daemons_are_restarted() -> None:
    slept: list[float] = []
    blocks = Blocks({4})

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            blocks.held.discard(4)

    with keep_block(4, 5, reserve=blocks, sleep=sleep):
        assert blocks.ours == [4]
    assert len(slept) == 3
    with (
        pytest.raises(SandboxError, match="another sandbox is taking"),
        keep_block(4, 1, reserve=Blocks({4}), sleep=lambda _: None),
    ):
        pass


# --- name lookup


def _etc(tmp_path: Path, hosts: str = "files dns") -> Path:
    (tmp_path / "resolv.conf").write_text("nameserver 10.0.0.2\n")
    (tmp_path / "nsswitch.conf").write_text(f"passwd: files\nhosts:          {hosts}\n")
    return tmp_path


@pytest.fixture
def namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine where `unshare -m` works and port 53 is free."""
    monkeypatch.setattr(resolver, "_TRY", ("true",))
    monkeypatch.setattr(resolver, "port_is_free", lambda port, address: True)


@pytest.mark.usefixtures("namespaces")
def test_the_systems_resolver_is_used_where_it_can_be(tmp_path: Path) -> None:
    assert why_not_system(3, ENVIRON, _etc(tmp_path), lambda: True) == ""


@pytest.mark.usefixtures("namespaces")
def test_what_keeps_the_systems_resolver_from_being_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "only root" in why_not_system(3, ENVIRON, _etc(tmp_path), lambda: False)
    assert "no /etc/resolv.conf" in why_not_system(3, ENVIRON, tmp_path / "empty", lambda: True)
    assert "systemd-resolved" in why_not_system(
        3, ENVIRON, _etc(tmp_path, "files resolve [!UNAVAIL=return] dns"), lambda: True
    )
    monkeypatch.setattr(resolver, "port_is_free", lambda port, address: False)
    assert "port 53 of 127.83.0.4 is in use" in why_not_system(
        3, ENVIRON, _etc(tmp_path), lambda: True
    )
    monkeypatch.setattr(
        resolver, "_TRY", ("/bin/sh", "-c", "echo Operation not permitted >&2; exit 1")
    )
    assert "Operation not permitted" in why_not_system(3, ENVIRON, _etc(tmp_path), lambda: True)
    monkeypatch.setattr(resolver, "_TRY", ("/nonexistent/unshare",))
    assert "does not work here" in why_not_system(3, ENVIRON, _etc(tmp_path), lambda: True)


def test_the_resolver_that_was_asked_for_is_used_or_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resolver, "why_not_system", lambda block, environ: "no luck")
    assert choose_resolver("direct", 3, ENVIRON) == ("direct", "")
    assert choose_resolver("none", 3, ENVIRON) == ("none", "")
    assert choose_resolver("auto", 3, ENVIRON) == ("direct", "no luck")
    with pytest.raises(SandboxError, match="the system's resolver cannot be used: no luck"):
        choose_resolver("system", 3, ENVIRON)
    monkeypatch.setattr(resolver, "why_not_system", lambda block, environ: "")
    assert choose_resolver("auto", 3, ENVIRON) == ("system", "")


def test_a_machine_that_knows_its_name_needs_no_hosts_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hosts").write_text("10.0.0.9 other\n")
    monkeypatch.setattr(socket, "gethostbyname", lambda name: "127.0.1.1")
    assert hosts_file_text(tmp_path, "box") is None

    def unknown(name: str) -> str:
        raise OSError("Name or service not known")

    monkeypatch.setattr(socket, "gethostbyname", unknown)
    assert hosts_file_text(tmp_path, "box") == "127.0.0.1 localhost box\n10.0.0.9 other\n"


# --- names


@pytest.mark.parametrize(("name", "profile"), [("default", "sandbox"), ("two", "sandbox-two")])
def test_profile_names(name: str, profile: str) -> None:
    check_name(name)
    assert profile_name(name) == profile


@pytest.mark.parametrize("name", ["", "Two", "a_b", "-a", "a-", "a/b", "..", "x" * 33])
def test_names_that_would_not_do_as_directory_or_profile(name: str) -> None:
    with pytest.raises(SandboxError, match="is not a valid sandbox name"):
        check_name(name)


def test_the_packages_names() -> None:
    for name in package.__all__:
        assert hasattr(package, name)


# --- up, down, status


class Machine:
    """Everything `Sandbox` would do to the machine, recorded instead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.dirs = SandboxDirs(root / "state", root / "cache", root / "config")
        self.alive: set[str] = set()
        self.started: list[tuple[str, ...]] = []
        self.ended = 0
        self.made: list[str] = []
        self.free = True
        self.failure: SandboxError | None = None
        patches: dict[str, Any] = {
            "find_java_home": lambda environ: Path("/jvm"),
            "ensure_jars": lambda version, cache, environ, progress: JarSet(
                version, Path("/cache/jars/x")
            ),
            "require_gssapi": lambda: None,
            "find_programs": lambda environ: {},
            "ensure_native": lambda home, cache, environ, progress: Path("/cache/native"),
            "make_kdc": lambda state, layout, environ: self.made.append("kdc"),
            "make_certificates": lambda state, layout, environ: self.made.append("certificates"),
            "choose_resolver": lambda wanted, block, environ: ("direct", ""),
            "hosts_file_text": lambda: None,
            "make_bridge": lambda home: Engine(home, 5),
            "restore_bridge": lambda engine: self.made.append(f"bridge {engine.address}"),
            "start_daemons": self._start,
            "wait_until_well": lambda state, layout, progress: None,
            "end_everything": self._end,
            "alive": lambda state, name: name in self.alive,
        }
        for name, value in patches.items():
            monkeypatch.setattr(lifecycle, name, value)
        monkeypatch.setattr(docker, "check_options", lambda options, environ: None)
        monkeypatch.setattr(
            docker, "write_programs", lambda state, layout, environ: self.made.append("programs")
        )
        monkeypatch.setattr(port_blocks, "pick_block", lambda first: contextlib.nullcontext(3))
        monkeypatch.setattr(
            port_blocks, "keep_block", lambda block, timeout_s: contextlib.nullcontext()
        )
        monkeypatch.setattr(port_blocks, "port_is_free", lambda port, address="": self.free)
        monkeypatch.setattr(startup, "alive", lambda state, name: name in self.alive)
        monkeypatch.setattr(daemons, "check", self._check)

    def _start(
        self,
        names: tuple[str, ...],
        state: SandboxState,
        layout: Layout,
        environ: Mapping[str, str],
        progress: Any,
    ) -> SandboxState:
        self.started.append(tuple(names))
        if self.failure:
            raise self.failure
        for number, name in enumerate(names):
            state = state.with_daemon(name, Process(1000 + number, 1))
            self.alive.add(name)
        save_state(layout, state)
        return state

    def _end(self, layout: Layout) -> bool:
        self.ended += 1
        found = bool(self.alive)
        self.alive.clear()
        return found

    def _check(self, name: str, state: SandboxState) -> None:
        if name not in self.alive:
            raise NotWell("it is not running")

    def sandbox(self, name: str = "one") -> Sandbox:
        return Sandbox(name, self.dirs)

    def state(self, name: str = "one") -> SandboxState | None:
        return load_state(Layout(self.dirs.state_dir / name))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path)


def test_the_first_up_starts_everything_and_writes_the_profile(machine: Machine) -> None:
    info = machine.sandbox().up(SandboxOptions(memory_mib=4096), ENVIRON)
    assert machine.started == [DAEMONS]
    assert info.started == DAEMONS
    assert info.profile_path.is_file()
    assert info.rm_url == "http://localhost:10085"
    assert info.dns_server == "127.0.0.1:10089"
    state = machine.state()
    assert state is not None
    assert state.ready
    assert (state.memory_mib, state.vcores, state.hadoop_version) == (4096, 16, "3.4.2")
    assert (info.home / "conf" / "yarn-site.xml").is_file()
    assert (info.client_conf / "core-site.xml").is_file()


def test_a_second_up_starts_nothing(machine: Machine) -> None:
    machine.sandbox().up(SandboxOptions(), ENVIRON)
    info = machine.sandbox().up(SandboxOptions(), ENVIRON)
    assert machine.started == [DAEMONS]
    assert info.started == ()


def test_up_starts_only_what_is_dead(machine: Machine) -> None:
    machine.sandbox().up(SandboxOptions(), ENVIRON)
    machine.alive -= {"datanode", "nodemanager"}
    info = machine.sandbox().up(SandboxOptions(), ENVIRON)
    assert info.started == machine.started[-1] == ("datanode", "nodemanager")


def test_a_daemon_that_was_killed_and_had_not_gone_yet_is_started_too(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.sandbox().up(SandboxOptions(), ENVIRON)

    def wait(state: SandboxState, layout: Layout, progress: Any) -> None:
        if "datanode" in machine.alive:
            machine.alive.discard("datanode")
            raise SandboxError("datanode ended while it started")

    monkeypatch.setattr(lifecycle, "wait_until_well", wait)
    info = machine.sandbox().up(SandboxOptions(), ENVIRON)
    assert info.started == machine.started[-1] == ("datanode",)


def test_a_daemon_that_goes_while_another_is_started_is_started_too(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.sandbox().up(SandboxOptions(), ENVIRON)
    machine.alive.discard("namenode")

    def start(names: tuple[str, ...], *others: Any) -> SandboxState:
        if "datanode" in machine.alive:
            machine.alive.discard("datanode")
            raise SandboxError("datanode ended while it started")
        return machine._start(names, *others)

    monkeypatch.setattr(lifecycle, "start_daemons", start)
    info = machine.sandbox().up(SandboxOptions(), ENVIRON)
    assert info.started == machine.started[-1] == ("namenode", "datanode")


def test_what_does_not_start_is_told_and_tried_once(machine: Machine) -> None:
    machine.sandbox().up(SandboxOptions(), ENVIRON)
    machine.alive.discard("datanode")
    machine.failure = SandboxError("datanode ended while it started")
    with pytest.raises(SandboxError, match="datanode ended while it started"):
        machine.sandbox().up(SandboxOptions(), ENVIRON)
    assert machine.started == [DAEMONS, ("datanode",)]


def test_a_dead_daemons_port_that_was_taken_meanwhile_is_told(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("submit_tf_job.sandbox.startup._LET_GO_S", 0.0)
    machine.sandbox().up(SandboxOptions(), ENVIRON)
    machine.alive.discard("zookeeper")
    machine.free = False
    with pytest.raises(
        SandboxError,
        match="zookeeper is dead and cannot be started again: another process listens on its "
        "port 10075",
    ):
        machine.sandbox().up(SandboxOptions(), ENVIRON)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (SandboxOptions(hadoop_version="3.3.5"), r"is up with Hadoop 3\.4\.2, not 3\.3\.5"),
        (
            SandboxOptions(hadoop_home=Path("/opt/hadoop")),
            "is up with the Hadoop home None, not /opt/hadoop",
        ),
        (
            SandboxOptions(container_path=(Path("/other/bin"),)),
            "is up with the containers' path /venv/bin, not /other/bin",
        ),
        (
            SandboxOptions(container_path=()),
            r"is up with the containers' path /venv/bin, not \(none\)",
        ),
        (SandboxOptions(resolver="system"), "is up with the resolver direct, not system"),
        (SandboxOptions(resolver="none"), "is up with the resolver direct, not none"),
        (SandboxOptions(memory_mib=1024), "is up with memory 12288, not 1024"),
        (SandboxOptions(vcores=1), "is up with vcores 16, not 1"),
        (
            SandboxOptions(modes=("kerberos", "ha")),
            r"is up with the profile simple, not kerberos\+ha",
        ),
    ],
)
def test_a_running_sandbox_is_not_changed_on_the_way(
    machine: Machine, options: SandboxOptions, message: str
) -> None:
    machine.sandbox().up(SandboxOptions(container_path=(Path("/venv/bin"),)), ENVIRON)
    with pytest.raises(SandboxError, match=message) as caught:
        machine.sandbox().up(options, ENVIRON)
    assert "`sandbox down` it first" in caught.value.hint


def test_the_same_options_again_are_fine(machine: Machine) -> None:
    options = SandboxOptions("3.4.2", None, (Path("/venv/bin"),), "direct", 4096, 4)
    machine.sandbox().up(options, ENVIRON)
    machine.sandbox().up(options, ENVIRON)
    machine.sandbox().up(replace(options, resolver="auto"), ENVIRON)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (SandboxOptions(nodes=9), "a sandbox has 1 to 8 nodes, not 9"),
        (SandboxOptions(nodes=2, modes=("kerberos",)), "cannot be combined with Kerberos or TLS"),
        (SandboxOptions(nodes=2, modes=("ha", "tls")), "cannot be combined with Kerberos or TLS"),
    ],
)
def test_up_refuses_nodes(machine: Machine, options: SandboxOptions, message: str) -> None:
    with pytest.raises(SandboxError, match=message):
        machine.sandbox().up(options, ENVIRON)


def test_up_starts_a_nodemanager_for_each_node(machine: Machine) -> None:
    info = machine.sandbox().up(SandboxOptions(nodes=3), ENVIRON)
    assert info.started == daemons_of((), 3)
    port = info.ports["nm_http"]
    hosts = ("localhost", "127.0.0.2", "127.0.0.3")
    assert info.nm_urls == tuple(f"http://{host}:{port}" for host in hosts)
    assert (info.home / "conf-nm3" / "yarn-site.xml").is_file()
    assert (info.home / "run" / "nm-local3").is_dir()
    with pytest.raises(SandboxError, match="is up with nodes 3, not 2"):
        machine.sandbox().up(SandboxOptions(nodes=2), ENVIRON)


@pytest.mark.parametrize("modes", [(), ("docker",)])
def test_a_sandbox_without_registry_dns(
    machine: Machine, modes: tuple[Mode, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "choose_resolver", choose_resolver)
    info = machine.sandbox().up(SandboxOptions(resolver="none", modes=modes), ENVIRON)
    assert info.started == tuple(name for name in daemons_of(modes) if name != "registrydns")
    assert (info.dns_server, info.resolver) == (None, "none")
    assert "registry.dns" not in (info.home / "conf" / "core-site.xml").read_text()
    assert "registry.dns" not in (info.client_conf / "core-site.xml").read_text()
    profile = yaml.safe_load(info.profile_path.read_text())
    assert (profile["names"], "dns" in profile) == ("rendezvous", False)


def test_a_profile_brings_its_daemons_and_its_files(machine: Machine) -> None:
    options = SandboxOptions(modes=("kerberos", "ha", "tls"))
    info = machine.sandbox().up(options, ENVIRON)
    every = daemons_of(options.modes or ())
    assert info.started == every
    assert machine.made == ["kdc", "certificates"]
    assert (info.modes, info.ca_file) == (options.modes, info.home / "tls" / "ca.pem")
    assert info.rm_urls == ("https://localhost:10085", "https://localhost:10095")
    assert info.rm_url == info.rm_urls[0]
    assert info.kerberos is not None
    assert (info.kerberos.kdc, info.kerberos.keytabs) == ("127.0.0.1:10090", info.home / "keytabs")
    ids = [
        (info.home / name / "yarn-site.xml").read_text().count("ha.id</name>")
        for name in ("conf", "conf-rm1", "conf-rm2")
    ]
    assert ids == [0, 1, 1]
    assert [row.name for row in machine.sandbox().status().daemons] == list(every)
    assert machine.sandbox().up(SandboxOptions(), ENVIRON).modes == options.modes, (
        "left out means: as it is"
    )
    with pytest.raises(SandboxError, match=r"is up with the profile kerberos\+ha\+tls, not simple"):
        machine.sandbox().up(SandboxOptions(modes=()), ENVIRON)
    machine.alive -= {"kdc", "resourcemanager2"}
    assert machine.sandbox().up(SandboxOptions(), ENVIRON).started == ("kdc", "resourcemanager2")
    machine.sandbox().down(keep=True)
    again = machine.sandbox().up(SandboxOptions(), ENVIRON)
    assert (again.started, machine.made) == (every, ["kdc", "certificates"]), (
        "keys and certificates are kept, too"
    )


def test_a_sandbox_with_docker_has_an_address_on_its_bridge(machine: Machine) -> None:
    info = machine.sandbox().up(
        SandboxOptions(modes=("docker",), gpus=2, mounts=("/data",)), ENVIRON
    )
    assert (info.started[0], machine.made) == ("dockerd", ["programs"])
    assert (info.resolver, info.dns_server) == ("system", "172.30.20.1:53")
    assert info.hdfs_uri.startswith("hdfs://172.30.20.1:")
    assert info.docker is not None
    assert (info.docker.address, info.docker.gpus, info.docker.executor) == ("172.30.20.1", 2, None)
    for options, message in (
        (SandboxOptions(gpus=1), "with GPUs 2, not 1"),
        (SandboxOptions(mounts=("/data", "/x")), "with mounts /data, not /data:/x"),
        (
            SandboxOptions(container_executor=Path("/ce")),
            "with the container-executor of its own, not /ce",
        ),
    ):
        with pytest.raises(SandboxError, match=message):
            machine.sandbox().up(options, ENVIRON)
    machine.sandbox().down(keep=True)
    machine.sandbox().up(SandboxOptions(), ENVIRON)
    assert machine.made == ["programs", "bridge 172.30.20.1"], (
        "the address is there before it is asked whether its ports are free"
    )


def test_a_port_53_that_is_taken_on_every_address_is_refused(machine: Machine) -> None:
    machine.free = False
    with pytest.raises(SandboxError, match=r"port 53 of 172\.30\.20\.1 is in use"):
        machine.sandbox().up(SandboxOptions(modes=("docker",)), ENVIRON)
    assert not (machine.dirs.state_dir / "one").exists()


def test_kerberos_is_refused_where_it_is_known_not_to_work(machine: Machine) -> None:
    with pytest.raises(
        SandboxError, match=r"a sandbox with Kerberos cannot be had of Hadoop 3\.1\.3"
    ):
        machine.sandbox().up(SandboxOptions("3.1.3", modes=("kerberos",)), ENVIRON)
    assert not (machine.dirs.state_dir / "one").exists()
    assert machine.sandbox().up(SandboxOptions("3.1.3", modes=("ha",)), ENVIRON).modes == ("ha",)


def test_a_failed_first_up_keeps_the_logs_and_the_next_one_starts_over(machine: Machine) -> None:
    machine.failure = SandboxError("namenode ended while it started")
    with pytest.raises(SandboxError, match="namenode ended"):
        machine.sandbox().up(SandboxOptions(), ENVIRON)
    assert (machine.dirs.state_dir / "one" / "run" / "log").is_dir()
    assert not machine.sandbox("one").status().info
    assert not (machine.dirs.config_dir / "profiles.d").exists()
    machine.failure = None
    machine.sandbox().up(SandboxOptions(memory_mib=1024), ENVIRON)
    assert machine.started == [DAEMONS, DAEMONS]


def test_a_first_up_that_never_got_to_the_daemons_leaves_nothing(machine: Machine) -> None:
    (machine.dirs.state_dir / "hadoop").mkdir(parents=True)
    with pytest.raises(SandboxError, match="is not an unpacked Hadoop"):
        machine.sandbox().up(SandboxOptions(hadoop_home=machine.dirs.state_dir / "hadoop"), ENVIRON)
    assert not (machine.dirs.state_dir / "one").exists()


def test_a_path_that_hadoop_would_take_apart_is_refused(machine: Machine) -> None:
    sandbox = Sandbox("one", replace(machine.dirs, state_dir=machine.dirs.state_dir / "my files"))
    with pytest.raises(SandboxError, match=r"Hadoop cannot work in .*/my files/one"):
        sandbox.up(SandboxOptions(), ENVIRON)


def test_down_removes_everything(machine: Machine) -> None:
    machine.sandbox().up(SandboxOptions(), ENVIRON)
    assert machine.sandbox().down()
    assert machine.alive == set()
    assert list(machine.dirs.state_dir.iterdir()) == []
    assert list((machine.dirs.config_dir / "profiles.d").iterdir()) == []
    assert not machine.sandbox().down(), "the second time there is nothing"


def test_down_can_keep_the_data_for_a_later_up(machine: Machine) -> None:
    first = machine.sandbox().up(SandboxOptions(), ENVIRON)
    machine.sandbox().down(keep=True)
    assert not first.profile_path.exists()
    assert machine.sandbox().status().state == "down"
    again = machine.sandbox().up(SandboxOptions(), ENVIRON)
    assert again.started == DAEMONS
    assert again.ports == first.ports
    assert first.profile_path.exists()


def test_down_works_on_a_state_that_cannot_be_read(machine: Machine) -> None:
    info = machine.sandbox().up(SandboxOptions(), ENVIRON)
    (info.home / "state.json").write_text("{")
    with pytest.raises(SandboxError, match="cannot be read"):
        machine.sandbox().status()
    assert machine.sandbox().down()
    assert not info.home.exists()
    assert not info.profile_path.exists()


def test_status_names_the_dead_daemon(machine: Machine) -> None:
    assert machine.sandbox().status().state == "down"
    machine.sandbox().up(SandboxOptions(), ENVIRON)
    assert machine.sandbox().status().state == "up"
    machine.alive.discard("registrydns")
    status = machine.sandbox().status()
    assert status.state == "degraded"
    assert [(row.name, row.alive, row.reason) for row in status.daemons if not row.healthy] == [
        ("registrydns", False, "it is not running")
    ]
    rm = next(row for row in status.daemons if row.name == "resourcemanager")
    assert rm.ports == (10081, 10082, 10083, 10084, 10085)


def test_logs(machine: Machine) -> None:
    with pytest.raises(SandboxError, match="has no log of namenode"):
        machine.sandbox().logs("namenode")
    info = machine.sandbox().up(SandboxOptions(), ENVIRON)
    (info.home / "run" / "log" / "namenode.log").write_text("a\nb\nc\n")
    assert machine.sandbox().logs("namenode") == "a\nb\nc\n"
    assert machine.sandbox().logs("namenode", tail=2) == "b\nc"
    with pytest.raises(SandboxError, match="there is no daemon 'nn'") as caught:
        machine.sandbox().logs("nn")
    assert "namenode" in caught.value.hint


def test_a_sandbox_is_the_same_by_every_spelling_of_its_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    spelled = [tmp_path / "real", tmp_path / "link", tmp_path / "link" / ".." / "real"]
    homes = {Sandbox("a", SandboxDirs(path, tmp_path, tmp_path))._layout.home for path in spelled}
    assert homes == {tmp_path.resolve() / "real" / "a"}
