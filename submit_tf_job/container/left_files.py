"""Files that a program leaves in its working directory, which YARN deletes with the container."""

from __future__ import annotations

import glob
import os
import shlex
from collections.abc import Iterable

MOST = 20000  # entries that are looked at, so that a data set in the directory costs no time
NAMED = 3
# made by the bootstrap, by Python, or by tools for themselves
_NOT_THE_PROGRAMS = ("home", "hadoop-conf", "tfjob-", "__pycache__")
_UNITS = ("B", "kB", "MB", "GB", "TB")


def is_the_programs(name: str) -> bool:
    """Return whether a file or directory of this name was made by the program, and not by the
    bootstrap.
    """
    return not name.startswith((".",) + _NOT_THE_PROGRAMS)


def files_below(directory: str, without: Iterable[str] = ()) -> dict[str, int]:
    """Return path → size of the files below a directory, without hidden files and those of the
    bootstrap.

    Links are left out: they lead to files that YARN keeps for the container. At most `MOST` entries
    are looked at.

    Args:
        directory: The directory.
        without: Directories and files that are skipped, such as those of outputs.
    """
    found: dict[str, int] = {}
    seen, left_out = 0, set(filter(None, map(_identity_of, without)))
    for folder, folders, names in os.walk(directory):
        folders[:] = [
            name
            for name in folders
            if is_the_programs(name) and _identity_of(os.path.join(folder, name)) not in left_out
        ]
        seen += len(folders) + len(names)
        if seen > MOST:
            break
        for name in names:
            path = os.path.join(folder, name)
            if name.startswith((".", "tfjob-")) or os.path.islink(path):
                continue
            try:
                status = os.stat(path)
            except OSError:
                continue
            if (status.st_dev, status.st_ino) not in left_out:
                found[os.path.relpath(path, directory)] = status.st_size
    return found


def _identity_of(path: str) -> tuple[int, int] | None:
    """Return device and inode of a path; None if it does not exist. In a deep directory
    `os.path.realpath` takes seconds.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def sentence(task: str, before: Iterable[str], after: dict[str, int]) -> str:
    """Return a sentence about the files that a task has left, the largest first; "" if there are
    none.

    Args:
        task: The task's name.
        before: The files that existed when the task's command started.
        after: Path → size of the files at the end of the command.
    """
    known = set(before)
    new = {path: size for path, size in after.items() if size and path not in known}
    if not new:
        return ""
    largest = sorted(new, key=lambda path: (-new[path], path))
    named = [f"{path!r} ({_size_text(new[path])})" for path in largest[:NAMED]]
    if len(largest) > NAMED:
        rest = sum(new[path] for path in largest[NAMED:])
        named.append(f"{len(largest) - NAMED} more ({_size_text(rest)})")
    listed = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
    return (
        f"{task} left {listed} in its working directory, which is deleted with the container; "
        f"`run --keep {_keep_pattern(largest[0])}`, or `collect` of an output, stores it"
    )


def _keep_pattern(path: str) -> str:
    """Return the argument of `run --keep` for a file: its path, or the top directory that contains
    it.
    """
    return shlex.quote(glob.escape(path.split(os.sep)[0]))


def _size_text(size: float) -> str:
    unit = 0
    while size >= 999.5 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {_UNITS[unit]}"
