"""The training command: a child process in its own process group that ends with the bootstrap."""

from __future__ import annotations

import collections
import contextlib
import errno
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from submit_tf_job.container import untrusted
from submit_tf_job.container.info import BootstrapProblem

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
STOPS = (signal.SIGTERM, signal.SIGINT)
# a SIGTERM soon after it leaves time to save: `submit_tf_job stop --grace` sends both, and repeats
# this one while it waits
PATIENCE = signal.SIGQUIT
PATIENCE_S = 20.0  # how long one of them lasts; it travels with NodeManagers' heartbeats
PR_SET_CHILD_SUBREAPER = 36
LEFTOVER_GRACE_S = 1.0
SHELLS = ("ash", "bash", "busybox", "dash", "ksh", "mksh", "sh", "zsh")
LEFT_S = 0.5  # processes that outlive a command that succeeded so long were left in the background
OOM_COUNTS = (
    "/sys/fs/cgroup/memory.events",  # version 2
    "/sys/fs/cgroup/memory/memory.oom_control",  # version 1
)


class Signals:
    """Handles the signals of this process: keeps them, wakes the event loop, and forwards them to
    the child at once, because YARN sends SIGKILL 250 ms after SIGTERM.
    """

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.patient_until = 0.0  # whoever stops this task waits so long at least
        self.asked_at = 0.0  # when PATIENCE came; without a SIGTERM it asks for the stacks
        self.forward: Callable[[int], None] | None = None
        self.reader, self.writer = socket.socketpair()
        self.reader.setblocking(False)
        self.writer.setblocking(False)
        quiet = {"warn_on_full_buffer": False} if sys.version_info >= (3, 7) else {}
        signal.set_wakeup_fd(self.writer.fileno(), **quiet)
        for number in FORWARDED + (signal.SIGCHLD, PATIENCE):
            signal.signal(number, self._signal_arrived)
        # HotSpot blocks it in its threads, so that a NodeManager's containers inherit that
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [PATIENCE])

    def _signal_arrived(self, number: int, _frame: Any) -> None:
        if number == PATIENCE:
            self.asked_at = time.monotonic()
            self.patient_until = self.asked_at + PATIENCE_S
        elif number != signal.SIGCHLD:
            self.seen.append(number)
            if self.forward:
                self.forward(number)

    def stop(self) -> int:
        """Return the first SIGTERM or SIGINT that was received; 0 if none was."""
        return next((number for number in self.seen if number in STOPS), 0)

    def must_end(self) -> bool:
        """Return whether this task must end now: SIGTERM or SIGINT came, and the time to save is
        over.
        """
        return bool(self.stop()) and time.monotonic() >= self.patient_until

    def stop_from_inside(self, until: float) -> None:
        """Act as if SIGTERM had arrived now, also for the child. This task has time to save until
        `until`, by the monotonic clock.
        """
        self.patient_until = until
        self._signal_arrived(signal.SIGTERM, None)

    def wake(self) -> None:
        """Wake the event loop; any thread may call this."""
        with contextlib.suppress(OSError):  # the buffer is full, so the loop wakes anyway
            self.writer.send(b"\0")

    def drain(self) -> None:
        """Discard the pending wake-up bytes."""
        with contextlib.suppress(OSError):
            while self.reader.recv(4096):
                pass


TICKS = os.sysconf("SC_CLK_TCK")
Process = collections.namedtuple("Process", "pid name state parent group cpu_s")


def _visible_processes() -> list[Process]:
    """Return the processes that this container can see in /proc, without those that have ended."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as source:
                name, _, rest = source.read().partition("(")[2].rpartition(")")
        except OSError:
            continue
        fields = rest.split()
        with contextlib.suppress(ValueError, IndexError):  # of a kernel that tells less
            state, parent, group = fields[:3]
            cpu_s = (int(fields[11]) + int(fields[12])) / TICKS
            if state not in "ZX":
                found.append(Process(int(pid), name, state, int(parent), int(group), cpu_s))
    return found


def descendants() -> list[Process]:
    """Return all processes below this one, at every depth, sorted by process id."""
    families: dict[int, list[Process]] = {}
    for process in _visible_processes():
        families.setdefault(process.parent, []).append(process)
    found = list(families.get(os.getpid(), ()))
    for process in found:  # which grows meanwhile
        found += families.get(process.pid, ())
    return sorted(found)


def oom_kills(paths: Sequence[str] = OOM_COUNTS) -> int:
    """Return how many processes of this container the kernel has killed because memory was short; 0
    if the container does not see its control group. A container without a group of its own sees the
    count of its node.
    """
    for path in paths:
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as source:
            for line in source:
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count)
    return 0


def _load_prctl() -> Any:
    try:
        import ctypes

        return ctypes.CDLL(None).prctl
    except Exception:  # noqa: BLE001  (also MemoryError, where SELinux forbids what ctypes needs)
        return None


def run(
    argv: Sequence[str], timeout_s: float, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a program without input, and wait for its end. `stdout` of the result has the bytes of
    both stdout and stderr.

    Raises:
        OSError: The program cannot be run.
        subprocess.TimeoutExpired: The program was ended after `timeout_s`.
    """
    none, both = subprocess.DEVNULL, subprocess.STDOUT
    pipe = subprocess.PIPE
    return subprocess.run(argv, env=env, stdin=none, stdout=pipe, stderr=both, timeout=timeout_s)


def argv_of(command: str | Sequence[str], path: str | None) -> list[str]:
    """Return the argument list to execute: a string is run by bash with `pipefail`; a list is
    returned as it is. `path` is the PATH in which bash is looked for.

    Every container has bash, because YARN starts each container with it.
    """
    if not isinstance(command, str):
        return list(command)
    argv = [shutil.which("bash", path=path) or "/bin/bash", "-o", "pipefail"]
    return argv + ["-c", command]


def is_shell(command: str | Sequence[str], path: str | None, cwd: str) -> bool:
    """Return whether a command runs in a shell: it is a string, starts with the name of a shell, or
    is a shell script. `path` is the command's PATH, `cwd` the directory in which it starts.

    A shell whose program was ended by signal n exits with status 128 + n.
    """
    if isinstance(command, str):
        return True
    names, program = [command[0]], os.path.join(cwd, command[0])
    if "/" not in command[0]:
        program = shutil.which(command[0], path=path) or program
    with contextlib.suppress(OSError, ValueError), open(program, "rb") as source:
        first = source.readline(200)
        names += first[2:].decode("latin-1").split() if first.startswith(b"#!") else []
    return any(os.path.basename(name) in SHELLS for name in names)


class Child:
    """The command, which runs as a child process from the creation of this object on.

    Raises:
        BootstrapProblem: The command cannot be started.
    """

    def __init__(
        self,
        command: str | Sequence[str],
        env: Mapping[str, str],
        nofile: tuple[int, int] | None = None,
        cwd: str | None = None,
    ) -> None:
        """Start the command in `cwd`; `nofile` is its limit of open files, as (soft, hard)."""
        argv = argv_of(command, env.get("PATH"))
        prctl = _load_prctl()
        if prctl:
            # this process reaps the command's orphans, instead of process 1 of the container
            prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

        self._guard = _start_guard(env.get("PATH", ""))
        told = self._guard.stdin.fileno() if self._guard and self._guard.stdin else None

        def prepare() -> None:
            os.setpgid(0, 0)
            if told is not None:
                with contextlib.suppress(OSError):  # the command runs without a guard, too
                    # which has the group before the command starts
                    os.write(told, b"%d\n" % os.getpid())
            if nofile:
                resource.setrlimit(resource.RLIMIT_NOFILE, nofile)

        try:
            self.process = subprocess.Popen(
                argv, env=dict(env), stdin=subprocess.DEVNULL, preexec_fn=prepare, cwd=cwd
            )
        except (OSError, ValueError, subprocess.SubprocessError) as err:  # the last: of `prepare`
            _end_process(self._guard)
            raise _cannot_start(argv, err, env.get("PATH")) from err
        self.group = self.process.pid
        self.guard = self._guard.pid if self._guard else 0
        self.code: int | None = None
        self.over = False  # the whole process group has ended
        self.kill_at: float | None = None
        self.ended_at = 0.0  # when the command itself had ended
        self.left: list[str] = []  # the processes that it has left in the background

    def send(self, number: int) -> None:
        """Send a signal to the command's process group."""
        with contextlib.suppress(OSError):
            if not self.over:
                os.killpg(self.group, number)

    def stop(self, now: float, grace_s: float, number: int = signal.SIGTERM) -> None:
        """Send a signal (0: none) to the process group, and have `poll` send SIGKILL after
        `grace_s`. Do nothing if the command is being stopped already.

        SIGTERM is not enough: MultiWorkerMirroredStrategy ignores it.
        """
        if self.kill_at is None:
            self.kill_at = now + grace_s
            if number:
                self.send(number)

    def spare(self, until: float) -> None:
        """Postpone the SIGKILL of a command that is being stopped to `until`, if that is later."""
        if self.kill_at is not None:
            self.kill_at = max(self.kill_at, until)

    def poll(self, now: float) -> bool:
        """Reap ended processes, and send SIGKILL if it is due. Return True once the command's whole
        process group has ended, or only zombies can be left of it.

        When the command itself has ended, the processes that it left are stopped: half a second
        later if it succeeded, else at once.
        """
        while not self.over:
            try:
                # process 1 of a container also gets the orphans of other processes
                pid, status = os.waitpid(-1, os.WNOHANG)
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
            # A second after SIGKILL only zombies remain, which their own parents have to reap.
            killed = self.kill_at is not None and now > self.kill_at + 1
            self.over = killed or not self._group_lives()
            self.ended_at = self.ended_at or now
            if self.kill_at is None and not self.code:
                late = now >= self.ended_at + LEFT_S
                if self.over or late:
                    with contextlib.suppress(OSError):  # there are too many open files
                        self.left = self._remaining_processes()
                if not late:
                    return self.over
            if not self.over:
                self.stop(now, LEFTOVER_GRACE_S)
        return self.over

    def _remaining_processes(self) -> list[str]:
        """Return a description of each process that the command has left: the processes of its
        group, and orphans of other groups.
        """
        me, my_group, known = os.getpid(), os.getpgrp(), (self.group, self.guard)
        return [
            f"{untrusted.clean_text(p.name)} (process {p.pid})"
            for p in _visible_processes()
            if p.group == self.group or (p.parent == me and p.group != my_group)
            if p.pid not in known
        ]

    def _group_lives(self) -> bool:
        try:
            os.killpg(self.group, 0)
        except OSError as err:
            return err.errno == errno.EPERM
        return True

    def close(self) -> None:
        """Kill what remains of the process group."""
        self.send(signal.SIGKILL)
        _end_process(self.process)
        _end_process(self._guard)


def _start_guard(path: str) -> subprocess.Popen[bytes] | None:
    """Start a shell that kills the command's process group when this process dies; None if there is
    no /bin/sh.

    PR_SET_PDEATHSIG would apply to the child alone, not to the child's children.
    """
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


def _end_process(process: subprocess.Popen[bytes] | None) -> None:
    if process and process.returncode is None:
        process.kill()
        process.wait()
    if process and process.stdin:
        process.stdin.close()


def _cannot_start(argv: Sequence[str], err: Exception, path: str | None) -> BootstrapProblem:
    name = argv[0]
    found = name if "/" in name else shutil.which(name, path=path)
    if isinstance(err, FileNotFoundError) and not (found and os.path.exists(found)):
        hint = ""
        if name == "python" and shutil.which("python3", path=path):
            hint = "; this image has python3"
        elif " " in name:
            hint = "; it is one word, with blanks: write the words without quotes around them"
        elif "$" in (path or ""):
            hint = f"; its PATH is {path}, as `env` has it: nothing expands the $ in it"
        text = f"the command {name!r} was not found in the container{hint}"
        return BootstrapProblem(text, "command-not-found")
    why = getattr(err, "strerror", None) or str(err)
    if isinstance(err, FileNotFoundError):
        why = "the interpreter in its first line does not exist"
    text = f"the command {name!r} could not be executed: {why}"
    return BootstrapProblem(text, "not-executable")
