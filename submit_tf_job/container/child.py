"""The training command as a child in a process group of its own, which does not outlive the bootstrap."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import signal
import socket
import subprocess

from submit_tf_job import contract
from submit_tf_job.bootstrap.info import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
STOPS = (signal.SIGTERM, signal.SIGINT)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LEFTOVER_GRACE_S = 1.0


class Signals:
    """Remembers signals, wakes the event loop, and hands them to the child at once: YARN kills 250 ms after its SIGTERM."""

    def __init__(self) -> None:
        """Take over the process's signal handlers."""
        self.seen: list[int] = []
        self.forward: Callable[[int], None] | None = None
        self.reader, self.writer = socket.socketpair()
        self.reader.setblocking(False)
        self.writer.setblocking(False)
        signal.set_wakeup_fd(self.writer.fileno(), warn_on_full_buffer=False)
        for number in FORWARDED + (signal.SIGCHLD,):
            signal.signal(number, self._arrived)

    def _arrived(self, number: int, _frame: Any) -> None:
        if number != signal.SIGCHLD:
            self.seen.append(number)
            if self.forward:
                self.forward(number)

    def stop(self) -> int:
        """Return the first signal that asks this task to end, or 0."""
        return next((number for number in self.seen if number in STOPS), 0)

    def wake(self) -> None:
        """Make the event loop turn once; may be called by any thread."""
        with contextlib.suppress(OSError):  # full: it will wake anyway
            self.writer.send(b"\0")

    def drain(self) -> None:
        """Forget the wake-ups."""
        with contextlib.suppress(OSError):
            while self.reader.recv(4096):
                pass


def _prctl() -> Any:
    try:
        import ctypes

        return ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return None


def argv_of(command: str | Sequence[str], path: str | None) -> list[str]:
    """Return what to execute: a list as it is, a string through bash."""
    if isinstance(command, str):
        return [shutil.which("bash", path=path) or "/bin/sh", "-c", command]
    return list(command)


class Child:
    """The running command.

    Raises:
        Problem: It cannot be started.
    """

    def __init__(self, command: str | Sequence[str], env: Mapping[str, str], nofile: tuple[int, int] | None = None) -> None:
        """Start it; `nofile` is the limit of open files it is to have."""
        argv = argv_of(command, env.get("PATH"))
        parent = os.getpid()
        prctl = _prctl()
        if prctl:
            prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what the command leaves behind is reaped here, not by whoever is process 1

        self._guard = _start_guard(env.get("PATH", ""))
        told = self._guard.stdin.fileno() if self._guard and self._guard.stdin else None

        def prepare() -> None:
            os.setpgid(0, 0)
            if told is not None:
                with contextlib.suppress(OSError):  # without a guard the command runs all the same
                    os.write(told, b"%d\n" % os.getpid())  # before there is anything to kill
            if nofile:
                resource.setrlimit(resource.RLIMIT_NOFILE, nofile)
            if prctl:
                prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                if os.getppid() != parent:
                    os._exit(137)

        try:
            self.process = subprocess.Popen(argv, env=dict(env), stdin=subprocess.DEVNULL, preexec_fn=prepare)
        except (OSError, ValueError) as err:
            _end(self._guard)
            raise _cannot_start(argv, err, env.get("PATH")) from err
        self.group = self.process.pid
        self.code: int | None = None
        self.over = False  # the whole group is gone
        self.kill_at: float | None = None

    def send(self, number: int) -> None:
        """Send a signal to the command's whole group."""
        with contextlib.suppress(OSError):
            if not self.over:
                os.killpg(self.group, number)

    def stop(self, now: float, grace_s: float, number: int = signal.SIGTERM) -> None:
        """Ask the group to end; after `grace_s` it is killed (MultiWorkerMirroredStrategy ignores SIGTERM)."""
        if self.kill_at is None:
            self.kill_at = now + grace_s
            if number:
                self.send(number)

    def poll(self, now: float) -> bool:
        """Reap what has ended; True when the command and its leftovers are gone."""
        while not self.over:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)  # as process 1 of a container also others' orphans
            except ChildProcessError:
                break
            if pid == 0:
                break
            code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            if pid == self.group:
                self.code = self.process.returncode = code
            elif self._guard and pid == self._guard.pid:
                self._guard.returncode = code
        if self.kill_at is not None and now >= self.kill_at:
            self.send(signal.SIGKILL)
        if self.code is not None and not self.over:
            # A second after SIGKILL only zombies can be left, which somebody else has to reap.
            self.over = not self._group_lives() or (self.kill_at is not None and now > self.kill_at + 1)
            if not self.over:
                self.stop(now, LEFTOVER_GRACE_S)
        return self.over

    def _group_lives(self) -> bool:
        try:
            os.killpg(self.group, 0)
        except OSError as err:
            return err.errno == errno.EPERM
        return True

    def close(self) -> None:
        """Leave nothing behind."""
        self.send(signal.SIGKILL)
        _end(self.process)
        _end(self._guard)


def _start_guard(path: str) -> subprocess.Popen[bytes] | None:
    """Start a shell that kills the group it is told when this process dies: PDEATHSIG reaches the child, not its children."""
    script = 'trap "" TERM INT HUP; read -r group || exit; read -r _; kill -9 "-$group"'
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", script, "tfjob-guard"],
            env={"PATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process and process.returncode is None:
        process.kill()
        process.wait()
    if process and process.stdin:
        process.stdin.close()


def _cannot_start(argv: Sequence[str], err: Exception, path: str | None) -> Problem:
    name = argv[0]
    found = name if "/" in name else shutil.which(name, path=path)
    if isinstance(err, FileNotFoundError) and not (found and os.path.exists(found)):
        hint = "; this image has python3" if name == "python" and shutil.which("python3", path=path) else ""
        return Problem(
            contract.EXIT_COMMAND_NOT_FOUND, "command-not-found", "the command %r was not found in the container%s" % (name, hint)
        )
    why = getattr(err, "strerror", None) or str(err)
    if isinstance(err, FileNotFoundError):
        why = "the interpreter in its first line does not exist"
    return Problem(contract.EXIT_COMMAND_NOT_EXECUTABLE, "not-executable", "the command %r could not be executed: %s" % (name, why))
