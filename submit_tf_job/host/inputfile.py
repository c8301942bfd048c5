"""Read files that a user names: up to a limit, and without waiting for a FIFO."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

LARGEST = 64 * 1024 * 1024
# A shell's <(command) is a pipe of this process whose other end is open.
_OWN_DESCRIPTORS = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")


@contextmanager
def open_input(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading. Refuse directories, devices and named FIFOs; allow /dev/null and a
    shell's `<(command)`.

    Raises:
        OSError: It cannot be opened, or is refused; `strerror` has the reason.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        refuse_special(path, os.fstat(descriptor))
        os.set_blocking(descriptor, True)
    except OSError:
        os.close(descriptor)
        raise
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor has no path
        yield file


def read_input(path: Path, limit: int = LARGEST) -> bytes:
    """Return at most the first `limit` bytes of a file; see `open_input`.

    Raises:
        OSError: It cannot be read.
    """
    with open_input(path) as file:
        return file.read(limit)


def refuse_special(path: Path, found: os.stat_result) -> None:
    """Raise OSError for a directory, a device, a socket or a named FIFO.

    Args:
        path: The path.
        found: Its status.
    """
    mode = found.st_mode
    own = str(path).startswith(_OWN_DESCRIPTORS)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(0, "is a directory", str(path))
    if stat.S_ISFIFO(mode) and not own:
        raise OSError(0, "is a FIFO, and a file is needed", str(path))
    if (
        stat.S_ISBLK(mode)
        or stat.S_ISSOCK(mode)
        or (stat.S_ISCHR(mode) and not own and found.st_rdev != _null())
    ):
        raise OSError(0, "is a device or a socket, and a file is needed", str(path))


def reason(error: Exception) -> str:
    """Return the reason of a failed read, without the path."""
    text = str(getattr(error, "strerror", None) or error)
    return f"{text[:1].lower()}{text[1:]}"


def _null() -> int:
    return os.stat(os.devnull).st_rdev  # noqa: PTH116 - a constant of the system
