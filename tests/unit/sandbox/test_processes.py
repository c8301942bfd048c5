"""Processes are found, recognised and ended, and never mistaken for others."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from submit_tf_job.errors import SandboxError
from submit_tf_job.sandbox import processes
from submit_tf_job.sandbox.locks import file_lock
from submit_tf_job.sandbox.processes import (
    Process,
    container_processes,
    end,
    is_alive,
    launch,
    listens,
    marked_processes,
    marker,
)

LOCAL = Path("/sandbox/run/nm-local")
CONTAINER = {
    "CONTAINER_ID": "container_1",
    "LOCAL_DIRS": f"{LOCAL}/usercache/alice/appcache/application_1",
}


class Proc:
    """A /proc of one's own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "net").mkdir()
        (root / "uptime").write_text("1 1")

    def add(
        self,
        pid: int,
        *,
        ticks: int = 100,
        name: str = "java",
        state: str = "S",
        parent: int = 1,
        session: int | None = None,
        terminal: int = 0,
        argv: tuple[str, ...] = (),
        environ: dict[str, str] | None = None,
        cwd: str = "/",
        sockets: tuple[int, ...] = (),
    ) -> Process:
        home = self.root / str(pid)
        (home / "fd").mkdir(parents=True)
        fields = [state, parent, pid, session or pid, terminal, *[0] * 14, ticks, 0, 0]
        (home / "stat").write_text(f"{pid} ({name}) " + " ".join(map(str, fields)))
        (home / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in argv))
        (home / "environ").write_bytes(
            b"".join(f"{key}={value}".encode() + b"\0" for key, value in (environ or {}).items())
        )
        (home / "cwd").symlink_to(cwd)
        for number, inode in enumerate(sockets):
            (home / "fd" / str(number)).symlink_to(f"socket:[{inode}]")
        return Process(pid, ticks)

    def listen(self, port: int, inode: int, state: str = "0A") -> None:
        table = self.root / "net" / "tcp"
        if not table.exists():
            table.write_text("  sl  local_address rem_address   st\n")
        row = (
            f"   0: 0100007F:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 "
            f"00000000     0        0 {inode} 1\n"
        )
        table.write_text(table.read_text() + row)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_a_process_is_its_number_and_its_start(proc: Proc) -> None:
    process = proc.add(7, ticks=100)
    assert is_alive(process, proc.root)
    assert not is_alive(Process(7, 99), proc.root), "the number was used again"
    assert not is_alive(Process(8, 100), proc.root)


def test_a_zombie_is_not_alive(proc: Proc) -> None:
    assert not is_alive(proc.add(7, state="Z"), proc.root)


def test_a_name_may_hold_brackets_and_blanks(proc: Proc) -> None:
    assert is_alive(proc.add(7, name="a) S 1 (b", ticks=42), proc.root)


def test_daemons_are_found_by_home_and_main_class(proc: Proc) -> None:
    home = Path("/state/one")
    mains = {"org.Main": "namenode", "org.Other": "datanode"}
    ours = proc.add(10, argv=("java", marker(home), "-cp", "x", "org.Main"))
    proc.add(11, argv=("java", marker(Path("/state/one2")), "org.Main"))
    proc.add(12, argv=("pgrep", "-f", marker(home)))
    proc.add(13, argv=("java", marker(home), "org.Main"), state="Z")
    assert marked_processes(home, mains, proc.root) == {ours: "namenode"}


def test_containers_are_found_by_environment_session_and_directory(proc: Proc) -> None:
    expected = [
        proc.add(20, environ=CONTAINER),
        proc.add(21, session=20),  # cleared its environment
        # and its session, too
        proc.add(22, cwd=f"{LOCAL}/usercache/alice/appcache/application_1/container_1"),
    ]
    proc.add(30, environ={"LOCAL_DIRS": str(LOCAL) + "/x"})  # no container
    # another sandbox's
    proc.add(31, environ={**CONTAINER, "LOCAL_DIRS": "/other/run/nm-local/usercache"})
    proc.add(32, cwd=f"{LOCAL}/usercache", terminal=34816)  # a person's shell that looks around
    proc.add(33, cwd="/sandbox/run/nm-local2")
    assert container_processes(LOCAL, proc.root) == expected


def test_the_caller_and_its_parents_are_never_containers(proc: Proc) -> None:
    proc.add(40, cwd=str(LOCAL / "x"))
    proc.add(os.getpid(), parent=40, cwd=str(LOCAL / "x"))
    assert container_processes(LOCAL, proc.root) == []


def test_whose_port_it_is(proc: Proc) -> None:
    ours = proc.add(50, sockets=(1, 900))
    other = proc.add(51, sockets=(2,))
    proc.listen(10000, 900)
    proc.listen(10001, 900, state="01")
    assert listens(ours, 10000, proc.root)
    assert not listens(other, 10000, proc.root)
    assert not listens(Process(99, 1), 10000, proc.root)


def test_whose_port_it_is_stays_open_where_the_kernel_tells_nothing(proc: Proc) -> None:
    assert listens(proc.add(50), 10000, proc.root)


class Kernel:
    """Signals and time for `end`: a process dies of the signals it is told to, and a number may
    belong to somebody else.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, dies_of: dict[int, set[int]]) -> None:
        self.dies_of = dies_of
        self.alive = {Process(pid, 1) for pid in dies_of}
        self.sent: list[tuple[int, int]] = []
        self.slept = 0.0
        monkeypatch.setattr(processes, "is_alive", lambda process: process in self.alive)
        monkeypatch.setattr(os, "kill", self.kill)

    def kill(self, pid: int, number: int) -> None:
        self.sent.append((pid, number))
        if number in self.dies_of[pid]:
            self.alive.discard(Process(pid, 1))

    def sleep(self, seconds: float) -> None:
        self.slept += seconds


def test_ending_asks_first_and_forces_later(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, {1001: {15}, 1002: {9}})
    end([Process(1001, 1), Process(1002, 1)], grace_s=3, sleep=kernel.sleep)
    assert kernel.sent == [(1001, 15), (1002, 15), (1002, 9)]
    assert kernel.slept == pytest.approx(3.05, abs=0.1)


def test_ending_without_grace_forces_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, {1001: {9, 15}})
    end([Process(1001, 1)], grace_s=0, sleep=kernel.sleep)
    assert kernel.sent == [(1001, signal.SIGKILL)]


def test_a_number_that_was_used_again_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, {1001: {9, 15}})
    end([Process(1001, 2)], grace_s=3, sleep=kernel.sleep)
    assert kernel.sent == []


def test_what_survives_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, {1001: set()})
    with pytest.raises(SandboxError, match="could not end the processes 1001"):
        end([Process(1001, 1)], grace_s=1, sleep=kernel.sleep)


def test_a_daemon_is_nobodys_child_and_writes_to_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = launch(
        ["/bin/sh", "-c", 'echo "$WORD in $PWD"; exec sleep 60'],
        {"WORD": "hello", "PATH": os.environ["PATH"]},
        tmp_path,
        log,
    )
    try:
        deadline = time.monotonic() + 10
        while not (log.exists() and log.read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert is_alive(process)
        assert log.read_text() == f"hello in {tmp_path}\n"
        with pytest.raises(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)
    finally:
        end([process], grace_s=2)
    assert not is_alive(process)


def test_a_daemon_that_ends_at_once_is_not_alive(tmp_path: Path) -> None:
    process = launch(["/nonexistent/java"], {}, tmp_path, tmp_path / "log")
    deadline = time.monotonic() + 10
    while is_alive(process) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(process)
    assert "/nonexistent/java" in (tmp_path / "log").read_text()


def test_a_daemon_without_a_directory_cannot_start(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="could not start java"):
        launch(["java"], {}, tmp_path / "none", tmp_path / "log")


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lock"
    waited: list[bool] = []
    with (
        file_lock(path, 1),
        pytest.raises(SandboxError, match=r"another process has held .* for 0 s"),
        file_lock(path, 0.2, lambda: waited.append(True)),
    ):
        pass
    assert waited == [True]
    with file_lock(path, 0):
        pass


def test_a_lock_that_its_holder_removed_is_taken_anew(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    order: list[str] = []
    inside = threading.Event()

    def first() -> None:
        with file_lock(path, 5):
            inside.set()
            time.sleep(0.3)
            path.unlink()
            order.append("first")

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(5)
    with file_lock(path, 5):
        order.append("second")
        assert path.exists()
    thread.join()
    assert order == ["first", "second"]


def test_a_lock_that_cannot_be_written_is_one_of_our_errors(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(SandboxError, match="cannot be written: File exists"),
        file_lock(tmp_path / "file" / "lock", 1),
    ):
        pass
