"""Locks between processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from submit_tf_job import waiting
from submit_tf_job.errors import SandboxError

__all__ = ["file_lock", "reserve"]


def reserve(what: str) -> contextlib.AbstractContextManager[object] | None:
    """Reserve a name among all processes of this machine, of any user; the kernel releases it when
    the process dies.

    The lock is an abstract socket: it has no file that could remain or belong to another user, and
    belongs to the network namespace as ports and addresses do.

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
def file_lock(
    path: Path, timeout_s: float, on_wait: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Hold an exclusive lock on a file while the body runs; the kernel releases it when the process
    dies.

    Args:
        path: The lock file; created if missing. The body may remove it.
        timeout_s: Seconds to wait for another holder.
        on_wait: Called once if another process holds the lock.

    Raises:
        SandboxError: Another process still holds the lock after `timeout_s`.
    """
    for number in waiting.SANDBOX_IS_UNLOCKED.attempts(within_s=timeout_s):
        with _open(path) as handle:
            if _try(handle, path):
                yield
                return
        if not number:
            on_wait()
    raise SandboxError(
        f"another process has held {path} for {timeout_s:.0f} s",
        hint="wait for it to end, or end it, and try again",
    )


def _open(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("w")
    except OSError as error:
        raise SandboxError(
            f"{path} cannot be written: {error.strerror}", hint="is it another user's?"
        ) from None


def _try(handle: IO[str], path: Path) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The last holder may have removed the file; then this lock excludes no process.
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False
