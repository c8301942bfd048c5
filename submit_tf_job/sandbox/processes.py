"""Start, recognise and end the processes of sandboxes, and no other processes; and take locks
against other processes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from submit_tf_job import waiting
from submit_tf_job.errors import SandboxError

_PROC = Path("/proc")
_SBIN = ("/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/lib/mit/sbin")

# The shell ends at once, so that the daemon is not a child of the caller: it leaves no zombie in a
# long-lived caller, and keeps no pipe open.
_LAUNCH_S = 120  # of the shell; a machine may stand still
_LAUNCH = 'umask 022; cd "$1" || exit 1; log=$2; shift 2; "$@" </dev/null >>"$log" 2>&1 & echo $!'


@dataclass(frozen=True)
class Process:
    """A process, identified by PID and start time, because PIDs are reused: `start_ticks` is field
    22 of /proc/<pid>/stat.
    """

    pid: int
    start_ticks: int


@dataclass(frozen=True)
class _Stat:
    state: str
    parent: int
    session: int
    terminal: int
    start_ticks: int


def _read_stat(pid: int) -> _Stat | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The second field is the program's name in brackets, and may itself contain brackets.
    fields = text[text.rfind(")") + 2 :].split()
    if len(fields) < 20:
        return None
    return _Stat(fields[0], int(fields[1]), int(fields[3]), int(fields[4]), int(fields[19]))


def is_alive(process: Process) -> bool:
    """Return whether the process still exists: the PID has the same start time, and is not a
    zombie.
    """
    return _identify_process(process.pid) == process


def _identify_process(pid: int) -> Process | None:
    stat = _read_stat(pid)
    if stat is None or stat.state in ("Z", "X"):
        return None
    return Process(pid, stat.start_ticks)


def path_with_sbin(environ: Mapping[str, str]) -> str:
    """Return the caller's PATH, extended by the directories of root's programs, which are missing
    in the PATH of many users.
    """
    return os.pathsep.join([environ.get("PATH") or os.defpath, *_SBIN])


def find_program(name: str, environ: Mapping[str, str], why: str, hint: str) -> str:
    """Return the path of a program.

    Args:
        name: The program's name.
        environ: Environment with PATH.
        why: For what the program is needed.
        hint: How to install the program.

    Raises:
        SandboxError: The program is missing.
    """
    found = shutil.which(name, path=path_with_sbin(environ))
    if found is None:
        raise SandboxError(f"{name} was not found; {why}", hint=hint)
    return found


def run(
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    cwd: Path | None = None,
    stdin: str = "",
    timeout_s: float = 300.0,
) -> subprocess.CompletedProcess[str]:
    """Run a program until it ends; return its exit status, whatever it is, and its output.

    Raises:
        SandboxError: The program could not be started, or did not end in time.
    """
    try:
        return subprocess.run(
            argv,
            cwd=cwd,
            env=dict(environ),
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxError(f"{argv[0]} could not be run: {error}") from None


def call(
    argv: Sequence[str], environ: Mapping[str, str], *, cwd: Path | None = None, stdin: str = ""
) -> str:
    """Run a program until it ends; return its output.

    Raises:
        SandboxError: The program fails, or does not end in time; the message has the first words of
            the command.
    """
    done = run(argv, environ, cwd=cwd, stdin=stdin)
    if done.returncode != 0:
        raise SandboxError(
            f"{' '.join(argv[:2])} failed (exit status {done.returncode}): "
            f"{(done.stderr or done.stdout).strip()}"
        )
    return done.stdout


def launch(argv: Sequence[str], environ: Mapping[str, str], cwd: Path, log: Path) -> Process:
    """Start a daemon in a separate session, and append its output to a log file.

    Raises:
        SandboxError: The shell that starts it failed, or took longer than two minutes.
    """
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", _LAUNCH, "sh", str(cwd), str(log), *argv],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LAUNCH_S,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SandboxError(f"could not start {argv[0]} within {_LAUNCH_S} s") from None
    if done.returncode != 0 or not done.stdout.strip().isdigit():
        raise SandboxError(f"could not start {argv[0]}: {done.stderr.strip()}")
    pid = int(done.stdout)
    # A process that has already ended has no start time, and so counts as dead; its log has the
    # reason.
    return _identify_process(pid) or Process(pid, 0)


def marker(home: Path) -> str:
    """Return the argument that marks the command lines of all daemons of a sandbox."""
    return f"-Dsubmit_tf_job.sandbox={home}"


def marked_processes(home: Path, mains: Iterable[str]) -> dict[Process, str]:
    """Find the daemons of a sandbox by their command line, even without a state file.

    Args:
        home: Directory of the sandbox.
        mains: Main classes of daemons, or their programs.

    Returns:
        Process -> main class.
    """
    found: dict[Process, str] = {}
    mark = marker(home).encode()
    for process in _all_processes():
        argv = _read_proc(process, "cmdline").split(b"\0")
        main = next((main for main in mains if main.encode() in argv), None)
        if main and mark in argv:
            found[process] = main
    return found


def named_processes(name: str, needle: str) -> list[Process]:
    """Find processes by the beginning of their name in /proc/<pid>/comm, which has at most 15
    characters, and by a text that their command line contains.
    """
    return [
        process
        for process in _all_processes()
        if _read_proc(process, "comm").startswith(name.encode())
        and needle.encode() in _read_proc(process, "cmdline")
    ]


def group_members(group: str) -> list[Process]:
    """Find the processes in a control group and in the groups below it, in each hierarchy of
    control groups.
    """
    inside = re.compile(rb":/%b(/|$)" % re.escape(group).encode(), re.MULTILINE)
    return [process for process in _all_processes() if inside.search(_read_proc(process, "cgroup"))]


def container_processes(local_dir: Path) -> list[Process]:
    """Find the processes of containers that a NodeManager with this local directory launched.

    A container of DefaultContainerExecutor is a separate session and outlives its NodeManager. Its
    processes are identified by LOCAL_DIRS in their environment, or by their session.
    """
    processes = {process.pid: process for process in _all_processes()}
    stats = {pid: stat for pid in processes if (stat := _read_stat(pid))}
    spared = _ancestors_of(os.getpid(), stats)
    launched = {
        pid for pid in stats if _has_local_dir(_read_proc(processes[pid], "environ"), local_dir)
    }
    sessions = {stats[pid].session for pid in launched}
    same_session = {
        pid for pid, stat in stats.items() if stat.session in sessions and stat.terminal == 0
    }
    return [processes[pid] for pid in sorted((launched | same_session) - spared)]


def _has_local_dir(environ: bytes, local_dir: Path) -> bool:
    entries = environ.split(b"\0")
    return any(
        entry.startswith(b"LOCAL_DIRS=" + str(local_dir).encode() + b"/") for entry in entries
    ) and any(entry.startswith(b"CONTAINER_ID=") for entry in entries)


def _ancestors_of(pid: int, stats: Mapping[int, _Stat]) -> set[int]:
    found = set()
    while pid in stats and pid not in found:
        found.add(pid)
        pid = stats[pid].parent
    return found


def _all_processes() -> Iterable[Process]:
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (process := _identify_process(int(entry.name))):
            yield process


def _read_proc(process: Process, name: str) -> bytes:
    try:
        return (_PROC / str(process.pid) / name).read_bytes()
    except OSError:
        # Ended, or another user's, and so not a process of this sandbox.
        return b""


def end(processes: Iterable[Process], grace_s: float) -> None:
    """End processes: send SIGTERM, wait, send SIGKILL to the rest, and wait until all have ended.

    Args:
        processes: The processes; those that have ended, or whose PID now belongs to another
            process, are skipped.
        grace_s: Seconds between SIGTERM and SIGKILL; 0 for SIGKILL at once.

    Raises:
        SandboxError: A process survives SIGKILL for ten seconds.
    """
    left = list(processes)
    if grace_s > 0:
        left = _signal_and_wait(left, signal.SIGTERM, grace_s)
    left = _signal_and_wait(left, signal.SIGKILL, None)
    if left:
        raise SandboxError(
            f"could not end the processes {', '.join(str(process.pid) for process in left)}"
        )


def _signal_and_wait(
    processes: list[Process], number: signal.Signals, timeout_s: float | None
) -> list[Process]:
    left = [process for process in processes if is_alive(process)]
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
    for _ in waiting.SANDBOX_PROCESSES_HAVE_ENDED.attempts(within_s=timeout_s):
        left = [process for process in left if is_alive(process)]
        if not left:
            break
    return left


# --- locks between processes ---


def reserve(what: str) -> contextlib.AbstractContextManager[object] | None:
    """Reserve a name among all processes of this machine, of every user; the kernel releases the
    name when the process dies.

    The lock is an abstract socket. So there is no file that could be left over or belong to another
    user; and the lock belongs to the network namespace, like ports and addresses.

    Args:
        what: The name.

    Returns:
        A context manager that releases the name at its exit; None if another process has it.
    """
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        holder.bind(f"\0submit_tf_job.sandbox.{what}")
    except OSError:
        holder.close()
        return None
    return contextlib.closing(holder)


@contextlib.contextmanager
def lock(
    directory: Path, timeout_s: float, on_wait: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Prevent other processes from making or changing a directory while the `with` block runs.

    Args:
        directory: The directory, which need not exist.
        timeout_s: Seconds to wait until another process releases the lock.
        on_wait: Called once if another process holds the lock.

    Raises:
        SandboxError: Another process still holds the lock after `timeout_s`, or the directory's
            parent cannot be written.
    """
    with contextlib.suppress(OSError):
        directory.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(directory.parent, os.W_OK):
        raise SandboxError(f"{directory.parent} cannot be written", hint="is it another user's?")
    # The name of an abstract socket has at most 107 bytes.
    name = hashlib.sha256(str(directory).encode()).hexdigest()
    for number in waiting.SANDBOX_IS_UNLOCKED.attempts(within_s=timeout_s):
        if (held := reserve(name)) is not None:
            with held:
                yield
            return
        if not number:
            on_wait()
    raise SandboxError(
        f"another process has worked on {directory} for {timeout_s:.0f} s",
        hint="wait for it to end, or end it, and try again",
    )
