"""A Docker Engine of one's own: what needs no Docker."""

from __future__ import annotations

from ipaddress import IPv4Network
from itertools import pairwise
from pathlib import Path

import pytest

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox import engine
from submit_tf_job.sandbox.engine import (
    Engine,
    dockerd_argv,
    find_programs,
    make_bridge,
    restore_bridge,
)
from submit_tf_job.sandbox.processes import group_members, named_processes

ENGINE = Engine(Path("/srv/one"), 5)


def test_every_engine_has_names_and_addresses_of_its_own() -> None:
    other = Engine(Path("/srv/two"), 6)
    assert ENGINE.identity != other.identity
    assert len(ENGINE.identity) <= 15, "the kernel's limit for the name of a bridge"
    assert not ENGINE.block.overlaps(other.block)
    assert (str(ENGINE.block), str(ENGINE.subnet), ENGINE.address) == (
        "172.30.20.0/22",
        "172.30.20.0/24",
        "172.30.20.1",
    )
    assert len(f"{ENGINE.run}/exec/containerd/containerd.sock.ttrpc") < 107, (
        "the kernel's limit for a socket"
    )


def test_addresses_that_something_else_has_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    taken: list[IPv4Network] = [IPv4Network("0.0.0.0/0")]
    monkeypatch.setattr(engine, "call", calls.append)
    monkeypatch.setattr(engine, "_has_bridge", lambda _: False)
    monkeypatch.setattr(engine, "_routes", lambda: taken)
    first = make_bridge(Path("/srv/one"))
    taken.append(IPv4Network(f"{first.address}/32"))
    second = make_bridge(Path("/srv/one"))
    assert second.number == (first.number + 1) % 64
    assert calls[-2][-4:] == ["add", f"{second.address}/24", "dev", second.identity]
    with pytest.raises(SandboxError, match="are in use by now"):
        restore_bridge(first)
    taken.append(IPv4Network("172.16.0.0/12"))
    with pytest.raises(
        SandboxError, match=r"no free addresses for a Docker network in 172\.30\.0\.0/16"
    ):
        make_bridge(Path("/srv/one"))


def test_dockerd_is_told_everything_that_two_engines_would_share() -> None:
    argv = dockerd_argv(ENGINE, "172.30.20.1", ["-H", "unix:///run/docker.sock"])
    options = dict(pairwise(argv))
    assert [word for before, word in pairwise(argv) if before == "-H"] == [
        ENGINE.host,
        "unix:///run/docker.sock",
    ]
    assert options["--data-root"] == "/srv/one/data"
    assert options["--exec-root"].startswith(f"{ENGINE.run}/")
    assert options["--config-file"].startswith(f"{ENGINE.run}/"), "not the machine's daemon.json"
    assert (options["--bridge"], options["--cgroup-parent"], options["--dns"]) == (
        ENGINE.identity,
        f"/{ENGINE.identity}",
        "172.30.20.1",
    )
    assert {"--iptables=false", "--ip-forward=false"} <= set(argv), "the firewall is the machine's"
    pools = [word for before, word in pairwise(argv) if before == "--default-address-pool"]
    assert pools == [f"base=172.30.{number}.0/24,size=26" for number in (21, 22, 23)]


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(
        "shutil.which", lambda name, path: None if name == "runc" else f"/usr/bin/{name}"
    )
    with pytest.raises(SandboxError, match=r"^runc was not found") as caught:
        find_programs({})
    assert "apt-get install docker.io" in (caught.value.hint or "")


def test_only_root_is_told_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(SandboxError, match="can be started by root only"):
        find_programs({})


def _process(proc: Path, pid: int, comm: str, cmdline: str, groups: str) -> None:
    directory = proc / str(pid)
    directory.mkdir()
    (directory / "stat").write_text(
        f"{pid} ({comm}) S 1 {pid} {pid} 0 -1 {'0 ' * 13}{1000 + pid}\n"
    )
    (directory / "comm").write_text(f"{comm}\n")
    (directory / "cmdline").write_text(cmdline.replace(" ", "\0"))
    (directory / "cgroup").write_text(groups)


def test_only_its_own_processes_are_found(tmp_path: Path) -> None:
    _process(tmp_path, 10, "containerd", "containerd --config /run/x/tfj1/exec/c.toml", "0::/\n")
    _process(tmp_path, 11, "containerd-shim", "shim -address /run/x/tfj1/exec/c.sock", "0::/\n")
    _process(tmp_path, 12, "containerd", "containerd", "0::/\n")
    _process(tmp_path, 13, "docker", "docker -H unix:///run/x/tfj1/docker.sock ps", "0::/\n")
    _process(tmp_path, 14, "sleep", "sleep 9", "5:devices:/tfj1/abc\n1:cpu:/\n0::/\n")
    _process(tmp_path, 15, "sleep", "sleep 9", "5:devices:/tfj10/abc\n0::/tfj2\n")
    assert {found.pid for found in named_processes(("containerd",), "/run/x/tfj1", tmp_path)} == {
        10,
        11,
    }
    assert {found.pid for found in group_members("tfj1", tmp_path)} == {14}
