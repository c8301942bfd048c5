"""Locks between processes: one per file, and one machine-wide per block of ports."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from submit_tf_job.errors import SandboxError

__all__ = ["file_lock"]


@contextlib.contextmanager
def file_lock(path: Path, timeout_s: float, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold an exclusive lock on a file while the body runs; the kernel drops it when the process dies.

    Args:
        path: The lock file; made if missing, and left in place (removing it would let two processes lock different files).
        timeout_s: How long to wait for another holder.
        waiting: Called once if another process holds the lock.

    Raises:
        SandboxError: when another process still holds the lock after `timeout_s`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + timeout_s
    told = False
    with path.open("w") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise SandboxError(
                        f"another process has held {path} for {timeout_s:.0f} s", hint="wait for it to end, or end it, and try again"
                    ) from None
                if not told:
                    waiting()
                    told = True
                time.sleep(0.1)
        yield
