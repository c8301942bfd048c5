"""The sandbox's container-executor, called as a NodeManager calls it: what it runs, and refuses."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from submit_tf_job.sandbox import docker, engine
from submit_tf_job.sandbox.state import Layout, SandboxState
from tests.builders.sandbox import state_of

ENVIRON = {"PATH": os.environ["PATH"]}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    Layout(tmp_path).make()
    monkeypatch.setattr(engine, "RUN", tmp_path / "sockets")
    for name in docker.exposed(state_of(home=str(tmp_path), nodes=2)):
        (Layout(tmp_path).exposed / name).mkdir(parents=True)  # in the place of a bind mount
    return tmp_path


def _state(home: Path, **changes: object) -> SandboxState:
    state = state_of(
        home=str(home),
        modes=("docker",),
        network=5,
        resolver="system",
    )
    return state_of(**{**state.__dict__, **changes})


@pytest.fixture
def executor(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The executor as a NodeManager calls it, and a Docker that writes down what it was told."""
    tool = home / "docker-cli"
    tool.write_text(
        f"#!/bin/sh\nenv > {home}/environ\nprintf '%s\\n' \"$@\" > {home}/argv\n"
        f'case "$*" in *"network inspect"*) echo bridge;; *inspect*) exit 1;; *) cp '
        f"{home}/argv {home}/ran; exit 3;; esac\n"
    )
    tool.chmod(0o755)
    monkeypatch.setattr(docker, "_CLI", str(tool))
    docker.write_programs(_state(home, mounts=("/etc/ssl",)), ENVIRON)

    def call(*words: object, **environ: str) -> subprocess.CompletedProcess[str]:
        argv = [str(home / "bin" / "container-executor"), *map(str, words)]
        return subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=600)

    return call


CONTAINER = "container_1700000000000_0001_01_000002"
Call = Callable[..., subprocess.CompletedProcess[str]]


def _command(home: Path, **values: str) -> Path:
    path = home / "docker.cmd"
    path.write_text(
        "[docker-command-execution]\n"
        + "".join(f"  {key.replace('_', '-')}={value}\n" for key, value in values.items())
    )
    return path


@pytest.mark.slow
def test_it_is_ready_and_does_only_what_is_asked(executor: Call) -> None:
    assert executor("--checksetup").returncode == 0
    for words in (["--exec-container", "/x"], ["--module-gpu"], ["nobody", "ann", "5", "/etc"]):
        done = executor(*words)
        assert done.returncode == 32
        assert "Feature disabled" in done.stderr
    banned = executor("root", "ann", "1", *"abcdefghij")
    assert banned.returncode == 255
    assert banned.stdout.splitlines() == [
        "main : command provided 1",
        "main : run as user is root",
        "main : requested yarn user is ann",
        "Requested user root is banned",
    ], "a NodeManager quotes stdout of a failed localization"
    done = executor("nosuch", "ann", "0", *"abcdefghij")
    assert done.stdout.endswith("\nUser nosuch not found\n")
    assert executor("nobody").returncode == 255, "no traceback, and not a program's 1"


def test_docker_is_called_with_its_own_environment_and_address(executor: Call, home: Path) -> None:
    command = _command(home, docker_command="kill", name=CONTAINER, signal="SIGTERM")
    executor("--run-docker", command, DOCKER_HOST="tcp://evil:1", LD_LIBRARY_PATH="/evil")
    assert "evil" not in (home / "environ").read_text()
    words = (home / "ran").read_text().split()
    assert words[:2] == ["-H", Layout(home) and _state(home).engine.host]
    assert words[-3:] == ["kill", "--signal=SIGTERM", CONTAINER]


def test_containers_that_are_not_yarns_are_left_alone(executor: Call, home: Path) -> None:
    for words in (
        ["--run-docker", _command(home, docker_command="kill", name="database", signal="9")],
        ["--remove-docker-container", "database"],
        ["--inspect-docker-container", "--format={{.State.Status}}", "--all"],
    ):
        assert "is not a YARN container" in executor(*words).stderr
    assert (
        executor("--run-docker", _command(home, docker_command="run", name=CONTAINER)).returncode
        == 29
    )
    assert not (home / "ran").exists()


@pytest.mark.slow
def test_it_removes_nothing_beyond_the_nodemanagers_directories(executor: Call, home: Path) -> None:
    local, outside = Layout(home).exposed / "nm-local", home / "precious"
    (outside / "deep").mkdir(parents=True)
    (local / "app" / "sub").mkdir(parents=True)
    (local / "app" / "link").symlink_to(outside)
    (local / "out").symlink_to(outside)
    for target in (
        outside,
        local / ".." / ".." / ".." / "precious",
        local / "out" / "deep",
        "/",
        local / "..",
        "",
    ):
        assert executor("nobody", "ann", "3", target).returncode == 255, target
    assert (outside / "deep").is_dir()
    assert executor("nobody", "ann", "3", "app", local).returncode == 0
    assert executor("nobody", "ann", "3", local / "app").returncode == 0, "gone already"
    assert executor("nobody", "ann", "3", "", local / "out").returncode == 0
    assert (outside / "deep").is_dir(), "through no link"
    assert list(local.iterdir()) == []


def test_it_signals_no_foreign_process(executor: Call) -> None:
    assert executor("nobody", "ann", "2", os.getpid(), "15").returncode == 8
    assert executor("nobody", "ann", "2", "1", "9").returncode == 9
    assert executor("nobody", "ann", "2", "0", "9").returncode == 9
    assert executor("nobody", "ann", "2", "4194303", "9").returncode == 9


def _edit_configuration(home: Path, old: str, new: str) -> None:
    file = home / "conf" / "container-executor.cfg"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def _launch(executor: Call, home: Path, **command: str) -> subprocess.CompletedProcess[str]:
    """Start a container as the NodeManager does."""
    exposed, private = Layout(home).exposed, home / "private"
    local, logs = exposed / "nm-local", exposed / "nm-log"
    for directory in (local / "usercache", private):
        directory.mkdir(exist_ok=True)
    for name in ("launch.sh", "tokens"):
        (private / name).write_text(name)
    values = {"docker_command": "run", "name": CONTAINER, "image": "local/x:1"}
    values |= {"net": "bridge", "detach": "true"}
    path = _command(home, launch_command="bash,/run.sh", **{**values, **command})
    work = local / "usercache" / "ann" / "appcache" / "application_1" / CONTAINER
    files = [work, *(private / name for name in ("launch.sh", "tokens")), "--http"]
    places = [private / "pid", local, logs, path]
    return executor("nobody", "ann", "4", "application_1", CONTAINER, *files, *places)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_launch_with_an_allowed_mount_that_is_missing_fails_whatever_is_mounted(
    executor: Call, home: Path
) -> None:
    _edit_configuration(
        home,
        "docker.allowed.ro-mounts=",
        "docker.allowed.ro-mounts=regex:^/data.*$,volume,/site/gone,",
    )
    done = _launch(executor, home, mounts="/etc/ssl:/x:ro")
    assert done.returncode == 29
    assert done.stderr.splitlines() == [
        "Could not determine real path of mount '/site/gone'",
        "Unable to find permitted docker mounts on disk",
        "Error constructing docker command, docker error code=52, error message='Mount "
        "access error'",
    ]
    assert not (home / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
@pytest.mark.parametrize(
    ("retries", "code", "reported"),
    [("1", 7, 7), ("1", 0, 0), ("0", 3, 0), ("0", 7, 0), ("0", 127, 0)],
)
def test_launch_without_inspect_retries_reports_success(
    executor: Call, home: Path, retries: str, code: int, reported: int
) -> None:
    _edit_configuration(home, "inspect.max.retries=1", f"inspect.max.retries={retries}")
    replies = (
        f'*"network inspect"*) echo bridge;; *wait*) echo {code};; *inspect*) echo 0;; *) exit 0;;'
    )
    (home / "docker-cli").write_text(f'#!/bin/sh\ncase "$*" in {replies} esac\n')
    assert _launch(executor, home).returncode == reported
    (home / "docker-cli").write_text(
        '#!/bin/sh\ncase "$*" in *"network inspect"*) echo bridge;; *) exit 125;; esac\n'
    )
    users = Layout(home).exposed / "nm-local/usercache"
    work = users / "ann/appcache/application_1" / CONTAINER
    for name in ("launch_container.sh", "container_tokens"):
        (work / name).unlink()
    assert _launch(executor, home).returncode == 7, "a container that was never started"


@pytest.mark.parametrize(
    ("signal", "sent"),
    [("SIGTERM", True), ("SIGQUIT", True), ("SIGUSR1", False), ("SIGRTMIN+3", False), ("9", False)],
)
def test_kill_refuses_numbered_signals(executor: Call, home: Path, signal: str, sent: bool) -> None:
    command = _command(home, docker_command="kill", name=CONTAINER, signal=signal)
    done = executor("--run-docker", command)
    assert (home / "ran").exists() is sent
    if not sent:
        assert done.returncode == 29
        assert f"Value for signal contains non-uppercase characters '{signal}'" in done.stderr
        assert "docker error code=66, error message='Invalid docker kill command'" in done.stderr
