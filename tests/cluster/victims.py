"""Find the processes of a job on the sandbox, to kill them."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.conftest import processes_of


def command_of(job: str, task: str, words: str) -> int:
    """Find a process of a task's command."""
    for pid, command in processes_of(job).items():
        environ = (Path("/proc") / str(pid) / "environ").read_bytes().split(b"\0")
        if f"TFJOB_INSTANCE={task}".encode() in environ and command.startswith(words):
            return pid
    raise AssertionError(f"no {words} of {task} in {processes_of(job)}")


def application_master(job: str) -> int:
    """Find the ApplicationMaster of a job."""
    return next(
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit()
        and f"-service_name\0{job}\0".encode() in _cmdline(entry)
        and b"ServiceMaster" in _cmdline(entry)
        and b"java" in _cmdline(entry)[:80]
    )


def _cmdline(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""
